package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
	"github.com/a2a-taskstore/taskstore/backend/postgres"
)

// TestCallersComeAndGo: patient callers and callers in a hurry append to few logs, alone and in crowds, while the database
// refuses some of the writes, and the store is closed under them. Every call ends; what was reported is in the log, once, at
// the position that was reported; and what was not, at most once.
func TestCallersComeAndGo(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	execute(t, dsn, `CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF random() < 0.1 THEN
				RAISE 'try again' USING ERRCODE = '40001';
			END IF;
			RETURN NULL;
		END $$`,
		`CREATE TRIGGER fail AFTER INSERT OR UPDATE ON a2a_taskstore.tasks FOR EACH STATEMENT EXECUTE FUNCTION public.fail()`)
	s := open(t, postgres.Config{DSN: dsn, MaxConns: 5, PollOnly: true})
	const ids = 3
	type place struct {
		id  string
		seq int64
	}
	var mu sync.Mutex
	said := map[string]place{} // by write_id
	var calls sync.WaitGroup
	closing := make(chan struct{})
	call := func(caller, i int, rest time.Duration, hurried bool) bool {
		ctx, cancel := t.Context(), context.CancelFunc(func() {})
		if hurried {
			ctx, cancel = context.WithTimeout(ctx, rand.N(4*time.Millisecond))
		}
		defer cancel()
		id, writeID := fmt.Sprint("id-", rand.N(ids)), fmt.Sprint(caller, "-", i)
		start := time.Now()
		res, err := s.AppendEvents(ctx, &backend.AppendRequest{
			Key: backend.Key{Tenant: "t", TaskID: id}, Events: []document.Event{statusEvent(t, id)}, WriteID: writeID,
		})
		if took := time.Since(start); hurried && took > 10*time.Second {
			t.Errorf("a caller in a hurry was kept for %v", took)
		}
		switch {
		case err == nil:
			mu.Lock()
			said[writeID] = place{id, res.FirstSeq}
			mu.Unlock()
		case !hurried:
			select {
			case <-closing:
				return false
			default:
				t.Errorf("a patient caller hears %v", err)
			}
		}
		select {
		case <-closing:
			return ctx.Err() != nil || err == nil // until it hears that the store is closed
		case <-time.After(rand.N(rest)):
			return true
		}
	}
	for caller := range 12 {
		calls.Go(func() {
			for i := 0; call(caller, i, time.Duration(1+caller)*time.Millisecond, caller%2 == 0); i++ {
			}
		})
	}
	<-time.After(lasting(2*time.Second, time.Minute))
	close(closing)
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the store does not close")
	}
	calls.Wait()

	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	rows, err := conn.Query(t.Context(), `SELECT convert_from(t.task_id, 'UTF8'), e.seq, convert_from(e.write_id, 'UTF8')
		FROM a2a_taskstore.events e JOIN a2a_taskstore.tasks t USING (row_id) ORDER BY t.task_id, e.seq`)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]place{}
	last := place{}
	var at place
	var writeID string
	_, err = pgx.ForEachRow(rows, []any{&at.id, &at.seq, &writeID}, func() error {
		if _, twice := found[writeID]; twice {
			t.Errorf("%s was written twice", writeID)
		}
		if at.id != last.id {
			last = place{id: at.id}
		}
		if last.seq++; at.seq != last.seq {
			t.Errorf("%s has a gap before %d", at.id, at.seq)
		}
		found[writeID] = at
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for writeID, want := range said {
		if found[writeID] != want {
			t.Errorf("%s is at %+v, reported was %+v", writeID, found[writeID], want)
		}
	}
	if len(said) == 0 {
		t.Error("nothing was written")
	}
	t.Logf("%d reported, %d written", len(said), len(found))
}
