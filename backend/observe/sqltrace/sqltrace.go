// Package sqltrace makes OpenTelemetry spans of the statements that backend/postgres sends for a call that is traced. What runs
// for nobody, such as polling, has none.
package sqltrace

import (
	"context"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/a2a-taskstore/taskstore/backend/postgres"
)

// New returns a tracer for postgres.Config. Spans hold the text of the statement, cut at maxStatement, and never its
// arguments.
func New(provider trace.TracerProvider) postgres.Tracer {
	return tracer{provider.Tracer("github.com/a2a-taskstore/taskstore/backend/postgres")}
}

const maxStatement = 512 // bytes

type tracer struct{ trace.Tracer }

// linksKey is the context key of the callers, beside the first, that share a write.
type linksKey struct{}

// Writes makes the spans of a shared write children of the first caller's that is sampled, linked to those of the others.
func (t tracer) Writes(ctx context.Context, callers []context.Context) context.Context {
	var parent trace.SpanContext
	var links []trace.Link
	for _, caller := range callers {
		span := trace.SpanContextFromContext(caller)
		switch {
		case !span.IsSampled():
		case !parent.IsValid():
			parent = span
		default:
			links = append(links, trace.Link{SpanContext: span})
		}
	}
	if !parent.IsValid() {
		return ctx
	}
	ctx = trace.ContextWithSpanContext(ctx, parent)
	if len(links) > 0 {
		ctx = context.WithValue(ctx, linksKey{}, links)
	}
	return ctx
}

func (t tracer) start(ctx context.Context, name, statement string, more ...attribute.KeyValue) context.Context {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx
	}
	links, _ := ctx.Value(linksKey{}).([]trace.Link)
	if len(statement) > maxStatement {
		statement = statement[:maxStatement]
	}
	ctx, _ = t.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient), trace.WithLinks(links...),
		trace.WithAttributes(append(more, attribute.String("db.system.name", "postgresql"), attribute.String("db.query.text", statement))...))
	return context.WithValue(ctx, startedKey{}, true)
}

// startedKey marks a context whose span start has started.
type startedKey struct{}

func end(ctx context.Context, err error) {
	if started, _ := ctx.Value(startedKey{}).(bool); !started {
		return
	}
	span := trace.SpanFromContext(ctx)
	if err != nil {
		span.SetStatus(codes.Error, "failed") // what the database says may hold values
	}
	span.End()
}

// TraceQueryStart implements pgx.QueryTracer.
func (t tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	return t.start(ctx, "postgresql query", data.SQL)
}

// TraceQueryEnd implements pgx.QueryTracer.
func (tracer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	end(ctx, data.Err)
}

// TraceBatchStart implements pgx.BatchTracer.
func (t tracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	statement := ""
	if q := data.Batch.QueuedQueries; len(q) > 0 {
		statement = q[0].SQL
	}
	return t.start(ctx, "postgresql batch", statement, attribute.Int("db.operation.batch.size", data.Batch.Len()))
}

// TraceBatchQuery implements pgx.BatchTracer.
func (tracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements pgx.BatchTracer.
func (tracer) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchEndData) {
	end(ctx, data.Err)
}
