package lang

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Fold is one field of an aggregate: an aggregator and what it looks at.
type Fold struct {
	// Name is the aggregator.
	Name string
	// Arg is what is folded; not set for count.
	Arg Expr
	// Of is what topk shows; Arg if not set.
	Of Expr
	// Limit is how many values collect and topk keep.
	Limit Integer
	// ByOffset: first and last go by the order of processing, not by time.
	ByOffset bool
	Pos      Pos
	Set      bool
}

// aggregators are all of them, by name. Their options are written in a mapping with of:.
var aggregators = []string{"count", "sum", "min", "max", "avg", "first", "last", "distinct",
	"approx_distinct", "collect", "topk", "p50", "p95", "p99", "stddev"}

// foldOptions are the keys an aggregator takes when its argument is a mapping.
var foldOptions = map[string][]string{
	"first": {"of", "by"}, "last": {"of", "by"},
	"collect": {"of", "limit"}, "topk": {"k", "by", "of"},
}

// DefaultCollect is how many values collect keeps when nothing is said.
const DefaultCollect = 1000

// maxKept is the most values collect and topk may keep.
const maxKept = 10_000

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
	case !slices.Contains(aggregators, name.value):
		hint := "one of " + strings.Join(aggregators, ", ")
		if near := Nearest(name.value, aggregators); near != "" {
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
			"as  "+f.key+": "+foldExample(name.value))
		return
	}
	a.Name, a.Set = name.value, true
	switch {
	case arg == nil:
	case arg.kind == kindMapping && foldOptions[a.Name] != nil:
		a.options(d, arg)
	case a.Name == "topk":
		d.reportAt(arg, CodeWrongKind, "topk needs to know how many and by what",
			foldExample("topk"))
		a.Set = false
	default:
		a.Arg.decode(d, arg, f)
		a.Set = a.Arg.Set
		a.Limit = Integer{Value: DefaultCollect}
	}
}

func foldExample(name string) string {
	if name == "topk" {
		return "{topk: {k: 3, by: value.amount, of: value.id}}"
	}
	return fmt.Sprintf("{%s: value.amount}", name)
}

// options reads the mapping behind first, last, collect or topk.
func (a *Fold) options(d *decoder, n *node) {
	allowed := foldOptions[a.Name]
	value, count := "of", "limit"
	if a.Name == "topk" {
		value, count = "by", "k"
	}
	a.Limit = Integer{Value: DefaultCollect}
	for _, p := range n.pairs {
		key := p.key.value
		switch {
		case !slices.Contains(allowed, key):
			var keys []field
			for _, k := range allowed {
				keys = append(keys, field{key: k})
			}
			d.unknownKey(p.key, a.Name, keys)
			a.Set = false
		case key == value:
			a.Arg.decode(d, p.value, &field{key: key})
		case key == count:
			a.Limit.decode(d, p.value, &field{key: key, min: "1"})
			if a.Limit.Set && a.Limit.Value > maxKept {
				d.reportAt(p.value, CodeBadValue,
					fmt.Sprintf("%s: must be at most %d", key, maxKept), "")
			}
		case key == "of":
			a.Of.decode(d, p.value, &field{key: key})
		default: // by: of first and last
			var by Text
			by.decode(d, p.value, &field{key: "by", enum: []string{"time", "offset"}})
			a.ByOffset = by.Value == "offset"
		}
	}
	for _, need := range []string{value, count} {
		if !n.has(need) && (need == value || need == "k") {
			d.report(n.pos, 1, CodeMissingKey, fmt.Sprintf("%s needs %s:", a.Name, need),
				"as  "+foldExample(a.Name))
			a.Set = false
		}
	}
	a.Set = a.Set && a.Arg.Set
}

func (a *Fold) schema(g *schemaGen, _ *field) map[string]any {
	return g.define("Fold", func() map[string]any {
		expr := (&Expr{}).schema(g, nil)
		with := map[string]any{}
		for _, name := range aggregators[1:] {
			with[name] = expr
		}
		object := func(required string, properties map[string]any) map[string]any {
			return map[string]any{"type": "object", "required": []any{required},
				"additionalProperties": false, "properties": properties}
		}
		count := map[string]any{"type": "integer", "minimum": 1, "maximum": maxKept}
		by := map[string]any{"enum": []any{"time", "offset"}}
		edge := object("of", map[string]any{"of": expr, "by": by})
		with["first"] = map[string]any{"anyOf": []any{expr, edge}}
		with["last"] = with["first"]
		with["collect"] = map[string]any{"anyOf": []any{expr,
			object("of", map[string]any{"of": expr, "limit": count})}}
		with["topk"] = object("by", map[string]any{"k": count, "by": expr, "of": expr})
		return map[string]any{"anyOf": []any{
			map[string]any{"const": "count"},
			map[string]any{"type": "object", "properties": with, "additionalProperties": false,
				"minProperties": 1, "maxProperties": 1},
		}}
	})
}

// Frequency is so many records per span of time.
type Frequency struct {
	Count int64
	Per   Duration
}

// Rate is a Frequency as it is written: 100/s or 5/10m.
type Rate = Scalar[Frequency]

func (d *decoder) rate(v *Frequency, n *node, text string) bool {
	digits, per, ok := strings.Cut(text, "/")
	count, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
	if per = strings.TrimSpace(per); per != "" && (per[0] < '0' || per[0] > '9') {
		per = "1" + per
	}
	span, err2 := ParseDuration(per)
	if !ok || err != nil || err2 != nil || count < 1 || span.Milliseconds() < 1 {
		d.reportAt(n, CodeBadValue, fmt.Sprintf("%q is not a rate", text),
			"write how many per span of time, as 100/s or 5/10m")
		return false
	}
	v.Count, v.Per = count, Duration{Value: span, Set: true}
	return true
}
