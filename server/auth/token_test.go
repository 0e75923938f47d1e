package auth

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

func TestNewToken(t *testing.T) {
	t.Parallel()
	token, hash := NewToken()
	other, otherHash := NewToken()
	if token == other || hash == otherHash {
		t.Error("the same token twice")
	}
	if !strings.HasPrefix(token, tokenPrefix) || len(token) != tokenLength {
		t.Errorf("%d characters, want %d", len(token), tokenLength)
	}
	if got, err := parseBearer([]string{"Bearer " + token}); err != nil || got != hash {
		t.Errorf("the header's token has hash %v, %v, want %v", got, err, hash)
	}
	if got, err := parseHash(hash.String()); err != nil || got != hash {
		t.Errorf("the hash reads as %v, %v, want %v", got, err, hash)
	}
	if strings.Contains(hash.String(), token[len(tokenPrefix):]) {
		t.Error("the hash holds the token")
	}
}

func TestParseBearer(t *testing.T) {
	t.Parallel()
	token, hash := NewToken()
	for name, values := range map[string][]string{
		"as usual":   {"Bearer " + token},
		"lower case": {"bearer " + token},
		"upper case": {"BEARER " + token},
	} {
		if got, err := parseBearer(values); err != nil || got != hash {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for name, values := range map[string][]string{
		"none":               nil,
		"empty":              {""},
		"scheme alone":       {"Bearer"},
		"empty token":        {"Bearer "},
		"token alone":        {token},
		"other scheme":       {"Basic " + token},
		"two spaces":         {"Bearer  " + token},
		"leading space":      {" Bearer " + token},
		"trailing space":     {"Bearer " + token + " "},
		"tab":                {"Bearer\t" + token},
		"twice":              {"Bearer " + token, "Bearer " + token},
		"twice in one":       {"Bearer " + token + ", Bearer " + token},
		"twice, one empty":   {"Bearer " + token, ""},
		"huge":               {"Bearer " + strings.Repeat(token, 10_000)},
		"not ASCII":          {"Bearer " + strings.Repeat("é", tokenLength/2) + "x"},
		"other prefix":       {"Bearer x" + token[1:]},
		"prefix in capitals": {"Bearer " + strings.ToUpper(tokenPrefix) + token[len(tokenPrefix):]},
		"the hash":           {"Bearer " + hash.String()},
		"the bare hash":      {"Bearer " + hex.EncodeToString(hash[:])},
	} {
		if got, err := parseBearer(values); !errors.Is(err, ErrInvalid) || got != (Hash{}) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	// What has the form of a token is looked up, and not found.
	for name, other := range map[string]string{
		"one bit":   token[:len(token)-2] + string(token[len(token)-2]^1) + token[len(token)-1:],
		"NUL":       token[:len(token)-1] + "\x00",
		"not UTF-8": token[:len(token)-1] + "\xff",
	} {
		if got, err := parseBearer([]string{"Bearer " + other}); err != nil || got == hash {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// FuzzParseBearer looks for a header that is taken for a token that it is not.
func FuzzParseBearer(f *testing.F) {
	token, hash := NewToken()
	f.Add("Bearer "+token, "")
	f.Add("bearer "+token, "Bearer "+token)
	f.Add("Bearer ,"+token, "\x00")
	f.Fuzz(func(t *testing.T, first, second string) {
		got, err := parseBearer([]string{first})
		if err == nil && got == hash && !(len(first) == 7+tokenLength && first[7:] == token && strings.EqualFold(first[:7], "bearer ")) {
			t.Errorf("%q is taken for the token", first)
		}
		if _, err := parseBearer([]string{first, second}); err == nil {
			t.Error("two headers are taken")
		}
	})
}
