package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/millstream-io/millstream/pipelines/expression"
	"github.com/millstream-io/millstream/pipelines/lang"
)

// step checks one step whose inputs are checked.
func (c *checker) step(s *Step) {
	s.In = c.merge(s)
	s.Policy = c.result.Policy
	if s.Tree.OnError != nil {
		s.Policy = c.policy(s.Tree.OnError, &c.result.Policy)
	}
	s.Set = expression.NewSet(s.In.Scope)
	out := *s.In
	scope := *s.In.Scope
	out.ID, out.Scope = s.ID, &scope
	s.Out = &out
	t := s.Tree
	if !c.takesTable(s) {
		return
	}
	switch t.Operator {
	case "filter":
		s.Program = c.program(s.Set, s.In, &t.Filter, expression.WantBool)
		passed(s.Out, &t.Filter)
	case "log":
		c.template(s, &t.Log)
	case "route":
		c.template(s, &t.Route)
	case "map":
		c.mapStep(s)
	case "set", "unset":
		c.patch(s)
	case "flat_map":
		c.flatMap(s)
	case "key_by":
		c.keyBy(s)
	case "merge":
		c.mergeStep(s)
	case "branch":
		c.branch(s)
	case "join":
		c.join(s)
	case "aggregate":
		c.aggregate(s)
	case "reduce":
		c.reduce(s)
	case "dedupe":
		c.dedupe(s)
	case "throttle":
		c.throttle(s)
	case "plugin":
		c.plugin(s)
	default:
		out.Broken = true
	}
}

// merge is the one stream a step reads: what its inputs have in common.
func (c *checker) merge(s *Step) *Stream {
	broken := &Stream{ID: s.ID, Broken: true, Scope: &expression.Scope{Vars: c.result.Vars}}
	var in *Stream
	for i, id := range s.From {
		next := c.stream(id)
		if next == nil || next.Broken {
			broken.Table = next != nil && next.Table // what follows is still over a table
			return broken
		}
		if i == 0 {
			in = next
			continue
		}
		if in = c.mergeTwo(s, in, next, id); in == nil {
			return broken
		}
	}
	if in == nil {
		return broken
	}
	return in
}

func (c *checker) mergeTwo(s *Step, a, b *Stream, id string) *Stream {
	reads := &s.Tree.From
	if s.Tree.Operator == "merge" {
		reads = &s.Tree.Merge
	}
	at := reads.Pos
	if i := slices.Index(s.From, id); i >= 0 && i < len(reads.Items) {
		at = reads.Items[i].Pos
	}
	if a.Table || b.Table {
		c.report(at, len(id), CodeTableInput, fmt.Sprintf("%q and %q cannot be merged, a table has "+
			"each key once", a.ID, id), "join them:  join: {table: id, on: key, type: outer}")
		return nil
	}
	for _, pair := range []struct {
		what string
		x, y expression.Format
	}{{"keys", a.Scope.Key.Format, b.Scope.Key.Format},
		{"values", a.Scope.Value.Format, b.Scope.Value.Format}} {
		if pair.x != pair.y {
			c.report(at, len(id), CodeFormats, fmt.Sprintf(
				"the %s of %q are %s, those of %q are %s; they cannot be merged",
				pair.what, a.ID, pair.x, id, pair.y), "")
			return nil
		}
	}
	scope := &expression.Scope{Vars: a.Scope.Vars, Key: a.Scope.Key, Value: a.Scope.Value,
		Window: a.Scope.Window && b.Scope.Window}
	if !sameType(a.Scope.Value.Type, b.Scope.Value.Type) {
		scope.Value.Type = nil
	}
	if !sameType(a.Scope.Key.Type, b.Scope.Key.Type) {
		scope.Key.Type = nil
	}
	for _, r := range a.Scope.Rows {
		for _, q := range b.Scope.Rows {
			if r.Name == q.Name && r.Doc.Format == q.Doc.Format {
				if !sameType(r.Doc.Type, q.Doc.Type) {
					r.Doc.Type = nil
				}
				r.Nullable = r.Nullable || q.Nullable
				scope.Rows = append(scope.Rows, r)
			}
		}
	}
	out := &Stream{ID: s.ID, Scope: scope, KeyKnown: a.KeyKnown && b.KeyKnown}
	for _, k := range a.Keys {
		if slices.Contains(b.Keys, k) {
			out.Keys = append(out.Keys, k)
		}
	}
	return out
}

func sameType(a, b *expression.Type) bool {
	if a == nil || b == nil {
		return a == b
	}
	if a.Kind != b.Kind || a.Nullable != b.Nullable || len(a.Fields) != len(b.Fields) ||
		a.Open != b.Open || (a.Item == nil) != (b.Item == nil) {
		return false
	}
	for i := range a.Fields {
		if a.Fields[i].Name != b.Fields[i].Name ||
			!sameType(a.Fields[i].Type, b.Fields[i].Type) {
			return false
		}
	}
	return a.Item == nil || sameType(a.Item, b.Item)
}

