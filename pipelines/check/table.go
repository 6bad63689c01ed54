package check

import (
	"fmt"
	"slices"

	"github.com/millstream-io/millstream/pipelines/expression"
	"github.com/millstream-io/millstream/pipelines/lang"
)

// Relation says which rows of two tables meet.
type Relation string

// The relations of a join of two tables.
const (
	// ByKey joins rows with equal keys.
	ByKey Relation = "key"
	// ByForeignKey joins a left row with the right one whose key it names.
	ByForeignKey Relation = "foreign key"
)

// declareTable makes a table something that from: may name, unless it is called as what fills it:
// that name stays the stream's.
func (c *checker) declareTable(t *Table, at lang.Pos) {
	if t.ID != string(t.Tree.From.Value) {
		c.declare(t.ID, &endpoint{at: at, what: "table", table: t, arm: -1})
	}
}

// readTable counts a reader of a table's changes.
func (c *checker) readTable(t *Table) {
	t.used = true
	switch {
	case t.From != nil:
		t.From.Streamed = true
	case t.Step != "":
		if e := c.names[t.Step]; e != nil {
			e.read()
		}
	}
}

// tableStream is what a step reads that names a table: its rows as they change.
func (c *checker) tableStream(t *Table) *Stream {
	scope := &expression.Scope{Vars: c.result.Vars}
	out := &Stream{ID: t.ID, Scope: scope, Keys: []string{"key"}, KeyKnown: true, Table: true}
	switch {
	case t.Step != "":
		e := c.names[t.Step]
		if e == nil || e.step == nil {
			out.Broken = true
			return out
		}
		rows := e.stream()
		if rows == nil || rows.Broken {
			out.Broken = true
			return out
		}
		copied := *rows.Scope
		out.Scope, out.Keys = &copied, slices.Clone(rows.Keys)
		c.knownKeys(t, rows)
	case t.From != nil:
		out.Keys = slices.Clone(t.From.Out.Keys)
		fallthrough
	default:
		scope.Key, scope.Value = t.Key, t.Doc.Doc
	}
	return out
}

// knownKeys reports a table made of a step whose records have no known key.
func (c *checker) knownKeys(t *Table, rows *Stream) {
	if rows.KeyKnown || t.keyReported {
		return
	}
	t.keyReported = true
	c.report(t.Tree.From.Pos, len(t.Step), CodeNeedsKey, fmt.Sprintf(
		"the table %q needs keys, nothing says what those of step %q are", t.ID, t.Step),
		"add a key_by: step before it")
}

// tableOperators are the operators that work on the changes of a table.
var tableOperators = []string{"filter", "map", "set", "unset", "join", "aggregate", "log", "route"}

// takesTable reports an operator that reads a table and works on streams only.
func (c *checker) takesTable(s *Step) bool {
	op := s.Tree.Operator
	if s.In.Broken || !s.In.Table || op == "" || slices.Contains(tableOperators, op) {
		return true
	}
	hint := "read the stream the table is made of"
	switch op {
	case "reduce":
		hint = "use  aggregate:, which can take back a row that is replaced"
	case "key_by":
		hint = "group rows with  aggregate: {by: …},  or join by another key with  join: {on: …}"
	case "dedupe":
		hint = "a table has each key once; aggregate: {emit_unchanged: false} leaves out equal results"
	}
	c.report(s.Tree.OperatorPos, len(op), CodeTableInput, fmt.Sprintf(
		"%s: works on a stream, %q is a table, whose rows are replaced and deleted", op, s.In.ID), hint)
	s.Out.Broken = true
	return false
}

