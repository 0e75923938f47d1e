package bench

import (
	"context"
	"errors"
	"os"
)

// runSyncs measures what one synced write costs: a page, written over in place, so that the size of the file does not change.
func runSyncs(ctx context.Context, s *session, disk string) (err error) {
	f, err := os.CreateTemp(s.dir, "fsync-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	page := []byte(text(4<<10, 0))
	sync := func(context.Context, int, int) error {
		if _, err := f.WriteAt(page, 0); err != nil {
			return err
		}
		return f.Sync()
	}
	return s.compare(ctx, Case{Workload: "fsync", Backend: disk, Size: len(page), Callers: 1}, contestant{Bare,
		func(ctx context.Context) (Sample, error) {
			return measured(ctx, nil, func() (load, error) { return driveCount(ctx, 1, s.syncs, sync) })
		}})
}
