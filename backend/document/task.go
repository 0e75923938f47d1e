package document

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
)

// Task is a validated task, taken apart.
type Task struct {
	ID        string
	ContextID string
	State     int32
	Time      Timestamp
	// Head is every field but artifacts and history, unknown ones too, encoded.
	Head []byte
	// Artifacts and History are lists; they hold the tags of their fields in Task, so that Head, Artifacts and History, one
	// behind the other, are the task.
	Artifacts List
	History   List
}

// List is a list of artifacts or messages, encoded as the field of a Task, tags included.
type List struct {
	Bytes []byte
	Count int
}

// Size is the size of the encoded task.
func (t *Task) Size() int { return len(t.Head) + len(t.Artifacts.Bytes) + len(t.History.Bytes) }

// AppendTask appends the encoded task to dst.
func (t *Task) AppendTask(dst []byte) []byte {
	dst = append(dst, t.Head...)
	dst = append(dst, t.Artifacts.Bytes...)
	return append(dst, t.History.Bytes...)
}

// run collects pieces of the input: a slice of it as long as they are adjacent there, else a copy.
type run struct {
	bytes  []byte
	end    int // where the last piece ended in the input
	copied bool
}

func (r *run) add(input []byte, from, to int) {
	switch {
	case r.bytes == nil:
		r.bytes = input[from:to:to]
	case !r.copied && r.end == from:
		start := from - len(r.bytes)
		r.bytes = input[start:to:to]
	default:
		r.copied = true
		r.bytes = append(r.bytes, input[from:to]...) // the capacity is exact, so the first append copies
	}
	r.end = to
}

// addEntry adds an entry of a list. Its tag and length are encoded anew if they were not in the shortest form: items are kept
// without them, and the sizes of a list and of its items must add up.
func (r *run) addEntry(input []byte, from int, e *entry) {
	if len(e.raw) == fieldSize(len(e.value)) {
		r.add(input, from, from+len(e.raw))
		return
	}
	r.copied = true
	r.bytes = appendField(r.bytes, e.num, e.value)
}

// kept is how much of the input the pieces are.
func (r *run) kept() int {
	if r.copied {
		return 0
	}
	return len(r.bytes)
}

// own copies the pieces out of the input.
func (r *run) own() {
	if !r.copied {
		r.bytes, r.copied = bytes.Clone(r.bytes), true
	}
}

// ParseTask validates an encoded Task. The Task either is most of b or keeps nothing of it, so that whoever keeps a Task
// keeps little else in memory.
func ParseTask(b []byte) (*Task, error) {
	t := &Task{}
	var head, artifacts, history run
	var once seen
	for at := 0; at < len(b); {
		e, err := next(b[at:], 1)
		if err != nil {
			return nil, err
		}
		end := at + len(e.raw)
		f, ok := taskMsg.field(&e)
		if ok {
			if err := f.check(&e, &once, 1); err != nil {
				return nil, err
			}
		}
		switch {
		case ok && e.num == taskArtifacts:
			artifacts.addEntry(b, at, &e)
			t.Artifacts.Count++
		case ok && e.num == taskHistory:
			history.addEntry(b, at, &e)
			t.History.Count++
		default:
			head.add(b, at, end)
		}
		if ok {
			switch e.num {
			case taskID:
				t.ID = string(e.value)
			case taskContextID:
				t.ContextID = string(e.value)
			case taskStatus:
				t.State, t.Time = readStatus(e.value)
			}
		}
		at = end
	}
	if head.kept()+artifacts.kept()+history.kept() < len(b)-len(b)/8 {
		head.own()
		artifacts.own()
		history.own()
	}
	t.Head, t.Artifacts.Bytes, t.History.Bytes = head.bytes, artifacts.bytes, history.bytes
	return t, nil
}

// readStatus returns the state and the time of a valid TaskStatus.
func readStatus(b []byte) (state int32, t Timestamp) {
	for len(b) > 0 {
		e := valid(b)
		switch {
		case e.num == statusState && e.typ == protowire.VarintType:
			state = int32(e.n)
		case e.num == statusTimestamp && e.typ == protowire.BytesType:
			t, _ = parseTimestamp(e.value, 0)
		}
		b = b[len(e.raw):]
	}
	return state, t
}

// valid returns the first entry of a valid message that is not empty.
func valid(b []byte) entry {
	e, err := next(b, 0)
	if err != nil {
		panic("document: stored bytes are not a valid message: " + err.Error())
	}
	return e
}

// each calls fn for every entry of a valid message. The entry is fn's until it returns.
func each(b []byte, fn func(*entry)) {
	var e entry // one for all, since fn makes it escape
	for len(b) > 0 {
		e = valid(b)
		fn(&e)
		b = b[len(e.raw):]
	}
}

// AppendState appends a task that has only what STATE shows: id, context id, and the status's state and time.
func AppendState(dst []byte, id, contextID string, state int32, t Timestamp) []byte {
	dst = appendText(dst, taskID, id)
	if contextID != "" {
		dst = appendText(dst, taskContextID, contextID)
	}
	var stamp []byte
	if t.Valid {
		if t.Seconds != 0 {
			stamp = protowire.AppendTag(stamp, 1, protowire.VarintType)
			stamp = protowire.AppendVarint(stamp, uint64(t.Seconds))
		}
		if t.Nanos != 0 {
			stamp = protowire.AppendTag(stamp, 2, protowire.VarintType)
			stamp = protowire.AppendVarint(stamp, uint64(t.Nanos))
		}
	}
	var status []byte
	if state != 0 {
		status = protowire.AppendTag(status, statusState, protowire.VarintType)
		status = protowire.AppendVarint(status, uint64(int64(state)))
	}
	if t.Valid {
		status = appendField(status, statusTimestamp, stamp)
	}
	if len(status) > 0 {
		dst = appendField(dst, taskStatus, status)
	}
	return dst
}

func appendField(dst []byte, num protowire.Number, value []byte) []byte {
	dst = protowire.AppendTag(dst, num, protowire.BytesType)
	return protowire.AppendBytes(dst, value)
}

func appendText(dst []byte, num protowire.Number, value string) []byte {
	dst = protowire.AppendTag(dst, num, protowire.BytesType)
	return protowire.AppendString(dst, value)
}

// fieldSize is the size of a length-delimited field with a number below 16.
func fieldSize(n int) int { return 1 + protowire.SizeBytes(n) }
