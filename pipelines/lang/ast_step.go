package lang

import (
	"fmt"
	"slices"
	"strings"
)

// Step is one operator with its place in the graph. Exactly one operator is set.
type Step struct {
	ID          Name       `yaml:"id"`
	RenamedFrom Tree       `yaml:"renamed_from"`
	From        List[Name] `yaml:"from" one:"true"`

	Filter    Expr            `yaml:"filter"`
	Map       Projection      `yaml:"map"`
	Set       Map[Expr]       `yaml:"set"`
	Unset     List[FieldPath] `yaml:"unset" one:"true"`
	FlatMap   Expr            `yaml:"flat_map"`
	KeyBy     Expr            `yaml:"key_by"`
	Branch    List[Arm]       `yaml:"branch"`
	Merge     Tree            `yaml:"merge"`
	Route     Tree            `yaml:"route"`
	Dedupe    Tree            `yaml:"dedupe"`
	Join      *Join           `yaml:"join"`
	Aggregate *Aggregate      `yaml:"aggregate"`
	Reduce    Tree            `yaml:"reduce"`
	Plugin    *PluginUse      `yaml:"plugin"`
	Log       Template        `yaml:"log"`
	Throttle  Tree            `yaml:"throttle"`
	Use       Tree            `yaml:"use"`
	With      Tree            `yaml:"with"`

	OnError     *OnError `yaml:"on_error"`
	Parallelism Tree     `yaml:"parallelism"`

	Pos Pos
	// OperatorPos is the place of the operator's key.
	OperatorPos Pos
	// Operator is the key of the operator, "" when the step has none that can be used.
	Operator string
}

func (*Step) object() (string, string) { return "step", "one operator" }

// operators are the keys of which a step has exactly one.
var operators = []string{"filter", "map", "set", "unset", "flat_map", "key_by", "branch", "join",
	"aggregate", "plugin", "log", "merge", "route", "dedupe", "reduce", "throttle", "use"}

// laterOperators are those of them that are only recognised.
var laterOperators = []string{"merge", "route", "dedupe", "reduce", "throttle", "use"}

func (s *Step) verify(d *decoder, n *node) {
	var have []pair
	for _, p := range n.pairs {
		if slices.Contains(operators, p.key.value) {
			have = append(have, p)
		}
	}
	switch len(have) {
	case 0:
		if slices.ContainsFunc(operators, n.has) || n.unknown {
			return // the key that is wrong is reported, and is the operator that was meant
		}
		d.report(n.pos, 1, CodeOperators, "the step has no operator",
			"add one of "+strings.Join(operators[:11], ", "))
	case 1:
		if !slices.Contains(laterOperators, have[0].key.value) {
			s.Operator, s.OperatorPos = have[0].key.value, have[0].key.pos
		}
	default:
		first, second := have[0].key.value, have[1].key.value
		d.reportAt(have[1].key, CodeOperators,
			fmt.Sprintf("the step has two operators, %s: and %s:", first, second),
			"start a new step:  - "+second+": …")
	}
	for i := range s.Set.Entries {
		e := &s.Set.Entries[i]
		d.match(&node{value: e.Key, pos: e.At}, e.Key, pathPattern, "a field path",
			"names joined by dots, as customer.address.city")
	}
}

// Arm is one way out of a branch.
type Arm struct {
	When Expr    `yaml:"when"`
	Else Boolean `yaml:"else"`
	As   Name    `yaml:"as" required:"true"`

	Pos Pos
}

func (*Arm) object() (string, string) { return "a branch", "one way out" }

func (a *Arm) verify(d *decoder, n *node) {
	when, other := n.get("when"), n.get("else")
	switch {
	case !n.has("when") && !n.has("else"):
		d.report(n.pos, 1, CodeMissingKey, "a branch needs when: or else: true", "")
	case when != nil && other != nil:
		d.reportAt(other, CodeExclusive, "a branch has when: or else:, not both", "")
	case a.Else.Set && !a.Else.Value:
		d.reportAt(other, CodeBadValue, "else: can only be true", "")
	}
}

// Aggregate folds the records of a key and window into one value.
type Aggregate struct {
	By     Expr      `yaml:"by"`
	Window *Window   `yaml:"window" required:"true"`
	Grace  Duration  `yaml:"grace" default:"0s"`
	Emit   Emit      `yaml:"emit" default:"on_update"`
	Late   Late      `yaml:"late"`
	Fields Map[Fold] `yaml:"fields" required:"true"`

	Pos Pos
}

func (*Aggregate) object() (string, string) { return "aggregate", "results per key and window" }

// Window is how time is cut.
type Window struct {
	Tumbling Duration `yaml:"tumbling" lone:"true"`
	Hopping  *Hopping `yaml:"hopping"`
	Session  Tree     `yaml:"session"`
	Count    Tree     `yaml:"count"`
	Offset   Duration `yaml:"offset" default:"0s"`

	Pos Pos
}

func (*Window) object() (string, string) { return "window", "how time is cut" }

func (w *Window) verify(d *decoder, n *node) {
	have := 0
	for _, p := range n.pairs {
		switch p.key.value {
		case "session", "count":
			d.reportAt(p.key, CodeNotYetWindow, p.key.value+": windows are not supported yet",
				"use tumbling: or hopping:")
			have++
		case "tumbling", "hopping":
			have++
		}
	}
	if have != 1 && len(n.guessed) == 0 {
		d.report(n.pos, 1, CodeExclusive, "a window is one of tumbling: or hopping:",
			"as  window: {tumbling: 1m}")
	}
	if w.Tumbling.Set && w.Tumbling.Value <= 0 {
		d.reportAt(n.get("tumbling"), CodeBadValue, "tumbling: must be above 0", "")
	}
}

