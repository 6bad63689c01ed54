package lang

import "strconv"

// Pipeline is a whole file. The order of the fields here is the order in which the formatter
// writes keys.
type Pipeline struct {
	Version   Integer              `yaml:"version" min:"1"`
	Name      Scalar[PipelineName] `yaml:"pipeline" required:"true"`
	Include   List[Text]           `yaml:"include" one:"true"`
	Vars      Map[Tree]            `yaml:"vars"`
	Plugins   Map[PluginDecl]      `yaml:"plugins"`
	Schemas   Map[Schema]          `yaml:"schemas"`
	Templates Map[StepTemplate]    `yaml:"templates"`
	Sources   Map[Source]          `yaml:"sources"`
	Tables    Map[Table]           `yaml:"tables"`
	Guarantee Text                 `yaml:"guarantee" enum:"exactly_once,at_least_once"`
	OnEnd     Text                 `yaml:"on_end" enum:"close,keep" default:"keep"`
	OnError   *OnError             `yaml:"on_error"`
	Resources *Resources           `yaml:"resources"`
	Steps     List[Step]           `yaml:"steps"`
	Sinks     Map[Sink]            `yaml:"sinks"`
	Tests     Tree                 `yaml:"tests"`

	Pos Pos
	// File is the text the tree was read from.
	File *File
	// Shorthand is true when the file was written as pipeline/from/filter/to.
	Shorthand bool
	// Patterns are those of sources, in the order of the file.
	Patterns []Pattern
}

func (*Pipeline) object() (string, string) {
	return "the pipeline", "a Millstream pipeline, language version 1"
}

// shorthand is the five-line form; expand turns it into a Pipeline.
type shorthand struct {
	Version Integer              `yaml:"version" min:"1"`
	Name    Scalar[PipelineName] `yaml:"pipeline" required:"true"`
	From    TopicName            `yaml:"from" required:"true"`
	Filter  Expr                 `yaml:"filter"`
	Map     Projection           `yaml:"map"`
	To      TopicName            `yaml:"to" required:"true"`
	OnError *OnError             `yaml:"on_error"`

	Pos Pos
}

func (*shorthand) object() (string, string) {
	return "the short form", "pipeline, from, filter or map, to"
}

// PluginDecl declares a plugin under an alias.
type PluginDecl struct {
	Source    Text          `yaml:"source" required:"true" lone:"true"`
	Version   Text          `yaml:"version"`
	Isolation Text          `yaml:"isolation"`
	Limits    *PluginLimits `yaml:"limits"`

	Pos Pos
}

func (*PluginDecl) object() (string, string) { return "a plugin", "an operator plugin" }

// PluginLimits bounds a plugin's process.
type PluginLimits struct {
	Memory Size `yaml:"memory"`
	CPU    Tree `yaml:"cpu"`

	Pos Pos
}

func (*PluginLimits) object() (string, string) { return "plugin limits", "limits of a process" }

// Schema is the type of a value.
type Schema struct {
	Fields   Map[Type] `yaml:"fields"`
	Registry Tree      `yaml:"registry"`
	File     Tree      `yaml:"file"`

	Pos Pos
}

func (*Schema) object() (string, string) { return "a schema", "the type of a value" }

func (s *Schema) verify(d *decoder, n *node) {
	if !n.has("fields") && !n.has("registry") && !n.has("file") {
		d.report(n.pos, 1, CodeMissingKey, "a schema needs fields:",
			"add  fields: {name: string, …}")
	}
}

// Source is one stream that comes in.
type Source struct {
	Connector   Text      `yaml:"connector"`
	Config      Tree      `yaml:"config"`
	Topic       TopicName `yaml:"topic" lone:"true"`
	Topics      Topics    `yaml:"topics"`
	Partitions  Integer   `yaml:"partitions" min:"1"`
	Key         KeyRule   `yaml:"key"`
	Value       Encoding  `yaml:"value"`
	EventTime   Expr      `yaml:"event_time"`
	MaxLateness Duration  `yaml:"max_lateness" default:"0s"`
	IdleAfter   Duration  `yaml:"idle_after"`
	MaxSkew     Duration  `yaml:"max_skew"`
	OnBadTime   Text      `yaml:"on_bad_time" enum:"dlq,drop,stop,partition_time"`
	Start       Start     `yaml:"start"`
	OnEnd       Text      `yaml:"on_end" enum:"close,keep"`

	RenamedFrom List[Name] `yaml:"renamed_from" one:"true"`

	// Group is the first id of the source of the file whose pattern found the topic.
	Group string
	Pos   Pos
}

func (*Source) object() (string, string) { return "a source", "a stream that comes in" }

