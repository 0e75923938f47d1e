package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// flushTimeout bounds how long the end of the process waits for the last spans to be taken.
const flushTimeout = 5 * time.Second

// startTracing returns where spans go by the standard OTEL_* variables, and what sends the last of them. Without a variable
// that asks for traces there is neither: nil, and nothing is traced. kill ends the wait for the last.
func startTracing(ctx context.Context, kill <-chan struct{}, log *slog.Logger) (provider trace.TracerProvider, stop func(), err error) {
	if !tracesWanted(os.Getenv) {
		return nil, func() {}, nil
	}
	// Before anything of the SDK is made: it reports wrong variables, too, and by default to standard error.
	otel.SetErrorHandler(&spanErrors{log: log})
	otel.SetLogger(logr.FromSlogHandler(messages{log.Handler()}))
	exporter, err := newExporter(ctx)
	if err != nil {
		return nil, nil, err
	}
	// OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES come last and win.
	res, err := resource.New(ctx, resource.WithTelemetrySDK(),
		resource.WithAttributes(attribute.String("service.name", "a2a-taskstore"), attribute.String("service.version", version())),
		resource.WithFromEnv())
	if err != nil {
		return nil, nil, usagef("OTEL_RESOURCE_ATTRIBUTES: %v", err)
	}
	sdk := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(res)) // the sampler is OTEL_TRACES_SAMPLER's
	log.Info("tracing is on")
	return sdk, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
		defer cancel()
		go func() {
			select {
			case <-kill:
				cancel()
			case <-ctx.Done():
			}
		}()
		if err := sdk.Shutdown(ctx); err != nil {
			log.Warn("the last spans were not sent", "error", err)
		}
	}, nil
}

// tracesWanted reports whether the environment asks for traces: by naming the exporter, or where to send them.
func tracesWanted(getenv func(string) string) bool {
	switch {
	case getenv("OTEL_SDK_DISABLED") == "true", getenv("OTEL_TRACES_EXPORTER") == "none":
		return false
	default:
		return getenv("OTEL_TRACES_EXPORTER") != "" ||
			getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
	}
}

// newExporter returns the exporter that OTEL_TRACES_EXPORTER and OTEL_EXPORTER_OTLP_PROTOCOL name. It connects when there is
// something to send, to where the other OTEL_EXPORTER_OTLP_* variables say.
func newExporter(ctx context.Context) (sdktrace.SpanExporter, error) {
	if name := os.Getenv("OTEL_TRACES_EXPORTER"); name != "" && name != "otlp" {
		return nil, usagef("OTEL_TRACES_EXPORTER: %q is not otlp or none", name)
	}
	protocol := os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
	if protocol == "" {
		protocol = os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL")
	}
	var exporter sdktrace.SpanExporter
	var err error
	switch protocol {
	case "", "http/protobuf":
		exporter, err = otlptracehttp.New(ctx)
	case "grpc":
		exporter, err = otlptracegrpc.New(ctx)
	default:
		return nil, usagef("OTEL_EXPORTER_OTLP_PROTOCOL: %q is not grpc or http/protobuf", protocol)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot export traces: %w", err)
	}
	return exporter, nil
}

// spanErrors logs what goes wrong with traces, at most once in a while: a collector that is away fails every few seconds.
type spanErrors struct {
	log    *slog.Logger
	logged atomic.Int64 // Unix seconds
}

// Handle implements otel.ErrorHandler.
func (h *spanErrors) Handle(err error) {
	const between = 60
	now, last := time.Now().Unix(), h.logged.Load()
	if now-last >= between && h.logged.CompareAndSwap(last, now) {
		h.log.Warn("tracing fails", "error", err)
	}
}

// messages keeps only the messages of a log: what the SDK logs beside them may be the value of a variable, such as a token in
// OTEL_EXPORTER_OTLP_HEADERS.
type messages struct{ slog.Handler }

// Handle implements slog.Handler.
func (m messages) Handle(ctx context.Context, r slog.Record) error {
	return m.Handler.Handle(ctx, slog.NewRecord(r.Time, r.Level, "tracing: "+r.Message, r.PC))
}

// WithAttrs implements slog.Handler.
func (m messages) WithAttrs([]slog.Attr) slog.Handler { return m }

// WithGroup implements slog.Handler.
func (m messages) WithGroup(string) slog.Handler { return m }
