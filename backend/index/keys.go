// Package index decides the order of lists for engines that keep ordered byte keys.
//
// Every task has up to three index keys, tuples whose bytes sort as their elements do:
//
//	1  tenant  state  time  id
//	2  tenant  owner  state  time  id
//	3  tenant  context  owner  state  time  id    only with a context id
//
// Time and id are encoded so that ascending keys are the order of a list: newest first, tasks without a timestamp last,
// then ids descending by bytes. A list is a merge of the streams under a few groups, the distinct states or (owner, state)
// pairs of its scope, which are found by skipping from group to group. So three keys serve every combination of filters, and
// no page reads a key that it does not return.
//
// An engine writes the keys in the step that writes the row; a key needs no value. Keys have no common prefix: an engine
// that shares a key space with other things adds and strips one in its Source.
package index

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
)

// The first byte of a key.
const (
	byTenant  = 1
	byOwner   = 2
	byContext = 3
)

const (
	stateLen = 4
	timeLen  = 12
	// end closes a string. Strings hold no U+0000, so it sorts before, and differs from, whatever else may follow.
	end = 0x00
)

// AppendKeys appends the index keys of a row to dst; none if the row is no task. They depend on the row's owner, context id,
// state and status timestamp only.
func AppendKeys(dst [][]byte, key backend.Key, row *backend.Row) [][]byte {
	size := Size(key, row)
	if size == 0 {
		return dst
	}
	buf := make([]byte, 0, size)
	dst = slices.Grow(dst, 3)
	add := func(kind byte, scope ...string) {
		from := len(buf)
		buf = appendStrings(append(buf, kind), scope...)
		buf = appendState(buf, row.State)
		buf = appendTail(buf, row.Time, key.TaskID)
		dst = append(dst, buf[from:len(buf):len(buf)])
	}
	add(byTenant, key.Tenant)
	add(byOwner, key.Tenant, row.Owner)
	if row.ContextID != "" {
		add(byContext, key.Tenant, row.ContextID, row.Owner)
	}
	return dst
}

// Size returns the sum of the lengths of the keys that AppendKeys appends.
func Size(key backend.Key, row *backend.Row) int {
	if row.Kind != backend.RowTask {
		return 0
	}
	tenant := 1 + len(key.Tenant) + 1 + stateLen + timeLen + len(key.TaskID) + 1
	owner := tenant + len(row.Owner) + 1
	if row.ContextID == "" {
		return tenant + owner
	}
	return tenant + 2*owner + len(row.ContextID) + 1
}

func appendStrings(dst []byte, strings ...string) []byte {
	for _, s := range strings {
		dst = append(append(dst, s...), end)
	}
	return dst
}

func appendState(dst []byte, state int32) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(state))
}

// appendTail appends what orders the keys of a group.
func appendTail(dst []byte, t document.Timestamp, id string) []byte {
	dst = appendTime(dst, t)
	for i := range len(id) {
		dst = append(dst, ^id[i])
	}
	return append(dst, ^byte(end))
}

// appendTime appends a timestamp in descending order. None is the last: protobuf's range of seconds ends far from
// MinInt64, which would be encoded alike.
func appendTime(dst []byte, t document.Timestamp) []byte {
	seconds, nanos := int64(math.MinInt64), int32(0)
	if t.Valid {
		seconds, nanos = t.Seconds, t.Nanos
	}
	dst = binary.BigEndian.AppendUint64(dst, ^(uint64(seconds) ^ 1<<63))
	return binary.BigEndian.AppendUint32(dst, ^uint32(nanos))
}

var errMalformed = errors.New("index: malformed key")

// taskID reads the id out of a tail.
func taskID(tail []byte) (string, error) {
	if len(tail) <= timeLen || tail[len(tail)-1] != ^byte(end) {
		return "", errMalformed
	}
	var room [256]byte // an id's bound: the only allocation is the string
	id := append(room[:0], tail[timeLen:len(tail)-1]...)
	for i := range id {
		id[i] = ^id[i]
	}
	return string(id), nil
}

// successor returns the smallest key behind all keys that start with prefix. A prefix here starts with a byte below 0xFF.
func successor(prefix []byte) []byte {
	next := bytes.Clone(prefix)
	for i := len(next) - 1; ; i-- {
		if next[i]++; next[i] != 0 {
			return next[:i+1]
		}
	}
}
