package postgres

import (
	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
)

// docAsk is what the plan of a delta needs to know of the stored document.
type docAsk struct {
	head bool
	// artifact asks for the artifact with artifactID.
	artifact   bool
	artifactID string
	// keep asks for the messages that go when added more come and so many are kept; negative: none go.
	keep, added int
}

func askFor(d *document.Delta) *docAsk {
	a := &docAsk{head: d.Head != nil || d.Status != nil, keep: d.MaxHistory, added: d.History.Count}
	switch {
	case d.Put != nil:
		a.artifact, a.artifactID = true, d.Put.ID
	case d.Append != nil:
		a.artifact, a.artifactID = true, d.Append.ID
	}
	if a.keep >= 0 {
		a.added = min(a.added, a.keep)
	}
	return a
}

// stored is what was read of the stored document, as a docAsk asked. It is what the plan of the delta sees.
type stored struct {
	head          []byte
	artifactBytes int64

	// artifact is the one with artifactID, if one was asked for.
	artifactID string
	artifact   backend.ArtifactInfo
	// split are the artifacts, where they are not rows.
	split []document.Artifact

	// history is the list in the row of the task, if some of it goes; then come the oldest messages that are rows.
	history document.List
	oldest  []oldMessage
	// trimmed is the size of the messages that go, and trimmedRows how many of the oldest do.
	trimmed     int
	trimmedRows int
}

// oldMessage is a row of messages, without its content.
type oldMessage struct {
	version, idx, size int64
}

var _ backend.Document = (*stored)(nil)

// Head returns the head.
func (s *stored) Head() ([]byte, error) { return s.head, nil }

// Artifact returns what was read of the artifact that was asked for.
func (s *stored) Artifact(string) (backend.ArtifactInfo, error) { return s.artifact, nil }

// ArtifactBytes returns the size of the list of artifacts.
func (s *stored) ArtifactBytes() (int, error) { return int(s.artifactBytes), nil }

// OldestMessages returns the size of the n oldest messages.
func (s *stored) OldestMessages(n int) (int, error) {
	keep := max(s.history.Count-n, 0)
	s.trimmed = len(s.history.Bytes) - len(document.LastEntries(s.history, keep).Bytes)
	s.trimmedRows = max(n-s.history.Count, 0)
	for _, m := range s.oldest[:s.trimmedRows] {
		s.trimmed += int(m.size)
	}
	return s.trimmed, nil
}

// take takes a list of artifacts apart and looks up the one that is asked for.
func (s *stored) take(artifacts []byte) {
	s.split = document.SplitArtifacts(document.List{Bytes: artifacts})
	s.artifact = backend.ArtifactInfo{}
	for i := range s.split {
		a := &s.split[i]
		if a.ID != s.artifactID {
			continue
		}
		if s.artifact.Holds++; s.artifact.Holds == 1 {
			s.artifact.Index, s.artifact.Parts = i, a.Parts.Count
			s.artifact.FieldBytes, s.artifact.PartBytes = len(a.Fields), len(a.Parts.Bytes)
		}
	}
}
