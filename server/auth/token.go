package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// A token is tokenPrefix, by which people and secret scanners recognise it, and tokenBytes random bytes in base64url.
//
// The file keeps its SHA-256. That hash is fast, and has no salt, which would be wrong for passwords: those are guessed. A
// token of 256 random bits is not, whether a guess costs a nanosecond or a second, and no two are equal. So that nobody keeps
// a password in this way, nothing is accepted that does not have the form of a token.
const (
	tokenPrefix = "a2ats_"
	tokenBytes  = 32
)

var (
	tokenEncoding = base64.RawURLEncoding.Strict()
	tokenLength   = len(tokenPrefix) + tokenEncoding.EncodedLen(tokenBytes)
	tokenForm     = regexp.MustCompile(fmt.Sprintf("%s[A-Za-z0-9_-]{%d}", tokenPrefix, tokenLength-len(tokenPrefix)))
)

// Hash is the SHA-256 of a token.
type Hash [sha256.Size]byte

// NewToken makes a token.
func NewToken() (token string, hash Hash) {
	var secret [tokenBytes]byte
	rand.Read(secret[:]) // never fails
	token = tokenPrefix + tokenEncoding.EncodeToString(secret[:])
	return token, sha256.Sum256([]byte(token))
}

// hashAlgorithm is how a hash begins in the file.
const hashAlgorithm = "sha256:"

// String writes the hash as it stands in the file.
func (h Hash) String() string { return hashAlgorithm + hex.EncodeToString(h[:]) }

func parseHash(s string) (h Hash, err error) {
	digits, ok := strings.CutPrefix(s, hashAlgorithm)
	if !ok || len(digits) != hex.EncodedLen(len(h)) {
		return h, errors.New("not a hash as a2a-taskstore token new prints it")
	}
	if _, err := hex.Decode(h[:], []byte(digits)); err != nil {
		return h, errors.New("not a hash as a2a-taskstore token new prints it")
	}
	return h, nil
}

// parseBearer returns the hash of the token in the values of an authorization header.
func parseBearer(values []string) (Hash, error) {
	if len(values) != 1 { // of several, this server and a proxy might each believe another
		return Hash{}, errMalformed
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	if !ok || !strings.EqualFold(scheme, "bearer") {
		return Hash{}, errMalformed
	}
	// Also bounds what an unknown caller can have hashed.
	if len(token) != tokenLength || !strings.HasPrefix(token, tokenPrefix) {
		return Hash{}, errInvalid
	}
	return sha256.Sum256([]byte(token)), nil
}

// tokens finds principals by the hash of a token.
//
// The map is no timing leak: how long a lookup takes could tell something of the hash that was looked up, never of the token,
// and who knows every bit of a stored hash still lacks a token that has it. Nevertheless the full hashes are compared in
// constant time.
type tokens map[uint64][]tokenEntry

type tokenEntry struct {
	hash      Hash
	principal *Principal
	expires   time.Time // zero: never
}

func (h *Hash) bucket() uint64 { return binary.BigEndian.Uint64(h[:]) }

func (t tokens) find(hash *Hash) *tokenEntry {
	entries := t[hash.bucket()]
	for i := range entries {
		if subtle.ConstantTimeCompare(entries[i].hash[:], hash[:]) == 1 {
			return &entries[i]
		}
	}
	return nil
}
