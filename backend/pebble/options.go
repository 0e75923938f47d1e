package pebble

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
)

// filterBits per key make about one in a hundred look-ups of an absent key read a block. Inserts look up absent rows.
const filterBits = 10

func options(c *Config, g *gate, f *fault) *pebble.Options {
	if c.CacheBytes == 0 {
		c.CacheBytes = DefaultCacheBytes
	}
	if c.MemTableBytes == 0 {
		c.MemTableBytes = DefaultMemTableBytes
	}
	o := &pebble.Options{
		FS:                          g,
		Logger:                      logger{f},
		EventListener:               f.listener(),
		Cache:                       pebble.NewCache(c.CacheBytes),
		MemTableSize:                uint64(c.MemTableBytes),
		MemTableStopWritesThreshold: 4,
		Merger:                      merger,
		// Pinned: a release of Pebble that knows more must not make a store that the release before cannot open.
		FormatMajorVersion:         pebble.FormatWALSyncChunks,
		CompactionConcurrencyRange: func() (lower, upper int) { return 1, 2 },
	}
	o.TargetFileSizes[0] = 4 << 20 // twice as large on each level below
	for i := range o.Levels {
		l := &o.Levels[i]
		l.FilterPolicy = bloom.FilterPolicy(filterBits)
		l.BlockSize = 8 << 10
		l.IndexBlockSize = 256 << 10 // one index per table: two levels of them cost every look-up one more block
	}
	return o
}

// ErrFormat is returned by Open for a directory that this release cannot serve: another one wrote it, or another program.
var ErrFormat = errors.New("the directory has a format that this release does not know")

// formatVersion is the version of keys and values. It grows with every change of them.
const formatVersion = 1

var formatKey = append([]byte{spaceMeta}, "format"...)

// checkFormat refuses a directory with another format version, and marks a new one.
func (s *Store) checkFormat() error {
	value, found, err := get(s.db, formatKey)
	if err != nil {
		return err
	}
	if found {
		d := decoder{rest: value}
		version := d.varint()
		switch {
		case d.end(version > 0) != nil:
			return fmt.Errorf("%w: its format version cannot be read", ErrFormat)
		case version > formatVersion:
			return fmt.Errorf("%w: it has format version %d, this release knows up to %d; use a newer release",
				ErrFormat, version, formatVersion)
		}
		return nil
	}
	it, err := s.db.NewIter(nil)
	if err != nil {
		return err
	}
	empty := !it.First()
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return err
	}
	if !empty {
		return fmt.Errorf("%w: it holds a Pebble database of another program", ErrFormat)
	}
	return s.fault.run(func() error {
		return s.db.Set(formatKey, appendFormat(nil, formatVersion), pebble.Sync)
	})
}

// openError explains why Pebble did not open the directory.
func openError(err error) error {
	if errors.Is(err, ErrInUse) {
		return ErrInUse // Pebble adds nothing
	}
	return err
}
