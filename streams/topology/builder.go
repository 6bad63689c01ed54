package topology

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/millstream-io/millstream/streams/eventtime"
	"github.com/millstream-io/millstream/streams/operator"
)

// Options apply to a whole topology.
type Options struct {
	// App names the pipeline: letters, digits, dot, dash, underscore.
	App string
	// ConfigHash goes into the headers of dead letters.
	ConfigHash string
	// OnError is the policy of every step that has none of its own.
	OnError operator.ErrorPolicy
	// CloseAtEnd closes all windows at the end of bounded input; the default keeps them open.
	CloseAtEnd bool
	// Sign gives the records that leave the topology the header ms-lane too: which task wrote them,
	// in which order. Records of repartition topics always have it.
	Sign bool
	// StepName is how dead letters and errors call a step, by its id; nil cuts it before a colon.
	StepName func(id string) string
	// Cut gives the number of partitions of the repartition topic of a key_by, by its id, where
	// the key_by itself says nothing; 0 or no function: by what else its reader reads.
	Cut func(keyBy string) int32
}

// Builder collects the nodes of a topology. Faults are kept and reported by Build, all at once.
// Every from is the id of a source or node, or "id.output" for a node with several outputs.
type Builder struct {
	opts   Options
	nodes  []*draft
	byID   map[string]*draft
	faults []error
	// foreign are the joins by a foreign key.
	foreign []foreign
}

// draft is one node as described.
type draft struct {
	id     string
	kind   string
	from   []string
	source *Source
	table  *Table
	node   *Node
	// tables are the ids of the tables a join reads.
	tables  []string
	keyBy   *KeyByOptions // of a key_by and of its sink
	onError *operator.ErrorPolicy
	inputs  []input // resolved by Build
	behind  *draft  // of the source that reads a repartition topic: the sink that writes it
	group   *group  // set by Build
}

// input is a resolved from.
type input struct {
	of     *draft
	output int
}

// NewBuilder starts an empty topology.
func NewBuilder(opts Options) *Builder {
	b := &Builder{opts: opts, byID: map[string]*draft{}}
	if !validName.MatchString(opts.App) {
		b.fault("name of the pipeline %q: use 1-100 letters, digits, '.', '_' or '-'", opts.App)
	}
	return b
}

