package server

import (
	"testing"
	"time"

	"github.com/a2a-taskstore/taskstore/backend"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

func TestGetWaits(t *testing.T) { eachStore(t, testGetWaits) }

func testGetWaits(t *testing.T, open opener) {
	t.Parallel()
	f := start(t, open(t), Config{})
	wait := func(newerThan int64, timeout time.Duration) func() (*pb.GetResponse, error) {
		type answer struct {
			res *pb.GetResponse
			err error
		}
		done := make(chan answer, 1)
		go func() {
			res, err := f.Get(t.Context(), &pb.GetRequest{TaskId: "t", Wait: waitFor(newerThan, timeout)})
			done <- answer{res, err}
		}()
		return func() (*pb.GetResponse, error) { a := <-done; return a.res, a.err }
	}

	_, err := wait(0, time.Millisecond)()
	wantReason(t, err, backend.ErrTaskNotFound)
	created := wait(0, time.Minute)
	f.mustSave(t, whole(working("t")))
	if res, err := created(); err != nil || res.GetVersion() != 1 {
		t.Errorf("created: %v, %v", res, err)
	}
	if res, err := wait(1, time.Millisecond)(); err != nil || res.GetVersion() != 1 {
		t.Errorf("timeout: %v, %v", res, err)
	}
	newer := wait(1, time.Minute)
	f.mustAppend(t, "t", "not newer")
	f.mustSave(t, whole(working("t")))
	if res, err := newer(); err != nil || res.GetVersion() != 2 {
		t.Errorf("newer: %v, %v", res, err)
	}
	again := wait(2, time.Minute)
	if _, err := f.Delete(t.Context(), &pb.DeleteRequest{TaskId: "t"}); err != nil {
		t.Fatal(err)
	}
	_, err = wait(2, time.Millisecond)()
	wantReason(t, err, backend.ErrTaskNotFound)
	f.mustSave(t, whole(working("t")))
	if res, err := again(); err != nil || res.GetVersion() != 3 {
		t.Errorf("created again: %v, %v", res, err)
	}
}
