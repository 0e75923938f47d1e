package document

import "google.golang.org/protobuf/encoding/protowire"

// Event is a validated StreamResponse.
type Event struct {
	Bytes []byte
	// TaskID and ContextID are those that the event names; "" if it names none.
	TaskID    string
	ContextID string
}

// The numbers of the ids in the payloads of a StreamResponse.
var eventIDs = [...]struct{ task, context protowire.Number }{
	responseTask:           {taskID, taskContextID},
	responseMessage:        {3, 2},
	responseStatusUpdate:   {1, 2},
	responseArtifactUpdate: {1, 2},
}

// ParseEvent validates an encoded StreamResponse. It has one payload; a payload of a kind that a later version of A2A adds
// counts as one.
func ParseEvent(b []byte) (Event, error) {
	ev := Event{Bytes: b}
	if len(b) == 0 {
		return ev, failf("an event has no payload")
	}
	var once seen
	known := 0
	for rest := b; len(rest) > 0; {
		e, err := next(rest, 1)
		if err != nil {
			return ev, err
		}
		if f, ok := responseMsg.field(&e); ok {
			if known++; known > 1 {
				return ev, failf("an event has one payload").under(f.name)
			}
			if err := f.check(&e, &once, 1); err != nil {
				return ev, err
			}
			ids := eventIDs[e.num]
			for inner := e.value; len(inner) > 0; {
				id := valid(inner)
				switch {
				case id.typ != protowire.BytesType:
				case id.num == ids.task:
					ev.TaskID = string(id.value)
				case id.num == ids.context:
					ev.ContextID = string(id.value)
				}
				inner = inner[len(id.raw):]
			}
		}
		rest = rest[len(e.raw):]
	}
	return ev, nil
}

// SnapshotSize is the size of the event that AppendSnapshot makes of a task of the size.
func SnapshotSize(task int) int { return fieldSize(task) }

// AppendSnapshotTag appends what precedes a task of the size in the event that AppendSnapshot makes of it.
func AppendSnapshotTag(dst []byte, task int) []byte {
	dst = protowire.AppendTag(dst, responseTask, protowire.BytesType)
	return protowire.AppendVarint(dst, uint64(task))
}

// AppendSnapshot appends an encoded StreamResponse with the encoded task to dst.
func AppendSnapshot(dst, task []byte) []byte { return appendField(dst, responseTask, task) }
