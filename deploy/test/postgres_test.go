package test

import (
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
)

// startPostgres starts an empty PostgreSQL from the installed programs, which is reached by a unix socket alone, and returns
// its DSN. PostgreSQL does not run as root: then it is the user postgres.
func startPostgres(t *testing.T) string {
	t.Helper()
	versions, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil || len(versions) == 0 {
		t.Fatalf("PostgreSQL is not installed: %v", err)
	}
	slices.Sort(versions)
	bin := versions[len(versions)-1]
	dir, err := os.MkdirTemp("", "deploy-postgres-") // t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	var as *syscall.SysProcAttr
	if os.Getuid() == 0 {
		uid, gid := idsOf(t, "postgres")
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
		as = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	data := filepath.Join(dir, "data")
	initdb := exec.CommandContext(t.Context(), filepath.Join(bin, "initdb"), "--username=postgres", "--auth=trust", "--no-sync", data)
	initdb.Dir, initdb.SysProcAttr = dir, as
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	server := exec.Command(filepath.Join(bin, "postgres"), "-D", data, "-k", dir, "-c", "listen_addresses=", "-c", "fsync=off")
	server.Dir, server.SysProcAttr = dir, as
	startCommand(t, server, syscall.SIGQUIT)
	eventually(t, "PostgreSQL serves", func() bool {
		return exec.CommandContext(t.Context(), filepath.Join(bin, "pg_isready"), "--host="+dir).Run() == nil
	})
	return "host=" + dir + " user=postgres dbname=postgres"
}

func idsOf(t *testing.T, name string) (uid, gid int) {
	t.Helper()
	u, err := user.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	uid, err = strconv.Atoi(u.Uid)
	if err != nil {
		t.Fatal(err)
	}
	gid, err = strconv.Atoi(u.Gid)
	if err != nil {
		t.Fatal(err)
	}
	return uid, gid
}