func (s *Source) verify(d *decoder, n *node) {
	requireTopic(d, n, "a source")
	s.verifyTopics(d, n)
	for _, x := range []struct {
		key  string
		span Duration
	}{{"idle_after", s.IdleAfter}, {"max_skew", s.MaxSkew}} {
		if x.span.Set && x.span.Value <= 0 {
			d.reportAt(n.get(x.key), CodeBadValue, x.key+": must be above 0",
				"leave it away for no bound")
		}
	}
	if n.get("config") != nil && !n.has("connector") {
		d.report(n.get("config").pos, 1, CodeExclusive, "config: is for a connector, there is none",
			"add  connector: name")
	}
}

// requireTopic checks the choice between topic and connector.
func requireTopic(d *decoder, n *node, what string) {
	if !n.has("topic") && !n.has("connector") && !n.has("topics") {
		d.report(n.pos, 1, CodeMissingKey, what+" needs topic: or connector:", "add  topic: name")
	}
}

// Start says where reading begins.
type Start struct {
	At        Text // earliest or latest
	Timestamp Text // RFC 3339, instead of At
	Set       bool
}

func (s *Start) decode(d *decoder, n *node, f *field) {
	if n.kind != kindMapping {
		s.At.decode(d, n, &field{key: f.key, enum: []string{"earliest", "latest"}})
		s.Set = s.At.Set
		return
	}
	for _, p := range n.pairs {
		if p.key.value != "timestamp" {
			d.unknownKey(p.key, "start", []field{{key: "timestamp"}})
			continue
		}
		s.Timestamp.decode(d, p.value, &field{key: "timestamp"})
		s.Set = s.Timestamp.Set
	}
}

func (s *Start) schema(_ *schemaGen, _ *field) map[string]any {
	return map[string]any{"anyOf": []any{
		map[string]any{"enum": []any{"earliest", "latest"}},
		map[string]any{"type": "object", "required": []any{"timestamp"},
			"additionalProperties": false,
			"properties":           map[string]any{"timestamp": map[string]any{"type": "string"}}},
	}}
}

// Table is the latest value per key of a topic.
type Table struct {
	Topic      TopicName `yaml:"topic"`
	From       Name      `yaml:"from" lone:"true"`
	Key        Encoding  `yaml:"key"`
	Value      Encoding  `yaml:"value"`
	History    Duration  `yaml:"history"`
	OutOfOrder Text      `yaml:"out_of_order" enum:"apply,ignore" default:"apply"`
	Retention  Tree      `yaml:"retention"`
	LookupOnly Boolean   `yaml:"lookup_only"`
	Global     Boolean   `yaml:"global"`
	IdleAfter  Duration  `yaml:"idle_after"`

	RenamedFrom List[Name] `yaml:"renamed_from" one:"true"`

	Pos Pos
}

func (*Table) object() (string, string) { return "a table", "the latest value per key" }

func (t *Table) verify(d *decoder, n *node) {
	topic, from := n.get("topic"), n.get("from")
	t.verifyIdle(d, n)
	if h := n.get("history"); h != nil && t.OutOfOrder.Value == "ignore" {
		d.reportAt(h, CodeExclusive, "a table with a history: has no rows out of order, each holds "+
			"in its own time", "remove out_of_order: or history:")
	}
	for _, key := range []string{"history", "out_of_order"} {
		if at := n.get(key); at != nil && t.LookupOnly.Value {
			d.reportAt(at, CodeExclusive, key+": is for joins in the order of event time, "+
				"lookup_only: true rules them out", "remove one of them")
		}
	}
	for _, key := range []string{"history", "out_of_order"} {
		if at := n.get(key); at != nil && t.Global.Value {
			d.reportAt(at, CodeExclusive, key+": is for joins in the order of event time, "+
				"the rows of a global: table count as they arrive", "remove one of them")
		}
	}
	switch {
	case !n.has("topic") && !n.has("from"):
		d.report(n.pos, 1, CodeMissingKey, "a table needs topic: or from:", "add  topic: name")
	case topic != nil && from != nil:
		d.report(from.pos, width(from.value), CodeExclusive,
			"a table has topic: or from:, not both", "")
	case from != nil && (t.Key.Set || t.Value.Set):
		at := t.Key.Pos
		if !t.Key.Set {
			at = t.Value.Pos
		}
		d.report(at, 1, CodeExclusive, "the formats of a table with from: are those of its source",
			"declare key: and value: at the source")
	}
}

