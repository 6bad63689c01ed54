package lang

import "time"

// Aggregate folds the records of a key and window into one value.
type Aggregate struct {
	By            Expr      `yaml:"by"`
	Window        *Window   `yaml:"window"`
	Grace         Duration  `yaml:"grace" default:"0s"`
	Emit          Emit      `yaml:"emit" default:"on_update"`
	EmitUnchanged Boolean   `yaml:"emit_unchanged" default:"true"`
	Late          Late      `yaml:"late"`
	TTL           Duration  `yaml:"ttl"`
	Unbounded     Boolean   `yaml:"unbounded" default:"false"`
	Fields        Map[Fold] `yaml:"fields" required:"true"`

	Pos Pos
}

func (*Aggregate) object() (string, string) { return "aggregate", "results per key and window" }

// Reduce folds the records of a key and window by an expression.
type Reduce struct {
	By            Expr     `yaml:"by"`
	Window        *Window  `yaml:"window"`
	Grace         Duration `yaml:"grace" default:"0s"`
	Emit          Emit     `yaml:"emit" default:"on_update"`
	EmitUnchanged Boolean  `yaml:"emit_unchanged" default:"true"`
	Late          Late     `yaml:"late"`
	TTL           Duration `yaml:"ttl"`
	Unbounded     Boolean  `yaml:"unbounded" default:"false"`
	Init          Expr     `yaml:"init" required:"true"`
	Update        Expr     `yaml:"update" required:"true"`
	Merge         Expr     `yaml:"merge"`

	Pos Pos
}

func (*Reduce) object() (string, string) { return "reduce", "one value made of many" }

// Grouping is what a reduce has in common with an aggregate.
func (r *Reduce) Grouping() *Aggregate {
	return &Aggregate{By: r.By, Window: r.Window, Grace: r.Grace, Emit: r.Emit,
		EmitUnchanged: r.EmitUnchanged, Late: r.Late, TTL: r.TTL, Unbounded: r.Unbounded,
		Pos: r.Pos}
}

// Dedupe lets the first record of a key through.
type Dedupe struct {
	Key    Expr     `yaml:"key" required:"true"`
	Within Duration `yaml:"within" required:"true"`

	Pos Pos
}

func (*Dedupe) object() (string, string) { return "dedupe", "the first of equal records" }

func (x *Dedupe) verify(d *decoder, n *node) {
	if x.Within.Set && x.Within.Value < time.Millisecond {
		d.reportAt(n.get("within"), CodeBadValue, "within: must be at least 1ms", "")
	}
}

// Throttle lets so many records per span of event time through.
type Throttle struct {
	Rate Rate `yaml:"rate" required:"true" lone:"true"`
	Key  Expr `yaml:"key"`
	Over Text `yaml:"over" enum:"drop,dlq" default:"drop"`

	Pos Pos
}

func (*Throttle) object() (string, string) { return "throttle", "a bound of records over time" }

// Window is how the records of a key are cut.
type Window struct {
	Tumbling Duration `yaml:"tumbling" lone:"true"`
	Hopping  *Hopping `yaml:"hopping"`
	Session  Duration `yaml:"session"`
	Sliding  Duration `yaml:"sliding"`
	Count    Integer  `yaml:"count" min:"1"`
	Offset   Duration `yaml:"offset" default:"0s"`

	Pos Pos
}

func (*Window) object() (string, string) { return "window", "how the records of a key are cut" }

