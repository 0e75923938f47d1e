package pebble

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Checkpoint writes a copy of the store, as it is at one instant during the call, into a directory that must not exist and
// that Open then opens. It is synced, and shares files with the store where the file system can link them. Everything that
// was acknowledged before the call is in it. It runs beside reads and writes.
func (s *Store) Checkpoint(dir string) error {
	if err := s.enter(context.Background()); err != nil {
		return err
	}
	defer s.calls.Done()
	err := s.fault.run(func() error {
		return s.db.Checkpoint(dir, pebble.WithFlushedWAL())
	})
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}
