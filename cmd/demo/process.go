package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// storeProcess is a real a2a-taskstore that can be killed and started again on the same data.
type storeProcess struct {
	dir     string
	binary  string
	dataDir string
	address string

	mu  sync.Mutex
	cmd *exec.Cmd
	log bytes.Buffer
}

// newStoreProcess builds the binary and picks a port.
func newStoreProcess(ctx context.Context) (*storeProcess, error) {
	dir, err := os.MkdirTemp("", "a2a-taskstore-demo-")
	if err != nil {
		return nil, err
	}
	s := &storeProcess{dir: dir, binary: filepath.Join(dir, "a2a-taskstore"), dataDir: filepath.Join(dir, "data")}
	build := exec.CommandContext(ctx, "go", "build", "-o", s.binary, "github.com/a2a-taskstore/taskstore/cmd/a2a-taskstore")
	if out, err := build.CombinedOutput(); err != nil {
		s.cleanUp()
		return nil, fmt.Errorf("go build: %w\n%s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.cleanUp()
		return nil, err
	}
	s.address = l.Addr().String()
	l.Close()
	return s, nil
}

// start starts the process and waits until it serves.
func (s *storeProcess) start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log.Reset()
	s.cmd = exec.Command(s.binary, "serve", "--admin-listen=", "--listen", s.address, "--data-dir", s.dataDir)
	s.cmd.Stderr = &s.log
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("start the store: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		if exec.CommandContext(ctx, s.binary, "healthcheck", "--address", s.address, "--timeout", "1s").Run() == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the store does not serve:\n%s", s.log.String())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (s *storeProcess) pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmd.Process.Pid
}

// kill ends the process as kill -9 does.
func (s *storeProcess) kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil || s.cmd.Process == nil || s.cmd.ProcessState != nil {
		return nil
	}
	if err := s.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill the store: %w", err)
	}
	s.cmd.Wait() // reports the kill
	return nil
}

func (s *storeProcess) cleanUp() {
	s.kill()
	os.RemoveAll(s.dir)
}
