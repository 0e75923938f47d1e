//go:build unix

package server

import (
	"bufio"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// TestMain lets the test binary be the server that is killed.
func TestMain(m *testing.M) {
	if path := os.Getenv("TEST_LISTEN_UNIX"); path != "" {
		if _, err := ListenUnix(path, OwnerOnly); err != nil {
			os.Exit(1)
		}
		os.Stdout.WriteString("listening\n")
		select {}
	}
	os.Exit(m.Run())
}

// listenInProcess has another process listen.
func listenInProcess(t *testing.T, path string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "TEST_LISTEN_UNIX="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "listening\n" {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	return cmd
}

func TestListenUnixAfterKill(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	other := listenInProcess(t, path)
	if _, err := ListenUnix(path, OwnerOnly); !errors.Is(err, errSocketInUse) {
		t.Fatalf("a socket that another process uses: %v", err)
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatalf("the other process has lost its socket: %v", err)
	}
	conn.Close()

	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait()
	if _, err := os.Lstat(path); err != nil {
		t.Fatalf("nothing was left behind: %v", err)
	}
	lis, err := ListenUnix(path, OwnerOnly)
	if err != nil {
		t.Fatalf("after the kill: %v", err)
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Perm() != OwnerOnly {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := lis.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left behind: %v", err)
	}
}

// TestListenUnixRace has many start at once on a stale socket.
func TestListenUnixRace(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	for range 20 {
		stale(t, path)
		var won atomic.Int32
		var wg sync.WaitGroup
		release := make(chan struct{})
		results := make(chan error, 16)
		for range cap(results) {
			wg.Go(func() {
				lis, err := ListenUnix(path, OwnerOnly)
				results <- err
				if err == nil {
					won.Add(1)
					<-release
					_ = lis.Close()
				}
			})
		}
		for range cap(results) {
			if err := <-results; err != nil && !errors.Is(err, errSocketInUse) {
				t.Error(err)
			}
		}
		if conn, err := net.Dial("unix", path); err != nil {
			t.Errorf("nobody listens: %v", err)
		} else {
			conn.Close()
		}
		close(release)
		wg.Wait()
		if won.Load() != 1 {
			t.Fatalf("%d listen", won.Load())
		}
	}
}

// stale leaves a socket behind that nobody listens on.
func stale(t *testing.T, path string) {
	t.Helper()
	lis, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	lis.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := lis.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestListenUnixSparesOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ListenUnix(file, OwnerOnly); err == nil {
		t.Error("listens on a file")
	}
	if b, err := os.ReadFile(file); string(b) != "precious" {
		t.Errorf("the file: %q, %v", b, err)
	}

	// A program that knows nothing of the lock.
	foreign := filepath.Join(dir, "foreign")
	lis, err := net.Listen("unix", foreign)
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	if _, err := ListenUnix(foreign, OwnerOnly); !errors.Is(err, errSocketInUse) {
		t.Errorf("a foreign socket: %v", err)
	}
	if _, err := ListenUnix(filepath.Join(dir, "no", "such"), OwnerOnly); err == nil {
		t.Error("listens in a directory that does not exist")
	}
}
