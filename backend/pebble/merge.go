package pebble

import (
	"io"

	"github.com/cockroachdb/pebble/v2"
)

// merger concatenates, as Pebble's default merger does, under its name: tools that know Pebble only read the store. The
// default one copies everything for each operand that it meets, and reads meet the newest first; this one leaves room in
// front, so that an artifact of many chunks is read in time proportional to its size.
var merger = &pebble.Merger{
	Name: "pebble.concatenate",
	Merge: func(_, value []byte) (pebble.ValueMerger, error) {
		return &concatenation{buf: append([]byte(nil), value...)}, nil
	},
}

// concatenation holds the value in buf[start:].
type concatenation struct {
	buf   []byte
	start int
}

func (c *concatenation) MergeNewer(value []byte) error {
	c.buf = append(c.buf, value...)
	return nil
}

func (c *concatenation) MergeOlder(value []byte) error {
	if len(value) > c.start {
		held := len(c.buf) - c.start
		buf := make([]byte, 2*(held+len(value)))
		start := len(buf) - held
		copy(buf[start:], c.buf[c.start:])
		c.buf, c.start = buf, start
	}
	c.start -= len(value)
	copy(c.buf[c.start:], value)
	return nil
}

func (c *concatenation) Finish(bool) ([]byte, io.Closer, error) { return c.buf[c.start:], nil, nil }
