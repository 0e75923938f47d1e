package a2astore

import (
	"context"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"
)

// DefaultWriteTimeout bounds a write, all attempts together.
const DefaultWriteTimeout = 15 * time.Second

// Defaults of [WithMemory].
const (
	DefaultMemoryTasks = 10_000
	DefaultMemoryBytes = 64 << 20
)

// Option configures a [Store].
type Option func(*options)

type options struct {
	authenticate taskstore.Authenticator
	tenant       func(context.Context) (string, error)
	origin       string
	writeTimeout time.Duration
	memoryTasks  int
	memoryBytes  int64
}

func defaultOptions() options {
	return options{
		authenticate: userOfCall,
		tenant:       tenantOfCall,
		writeTimeout: DefaultWriteTimeout,
		memoryTasks:  DefaultMemoryTasks,
		memoryBytes:  DefaultMemoryBytes,
	}
}

// WithAuthenticator says whose tasks a call means: tasks belong to the name that it returned when they were created, and
// do not exist for others.
//
// The default is that of a2a-go's own default store, the user of the call context, as middleware put it there. Calls of
// users without a name share the owner "": who knows the id of such a task can read it, but nobody can list them, as the
// ids are all that keeps them apart. Without a call context a call fails with a2a.ErrUnauthenticated. A server for one
// user may return a fixed name.
func WithAuthenticator(authenticate taskstore.Authenticator) Option {
	return func(o *options) {
		if authenticate != nil {
			o.authenticate = authenticate
		}
	}
}

// WithTenant fixes the tenant, whatever requests say.
func WithTenant(tenant string) Option {
	return WithTenantFrom(func(context.Context) (string, error) { return tenant, nil })
}

// WithTenantFrom derives the tenant from a call. The default is the tenant of the call context, which the caller of the A2A
// server chooses freely; tasks of other owners are out of reach in every tenant. Its errors count as failed authentication.
func WithTenantFrom(tenant func(context.Context) (string, error)) Option {
	return func(o *options) {
		if tenant != nil {
			o.tenant = tenant
		}
	}
}

// WithOrigin names this replica in the events that it writes, at most 64 bytes, so that it can skip them when it reads. The
// default is the origin of the client.
func WithOrigin(origin string) Option {
	return func(o *options) { o.origin = origin }
}

// WithWriteTimeout bounds a write, all attempts together; the default is [DefaultWriteTimeout]. It is how long an outage of
// the service may last before a2a-go hears of it and gives the task up. Not positive means the default.
func WithWriteTimeout(d time.Duration) Option {
	return func(o *options) {
		o.writeTimeout = DefaultWriteTimeout
		if d > 0 {
			o.writeTimeout = d
		}
	}
}

// WithMemory bounds what the store remembers of the tasks that it wrote or read last and that have not ended, so that
// [Store.Update] can send what changed instead of the whole task: how many tasks, and about how much of the heap, in bytes.
// The tasks that were not used for the longest time are forgotten first, and one that alone exceeds the bytes at once. What
// a call works on does not count while it runs. Texts count by their length; the new pieces of the 64 tasks that got some last
// are the caller's own strings, and what they may be small parts of does not count. The defaults are [DefaultMemoryTasks] and
// [DefaultMemoryBytes]; 0 for either of them remembers nothing.
func WithMemory(tasks int, bytes int64) Option {
	return func(o *options) { o.memoryTasks, o.memoryBytes = tasks, bytes }
}

// userOfCall is a2asrv.NewTaskStoreAuthenticator, except that it bears a call context without a user: that is what work
// queues restore when there was none.
func userOfCall(ctx context.Context) (string, error) {
	call, ok := a2asrv.CallContextFrom(ctx)
	switch {
	case !ok:
		return "", a2a.ErrUnauthenticated
	case call.User == nil:
		return "", nil
	default:
		return call.User.Name, nil
	}
}

func tenantOfCall(ctx context.Context) (string, error) {
	if call, ok := a2asrv.CallContextFrom(ctx); ok {
		return call.Tenant(), nil
	}
	return "", nil
}
