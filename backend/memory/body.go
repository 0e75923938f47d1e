package memory

import (
	"bytes"
	"slices"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
)

// body is a task's content. A whole task is kept as the bytes that came; its lists are taken apart when a delta first changes
// one of their items. It answers what the plan of a delta asks (backend.Document), under the shard's lock.
//
// No byte that a view may hold ever changes: pieces are replaced, or grow beyond the length that a view has.
type body struct {
	head      []byte
	artifacts artifacts
	history   history
	base      base
}

// artifacts are whole until they are split into items.
type artifacts struct {
	whole document.List
	items []artifact
}

type artifact struct {
	id     string
	fields []byte
	parts  rope
	count  int // of parts
}

// history is a list as it was written whole, and single messages behind it, without tags.
type history struct {
	whole document.List
	items queue[[]byte]
}

// base is the memory that came with a whole task, which stays as a whole as long as one of the pieces is in it.
type base struct {
	size                     int
	head, artifacts, history bool // which pieces are in it
}

var _ backend.Document = (*body)(nil)

// Head returns the head.
func (b *body) Head() ([]byte, error) { return b.head, nil }

// Artifact looks an artifact up by its id. It splits nothing, for a split list may come back with its fields in another
// order, and a refused delta changes not even that.
func (b *body) Artifact(id string) (backend.ArtifactInfo, error) {
	var info backend.ArtifactInfo
	found := func(i, parts, fieldBytes, partBytes int) {
		if info.Holds++; info.Holds == 1 {
			info.Index, info.Parts, info.FieldBytes, info.PartBytes = i, parts, fieldBytes, partBytes
		}
	}
	for i := range b.artifacts.items {
		if a := &b.artifacts.items[i]; a.id == id {
			found(i, a.count, len(a.fields), a.parts.size)
		}
	}
	if b.artifacts.whole.Count == 0 {
		return info, nil
	}
	for i, a := range document.SplitArtifacts(b.artifacts.whole) {
		if a.ID == id {
			found(i, a.Parts.Count, len(a.Fields), len(a.Parts.Bytes))
		}
	}
	return info, nil
}

// ArtifactBytes returns the size of the list of artifacts.
func (b *body) ArtifactBytes() (int, error) {
	size := len(b.artifacts.whole.Bytes)
	for i := range b.artifacts.items {
		size += b.artifacts.items[i].size()
	}
	return size, nil
}

// OldestMessages returns the size of the n oldest messages.
func (b *body) OldestMessages(n int) (int, error) {
	whole := b.history.whole
	keep := max(whole.Count-n, 0)
	size := len(whole.Bytes) - len(document.LastEntries(whole, keep).Bytes)
	return size + messagesSize(b.history.items.live()[:max(n-whole.Count, 0)]), nil
}

func (a *artifact) size() int { return document.ArtifactSize(len(a.fields), a.parts.size) }

func messagesSize(messages [][]byte) int {
	size := 0
	for _, m := range messages {
		size += document.MessageSize(len(m))
	}
	return size
}

// apply does to the body what a plan decided.
func (b *body) apply(c *backend.Change) {
	if t := c.Whole; t != nil {
		*b = body{head: t.Head, base: base{size: t.Size(), head: true, artifacts: true, history: true}}
		b.artifacts.whole, b.history.whole = t.Artifacts, t.History
		return
	}
	if c.Head != nil {
		b.head, b.base.head = c.Head, false
	}
	if c.Put != nil || c.Append != nil {
		b.splitArtifacts()
	}
	switch {
	case c.Artifacts != nil:
		b.artifacts, b.base.artifacts = artifacts{whole: *c.Artifacts}, false
	case c.Put != nil && c.PutAt < 0:
		b.artifacts.items = append(b.artifacts.items, ownArtifact(c.Put))
	case c.Put != nil:
		b.artifacts.items[c.PutAt] = ownArtifact(c.Put)
	case c.Append != nil:
		a := &b.artifacts.items[c.AppendAt]
		a.parts.add(c.Append.Parts.Bytes)
		a.count += c.Append.Parts.Count
		if c.Append.Replace {
			a.fields = c.Append.Fields
		}
	}
	b.trim(c.Trim)
	for _, m := range document.SplitHistory(c.History) {
		if c.History.Count > 1 {
			m = bytes.Clone(m) // else the memory of all would stay until the last one is trimmed
		}
		b.history.items.push(m)
	}
	b.leaveBase()
}

// ownArtifact makes an artifact whose pieces have memory of their own, which goes when they are replaced.
func ownArtifact(a *document.Artifact) artifact {
	return artifact{
		id: a.ID, fields: bytes.Clone(a.Fields), parts: ropeOf(bytes.Clone(a.Parts.Bytes)), count: a.Parts.Count,
	}
}