// Hopping is windows of one size that start every so often.
type Hopping struct {
	Size  Duration `yaml:"size" required:"true"`
	Every Duration `yaml:"every" required:"true"`

	Pos Pos
}

func (*Hopping) object() (string, string) { return "hopping", "windows that overlap" }

func (h *Hopping) verify(d *decoder, n *node) {
	if !h.Size.Set || !h.Every.Set {
		return
	}
	if h.Every.Value <= 0 || h.Size.Value < h.Every.Value {
		d.reportAt(n.get("every"), CodeBadValue,
			"every: must be above 0 and at most size:, else records fall between windows", "")
	}
}

// Fold is one field of an aggregate: an aggregator and what it looks at.
type Fold struct {
	// Name is the aggregator: count, sum, min, max or avg.
	Name string
	// Arg is what is folded; not set for count.
	Arg Expr
	Pos Pos
	Set bool
}

var (
	aggregators      = []string{"count", "sum", "min", "max", "avg"}
	laterAggregators = []string{"first", "last", "distinct", "collect", "p50", "p95", "p99",
		"stddev", "topk"}
)

func (a *Fold) decode(d *decoder, n *node, f *field) {
	a.Pos = n.pos
	name, arg := n, (*node)(nil)
	if n.kind == kindMapping && len(n.pairs) == 1 {
		name, arg = n.pairs[0].key, n.pairs[0].value
		a.Pos = name.pos
	} else if n.kind != kindScalar || n.isNull() {
		d.wrongKind(n, "one aggregator, as  count  or  {sum: expression},")
		return
	}
	switch {
	case slices.Contains(laterAggregators, name.value):
		d.reportAt(name, CodeNotYetAggregator,
			fmt.Sprintf("the aggregator %s is not supported yet", name.value),
			"use "+strings.Join(aggregators, ", "))
		return
	case !slices.Contains(aggregators, name.value):
		hint := "one of " + strings.Join(aggregators, ", ")
		if near := Nearest(name.value, append(aggregators, laterAggregators...)); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		d.reportAt(name, CodeBadValue, fmt.Sprintf("%q is not an aggregator", name.value), hint)
		return
	case name.value == "count" && arg != nil:
		d.reportAt(name, CodeBadValue, "count has no expression, it counts records",
			"to count some:  {sum: 'condition ? 1 : 0'}")
		return
	case name.value != "count" && arg == nil:
		d.reportAt(name, CodeBadValue, fmt.Sprintf("%s needs an expression", name.value),
			fmt.Sprintf("as  %s: {%s: value.amount}", f.key, name.value))
		return
	}
	a.Name = name.value
	a.Set = true
	if arg != nil {
		a.Arg.decode(d, arg, f)
		a.Set = a.Arg.Set
	}
}

func (a *Fold) schema(g *schemaGen, _ *field) map[string]any {
	return g.define("Fold", func() map[string]any {
		with := map[string]any{}
		for _, name := range aggregators[1:] {
			with[name] = (&Expr{}).schema(g, nil)
		}
		return map[string]any{"anyOf": []any{
			map[string]any{"const": "count"},
			map[string]any{"type": "object", "properties": with, "additionalProperties": false,
				"minProperties": 1, "maxProperties": 1},
		}}
	})
}

// Emit says when results come out.
type Emit struct{ Text }

func (e *Emit) decode(d *decoder, n *node, _ *field) {
	if n.kind == kindMapping {
		d.report(n.pos, 1, CodeNotYetValue, "emit: {every: …} is not supported yet",
			"use on_close or on_update")
		return
	}
	e.Text.decode(d, n, &field{key: "emit", enum: []string{"on_close", "on_update"}})
}

func (e *Emit) schema(_ *schemaGen, _ *field) map[string]any {
	return map[string]any{"enum": []any{"on_close", "on_update"}}
}

// Late says what happens to late records.
type Late struct {
	Action Text // dlq, drop or topic
	Topic  TopicName
	Pos    Pos
	Set    bool
}

func (l *Late) decode(d *decoder, n *node, _ *field) {
	l.Pos = n.pos
	if n.kind != kindMapping {
		l.Action.decode(d, n, &field{key: "late", enum: []string{"dlq", "drop"},
			later: []string{"update"}})
		l.Set = l.Action.Set
		return
	}
	for _, p := range n.pairs {
		if p.key.value != "topic" {
			d.unknownKey(p.key, "late", []field{{key: "topic"}})
			continue
		}
		l.Topic.decode(d, p.value, &field{key: "topic"})
		l.Action = Text{Value: "topic", Pos: p.key.pos, Set: true}
		l.Set = l.Topic.Set
	}
}

func (l *Late) schema(g *schemaGen, _ *field) map[string]any {
	return map[string]any{"anyOf": []any{
		map[string]any{"enum": []any{"dlq", "drop"}},
		map[string]any{"type": "object", "required": []any{"topic"},
			"additionalProperties": false,
			"properties":           map[string]any{"topic": (&TopicName{}).schema(g, &field{})}},
	}}
}

// PluginUse calls an operator of a declared plugin.
type PluginUse struct {
	Use    Text `yaml:"use" required:"true" lone:"true"`
	Config Tree `yaml:"config"`

	Pos Pos
}

func (*PluginUse) object() (string, string) { return "plugin", "an operator written in Go" }
