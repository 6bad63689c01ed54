package check

import (
	"slices"

	"github.com/millstream-io/millstream/pipelines/expression"
	"github.com/millstream-io/millstream/pipelines/lang"
)

// aggregate checks the fold of a key's records in a window.
func (c *checker) aggregate(s *Step) {
	c.needsID(s)
	if s.Tree.Aggregate == nil {
		s.Out.Broken = true
		return
	}
	s.Group = s.Tree.Aggregate
	grouped := c.group(s)
	s.FoldSet = expression.NewSet(grouped.Scope)
	out := &expression.Type{Kind: expression.KindObject}
	for i := range s.Group.Fields.Entries {
		e := &s.Group.Fields.Entries[i]
		out.Fields = append(out.Fields, c.fold(s, grouped, e))
	}
	s.Out.Scope.Value.Type = out
}

// group checks what records are grouped by and how results come out. It returns what the folds of
// a group see.
func (c *checker) group(s *Step) *Stream {
	a := s.Group
	key := c.groupKey(s, &a.By)
	grouped := *s.In
	scope := *s.In.Scope
	scope.Key = key
	grouped.Scope = &scope
	switch {
	case s.In.Table:
		c.overTable(s)
	case s.In.Broken && len(s.From) == 0: // nobody knows whether it is a table
	case c.bounds(s):
		c.late(s, &a.Late)
	default:
		c.untimed(s)
	}
	s.Out.Scope = &expression.Scope{Key: key, Vars: c.result.Vars, Window: a.Window != nil,
		Value: expression.Doc{Format: expression.FormatJSON}}
	s.Out.Keys, s.Out.KeyKnown = []string{"key"}, true
	s.Out.Broken = s.In.Broken
	s.Out.Table = s.In.Table
	return &grouped
}

// groupKey checks an expression that gives the key a step needs; the record's own if it is absent.
func (c *checker) groupKey(s *Step, by *lang.Expr) expression.Doc {
	switch {
	case by.Set:
		s.Program = c.program(s.Set, s.In, by, expression.WantAny)
		s.KeyOK = slices.Contains(s.In.Keys, normal(by.Text))
		if !s.KeyOK {
			return keyDoc(s.Program)
		}
	case !s.In.KeyKnown && !s.In.Broken && !by.Pos.IsSet():
		c.report(s.Tree.OperatorPos, len(s.Tree.Operator), CodeNeedsKey,
			s.Tree.Operator+": needs a key, and nothing says what the records' keys are",
			"add  by: value.field,  or  key: string  at the source")
	default:
		s.KeyOK = true
	}
	return s.In.Scope.Key
}

// bounds checks that state comes to an end, and reports whether windows of time do that.
func (c *checker) bounds(s *Step) (timed bool) {
	a := s.Group
	timed = a.Window != nil && !a.Window.Count.Pos.IsSet()
	at := func(p lang.Pos, key, message, hint string) {
		if p.IsSet() {
			c.report(p, 1, CodeWindowRule, key+" "+message, hint)
		}
	}
	switch {
	case timed:
		at(a.TTL.Pos, "ttl:", "is for keys without windows of time, windows end by themselves",
			"remove ttl:, or say how long late records are taken with  grace:")
		at(a.Unbounded.Pos, "unbounded:", "is for keys without windows of time", "remove it")
	case a.TTL.Set && a.Unbounded.Value:
		at(a.Unbounded.Pos, "unbounded:", "and ttl: exclude each other", "keep one of them")
	case !a.TTL.Pos.IsSet() && !a.Unbounded.Value && !c.absent:
		c.report(s.Tree.OperatorPos, len(s.Tree.Operator), CodeUnbounded,
			s.Tree.Operator+": without a window of time keeps every key there is, for ever",
			"add  window: {tumbling: 1h},  or  ttl: 7d,  or  unbounded: true  if keys are few")
	}
	if w := a.Window; w != nil && a.Late.Update.Set && (w.Count.Set || w.Sliding.Set) {
		at(a.Late.Update.Pos, "late: {update: …}",
			"is for tumbling, hopping and session windows", "use  grace:  instead")
	}
	if a.TTL.Set && a.TTL.Value.Milliseconds() < 1 {
		at(a.TTL.Pos, "ttl:", "must be at least 1ms", "")
	}
	return timed
}

// untimed checks the keys that make no sense without windows of time.
func (c *checker) untimed(s *Step) {
	a := s.Group
	for _, k := range []struct {
		key string
		pos lang.Pos
	}{{"grace:", a.Grace.Pos}, {"late:", a.Late.Pos}} {
		if k.pos.IsSet() {
			c.report(k.pos, 1, CodeWindowRule, k.key+" needs windows of time",
				"remove it, or add  window: {tumbling: 1m}")
		}
	}
	s.LateAction = "drop"
	counted := a.Window != nil && a.Window.Count.Pos.IsSet()
	switch {
	case !a.Emit.Set:
	case a.Emit.Value == "on_close" && !counted:
		c.report(a.Emit.Pos, len("on_close"), CodeWindowRule, "emit: on_close needs a window",
			"use  emit: {every: 1m}  or  on_update")
	case a.Emit.Value == "every" && counted:
		c.report(a.Emit.Pos, len("every"), CodeWindowRule,
			"emit: {every: …} goes by time, count windows do not", "use  on_close  or  on_update")
	}
}

