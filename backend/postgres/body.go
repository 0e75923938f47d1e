package postgres

import (
	"slices"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
)

// body is a stored document, as far as an extent reaches.
type body struct {
	rec  record
	head []byte
	// artifacts is the list as it is in the task's row; fields and parts are those of the artifacts that are rows.
	artifacts     []byte
	fields, parts [][]byte
	// history is the list as it is in the task's row; entries are those of the messages that are rows, newest first.
	history []byte
	entries [][]byte
}

// bodyColumns are the columns of a body of the row t, in the order of dest.
func bodyColumns(s *statement, e backend.Extent) string {
	return recordColumns + ", " + documentColumns(s, e, "true")
}

// documentColumns are those of them that are the document's, in the order of documentDest. Where the condition does not hold
// they are NULL. Expressions that the row or the extent do not need are not evaluated. The inner queries walk their primary
// keys, so the aggregates see the rows in order.
func documentColumns(s *statement, e backend.Extent, condition string) string {
	whole := condition + " AND " + s.arg(!e.StateOnly) + "::boolean"
	artifacts := condition + " AND " + s.arg(!e.StateOnly && !e.OmitArtifacts) + "::boolean"
	n := int64(e.History)
	if e.StateOnly {
		n = 0
	}
	history := s.arg(n) + "::bigint"
	return `CASE WHEN ` + whole + ` THEN t.head END,
		CASE WHEN ` + artifacts + ` THEN t.artifacts END,
		CASE WHEN ` + artifacts + ` AND t.artifact_rows THEN (
			SELECT array_agg(a.fields) FROM (
				SELECT a.fields FROM ` + schemaName + `.artifacts a
				WHERE a.row_id = t.row_id ORDER BY a.pos
			) a) END,
		CASE WHEN ` + artifacts + ` AND t.artifact_rows THEN (
			SELECT array_agg(a.parts || coalesce((
				SELECT string_agg(p.parts, ''::bytea) FROM (
					SELECT p.parts FROM ` + schemaName + `.artifact_parts p
					WHERE p.row_id = a.row_id AND p.pos = a.pos ORDER BY p.version
				) p), ''::bytea)) FROM (
				SELECT a.row_id, a.pos, a.parts FROM ` + schemaName + `.artifacts a
				WHERE a.row_id = t.row_id ORDER BY a.pos
			) a) END,
		CASE WHEN ` + condition + ` AND ` + history + ` <> 0 THEN t.history END,
		CASE WHEN ` + condition + ` AND ` + history + ` <> 0 AND t.message_rows THEN (
			SELECT array_agg(m.entry) FROM (
				SELECT m.entry FROM ` + schemaName + `.messages m
				WHERE m.row_id = t.row_id ORDER BY m.version DESC, m.idx DESC
				LIMIT CASE WHEN ` + history + ` >= 0 THEN ` + history + ` END
			) m) END`
}

// dest returns where to scan the bodyColumns to.
func (b *body) dest() []any { return append(b.rec.dest(), b.documentDest()...) }

func (b *body) documentDest() []any {
	return []any{&b.head, &b.artifacts, &b.fields, &b.parts, &b.history, &b.entries}
}

// task returns the encoded task, of the extent that the body was read with.
func (b *body) task(id string, e backend.Extent) []byte {
	if e.StateOnly {
		return document.AppendState(nil, id, b.rec.ContextID, b.rec.State, b.rec.Time)
	}
	history := b.historyList(e.History)
	artifacts := b.artifactList()
	out := make([]byte, 0, len(b.head)+len(artifacts)+len(history.Bytes))
	out = append(out, b.head...)
	out = append(out, artifacts...)
	return append(out, history.Bytes...)
}

// artifactList returns the list of artifacts.
func (b *body) artifactList() []byte {
	if len(b.fields) == 0 {
		return b.artifacts
	}
	size := len(b.artifacts)
	for i := range b.fields {
		size += document.ArtifactSize(len(b.fields[i]), len(b.parts[i]))
	}
	list := append(make([]byte, 0, size), b.artifacts...)
	for i := range b.fields {
		list = document.AppendArtifactTag(list, len(b.fields[i]), len(b.parts[i]))
		list = append(list, b.fields[i]...)
		list = append(list, b.parts[i]...)
	}
	return list
}

// historyList returns the last n messages; all if n is negative.
func (b *body) historyList(n int) document.List {
	var whole document.List
	if n < 0 || n > len(b.entries) {
		whole = document.List{Bytes: b.history, Count: document.CountEntries(b.history)}
	}
	if n >= 0 {
		whole = document.LastEntries(whole, max(n-len(b.entries), 0))
	}
	if len(b.entries) == 0 {
		return whole
	}
	size := len(whole.Bytes)
	for _, e := range b.entries {
		size += len(e)
	}
	list := document.List{Bytes: append(make([]byte, 0, size), whole.Bytes...), Count: whole.Count + len(b.entries)}
	for _, e := range slices.Backward(b.entries) {
		list.Bytes = append(list.Bytes, e...)
	}
	return list
}

// after returns the encoded task that a change of a delta leaves of a body that was read whole.
func (b *body) after(c *backend.Change) []byte {
	head := b.head
	if c.Head != nil {
		head = c.Head
	}
	artifacts := b.artifactList()
	switch {
	case c.Artifacts != nil:
		artifacts = c.Artifacts.Bytes
	case c.Put != nil && c.PutAt < 0:
		artifacts = document.AppendArtifact(slices.Clip(artifacts), c.Put)
	case c.Put != nil:
		artifacts = edit(artifacts, c.PutAt, func(a *document.Artifact) { *a = *c.Put })
	case c.Append != nil:
		artifacts = edit(artifacts, c.AppendAt, func(a *document.Artifact) {
			if c.Append.Replace {
				a.Fields = c.Append.Fields
			}
			a.Parts.Bytes = append(slices.Clip(a.Parts.Bytes), c.Append.Parts.Bytes...)
		})
	}
	history := b.historyList(-1)
	history = document.LastEntries(history, history.Count-c.Trim)
	return slices.Concat(head, artifacts, history.Bytes, c.History.Bytes)
}

// edit returns a list of artifacts with the one at an index changed.
func edit(list []byte, at int, change func(*document.Artifact)) []byte {
	split := document.SplitArtifacts(document.List{Bytes: list})
	change(&split[at])
	var out []byte
	for i := range split {
		out = document.AppendArtifact(out, &split[i])
	}
	return out
}

// body reads the whole document of an op's key.
func (l *loader) body(o *op) {
	s := &statement{}
	key := o.plan.asks().key
	columns := bodyColumns(s, backend.All)
	query := "SELECT " + columns + " FROM " + schemaName + ".tasks t WHERE t.tenant = " + s.arg(asBytes(key.Tenant)) +
		" AND t.task_id = " + s.arg(asBytes(key.TaskID))
	l.batch.Queue(query, s.args...).Query(scanBodies(func(b *body) { o.in.body = b }))
}
