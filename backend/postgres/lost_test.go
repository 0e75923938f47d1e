package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/proto"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
	"github.com/a2a-taskstore/taskstore/backend/postgres"
	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// TestLostReplies cuts the connection between a commit and its reply: the caller hears of success, once, and what it asked
// for was done once.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	key := backend.Key{Tenant: "t", TaskID: "id"}
	claim := backend.ClaimKey{Tenant: "t", Key: "k"}
	atOne := backend.Precondition{Condition: backend.AtVersion, Version: 1}
	saved := func(version, seq int64) func(context.Context, backend.Store, *backend.SaveRequest) error {
		return func(ctx context.Context, s backend.Store, req *backend.SaveRequest) error {
			res, err := s.Save(ctx, req)
			if err == nil && (res.Version != version || res.Seq != seq || res.Replayed) {
				err = fmt.Errorf("unexpected result %+v", res)
			}
			return err
		}
	}
	change := func(d document.Delta, pre backend.Precondition) *backend.SaveRequest {
		d.MaxHistory = -1
		return &backend.SaveRequest{
			Key: key, Owner: backend.OwnerOf("o"), Delta: &d, Pre: pre, WriteID: "w2",
			Events: []backend.EventInput{{Event: statusEvent(t, "id")}},
		}
	}
	status := document.Delta{Status: &document.Status{State: 2, Bytes: []byte{8, 2}}}
	appending := func(writeID string) func(context.Context, backend.Store) error {
		return func(ctx context.Context, s backend.Store) error {
			res, err := s.AppendEvents(ctx, &backend.AppendRequest{Key: key, Events: []document.Event{statusEvent(t, "id")}, WriteID: writeID})
			if err == nil && (res != backend.AppendResult{FirstSeq: 2, LastSeq: 2, Version: 1}) {
				err = fmt.Errorf("unexpected result %+v", res)
			}
			return err
		}
	}
	claiming := func(ctx context.Context, s backend.Store) error {
		res, err := s.ClaimKey(ctx, &backend.ClaimRequest{
			Key: claim, MessageID: "m", TaskID: "id", Token: "x", Lease: time.Minute, TTL: time.Hour,
		})
		if err == nil && res.Outcome != backend.Claimed {
			err = fmt.Errorf("unexpected result %+v", res)
		}
		return err
	}
	for _, tc := range []struct {
		name string
		// exists saves the task, and claims the key, before.
		exists bool
		run    func(context.Context, backend.Store) error
		want   backend.Head
	}{
		{"insert", false, func(ctx context.Context, s backend.Store) error {
			return saved(1, 1)(ctx, s, save(t, "id", working, backend.Precondition{}))
		}, backend.Head{Incarnation: 1, LastSeq: 1, Version: 1}},
		{"update at a version", true, func(ctx context.Context, s backend.Store) error {
			return saved(2, 2)(ctx, s, save(t, "id", working, atOne))
		}, backend.Head{Incarnation: 1, LastSeq: 2, Version: 2}},
		{"update of any", true, func(ctx context.Context, s backend.Store) error {
			return saved(2, 2)(ctx, s, save(t, "id", working, anyState))
		}, backend.Head{Incarnation: 1, LastSeq: 2, Version: 2}},
		{"to a terminal state", true, func(ctx context.Context, s backend.Store) error {
			return saved(2, 2)(ctx, s, save(t, "id", pb.TaskState_TASK_STATE_COMPLETED, backend.Precondition{Condition: backend.NotTerminal}))
		}, backend.Head{Incarnation: 1, LastSeq: 2, Version: 2}},
		{"binding a claim", true, func(ctx context.Context, s backend.Store) error {
			req := save(t, "id", working, atOne)
			req.Owner, req.Claim = backend.Owner{}, &backend.ClaimRef{Key: "k", Token: "x"}
			return saved(2, 2)(ctx, s, req)
		}, backend.Head{Incarnation: 1, LastSeq: 2, Version: 2}},
		{"delta", true, func(ctx context.Context, s backend.Store) error {
			return saved(2, 2)(ctx, s, change(status, anyState))
		}, backend.Head{Incarnation: 1, LastSeq: 2, Version: 2}},
		{"append", true, appending("w2"), backend.Head{Incarnation: 1, LastSeq: 2, Version: 1}},
		{"append without a write id", true, appending(""), backend.Head{Incarnation: 1, LastSeq: 2, Version: 1}},
		{"delete", true, func(ctx context.Context, s backend.Store) error {
			deleted, err := s.Delete(ctx, &backend.DeleteRequest{Key: key})
			if err == nil && !deleted {
				err = fmt.Errorf("not deleted")
			}
			return err
		}, backend.Head{}},
		{"claim", false, claiming, backend.Head{}},
		{"release", true, func(ctx context.Context, s backend.Store) error {
			return s.ReleaseKey(ctx, &backend.ReleaseRequest{Key: claim, Token: "x"})
		}, backend.Head{Incarnation: 1, LastSeq: 1, Version: 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dsn := database(t)
			p := newProxy(t, dsn)
			s := closing(t, open(t, postgres.Config{DSN: p.DSN, PollOnly: true}))
			direct, err := pgx.Connect(t.Context(), dsn)
			if err != nil {
				t.Fatal(err)
			}
			defer direct.Close(context.Background())
			if tc.exists {
				if _, err := s.Save(t.Context(), save(t, "id", working, anyState)); err != nil {
					t.Fatal(err)
				}
				if err := claiming(t.Context(), s); err != nil {
					t.Fatal(err)
				}
			}
			stamps := func() (sum int64) {
				err := direct.QueryRow(context.Background(), `SELECT coalesce((SELECT sum(stamp) FROM a2a_taskstore.tasks), 0)::bigint / 2
					+ coalesce((SELECT sum(stamp) FROM a2a_taskstore.claims), 0)::bigint / 2`).Scan(&sum)
				if err != nil {
					t.Error(err)
				}
				return sum
			}
			before := stamps()
			cut := p.cutInsteadOfReply(func() bool { return stamps() != before })
			if err := tc.run(t.Context(), s); err != nil {
				t.Errorf("%v (%s)", err, backend.ReasonOf(err))
			}
			if !cut() {
				t.Error("no connection was cut")
			}
			heads, err := s.Heads(t.Context(), []backend.Key{key})
			if err != nil || heads[0] != tc.want {
				t.Errorf("heads %+v, %v, want %+v", heads, err, tc.want)
			}
		})
	}
}