func (w *Window) verify(d *decoder, n *node) {
	have := 0
	for _, p := range n.pairs {
		switch p.key.value {
		case "tumbling", "hopping", "session", "sliding", "count":
			have++
		}
	}
	if have != 1 && len(n.guessed) == 0 {
		d.report(n.pos, 1, CodeExclusive,
			"a window is one of tumbling:, hopping:, session:, sliding: or count:",
			"as  window: {tumbling: 1m}")
	}
	for key, span := range map[string]Duration{"tumbling": w.Tumbling, "session": w.Session,
		"sliding": w.Sliding} {
		if span.Set && span.Value < time.Millisecond {
			d.reportAt(n.get(key), CodeBadValue, key+": must be at least 1ms", "")
		}
	}
	if at := n.get("offset"); at != nil && have == 1 && !w.Tumbling.Set && w.Hopping == nil {
		d.reportAt(at, CodeExclusive, "offset: shifts tumbling and hopping windows only",
			"remove offset:, the records themselves tell where other windows begin")
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

// Emit says when results come out.
type Emit struct {
	Text  // on_close, on_update or every
	Every Duration
}

var emitWords = []string{"on_close", "on_update"}

func (e *Emit) decode(d *decoder, n *node, _ *field) {
	if n.kind != kindMapping {
		e.Text.decode(d, n, &field{key: "emit", enum: emitWords})
		return
	}
	for _, p := range n.pairs {
		if p.key.value != "every" {
			d.unknownKey(p.key, "emit", []field{{key: "every"}})
			continue
		}
		e.Every.decode(d, p.value, &field{key: "every"})
		if e.Every.Set && e.Every.Value < time.Millisecond {
			d.reportAt(p.value, CodeBadValue, "every: must be at least 1ms", "")
			e.Every.Set = false
		}
		e.Text = Text{Value: "every", Pos: p.key.pos, Set: e.Every.Set}
	}
}

func (e *Emit) schema(g *schemaGen, _ *field) map[string]any {
	return map[string]any{"anyOf": []any{
		map[string]any{"enum": toAny(emitWords)},
		map[string]any{"type": "object", "required": []any{"every"},
			"additionalProperties": false,
			"properties":           map[string]any{"every": (&Duration{}).schema(g, &field{})}},
	}}
}

// Late says what happens to late records.
type Late struct {
	Action Text // dlq, drop or topic
	Topic  TopicName
	// Update is how long a closed window still takes late records; Action is for later ones.
	Update Duration
	Pos    Pos
	Set    bool
}

var lateWords = []string{"dlq", "drop"}

func (l *Late) decode(d *decoder, n *node, _ *field) {
	l.Pos = n.pos
	if n.kind != kindMapping {
		if n.value == "update" {
			d.reportAt(n, CodeBadValue, "late: update needs to know for how long",
				"as  late: {update: 10m}")
			return
		}
		l.Action.decode(d, n, &field{key: "late", enum: lateWords})
		l.Set = l.Action.Set
		return
	}
	keys := []field{{key: "topic"}, {key: "update"}, {key: "then"}}
	for _, p := range n.pairs {
		switch p.key.value {
		case "topic":
			l.Topic.decode(d, p.value, &field{key: "topic"})
			l.Action = Text{Value: "topic", Pos: p.key.pos, Set: true}
			l.Set = l.Topic.Set
		case "update":
			l.Update.decode(d, p.value, &field{key: "update"})
		case "then":
			l.Action.decode(d, p.value, &field{key: "then", enum: lateWords})
			l.Set = l.Action.Set
		default:
			d.unknownKey(p.key, "late", keys)
		}
	}
	if n.has("topic") && n.has("then") {
		d.reportAt(n.get("then"), CodeExclusive, "late records have topic: or then:, not both", "")
	}
	if n.has("then") && !n.has("update") {
		d.reportAt(n.get("then"), CodeExclusive, "then: is for what comes after update:",
			"as  late: "+l.Action.Value)
	}
}

func (l *Late) schema(g *schemaGen, _ *field) map[string]any {
	return map[string]any{"anyOf": []any{
		map[string]any{"enum": toAny(lateWords)},
		map[string]any{"type": "object", "minProperties": 1, "additionalProperties": false,
			"properties": map[string]any{
				"topic":  (&TopicName{}).schema(g, &field{}),
				"update": (&Duration{}).schema(g, &field{}),
				"then":   map[string]any{"enum": toAny(lateWords)},
			}},
	}}
}
