package server

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/server/limit"
)

// recount is how long a count of tasks is believed.
const recount = 10 * time.Second

// quotas keep tenants from holding more tasks than they may. A count is what the store said at most recount ago and the
// inserts that this server made since, so that a tenant passes its limit by what other servers insert in that time. What is
// deleted makes room after that time.
type quotas struct {
	store backend.Store

	mu      sync.Mutex
	tenants map[string]*tenantTasks
	cleaned time.Time
}

// tenantTasks is the count of a tenant.
type tenantTasks struct {
	counting sync.Mutex
	counted  atomic.Int64 // when, in Unix nanoseconds; 0: not yet
	stored   atomic.Int64
	inserted atomic.Int64 // since
}

func newQuotas(store backend.Store) *quotas {
	return &quotas{store: store, tenants: make(map[string]*tenantTasks)}
}

// mayInsert returns nil, or an ErrTasks for a Save that would insert a task into a tenant that holds as many as it, or the
// principal, may. inserted must be called after one that did.
func (q *quotas) mayInsert(ctx context.Context, c *call, req *backend.SaveRequest) (inserted func(), err error) {
	most, scope := c.mostTasks()
	if most == 0 || req.Task == nil || req.Pre.Condition != backend.Absent && req.Pre.Condition != backend.Any {
		return func() {}, nil
	}
	t := q.tenant(req.Key.Tenant)
	if err := q.count(ctx, req.Key.Tenant, t); err != nil {
		return nil, err
	}
	if t.stored.Load()+t.inserted.Load() < most {
		return func() { t.inserted.Add(1) }, nil
	}
	// What is there is no insert, and neither is the retry of one whose reply was lost.
	_, err = q.store.Get(ctx, &backend.GetRequest{Key: req.Key, Owner: req.Owner, Extent: backend.Extent{StateOnly: true}})
	if errors.Is(err, backend.ErrTaskNotFound) {
		err = limit.Refuse(limit.ErrTasks, scope, "tasks", "the tenant holds as many tasks as it may", 0)
	}
	return func() {}, err
}

// mostTasks is how many tasks the tenant of a call may hold, and whose limit that is; 0 is any number.
func (c *call) mostTasks() (int64, limit.Scope) {
	most, scope := c.tenantLimits.Tasks, limit.OfTenant
	if c.session != nil {
		if own := c.session.Principal.Limits.Tasks; own > 0 && (most == 0 || own < most) {
			most, scope = own, limit.OfPrincipal
		}
	}
	return most, scope
}

func (q *quotas) tenant(name string) *tenantTasks {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	if now.Sub(q.cleaned) >= recount {
		q.cleaned = now
		for name, t := range q.tenants {
			if now.UnixNano()-t.counted.Load() >= 2*int64(recount) {
				delete(q.tenants, name)
			}
		}
	}
	t := q.tenants[name]
	if t == nil {
		t = &tenantTasks{}
		q.tenants[name] = t
	}
	return t
}

// count counts the tasks of a tenant if that was not done lately. Whoever comes while another counts takes the count before.
func (q *quotas) count(ctx context.Context, tenant string, t *tenantTasks) error {
	counted := t.counted.Load()
	switch {
	case time.Now().UnixNano()-counted < int64(recount):
		return nil
	case counted == 0:
		t.counting.Lock()
	case !t.counting.TryLock():
		return nil
	}
	defer t.counting.Unlock()
	if t.counted.Load() != counted {
		return nil
	}
	began, before := time.Now(), t.inserted.Load()
	res, err := q.store.List(ctx, &backend.ListRequest{Tenant: tenant, Size: 1, MaxBytes: 1, Extent: backend.Extent{StateOnly: true}})
	if err != nil {
		return err
	}
	t.stored.Store(int64(res.Total))
	t.inserted.Add(-before) // those are in the count; some that came meanwhile may be, too
	t.counted.Store(began.UnixNano())
	return nil
}
