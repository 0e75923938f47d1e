package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
)

// logFlags configure the log.
type logFlags struct {
	LogLevel  logLevel `help:"The lowest level that is logged: debug, info, warn or error." default:"info"`
	LogFormat string   `help:"How to log: auto is text on a terminal, else json." enum:"auto,text,json" default:"auto"`
}

func (f *logFlags) logger(w io.Writer) *slog.Logger {
	opts := &slog.HandlerOptions{Level: slog.Level(f.LogLevel), ReplaceAttr: withUnit}
	if f.LogFormat == "text" || f.LogFormat == "auto" && isTerminal(w) {
		return slog.New(slog.NewTextHandler(w, opts))
	}
	return slog.New(slog.NewJSONHandler(w, opts))
}

// withUnit makes a duration text, such as 1.5ms. In JSON it would be a bare number.
func withUnit(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// logLevel is a level on the command line.
type logLevel slog.Level

// UnmarshalText parses a level.
func (l *logLevel) UnmarshalText(text []byte) error {
	if err := (*slog.Level)(l).UnmarshalText(text); err != nil {
		return fmt.Errorf("%q is not a level: debug, info, warn or error", text)
	}
	return nil
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
