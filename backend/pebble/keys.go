package pebble

import (
	"encoding/binary"

	"github.com/a2a-taskstore/taskstore/backend"
)

// The keyspaces: the first byte of every key. What follows is a tuple whose order is the order of its encoding. A string
// that is not the last element ends in a zero byte, which ids never contain; numbers are eight bytes, big endian.
const (
	spaceMeta     = 'm' // name
	spaceRow      = 'r' // tenant, task id
	spaceDocument = 'd' // tenant, task id, piece
	spaceEvent    = 'e' // tenant, task id, seq
	spaceAppend   = 'w' // tenant, task id, write_id
	spaceClaim    = 'c' // tenant, owner, key
	spaceIndex    = 'x' // as package index says
)

// The pieces of a document (see layout). Of an artifact of its own, fields and parts are neighbours.
const (
	pieceHead      = 'h'
	pieceArtifacts = 'a' // the list
	pieceArtifact  = 'b' // index; then artifactFields or artifactParts
	pieceInfo      = 'c' // artifact id
	pieceHistory   = 'm' // the list
	pieceMessage   = 'n' // number
)

const (
	artifactFields = 0
	artifactParts  = 1
)

// noOwner and someOwner start the owner in the key of a claim: unset is a scope of its own.
const (
	noOwner   = 1
	someOwner = 2
)

func appendString(dst []byte, s string) []byte {
	dst = append(dst, s...)
	return append(dst, 0)
}

func appendUint64(dst []byte, n uint64) []byte { return binary.BigEndian.AppendUint64(dst, n) }

// taskPrefix starts all keys of a task in a keyspace.
func taskPrefix(space byte, k backend.Key) []byte {
	dst := make([]byte, 0, len(k.Tenant)+len(k.TaskID)+3+16) // room for what callers append
	dst = append(dst, space)
	dst = appendString(dst, k.Tenant)
	return appendString(dst, k.TaskID)
}

func rowKey(k backend.Key) []byte { return taskPrefix(spaceRow, k) }

// parseRowKey is the inverse of rowKey.
func parseRowKey(b []byte) (k backend.Key, ok bool) {
	if len(b) == 0 || b[0] != spaceRow {
		return k, false
	}
	var rest []byte
	if k.Tenant, rest, ok = cutString(b[1:]); !ok {
		return k, false
	}
	k.TaskID, rest, ok = cutString(rest)
	return k, ok && len(rest) == 0
}

func cutString(b []byte) (s string, rest []byte, ok bool) {
	for i, c := range b {
		if c == 0 {
			return string(b[:i]), b[i+1:], true
		}
	}
	return "", nil, false
}

func pieceKey(k backend.Key, piece byte) []byte { return append(taskPrefix(spaceDocument, k), piece) }

func artifactKey(k backend.Key, index int, half byte) []byte {
	return append(appendUint64(pieceKey(k, pieceArtifact), uint64(index)), half)
}

// artifactOf is the index and the half in an artifactKey.
func artifactOf(key []byte) (index int, half byte) {
	n := len(key)
	return int(binary.BigEndian.Uint64(key[n-9:])), key[n-1]
}

func infoKey(k backend.Key, artifactID string) []byte {
	return append(pieceKey(k, pieceInfo), artifactID...)
}

func messageKey(k backend.Key, number int64) []byte {
	return appendUint64(pieceKey(k, pieceMessage), uint64(number))
}

func eventKey(k backend.Key, seq int64) []byte {
	return appendUint64(taskPrefix(spaceEvent, k), uint64(seq))
}

// seqOf is the seq in an eventKey.
func seqOf(key []byte) int64 { return int64(binary.BigEndian.Uint64(key[len(key)-8:])) }

func appendKey(k backend.Key, writeID string) []byte {
	return append(taskPrefix(spaceAppend, k), writeID...)
}

func claimKey(k backend.ClaimKey) []byte {
	dst := make([]byte, 0, len(k.Tenant)+len(k.Owner.Name)+len(k.Key)+4)
	dst = append(dst, spaceClaim)
	dst = appendString(dst, k.Tenant)
	if k.Owner.Set {
		dst = append(dst, someOwner)
		dst = appendString(dst, k.Owner.Name)
	} else {
		dst = append(dst, noOwner)
	}
	return append(dst, k.Key...)
}

// parseClaimKey is the inverse of claimKey.
func parseClaimKey(b []byte) (k backend.ClaimKey, ok bool) {
	if len(b) == 0 || b[0] != spaceClaim {
		return k, false
	}
	var rest []byte
	if k.Tenant, rest, ok = cutString(b[1:]); !ok || len(rest) == 0 {
		return k, false
	}
	switch rest[0] {
	case noOwner:
		rest = rest[1:]
	case someOwner:
		k.Owner.Set = true
		if k.Owner.Name, rest, ok = cutString(rest[1:]); !ok {
			return k, false
		}
	default:
		return k, false
	}
	k.Key = string(rest)
	return k, true
}

// after is the end of the range of keys that start with the prefix, which must not end in 0xff.
func after(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	end[len(end)-1]++
	return end
}
