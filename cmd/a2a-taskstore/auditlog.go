package main

import (
	"log/slog"

	"github.com/a2a-taskstore/taskstore/server/audit"
)

// auditFlags say what is kept of who did what.
type auditFlags struct {
	AuditLog         string `help:"File that gets a line of JSON for each call that may change a task: who did what to which task. - is standard output; empty: none. Lines are appended; a file that was renamed or removed is made anew." placeholder:"FILE"`
	AuditLogCalls    string `help:"Which calls are in it: writes, or all, which are reads, too." enum:"writes,all" default:"writes"`
	AuditLogRequired bool   `help:"While it cannot be written, refuse the calls that would be in it with UNAVAILABLE. Otherwise they are served, and lines that find no room in memory are lost and counted."`
}

func (f *auditFlags) check() error {
	if f.AuditLog == "" && (f.AuditLogRequired || f.AuditLogCalls == "all") {
		return usagef("--audit-log-required and --audit-log-calls need --audit-log")
	}
	return nil
}

// openAudit opens the log; nil: there is none.
func (f *auditFlags) openAudit(log *slog.Logger) (*audit.Log, error) {
	if f.AuditLog == "" {
		return nil, nil
	}
	calls := audit.Writes
	if f.AuditLogCalls == "all" {
		calls = audit.All
	}
	return audit.Open(audit.Config{Path: f.AuditLog, Calls: calls, Required: f.AuditLogRequired, Logger: log})
}

// closeAudit closes the log, if there is one.
func closeAudit(l *audit.Log, log *slog.Logger, kill <-chan struct{}) {
	if l == nil {
		return
	}
	closed := make(chan error, 1)
	go func() { closed <- l.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			log.Error("the audit log is not complete", "error", err)
		}
	case <-kill:
		log.Error("the audit log may not be complete: told to end at once")
	}
}
