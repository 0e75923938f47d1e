package pebble

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/a2a-taskstore/taskstore/backend"
)

// encodingVersion is the first byte of every value that is not a payload. A value with another one is corrupt: a change
// of an encoding is a change of the format version.
const encodingVersion = 1

var errEncoding = errors.New("stored value cannot be decoded")

// layout says how the pieces of a task are stored.
//
// A whole save leaves the artifacts as one list and the history as one list. The first change of one artifact gives each
// artifact keys of its own; appended messages get a key each, and the first trim that reaches into the list of the
// history gives one to each of its messages. So each later change costs its own size, and the price of taking a list
// apart is bounded by that of the save that wrote it.
type layout struct {
	// Split: the artifacts have keys of their own, and there is no list.
	Split bool
	// ArtifactBytes is the size of the list of artifacts, however it is stored.
	ArtifactBytes int64
	// Listed is how many messages the list of the history holds. Messages are numbered from 0 in the order in which they
	// came since the last whole save, the list's first.
	Listed int64
	// First is the number of the oldest message that is kept; 0 while Listed is not 0.
	First int64
}

// record is the value of a row key.
type record struct {
	backend.Row
	layout
}

// The bits of a record's flags.
const (
	flagTime = 1 << iota
	flagFinal
	flagSplit
)

func appendRecord(dst []byte, r *record) []byte {
	var flags byte
	if r.Time.Valid {
		flags |= flagTime
	}
	if r.Final {
		flags |= flagFinal
	}
	if r.Split {
		flags |= flagSplit
	}
	dst = append(dst, encodingVersion, byte(r.Kind), flags)
	dst = appendText(dst, r.Owner)
	dst = appendText(dst, r.ContextID)
	dst = appendText(dst, r.WriteID)
	for _, n := range r.numbers() {
		dst = binary.AppendVarint(dst, *n)
	}
	dst = binary.AppendVarint(dst, int64(r.State))
	return binary.AppendVarint(dst, int64(r.Time.Nanos))
}

// numbers lists the int64 fields in the order of their encoding.
func (r *record) numbers() [21]*int64 {
	return [...]*int64{
		&r.Incarnation, &r.Version, &r.Time.Seconds,
		&r.StartSeq, &r.FirstSeq, &r.LastSeq, &r.DroppedMark, &r.LogEvents, &r.LogBytes, &r.FinalSeq,
		&r.Created, &r.Updated, &r.Finalized, &r.Touched, &r.WriteSeq,
		&r.Size, &r.Artifacts, &r.Messages,
		&r.ArtifactBytes, &r.Listed, &r.First,
	}
}

func decodeRecord(b []byte) (*record, error) {
	d := decoder{rest: b}
	d.version()
	r := &record{}
	r.Kind = backend.RowKind(d.byte())
	flags := d.byte()
	r.Owner, r.ContextID, r.WriteID = d.text(), d.text(), d.text()
	for _, n := range r.numbers() {
		*n = d.varint()
	}
	r.State = d.varint32()
	r.Time.Nanos = d.varint32()
	r.Time.Valid, r.Final, r.Split = flags&flagTime != 0, flags&flagFinal != 0, flags&flagSplit != 0
	return r, d.end(r.Kind <= backend.RowTombstone && flags <= flagTime|flagFinal|flagSplit)
}

func appendEvent(dst []byte, e *backend.Event) []byte {
	var appended byte
	if e.Appended {
		appended = 1
	}
	dst = append(dst, encodingVersion, appended)
	dst = binary.AppendVarint(dst, e.Version)
	dst = binary.AppendVarint(dst, e.CreatedAt.UnixNano())
	dst = appendText(dst, e.Origin)
	dst = appendText(dst, e.WriteID)
	return append(dst, e.Bytes...)
}

