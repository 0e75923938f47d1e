package postgres

import (
	"bytes"
	"slices"

	"github.com/a2a-taskstore/taskstore/backend"
)

// memory is what a committer remembers of a row that it wrote: enough to guess the next write. It may be stale at any time;
// the stamp tells.
type memory struct {
	rec record
	// head is nil if it is not remembered.
	head []byte
	// artifact is the one that parts were appended to, if hasArtifact is set.
	hasArtifact bool
	artifactID  string
	artifact    backend.ArtifactInfo
	// oldest are the first ones of the messages, which are rows, as far as they are remembered.
	oldest []oldMessage
}

const (
	// maxMemories bounds how many rows each generation of a committer's memories holds.
	maxMemories = 4096
	// maxRememberedHead bounds the heads that are remembered, in bytes.
	maxRememberedHead = 2 << 10
)

// memories are the rows used last: when the young generation is full it becomes the old one, and what was old is forgotten.
// Not safe for concurrent use.
type memories struct {
	young, old map[backend.Key]*memory
}

func newMemories() *memories {
	return &memories{young: map[backend.Key]*memory{}, old: map[backend.Key]*memory{}}
}

// get returns nil if nothing is remembered.
func (m *memories) get(k backend.Key) *memory {
	if got, ok := m.young[k]; ok {
		return got
	}
	if got, ok := m.old[k]; ok {
		m.put(k, got)
		return got
	}
	return nil
}

func (m *memories) put(k backend.Key, v *memory) {
	if len(m.young) >= maxMemories {
		m.old, m.young = m.young, make(map[backend.Key]*memory, maxMemories)
	}
	m.young[k] = v
}

func (m *memories) forget(k backend.Key) {
	delete(m.young, k)
	delete(m.old, k)
}

// remember makes the memory of a change that was carried out; f are the facts that it was planned with.
func remember(f *facts, c *change) *memory {
	m := &memory{rec: c.next}
	if f.from != nil { // what the change leaves as it is, is still known
		m.head = f.from.head
		if !c.touchesArtifacts() {
			m.hasArtifact, m.artifactID, m.artifact = f.from.hasArtifact, f.from.artifactID, f.from.artifact
		}
	}
	if !c.replacesMessages() {
		switch {
		case f.stored != nil && f.from == nil:
			m.oldest = slices.Clone(f.stored.oldest[f.stored.trimmedRows:]) // those that have gone may have been many
		case f.stored != nil:
			m.oldest = f.stored.oldest[f.stored.trimmedRows:]
		case f.from != nil:
			m.oldest = f.from.oldest
		}
	}
	head := c.head
	if head == nil && f.stored != nil {
		head = f.stored.head
	}
	switch {
	case len(head) > maxRememberedHead:
		m.head = nil
	case head != nil:
		m.head = bytes.Clone(head) // it may be a piece of a large request
	}
	if c.artifactAfter != nil {
		m.hasArtifact, m.artifactID, m.artifact = true, f.stored.artifactID, *c.artifactAfter
	}
	return m
}
