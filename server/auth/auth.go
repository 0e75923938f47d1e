// Package auth says who calls the task store, and what they may do.
//
// A caller proves with a bearer token or a client certificate that it is one of the principals of a credentials file. Every
// principal has grants: the tenants it may name, whether it may leave the owner of tasks open, and whether it may write. A
// call is decided from the credential, the method and the scope of the request alone, before anything is looked up, so that
// no answer depends on what is stored.
//
// The file is read again while the server runs. What holds for the next call then holds for open streams, too: each is asked
// again, at every interval, whether the credential that opened it would still open it.
package auth

import (
	"strings"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/server/limit"
)

// The reasons for which a call is refused. They are those of ErrorInfo; their codes are in the server's error table.
const (
	// ErrMissing: the call has no credential. UNAUTHENTICATED.
	ErrMissing backend.Reason = "CREDENTIALS_MISSING"
	// ErrInvalid: the credential is malformed, unknown or revoked. UNAUTHENTICATED.
	ErrInvalid backend.Reason = "CREDENTIALS_INVALID"
	// ErrExpired: the credential was good once. UNAUTHENTICATED.
	ErrExpired backend.Reason = "CREDENTIALS_EXPIRED"
	// ErrTenant: the principal has no grant for the tenant of the request. PERMISSION_DENIED.
	ErrTenant backend.Reason = "TENANT_DENIED"
	// ErrOwnerUnset: the principal must name an owner in every request. PERMISSION_DENIED.
	ErrOwnerUnset backend.Reason = "OWNER_REQUIRED"
	// ErrReadOnly: the principal may not write. PERMISSION_DENIED.
	ErrReadOnly backend.Reason = "READ_ONLY"
)

// Refused reports whether err says that a caller is not, or no longer, allowed.
func Refused(err error) bool {
	switch backend.ReasonOf(err) {
	case ErrMissing, ErrInvalid, ErrExpired, ErrTenant, ErrOwnerUnset, ErrReadOnly:
		return true
	}
	return false
}

// The errors are shared: texts say what to do about a refusal, and nothing of what is configured or stored.
var (
	errMissing    = &backend.Error{Reason: ErrMissing, Detail: "the call has no credential"}
	errMalformed  = &backend.Error{Reason: ErrInvalid, Detail: "authorization must be one bearer token"}
	errInvalid    = &backend.Error{Reason: ErrInvalid, Detail: "the credential is not valid"}
	errExpired    = &backend.Error{Reason: ErrExpired, Detail: "the credential has expired"}
	errTenant     = &backend.Error{Reason: ErrTenant, Detail: "the credential is not for this tenant"}
	errOwnerUnset = &backend.Error{Reason: ErrOwnerUnset, Detail: "the credential is not for requests without an owner"}
	errReadOnly   = &backend.Error{Reason: ErrReadOnly, Detail: "the credential may only read"}
)

// Access is what a method does with tasks.
type Access uint8

// The kinds of access. The zero value is none of them, so that a method without one is not taken for harmless.
const (
	Read Access = iota + 1
	Write
)

// Grants are what a principal may do. They are not changed once they are in use.
type Grants struct {
	// Tenants are names, of which "" is the default tenant, or prefixes that end in "*"; "*" alone is every tenant.
	Tenants []string
	// AnyOwner allows requests without an owner: the principal then sees, and writes, the tasks of all owners of its tenants.
	AnyOwner bool
	// Write allows to change things; without it, a principal only reads.
	Write bool
	// Limits are how much the principal may take of the server.
	Limits limit.Limits
}

// Allow returns nil if the grants cover a request with this scope.
func (g *Grants) Allow(access Access, tenant string, ownerSet bool) error {
	switch {
	case access != Read && !(access == Write && g.Write):
		return errReadOnly
	case !g.hasTenant(tenant):
		return errTenant
	case !ownerSet && !g.AnyOwner:
		return errOwnerUnset
	}
	return nil
}

func (g *Grants) hasTenant(tenant string) bool { return matches(g.Tenants, tenant) }

// matches reports whether one of the patterns is of the tenant.
func matches(patterns []string, tenant string) bool {
	for _, pattern := range patterns {
		if prefix, ok := strings.CutSuffix(pattern, "*"); ok && strings.HasPrefix(tenant, prefix) || pattern == tenant {
			return true
		}
	}
	return false
}

// Principal is somebody who may call.
type Principal struct {
	// Name stands in logs: 1 to 128 characters out of A-Z, a-z, 0-9 and "._@/-", or, for those that are not of the file, with
	// a colon.
	Name string
	Grants
}