// TestLostReplyOfAnAppendedMessage: what an attempt whose answer was lost has left is not what it was planned on, and the
// next delta still drops the oldest messages.
func TestLostReplyOfAnAppendedMessage(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	p := newProxy(t, dsn)
	s := closing(t, open(t, postgres.Config{DSN: p.DSN, PollOnly: true}))
	task := &pb.Task{Id: "id", History: []*pb.Message{{MessageId: "1"}, {MessageId: "2"}}}
	key := backend.Key{Tenant: "t", TaskID: "id"}
	if _, err := s.Save(t.Context(), &backend.SaveRequest{Key: key, Task: parse(t, task), Pre: anyState}); err != nil {
		t.Fatal(err)
	}
	say := func(id string, keep int) {
		t.Helper()
		entry, err := proto.Marshal(&pb.Task{History: []*pb.Message{{MessageId: id}}})
		if err != nil {
			t.Fatal(err)
		}
		d := &document.Delta{History: document.List{Bytes: entry, Count: 1}, MaxHistory: keep}
		if _, err := s.Save(t.Context(), &backend.SaveRequest{Key: key, Delta: d, Pre: anyState}); err != nil {
			t.Fatal(err)
		}
	}
	say("3", -1)
	cut := p.cutInsteadOfReply(func() bool { return query[int64](t, dsn, "SELECT max(version) FROM a2a_taskstore.tasks") == 3 })
	say("4", 4)
	if !cut() {
		t.Fatal("no connection was cut")
	}
	say("5", 4)
	got, err := s.Get(t.Context(), &backend.GetRequest{Key: key, Extent: backend.All})
	if err != nil {
		t.Fatal(err)
	}
	var after pb.Task
	if err := proto.Unmarshal(got.Task, &after); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, m := range after.History {
		ids = append(ids, m.MessageId)
	}
	if want := []string{"2", "3", "4", "5"}; !slices.Equal(ids, want) {
		t.Errorf("the history is %v, want %v", ids, want)
	}
}

// TestBlackHole: the connections stay, but nothing comes through. Calls end at their deadlines, and all recovers by itself.
func TestBlackHole(t *testing.T) {
	t.Parallel()
	p := newProxy(t, database(t))
	s := closing(t, open(t, postgres.Config{DSN: p.DSN}))
	if _, err := s.Save(t.Context(), save(t, "id", working, anyState)); err != nil {
		t.Fatal(err)
	}
	p.blacken()
	endAtDeadline(t, s)
	p.pass()
	recovers(t, s, "id")
}

