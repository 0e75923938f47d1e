package document

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// Status is a validated TaskStatus.
type Status struct {
	Bytes []byte
	State int32
	Time  Timestamp
}

// Artifact is one artifact. Fields and Parts, one behind the other, are the encoded Artifact: parsers do not mind the
// order, and so parts are appended by appending bytes.
type Artifact struct {
	ID string
	// Fields is every field but the parts, unknown ones too.
	Fields []byte
	// Parts are the parts, tags included.
	Parts List
}

// Size is the size of the artifact as an entry of a List.
func (a *Artifact) Size() int { return ArtifactSize(len(a.Fields), len(a.Parts.Bytes)) }

// ArtifactSize is the size of an artifact as an entry of a List, given the sizes of its two pieces.
func ArtifactSize(fields, parts int) int { return fieldSize(fields + parts) }

// MessageSize is the size of a message as an entry of a List.
func MessageSize(n int) int { return fieldSize(n) }

// AppendArtifactTag appends what precedes the pieces of an artifact of the sizes in a List.
func AppendArtifactTag(dst []byte, fields, parts int) []byte {
	dst = protowire.AppendTag(dst, taskArtifacts, protowire.BytesType)
	return protowire.AppendVarint(dst, uint64(fields+parts))
}

// AppendArtifact appends an artifact, as an entry of a List, to dst.
func AppendArtifact(dst []byte, a *Artifact) []byte {
	dst = AppendArtifactTag(dst, len(a.Fields), len(a.Parts.Bytes))
	dst = append(dst, a.Fields...)
	return append(dst, a.Parts.Bytes...)
}

// AppendMessageTag appends what precedes a message of the size in a List.
func AppendMessageTag(dst []byte, size int) []byte {
	dst = protowire.AppendTag(dst, taskHistory, protowire.BytesType)
	return protowire.AppendVarint(dst, uint64(size))
}

// SplitArtifacts takes a list of artifacts apart.
func SplitArtifacts(l List) []Artifact {
	out := make([]Artifact, 0, l.Count)
	each(l.Bytes, func(e *entry) { out = append(out, splitArtifact(e.value)) })
	return out
}

func splitArtifact(b []byte) Artifact {
	var a Artifact
	var fields, parts run
	at := 0
	each(b, func(e *entry) {
		end := at + len(e.raw)
		if e.num == artifactParts && e.typ == protowire.BytesType {
			parts.add(b, at, end)
			a.Parts.Count++
		} else {
			fields.add(b, at, end)
			if e.num == artifactID && e.typ == protowire.BytesType {
				a.ID = string(e.value)
			}
		}
		at = end
	})
	a.Fields, a.Parts.Bytes = fields.bytes, parts.bytes
	return a
}

// SplitHistory takes a list of messages apart: each is the encoded Message, without the tag.
func SplitHistory(l List) [][]byte {
	out := make([][]byte, 0, l.Count)
	each(l.Bytes, func(e *entry) { out = append(out, slices.Clip(e.value)) })
	return out
}

// CountEntries returns how many entries the bytes of a list have.
func CountEntries(list []byte) (n int) {
	each(list, func(*entry) { n++ })
	return n
}

// LastEntries returns the last n entries of a list.
func LastEntries(l List, n int) List {
	if n < 0 || n >= l.Count {
		return l
	}
	skip := l.Count - n
	at := 0
	for range skip {
		e, err := next(l.Bytes[at:], 0)
		if err != nil {
			panic("document: stored bytes are not a valid list: " + err.Error())
		}
		at += len(e.raw)
	}
	return List{Bytes: l.Bytes[at:], Count: n}
}

// ReplaceStatus returns a head with another status, in memory of its size.
func ReplaceStatus(head, status []byte) []byte {
	isStatus := func(e *entry) bool { return e.num == taskStatus && e.typ == protowire.BytesType }
	size := len(head) + fieldSize(len(status))
	each(head, func(e *entry) {
		if isStatus(e) {
			size -= len(e.raw)
		}
	})
	out := make([]byte, 0, size)
	each(head, func(e *entry) {
		if !isStatus(e) {
			out = append(out, e.raw...)
		}
	})
	return appendField(out, taskStatus, status)
}

// ParseStatus validates an encoded TaskStatus.
func ParseStatus(b []byte) (*Status, error) {
	if err := statusMsg.validate(b, 2); err != nil {
		return nil, err
	}
	s := &Status{Bytes: b}
	s.State, s.Time = readStatus(b)
	return s, nil
}

// ParseArtifact validates an encoded Artifact.
func ParseArtifact(b []byte) (*Artifact, error) {
	if err := artifactMsg.validate(b, 2); err != nil {
		return nil, err
	}
	a := splitArtifact(b)
	return &a, nil
}

// ParseArtifacts validates encoded Artifacts and makes a List of them.
func ParseArtifacts(items [][]byte) (List, error) {
	return parseList(items, artifactMsg, taskArtifacts, 2)
}

// ParseHistory validates encoded Messages and makes a List of them.
func ParseHistory(items [][]byte) (List, error) { return parseList(items, messageMsg, taskHistory, 2) }

// ParseParts validates encoded Parts and makes a List of them, tagged as an Artifact's.
func ParseParts(items [][]byte) (List, error) { return parseList(items, partMsg, artifactParts, 3) }

func parseList(items [][]byte, m *message, num protowire.Number, depth int) (List, error) {
	size := 0
	for _, item := range items {
		if err := m.validate(item, depth); err != nil {
			return List{}, err
		}
		size += fieldSize(len(item))
	}
	l := List{Bytes: make([]byte, 0, size), Count: len(items)}
	for _, item := range items {
		l.Bytes = appendField(l.Bytes, num, item)
	}
	return l, nil
}

// AppendToArtifact is what a Delta appends to one artifact.
type AppendToArtifact struct {
	ID    string
	Parts List
	// Base, unless negative, is the number of parts that the artifact must have.
	Base int
	// Fields replaces every field but the parts when Replace is set.
	Replace bool
	Fields  []byte
}

// Delta is a validated change of a task. At most one of Head and Status, and at most one of Artifacts, Put and Append is
// set.
type Delta struct {
	// Head is a task without artifacts and history.
	Head   *Task
	Status *Status
	// Artifacts replaces all artifacts.
	Artifacts *List
	Put       *Artifact
	Append    *AppendToArtifact
	// History is appended to the history, of which the last MaxHistory messages are kept unless it is negative.
	History    List
	MaxHistory int
}
