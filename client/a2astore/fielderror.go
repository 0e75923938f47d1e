package a2astore

import (
	"fmt"
	"strconv"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

const (
	// Keys of metadata are content: an error shows the start of one, to find it by.
	maxKeyShown = 32
	// Nested keys make long paths; the middle is left out.
	maxPathShown = 240
)

// fieldError says what cannot be stored, and where it is. It wraps a2a.ErrInvalidParams.
//
// The path grows on the way out of the failed conversion, so that conversions that succeed do not pay for it.
type fieldError struct {
	path   string
	reason string
}

func refuse(format string, args ...any) *fieldError {
	return &fieldError{reason: fmt.Sprintf(format, args...)}
}

// under returns e as seen from the parent that holds the field.
func (e *fieldError) under(field string) *fieldError {
	switch {
	case e.path == "":
		e.path = field
	case e.path[0] == '[':
		e.path = field + e.path
	default:
		e.path = field + "." + e.path
	}
	return e
}

// at returns e as seen from the list that holds the element.
func (e *fieldError) at(i int) *fieldError {
	return e.under("[" + strconv.Itoa(i) + "]")
}

// key returns e as seen from the map that holds the value.
func (e *fieldError) key(k string) *fieldError {
	if len(k) > maxKeyShown {
		k = k[:maxKeyShown]
	}
	return e.under("[" + strconv.QuoteToASCII(k) + "]")
}

// Error is ASCII, whatever the task holds, and has a bounded length.
func (e *fieldError) Error() string {
	path := e.path
	if len(path) > maxPathShown {
		path = path[:maxPathShown/2] + "..." + path[len(path)-maxPathShown/2:]
	}
	if path == "" {
		return fmt.Sprintf("%s: %v", e.reason, a2a.ErrInvalidParams)
	}
	return fmt.Sprintf("%s: %s: %v", path, e.reason, a2a.ErrInvalidParams)
}

func (e *fieldError) Unwrap() error { return a2a.ErrInvalidParams }

// asError keeps a nil *fieldError from becoming an error that is not nil.
func asError(e *fieldError) error {
	if e == nil {
		return nil
	}
	return e
}
