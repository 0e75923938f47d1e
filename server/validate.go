package server

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/document"
	taskstorev1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
)

// Bounds of the contract, in bytes where nothing else is said.
const (
	maxID       = 256 // ids, keys, tenants, owners
	maxToken    = 64  // write ids, origins, claim tokens
	maxSeq      = 1 << 62
	maxWait     = 60 * time.Second
	maxLease    = 24 * time.Hour
	maxTTL      = 10 * 366 * 24 * time.Hour
	maxPageSize = 100
)

// violation is what is wrong with one field. The field is a path; "" is the request as a whole.
type violation struct {
	field  string
	detail string
}

// invalidError is a request that is wrong whatever is stored. It never quotes the request.
type invalidError struct{ violations []violation }

func (e *invalidError) Error() string {
	first := e.violations[0]
	text := first.detail
	if first.field != "" {
		text = first.field + ": " + text
	}
	if len(e.violations) > 1 {
		text += " (and more)"
	}
	return text
}

// validator collects what is wrong with a request. Its methods return what they checked, in the form that backends take it;
// that is of no use once something is wrong.
type validator struct {
	maxEvent   int64
	violations []violation
	tooLarge   error
}

// err returns what was found.
func (v *validator) err() error {
	if len(v.violations) > 0 {
		return &invalidError{v.violations}
	}
	return v.tooLarge
}

func (v *validator) fail(field, format string, args ...any) {
	if len(v.violations) < maxViolations { // a request may be wrong a million times
		v.violations = append(v.violations, violation{field, fmt.Sprintf(format, args...)})
	}
}

// text checks a string of least to most bytes.
func (v *validator) text(field, s string, least, most int) {
	if fault := textFault(s, least, most); fault != "" {
		v.fail(field, "%s", fault)
	}
}

// textFault says what is wrong with a string of least to most bytes; "" is nothing.
func textFault(s string, least, most int) string {
	switch {
	case len(s) < least:
		return "is missing"
	case len(s) > most:
		return fmt.Sprintf("is longer than %d bytes", most)
	case strings.IndexByte(s, 0) >= 0:
		return "holds U+0000"
	case !utf8.ValidString(s):
		return "is not valid UTF-8"
	default:
		return ""
	}
}

// number checks an integer that is at least so large.
func number[N int32 | int64](v *validator, field string, n, least N) {
	if n < least {
		v.fail(field, "is less than %d", least)
	}
}

func (v *validator) scope(s *taskstorev1.Scope) (tenant string, owner backend.Owner) {
	v.text("scope.tenant", s.GetTenant(), 0, maxID)
	v.text("scope.owner", s.GetOwner(), 0, maxID)
	return s.GetTenant(), backend.Owner{Set: s != nil && s.Owner != nil, Name: s.GetOwner()}
}

func (v *validator) taskKey(s *taskstorev1.Scope, taskID string) (backend.Key, backend.Owner) {
	tenant, owner := v.scope(s)
	v.text("task_id", taskID, 1, maxID)
	return backend.Key{Tenant: tenant, TaskID: taskID}, owner
}

func (v *validator) claim(c *taskstorev1.Claim) *backend.ClaimRef {
	if c == nil {
		return nil
	}
	v.text("claim.key", c.GetKey(), 1, maxID)
	v.text("claim.token", c.GetToken(), 1, maxToken)
	return &backend.ClaimRef{Key: c.GetKey(), Token: c.GetToken()}
}

// history checks the length of a history; negative is all of it.
func (v *validator) history(n *int32) int {
	if n == nil {
		return -1
	}
	number(v, "history_length", *n, 0)
	return int(*n)
}

// duration checks a duration in (0, most]; unset is the default.
func (v *validator) duration(field string, d *durationpb.Duration, unset, most time.Duration) time.Duration {
	if d == nil {
		return unset
	}
	got := v.span(field, d, most)
	if got == 0 {
		v.fail(field, "is not positive")
	}
	return got
}

// span checks a duration in [0, most].
func (v *validator) span(field string, d *durationpb.Duration, most time.Duration) time.Duration {
	got := d.AsDuration()
	switch {
	case d == nil:
	case d.CheckValid() != nil:
		v.fail(field, "is not a valid duration")
	case got < 0:
		v.fail(field, "is negative")
	case got > most:
		v.fail(field, "is longer than %s", most)
	}
	return got
}

// single returns the payload of a field that may occur once, and whether there is one. A parser of the public message would
// merge two occurrences, so they are refused.
func (v *validator) single(field string, values [][]byte) ([]byte, bool) {
	switch len(values) {
	case 0:
		return nil, false
	case 1:
		return values[0], true
	default:
		v.fail(field, "occurs twice")
		return nil, false
	}
}

// payload takes the error of a document.Parse function, and reports whether there was none.
func (v *validator) payload(field string, err error) bool {
	if err == nil {
		return true
	}
	if bad, ok := errors.AsType[*document.Error](err); ok {
		if bad.Path != "" {
			field += "." + bad.Path
		}
		v.fail(field, "%s", bad.Detail)
	} else {
		v.fail(field, "is not a valid payload")
	}
	return false
}

// event parses the i-th event; below is its field in the list's entry, "" if it is the entry.
func (v *validator) event(i int, below string, b []byte) document.Event {
	if int64(len(b)) > v.maxEvent && v.tooLarge == nil {
		v.tooLarge = &backend.Error{
			Reason: reasonEventTooLarge, Detail: "an event would not fit a message",
			Meta: map[string]string{"size": itoa(int64(len(b))), "limit": itoa(v.maxEvent)},
		}
	}
	e, err := document.ParseEvent(b)
	if err != nil {
		v.payload(eventField(i, below), err)
	}
	return e
}

func eventField(i int, below string) string { return fmt.Sprintf("events[%d]%s", i, below) }

// task parses a task, which is the head of one where it may have no lists.
func (v *validator) task(field string, b []byte) *document.Task {
	t, err := document.ParseTask(b)
	if !v.payload(field, err) {
		return nil
	}
	if textFault(t.ID, 1, maxID) != "" || textFault(t.ContextID, 0, maxID) != "" { // else no name is put together
		v.text(field+".id", t.ID, 1, maxID)
		v.text(field+".context_id", t.ContextID, 0, maxID)
	}
	return t
}
