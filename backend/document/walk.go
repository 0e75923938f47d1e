package document

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// MaxDepth is how deep messages may nest in a payload. Parsers in other languages stop at 100 levels, of which the
// envelopes of the replies take some.
const MaxDepth = 90

// MaxPayload bounds what Parse functions accept at all, in bytes; the service's message limit is lower.
const MaxPayload = 1<<31 - 1

// A tag and what it holds.
type entry struct {
	num   protowire.Number
	typ   protowire.Type
	raw   []byte // tag and value
	value []byte // of a length-delimited field
	n     uint64 // of a varint
}

// next reads the entry at the start of b. depth is how deep b's message is nested.
func next(b []byte, depth int) (entry, *Error) {
	var e entry
	num, typ, n := protowire.ConsumeTag(b)
	if n < 0 {
		return e, failf("malformed protobuf")
	}
	if num > protowire.MaxValidNumber { // ConsumeTag lets them pass; not every parser does
		return e, failf("invalid field number")
	}
	e.num, e.typ = num, typ
	m := 0
	switch typ {
	case protowire.VarintType:
		e.n, m = protowire.ConsumeVarint(b[n:])
	case protowire.BytesType:
		e.value, m = protowire.ConsumeBytes(b[n:])
	case protowire.Fixed32Type:
		_, m = protowire.ConsumeFixed32(b[n:])
	case protowire.Fixed64Type:
		_, m = protowire.ConsumeFixed64(b[n:])
	case protowire.StartGroupType:
		size, err := group(b[n:], num, depth+1)
		if err != nil {
			return e, err
		}
		m = size
	default:
		return e, failf("malformed protobuf")
	}
	if m < 0 {
		return e, failf("malformed protobuf")
	}
	e.raw = b[:n+m]
	return e, nil
}

// group returns the size of a group's content and end tag. Groups are always unknown fields here.
func group(b []byte, num protowire.Number, depth int) (int, *Error) {
	if depth > MaxDepth {
		return 0, failf("nested deeper than %d levels", MaxDepth)
	}
	rest := b
	for {
		got, typ, n := protowire.ConsumeTag(rest)
		if n < 0 {
			return 0, failf("malformed protobuf")
		}
		if typ == protowire.EndGroupType {
			if got != num {
				return 0, failf("malformed protobuf")
			}
			return len(b) - len(rest) + n, nil
		}
		e, err := next(rest, depth)
		if err != nil {
			return 0, err
		}
		rest = rest[len(e.raw):]
	}
}

// field returns the schema of an entry; ok is false if the field is unknown, also by having another wire type, which
// parsers keep as unknown.
func (m *message) field(e *entry) (f *field, ok bool) {
	if e.num > maxField {
		return nil, false
	}
	f = &m.fields[e.num]
	if f.name == "" || (f.kind != scalar && e.typ != protowire.BytesType) {
		return nil, false
	}
	return f, true
}

// seen notes the messages that may occur once only.
type seen uint16

// check validates the value of a known field.
func (f *field) check(e *entry, once *seen, depth int) *Error {
	switch f.kind {
	case text:
		if !utf8.Valid(e.value) {
			return failf("invalid UTF-8").under(f.name)
		}
	case single:
		if *once&(1<<e.num) != 0 {
			return failf("occurs twice").under(f.name)
		}
		*once |= 1 << e.num
		if err := f.msg.validate(e.value, depth+1); err != nil {
			return err.under(f.name)
		}
	case repeated:
		if err := f.msg.validate(e.value, depth+1); err != nil {
			return err.under(f.name)
		}
	}
	return nil
}

// validate checks a message and everything below it.
func (m *message) validate(b []byte, depth int) *Error {
	if depth > MaxDepth {
		return failf("nested deeper than %d levels", MaxDepth)
	}
	if m.time {
		_, err := parseTimestamp(b, depth)
		return err
	}
	var once seen
	for len(b) > 0 {
		e, err := next(b, depth)
		if err != nil {
			return err
		}
		if f, ok := m.field(&e); ok {
			if err := f.check(&e, &once, depth); err != nil {
				return err
			}
		}
		b = b[len(e.raw):]
	}
	return nil
}

// The range of a google.protobuf.Timestamp: 0001-01-01T00:00:00Z to 9999-12-31T23:59:59Z.
const (
	minSeconds = -62135596800
	maxSeconds = 253402300799
	maxNanos   = 999999999
)

// NewTimestamp returns a Timestamp, or an error if it is none that protobuf allows.
func NewTimestamp(seconds int64, nanos int32) (Timestamp, error) {
	if seconds < minSeconds || seconds > maxSeconds || nanos < 0 || nanos > maxNanos {
		return Timestamp{}, failf("timestamp out of range")
	}
	return Timestamp{Valid: true, Seconds: seconds, Nanos: nanos}, nil
}

func parseTimestamp(b []byte, depth int) (Timestamp, *Error) {
	var seconds int64
	var nanos int32
	for len(b) > 0 {
		e, err := next(b, depth)
		if err != nil {
			return Timestamp{}, err
		}
		if e.typ == protowire.VarintType {
			switch e.num {
			case 1:
				seconds = int64(e.n)
			case 2:
				nanos = int32(e.n)
			}
		}
		b = b[len(e.raw):]
	}
	t, err := NewTimestamp(seconds, nanos)
	if err != nil {
		return t, err.(*Error)
	}
	return t, nil
}
