package client

import (
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
)

// WithTracerProvider makes an OpenTelemetry span of every attempt of a call, and has the store's own spans, if it traces, join
// the trace (W3C traceparent). Without it, nothing is traced.
func WithTracerProvider(provider trace.TracerProvider) Option {
	return func(o *options) {
		o.require(provider != nil, "the tracer provider is nil") // otelgrpc would take the global one
		o.dial = append(o.dial, grpc.WithStatsHandler(otelgrpc.NewClientHandler(
			otelgrpc.WithTracerProvider(provider),
			otelgrpc.WithMeterProvider(noop.NewMeterProvider()),
			otelgrpc.WithPropagators(propagation.TraceContext{}),
		)))
	}
}
