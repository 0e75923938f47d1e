package limit

import "sync/atomic"

// Counter counts what is in use of something that there is only so much of.
type Counter struct {
	most int64
	used atomic.Int64
}

// NewCounter returns a Counter for at most so many.
func NewCounter(most int64) *Counter { return &Counter{most: most} }

// Take takes n, unless that would be more than there are, and reports whether it did. One that is larger than all is taken
// when nothing is in use.
func (c *Counter) Take(n int64) bool {
	if now := c.used.Add(n); now > c.most && now > n {
		c.used.Add(-n)
		return false
	}
	return true
}

// Give gives back what was taken.
func (c *Counter) Give(n int64) { c.used.Add(-n) }

// Used is what is in use.
func (c *Counter) Used() int64 { return c.used.Load() }