// verifyIdle checks that idle_after: is where a topic is read in the order of event time.
func (t *Table) verifyIdle(d *decoder, n *node) {
	at := n.get("idle_after")
	switch {
	case at == nil || !t.IdleAfter.Set:
	case t.IdleAfter.Value <= 0:
		d.reportAt(at, CodeBadValue, "idle_after: must be above 0", "leave it away for no bound")
	case n.has("from"):
		d.reportAt(at, CodeExclusive, "a table with from: waits as what fills it does",
			"declare idle_after: at the source")
	case t.LookupOnly.Value || t.Global.Value:
		d.reportAt(at, CodeExclusive, "nobody waits for a table whose rows count as they arrive",
			"remove idle_after:")
	}
}

// Sink is one stream that goes out.
type Sink struct {
	From      Name      `yaml:"from"`
	Topic     TopicName `yaml:"topic" lone:"true"`
	Connector Text      `yaml:"connector"`
	Config    Tree      `yaml:"config"`
	Key       Expr      `yaml:"key"`
	Value     Output    `yaml:"value"`
	Batch     Tree      `yaml:"batch"`
	Shared    Boolean   `yaml:"shared" default:"false"`
	InFlight  Tree      `yaml:"in_flight"`
	OnReplay  Tree      `yaml:"on_replay"`
	OnError   *OnError  `yaml:"on_error"`

	Pos Pos
}

func (*Sink) object() (string, string) { return "a sink", "a stream that goes out" }

func (s *Sink) verify(d *decoder, n *node) {
	requireTopic(d, n, "a sink")
	if topic := n.get("topic"); topic != nil && n.get("connector") != nil {
		d.report(topic.pos, width(topic.value), CodeExclusive,
			"a sink has topic: or connector:, not both", "declare two sinks")
	}
	if n.get("config") != nil && !n.has("connector") {
		d.report(n.get("config").pos, 1, CodeExclusive, "config: is for a connector, there is none",
			"add  connector: name")
	}
}

// OnError is the error policy of a pipeline, a step or a sink.
type OnError struct {
	Retry   *Retry    `yaml:"retry"`
	Then    Text      `yaml:"then" lone:"true" enum:"dlq,stop,drop" later:"pause"`
	DLQ     TopicName `yaml:"dlq"`
	ByClass Map[Text] `yaml:"by_class"`

	Pos Pos
}

func (*OnError) object() (string, string) {
	return "on_error", "what happens to a record that fails"
}

// Classes are the classes of failure by_class may name.
func Classes() []string {
	return []string{"decode", "event_time", "expr", "key", "join_missing", "late", "plugin",
		"plugin_crash", "route", "throttled", "too_large", "overflow", "sink_transient",
		"sink_permanent"}
}

func (o *OnError) verify(d *decoder, _ *node) {
	for i := range o.ByClass.Entries {
		e := &o.ByClass.Entries[i]
		row := &field{key: "by_class", enum: Classes()}
		d.text(new(string), &node{value: e.Key, pos: e.At}, e.Key, row)
		if e.Value.Set {
			actions := []string{"dlq", "stop", "drop"}
			if e.Key == "sink_transient" { // nothing else gets better by trying again
				actions = append(actions, "retry")
			}
			d.text(new(string), &node{value: e.Value.Value, pos: e.Value.Pos}, e.Value.Value,
				&field{key: e.Key, enum: actions, later: []string{"pause"}})
		}
	}
}

// Retry says how often and how patiently.
type Retry struct {
	Max     Integer `yaml:"max" min:"0" default:"5"`
	Backoff Backoff `yaml:"backoff" default:"100ms..30s"`

	Pos Pos
}

func (*Retry) object() (string, string) { return "retry", "tries after a transient failure" }

// Resources are the pipeline's own bounds.
type Resources struct {
	Parallelism    Tree     `yaml:"parallelism"`
	Memory         Tree     `yaml:"memory"`
	Buffer         Tree     `yaml:"buffer"`
	CommitInterval Duration `yaml:"commit_interval" default:"200ms"`
	Standby        Integer  `yaml:"standby" min:"0"`

	Pos Pos
}

// maxStandby bounds the copies of a task's state.
const maxStandby = 16

func (*Resources) object() (string, string) { return "resources", "bounds of the pipeline" }

func (r *Resources) verify(d *decoder, n *node) {
	if c := r.CommitInterval; c.Set && c.Value <= 0 {
		d.reportAt(n.get("commit_interval"), CodeBadValue,
			"commit_interval: must be above 0", "")
	}
	if s := r.Standby; s.Set && s.Value > maxStandby {
		d.reportAt(n.get("standby"), CodeBadValue,
			"standby: must be at most "+strconv.Itoa(maxStandby), "")
	}
}
