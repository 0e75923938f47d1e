package backendtest

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
)

// model is a Store that is as naive as can be: one mutex, maps, whole tasks, sorting for each list. Random histories are
// played against it and the store under test.
type model struct {
	now    func() time.Time
	limits backend.Limits

	mu       sync.Mutex
	closed   bool
	records  map[backend.Key]*record
	claims   map[backend.ClaimKey]*backend.Claim
	watchers map[*func(backend.Key)]struct{}
}

// record is what stands under a key.
type record struct {
	row    backend.Row
	task   *document.Task
	events []backend.Event
	// appends are the results of the appends to this log, by their write ids.
	appends map[string]backend.AppendResult
}

var _ backend.Store = (*model)(nil)

func newModel(opt Options) *model {
	return &model{
		now: opt.Now, limits: opt.Limits, records: map[backend.Key]*record{},
		claims: map[backend.ClaimKey]*backend.Claim{}, watchers: map[*func(backend.Key)]struct{}{},
	}
}

// enter begins a call.
func (m *model) enter(ctx context.Context) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil, backend.Unavailable("closed", nil)
	}
	return m.mu.Unlock, nil
}

func (m *model) record(k backend.Key) *record {
	if r := m.records[k]; r != nil {
		return r
	}
	return &record{}
}

func (m *model) changed(k backend.Key) {
	for fn := range m.watchers {
		(*fn)(k)
	}
}

func claimKey(k backend.Key, o backend.Owner, ref *backend.ClaimRef) backend.ClaimKey {
	if ref == nil {
		return backend.ClaimKey{}
	}
	return backend.ClaimKey{Tenant: k.Tenant, Owner: o, Key: ref.Key}
}

// Save writes a task.
func (m *model) Save(ctx context.Context, req *backend.SaveRequest) (backend.SaveResult, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return backend.SaveResult{}, err
	}
	defer leave()
	r, ck := m.record(req.Key), claimKey(req.Key, req.Owner, req.Claim)
	plan, err := backend.PlanSave(&r.row, req, wholeDocument{r.task}, m.claims[ck], m.limits, m.now())
	if err != nil {
		return backend.SaveResult{}, err
	}
	if plan.Result.Replayed {
		return plan.Result, nil
	}
	task := applyChange(r.task, &plan.Change, &plan.Row)
	plan.FillSnapshots(task.AppendTask(nil))
	m.records[req.Key] = &record{plan.Row, task, slices.Concat(r.events, plan.Events), r.appends}
	if plan.Claim != nil {
		m.claims[ck] = plan.Claim
	}
	m.changed(req.Key)
	return plan.Result, nil
}

// applyChange returns the task that a change leaves.
func applyChange(old *document.Task, c *backend.Change, row *backend.Row) *document.Task {
	if c.Whole != nil {
		return c.Whole
	}
	t := &document.Task{
		ID: old.ID, ContextID: row.ContextID, State: row.State, Time: row.Time,
		Head: old.Head, Artifacts: old.Artifacts, History: old.History,
	}
	if c.Head != nil {
		t.Head = c.Head
	}
	if c.Artifacts != nil {
		t.Artifacts = *c.Artifacts
	}
	if c.Put != nil || c.Append != nil {
		list := document.SplitArtifacts(t.Artifacts)
		switch {
		case c.Put != nil && c.PutAt < 0:
			list = append(list, *c.Put)
		case c.Put != nil:
			list[c.PutAt] = *c.Put
		default:
			a := &list[c.AppendAt]
			a.Parts.Bytes = slices.Concat(a.Parts.Bytes, c.Append.Parts.Bytes)
			if c.Append.Replace {
				a.Fields = c.Append.Fields
			}
		}
		t.Artifacts = document.List{Count: len(list)}
		for i := range list {
			t.Artifacts.Bytes = document.AppendArtifact(t.Artifacts.Bytes, &list[i])
		}
	}
	kept := document.LastEntries(t.History, t.History.Count-c.Trim)
	t.History = document.List{
		Bytes: slices.Concat(kept.Bytes, c.History.Bytes), Count: kept.Count + c.History.Count,
	}
	return t
}

// wholeDocument is a Document over a task in memory.
type wholeDocument struct{ *document.Task }

func (d wholeDocument) Head() ([]byte, error) { return d.Task.Head, nil }

func (d wholeDocument) ArtifactBytes() (int, error) { return len(d.Artifacts.Bytes), nil }

func (d wholeDocument) OldestMessages(n int) (int, error) {
	return len(d.History.Bytes) - len(document.LastEntries(d.History, d.History.Count-n).Bytes), nil
}

func (d wholeDocument) Artifact(id string) (backend.ArtifactInfo, error) {
	var info backend.ArtifactInfo
	for i, a := range document.SplitArtifacts(d.Artifacts) {
		if a.ID == id {
			info = backend.ArtifactInfo{
				Holds: info.Holds + 1, Index: i, Parts: a.Parts.Count, FieldBytes: len(a.Fields), PartBytes: len(a.Parts.Bytes),
			}
		}
	}
	return info, nil
}

