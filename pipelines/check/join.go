package check

import (
	"fmt"
	"slices"

	"github.com/millstream-io/millstream/pipelines/expression"
	"github.com/millstream-io/millstream/pipelines/lang"
)

// joinStream checks a join of two streams.
func (c *checker) joinStream(s *Step, j *lang.Join) {
	s.Program = c.program(s.Set, s.In, &j.On, expression.WantAny)
	s.Out.Broken = true
	if s.Other == "" {
		return
	}
	s.OtherIn = c.stream(s.Other)
	if s.OtherIn == nil || s.OtherIn.Broken || s.In.Broken {
		return
	}
	if s.OtherIn.Table {
		c.report(j.Stream.Pos, len(s.Other), CodeTableInput,
			fmt.Sprintf("%q is a table", s.Other), "say  table: "+s.Other)
		return
	}
	s.OtherSet = expression.NewSet(s.OtherIn.Scope)
	with := &j.WithOn
	if !with.Set {
		with = &j.On
	}
	s.OtherOn = c.program(s.OtherSet, s.OtherIn, with, expression.WantAny)
	if s.Program == nil || s.OtherOn == nil {
		return
	}
	s.Out.Broken = false
	key, ok := keyFor(s.In, &j.On, s.Program)
	otherKey, otherOK := keyFor(s.OtherIn, with, s.OtherOn)
	s.KeyOK, s.OtherKeyOK = ok, otherOK
	c.sameKeys(with.Pos, with.Text, key, otherKey, s.Other)
	if !ok {
		s.Out.Scope.Key, s.Out.KeyKnown = key, true
		s.Out.Keys = []string{"key", normal(j.On.Text)}
	}
	if j.Late.Update.Pos.IsSet() {
		c.report(j.Late.Update.Pos, 1, CodeWindowRule, "late: {update: …} is for aggregates",
			"say how long records are waited for with  within: {grace: …}")
	}
	c.late(s, &j.Late)
	s.Row = s.Other
	at := j.Stream.Pos
	if j.As.Set {
		s.Row, at = string(j.As.Value), j.As.Pos
	}
	c.rowName(s, at)
	row := expression.Row{Name: s.Row, Doc: s.OtherIn.Scope.Value,
		Nullable: j.Type.Value == "left" || j.Type.Value == "outer"}
	s.Out.Scope.Rows = append(slices.Clone(s.In.Scope.Rows), row)
	if j.Type.Value != "outer" {
		return
	}
	leftMayMiss(s)
}

// keyFor is the key a join works with on one side: the record's own, or what the expression makes.
func keyFor(in *Stream, on *lang.Expr, p *expression.Program) (expression.Doc, bool) {
	if slices.Contains(in.Keys, normal(on.Text)) {
		return in.Scope.Key, true
	}
	return keyDoc(p), false
}

// sameKeys reports keys that are written in forms that are not the same bytes: a text is written in
// quotes as JSON and without them otherwise. Numbers are alike in both.
func (c *checker) sameKeys(at lang.Pos, text string, key, other expression.Doc, whose string) {
	quoted := func(d expression.Doc) bool {
		return d.Format == expression.FormatJSON && (d.Type == nil ||
			d.Type.Kind == expression.KindAny || d.Type.Kind == expression.KindString)
	}
	if quoted(key) == quoted(other) || key.Format == other.Format {
		return
	}
	c.report(at, len(text), CodeKeyForms, fmt.Sprintf("the key is %s, the keys of %q are %s; "+
		"text has other bytes there, so such keys would never meet", key.Format, whose,
		other.Format), "declare the same format for both, or make the key with an expression")
}

// asOf checks when the rows of a table count. It reports false when nothing more can be said.
func (c *checker) asOf(s *Step, j *lang.Join) bool {
	t := s.Table
	s.AsOf = j.AsOf.Value == "event_time"
	at, width := j.Table.Pos, len(t.ID)
	if j.AsOf.Set {
		at, width = j.AsOf.Pos, len(j.AsOf.Value)
	}
	switch {
	case s.AsOf && t.Tree.LookupOnly.Value:
		c.report(at, width, CodeTableOrder, fmt.Sprintf(
			"the table %q is lookup_only:, its rows count as they arrive", t.ID),
			"say  as_of: latest  or remove lookup_only:")
	case s.AsOf && t.Tree.Global.Value:
		c.report(at, width, CodeTableOrder, fmt.Sprintf(
			"the table %q is global:, its rows count as they arrive", t.ID),
			"say  as_of: latest  or remove global:")
	case t.Tree.Global.Value && t.Step != "":
		c.report(t.Tree.Global.Pos, 1, CodeTableOrder, fmt.Sprintf("the table %q is made of step %q; "+
			"only a topic can be read whole by every task", t.ID, t.Step), "remove global:")
	case !s.AsOf && t.Step != "":
		c.report(at, width, CodeTableOrder, fmt.Sprintf(
			"the rows of %q come out of step %q, so they are joined in the order of event time",
			t.ID, t.Step), "say  as_of: event_time")
	case s.AsOf && j.Grace.Value > 0 && t.Tree.History.Value == 0:
		c.report(j.Grace.Pos, 1, CodeTableOrder, fmt.Sprintf(
			"grace: waits for rows of the past, and the table %q keeps none", t.ID),
			"add  history: 1h  to the table")
	case s.AsOf && j.Grace.Value > t.Tree.History.Value:
		c.report(j.Grace.Pos, 1, CodeTableOrder, fmt.Sprintf(
			"grace: is longer than the history: of table %q, rows would be gone before", t.ID), "")
	}
	if t.Step != "" {
		rows := c.tableStream(t)
		if rows.Broken {
			s.Out.Broken = true
			return false
		}
		t.Doc.Doc, t.Key = rows.Scope.Value, rows.Scope.Key
	}
	if !s.AsOf {
		return true
	}
	if t.From != nil {
		t.From.Streamed = true
	}
	if t.Tree.History.Value > 0 {
		c.late(s, &j.Late)
	}
	return true
}
