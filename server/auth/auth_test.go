package auth

import (
	"context"
	"errors"
	"testing"

	"github.com/a2a-taskstore/taskstore/backend"
)

func TestAllow(t *testing.T) {
	t.Parallel()
	all := Grants{Tenants: []string{"*"}, AnyOwner: true, Write: true}
	for name, test := range map[string]struct {
		grants   Grants
		access   Access
		tenant   string
		ownerSet bool
		want     error
	}{
		"all, write":               {all, Write, "t", false, nil},
		"all, default tenant":      {all, Read, "", false, nil},
		"all, no kind of access":   {all, 0, "t", true, ErrReadOnly},
		"all, other access":        {all, Write + 1, "t", true, ErrReadOnly},
		"nothing":                  {Grants{}, Read, "", true, ErrTenant},
		"exact":                    {Grants{Tenants: []string{"a", "b"}}, Read, "b", true, nil},
		"exact is not a prefix":    {Grants{Tenants: []string{"a"}}, Read, "ab", true, ErrTenant},
		"exact is not less":        {Grants{Tenants: []string{"ab"}}, Read, "a", true, ErrTenant},
		"case counts":              {Grants{Tenants: []string{"a"}}, Read, "A", true, ErrTenant},
		"named is not default":     {Grants{Tenants: []string{"a"}}, Read, "", true, ErrTenant},
		"default is not named":     {Grants{Tenants: []string{""}}, Read, "a", true, ErrTenant},
		"default":                  {Grants{Tenants: []string{""}}, Read, "", true, nil},
		"prefix":                   {Grants{Tenants: []string{"team-*"}}, Read, "team-x", true, nil},
		"prefix alone":             {Grants{Tenants: []string{"team-*"}}, Read, "team-", true, nil},
		"prefix, the star itself":  {Grants{Tenants: []string{"team-*"}}, Read, "team-*", true, nil},
		"not the prefix":           {Grants{Tenants: []string{"team-*"}}, Read, "team", true, ErrTenant},
		"prefix, not default":      {Grants{Tenants: []string{"team-*"}}, Read, "", true, ErrTenant},
		"read-only reads":          {Grants{Tenants: []string{"*"}}, Read, "t", true, nil},
		"read-only does not write": {Grants{Tenants: []string{"*"}, AnyOwner: true}, Write, "t", true, ErrReadOnly},
		"owner unset":              {Grants{Tenants: []string{"*"}, Write: true}, Write, "t", false, ErrOwnerUnset},
		"owner set":                {Grants{Tenants: []string{"*"}, Write: true}, Write, "t", true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := test.grants.Allow(test.access, test.tenant, test.ownerSet)
			if !errors.Is(err, test.want) || Refused(err) != (test.want != nil) {
				t.Errorf("%v, want %v", err, test.want)
			}
		})
	}
	if Refused(backend.ErrTaskNotFound) || Refused(context.Canceled) || Refused(nil) {
		t.Error("other errors are taken for refusals")
	}
}
