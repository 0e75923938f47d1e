package a2astore

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/google/go-cmp/cmp"
)

// fixture is that of the contract: All is 2, 1, 0, 4, 3.
func fixture(t *testing.T) *Store {
	t.Helper()
	s := newStore(newFake())
	day := func(d int) *time.Time {
		at := time.Date(2025, 1, d, 0, 0, 0, 0, time.UTC)
		return &at
	}
	message := func(id string) *a2a.Message {
		return &a2a.Message{ID: id, Role: a2a.MessageRoleUser, Parts: a2a.ContentParts{a2a.NewTextPart(id)}}
	}
	for _, task := range []*a2a.Task{
		{ID: "0", ContextID: "A", Status: a2a.TaskStatus{State: a2a.TaskStateSubmitted, Timestamp: day(1)}},
		{ID: "1", ContextID: "B", Status: a2a.TaskStatus{State: a2a.TaskStateWorking, Timestamp: day(1)}},
		{ID: "2", ContextID: "A", Status: a2a.TaskStatus{State: a2a.TaskStateSubmitted, Timestamp: day(2)}},
		{ID: "3", ContextID: "B", Status: a2a.TaskStatus{State: a2a.TaskStateWorking}},
		{ID: "4", ContextID: "A", Status: a2a.TaskStatus{State: a2a.TaskStateCompleted}},
	} {
		task.History = []*a2a.Message{message("m1"), message("m2"), message("m3")}
		task.Artifacts = []*a2a.Artifact{{ID: "a", Parts: a2a.ContentParts{a2a.NewTextPart("x")}}}
		mustCreate(t, s, as(t.Context(), "alice"), task)
	}
	mustCreate(t, s, as(t.Context(), "bob"), &a2a.Task{ID: "5", ContextID: "A"})
	return s
}

func ids(tasks []*a2a.Task) string {
	var out []string
	for _, task := range tasks {
		out = append(out, string(task.ID))
	}
	return strings.Join(out, ",")
}

func TestListFilters(t *testing.T) {
	t.Parallel()
	s := fixture(t)
	after := time.Date(2025, 1, 2, 0, 0, 0, 0, time.FixedZone("", 3600))
	exact := time.Date(2025, 1, 2, 0, 0, 0, 0, time.UTC)
	tests := []struct {
		req  *a2a.ListTasksRequest
		want string
	}{
		{nil, "2,1,0,4,3"},
		{&a2a.ListTasksRequest{}, "2,1,0,4,3"},
		{&a2a.ListTasksRequest{Tenant: "ignored"}, "2,1,0,4,3"},
		{&a2a.ListTasksRequest{ContextID: "A"}, "2,0,4"},
		{&a2a.ListTasksRequest{Status: a2a.TaskStateWorking}, "1,3"},
		{&a2a.ListTasksRequest{Status: "TASK_STATE_UNSPECIFIED"}, "2,1,0,4,3"},
		{&a2a.ListTasksRequest{ContextID: "B", Status: a2a.TaskStateSubmitted}, ""},
		{&a2a.ListTasksRequest{StatusTimestampAfter: &after}, "2"},
		{&a2a.ListTasksRequest{StatusTimestampAfter: &exact}, "2"},
	}
	for _, tc := range tests {
		resp, err := s.List(as(t.Context(), "alice"), tc.req)
		if err != nil {
			t.Errorf("%+v: %v", tc.req, err)
			continue
		}
		if got := ids(resp.Tasks); got != tc.want || resp.TotalSize != len(resp.Tasks) || resp.PageSize != 50 || resp.NextPageToken != "" {
			t.Errorf("%+v: %s, %+v", tc.req, got, resp)
		}
	}
}

func TestListPages(t *testing.T) {
	t.Parallel()
	s := fixture(t)
	req := &a2a.ListTasksRequest{PageSize: 2}
	for _, want := range []string{"2,1", "0,4", "3"} {
		resp, err := s.List(as(t.Context(), "alice"), req)
		if err != nil {
			t.Fatal(err)
		}
		if got := ids(resp.Tasks); got != want || resp.TotalSize != 5 || resp.PageSize != 2 {
			t.Errorf("page %s of %d, size %d; want %s", got, resp.TotalSize, resp.PageSize, want)
		}
		req.PageToken = resp.NextPageToken
	}
	if req.PageToken != "" {
		t.Errorf("the last page has the token %q", req.PageToken)
	}
}

func TestListContent(t *testing.T) {
	t.Parallel()
	s := fixture(t)
	length := func(n int) *int { return &n }
	tests := []struct {
		req       a2a.ListTasksRequest
		history   int
		artifacts int
	}{
		{a2a.ListTasksRequest{}, 3, 0},
		{a2a.ListTasksRequest{IncludeArtifacts: true}, 3, 1},
		{a2a.ListTasksRequest{HistoryLength: length(0)}, 0, 0},
		{a2a.ListTasksRequest{HistoryLength: length(2)}, 2, 0},
		{a2a.ListTasksRequest{HistoryLength: length(math.MaxInt)}, 3, 0},
	}
	for _, tc := range tests {
		resp, err := s.List(as(t.Context(), "alice"), &tc.req)
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range resp.Tasks {
			if len(task.History) != tc.history || len(task.Artifacts) != tc.artifacts {
				t.Errorf("%+v: %d messages and %d artifacts", tc.req, len(task.History), len(task.Artifacts))
			}
		}
	}
}

func TestListErrors(t *testing.T) {
	t.Parallel()
	s := fixture(t)
	late := time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	negative := -1
	tests := []struct {
		name string
		req  a2a.ListTasksRequest
		want error
	}{
		{"page size", a2a.ListTasksRequest{PageSize: -1}, a2a.ErrInvalidRequest},
		{"page size", a2a.ListTasksRequest{PageSize: 101}, a2a.ErrInvalidRequest},
		{"state", a2a.ListTasksRequest{Status: "working"}, a2a.ErrInvalidRequest},
		{"state of a later version", a2a.ListTasksRequest{Status: "TASK_STATE_9"}, a2a.ErrInvalidRequest},
		{"time", a2a.ListTasksRequest{StatusTimestampAfter: &late}, a2a.ErrInvalidRequest},
		{"history length", a2a.ListTasksRequest{HistoryLength: &negative}, a2a.ErrInvalidRequest},
		{"context id", a2a.ListTasksRequest{ContextID: "\xff"}, a2a.ErrInvalidRequest},
		{"page token", a2a.ListTasksRequest{PageToken: "what"}, a2a.ErrParseError},
		{"page token", a2a.ListTasksRequest{PageToken: "\xff"}, a2a.ErrParseError},
	}
	for _, tc := range tests {
		if _, err := s.List(as(t.Context(), "alice"), &tc.req); true {
			wantError(t, err, tc.want)
		}
	}

	// Ids are all that keeps the tasks of anonymous users apart.
	anonymous, _ := a2asrv.NewCallContext(t.Context(), nil)
	_, err := s.List(anonymous, &a2a.ListTasksRequest{})
	wantError(t, err, a2a.ErrUnauthenticated)
}

func TestEmptyListIsNotNull(t *testing.T) {
	t.Parallel()
	resp, err := fixture(t).List(as(t.Context(), "carol"), &a2a.ListTasksRequest{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(resp)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`{"tasks":[],"totalSize":0,"pageSize":50,"nextPageToken":""}`, string(b)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
