package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/client"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
	"github.com/a2a-taskstore/taskstore/server/auth"
	"github.com/a2a-taskstore/taskstore/server/limit"
)

// failingStore answers every Get with an error.
type failingStore struct {
	backend.Store
	get func() error
}

func (s failingStore) Get(context.Context, *backend.GetRequest) (backend.GetResult, error) {
	return backend.GetResult{}, s.get()
}

// TestErrorTable shows each reason with its code, and that the client's table is the inverse of the server's.
func TestErrorTable(t *testing.T) {
	t.Parallel()
	reasons := map[backend.Reason]struct {
		code codes.Code
		is   error
	}{
		backend.ErrInvalid:           {codes.InvalidArgument, client.ErrInvalidArgument},
		backend.ErrTaskNotFound:      {codes.NotFound, client.ErrNotFound},
		backend.ErrTaskExists:        {codes.AlreadyExists, client.ErrAlreadyExists},
		backend.ErrVersionConflict:   {codes.Aborted, client.ErrVersionConflict},
		backend.ErrBasePartsConflict: {codes.Aborted, client.ErrBasePartsConflict},
		backend.ErrSeqConflict:       {codes.Aborted, client.ErrSeqConflict},
		backend.ErrTerminalState:     {codes.FailedPrecondition, client.ErrTerminalState},
		backend.ErrContextMismatch:   {codes.FailedPrecondition, client.ErrContextMismatch},
		backend.ErrClaimLost:         {codes.FailedPrecondition, client.ErrClaimLost},
		backend.ErrClaimTaskMismatch: {codes.FailedPrecondition, client.ErrClaimTaskMismatch},
		backend.ErrKeyBound:          {codes.FailedPrecondition, client.ErrKeyBound},
		backend.ErrArtifactUnknown:   {codes.FailedPrecondition, client.ErrArtifactUnknown},
		backend.ErrArtifactAmbiguous: {codes.FailedPrecondition, client.ErrArtifactAmbiguous},
		backend.ErrSeqNotWritten:     {codes.FailedPrecondition, client.ErrSeqNotWritten},
		backend.ErrLogRange:          {codes.OutOfRange, client.ErrLogRange},
		backend.ErrTaskTooLarge:      {codes.ResourceExhausted, client.ErrTooLarge},
		reasonEventTooLarge:          {codes.ResourceExhausted, client.ErrResourceExhausted},
		reasonMessageTooLarge:        {codes.ResourceExhausted, client.ErrResourceExhausted},
		backend.ErrMemoryLimit:       {codes.ResourceExhausted, client.ErrResourceExhausted},
		backend.ErrUnavailable:       {codes.Unavailable, client.ErrUnavailable},
		backend.ErrBroken:            {codes.Unavailable, client.ErrUnavailable},
		reasonDraining:               {codes.Unavailable, client.ErrUnavailable},
		reasonConnectionAge:          {codes.Unavailable, client.ErrUnavailable},
		limit.ErrOverloaded:          {codes.ResourceExhausted, client.ErrResourceExhausted},
		limit.ErrRate:                {codes.ResourceExhausted, client.ErrResourceExhausted},
		limit.ErrStreams:             {codes.ResourceExhausted, client.ErrResourceExhausted},
		limit.ErrTasks:               {codes.ResourceExhausted, client.ErrResourceExhausted},
		limit.ErrStalled:             {codes.ResourceExhausted, client.ErrResourceExhausted},
		auth.ErrMissing:              {codes.Unauthenticated, client.ErrUnauthenticated},
		auth.ErrInvalid:              {codes.Unauthenticated, client.ErrUnauthenticated},
		auth.ErrExpired:              {codes.Unauthenticated, client.ErrUnauthenticated},
		auth.ErrTenant:               {codes.PermissionDenied, client.ErrPermissionDenied},
		auth.ErrOwnerUnset:           {codes.PermissionDenied, client.ErrPermissionDenied},
		auth.ErrReadOnly:             {codes.PermissionDenied, client.ErrPermissionDenied},
	}
	if got, want := slices.Sorted(maps.Keys(errorCodes)), slices.Sorted(maps.Keys(reasons)); !slices.Equal(got, want) {
		t.Fatalf("the table has %v, want %v", got, want)
	}
	for reason, want := range reasons {
		t.Run(string(reason), func(t *testing.T) {
			t.Parallel()
			stored := fmt.Errorf("get: %w", &backend.Error{
				Reason: reason, Field: "a.b", Detail: "some detail",
				Meta: map[string]string{"current_version": "7"}, Cause: errors.New("SELECT secret FROM /var/lib"),
			})
			f := start(t, failingStore{newStore(t), func() error { return stored }}, Config{})
			_, err := f.Get(t.Context(), &pb.GetRequest{TaskId: "t"})
			wantCode(t, err, want.code)
			if meta := wantReason(t, err, reason); meta["current_version"] != "7" {
				t.Errorf("metadata %v", meta)
			}
			if strings.Contains(fmt.Sprint(status.Convert(err).Proto()), "secret") {
				t.Errorf("the cause got out: %v", err)
			}
			if got := detail[*errdetails.RetryInfo](err) != nil; got != (want.code == codes.Unavailable && reason != backend.ErrBroken) {
				t.Errorf("retry info: %v", got)
			}
			if got := detail[*errdetails.BadRequest](err) != nil; got != (want.code == codes.InvalidArgument) {
				t.Errorf("bad request: %v", got)
			}

			c := dialClient(t, f)
			_, err = c.Get(t.Context(), &pb.GetRequest{TaskId: "t"})
			var got *client.Error
			if !errors.As(err, &got) || !errors.Is(err, want.is) || got.Reason != string(reason) || got.Code != want.code {
				t.Errorf("the client makes %#v of it, want %v", err, want.is)
			}
		})
	}
}