// needsID reports a step whose state or topic is named after an id it does not have.
func (c *checker) needsID(s *Step) {
	if !s.Named && !s.Tree.ID.Pos.IsSet() {
		c.report(s.Tree.Pos, 1, CodeNeedsID,
			fmt.Sprintf("the step %s: needs an id, what it keeps is stored under it",
				s.Tree.Operator), "add  id: name")
	}
}

// needsJSON reports an operator that works on JSON values and gets others.
func (c *checker) needsJSON(s *Step) bool {
	if f := s.In.Scope.Value.Format; f != expression.FormatJSON && !s.In.Broken {
		c.report(s.Tree.OperatorPos, len(s.Tree.Operator), CodeNeedsJSON,
			fmt.Sprintf("%s: works on json values, these are %s", s.Tree.Operator, f), "")
		s.Out.Broken = true
		return false
	}
	return true
}

// newValue makes t the type of the step's output value. The key stays, but no longer is known to
// be anything of the value.
func newValue(s *Step, t *expression.Type) {
	s.Out.Scope.Value = expression.Doc{Format: expression.FormatJSON, Type: t}
	s.Out.Scope.NotNull = slices.DeleteFunc(slices.Clone(s.Out.Scope.NotNull),
		func(path string) bool { return path == "value" || strings.HasPrefix(path, "value.") })
	s.Out.Keys = slices.DeleteFunc(slices.Clone(s.Out.Keys), func(k string) bool {
		return k != "key"
	})
}

// passed notes what is known of records for which a condition holds.
func passed(out *Stream, condition *lang.Expr) {
	out.Scope.NotNull = append(slices.Clone(out.Scope.NotNull),
		expression.NotNull(condition.Text)...)
}

func (c *checker) template(s *Step, tree *lang.Template) {
	s.Template = &expression.Template{}
	for i := range tree.Parts {
		part := &tree.Parts[i]
		if !part.Expr.Set {
			s.Template.AddText(part.Text)
			continue
		}
		if p := c.program(s.Set, s.In, &part.Expr, expression.WantAny); p != nil {
			s.Template.AddProgram(p)
		}
	}
}

func (c *checker) mapStep(s *Step) {
	s.Projection = c.projection(s.Set, s.In, &s.Tree.Map)
	if s.Projection == nil {
		s.Out.Broken = true
		return
	}
	newValue(s, s.Projection.Type())
}

func (c *checker) flatMap(s *Step) {
	s.Program = c.program(s.Set, s.In, &s.Tree.FlatMap, expression.WantList)
	if s.Program == nil {
		s.Out.Broken = true
		return
	}
	item := s.Program.Type.Item
	if item == nil {
		item = expression.Any
	}
	newValue(s, item)
}

// patch checks set: and unset:.
func (c *checker) patch(s *Step) {
	if !c.needsJSON(s) {
		return
	}
	s.Patch = &expression.Patch{}
	t := s.In.Scope.Value.Type
	var touched []string
	for i := range s.Tree.Set.Entries {
		e := &s.Tree.Set.Entries[i]
		p := c.program(s.Set, s.In, &e.Value, expression.WantAny)
		if p == nil {
			t = withField(t, strings.Split(e.Key, "."), expression.Any)
			continue
		}
		if err := s.Patch.Set(e.Key, expression.Whole(p)); err != nil {
			c.report(e.At, len(e.Key), CodePathConflict, err.Error(), "")
		}
		t = withField(t, strings.Split(e.Key, "."), p.Type)
		touched = append(touched, e.Key)
	}
	for _, f := range s.Tree.Unset.Items {
		if !f.Set {
			continue
		}
		if err := s.Patch.Unset(string(f.Value)); err != nil {
			c.report(f.Pos, len(f.Value), CodePathConflict, err.Error(), "")
		}
		c.unsetField(t, f)
		t = withField(t, strings.Split(string(f.Value), "."), nil)
		touched = append(touched, string(f.Value))
	}
	s.Out.Scope.Value.Type = t
	s.Out.Keys = slices.DeleteFunc(slices.Clone(s.Out.Keys), func(k string) bool {
		return k != "key" && touches(k, touched)
	})
}

// unsetField reports a field to remove that a typed value does not have.
func (c *checker) unsetField(t *expression.Type, f lang.FieldPath) {
	if t == nil || t.Kind != expression.KindObject {
		return
	}
	name, _, _ := strings.Cut(string(f.Value), ".")
	if t.Field(name) != nil || t.Open {
		return
	}
	var names []string
	for _, have := range t.Fields {
		names = append(names, have.Name)
	}
	hint := ""
	if near := lang.Nearest(name, names); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	c.report(f.Pos, len(f.Value), CodeUnknownField,
		fmt.Sprintf("unknown field %q in value", name), hint)
}

