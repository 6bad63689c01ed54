package lang

import (
	"fmt"
	"slices"
	"strings"
)

// Step is one operator with its place in the graph. Exactly one operator is set.
type Step struct {
	ID          Name       `yaml:"id"`
	RenamedFrom List[Name] `yaml:"renamed_from" one:"true"`
	From        List[Name] `yaml:"from" one:"true"`

	Filter    Expr            `yaml:"filter"`
	Map       Projection      `yaml:"map"`
	Set       Map[Expr]       `yaml:"set"`
	Unset     List[FieldPath] `yaml:"unset" one:"true"`
	FlatMap   Expr            `yaml:"flat_map"`
	KeyBy     KeyBy           `yaml:"key_by"`
	Branch    List[Arm]       `yaml:"branch"`
	Merge     List[Name]      `yaml:"merge" one:"true"`
	Route     Template        `yaml:"route"`
	Dedupe    *Dedupe         `yaml:"dedupe"`
	Join      *Join           `yaml:"join"`
	Aggregate *Aggregate      `yaml:"aggregate"`
	Reduce    *Reduce         `yaml:"reduce"`
	Plugin    *PluginUse      `yaml:"plugin"`
	Log       Template        `yaml:"log"`
	Throttle  *Throttle       `yaml:"throttle"`
	Use       Text            `yaml:"use"`
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
	"aggregate", "reduce", "dedupe", "throttle", "plugin", "log", "route", "merge", "use"}

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
			"add one of "+strings.Join(operators, ", "))
	case 1:
		s.Operator, s.OperatorPos = have[0].key.value, have[0].key.pos
	default:
		first, second := have[0].key.value, have[1].key.value
		d.reportAt(have[1].key, CodeOperators,
			fmt.Sprintf("the step has two operators, %s: and %s:", first, second),
			"start a new step:  - "+second+": …")
	}
	if from := n.get("from"); from != nil && n.has("merge") {
		d.reportAt(from, CodeExclusive, "merge: names what the step reads, as from: does",
			"remove one of them")
	}
	if with := n.get("with"); with != nil && !n.has("use") {
		d.reportAt(with, CodeExclusive, "with: gives a template its parameters, there is none",
			"add  use: template")
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

// PluginUse calls an operator of a declared plugin.
type PluginUse struct {
	Use    Text `yaml:"use" required:"true" lone:"true"`
	Config Tree `yaml:"config"`

	Pos Pos
}

func (*PluginUse) object() (string, string) { return "plugin", "an operator written in Go" }