// decodeEvent returns the event, whose Bytes are a slice of b.
func decodeEvent(seq int64, b []byte) (backend.Event, error) {
	d := decoder{rest: b}
	d.version()
	appended := d.byte()
	e := backend.Event{Seq: seq, Appended: appended == 1, Version: d.varint()}
	e.CreatedAt = time.Unix(0, d.varint()).UTC()
	e.Origin, e.WriteID = d.text(), d.text()
	e.Bytes, d.rest = d.rest, nil
	return e, d.end(appended <= 1)
}

// appended is where the events of one append with a write_id are.
type appended struct{ first, last, version int64 }

func appendAppended(dst []byte, a appended) []byte {
	dst = append(dst, encodingVersion)
	dst = binary.AppendVarint(dst, a.first)
	dst = binary.AppendVarint(dst, a.last)
	return binary.AppendVarint(dst, a.version)
}

func decodeAppended(b []byte) (appended, error) {
	d := decoder{rest: b}
	d.version()
	a := appended{first: d.varint(), last: d.varint(), version: d.varint()}
	return a, d.end(true)
}

func appendInfo(dst []byte, i *backend.ArtifactInfo) []byte {
	dst = append(dst, encodingVersion)
	for _, n := range [...]int{i.Holds, i.Index, i.Parts, i.FieldBytes, i.PartBytes} {
		dst = binary.AppendVarint(dst, int64(n))
	}
	return dst
}

func decodeInfo(b []byte) (backend.ArtifactInfo, error) {
	d := decoder{rest: b}
	d.version()
	var i backend.ArtifactInfo
	for _, n := range [...]*int{&i.Holds, &i.Index, &i.Parts, &i.FieldBytes, &i.PartBytes} {
		*n = int(d.varint())
	}
	return i, d.end(true)
}

func appendClaim(dst []byte, c *backend.Claim) []byte {
	var bound byte
	if c.Bound {
		bound = 1
	}
	dst = append(dst, encodingVersion, bound)
	dst = appendText(dst, c.MessageID)
	dst = appendText(dst, c.TaskID)
	dst = appendText(dst, c.Token)
	dst = binary.AppendVarint(dst, c.Expires)
	return binary.AppendVarint(dst, int64(c.TTL))
}

func decodeClaim(b []byte) (*backend.Claim, error) {
	d := decoder{rest: b}
	d.version()
	bound := d.byte()
	c := &backend.Claim{Bound: bound == 1, MessageID: d.text(), TaskID: d.text(), Token: d.text()}
	c.Expires, c.TTL = d.varint(), time.Duration(d.varint())
	return c, d.end(bound <= 1)
}

// appendFormat appends a format version. Its own encoding never changes.
func appendFormat(dst []byte, version int64) []byte { return binary.AppendVarint(dst, version) }

func appendText(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

// decoder takes a value apart. After the first fault it returns zero values; end reports the fault.
type decoder struct {
	rest []byte
	bad  bool
}

func (d *decoder) fail() {
	d.bad, d.rest = true, nil
}

func (d *decoder) version() {
	if d.byte() != encodingVersion {
		d.fail()
	}
}

func (d *decoder) byte() byte {
	if len(d.rest) == 0 {
		d.fail()
		return 0
	}
	c := d.rest[0]
	d.rest = d.rest[1:]
	return c
}

func (d *decoder) varint() int64 {
	n, size := binary.Varint(d.rest)
	if size <= 0 {
		d.fail()
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

func (d *decoder) varint32() int32 {
	n := d.varint()
	if int64(int32(n)) != n {
		d.fail()
	}
	return int32(n)
}

func (d *decoder) text() string {
	n, size := binary.Uvarint(d.rest)
	if size <= 0 || n > uint64(len(d.rest)-size) {
		d.fail()
		return ""
	}
	s := string(d.rest[size : size+int(n)])
	d.rest = d.rest[size+int(n):]
	return s
}

// end reports whether all of the value was read, and was valid.
func (d *decoder) end(valid bool) error {
	if d.bad || !valid || len(d.rest) > 0 {
		return errEncoding
	}
	return nil
}
