package main

import (
	"io"
	"log/slog"
	"os"
)

// logFlags configure the log.
type logFlags struct {
	LogLevel  slog.Level `help:"The lowest level that is logged: debug, info, warn or error." default:"info"`
	LogFormat string     `help:"How to log: auto is text on a terminal, else json." enum:"auto,text,json" default:"auto"`
}

func (f *logFlags) logger(w io.Writer) *slog.Logger {
	opts := &slog.HandlerOptions{Level: f.LogLevel}
	if f.LogFormat == "text" || f.LogFormat == "auto" && isTerminal(w) {
		return slog.New(slog.NewTextHandler(w, opts))
	}
	return slog.New(slog.NewJSONHandler(w, opts))
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