// TestBlackHoleWithoutDeadline: what has no deadline, such as a stream's reads and the poller's, ends all the same.
func TestBlackHoleWithoutDeadline(t *testing.T) {
	t.Parallel()
	key := backend.Key{Tenant: "t", TaskID: "id"}
	for name, call := range map[string]func(context.Context, *postgres.Store) error{
		"ReadLog": func(ctx context.Context, s *postgres.Store) error {
			_, err := s.ReadLog(ctx, &backend.ReadLogRequest{Key: key, MaxEvents: 1, MaxBytes: 1})
			return err
		},
		"Heads": func(ctx context.Context, s *postgres.Store) error {
			_, err := s.Heads(ctx, []backend.Key{key})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProxy(t, database(t))
			s := closing(t, open(t, postgres.Config{DSN: p.DSN}))
			if _, err := s.Save(t.Context(), save(t, "id", working, anyState)); err != nil {
				t.Fatal(err)
			}
			if err := call(t.Context(), s); err != nil { // on the connection that it will have again
				t.Fatal(err)
			}
			p.blacken()
			end := make(chan error, 1)
			go func() { end <- call(t.Context(), s) }()
			select {
			case err := <-end:
				if backend.ReasonOf(err) != backend.ErrUnavailable {
					t.Error(err)
				}
			case <-time.After(time.Minute):
				t.Error("it has not ended")
			}
			p.pass()
			recovers(t, s, "id")
		})
	}
}

// TestListMayTakeLong: what counts millions of rows is not taken for a database that does not answer.
func TestListMayTakeLong(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	s := closing(t, open(t, postgres.Config{DSN: dsn, PollOnly: true}))
	if _, err := s.Save(t.Context(), save(t, "id", working, anyState)); err != nil {
		t.Fatal(err)
	}
	const role = "a2a_taskstore_slow" // each row takes it longer than any other read may
	execute(t, dsn, `CREATE ROLE `+role, `GRANT USAGE ON SCHEMA a2a_taskstore TO `+role,
		`GRANT SELECT ON ALL TABLES IN SCHEMA a2a_taskstore TO `+role,
		`ALTER TABLE a2a_taskstore.tasks ENABLE ROW LEVEL SECURITY`,
		`CREATE FUNCTION slow() RETURNS boolean VOLATILE LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(16); RETURN true; END'`,
		`CREATE POLICY slow ON a2a_taskstore.tasks TO `+role+` USING (slow())`)
	defer execute(t, dsn, `DROP OWNED BY `+role, `DROP ROLE `+role)
	slow := open(t, postgres.Config{DSN: dsn + " options='-c role=" + role + "'", PollOnly: true})
	defer slow.Close()
	res, err := slow.List(t.Context(), &backend.ListRequest{Tenant: "t", Size: 1, SkipTotal: true})
	if err != nil || len(res.Rows) != 1 {
		t.Errorf("%d rows, %v", len(res.Rows), err)
	}
}

// endAtDeadline wants every kind of call to end at its deadline, unavailable or too late.
func endAtDeadline(t *testing.T, s *postgres.Store) {
	t.Helper()
	const deadline = 300 * time.Millisecond
	key := backend.Key{Tenant: "t", TaskID: "id"}
	for name, call := range map[string]func(context.Context) error{
		"Save": func(ctx context.Context) error {
			_, err := s.Save(ctx, save(t, "id", working, anyState))
			return err
		},
		"Get": func(ctx context.Context) error {
			_, err := s.Get(ctx, &backend.GetRequest{Key: key})
			return err
		},
		"List": func(ctx context.Context) error {
			_, err := s.List(ctx, &backend.ListRequest{Tenant: "t", Size: 1})
			return err
		},
		"Ping": s.Ping,
	} {
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		start := time.Now()
		err := call(ctx)
		took := time.Since(start)
		cancel()
		if err == nil || took > deadline+5*time.Second { // a loaded machine may be late; the database would be for ever
			t.Errorf("%s: %v after %v", name, err, took)
		}
		if r := backend.ReasonOf(err); r != "" && r != backend.ErrUnavailable {
			t.Errorf("%s: %s", name, r)
		}
	}
}

func recovers(t *testing.T, s *postgres.Store, id string) {
	t.Helper()
	if err := s.Ping(t.Context()); err != nil {
		t.Errorf("ping: %v", err)
	}
	res, err := s.Save(t.Context(), save(t, id, working, anyState))
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Get(t.Context(), &backend.GetRequest{Key: backend.Key{Tenant: "t", TaskID: id}})
	if err != nil || got.Version != res.Version || got.LastSeq != res.Seq {
		t.Errorf("got %+v, %v, want %+v", got, err, res)
	}
}
