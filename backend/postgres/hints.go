package postgres

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"iter"
	"log/slog"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/a2a-taskstore/taskstore/backend"
)

// Watch implements backend.Store.
func (s *Store) Watch(fn func(backend.Key)) (stop func()) { return s.watchers.Add(fn) }

const (
	channel = "a2a_taskstore"
	// maxPayload bounds a NOTIFY's payload; the server's bound is 8,000 bytes.
	maxPayload = 7000
	// maxHints bounds the keys that wait for a NOTIFY; more are left to polling.
	maxHints = 4096
	// hintInterval is the least time between two notifications. The first one after a rest goes at once; what is written in
	// the interval behind it shares the next, since each costs the database as much as a small write.
	hintInterval = 3 * time.Millisecond
	// greetInterval is how often a replica shows that it listens, and peerLifetime how long others believe it.
	greetInterval = 5 * time.Second
	peerLifetime  = 3 * greetInterval
	// hintTimeout bounds the sending of hints that nobody may need any more.
	hintTimeout = 2 * time.Second
	// listenCheck is how often a silent listening connection is asked whether it still lives, and listenTimeout how long it
	// may take to answer.
	listenCheck   = 5 * time.Second
	listenTimeout = 2 * time.Second
)

// hints tells other replicas which keys changed, and hears of theirs. Hints may get lost.
//
// Replicas greet each other, with hints that name no key. One that has listened for a while and heard of nobody is alone,
// and keeps its hints to itself.
type hints struct {
	sender   uint64 // tells this replica's own hints from others'
	pool     *pgxpool.Pool
	config   *pgx.ConnConfig
	watchers *backend.Watchers
	logger   *slog.Logger
	// listening is set while hints come.
	listening atomic.Bool
	// alone is set while nobody else listens.
	alone atomic.Bool

	mu      sync.Mutex
	pending map[backend.Key]struct{}
	peers   map[uint64]time.Time // when each other sender was heard last
	// heardItself is set once something of its own has come back since it looked around: so would what others say. quiet
	// counts how often in a row it then had heard nobody else.
	heardItself bool
	quiet       int
	wake        chan struct{} // holds a token while there may be something pending
	greet       chan struct{} // holds a token while somebody waits for a greeting
}

func newHints(pool *pgxpool.Pool, config *pgx.ConnConfig, w *backend.Watchers, logger *slog.Logger) *hints {
	return &hints{
		sender: rand.Uint64(), pool: pool, config: config, watchers: w, logger: logger,
		pending: map[backend.Key]struct{}{}, peers: map[uint64]time.Time{},
		wake: make(chan struct{}, 1), greet: make(chan struct{}, 1),
	}
}

// add has the keys told to the other replicas.
func (h *hints) add(keys []backend.Key) {
	if h.alone.Load() {
		return
	}
	h.mu.Lock()
	for _, k := range keys {
		if len(h.pending) < maxHints {
			h.pending[k] = struct{}{}
		}
	}
	h.mu.Unlock()
	signal(h.wake)
}

// signal leaves a token in a channel that holds one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// notify sends what is pending whenever something is, and greetings, until ctx ends.
func (h *hints) notify(ctx context.Context) {
	rest := time.NewTimer(0)
	defer rest.Stop()
	often := time.NewTicker(greetInterval)
	defer often.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-rest.C:
		}
		var payloads []string
		select {
		case <-ctx.Done():
			return
		case <-often.C:
			h.lookAround(time.Now())
			payloads = []string{greeting(h.sender)}
		case <-h.greet:
			payloads = []string{greeting(h.sender)}
		case <-h.wake:
			h.mu.Lock()
			keys := h.pending
			h.pending = make(map[backend.Key]struct{}, len(keys))
			h.mu.Unlock()
			payloads = encodeHints(h.sender, maps.Keys(keys))
		}
		rest.Reset(hintInterval)
		if err := h.send(ctx, payloads); err != nil && ctx.Err() == nil {
			h.logger.DebugContext(ctx, "hints to other replicas were not sent", "payloads", len(payloads), "error", err)
		}
	}
}

// lookAround finds out whether this replica is alone, once in a greetInterval.
func (h *hints) lookAround(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.peers, func(_ uint64, heard time.Time) bool { return now.Sub(heard) > peerLifetime })
	if len(h.peers) == 0 && h.heardItself {
		h.quiet++
	} else {
		h.quiet = 0
	}
	h.heardItself = false
	h.alone.Store(h.quiet > 1) // once would not give each of them the time to greet
}

