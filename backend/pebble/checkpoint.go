package pebble

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Checkpoint writes a copy of the store, as it is at one instant during the call, into a directory that must not exist and
// that Open then opens. It is synced, and shares files with the store where the file system can link them. Everything that
// was acknowledged before the call is in it. Reads and writes go on beside it; writes wait while the log is copied. One
// checkpoint runs at a time.
func (s *Store) Checkpoint(dir string) error {
	if err := s.enter(context.Background()); err != nil {
		return err
	}
	defer s.calls.Done()
	err := s.fault.run(func() error {
		s.checkpoint.Lock()
		defer s.checkpoint.Unlock()
		s.gate.logs.on.Store(true)
		defer s.gate.logs.on.Store(false)
		return s.db.Checkpoint(dir, pebble.WithFlushedWAL())
	})
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}
