package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Tracer follows the statements that a Store sends. Its methods are called concurrently.
type Tracer interface {
	pgx.QueryTracer
	pgx.BatchTracer
	// Writes returns the context for the statement that carries out writes of several callers together: ctx, with what it
	// takes from theirs. ctx decides when it ends.
	Writes(ctx context.Context, callers []context.Context) context.Context
}

// traced is ctx for what is sent for the ops.
func (c *committer) traced(ctx context.Context, ops []*op) context.Context {
	if c.tracer == nil {
		return ctx
	}
	callers := make([]context.Context, len(ops))
	for i, o := range ops {
		callers[i] = o.ctx
	}
	return c.tracer.Writes(ctx, callers)
}
