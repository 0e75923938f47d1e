package memory

import "slices"

// rope is bytes that grow at the end, at a price that depends on what is added only. What blocks returned stays as it was.
type rope struct {
	sealed [][]byte
	tail   []byte // the last block; it may have room
	size   int
}

// The size of a rope's block is a sixteenth of the rope, within these bounds: that much may be unused.
const (
	minBlock = 64
	maxBlock = 16 << 10
)

// ropeOf returns a rope that begins with b, which becomes its own, with the room behind it.
func ropeOf(b []byte) rope { return rope{tail: b, size: len(b)} }

// add appends b, which never changes, and may keep it.
func (r *rope) add(b []byte) {
	free := cap(r.tail) - len(r.tail)
	block := min(max(r.size/16, minBlock), maxBlock)
	r.size += len(b)
	if len(b) >= maxBlock && free <= minBlock {
		r.seal(slices.Clip(b))
		return
	}
	fits := min(free, len(b))
	r.tail = append(r.tail, b[:fits]...)
	if rest := b[fits:]; len(rest) > 0 {
		r.seal(append(make([]byte, 0, max(block, len(rest))), rest...))
	}
}

// seal puts a new last block behind the one so far.
func (r *rope) seal(next []byte) {
	if len(r.tail) > 0 {
		r.sealed = append(r.sealed, r.tail)
	}
	r.tail = next
}
