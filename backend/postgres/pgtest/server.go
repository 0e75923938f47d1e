//go:build unix

package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Options configures a server of a test's own.
type Options struct {
	// Durable has the server sync its commits to the disk.
	Durable bool
	// Settings are added to its configuration.
	Settings map[string]string
	// StandbyOf makes the server a streaming standby of another one.
	StandbyOf *Server
	// Name is what a standby calls itself to its primary.
	Name string
}

// Server is a PostgreSQL that a test started.
type Server struct {
	// Dir is the directory of its socket and its data.
	Dir string

	stdin  io.Closer // closing it stops the server
	done   chan struct{}
	paused []int
}

// Start starts a server, which is stopped when the test ends.
func Start(tb testing.TB, opt Options) *Server {
	tb.Helper()
	s, err := start(opt)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Stop)
	return s
}

// port is that of all servers: it is only part of the socket's name.
const port = "5432"

// DSN returns the DSN of a database.
func (s *Server) DSN(database string) string {
	return "host=" + s.Dir + " port=" + port + " user=postgres dbname=" + database
}

// Stop stops the server at once, as a crash would, and removes its data.
func (s *Server) Stop() {
	_ = s.Resume()      // what is paused could not stop
	_ = s.stdin.Close() // closing it twice does no harm
	<-s.done
}

// PID is the server's process.
func (s *Server) PID() (int, error) {
	b, err := os.ReadFile(filepath.Join(s.Dir, "data", "postmaster.pid"))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(b), "\n")
	return strconv.Atoi(first)
}

// supervise runs the server until its own standard input ends, which it does when this process does.
const supervise = `dir=$1; shift
"$@" </dev/null >"$dir/log" 2>&1 &
pid=$!
read -r _
kill -QUIT $pid
wait $pid
rm -rf "$dir"`

func start(opt Options) (*Server, error) {
	p, err := programs()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pgtest-")
	if err != nil {
		return nil, err
	}
	s := &Server{Dir: dir, done: make(chan struct{})}
	if err := s.launch(p, opt); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	if err := s.wait(ctx); err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		s.Stop()
		return nil, fmt.Errorf("the server does not answer: %w\n%s", err, log)
	}
	return s, nil
}

func (s *Server) launch(p *installed, opt Options) error {
	if err := Own(s.Dir); err != nil {
		return err
	}
	data := filepath.Join(s.Dir, "data")
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	if opt.StandbyOf != nil {
		err := p.run(ctx, "pg_basebackup", "-D", data, "-X", "stream", "-c", "fast", "-R", "--no-sync",
			"-d", opt.StandbyOf.DSN("postgres")+" application_name="+opt.Name)
		if err != nil {
			return err
		}
	} else if err := p.initdb(ctx, data); err != nil {
		return err
	}

	args := []string{
		"-c", supervise, "sh", s.Dir, filepath.Join(p.bin, "postgres"), "-D", data, "-k", s.Dir, "-p", port,
		"-c", "listen_addresses=", "-c", "max_connections=500", "-c", "shared_buffers=256MB",
	}
	if !opt.Durable {
		args = append(args, "-c", "fsync=off", "-c", "full_page_writes=off")
	}
	for k, v := range opt.Settings {
		args = append(args, "-c", k+"="+v)
	}
	cmd := p.command(context.Background(), "/bin/sh", args...)
	cmd.Dir = s.Dir
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.stdin = stdin
	go func() {
		_ = cmd.Wait() // how it ends does not matter
		close(s.done)
	}()
	return nil
}

// wait returns once the server answers.
func (s *Server) wait(ctx context.Context) error {
	for {
		conn, err := pgx.Connect(ctx, s.DSN("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-s.done:
			return err
		case <-ctx.Done():
			return err
		}
	}
}

// installed are the programs of a PostgreSQL, and the user to run them as.
type installed struct {
	bin  string
	cred *syscall.Credential // nil: the current user
}

// programs finds PostgreSQL, which refuses to run as root.
func programs() (*installed, error) {
	p := &installed{}
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return nil, err
		}
		p.bin = filepath.Dir(path) // where the other programs are
	} else {
		found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // where Debian keeps them, by version
		if err != nil || len(found) == 0 {
			return nil, errors.New("PostgreSQL is not installed (Debian: apt-get install postgresql)")
		}
		newest := slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })
		p.bin = filepath.Dir(newest)
	}
	if os.Geteuid() != 0 {
		return p, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		p.cred = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		return p, nil
	}
	return nil, errors.New("PostgreSQL does not run as root, and there is neither a user postgres nor nobody")
}

func version(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path)))) // 0 if it is none
	return n
}

// initdb makes a cluster whose collation is not that of bytes: en_US, from the system or else from ICU.
func (p *installed) initdb(ctx context.Context, data string) error {
	common := []string{"-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"}
	first := p.run(ctx, "initdb", append(common, "--locale=en_US.UTF-8")...)
	if first == nil {
		return nil
	}
	second := p.run(ctx, "initdb", append(common, "--locale-provider=icu", "--icu-locale=en-US", "--locale=C.UTF-8")...)
	if second == nil {
		return nil
	}
	return errors.Join(first, second)
}

func (p *installed) command(ctx context.Context, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = os.TempDir()
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.cred, Setpgid: true}
	return cmd
}

func (p *installed) run(ctx context.Context, program string, args ...string) error {
	cmd := p.command(ctx, filepath.Join(p.bin, program), args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", program, err, out.String())
	}
	return nil
}

// Pause stops all processes of the server where they are, until Resume.
func (s *Server) Pause(ctx context.Context) error {
	pids, err := s.pids(ctx)
	if err != nil {
		return err
	}
	s.paused = pids
	return signal(pids, syscall.SIGSTOP)
}

// Resume lets a paused server go on.
func (s *Server) Resume() error {
	pids := s.paused
	s.paused = nil
	return signal(pids, syscall.SIGCONT)
}

// pids are the server's processes, the first of which starts all others.
func (s *Server) pids(ctx context.Context) ([]int, error) {
	first, err := s.PID()
	if err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, s.DSN("postgres"))
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
	if err != nil {
		return nil, err
	}
	rest, err := pgx.CollectRows(rows, pgx.RowTo[int])
	return append([]int{first}, rest...), err
}

// signal sends a signal to processes, some of which may have ended.
func signal(pids []int, sig syscall.Signal) error {
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}

// Command returns a command that runs as the user that servers run as.
func Command(ctx context.Context, path string, args ...string) (*exec.Cmd, error) {
	p, err := programs()
	if err != nil {
		return nil, err
	}
	return p.command(ctx, path, args...), nil
}

// Own gives a file or directory to the user that servers run as.
func Own(path string) error {
	p, err := programs()
	if err != nil || p.cred == nil {
		return err
	}
	return os.Chown(path, int(p.cred.Uid), int(p.cred.Gid))
}
