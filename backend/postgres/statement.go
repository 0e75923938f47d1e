package postgres

import (
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"
)

type pgInt8 = pgtype.Int8

// statement is a statement that is put together from common table expressions, with its arguments.
type statement struct {
	with strings.Builder
	args []any
	// arrays has all sources made of arrays, so that batches of all sizes are one statement.
	arrays bool
}

// cte adds a common table expression.
func (s *statement) cte(name string, body ...string) {
	if s.with.Len() == 0 {
		s.with.WriteString("WITH ")
	} else {
		s.with.WriteString(",\n")
	}
	s.with.WriteString(name)
	for _, b := range body {
		s.with.WriteString(b)
	}
}

// arg adds an argument and returns its placeholder.
func (s *statement) arg(v any) string {
	s.args = append(s.args, v)
	return "$" + strconv.Itoa(len(s.args))
}

// column is a column of a source: an array of values.
type column struct {
	name, typ string
	all       any // the slice
	first     any
}

func columnOf[T any](name, typ string, n int, at func(i int) T) column {
	all := make([]T, n)
	for i := range all {
		all[i] = at(i)
	}
	return column{name: name, typ: typ, all: all, first: all[0]}
}

func int8s(name string, n int, at func(i int) int64) column { return columnOf(name, "bigint", n, at) }

func bools(name string, n int, at func(i int) bool) column { return columnOf(name, "boolean", n, at) }

// byteas makes a column of bytes; nil is NULL.
func byteas(name string, n int, at func(i int) []byte) column { return columnOf(name, "bytea", n, at) }

func texts(name string, n int, at func(i int) string) column {
	return byteas(name, n, func(i int) []byte { return asBytes(at(i)) })
}

// asBytes is never nil.
func asBytes(s string) []byte {
	if s == "" {
		return []byte{}
	}
	return []byte(s)
}

// source returns a FROM item with n rows of the columns, which has the alias. A single row is spelled out, unless arrays is
// set: that is what a lone caller's statement is planned and run fastest with.
func (s *statement) source(alias string, n int, cols ...column) string {
	single := n == 1 && !s.arrays
	var b strings.Builder
	b.Grow(64 + 40*len(cols))
	if single {
		b.WriteString("(SELECT ")
	} else {
		b.WriteString("(SELECT * FROM unnest(")
	}
	for i, c := range cols {
		if i > 0 {
			b.WriteString(", ")
		}
		if single {
			b.WriteString(s.arg(c.first))
		} else {
			b.WriteString(s.arg(c.all))
		}
		b.WriteString("::")
		b.WriteString(c.typ)
		if single {
			b.WriteString(" AS ")
			b.WriteString(c.name)
		} else {
			b.WriteString("[]")
		}
	}
	if !single {
		b.WriteString(") WITH ORDINALITY AS u(")
		b.WriteString(names("", cols))
		b.WriteString(", ord) WHERE " + fewRows)
	}
	b.WriteString(") AS ")
	b.WriteString(alias)
	return b.String()
}

// fewRows is always true. The planner takes it to leave one row of an array, and so looks up each by its key, as it should;
// else it may choose to scan the other table, if that was small, or empty, when the statement was first planned.
const fewRows = "ord = ord + 0"

// names lists the columns, each with the prefix.
func names(prefix string, cols []column) string {
	var b strings.Builder
	b.Grow(20 * len(cols))
	for i, c := range cols {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(prefix)
		b.WriteString(c.name)
	}
	return b.String()
}
