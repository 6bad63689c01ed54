package lang

import "fmt"

// Join adds to each record of a stream the row of a table, or a record of another stream that is
// near in event time.
type Join struct {
	Table   Name     `yaml:"table" lone:"true"`
	Stream  Name     `yaml:"stream"`
	On      Expr     `yaml:"on" required:"true"`
	WithOn  Expr     `yaml:"with_on"`
	Within  Within   `yaml:"within"`
	As      Name     `yaml:"as"`
	Type    Text     `yaml:"type" enum:"inner,left,outer" later:"right" default:"inner"`
	Missing Text     `yaml:"missing" enum:"drop,dlq" default:"drop"`
	AsOf    Text     `yaml:"as_of" enum:"latest,event_time" default:"latest"`
	Grace   Duration `yaml:"grace"`
	Late    Late     `yaml:"late"`

	Pos Pos
}

func (*Join) object() (string, string) { return "join", "a table's row or another stream's record" }

func (j *Join) verify(d *decoder, n *node) {
	table, stream := n.get("table"), n.get("stream")
	switch {
	case !n.has("table") && !n.has("stream"):
		if len(n.guessed) == 0 {
			d.report(n.pos, 1, CodeMissingKey, "a join needs table: or stream:",
				"add  table: name  or  stream: id")
		}
		return
	case table != nil && stream != nil:
		d.reportAt(stream, CodeExclusive, "a join has table: or stream:, not both",
			"make two steps of it")
		return
	case stream != nil:
		j.verifyStream(d, n)
		return
	}
	if at := n.get("grace"); at != nil && j.AsOf.Value != "event_time" {
		d.reportAt(at, CodeExclusive, "grace: is for a join in the order of event time",
			"add  as_of: event_time  or remove grace:")
	}
	if at := n.get("late"); at != nil && j.AsOf.Value != "event_time" {
		d.reportAt(at, CodeExclusive, "late: is for a join in the order of event time",
			"add  as_of: event_time  or remove late:")
	}
	for _, key := range []string{"with_on", "within"} {
		if at := n.get(key); at != nil {
			d.reportAt(at, CodeExclusive, key+": is for a join of two streams",
				"remove "+key+": or say  stream: id  instead of  table:")
		}
	}
	if m := n.get("missing"); m != nil && j.Type.Value == "left" {
		d.reportAt(m, CodeExclusive, "missing: is for an inner join, a left join keeps the record",
			"remove missing: or say  type: inner")
	}
}

func (j *Join) verifyStream(d *decoder, n *node) {
	if !n.has("within") && len(n.guessed) == 0 {
		d.reportAt(n.get("stream"), CodeMissingKey, "a join of two streams needs within:",
			"say how far apart in event time two records may be, as  within: 15m")
	}
	if m := n.get("missing"); m != nil {
		d.reportAt(m, CodeExclusive, "missing: is for a join with a table",
			"say  type: left  to keep records that nothing came for")
	}
	if at := n.get("as_of"); at != nil {
		d.reportAt(at, CodeExclusive, "as_of: is for a join with a table",
			"streams are joined in the order of event time always")
	}
	if at := n.get("grace"); at != nil {
		d.reportAt(at, CodeExclusive, "the grace: of a join of two streams is part of within:",
			"as  within: {before: 5m, after: 5m, grace: 30s}")
	}
}

// Within is how near in event time the records of two streams must be.
type Within struct {
	// Before and After are how much earlier and later the other stream's record may be.
	Before, After Duration
	// Grace is how long a record waits beyond that.
	Grace Duration
	Pos   Pos
	Set   bool
}

var withinKeys = []string{"before", "after", "grace"}

func (w *Within) decode(d *decoder, n *node, f *field) {
	w.Pos = n.pos
	if n.kind != kindMapping {
		w.Before.decode(d, n, f)
		w.After, w.Set = w.Before, w.Before.Set
		return
	}
	to := map[string]*Duration{"before": &w.Before, "after": &w.After, "grace": &w.Grace}
	for _, p := range n.pairs {
		at, ok := to[p.key.value]
		if !ok {
			var known []field
			for _, key := range withinKeys {
				known = append(known, field{key: key})
			}
			d.unknownKey(p.key, "within", known)
			continue
		}
		if at.Set {
			d.reportAt(p.key, CodeDuplicateKey, fmt.Sprintf("%s: is there twice", p.key.value), "")
			continue
		}
		at.decode(d, p.value, &field{key: p.key.value})
	}
	w.Set = true
}

func (w *Within) schema(g *schemaGen, _ *field) map[string]any {
	span := (&Duration{}).schema(g, &field{})
	with := map[string]any{}
	for _, key := range withinKeys {
		with[key] = span
	}
	return map[string]any{"anyOf": []any{span,
		map[string]any{"type": "object", "properties": with, "additionalProperties": false}}}
}