// meet notes that a sender lives. One that was not known is greeted, so that it knows of this replica at once.
func (h *hints) meet(sender uint64, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if sender == h.sender {
		h.heardItself = true
		return
	}
	if _, known := h.peers[sender]; !known {
		signal(h.greet)
	}
	h.peers[sender] = now
	h.quiet = 0
	h.alone.Store(false)
}

func (h *hints) send(ctx context.Context, payloads []string) (err error) {
	if len(payloads) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, hintTimeout)
	defer cancel()
	conn, err := h.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer func() { release(h.pool, conn, err) }()
	b := &pgx.Batch{}
	for _, p := range payloads {
		// A hint that a crash swallows is missed by nobody, so nobody waits for the disk.
		b.Queue("SELECT pg_notify($1::text, $2::text), set_config('synchronous_commit', 'off', true)", channel, p)
	}
	return conn.SendBatch(ctx, b).Close()
}

// listen passes on what other replicas send, until ctx ends. It connects again when the connection is lost; what was sent
// meanwhile is left to polling.
func (h *hints) listen(ctx context.Context) {
	for failures := 1; ctx.Err() == nil; failures++ {
		err := h.listenOnce(ctx, func() {
			if failures > 1 {
				h.logger.InfoContext(ctx, "hints from other replicas come again", "attempts", failures)
			}
			failures = 0
		})
		if ctx.Err() != nil {
			return
		}
		level := slog.LevelDebug
		if failures <= 1 { // once for an outage
			level = slog.LevelWarn
		}
		h.logger.Log(ctx, level, "no hints from other replicas, polling meanwhile", "error", err)
		select {
		case <-time.After(pause(max(failures, 1))):
		case <-ctx.Done():
		}
	}
}

func (h *hints) listenOnce(ctx context.Context, listening func()) error {
	dial, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(dial, h.config)
	if err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_ = conn.Close(end) // it may be broken already
	}()
	if _, err := conn.Exec(dial, "LISTEN "+channel); err != nil {
		return err
	}
	listening()
	h.listening.Store(true)
	signal(h.greet)
	defer h.listening.Store(false)
	for {
		wait, cancel := context.WithTimeout(ctx, listenCheck)
		note, err := conn.WaitForNotification(wait)
		silent := wait.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case err == nil:
			h.hear(note)
		case silent && !conn.IsClosed():
			check, cancel := context.WithTimeout(ctx, listenTimeout)
			err := conn.Ping(check)
			cancel()
			if err != nil {
				return err
			}
		default:
			return err
		}
	}
}

func (h *hints) hear(note *pgconn.Notification) {
	sender, keys, ok := decodeHints(note.Payload)
	if !ok {
		return
	}
	h.meet(sender, time.Now())
	if sender != h.sender {
		h.watchers.Notify(keys...)
	}
}

// encodeHints makes payloads that name the sender and the keys. They are base64, because ids may hold characters that the
// database's encoding has not.
func encodeHints(sender uint64, keys iter.Seq[backend.Key]) []string {
	var payloads []string
	head := binary.BigEndian.AppendUint64(nil, sender)
	buf := head
	flush := func() {
		if len(buf) > len(head) {
			payloads = append(payloads, base64.RawStdEncoding.EncodeToString(buf))
		}
		buf = head[:len(head):len(head)]
	}
	for k := range keys {
		entry := appendText(appendText(nil, k.Tenant), k.TaskID)
		if base64.RawStdEncoding.EncodedLen(len(buf)+len(entry)) > maxPayload {
			flush()
		}
		buf = append(buf, entry...)
	}
	flush()
	return payloads
}

// greeting is a payload that names no key.
func greeting(sender uint64) string {
	return base64.RawStdEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, sender))
}

func appendText(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func decodeHints(payload string) (sender uint64, keys []backend.Key, ok bool) {
	b, err := base64.RawStdEncoding.DecodeString(payload)
	if err != nil || len(b) < 8 {
		return 0, nil, false
	}
	sender, b = binary.BigEndian.Uint64(b), b[8:]
	text := func() (string, bool) {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)-size) {
			return "", false
		}
		s := string(b[size : size+int(n)])
		b = b[size+int(n):]
		return s, true
	}
	for len(b) > 0 {
		tenant, ok1 := text()
		id, ok2 := text()
		if !ok1 || !ok2 {
			return 0, nil, false
		}
		keys = append(keys, backend.Key{Tenant: tenant, TaskID: id})
	}
	return sender, keys, true
}