// dialClient connects the project's client to the server of the fixture.
func dialClient(t *testing.T, f *fixture) *client.Client {
	t.Helper()
	c, err := client.Dial("passthrough:bufconn", client.WithInsecure(), client.WithMaxAttempts(1),
		client.WithDialOptions(grpc.WithContextDialer(f.dial)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestUnknownErrors shows that what the server does not know is INTERNAL, and stays inside.
func TestUnknownErrors(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err  error
		code codes.Code
	}{
		"fault":    {errors.New("open /secret: no space"), codes.Internal},
		"canceled": {fmt.Errorf("secret: %w", context.Canceled), codes.Canceled},
		"deadline": {fmt.Errorf("secret: %w", context.DeadlineExceeded), codes.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t, failingStore{newStore(t), func() error { return test.err }}, Config{})
			_, err := f.Get(t.Context(), &pb.GetRequest{TaskId: "t"})
			wantCode(t, err, test.code)
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the text got out: %v", err)
			}
		})
	}
}

// TestStatusesAreSmall makes statuses of any texts.
func TestStatusesAreSmall(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.Custom(func(t *rapid.T) string {
			s := string(rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(t, "bytes"))
			return strings.Repeat(s, rapid.IntRange(0, 100).Draw(t, "times"))
		})
		var err error = &backend.Error{
			Reason: rapid.SampledFrom(slices.Sorted(maps.Keys(errorCodes))).Draw(t, "reason"),
			Field:  text.Draw(t, "field"), Detail: text.Draw(t, "detail"),
			Meta: map[string]string{"a": text.Draw(t, "a"), "b": text.Draw(t, "b")},
		}
		if rapid.Bool().Draw(t, "invalid") {
			var v validator
			for range rapid.IntRange(1, 20).Draw(t, "violations") {
				v.fail(text.Draw(t, "field"), "%s", text.Draw(t, "detail"))
			}
			err = v.err()
		}
		st := toStatus(err).GRPCStatus()
		if size := proto.Size(st.Proto()); size > 2<<10 {
			t.Errorf("a status of %d bytes", size)
		}
		if !utf8.ValidString(st.Message()) {
			t.Errorf("not UTF-8: %q", st.Message())
		}
		if len(st.Details()) == 0 {
			t.Error("no details")
		}
	})
}

func TestRetryInfoOfUnavailable(t *testing.T) {
	t.Parallel()
	f := start(t, failingStore{newStore(t), func() error { return backend.ErrUnavailable }}, Config{})
	_, err := f.Get(t.Context(), &pb.GetRequest{TaskId: "t"})
	wantReason(t, err, backend.ErrUnavailable)
	if d := detail[*errdetails.RetryInfo](err).GetRetryDelay().AsDuration(); d != retryDelay {
		t.Errorf("retry delay %v", d)
	}
}