func (b *body) splitArtifacts() {
	if b.artifacts.whole.Count == 0 {
		return
	}
	split := document.SplitArtifacts(b.artifacts.whole)
	items := make([]artifact, len(split))
	for i := range split {
		items[i] = ownArtifact(&split[i])
	}
	b.artifacts, b.base.artifacts = artifacts{items: items}, false
}

// trim removes the n oldest messages.
func (b *body) trim(n int) {
	if n == 0 {
		return
	}
	if h := &b.history; h.whole.Count > 0 {
		items := document.SplitHistory(h.whole)
		for i := range items {
			items[i] = bytes.Clone(items[i])
		}
		b.history = history{items: queue[[]byte]{items: append(items, h.items.live()...)}}
		b.base.history = false
	}
	b.history.items.drop(n)
}

// leaveBase copies the pieces out of the base when more than an eighth of it is no longer needed.
func (b *body) leaveBase() {
	if b.base.size == 0 {
		return
	}
	used := 0
	if b.base.head {
		used += len(b.head)
	}
	if b.base.artifacts {
		used += len(b.artifacts.whole.Bytes)
	}
	if b.base.history {
		used += len(b.history.whole.Bytes)
	}
	if used >= b.base.size-b.base.size/8 {
		return
	}
	if b.base.head {
		b.head = bytes.Clone(b.head)
	}
	if b.base.artifacts {
		b.artifacts.whole.Bytes = bytes.Clone(b.artifacts.whole.Bytes)
	}
	if b.base.history {
		b.history.whole.Bytes = bytes.Clone(b.history.whole.Bytes)
	}
	b.base = base{}
}

// view is a body at one instant. It is put together without a lock.
type view struct {
	head      []byte
	artifacts artifacts
	whole     document.List
	messages  [][]byte
}

// view returns what the extent needs of the body.
func (b *body) view(e backend.Extent) view {
	if e.StateOnly {
		return view{}
	}
	v := view{head: b.head, whole: b.history.whole, messages: b.history.items.live()}
	if !e.OmitArtifacts {
		v.artifacts = artifacts{whole: b.artifacts.whole, items: slices.Clone(b.artifacts.items)}
	}
	return v
}

// keep cuts the history to its last n messages, unless n is negative.
func (v *view) keep(n int) {
	switch {
	case n < 0 || n >= v.whole.Count+len(v.messages):
	case n <= len(v.messages):
		v.whole, v.messages = document.List{}, v.messages[len(v.messages)-n:]
	default:
		v.whole = document.LastEntries(v.whole, n-len(v.messages))
	}
}

func (v *view) size() int {
	size := len(v.head) + len(v.artifacts.whole.Bytes) + len(v.whole.Bytes) + messagesSize(v.messages)
	for i := range v.artifacts.items {
		size += v.artifacts.items[i].size()
	}
	return size
}

// walk calls emit with the encoded task, piece by piece. With keep, emit may keep the piece, which never changes; else it has
// to copy it.
func (v *view) walk(emit func(piece []byte, keep bool)) {
	var scratch []byte
	emit(v.head, true)
	emit(v.artifacts.whole.Bytes, true)
	for i := range v.artifacts.items {
		a := &v.artifacts.items[i]
		scratch = document.AppendArtifactTag(scratch[:0], len(a.fields), a.parts.size)
		emit(scratch, false)
		emit(a.fields, true)
		for _, block := range a.parts.sealed {
			emit(block, true)
		}
		emit(a.parts.tail, true)
	}
	emit(v.whole.Bytes, true)
	for _, m := range v.messages {
		scratch = document.AppendMessageTag(scratch[:0], len(m))
		emit(scratch, false)
		emit(m, true)
	}
}

// appendTo appends the encoded task to dst.
func (v *view) appendTo(dst []byte) []byte {
	v.walk(func(piece []byte, _ bool) { dst = append(dst, piece...) })
	return dst
}

// minPiece is the size in bytes from which a piece is worth more than the copy that it spares.
const minPiece = 4 << 10

// pieces returns the encoded task as the pieces that the record holds; small ones are copied together.
func (v *view) pieces() [][]byte {
	var out [][]byte
	var small []byte
	flush := func() {
		if len(small) > 0 {
			out, small = append(out, small), nil
		}
	}
	v.walk(func(piece []byte, keep bool) {
		if !keep || len(piece) < minPiece {
			small = append(small, piece...)
			return
		}
		flush()
		out = append(out, piece)
	})
	flush()
	return out
}
