package a2astore

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// JSON numbers are 64-bit floats on the wire. A number that would change is refused: an id or an amount that differs in its
// last digits is worse than an error.

// exactInt returns the float64 that equals n.
func exactInt(n int64) (float64, *fieldError) {
	f := float64(n)
	if f >= math.MaxInt64 || int64(f) != n { // MaxInt64 itself is rounded up to 2^63
		return 0, refuse("%d is not exact as a 64-bit float", n)
	}
	return f, nil
}

// exactUint returns the float64 that equals n.
func exactUint(n uint64) (float64, *fieldError) {
	f := float64(n)
	if f >= math.MaxUint64 || uint64(f) != n {
		return 0, refuse("%d is not exact as a 64-bit float", n)
	}
	return f, nil
}

// exactNumber returns the float64 of a JSON number: one that equals it, or of which it is the shortest decimal form, as 0.1.
func exactNumber(s string) (float64, *fieldError) {
	if !isNumber(s) {
		return 0, refuse("%s is not a number", quoteShort(s))
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, refuse("%s is out of the range of a 64-bit float", quoteShort(s))
	}
	if sameDecimal(s, strconv.FormatFloat(f, 'e', -1, 64)) {
		return f, nil
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return exactInt(n)
	}
	if n, err := strconv.ParseUint(s, 10, 64); err == nil {
		return exactUint(n)
	}
	return 0, refuse("%s is not exact as a 64-bit float", quoteShort(s))
}

// isNumber reports whether s is a number of JSON; strconv also takes "inf", "0x1p4" and the like.
func isNumber(s string) bool {
	if s == "" || (s[0] != '-' && (s[0] < '0' || s[0] > '9')) {
		return false
	}
	last := s[len(s)-1]
	return last >= '0' && last <= '9' && json.Valid([]byte(s))
}

// sameDecimal reports whether two JSON numbers are the same, sign of zero included.
func sameDecimal(a, b string) bool {
	aNeg, aDigits, aExp, aOK := decimal(a)
	bNeg, bDigits, bExp, bOK := decimal(b)
	return aOK && bOK && aNeg == bNeg && aDigits == bDigits && aExp == bExp
}

// decimal takes a JSON number apart: 0.digits × 10^exp, without zeros at either end of digits.
func decimal(s string) (negative bool, digits string, exp int, ok bool) {
	s, negative = strings.CutPrefix(s, "-")
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		e, err := strconv.Atoi(s[i+1:])
		if err != nil {
			return false, "", 0, false
		}
		s, exp = s[:i], e
	}
	whole, fraction, _ := strings.Cut(s, ".")
	digits = whole + fraction
	exp += len(whole)
	trimmed := strings.TrimLeft(digits, "0")
	exp -= len(digits) - len(trimmed)
	digits = strings.TrimRight(trimmed, "0")
	if digits == "" {
		exp = 0
	}
	return negative, digits, exp, true
}
