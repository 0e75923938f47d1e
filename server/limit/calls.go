package limit

import (
	"context"
	"sync"
	"time"
)

// Calls are the unary calls that a connection has in hand. Safe for concurrent use.
type Calls struct {
	mu     sync.Mutex
	oldest *Call
	newest *Call
	n      int
	swept  time.Time
}

// Call is a call on its way from its headers to the end of its handler. It belongs to the Calls that took it.
type Call struct {
	in           *Calls // nil: none has it
	older, newer *Call
	ctx          context.Context
	began        time.Time
	handled      bool
}

// Of the calls that gRPC ends without having them handled, it tells nobody. Those that are over for unhandledFor are taken for
// such calls, when the line is full, and at most once in sweepInterval: by then, a call that was given up has been handled.
const (
	unhandledFor  = 10 * time.Second
	sweepInterval = time.Second
)

// Take takes a call in hand, whose context ends with it. It reports false if there are most already.
func (s *Calls) Take(ctx context.Context, c *Call, most int) bool {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n >= most && now.Sub(s.swept) >= sweepInterval {
		s.swept = now
		s.sweep(now)
	}
	if s.n >= most {
		return false
	}
	*c = Call{in: s, older: s.newest, ctx: ctx, began: now}
	if s.newest != nil {
		s.newest.newer = c
	} else {
		s.oldest = c
	}
	s.newest = c
	s.n++
	return true
}

func (s *Calls) sweep(now time.Time) {
	for c := s.oldest; c != nil && now.Sub(c.began) >= unhandledFor; {
		next := c.newer
		if !c.handled && c.ctx.Err() != nil {
			s.remove(c)
		}
		c = next
	}
}

func (s *Calls) remove(c *Call) {
	if c.older != nil {
		c.older.newer = c.newer
	} else {
		s.oldest = c.newer
	}
	if c.newer != nil {
		c.newer.older = c.older
	} else {
		s.newest = c.older
	}
	*c = Call{}
	s.n--
}

// Handle notes that a call is handled, and will be given back.
func (s *Calls) Handle(c *Call) {
	s.mu.Lock()
	c.handled = true
	s.mu.Unlock()
}

// Give gives a call back. It may be called again.
func (s *Calls) Give(c *Call) {
	s.mu.Lock()
	if c.in == s {
		s.remove(c)
	}
	s.mu.Unlock()
}
