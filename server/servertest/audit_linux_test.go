package servertest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/v1"
	"github.com/a2a-taskstore/taskstore/server/audit"
)

// With a full disk under the audit log, writes go on; if it is required, they are refused before they are carried out.
func TestAuditOnAFullDisk(t *testing.T) {
	t.Parallel()
	for name, required := range map[string]bool{"best effort": false, "required": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "audit.log")
			if err := os.Symlink("/dev/full", path); err != nil {
				t.Fatal(err)
			}
			option, lines := auditTo(t, audit.Config{Path: path, Required: required})
			admin := newCredential("admin", `tenants: ["*"], any_owner: true, access: read-write`)
			g := guard(t, newMemory(t), credentialsFile(admin), option)
			as := admin.authorize(t.Context())
			// The first write finds that the log cannot be written, some milliseconds after it was carried out.
			saved := 0
			save := func() error {
				_, err := g.Save(as, saveRequest(theTask))
				if err == nil {
					saved++
				}
				return err
			}
			if err := save(); err != nil {
				t.Fatal(err)
			}
			if required {
				for deadline := time.Now().Add(20 * time.Second); status.Code(save()) != codes.Unavailable; {
					if time.Now().After(deadline) {
						t.Fatal("writes go on")
					}
				}
				calls := g.store.calls.Load()
				if err := save(); status.Code(err) != codes.Unavailable || g.store.calls.Load() != calls {
					t.Errorf("a write: %v, and the store was called %d times", err, g.store.calls.Load()-calls)
				}
			} else {
				for range 100 {
					if err := save(); err != nil {
						t.Fatal(err)
					}
				}
			}
			if _, err := g.Get(as, &pb.GetRequest{TaskId: theTask}); err != nil {
				t.Errorf("a read, which leaves no line: %v", err)
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(20 * time.Second); save() != nil; {
				if time.Now().After(deadline) {
					t.Fatal("writes are refused after the disk has room")
				}
			}
			if got := lines(); len(got) != saved {
				t.Errorf("%d lines of %d writes", len(got), saved)
			}
		})
	}
}