var (
	validName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,100}$`)
	validID   = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,100}$`)
	// validPart is the id of a part of a step, for whoever makes one step of several nodes. What
	// fails in it is reported under the id before the colon. It names no topic.
	validPart = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,100}(:[a-z-]{1,20})?$`)
)

func (b *Builder) fault(format string, args ...any) {
	b.faults = append(b.faults, fmt.Errorf(format, args...))
}

// add takes a node; a second one with the same id is a fault.
func (b *Builder) add(d *draft) {
	valid := validPart
	if d.source != nil || d.keyBy != nil {
		valid = validID
	}
	switch {
	case !valid.MatchString(d.id):
		b.fault("%s %q: an id is 1-100 letters, digits, '_' or '-'", d.kind, d.id)
	case b.byID[d.id] != nil:
		b.fault("%s %q: the id is already used by a %s", d.kind, d.id, b.byID[d.id].kind)
	default:
		b.byID[d.id] = d
	}
	b.nodes = append(b.nodes, d)
}

// SourceOptions describe how a topic is read.
type SourceOptions struct {
	// Timestamp tells the event time; nil takes the timestamp of the record.
	Timestamp eventtime.Extractor
	// Disorder is how far records may be out of order without being below partition time.
	Disorder time.Duration
	// Bad is what happens when Timestamp fails or is negative.
	Bad eventtime.BadTimestamp
	// IdleAfter is how long a partition may have no records before the others stop waiting for it;
	// 0 waits for ever. Records that come later count as not before what was processed meanwhile.
	IdleAfter time.Duration
	// MaxSkew bounds how far a partition is read ahead of the slowest one, in event time; 0 is by
	// memory only.
	MaxSkew time.Duration
	// Group names what the source belongs to when there may be more of its kind at the next start:
	// parts are called after it, and its topics are no part of what state depends on.
	Group string
	// Check looks at every record whose event time is known; one it gives an error for moves time
	// and fails here, once, whoever reads the source. It may note in Doc what it has found out.
	Check func(rec *operator.Record) error
	// OnError overrides the policy of the topology.
	OnError *operator.ErrorPolicy
}

// Source reads a topic. The order of sources breaks ties of event time.
func (b *Builder) Source(id, topic string, o SourceOptions) {
	recordTime := o.Timestamp == nil
	if recordTime {
		o.Timestamp = eventtime.FromRecord
	}
	if o.Disorder < 0 {
		b.fault("source %q: disorder is %s, must not be negative", id, o.Disorder)
	}
	if o.IdleAfter < 0 || o.MaxSkew < 0 {
		b.fault("source %q: idle after %s, skew %s: must not be negative", id, o.IdleAfter, o.MaxSkew)
	}
	b.add(&draft{id: id, kind: "source", onError: o.OnError, source: &Source{ID: id, Topic: topic,
		Timestamp: o.Timestamp, RecordTime: recordTime, Disorder: o.Disorder.Milliseconds(), Bad: o.Bad,
		IdleAfter: o.IdleAfter, MaxSkew: o.MaxSkew.Milliseconds(), Check: o.Check,
		Group: o.Group}})
}

// TableOptions describe how a compacted topic becomes a table.
type TableOptions struct {
	// Broadcast makes every task read all partitions of the topic. Without it the topic must
	// have as many partitions as the stream it is joined to, keyed alike.
	Broadcast bool
	// Decode turns a value into what joins see; nil gives them the bytes. A value it fails on
	// is not put into the table.
	Decode func(key, value []byte) (any, error)
	// OnError overrides the policy of the topology.
	OnError *operator.ErrorPolicy
}

// Table keeps the latest value of every key of a topic for joins.
func (b *Builder) Table(id, topic string, o TableOptions) {
	b.add(&draft{id: id, kind: "table", onError: o.OnError, table: &Table{ID: id, Topic: topic,
		Broadcast: o.Broadcast, Decode: o.Decode}})
}

// ProcessOptions describe a step.
type ProcessOptions struct {
	// Kind names the sort of step in plans; "process" if empty.
	Kind string
	New  operator.Factory
	// Outputs names the outputs of a step that has several (Context.Output), in order.
	Outputs []string
	// Stores the step needs; names must be unique among the steps that share a task.
	Stores []operator.StoreSpec
	// OnError overrides the policy of the topology.
	OnError *operator.ErrorPolicy
	// Late is the policy for late records of a windowed step.
	Late operator.LatePolicy
	// Tables are the ids of tables the step looks up.
	Tables []string
	// WallClock: the step is called when the machine's clock moves (Batch.Wall).
	WallClock bool
	// Transient: the step keeps nothing of a record, not even its bytes, beyond the batch. Where
	// that is so of all steps, the memory of records is used again.
	Transient bool
}

// Process adds a step. Several from are merged in processing order.
func (b *Builder) Process(id string, from []string, o ProcessOptions) {
	if o.Kind == "" {
		o.Kind = "process"
	}
	if o.New == nil {
		b.fault("%s %q: no function given", o.Kind, id)
	}
	if o.Late.Action == operator.LateSide && o.Late.Topic == "" {
		b.fault("%s %q: late records go to a topic, but none is named", o.Kind, id)
	}
	b.add(&draft{id: id, kind: o.Kind, from: from, tables: o.Tables, onError: o.OnError,
		node: &Node{ID: id, Kind: o.Kind, New: o.New, Outputs: o.Outputs, Stores: o.Stores,
			Late: o.Late, WallClock: o.WallClock, Transient: o.Transient}})
}

// Filter keeps the records for which keep returns true.
func (b *Builder) Filter(id, from string, keep func(*operator.Record) (bool, error)) {
	b.Process(id, []string{from}, ProcessOptions{Kind: "filter", New: operator.Filter(keep)})
}

// Map changes every record.
func (b *Builder) Map(id, from string, fn func(*operator.Record) error) {
	b.Process(id, []string{from}, ProcessOptions{Kind: "map", New: operator.Map(fn)})
}

// FlatMap replaces every record by any number of records.
func (b *Builder) FlatMap(id, from string,
	fn func(rec *operator.Record, emit func(operator.Record)) error) {
	b.Process(id, []string{from}, ProcessOptions{Kind: "flat_map", New: operator.FlatMap(fn)})
}

// Branch sends each record to the first case that takes it; read the cases as "id.name".
func (b *Builder) Branch(id, from string, cases []operator.Case) {
	names := make([]string, len(cases))
	for i, c := range cases {
		names[i] = c.Name
		if c.Name == "" || strings.Contains(c.Name, ".") {
			b.fault("branch %q: case %d has the name %q", id, i, c.Name)
		}
		if c.When == nil && i != len(cases)-1 {
			b.fault("branch %q: case %q takes everything, so %q never sees a record",
				id, c.Name, cases[i+1].Name)
		}
	}
	if len(cases) == 0 {
		b.fault("branch %q: no cases", id)
	}
	b.Process(id, []string{from},
		ProcessOptions{Kind: "branch", New: operator.Branch(cases), Outputs: names})
}

// Merge joins streams into one, in processing order.
func (b *Builder) Merge(id string, from ...string) {
	pass := func(*operator.Record) error { return nil }
	b.Process(id, from, ProcessOptions{Kind: "merge", New: operator.Map(pass)})
}

// KeyByOptions describe a repartition.
type KeyByOptions struct {
	Key  func(rec *operator.Record) ([]byte, error)
	Null operator.NullKey
	// Partitions of the repartition topic; 0 is as many as the input has.
	Partitions int32
	// Encode gives the value for the repartition topic; nil as operator.Encode. The key it
	// returns is ignored.
	Encode operator.EncodeFunc
	// OnError overrides the policy of the topology.
	OnError *operator.ErrorPolicy
	// Transient: Key keeps nothing of a record, as of ProcessOptions.
	Transient bool
}

// KeyBy gives records a new key and moves them to the task of that key, through the topic
// <app>-<id>-repartition.
func (b *Builder) KeyBy(id, from string, o KeyByOptions) {
	if o.Key == nil {
		b.fault("key_by %q: no function for the key", id)
	}
	if o.Partitions < 0 {
		b.fault("key_by %q: %d partitions", id, o.Partitions)
	}
	if o.Encode == nil {
		o.Encode = operator.Encode
	}
	b.add(&draft{id: id, kind: "key_by", from: []string{from}, keyBy: &o, onError: o.OnError})
}

// SinkOptions describe what a sink writes.
type SinkOptions struct {
	// Encode gives key and value; nil as operator.Encode.
	Encode operator.EncodeFunc
	// OnError overrides the policy of the topology.
	OnError *operator.ErrorPolicy
}

// Sink writes a stream to a topic. Records go to the partition of their key by murmur2, as any
// client would send them; one without a key goes to the partition of its task.
func (b *Builder) Sink(id, from, topic string, o SinkOptions) {
	if o.Encode == nil {
		o.Encode = operator.Encode
	}
	if topic == "" {
		b.fault("sink %q: no topic", id)
	}
	b.add(&draft{id: id, kind: "sink", from: []string{from}, onError: o.OnError,
		node: &Node{ID: id, Kind: "sink", Sink: &Sink{Topic: topic, Encode: o.Encode}}})
}

// Route writes each record to the topic that topicOf names. A topic that is not there is made with
// as many partitions as there are tasks. A record that names one it may not go to (no name of a
// topic, one the pipeline reads, or one too many) fails with class route.
func (b *Builder) Route(id, from string, topicOf func(*operator.Record) (string, error),
	o SinkOptions) {
	if o.Encode == nil {
		o.Encode = operator.Encode
	}
	if topicOf == nil {
		b.fault("route %q: no function for the topic", id)
	}
	b.add(&draft{id: id, kind: "sink", from: []string{from}, onError: o.OnError,
		node: &Node{ID: id, Kind: "sink", Sink: &Sink{TopicOf: topicOf, Encode: o.Encode}}})
}

// ErrInvalid wraps everything Build finds wrong.
var ErrInvalid = errors.New("invalid topology")

// Topics returns the names of all topics outside the topology that it reads or writes, in order
// of first use: those whose partition counts Build asks for.
func (b *Builder) Topics() []string {
	var list []string
	seen := map[string]bool{"": true}
	add := func(topic string) {
		if !seen[topic] {
			seen[topic] = true
			list = append(list, topic)
		}
	}
	for _, d := range b.nodes {
		switch {
		case d.source != nil:
			add(d.source.Topic)
		case d.table != nil:
			add(d.table.Topic)
		case d.node != nil:
			if d.node.Sink != nil {
				add(d.node.Sink.Topic) // "" of a route, which is left out
			}
			add(d.node.Late.Topic)
		}
		if d.onError != nil {
			add(d.onError.DeadLetterTopic)
		}
	}
	add(b.opts.OnError.DeadLetterTopic)
	return list
}
