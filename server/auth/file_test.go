package auth

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/a2a-taskstore/taskstore/server/limit"
)

func TestParseFile(t *testing.T) {
	t.Parallel()
	_, first := NewToken()
	_, second := NewToken()
	c, err := parseFile(fmt.Appendf(nil, `
# Who may call.
principals:
  - name: agents
    tokens:
      - hash: %s
      - hash: %s
        expires: 2027-01-02T03:04:05Z
    certificates:
      - spiffe: spiffe://example.org/agent
      - dns: Agent.example.org
    tenants: ["", team-*]
    any_owner: true
    access: read-write
    limits: {requests_per_second: 0.5, bytes_per_second: 1000, open_streams: 3, tasks: 4}
  - {name: dashboard@ops, certificates: [{dns: dash}], tenants: ["*"], access: read-only}
`, first, second))
	if err != nil {
		t.Fatal(err)
	}
	entry := c.tokens.find(&second)
	if entry == nil || entry.principal != c.tokens.find(&first).principal || !entry.expires.Equal(time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)) {
		t.Fatalf("entry %+v", entry)
	}
	p := entry.principal
	if p.Name != "agents" || !p.AnyOwner || !p.Write || strings.Join(p.Tenants, ",") != ",team-*" {
		t.Errorf("principal %+v", p)
	}
	if want := (limit.Limits{RequestsPerSecond: 0.5, BytesPerSecond: 1000, OpenStreams: 3, Tasks: 4}); p.Limits != want {
		t.Errorf("limits %+v", p.Limits)
	}
	for _, name := range []string{"spiffe://example.org/agent", "dns:agent.example.org"} {
		if c.identities[name] != p {
			t.Errorf("%s is %v", name, c.identities[name])
		}
	}
	if d := c.identities["dns:dash"]; d == nil || d.Write || d.AnyOwner {
		t.Errorf("dashboard %+v", d)
	}
}

// TestParseFileIsStrict shows that what could give somebody more, or less, than was meant is an error.
func TestParseFileIsStrict(t *testing.T) {
	t.Parallel()
	_, hash := NewToken()
	const rest = `tenants: ["*"], access: read-write`
	token := fmt.Sprintf(`tokens: [{hash: "%s"}]`, hash)
	one := func(fields ...string) string { return "principals: [{" + strings.Join(fields, ", ") + "}]" }
	if _, err := parseFile([]byte(one("name: a", token, rest))); err != nil {
		t.Fatalf("the file that is varied: %v", err)
	}
	for name, text := range map[string]string{
		"empty":                  "",
		"no principals":          "principals: []",
		"cut off":                one("name: a", token, rest)[:60],
		"a list":                 "[]",
		"unknown field":          "principals: []\nadmins: []",
		"unknown grant":          one("name: a", token, rest, "anyowner: true"),
		"key twice":              one("name: a", token, rest, "access: read-only"),
		"two documents":          one("name: a", token, rest) + "\n---\nprincipals: []",
		"no name":                one(token, rest),
		"name with a colon":      one(`name: "unix:trusted"`, token, rest),
		"name with a line break": one(`name: "a\nb"`, token, rest),
		"long name":              one("name: "+strings.Repeat("a", 129), token, rest),
		"no tenants":             one("name: a", token, "access: read-only"),
		"star inside":            one("name: a", token, `tenants: ["a*b"]`, "access: read-only"),
		"two stars":              one("name: a", token, `tenants: ["a**"]`, "access: read-only"),
		"impossible tenant":      one("name: a", token, `tenants: ["a\0b"]`, "access: read-only"),
		"no access":              one("name: a", token, `tenants: ["*"]`),
		"unknown access":         one("name: a", token, `tenants: ["*"]`, "access: write"),
		"negative limit":         one("name: a", token, rest, "limits: {tasks: -1}"),
		"no number":              one("name: a", token, rest, "limits: {requests_per_second: .nan}"),
		"unknown limit":          one("name: a", token, rest, "limits: {requests: 1}"),
		"no credential":          one("name: a", rest),
		"a token itself":         one("name: a", "tokens: [{hash: a2ats_xyz}]", rest),
		"short hash":             one("name: a", `tokens: [{hash: "sha256:abcd"}]`, rest),
		"hash of other letters":  one("name: a", `tokens: [{hash: "sha256:`+strings.Repeat("g", 64)+`"}]`, rest),
		"hash twice":             one("name: a", fmt.Sprintf(`tokens: [{hash: "%s"}, {hash: "%s"}]`, hash, hash), rest),
		"zero expiry":            one("name: a", fmt.Sprintf(`tokens: [{hash: "%s", expires: 0001-01-01T00:00:00Z}]`, hash), rest),
		"bad expiry":             one("name: a", fmt.Sprintf(`tokens: [{hash: "%s", expires: soon}]`, hash), rest),
		"no certificate name":    one("name: a", "certificates: [{}]", rest),
		"two certificate names":  one("name: a", "certificates: [{dns: a, spiffe: spiffe://a/b}]", rest),
		"not a SPIFFE id":        one("name: a", `certificates: [{spiffe: "https://a/b"}]`, rest),
		"SPIFFE without a path":  one("name: a", `certificates: [{spiffe: "spiffe://a"}]`, rest),
		"wildcard":               one("name: a", `certificates: [{dns: "*.example.org"}]`, rest),
		"name twice":             one("name: a", "certificates: [{dns: a}, {dns: A}]", rest),
		"principal twice":        strings.TrimSuffix(one("name: a", token, rest), "]") + ", {name: a, certificates: [{dns: a}], " + rest + "}]",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := parseFile([]byte(text)); err == nil {
				t.Errorf("accepted: %s", text)
			} else if strings.Contains(err.Error(), strings.TrimPrefix(hash.String(), hashAlgorithm)) {
				t.Errorf("the error holds a hash: %v", err)
			}
		})
	}
}

