package bench

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// idleSavers is how many callers save while the readers idle, and idleTaskSize what they save.
const (
	idleSavers   = 16
	idleTaskSize = 1 << 10
)

// runIdle opens many readers of as many logs, of which nothing comes, and saves other tasks meanwhile.
func runIdle(ctx context.Context, s *session, backend string) error {
	return s.inArena(func(a *arena) error {
		sd := &seed{Tasks: s.keys, Size: idleTaskSize}
		quiet, err := a.service(ctx, "quiet", s.newPlace(backend), sd)
		if err != nil {
			return err
		}
		service, err := a.service(ctx, "w8", s.newPlace(backend), sd)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		memory, err := s.openIdle(ctx, service)
		if err != nil {
			return err
		}
		body := body(idleTaskSize)
		saving := func(t *target) func(context.Context) (Sample, error) {
			return s.calling(t, idleSavers, func(ctx context.Context, t *target, key, _ int) error {
				return saveTask(ctx, t, key, body)
			})
		}
		withMemory := func(ctx context.Context) (Sample, error) {
			sample, err := saving(service)(ctx)
			if err == nil {
				sample.Metrics[Memory] = memory
			}
			return sample, err
		}
		c := Case{Workload: "w8", Backend: backend, Size: idleTaskSize, Callers: idleSavers, Readers: s.idleReaders}
		return s.compare(ctx, c, contestant{Service, withMemory}, contestant{Quiet, saving(quiet)})
	})
}

// openIdle opens the readers and returns the live memory of the server for each, in bytes.
func (s *session) openIdle(ctx context.Context, t *target) (float64, error) {
	before, err := t.process.ask(question{Do: "collect"})
	if err != nil {
		return 0, err
	}
	var g errgroup.Group
	g.SetLimit(64)
	for n := range s.idleReaders {
		g.Go(func() error {
			_, err := readEvents(ctx, t, taskName(s.keys+n), 0) // of a task that is not there, which never comes
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return 0, err
	}
	after, err := t.process.ask(question{Do: "collect"})
	if err != nil {
		return 0, err
	}
	return (float64(after.Live) - float64(before.Live)) / float64(s.idleReaders), nil
}
