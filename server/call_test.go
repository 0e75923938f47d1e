package server

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/a2a-taskstore/taskstore/backend"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
	"github.com/a2a-taskstore/taskstore/server/auth"
)

// TestLevels: what the server or its store is to blame for is in an ordinary log, and what callers are is not.
func TestLevels(t *testing.T) {
	t.Parallel()
	for want, errs := range map[slog.Level][]error{
		slog.LevelError: {errors.New("a bug")},
		slog.LevelWarn:  {backend.ErrUnavailable, backend.ErrBroken, backend.ErrMemoryLimit},
		slog.LevelDebug: {
			backend.ErrTaskNotFound, backend.ErrTaskTooLarge, reasonMessageTooLarge, reasonEventTooLarge, errDraining(-1), errBytes(),
			status.Error(codes.ResourceExhausted, "gRPC's own, of what is far too large"),
			status.Error(codes.Unavailable, "gRPC's own, of a caller that has left"),
		},
	} {
		for _, err := range errs {
			st := toStatus(err)
			if got := logLevel(st.status.Code(), st); got != want {
				t.Errorf("%v: %v, want %v", err, got, want)
			}
		}
	}
	if got := logLevel(codes.OK, nil); got != slog.LevelDebug {
		t.Errorf("no error: %v", got)
	}
}

// What an operator finds a call by, and what its caller was told.
func TestEveryCallHasALine(t *testing.T) {
	t.Parallel()
	token, hash := auth.NewToken()
	path := filepath.Join(t.TempDir(), "credentials.yaml")
	err := os.WriteFile(path, []byte(`principals: [{name: agents, tenants: [""], any_owner: true, access: read-only, tokens: [{hash: "`+hash.String()+`"}]}]`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	var log logBuffer
	authenticator, err := auth.Open(auth.Config{File: path, Logger: log.logger()})
	if err != nil {
		t.Fatal(err)
	}
	f := start(t, newStore(t), Config{Logger: log.logger(), Auth: authenticator})
	ctx := metadata.AppendToOutgoingContext(t.Context(), requestIDHeader, "find-me", "authorization", "Bearer "+token)
	_, err = f.List(ctx, &pb.ListRequest{})
	wantCode(t, err, codes.OK)
	_, err = f.Get(ctx, &pb.GetRequest{TaskId: "t"})
	wantCode(t, err, codes.NotFound)
	_, err = f.Save(ctx, whole(working("t")))
	wantCode(t, err, codes.PermissionDenied)
	_, err = f.Save(t.Context(), whole(working("t")))
	wantCode(t, err, codes.Unauthenticated)
	_, err = f.open(ctx, reading(head))
	wantCode(t, err, codes.NotFound)

	const found = ` request_id=find-me principal=agents peer=\S+`
	for _, want := range []string{
		`/List code=OK duration=\S+` + found + `$`,
		`/Get code=NotFound duration=\S+` + found + ` error=".+"$`,
		`/Save code=PermissionDenied duration=\S+` + found + ` error=".+"$`,
		`/Save code=Unauthenticated duration=\S+ request_id=[A-Z0-9]{26} peer=\S+ error=".+"$`,
		`/ReadEvents code=NotFound duration=\S+` + found + ` error=".+"$`,
	} {
		matched := 0
		for _, line := range log.lines("level=DEBUG msg=call") {
			if regexp.MustCompile(want).MatchString(strings.TrimSpace(line)) {
				matched++
			}
		}
		if matched != 1 {
			t.Errorf("%d lines match %s: %q", matched, want, log.lines("msg=call"))
		}
	}
}