// joinTables checks a join of two tables: by key, or by a key that is named in the left rows.
func (c *checker) joinTables(s *Step, j *lang.Join) {
	if j.Stream.Set {
		c.report(j.Stream.Pos, len(j.Stream.Value), CodeTableInput, fmt.Sprintf(
			"%q is a table, it can be joined with another table only", s.In.ID),
			fmt.Sprintf("say  table: id,  or join the stream with the table:  from: %s, "+
				"join: {table: %s}", j.Stream.Value, s.In.ID))
		s.Out.Broken = true
		return
	}
	c.joinTablesKeys(j)
	t := c.table(j)
	s.Table = t
	s.Program = c.program(s.Set, s.In, &j.On, expression.WantAny)
	s.Row = string(j.Table.Value)
	at := j.Table.Pos
	if j.As.Set {
		s.Row, at = string(j.As.Value), j.As.Pos
	}
	if t == nil {
		s.Out.Broken = true
		return
	}
	t.used = true
	if t.Tree.LookupOnly.Value || t.Tree.Global.Value {
		c.report(j.Table.Pos, len(t.ID), CodeTableOrder, fmt.Sprintf(
			"the rows of %q count as they arrive, so a stream can look into it, not a table", t.ID),
			"remove lookup_only: or global: from the table")
	}
	rows := c.tableStream(t)
	if rows.Broken || s.In.Broken {
		s.Out.Broken = true
		return
	}
	if t.From != nil {
		t.From.Streamed = true
	}
	t.Doc.Doc, t.Key = rows.Scope.Value, rows.Scope.Key
	s.Relation = ByKey
	if s.Program != nil {
		key, same := keyFor(s.In, &j.On, s.Program)
		if !same {
			s.Relation = ByForeignKey
		}
		c.sameKeys(j.On.Pos, j.On.Text, key, t.Key, t.ID)
	}
	s.KeyOK = true
	c.rowName(s, at)
	c.joinTablesType(s, j)
}

// joinTablesType checks what happens to rows without another one, and adds the row to the scope.
func (c *checker) joinTablesType(s *Step, j *lang.Join) {
	kind := j.Type.Value
	if kind == "outer" && s.Relation == ByForeignKey {
		c.report(j.Type.Pos, len("outer"), lang.CodeExclusive,
			"a join by a foreign key has the keys of the left table, a right row that nobody names "+
				"has none", "say  type: left,  or join by  on: key")
		kind = "left"
	}
	row := s.Table.Doc
	row.Name, row.Nullable = s.Row, kind == "left" || kind == "outer"
	s.Out.Scope.Rows = append(slices.Clone(s.In.Scope.Rows), row)
	if kind == "outer" {
		leftMayMiss(s)
	}
}

// leftMayMiss makes the value, and the rows of earlier joins, nullable: an outer join has rows
// without a left one.
func leftMayMiss(s *Step) {
	t := s.Out.Scope.Value.Type
	if t == nil {
		t = expression.Any
	}
	nullable := *t
	nullable.Nullable = true
	s.Out.Scope.Value.Type = &nullable
	for i := range s.Out.Scope.Rows {
		s.Out.Scope.Rows[i].Nullable = true
	}
	s.Out.Keys = []string{"key"}
}

// joinTablesKeys reports keys of a join that say nothing when both sides are tables.
func (c *checker) joinTablesKeys(j *lang.Join) {
	for _, x := range []struct {
		key string
		pos lang.Pos
		set bool
	}{{"as_of", j.AsOf.Pos, j.AsOf.Set}, {"missing", j.Missing.Pos, j.Missing.Set},
		{"grace", j.Grace.Pos, j.Grace.Set}, {"late", j.Late.Pos, j.Late.Pos.IsSet()}} {
		if x.set {
			c.report(x.pos, 1, lang.CodeExclusive, x.key+": is for a join of a stream with a table",
				"remove it: two tables are joined in the order of event time, a row that comes later "+
					"changes the result")
		}
	}
}

// retracts reports an aggregator that cannot take back a row of a table.
func (c *checker) retracts(s *Step, v *lang.Fold) {
	if !s.In.Table || !v.Set {
		return
	}
	switch {
	case v.Name == "approx_distinct":
		c.report(v.Pos, len(v.Name), CodeNoRetraction,
			"approx_distinct: cannot take back a row that is replaced or deleted",
			"use  distinct:, which counts exactly")
	case v.ByOffset:
		c.report(v.Pos, len(v.Name), CodeNoRetraction, v.Name+
			": by offset cannot take back a row, the rows of a table have no order but their time",
			"leave out  by: offset")
	}
}

// overTable checks the keys of an aggregate that reads a table: what its rows come to, always.
func (c *checker) overTable(s *Step) {
	a := s.Group
	at := func(p lang.Pos, key, message, hint string) {
		if p.IsSet() {
			c.report(p, 1, CodeWindowRule, key+": "+message, hint)
		}
	}
	if a.Window != nil {
		at(a.Window.Pos, "window", "the rows of a table are as they are now, they cannot be cut by time",
			"group by a time in the rows:  by: 'format_time(…)'")
	}
	at(a.TTL.Pos, "ttl", "the rows of a table are kept until they are deleted", "remove it")
	at(a.Unbounded.Pos, "unbounded", "a table says itself which rows there are", "remove it")
	c.untimed(s)
}
