package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/a2a-taskstore/taskstore/backend"
	"github.com/a2a-taskstore/taskstore/server"
	"github.com/a2a-taskstore/taskstore/server/gcpace"
)

type serveCmd struct {
	Listen     string `help:"TCP address to listen on; empty: none." default:"${address}" group:"Listeners"`
	UnixSocket string `help:"Path of a unix socket to listen on, too." placeholder:"PATH" group:"Listeners"`
	Insecure   bool   `help:"Allow an address other than loopback without TLS or without credentials: whoever reaches it may read and write everything." group:"Listeners"`

	adminFlags     `group:"Observability"`
	auditFlags     `group:"Observability"`
	accessFlags    `group:"Access"`
	storeFlags     `group:"Storage"`
	retentionFlags `group:"Retention"`
	limitFlags     `group:"Limits"`
	logFlags       `group:"Log"`

	SweepInterval time.Duration `help:"How often expired tasks, logs and keys are looked for." default:"1m" group:"Retention"`
	DrainDelay    time.Duration `help:"How long to go on serving after SIGTERM while health checks already fail, so that callers move away." default:"0s" group:"Shutdown"`
	DrainTimeout  time.Duration `help:"How long calls may take to end after that." default:"20s" group:"Shutdown"`
}

// Run serves until the first signal and drains; a second signal exits at once.
func (c *serveCmd) Run(e *env) error {
	log := c.logger(e.stderr)
	if err := c.check(); err != nil {
		return err
	}
	cfg := server.Config{
		Logger:          log,
		MaxMessageBytes: int(c.MaxMessageBytes),
		Retention:       c.retention(),
		SweepInterval:   c.SweepInterval,
		DrainDelay:      c.DrainDelay,
		Limits:          c.limitFlags.limits(),
	}
	err := c.accessFlags.apply(&cfg)
	if err != nil {
		return err
	}
	if cfg.Audit, err = c.openAudit(log); err != nil {
		return err
	}
	defer closeAudit(cfg.Audit, log, e.kill)
	var stopTracing func()
	if cfg.TracerProvider, stopTracing, err = startTracing(e.ctx, e.kill, log); err != nil {
		return err
	}
	defer stopTracing()
	// Before the store is opened, so that an address that is taken leaves nothing behind. Callers wait until it serves.
	listeners, err := c.listeners()
	if err != nil {
		return err
	}
	admin, err := c.adminFlags.start(log)
	if err != nil {
		closeAll(listeners)
		return err
	}
	defer admin.stop() // last: it says how the draining goes
	store, err := c.open(e.ctx, log, c.storeFlags.limits(), cfg.TracerProvider)
	if err != nil {
		closeAll(listeners)
		return err
	}
	defer func() {
		if err := store.Close(); err != nil {
			log.Error("closing the store failed", "error", err)
		}
	}()

	defer gcpace.Start()()
	observed := admin.observe(store, &cfg)
	srv := server.New(observed, cfg)
	admin.serves(srv, log)
	stopAdmin := serveAdmin(&c.storeFlags, store, log)
	defer stopAdmin()
	for _, l := range listeners {
		log.Info("serving", "address", l.Addr().String(), "version", version())
	}
	c.accessFlags.warn(log, c.Listen)

	served := make(chan error, 1)
	go func() { served <- srv.Serve(listeners...) }()
	select {
	case err := <-served:
		return fmt.Errorf("serving ended: %w", err)
	case <-e.ctx.Done():
	}
	log.Info("draining")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), c.DrainDelay+c.DrainTimeout)
	defer cancel()
	go func() {
		select {
		case <-e.kill:
			cancel()
		case <-ctx.Done():
		}
	}()
	if err := srv.Shutdown(ctx); err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	log.Info("stopped")
	return nil
}

// check finds wrong configuration before anything is opened.
func (c *serveCmd) check() error {
	if c.Listen == "" && c.UnixSocket == "" {
		return usagef("nothing to listen on: give --listen or --unix-socket")
	}
	if err := checkAddress("--listen", c.Listen); err != nil {
		return err
	}
	if err := c.adminFlags.check(c.Insecure); err != nil {
		return err
	}
	if err := c.auditFlags.check(); err != nil {
		return err
	}
	if err := c.accessFlags.check(c.Listen, c.Insecure); err != nil {
		return err
	}
	if c.SweepInterval <= 0 || c.DrainDelay < 0 || c.DrainTimeout < 0 {
		return usagef("--sweep-interval must be positive, --drain-delay and --drain-timeout must not be negative")
	}
	if c.MaxMessageBytes < minMessageBytes || c.MaxMessageBytes > maxMessageBytes {
		return usagef("--max-message-bytes must be from %s to %s", byteSize(minMessageBytes), byteSize(maxMessageBytes))
	}
	if err := c.limitFlags.check(c.MaxMessageBytes); err != nil {
		return err
	}
	return c.retentionFlags.check()
}

// checkAddress refuses what is not a TCP address; "" is none.
func checkAddress(flag, address string) error {
	if address == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return usagef("%s: %q is not host:port", flag, address)
	}
	return nil
}

const (
	minMessageBytes = 64 << 10
	maxMessageBytes = 1 << 30
)

func (c *serveCmd) listeners() ([]net.Listener, error) {
	var out []net.Listener
	if c.Listen != "" {
		l, err := net.Listen("tcp", c.Listen)
		if err != nil {
			return nil, fmt.Errorf("cannot listen: %w", err)
		}
		out = append(out, l)
	}
	if c.UnixSocket != "" {
		l, err := server.ListenUnix(c.UnixSocket, os.FileMode(c.UnixSocketMode))
		if err != nil {
			closeAll(out)
			return nil, fmt.Errorf("cannot listen: %w", err)
		}
		out = append(out, l)
	}
	return out, nil
}

func closeAll(listeners []net.Listener) {
	for _, l := range listeners {
		l.Close()
	}
}

// retentionFlags say how long things are kept.
type retentionFlags struct {
	RetainTerminal    time.Duration `help:"Age at which terminal tasks go; 0: never." default:"0s"`
	RetainIdle        time.Duration `help:"Age at which tasks that are not terminal go, counted from their last write; 0: never." default:"0s"`
	RetainTasklessLog time.Duration `help:"Age at which event logs without a task go; 0: never." default:"1h"`
	RetainTombstone   time.Duration `help:"How long a deleted id keeps its last version and seq; 0: for ever." default:"720h"`
	LogMaxEvents      int64         `help:"Events kept per task, the oldest going first; 0: all." default:"10000"`
	LogMaxBytes       byteSize      `help:"Bytes of events kept per task; 0: all." default:"64MiB"`
}

func (f *retentionFlags) check() error {
	if f.RetainTerminal < 0 || f.RetainIdle < 0 || f.RetainTasklessLog < 0 || f.RetainTombstone < 0 || f.LogMaxEvents < 0 {
		return usagef("retention must not be negative")
	}
	return nil
}

func (f *retentionFlags) retention() backend.Retention {
	return backend.Retention{
		Terminal:    f.RetainTerminal,
		Idle:        f.RetainIdle,
		LogEvents:   f.LogMaxEvents,
		LogBytes:    int64(f.LogMaxBytes),
		TasklessLog: f.RetainTasklessLog,
		Tombstone:   f.RetainTombstone,
	}
}

func logUnavailable(log *slog.Logger, what string, err error) {
	log.Warn(what+" is not available", "error", err)
}
