//go:build unix

package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// OwnerOnly is the mode of a unix socket to which only the user that the server runs as may connect.
const OwnerOnly os.FileMode = 0o600

// ListenUnix returns a listener on a unix socket, of which the mode says who may connect. A socket that a killed server has left behind is
// replaced; one that is in use is an error, whoever uses it.
//
// What decides is a lock on the file path + ".lock", which the kernel frees when the process ends, however it ends. The lock
// file stays: removing it would let two servers lock two files of the same name.
func ListenUnix(path string, mode os.FileMode) (net.Listener, error) {
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	lis, err := listenLocked(path, mode)
	if err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return &unixListener{Listener: lis, lock: lock}, nil
}

var errSocketInUse = errors.New("another server uses it")

func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errSocketInUse
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}

// listenLocked listens; the caller holds the lock.
func listenLocked(path string, mode os.FileMode) (net.Listener, error) {
	if err := removeStale(path); err != nil {
		return nil, err
	}
	config := net.ListenConfig{Control: func(_, _ string, conn syscall.RawConn) error {
		// Before the socket is bound, so that on Linux there is no instant at which others may connect.
		var err error
		if cerr := conn.Control(func(fd uintptr) { err = syscall.Fchmod(int(fd), uint32(mode.Perm())) }); cerr != nil {
			return cerr
		}
		if errors.Is(err, syscall.EINVAL) {
			return nil // elsewhere the mode of a socket is set by its path only
		}
		return err
	}}
	lis, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, mode.Perm()); err != nil {
		_ = lis.Close()
		return nil, err
	}
	return lis, nil
}

// removeStale removes a socket that nobody listens on. Programs that do not know of the lock are found by calling them.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != os.ModeSocket {
		return errors.New("it exists and is not a socket")
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = conn.Close()
		return errSocketInUse
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err // in use, but busy, or not ours to judge
	}
	return os.Remove(path)
}

// unixListener gives the lock back when it is closed.
type unixListener struct {
	net.Listener
	lock *os.File
	once sync.Once
	err  error
}

// Close removes the socket, then frees the lock, so that nobody else's socket is removed.
func (l *unixListener) Close() error {
	l.once.Do(func() { l.err = errors.Join(l.Listener.Close(), l.lock.Close()) })
	return l.err
}
