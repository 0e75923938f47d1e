package postgres

import (
	"sync"
	"time"
)

// clock follows the database's clock from here: each answer that carries the time is a sample, wrong by at most half of its
// round trip. Where the exact time matters, for claims, it comes with the row. With a clock of its own (tests) it only
// passes that on.
type clock struct {
	own func() time.Time

	mu    sync.Mutex
	at    time.Time // when the sample was taken, with the monotonic clock
	time  time.Time // what the database's clock said
	error time.Duration
}

// staleClock is the age at which a sample is no longer used.
const staleClock = time.Minute

// drift bounds how fast two clocks part.
const drift = time.Millisecond // per second

// sample notes the database's time, in nanoseconds, that was asked for at sent and has just arrived, and returns the time to
// use for what came with it.
func (c *clock) sample(sent time.Time, nanos int64) time.Time {
	if c.own != nil {
		return c.own()
	}
	now := time.Now()
	t := time.Unix(0, nanos).UTC()
	c.mu.Lock()
	defer c.mu.Unlock()
	half := now.Sub(sent) / 2
	if c.at.IsZero() || half < c.error+time.Duration(now.Sub(c.at).Seconds()*float64(drift)) {
		c.at, c.time, c.error = sent.Add(half), t, half
	}
	return t
}

// estimate returns the database's time; ok is false if it is not known well enough.
func (c *clock) estimate() (t time.Time, ok bool) {
	if c.own != nil {
		return c.own(), true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	age := time.Since(c.at)
	return c.time.Add(age), !c.at.IsZero() && age < staleClock
}

// databaseNow is the database's time in nanoseconds.
const databaseNow = `(extract(epoch FROM clock_timestamp()) * 1000000000)::bigint`

// now returns the best estimate there is.
func (c *clock) now() time.Time {
	t, _ := c.estimate()
	return t
}
