package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millstream-io/millstream/pipelines/expression"
	"github.com/millstream-io/millstream/pipelines/lang"
)

// join checks a lookup in a table.
func (c *checker) join(s *Step) {
	c.needsID(s)
	j := s.Tree.Join
	if j == nil {
		s.Out.Broken = true
		return
	}
	if s.In.Table {
		c.joinTables(s, j)
		return
	}
	if !j.Table.Set {
		c.joinStream(s, j)
		return
	}
	if j.Type.Value == "outer" {
		c.report(j.Type.Pos, len("outer"), lang.CodeExclusive, "type: outer is for a join of two "+
			"streams or two tables; rows of a table do not come out by themselves", "say  type: left")
	}
	s.Table = c.table(j)
	s.Program = c.program(s.Set, s.In, &j.On, expression.WantAny)
	s.KeyOK = slices.Contains(s.In.Keys, normal(j.On.Text))
	if c.global(j) {
		s.KeyOK, s.Global = true, !s.KeyOK
	}
	if !s.KeyOK {
		s.Out.Scope.Key, s.Out.KeyKnown = keyDoc(s.Program), true
		s.Out.Keys = []string{"key", normal(j.On.Text)}
	}
	if j.Missing.Value == "dlq" {
		c.needDLQ(s.Policy, j.Missing.Pos, len("dlq"))
	}
	s.Row = string(j.Table.Value)
	at := j.Table.Pos
	if j.As.Set {
		s.Row, at = string(j.As.Value), j.As.Pos
	}
	if s.Table == nil {
		s.Out.Broken = true
		return
	}
	c.table(j).used = true
	if !c.asOf(s, j) {
		return
	}
	if s.Program != nil {
		key, _ := keyFor(s.In, &j.On, s.Program)
		c.sameKeys(j.On.Pos, j.On.Text, key, s.Table.Key, s.Table.ID)
	}
	c.rowName(s, at)
	row := s.Table.Doc
	row.Name, row.Nullable = s.Row, j.Type.Value == "left"
	s.Out.Scope.Rows = append(slices.Clone(s.In.Scope.Rows), row)
}

// global tells whether every task has all rows of a join's table, so that records need not move.
func (c *checker) global(j *lang.Join) bool {
	t, ok := c.tree.Tables.Get(string(j.Table.Value))
	return ok && t.Global.Value
}

// table finds a join's table; reported only once.
func (c *checker) table(j *lang.Join) *Table {
	if !j.Table.Set {
		return nil
	}
	id := string(j.Table.Value)
	for _, t := range c.result.Tables {
		if t.ID == id {
			return t
		}
	}
	hint := "declare it under tables:"
	if near := lang.Nearest(id, c.tree.Tables.Keys()); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	} else if e, ok := c.names[id]; ok && e.source != nil {
		hint = fmt.Sprintf("%s is a source; add  tables: {%s: {from: %s}}", id, id, id)
	} else if ok && e.step != nil && e.arm < 0 {
		hint = fmt.Sprintf("%s is a step; add  tables: {%s: {from: %s}}", id, id, id)
	}
	c.report(j.Table.Pos, len(id), CodeUnknownTable, fmt.Sprintf("there is no table %q", id), hint)
	return nil
}

func (c *checker) rowName(s *Step, at lang.Pos) {
	switch {
	case strings.Contains(s.Row, "-"):
		c.report(at, len(s.Row), CodeRowName,
			fmt.Sprintf("the row %q cannot be named in an expression, - is minus there", s.Row),
			"choose another name with  as: "+strings.ReplaceAll(s.Row, "-", "_"))
	case expression.Reserved(s.Row):
		c.report(at, len(s.Row), CodeRowName,
			fmt.Sprintf("%q has a meaning of its own in expressions", s.Row),
			"choose another name with  as:")
	case slices.ContainsFunc(s.In.Scope.Rows, func(r expression.Row) bool {
		return r.Name == s.Row
	}):
		c.report(at, len(s.Row), CodeRowName,
			fmt.Sprintf("another join before this one made the row %q", s.Row),
			"choose another name with  as:")
	}
}

// late decides what happens to records that come after their time is over.
func (c *checker) late(s *Step, late *lang.Late) {
	s.LateAction = late.Action.Value
	switch {
	case s.LateAction == "dlq":
		c.needDLQ(s.Policy, late.Pos, len("dlq"))
	case late.Set || late.Pos.IsSet() && !late.Update.Pos.IsSet():
	case s.Policy.DLQ != "":
		s.LateAction = "dlq"
		c.dlqUses++
	default:
		s.LateAction = "drop"
		if c.broken {
			return // the word may be there, in the wrong place
		}
		c.report(s.Tree.OperatorPos, len(s.Tree.Operator), CodeLateDropped,
			"records that come after their window closed are dropped",
			"say  late: drop  if that is meant, or  late: dlq")
	}
}
