package bench

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"sync/atomic"

	"google.golang.org/grpc"
)

// arena is the targets of a comparison, and what ends them.
type arena struct {
	s       *session
	closers []func() error
}

func (a *arena) later(close func() error) { a.closers = append(a.closers, close) }

// close ends what was opened, the last first.
func (a *arena) close() error {
	var errs []error
	for i := len(a.closers) - 1; i >= 0; i-- {
		errs = append(errs, a.closers[i]())
	}
	return errors.Join(errs...)
}

// inArena calls f with an arena, which it closes.
func (s *session) inArena(f func(*arena) error) error {
	a := &arena{s: s}
	err := f(a)
	return errors.Join(err, a.close())
}

// service opens the store as a service, seeded: in a process of its own, or the one that runs elsewhere.
func (a *arena) service(ctx context.Context, workload string, p *place, sd *seed) (*target, error) {
	if p.Backend == external {
		t, err := a.connect(p.Tenant, a.s.external, nil)
		if err != nil || sd == nil {
			return t, err
		}
		return t, sd.plant(ctx, t)
	}
	child, err := start(ctx, &childConfig{Place: *p, Seed: sd})
	if err != nil {
		return nil, err
	}
	a.later(child.stop)
	t, err := a.connect(p.Tenant, child.address, child)
	if err != nil {
		return nil, err
	}
	if err := a.meter(ctx, t, p); err != nil || a.s.profiles == "" {
		return t, err
	}
	file := filepath.Join(a.s.profiles, workload+"-"+p.Backend+"-"+strconv.Itoa(a.s.places))
	if _, err := child.ask(question{Do: "profile", Path: file}); err != nil {
		return nil, err
	}
	a.later(func() error {
		_, err := child.ask(question{Do: "profiled", Path: file})
		return err
	})
	return t, nil
}

// meter adds to a target what counts the writes of its engine, if they are another process's.
func (a *arena) meter(ctx context.Context, t *target, p *place) error {
	e, _ := engineNamed(p.Backend)
	if e.meter == nil {
		return nil
	}
	m, stop, err := e.meter(ctx, p)
	if err != nil {
		return err
	}
	a.later(stop)
	t.meters = append(t.meters, m)
	return nil
}

// connect makes a target of a server.
func (a *arena) connect(tenant, address string, p *process) (*target, error) {
	var options []grpc.DialOption
	if p == nil {
		options = a.s.connection
	}
	r, err := dial(address, options...)
	if err != nil {
		return nil, err
	}
	a.later(r.conn.Close)
	t := &target{api: r, remote: r, tenant: tenant, address: address, process: p, meters: []meter{r.count}}
	if p != nil {
		t.meters = append(t.meters, p.count)
	}
	return t, nil
}

// echo opens an echo that answers calls as the service does. A store that runs elsewhere has none: its transport is another.
func (a *arena) echo(ctx context.Context, service *target, calls func(context.Context, *target) error) (*target, error) {
	if service.process == nil {
		return nil, nil
	}
	replies, err := recordReplies(ctx, service.address, func(ctx context.Context, api api) error {
		return calls(ctx, &target{api: api, tenant: service.tenant})
	})
	if err != nil {
		return nil, err
	}
	child, err := start(ctx, &childConfig{Replies: replies})
	if err != nil {
		return nil, err
	}
	a.later(child.stop)
	return a.connect(service.tenant, child.address, child)
}

// direct opens the backend in this process, seeded; nil where the store runs elsewhere.
func (a *arena) direct(ctx context.Context, p *place, sd *seed) (*target, error) {
	if p.Backend == external {
		return nil, nil
	}
	apart := *p
	apart.Apart = true
	store, written, err := apart.open(ctx)
	if err != nil {
		return nil, err
	}
	a.later(store.Close)
	t := &target{api: direct{store}, tenant: p.Tenant, meters: []meter{ownProcess, writes(written)}}
	if err := a.meter(ctx, t, p); err != nil || sd == nil {
		return t, err
	}
	return t, sd.plant(ctx, t)
}

// openFloor is a floor that can be written to.
type openFloor struct {
	bare
	system string
	writes atomic.Int64 // numbers the writes, so that an event overwrites none
}

// floors opens what is under a backend.
func (a *arena) floors(ctx context.Context, backend string) ([]*openFloor, error) {
	e, _ := engineNamed(backend)
	var all []*openFloor
	for _, f := range e.floors {
		b, err := f.open(ctx, a.s.newPlace(backend))
		if err != nil {
			return nil, err
		}
		a.later(b.close)
		all = append(all, &openFloor{bare: b, system: f.system})
	}
	return all, nil
}

// sides are the targets that most workloads compare. Those that are nil do not exist for the backend.
type sides struct {
	service, echo, direct *target
}

// open opens the sides, store and backend with the same seed. calls are those that the echo must know.
func (a *arena) open(ctx context.Context, workload, backend string, sd *seed, calls func(context.Context, *target) error) (sides, error) {
	var o sides
	var err error
	if o.service, err = a.service(ctx, workload, a.s.newPlace(backend), sd); err != nil {
		return o, err
	}
	if o.echo, err = a.echo(ctx, o.service, calls); err != nil {
		return o, err
	}
	o.direct, err = a.direct(ctx, a.s.newPlace(backend), sd)
	return o, err
}

// contestants makes a contestant of each side that exists.
func (o *sides) contestants(sampleOf func(*target) func(context.Context) (Sample, error)) []contestant {
	var all []contestant
	for _, each := range []struct {
		system string
		target *target
	}{{Service, o.service}, {Echo, o.echo}, {Direct, o.direct}} {
		if each.target != nil {
			all = append(all, contestant{each.system, sampleOf(each.target)})
		}
	}
	return all
}
