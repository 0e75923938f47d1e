package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/backend/pebble"
	adminv1 "github.com/a2a-taskstore/taskstore/gen/a2ataskstore/admin/v1"
	"github.com/a2a-taskstore/taskstore/server"
)

// adminSocket is where a server on a data directory can be asked for a backup. Whoever may write the directory may connect.
const adminSocket = "admin.sock"

type backupCmd struct {
	DataDir   string `help:"The directory of the store." default:"data" type:"path"`
	Directory string `arg:"" help:"Where the copy goes: a directory that does not exist yet. serve --data-dir opens it." type:"path"`
	logFlags
}

// Run asks the server that holds the directory, or, without one, opens the store itself.
func (c *backupCmd) Run(e *env) error {
	if _, err := os.Stat(c.DataDir); err != nil {
		return usagef("there is no store in %s", c.DataDir)
	}
	store, err := pebble.Open(pebble.Config{Dir: c.DataDir, Logger: c.logger(e.stderr)})
	switch {
	case errors.Is(err, pebble.ErrInUse):
		err = c.ask(e.ctx)
	case err == nil:
		err = errors.Join(checkpoint(store, c.DataDir, c.Directory), store.Close())
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.stdout, "copied to %s\n", c.Directory)
	return err
}

func (c *backupCmd) ask(ctx context.Context) error {
	conn, err := grpc.NewClient("unix:"+filepath.Join(c.DataDir, adminSocket), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("the server on %s cannot be asked: %w", c.DataDir, err)
	}
	defer conn.Close()
	_, err = adminv1.NewAdminServiceClient(conn).Backup(ctx, &adminv1.BackupRequest{Directory: c.Directory})
	if err != nil {
		return fmt.Errorf("the server on %s: %s", c.DataDir, status.Convert(err).Message())
	}
	return nil
}

type checkpointer interface {
	Checkpoint(dir string) error
}

// checkpoint copies the store whose files are in dataDir into dir. Errors: fs.ErrExist, errInside.
func checkpoint(store checkpointer, dataDir, dir string) error {
	if _, err := os.Lstat(dir); err == nil {
		return fmt.Errorf("%s exists: a backup needs a new directory: %w", dir, fs.ErrExist)
	}
	if rel, err := filepath.Rel(resolved(dataDir), resolved(dir)); err == nil && filepath.IsLocal(rel) {
		return fmt.Errorf("%s is %w", dir, errInside)
	}
	return store.Checkpoint(dir)
}

// errInside refuses a copy that would be lost with the original.
var errInside = errors.New("inside the data directory: a backup belongs elsewhere")

// resolved follows links as far as the path exists.
func resolved(path string) string {
	real, err := filepath.EvalSymlinks(path)
	if parent := filepath.Dir(path); err != nil && parent != path {
		return filepath.Join(resolved(parent), filepath.Base(path))
	}
	return real
}

// admin serves the admin service.
type admin struct {
	adminv1.UnimplementedAdminServiceServer
	store   checkpointer
	dataDir string
}

func (a *admin) Backup(_ context.Context, req *adminv1.BackupRequest) (*adminv1.BackupResponse, error) {
	if !filepath.IsAbs(req.GetDirectory()) {
		return nil, status.Error(codes.InvalidArgument, "directory must be an absolute path")
	}
	err := checkpoint(a.store, a.dataDir, filepath.Clean(req.GetDirectory()))
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, status.Error(codes.AlreadyExists, err.Error())
	case errors.Is(err, errInside):
		return nil, status.Error(codes.InvalidArgument, err.Error())
	case err != nil:
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return &adminv1.BackupResponse{}, nil
}

// serveAdmin serves the admin service of a store that keeps files, on a socket among them. A server without it still
// serves: only the backup would have to wait until it stops.
func serveAdmin(f *storeFlags, store backend.Store, log *slog.Logger) (stop func()) {
	c, ok := store.(checkpointer)
	if !ok {
		return func() {}
	}
	l, err := listenAdmin(filepath.Join(f.DataDir, adminSocket))
	if err != nil {
		logUnavailable(log, "online backup", err)
		return func() {}
	}
	s := grpc.NewServer()
	adminv1.RegisterAdminServiceServer(s, &admin{store: c, dataDir: f.DataDir})
	go func() {
		if err := s.Serve(l); err != nil {
			logUnavailable(log, "online backup", err)
		}
	}()
	return s.Stop
}

func listenAdmin(path string) (net.Listener, error) { return server.ListenUnix(path, server.OwnerOnly) }
