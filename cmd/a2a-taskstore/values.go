package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// byteSize is a number of bytes, written as "64MiB", "1GiB" or "4096".
type byteSize int64

var byteUnits = []struct {
	suffix string
	factor int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"B", 1},
}

// UnmarshalText parses a size.
func (b *byteSize) UnmarshalText(text []byte) error {
	number, factor := string(text), int64(1)
	for _, u := range byteUnits {
		if rest, ok := strings.CutSuffix(number, u.suffix); ok {
			number, factor = strings.TrimSpace(rest), u.factor
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/factor {
		return fmt.Errorf("%q is not a size such as 64MiB", text)
	}
	*b = byteSize(n * factor)
	return nil
}

// String writes the size in the largest unit that holds it whole.
func (b byteSize) String() string {
	for i := len(byteUnits) - 2; i >= 0; i-- {
		if u := byteUnits[i]; b != 0 && int64(b)%u.factor == 0 {
			return strconv.FormatInt(int64(b)/u.factor, 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(b), 10)
}
