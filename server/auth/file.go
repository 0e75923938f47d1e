package auth

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/a2a-taskstore/taskstore/server/limit"
)

// credentials is what a credentials file says, for lookups. It does not change.
type credentials struct {
	tokens     tokens
	identities map[string]*Principal // by the names that package transport gives the names in certificates
	principals int
	tenants    []fileTenants
}

// The file, in YAML, and so in JSON if one likes. What it does not know is an error: a grant that is misspelled must not be a
// grant that is left out.
type (
	file struct {
		Principals   []filePrincipal `yaml:"principals"`
		TenantLimits []fileTenants   `yaml:"tenant_limits"`
	}
	// fileTenants are the limits of each of the tenants that a pattern is of; the first pattern that fits counts.
	fileTenants struct {
		Tenants []string     `yaml:"tenants"`
		Limits  limit.Limits `yaml:"limits"`
	}
	filePrincipal struct {
		Name         string            `yaml:"name"`
		Tokens       []fileToken       `yaml:"tokens"`
		Certificates []fileCertificate `yaml:"certificates"`
		Tenants      []string          `yaml:"tenants"`
		AnyOwner     bool              `yaml:"any_owner"`
		Access       string            `yaml:"access"`
		Limits       limit.Limits      `yaml:"limits"`
	}
	fileToken struct {
		Hash    string     `yaml:"hash"`
		Expires *time.Time `yaml:"expires"`
	}
	fileCertificate struct {
		SPIFFE string `yaml:"spiffe"`
		DNS    string `yaml:"dns"`
	}
)

// Bounds, in bytes.
const (
	maxName   = 128
	maxTenant = 256
)

// parseFile reads a credentials file. Its errors name principals and positions, never hashes or tokens.
func parseFile(b []byte) (*credentials, error) {
	if at := tokenForm.FindIndex(b); at != nil { // errors of YAML quote what they find
		return nil, fmt.Errorf("there is a token in line %d, where at most its hash belongs: make another one", 1+bytes.Count(b[:at[0]], []byte{'\n'}))
	}
	var f file
	decoder := yaml.NewDecoder(bytes.NewReader(b))
	decoder.KnownFields(true)
	if err := decoder.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := decoder.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is something behind the end of the document")
	}
	if len(f.Principals) == 0 { // as a file is while somebody writes it
		return nil, errors.New("there are no principals")
	}
	c := &credentials{tokens: tokens{}, identities: map[string]*Principal{}}
	names := map[string]bool{}
	for i := range f.Principals {
		in := &f.Principals[i]
		if err := checkName(in.Name); err != nil {
			return nil, fmt.Errorf("principal %d: %w", i+1, err)
		}
		if names[in.Name] {
			return nil, fmt.Errorf("principal %s occurs twice", in.Name)
		}
		names[in.Name] = true
		if err := c.add(in); err != nil {
			return nil, fmt.Errorf("principal %s: %w", in.Name, err)
		}
	}
	c.principals = len(names)
	for i, t := range f.TenantLimits {
		if err := t.check(); err != nil {
			return nil, fmt.Errorf("tenant_limits[%d]: %w", i, err)
		}
	}
	c.tenants = f.TenantLimits
	return c, nil
}

func checkName(name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("a name has 1 to %d characters", maxName)
	}
	if strings.IndexFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._@/-", r))
	}) >= 0 {
		return errors.New(`a name is of A-Z, a-z, 0-9 and "._@/-"`)
	}
	return nil
}

func (t *fileTenants) check() error {
	if len(t.Tenants) == 0 {
		return errors.New("tenants is empty")
	}
	for i, pattern := range t.Tenants {
		if err := checkTenant(pattern); err != nil {
			return fmt.Errorf("tenants[%d]: %w", i, err)
		}
	}
	if !t.Limits.Valid() {
		return errNegative
	}
	return nil
}

var errNegative = errors.New("limits must not be negative")

// limitsOf returns the limits of a tenant.
func (c *credentials) limitsOf(tenant string) limit.Limits {
	for i := range c.tenants {
		if matches(c.tenants[i].Tenants, tenant) {
			return c.tenants[i].Limits
		}
	}
	return limit.Limits{}
}

func (c *credentials) add(in *filePrincipal) error {
	p := &Principal{Name: in.Name, Grants: Grants{Tenants: in.Tenants, AnyOwner: in.AnyOwner, Limits: in.Limits}}
	switch in.Access {
	case "read-only":
	case "read-write":
		p.Write = true
	default:
		return errors.New("access must be read-only or read-write")
	}
	if len(in.Tenants) == 0 {
		return errors.New(`tenants is empty: "" is the default tenant, "*" all tenants`)
	}
	for i, pattern := range in.Tenants {
		if err := checkTenant(pattern); err != nil {
			return fmt.Errorf("tenants[%d]: %w", i, err)
		}
	}
	if !in.Limits.Valid() {
		return errNegative
	}
	if len(in.Tokens)+len(in.Certificates) == 0 {
		return errors.New("there are neither tokens nor certificates")
	}
	for i := range in.Tokens {
		if err := c.addToken(p, &in.Tokens[i]); err != nil {
			return fmt.Errorf("tokens[%d]: %w", i, err)
		}
	}
	for i := range in.Certificates {
		if err := c.addIdentity(p, &in.Certificates[i]); err != nil {
			return fmt.Errorf("certificates[%d]: %w", i, err)
		}
	}
	return nil
}

func checkTenant(pattern string) error {
	name := strings.TrimSuffix(pattern, "*")
	switch {
	case strings.Contains(name, "*"):
		return errors.New(`"*" may only be the last character`)
	case len(name) > maxTenant || strings.ContainsRune(name, 0) || !utf8.ValidString(name):
		return errors.New("no tenant has such a name")
	}
	return nil
}

func (c *credentials) addToken(p *Principal, in *fileToken) error {
	hash, err := parseHash(in.Hash)
	if err != nil {
		return err
	}
	if c.tokens.find(&hash) != nil {
		return errors.New("the hash occurs twice")
	}
	entry := tokenEntry{hash: hash, principal: p}
	if in.Expires != nil {
		if in.Expires.IsZero() { // which would be never
			return errors.New("expires is no usable time")
		}
		entry.expires = *in.Expires
	}
	c.tokens[hash.bucket()] = append(c.tokens[hash.bucket()], entry)
	return nil
}

func (c *credentials) addIdentity(p *Principal, in *fileCertificate) error {
	var identity string
	switch {
	case (in.SPIFFE == "") == (in.DNS == ""):
		return errors.New("give either spiffe or dns")
	case in.SPIFFE != "":
		uri, err := url.Parse(in.SPIFFE)
		if err != nil || uri.Scheme != "spiffe" || uri.Host == "" || uri.Path == "" || uri.String() != in.SPIFFE {
			return errors.New("spiffe must be an id such as spiffe://example.org/agent")
		}
		identity = in.SPIFFE
	default:
		if strings.ContainsAny(in.DNS, "*:/ ") {
			return errors.New("dns must be a name such as agent.example.org")
		}
		identity = "dns:" + strings.ToLower(in.DNS)
	}
	if c.identities[identity] != nil {
		return errors.New("the name occurs twice")
	}
	c.identities[identity] = p
	return nil
}
