package postgres

import (
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgtype"
)

type pgInt8 = pgtype.Int8

// statement is a statement that is put together from common table expressions, with its arguments.
type statement struct {
	ctes []cte
	args []any
	// arrays has all sources made of arrays, so that batches of all sizes are one statement.
	arrays bool
}

// cte is a common table expression: what its text makes of a FROM item that has its columns.
type cte struct {
	name  string
	cols  []column
	first int // the first one's argument, counted from 0
	text  func(source string) string
}

// with adds a common table expression. Its text must follow from the names of the statement's expressions and columns, and
// from whether they are arrays: statements that agree in these share one text.
func (s *statement) with(name string, cols []column, text func(source string) string) {
	s.ctes = append(s.ctes, cte{name: name, cols: cols, first: len(s.args), text: text})
	for i := range cols {
		s.args = append(s.args, cols[i].value)
	}
}

// known holds the texts of the statements so far, by what they follow from. It needs no bound: what a write may consist of is
// finite, and few of its combinations occur.
var known = struct {
	sync.RWMutex
	texts map[string]string
}{texts: map[string]string{}}

// sql is the text of the statement, which selects the stamps that some of its expressions return.
func (s *statement) sql(results ...string) string {
	key := make([]byte, 0, 1<<10)
	for i := range s.ctes {
		c := &s.ctes[i]
		key = append(append(key, c.name...), '(')
		for j := range c.cols {
			key = append(append(key, c.cols[j].name...), ',')
		}
		if len(c.cols) > 0 && c.cols[0].array {
			key = append(key, '*')
		}
	}
	known.RLock()
	text, ok := known.texts[string(key)]
	known.RUnlock()
	if !ok {
		text = s.render(results)
		known.Lock()
		known.texts[string(key)] = text
		known.Unlock()
	}
	return text
}

func (s *statement) render(results []string) string {
	var b strings.Builder
	for i := range s.ctes {
		c := &s.ctes[i]
		separator := ",\n"
		if i == 0 {
			separator = "WITH "
		}
		b.WriteString(separator + c.name + " AS " + c.text(source("s", c.first, c.cols)))
	}
	for i, name := range results {
		separator := " UNION ALL "
		if i == 0 {
			separator = "\n"
		}
		b.WriteString(separator + "SELECT stamp FROM " + name)
	}
	return b.String()
}

// arg adds an argument and returns its placeholder.
func (s *statement) arg(v any) string {
	s.args = append(s.args, v)
	return placeholder(len(s.args) - 1)
}

func placeholder(i int) string { return "$" + strconv.Itoa(i+1) }

// source adds the columns' arguments and returns a FROM item that has the alias, and a row for each value.
func (s *statement) source(alias string, cols ...column) string {
	first := len(s.args)
	for i := range cols {
		s.args = append(s.args, cols[i].value)
	}
	return source(alias, first, cols)
}

// column is a column of a source.
type column struct {
	name, typ string
	value     any
	array     bool // value is a slice, of a value for each row
}

// columnOf makes a column of n rows. The value of a single row is itself, unless arrays is set: that is what a lone caller's
// statement is planned and run fastest with.
func columnOf[T any](s *statement, name, typ string, n int, at func(i int) T) column {
	if n == 1 && !s.arrays {
		return column{name: name, typ: typ, value: at(0)}
	}
	all := make([]T, n)
	for i := range all {
		all[i] = at(i)
	}
	return column{name: name, typ: typ, value: all, array: true}
}

func int8s(s *statement, name string, n int, at func(i int) int64) column {
	return columnOf(s, name, "bigint", n, at)
}

func bools(s *statement, name string, n int, at func(i int) bool) column {
	return columnOf(s, name, "boolean", n, at)
}

// byteas makes a column of bytes; nil is NULL.
func byteas(s *statement, name string, n int, at func(i int) []byte) column {
	return columnOf(s, name, "bytea", n, at)
}

// texts makes a column of the bytes of strings.
func texts(s *statement, name string, n int, at func(i int) string) column {
	return columnOf(s, name, "bytea", n, func(i int) []byte { return asBytes(at(i)) })
}

// asBytes is never nil.
func asBytes(s string) []byte {
	if s == "" {
		return []byte{}
	}
	return []byte(s)
}

// source is a FROM item of the columns, whose arguments follow each other. It is empty if there are none.
func source(alias string, first int, cols []column) string {
	if len(cols) == 0 {
		return ""
	}
	var b strings.Builder
	array := cols[0].array
	if array {
		b.WriteString("(SELECT * FROM unnest(")
	} else {
		b.WriteString("(SELECT ")
	}
	for i, c := range cols {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(placeholder(first+i) + "::" + c.typ)
		if array {
			b.WriteString("[]")
		} else {
			b.WriteString(" AS " + c.name)
		}
	}
	if array {
		b.WriteString(") WITH ORDINALITY AS u(" + names("", cols) + ", ord) WHERE " + fewRows)
	}
	b.WriteString(") AS " + alias)
	return b.String()
}

// fewRows is always true. The planner takes it to leave one row of an array, and so looks up each by its key, as it should;
// else it may choose to scan the other table, if that was small, or empty, when the statement was first planned.
const fewRows = "ord = ord + 0"

// names lists the columns, each with the prefix.
func names(prefix string, cols []column) string {
	var b strings.Builder
	for i, c := range cols {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(prefix + c.name)
	}
	return b.String()
}