// foldKinds are the types of results that do not depend on the argument.
var foldKinds = map[string]expression.Kind{
	"count": expression.KindInt, "distinct": expression.KindInt,
	"approx_distinct": expression.KindInt, "avg": expression.KindFloat,
	"p50": expression.KindFloat, "p95": expression.KindFloat, "p99": expression.KindFloat,
	"stddev": expression.KindFloat, "collect": expression.KindList, "topk": expression.KindList,
}

// fold compiles one field and says what type it has. sum, min and max of integers are integers;
// avg is a float. All but the counts are null in a window where every argument was null.
func (c *checker) fold(s *Step, in *Stream, e *lang.Entry[lang.Fold]) expression.Field {
	v := &e.Value
	c.retracts(s, v)
	f := Fold{Name: e.Key, Func: v.Name, Limit: int(v.Limit.Value), ByOffset: v.ByOffset}
	want := expression.WantNumber
	switch v.Name {
	case "first", "last", "distinct", "approx_distinct", "collect":
		want = expression.WantAny
	}
	if v.Arg.Set {
		f.Arg = c.program(s.FoldSet, in, &v.Arg, want)
	}
	shown := f.Arg
	if v.Of.Set {
		f.Of = c.program(s.FoldSet, in, &v.Of, expression.WantAny)
		shown = f.Of
	}
	if v.Set {
		s.Folds = append(s.Folds, f)
	}
	t := &expression.Type{Kind: foldKinds[v.Name]}
	switch {
	case t.Kind == expression.KindList && shown != nil:
		t.Item = shown.Type
	case t.Kind == expression.KindAny && f.Arg != nil:
		copied := *f.Arg.Type
		t = &copied
	}
	t.Nullable = t.Kind != expression.KindList && t.Kind != expression.KindInt &&
		f.Arg != nil && f.Arg.Type.Nullable || v.Name == "stddev"
	return expression.Field{Name: e.Key, Type: t}
}

// reduce checks a fold by an expression.
func (c *checker) reduce(s *Step) {
	c.needsID(s)
	r := s.Tree.Reduce
	if r == nil {
		s.Out.Broken = true
		return
	}
	s.Group = r.Grouping()
	grouped := c.group(s)
	acc := func(name string) expression.Row {
		return expression.Row{Name: name, Doc: expression.Doc{Format: expression.FormatJSON}}
	}
	scope := *grouped.Scope
	scope.Rows = append(slices.Clone(scope.Rows), acc("acc"))
	grouped.Scope = &scope
	s.FoldSet = expression.NewSet(&scope)
	s.Reduce = &Reduce{Init: c.program(s.FoldSet, grouped, &r.Init, expression.WantAny),
		Update: c.program(s.FoldSet, grouped, &r.Update, expression.WantAny)}
	if r.Merge.Set {
		both := *grouped
		both.Scope = &expression.Scope{Vars: c.result.Vars, Key: scope.Key,
			Rows: []expression.Row{acc("acc"), acc("other")}}
		s.Reduce.MergeSet = expression.NewSet(both.Scope)
		s.Reduce.Merge = c.program(s.Reduce.MergeSet, &both, &r.Merge, expression.WantAny)
	}
	w := r.Window
	if w != nil && (w.Session.Set || w.Sliding.Set) && !r.Merge.Pos.IsSet() {
		c.report(s.Tree.OperatorPos, len("reduce"), CodeNeedsMerge,
			"windows that grow together need to know how two values become one",
			"add  merge: …, an expression of acc and other, as  merge: acc + other")
	}
	if s.Reduce.Update != nil {
		s.Out.Scope.Value.Type = s.Reduce.Update.Type
	}
}

// dedupe checks a step that lets the first of equal records through.
func (c *checker) dedupe(s *Step) {
	c.needsID(s)
	d := s.Tree.Dedupe
	if d == nil {
		s.Out.Broken = true
		return
	}
	c.keep(s, &d.Key)
}

// throttle checks a step that bounds records over time.
func (c *checker) throttle(s *Step) {
	c.needsID(s)
	t := s.Tree.Throttle
	if t == nil {
		s.Out.Broken = true
		return
	}
	s.KeyOK = true
	if t.Key.Pos.IsSet() {
		c.keep(s, &t.Key)
	}
	if t.Over.Value == "dlq" {
		c.needDLQ(s.Policy, t.Over.Pos, len("dlq"))
	}
}

// keep checks the key of a step that passes records on as they are, at the task of that key.
func (c *checker) keep(s *Step, key *lang.Expr) {
	doc := c.groupKey(s, key)
	if !s.KeyOK {
		s.Out.Scope.Key, s.Out.KeyKnown = doc, true
		s.Out.Keys = []string{"key", normal(key.Text)}
	}
}