// Delete removes a task.
func (m *model) Delete(ctx context.Context, req *backend.DeleteRequest) (bool, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return false, err
	}
	defer leave()
	next, deleted, err := backend.PlanDelete(&m.record(req.Key).row, req, m.now())
	if err != nil || !deleted {
		return false, err
	}
	m.records[req.Key] = &record{row: next}
	m.changed(req.Key)
	return true, nil
}

// ClaimKey claims a key.
func (m *model) ClaimKey(ctx context.Context, req *backend.ClaimRequest) (backend.ClaimResult, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return backend.ClaimResult{}, err
	}
	defer leave()
	next, res := backend.DecideClaim(m.claims[req.Key], req, m.now())
	if next != nil {
		m.claims[req.Key] = next
	}
	return res, nil
}

// ReleaseKey gives a key back.
func (m *model) ReleaseKey(ctx context.Context, req *backend.ReleaseRequest) error {
	leave, err := m.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	remove, err := backend.DecideRelease(m.claims[req.Key], req.Token, m.now())
	if remove {
		delete(m.claims, req.Key)
	}
	return err
}

// Heads returns the heads of logs.
func (m *model) Heads(ctx context.Context, keys []backend.Key) ([]backend.Head, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	out := make([]backend.Head, len(keys))
	for i, k := range keys {
		out[i] = m.record(k).row.Head()
	}
	return out, nil
}

// Watch calls fn after each change.
func (m *model) Watch(fn func(backend.Key)) (stop func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watchers[&fn] = struct{}{}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.watchers, &fn)
	}
}

// PollInterval is 0: no change is missed.
func (m *model) PollInterval() time.Duration { return 0 }

// Sweep looks at a batch of records, in some fixed order, and in the last batch at all claims.
func (m *model) Sweep(ctx context.Context, req *backend.SweepRequest) (backend.SweepResult, error) {
	var res backend.SweepResult
	leave, err := m.enter(ctx)
	if err != nil {
		return res, err
	}
	defer leave()
	now := m.now()
	place := func(k backend.Key) string { return k.Tenant + "\x00" + k.TaskID }
	keys := slices.SortedFunc(maps.Keys(m.records), func(a, b backend.Key) int { return strings.Compare(place(a), place(b)) })
	keys = slices.DeleteFunc(keys, func(k backend.Key) bool { return place(k) <= string(req.Cursor) })
	if len(keys) > req.Batch {
		keys = keys[:req.Batch]
		res.Cursor = []byte(place(keys[len(keys)-1]))
	}
	for _, k := range keys {
		m.sweep(k, &req.Retention, now, &res)
	}
	for k, c := range m.claims {
		if res.Cursor == nil && !c.Live(now) {
			delete(m.claims, k)
			res.Keys++
		}
	}
	return res, nil
}

func (m *model) sweep(k backend.Key, retention *backend.Retention, now time.Time, res *backend.SweepResult) {
	r := m.records[k]
	switch backend.Expired(&r.row, retention, now) {
	case backend.Expire:
		m.records[k] = &record{row: backend.Bury(&r.row, now)}
		res.Tasks++
	case backend.Forget:
		delete(m.records, k)
		res.Tombstones++
	case backend.TrimLog:
		for len(r.events) > 0 && backend.Trim(&r.row, retention, &r.events[0]) {
			r.events = r.events[1:]
			res.Events++
		}
	case backend.Keep:
		return
	}
	m.changed(k)
}

// Ping reports whether the store is open.
func (m *model) Ping(ctx context.Context) error {
	leave, err := m.enter(ctx)
	if err == nil {
		leave()
	}
	return err
}

// Close closes the store.
func (m *model) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

// AppendEvents appends to a log.
func (m *model) AppendEvents(ctx context.Context, req *backend.AppendRequest) (backend.AppendResult, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return backend.AppendResult{}, err
	}
	defer leave()
	r, ck := m.record(req.Key), claimKey(req.Key, req.Owner, req.Claim)
	plan, err := backend.PlanAppend(&r.row, req, recordLog{r}, m.claims[ck], m.now())
	if err != nil {
		return backend.AppendResult{}, err
	}
	if plan.Result.Replayed {
		return plan.Result, nil
	}
	appends := maps.Clone(r.appends)
	if req.WriteID != "" {
		if appends == nil {
			appends = map[string]backend.AppendResult{}
		}
		appends[req.WriteID] = plan.Result
	}
	m.records[req.Key] = &record{plan.Row, r.task, slices.Concat(r.events, plan.Events), appends}
	if plan.Claim != nil {
		m.claims[ck] = plan.Claim
	}
	m.changed(req.Key)
	return plan.Result, nil
}
