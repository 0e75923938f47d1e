package pebble

import (
	"slices"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
	"github.com/cockroachdb/pebble/v2"
	"google.golang.org/protobuf/encoding/protowire"
)

// stored is the document of a task inside a critical section: what a delta asks for, and what a write leaves.
type stored struct {
	s   *Store
	key backend.Key
	rec *record // as it is stored
	// info is what Artifact found, for the write that follows.
	info backend.ArtifactInfo
}

var _ backend.Document = (*stored)(nil)

func (d *stored) piece(piece byte) ([]byte, error) {
	value, found, err := get(d.s.db, pieceKey(d.key, piece))
	if err == nil && !found {
		return nil, d.s.fault.corrupt("piece of a task", errMissing)
	}
	return value, d.s.fault.read(err)
}

// Head is part of backend.Document.
func (d *stored) Head() ([]byte, error) { return d.piece(pieceHead) }

// ArtifactBytes is part of backend.Document.
func (d *stored) ArtifactBytes() (int, error) { return int(d.rec.ArtifactBytes), nil }

// Artifact is part of backend.Document.
func (d *stored) Artifact(id string) (backend.ArtifactInfo, error) {
	if d.rec.Split {
		value, found, err := get(d.s.db, infoKey(d.key, id))
		if err != nil || !found {
			return backend.ArtifactInfo{}, d.s.fault.read(err)
		}
		if d.info, err = decodeInfo(value); err != nil {
			return backend.ArtifactInfo{}, d.s.fault.corrupt("artifact", err)
		}
		return d.info, nil
	}
	artifacts, err := d.artifacts()
	if err != nil {
		return backend.ArtifactInfo{}, err
	}
	if i, ok := artifactInfos(artifacts)[id]; ok {
		d.info = *i
	}
	return d.info, nil
}

// artifacts takes the list of artifacts apart.
func (d *stored) artifacts() ([]document.Artifact, error) {
	if d.rec.Artifacts == 0 {
		return nil, nil
	}
	list, err := d.piece(pieceArtifacts)
	if err != nil {
		return nil, err
	}
	return document.SplitArtifacts(document.List{Bytes: list, Count: int(d.rec.Artifacts)}), nil
}

func artifactInfos(artifacts []document.Artifact) map[string]*backend.ArtifactInfo {
	infos := make(map[string]*backend.ArtifactInfo, len(artifacts))
	for i := range artifacts {
		a := &artifacts[i]
		if info, ok := infos[a.ID]; ok {
			info.Holds++
			continue
		}
		infos[a.ID] = &backend.ArtifactInfo{
			Holds: 1, Index: i, Parts: a.Parts.Count, FieldBytes: len(a.Fields), PartBytes: len(a.Parts.Bytes),
		}
	}
	return infos
}

// OldestMessages is part of backend.Document.
func (d *stored) OldestMessages(n int) (size int, err error) {
	if listed := min(n, int(d.rec.Listed)); listed > 0 {
		list, err := d.piece(pieceHistory)
		if err != nil {
			return 0, err
		}
		for range listed {
			entry := firstEntry(list)
			size += len(entry)
			list = list[len(entry):]
		}
		n -= listed
	}
	if n == 0 {
		return size, nil
	}
	v, err := d.s.view(d.s.db)
	if err != nil {
		return 0, err
	}
	err = v.scan(messageKey(d.key, max(d.rec.First, d.rec.Listed)), after(pieceKey(d.key, pieceMessage)),
		func(_, value []byte) (bool, error) {
			size += len(value)
			n--
			return n > 0, nil
		})
	if cerr := v.close(); err == nil {
		err = cerr
	}
	return size, err
}

// firstEntry returns the first entry of a list, tag included.
func firstEntry(list []byte) []byte {
	_, _, n := protowire.ConsumeField(list)
	if n < 0 {
		panic("stored bytes are not a valid list: " + protowire.ParseError(n).Error())
	}
	return list[:n]
}

// write puts a change into the batch. It returns the layout that goes with the row that the change leaves.
func (d *stored) write(b *pebble.Batch, c *backend.Change) (layout, error) {
	w := &documentWriter{stored: d, b: b, layout: d.rec.layout}
	if c.Whole != nil {
		w.set(pieceKey(d.key, pieceHead), c.Whole.Head)
		w.replaceArtifacts(&c.Whole.Artifacts)
		w.replaceHistory(&c.Whole.History)
		return w.layout, w.err
	}
	if c.Head != nil {
		w.set(pieceKey(d.key, pieceHead), c.Head)
	}
	switch {
	case c.Artifacts != nil:
		w.replaceArtifacts(c.Artifacts)
	case c.Put != nil:
		w.putArtifact(c.Put, c.PutAt)
	case c.Append != nil:
		w.appendParts(c.Append)
	}
	if c.Trim > 0 {
		w.trim(int64(c.Trim))
	}
	if c.History.Count > 0 {
		w.appendMessages(&c.History, d.rec.Messages-int64(c.Trim))
	}
	return w.layout, w.err
}

// documentWriter collects the writes of one change. After the first error it does nothing.
type documentWriter struct {
	*stored
	b      *pebble.Batch
	layout layout
	err    error
}

func (w *documentWriter) set(key, value []byte) {
	if w.err == nil {
		w.err = w.b.Set(key, value, nil)
	}
}

func (w *documentWriter) delete(key []byte) {
	if w.err == nil {
		w.err = w.b.Delete(key, nil)
	}
}

