package postgres

import (
	"crypto/sha256"
	"math"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
)

// change is what a write leaves under one id, on the condition that the row is still what it was, by its stamp.
type change struct {
	key  backend.Key
	was  *record // the zero record: on the condition that there is no row
	next record

	// The long columns; nil leaves what is there.
	head, artifacts, history []byte

	events []backend.Event
	// dropEvents removes the events before this position.
	dropEvents int64

	// dropArtifacts and dropMessages remove all rows that lists were taken apart into.
	dropArtifacts, dropMessages bool

	newArtifacts []artifactRow
	setArtifact  *artifactRow // replaces the row at its pos, and what was appended to it
	setFields    *artifactRow // replaces the fields of the row at its pos
	newParts     *partsRow
	newMessages  []messageRow
	trimMessages []oldMessage // the rows that go

	claim *claimChange
	// absentWrite, unless empty, is a condition more: that no event of the log has this write_id.
	absentWrite string

	// artifactAfter is what an artifact has come to that parts were appended to.
	artifactAfter *backend.ArtifactInfo
}

// everything, for dropEvents.
const everything = math.MaxInt64

type artifactRow struct {
	pos    int64
	digest []byte
	fields []byte
	parts  document.List
}

type partsRow struct {
	pos       int64
	parts     []byte
	partTotal int64
	byteTotal int64
}

type messageRow struct {
	version int64
	idx     int64
	entry   []byte
}

// claimChange is what becomes of a claim's record, on the condition that it still has the stamp prev (0: that there is none).
type claimChange struct {
	key   backend.ClaimKey
	prev  int64
	stamp int64
	next  backend.Claim
}

// touchesArtifacts reports whether an artifact changes.
func (c *change) touchesArtifacts() bool {
	return c.artifacts != nil || c.newArtifacts != nil || c.setArtifact != nil || c.setFields != nil || c.newParts != nil
}

// replacesMessages reports whether the history is another one than before, but for what is appended and trimmed.
func (c *change) replacesMessages() bool { return c.history != nil || c.dropMessages }

// digest stands for an artifact's id in keys, which have a bound where ids have none.
func digest(id string) []byte {
	sum := sha256.Sum256([]byte(id))
	return sum[:16]
}

// clear makes the change remove everything that hangs on the row.
func (c *change) clear() {
	c.head, c.artifacts, c.history = []byte{}, []byte{}, []byte{}
	c.dropEvents, c.dropArtifacts, c.dropMessages = everything, c.next.artifactRows, c.next.messageRows
	c.next.artifactRows, c.next.messageRows, c.next.artifactBytes = false, false, 0
}

// document sets what a plan's Change does to the document, of which stored is what the plan was made with.
func (c *change) document(ch *backend.Change, stored *stored) {
	was := c.was
	c.next.artifactRows, c.next.messageRows, c.next.artifactBytes = was.artifactRows, was.messageRows, was.artifactBytes
	if w := ch.Whole; w != nil {
		c.head, c.artifacts, c.history = notNil(w.Head), notNil(w.Artifacts.Bytes), notNil(w.History.Bytes)
		c.dropArtifacts, c.dropMessages = was.artifactRows, was.messageRows
		c.next.artifactRows, c.next.messageRows = false, false
		c.next.artifactBytes = int64(len(w.Artifacts.Bytes))
		return
	}
	rest := c.next.Size - was.Size // of the growth, what is not the head's or the history's is the artifacts'
	if ch.Head != nil {
		c.head = ch.Head
		rest -= int64(len(ch.Head) - len(stored.head))
	}
	rest -= int64(len(ch.History.Bytes) - stored.trimmed)
	c.next.artifactBytes += rest

	c.changeArtifacts(ch, stored)
	c.changeHistory(ch, stored)
}

func (c *change) changeArtifacts(ch *backend.Change, stored *stored) {
	was := c.was
	if ch.Artifacts != nil {
		c.artifacts, c.dropArtifacts, c.next.artifactRows = notNil(ch.Artifacts.Bytes), was.artifactRows, false
		return
	}
	if ch.Put == nil && ch.Append == nil {
		return
	}
	split := stored.split
	if !was.artifactRows {
		c.artifacts, c.next.artifactRows = []byte{}, true
	}
	switch {
	case ch.Put != nil && ch.PutAt < 0:
		c.newArtifacts = append(rowsOf(split), rowOf(was.Artifacts, ch.Put))
	case ch.Put != nil && !was.artifactRows:
		split[ch.PutAt] = *ch.Put
		c.newArtifacts = rowsOf(split)
	case ch.Put != nil:
		row := rowOf(int64(ch.PutAt), ch.Put)
		c.setArtifact = &row
	case !was.artifactRows:
		a := &split[ch.AppendAt]
		if ch.Append.Replace {
			a.Fields = ch.Append.Fields
		}
		c.newArtifacts = rowsOf(split)
		c.appendParts(ch, stored.artifact)
	default:
		if ch.Append.Replace {
			c.setFields = &artifactRow{pos: int64(ch.AppendAt), fields: notNil(ch.Append.Fields)}
		}
		c.appendParts(ch, stored.artifact)
	}
}

func (c *change) appendParts(ch *backend.Change, info backend.ArtifactInfo) {
	parts := ch.Append.Parts
	info.Parts += parts.Count
	info.PartBytes += len(parts.Bytes)
	if ch.Append.Replace {
		info.FieldBytes = len(ch.Append.Fields)
	}
	c.artifactAfter = &info
	if parts.Count > 0 {
		c.newParts = &partsRow{
			pos: int64(ch.AppendAt), parts: parts.Bytes, partTotal: int64(info.Parts), byteTotal: int64(info.PartBytes),
		}
	}
}

func rowOf(pos int64, a *document.Artifact) artifactRow {
	return artifactRow{pos: pos, digest: digest(a.ID), fields: notNil(a.Fields), parts: a.Parts}
}

func rowsOf(list []document.Artifact) []artifactRow {
	out := make([]artifactRow, 0, len(list)+1)
	for i := range list {
		out = append(out, rowOf(int64(i), &list[i]))
	}
	return out
}

func (c *change) changeHistory(ch *backend.Change, stored *stored) {
	if ch.Trim > 0 {
		if whole := stored.history; whole.Count > 0 {
			// Taken apart once, so that the next trim costs what it drops.
			c.history = []byte{}
			keep := document.LastEntries(whole, max(whole.Count-ch.Trim, 0))
			c.newMessages = messageRows(0, keep)
		}
		c.trimMessages = stored.oldest[:stored.trimmedRows]
	}
	c.newMessages = append(c.newMessages, messageRows(c.next.Version, ch.History)...)
	c.next.messageRows = c.next.messageRows || len(c.newMessages) > 0
}

func messageRows(version int64, l document.List) []messageRow {
	rows := make([]messageRow, 0, l.Count)
	for l.Count > 0 {
		rest := document.LastEntries(l, l.Count-1)
		entry := l.Bytes[:len(l.Bytes)-len(rest.Bytes)]
		rows = append(rows, messageRow{version: version, idx: int64(len(rows)), entry: entry})
		l = rest
	}
	return rows
}

func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
