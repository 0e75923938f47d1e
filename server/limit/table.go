package limit

import (
	"hash/maphash"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// shards divide the subjects, so that callers of different ones do not queue for one lock.
	shards = 32
	// idle is how long a subject is remembered that has used up nothing.
	idle = 10 * time.Second
)

// Subject is whose limits they are.
type Subject struct {
	Scope Scope // OfPrincipal or OfTenant
	Name  string
}

// Table knows what principals and tenants have used up lately. It holds those that were seen in the last ten seconds, owe
// bytes or have open streams; the rest have used nothing.
type Table struct {
	seed  maphash.Seed
	parts [shards]part
}

type part struct {
	mu      sync.Mutex
	usage   map[Subject]*usage
	cleaned time.Time
}

// usage is what a subject has used up.
type usage struct {
	limits   Limits
	requests *rate.Limiter // nil: no limit
	bytes    *rate.Limiter // nil: no limit
	streams  int
	used     time.Time
}

// NewTable returns an empty Table.
func NewTable() *Table {
	t := &Table{seed: maphash.MakeSeed()}
	for i := range t.parts {
		t.parts[i].usage = make(map[Subject]*usage)
	}
	return t
}

// Request counts a call, or refuses it with ErrRate.
func (t *Table) Request(s Subject, l Limits) error {
	if l.RequestsPerSecond == 0 && l.BytesPerSecond == 0 {
		return nil
	}
	now := time.Now()
	u, unlock := t.lock(s, l, now)
	defer unlock()
	if wait := owed(u.bytes, now); wait > 0 {
		return Refuse(ErrRate, s.Scope, "bytes_per_second", "too many bytes for this "+string(s.Scope), wait)
	}
	if u.requests == nil {
		return nil
	}
	r := u.requests.ReserveN(now, 1)
	if wait := r.DelayFrom(now); wait > 0 {
		r.CancelAt(now)
		return Refuse(ErrRate, s.Scope, "requests_per_second", "too many requests of this "+string(s.Scope), wait)
	}
	return nil
}

// Bytes counts n bytes that were moved, and returns how long it takes until they are within the rate.
func (t *Table) Bytes(s Subject, l Limits, n int) time.Duration {
	if l.BytesPerSecond == 0 {
		return 0
	}
	now := time.Now()
	u, unlock := t.lock(s, l, now)
	defer unlock()
	for burst := u.bytes.Burst(); n > 0; n -= burst {
		u.bytes.ReserveN(now, min(n, burst))
	}
	return owed(u.bytes, now)
}

// OpenStream counts a stream until release is called, once, or refuses it with ErrStreams.
func (t *Table) OpenStream(s Subject, l Limits) (release func(), err error) {
	if l.OpenStreams == 0 {
		return func() {}, nil
	}
	u, unlock := t.lock(s, l, time.Now())
	defer unlock()
	if u.streams >= l.OpenStreams {
		return nil, Refuse(ErrStreams, s.Scope, "open_streams", "too many open streams of this "+string(s.Scope), 0)
	}
	u.streams++
	return func() {
		p := t.part(s)
		p.mu.Lock()
		defer p.mu.Unlock()
		u.streams--
		u.used = time.Now()
	}, nil
}

// owed is how long it takes until nothing is owed.
func owed(l *rate.Limiter, now time.Time) time.Duration {
	if l == nil {
		return 0
	}
	tokens := l.TokensAt(now)
	if tokens >= 0 {
		return 0
	}
	return time.Duration(math.Ceil(-tokens / float64(l.Limit()) * float64(time.Second)))
}

func (t *Table) part(s Subject) *part { return &t.parts[maphash.Comparable(t.seed, s)%shards] }

// lock returns the usage of a subject, under these limits, and locks it. Limits may change while a server runs.
func (t *Table) lock(s Subject, l Limits, now time.Time) (_ *usage, unlock func()) {
	p := t.part(s)
	p.mu.Lock()
	u := p.usage[s]
	if u == nil {
		p.clean(now)
		u = &usage{}
		p.usage[s] = u
	}
	u.used = now
	if u.limits != l {
		u.limits = l
		u.requests = limiter(u.requests, l.RequestsPerSecond, now)
		u.bytes = limiter(u.bytes, float64(l.BytesPerSecond), now)
	}
	return u, p.mu.Unlock
}

// limiter returns a limiter of so many per second; one that there is keeps what it has.
func limiter(have *rate.Limiter, perSecond float64, now time.Time) *rate.Limiter {
	switch {
	case perSecond == 0:
		return nil
	case have == nil:
		return rate.NewLimiter(rate.Limit(perSecond), burst(perSecond))
	}
	have.SetLimitAt(now, rate.Limit(perSecond))
	have.SetBurstAt(now, burst(perSecond))
	return have
}

// burst is what may be used at once: that of a second.
func burst(perSecond float64) int { return int(max(1, min(math.Ceil(perSecond), math.MaxInt32))) }

// clean forgets what does not matter any more.
func (p *part) clean(now time.Time) {
	if now.Sub(p.cleaned) < idle {
		return
	}
	p.cleaned = now
	for s, u := range p.usage {
		if u.streams == 0 && now.Sub(u.used) >= idle && owed(u.bytes, now) == 0 {
			delete(p.usage, s)
		}
	}
}