func (w *documentWriter) clear(lower, upper []byte) {
	if w.err == nil {
		w.err = w.s.clear(w.b, lower, upper)
	}
}

// replaceList replaces one of the two lists, which is there if had is set.
func (w *documentWriter) replaceList(piece byte, had bool, list *document.List) {
	switch {
	case list.Count > 0:
		w.set(pieceKey(w.key, piece), list.Bytes)
	case had:
		w.delete(pieceKey(w.key, piece))
	}
}

func (w *documentWriter) replaceArtifacts(list *document.List) {
	w.replaceList(pieceArtifacts, !w.rec.Split && w.rec.Artifacts > 0, list)
	if w.rec.Split {
		w.clear(pieceKey(w.key, pieceArtifact), after(pieceKey(w.key, pieceInfo)))
	}
	w.layout.Split, w.layout.ArtifactBytes = false, int64(len(list.Bytes))
}

func (w *documentWriter) replaceHistory(list *document.List) {
	w.replaceList(pieceHistory, w.rec.Listed > 0, list)
	if w.rec.Messages > w.rec.Listed {
		w.clear(pieceKey(w.key, pieceMessage), after(pieceKey(w.key, pieceMessage)))
	}
	w.layout.Listed, w.layout.First = int64(list.Count), 0
}

// split gives each artifact keys of its own.
func (w *documentWriter) split() {
	if w.layout.Split || w.err != nil {
		return
	}
	w.layout.Split = true
	var artifacts []document.Artifact
	if artifacts, w.err = w.artifacts(); len(artifacts) == 0 {
		return
	}
	for i := range artifacts {
		w.setArtifact(i, &artifacts[i])
	}
	for id, info := range artifactInfos(artifacts) {
		w.set(infoKey(w.key, id), appendInfo(nil, info))
	}
	w.delete(pieceKey(w.key, pieceArtifacts))
}

func (w *documentWriter) setArtifact(index int, a *document.Artifact) {
	w.set(artifactKey(w.key, index, artifactFields), a.Fields)
	w.set(artifactKey(w.key, index, artifactParts), a.Parts.Bytes)
}

func (w *documentWriter) putArtifact(a *document.Artifact, at int) {
	w.split()
	if at < 0 {
		at = int(w.rec.Artifacts)
	} else {
		w.layout.ArtifactBytes -= int64(document.ArtifactSize(w.info.FieldBytes, w.info.PartBytes))
	}
	w.setArtifact(at, a)
	w.layout.ArtifactBytes += int64(a.Size())
	w.set(infoKey(w.key, a.ID), appendInfo(nil, &backend.ArtifactInfo{
		Holds: 1, Index: at, Parts: a.Parts.Count, FieldBytes: len(a.Fields), PartBytes: len(a.Parts.Bytes),
	}))
}

func (w *documentWriter) appendParts(a *document.AppendToArtifact) {
	w.split()
	info := w.info
	w.layout.ArtifactBytes -= int64(document.ArtifactSize(info.FieldBytes, info.PartBytes))
	if a.Replace {
		w.set(artifactKey(w.key, info.Index, artifactFields), a.Fields)
		info.FieldBytes = len(a.Fields)
	}
	if a.Parts.Count > 0 && w.err == nil {
		w.err = w.b.Merge(artifactKey(w.key, info.Index, artifactParts), a.Parts.Bytes, nil)
	}
	info.Parts += a.Parts.Count
	info.PartBytes += len(a.Parts.Bytes)
	w.layout.ArtifactBytes += int64(document.ArtifactSize(info.FieldBytes, info.PartBytes))
	w.set(infoKey(w.key, a.ID), appendInfo(nil, &info))
}

// trim drops the n oldest messages. The list of the history, if it loses some, is taken apart.
func (w *documentWriter) trim(n int64) {
	from, to := w.layout.First, w.layout.First+n
	if listed := w.layout.Listed; listed > 0 && w.err == nil {
		var list []byte
		if list, w.err = w.piece(pieceHistory); w.err != nil {
			return
		}
		for number := range listed {
			entry := firstEntry(list)
			list = list[len(entry):]
			if number >= to {
				w.set(messageKey(w.key, number), entry)
			}
		}
		w.delete(pieceKey(w.key, pieceHistory))
		from = listed
	}
	if from < to {
		w.clear(messageKey(w.key, from), messageKey(w.key, to))
	}
	w.layout.Listed, w.layout.First = 0, to
}

// appendMessages appends messages to the n that are there.
func (w *documentWriter) appendMessages(list *document.List, n int64) {
	number := w.layout.First + n
	for rest := list.Bytes; len(rest) > 0; number++ {
		entry := firstEntry(rest)
		w.set(messageKey(w.key, number), entry)
		rest = rest[len(entry):]
	}
}

// clearByKey is how many keys are deleted one by one: a range tombstone costs every read near it, so it must be worth it.
const clearByKey = 32

// clear deletes the keys in [lower, upper).
func (s *Store) clear(b *pebble.Batch, lower, upper []byte) error {
	v, err := s.view(s.db)
	if err != nil {
		return err
	}
	var keys [][]byte
	err = v.scan(lower, upper, func(key, _ []byte) (bool, error) {
		keys = append(keys, slices.Clone(key))
		return len(keys) <= clearByKey, nil
	})
	if cerr := v.close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if len(keys) > clearByKey {
		return b.DeleteRange(lower, upper, nil)
	}
	for _, key := range keys {
		if err := b.Delete(key, nil); err != nil {
			return err
		}
	}
	return nil
}
