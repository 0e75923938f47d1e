package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
)

// A page token is, in base64url, the digest of scope, filters and position, and the position: whether there is a time, its
// seconds and nanoseconds, and the task id. The digest is no secret: a token leads only to where its bearer may go anyway, but
// one that was cut, changed or made for another list is told from a good one.

const (
	digestSize   = 12
	timeSize     = 1 + 8 + 4
	maxTokenText = 512
)

var tokenEncoding = base64.RawURLEncoding.Strict()

// encodeToken returns the token for the page behind the position.
func encodeToken(req *backend.ListRequest, at *backend.Position) string {
	pos := encodePosition(at)
	return tokenEncoding.EncodeToString(append(tokenDigest(req, pos), pos...))
}

// decodeToken returns the position of a token that was made for the same scope and filters.
func decodeToken(req *backend.ListRequest, token string) (*backend.Position, bool) {
	if len(token) > maxTokenText || strings.ContainsAny(token, "\r\n") { // which the decoder would overlook
		return nil, false
	}
	b, err := tokenEncoding.DecodeString(token)
	if err != nil || len(b) < digestSize+timeSize {
		return nil, false
	}
	digest, pos := b[:digestSize], b[digestSize:]
	if !bytes.Equal(digest, tokenDigest(req, pos)) {
		return nil, false
	}
	return decodePosition(pos), true
}

func encodePosition(at *backend.Position) []byte {
	b := make([]byte, timeSize, timeSize+len(at.TaskID))
	if at.Time.Valid {
		b[0] = 1
	}
	binary.BigEndian.PutUint64(b[1:], uint64(at.Time.Seconds))
	binary.BigEndian.PutUint32(b[9:], uint32(at.Time.Nanos))
	return append(b, at.TaskID...)
}

func decodePosition(b []byte) *backend.Position {
	return &backend.Position{
		Time: document.Timestamp{
			Valid:   b[0] == 1,
			Seconds: int64(binary.BigEndian.Uint64(b[1:])),
			Nanos:   int32(binary.BigEndian.Uint32(b[9:])),
		},
		TaskID: string(b[timeSize:]),
	}
}

// tokenDigest covers what must not change between pages. Each field is preceded by its length, so that no two lists look
// alike.
func tokenDigest(req *backend.ListRequest, pos []byte) []byte {
	h := sha256.New()
	field := func(b []byte) {
		_ = binary.Write(h, binary.BigEndian, uint32(len(b)))
		h.Write(b)
	}
	field([]byte("list 1"))
	field([]byte(req.Tenant))
	owner := []byte{0}
	if req.Owner.Set {
		owner = append([]byte{1}, req.Owner.Name...)
	}
	field(owner)
	field([]byte(req.ContextID))
	field(binary.BigEndian.AppendUint32(nil, uint32(req.State)))
	field(encodePosition(&backend.Position{Time: req.Since}))
	field(pos)
	return h.Sum(nil)[:digestSize]
}