// touches reports whether an expression may read one of the changed paths. Anything but a plain
// path is taken to.
func touches(text string, changed []string) bool {
	path, ok := strings.CutPrefix(text, "value.")
	if !ok || strings.ContainsAny(path, " ()[]?\"'") {
		return true
	}
	for _, p := range changed {
		if p == path || strings.HasPrefix(p, path+".") || strings.HasPrefix(path, p+".") {
			return true
		}
	}
	return false
}

// withField is a type with one field changed; a nil field is removed.
func withField(t *expression.Type, path []string, field *expression.Type) *expression.Type {
	if t == nil || t.Kind != expression.KindObject {
		if t == nil || t.Kind == expression.KindAny || field == nil {
			return t
		}
		t = &expression.Type{Kind: expression.KindObject, Open: true}
	}
	out := *t
	out.Fields = slices.Clone(t.Fields)
	i := slices.IndexFunc(out.Fields, func(f expression.Field) bool { return f.Name == path[0] })
	switch {
	case len(path) == 1 && field == nil:
		if i >= 0 {
			out.Fields = slices.Delete(out.Fields, i, i+1)
		}
		return &out
	case len(path) > 1:
		inner := &expression.Type{Kind: expression.KindObject}
		if i >= 0 {
			inner = out.Fields[i].Type
		}
		field = withField(inner, path[1:], field)
	}
	if i >= 0 {
		out.Fields[i].Type = field
	} else {
		out.Fields = append(out.Fields, expression.Field{Name: path[0], Type: field})
	}
	return &out
}

func (c *checker) branch(s *Step) {
	otherwise := false
	for i := range s.Arms {
		a := &s.Arms[i]
		out := *s.In
		out.ID = string(a.tree.As.Value)
		a.Out = &out
		if otherwise {
			c.report(a.tree.Pos, 1, CodeElse, "nothing comes here, else: is above",
				"else: is the last branch")
		}
		if a.tree.Else.Value {
			otherwise = true
			continue
		}
		a.When = c.program(s.Set, s.In, &a.tree.When, expression.WantBool)
		scope := *s.In.Scope
		a.Out.Scope = &scope
		passed(a.Out, &a.tree.When)
	}
	s.Out = nil
	if !otherwise && len(s.Arms) > 0 {
		c.report(s.Tree.OperatorPos, len("branch"), CodeNoElse,
			"records for which no condition holds go nowhere",
			"add  {else: true, as: name}  or leave it, if that is meant")
	}
}

func (c *checker) plugin(s *Step) {
	c.needsID(s)
	use := s.Tree.Plugin
	newValue(s, nil)
	if use == nil || !use.Use.Set {
		return
	}
	alias, operator, _ := strings.Cut(use.Use.Value, "/")
	decl, ok := c.tree.Plugins.Get(alias)
	if !ok {
		hint := "declare it under plugins:"
		if near := lang.Nearest(alias, c.tree.Plugins.Keys()); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		c.report(use.Use.Pos, len(use.Use.Value), CodeUnknownPlugin,
			fmt.Sprintf("there is no plugin %q", alias), hint)
		return
	}
	c.pluginUses[alias] = true
	s.Plugin = &PluginUse{Alias: alias, Source: decl.Source.Value, Operator: operator}
	if decl.Limits != nil {
		s.Plugin.Memory = int64(decl.Limits.Memory.Value)
	}
	s.Plugin.Component = c.operator(s.Plugin, use)
	if s.Plugin.Component != nil {
		s.Out.Scope.Value.Type = s.Plugin.Component.Output
		if s.Plugin.Component.WallTimers {
			c.report(use.Use.Pos, len(use.Use.Value), CodeWallTimers,
				"the operator has timers of the machine's clock: a replay may give other records",
				"timers of event time fire at the same place in every run")
		}
	}
}

// keyBy checks a step that gives records a new key.
func (c *checker) keyBy(s *Step) {
	k := &s.Tree.KeyBy
	s.Program = c.program(s.Set, s.In, &k.Key, expression.WantAny)
	s.Out.Scope.Key = keyDoc(s.Program)
	s.Out.Keys, s.Out.KeyKnown = []string{"key", normal(k.Key.Text)}, true
	c.needsID(s)
	if k.NullKey.Value == "dlq" {
		c.needDLQ(s.Policy, k.NullKey.Pos, len("dlq"))
	}
}

// mergeStep checks a step that reads several streams as one. That of a pattern has one while it has
// found one topic.
func (c *checker) mergeStep(s *Step) {
	found := slices.ContainsFunc(c.tree.Patterns, func(p lang.Pattern) bool { return p.Source == s.ID })
	if m := &s.Tree.Merge; len(m.Items) == 1 && m.Items[0].Set && !found {
		c.report(m.Pos, 1, lang.CodeBadValue, "one stream is all there is to merge",
			"name two or more, as  merge: [a, b]")
	}
}