// TestNamed resolves the names of a certificate.
func TestNamed(t *testing.T) {
	t.Parallel()
	ann, bob := &Principal{Name: "ann"}, &Principal{Name: "bob"}
	c := &credentials{identities: map[string]*Principal{"spiffe://x/ann": ann, "dns:ann": ann, "dns:bob": bob}}
	for _, test := range []struct {
		names []string
		want  *Principal
	}{
		{[]string{"dns:ann"}, ann},
		{[]string{"spiffe://x/ann", "dns:ann"}, ann},
		{[]string{"dns:other", "dns:bob"}, bob},
		{[]string{"dns:other"}, nil},
		{[]string{"dns:ann", "dns:bob"}, nil},
		{[]string{"dns:bob", "dns:other", "spiffe://x/ann"}, nil},
		{[]string{"ann"}, nil},
		{[]string{""}, nil},
	} {
		got, err := c.named(test.names)
		if got != test.want || (err == nil) != (test.want != nil) {
			t.Errorf("%q: %v, %v, want %v", test.names, got, err, test.want)
		}
	}
}

// TestParseFileNeverSaysTokens puts a token where hashes, and other things, belong: operators do, and errors are logged.
func TestParseFileNeverSaysTokens(t *testing.T) {
	t.Parallel()
	token, _ := NewToken()
	secret := strings.TrimPrefix(token, tokenPrefix)
	for _, text := range []string{
		"principals: [{name: a, tokens: [{hash: $}]}]",
		"principals: [{name: a, tokens: [$]}]",
		"principals: [{name: a, tokens: $}]",
		"principals: [{name: a, tokens: [{$: $}]}]",
		"principals: [{name: a, tokens: [{hash: x, $: x, $: x}]}]",
		"principals: [{name: a, tokens: [{hash: x, expires: $}]}]",
		"principals: [{name: a, tokens: [{hash: *$}]}]",
		"principals: [{name: a, tokens: [{hash: !$ x}]}]",
		"principals: [{name: $, certificates: [{dns: a}]}, {name: $}]",
		"$: x",
		"$",
		"principals:\n\t$",
	} {
		_, err := parseFile([]byte(strings.ReplaceAll(text, "$", token)))
		if err == nil || strings.Contains(err.Error(), secret[:4]) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
