package plan

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/millstream-io/millstream/pipelines/check"
	"github.com/millstream-io/millstream/pipelines/expression"
	"github.com/millstream-io/millstream/pipelines/lang"
)

// Plan is a pipeline as it runs.
type Plan struct {
	Pipeline string
	Vars     []expression.Var
	Sources  []*Source
	Tables   []*Table
	// Nodes are in the order records flow: a node comes after all that it reads.
	Nodes []*Node
	Sinks []*Sink
	// Topics are all topics the pipeline touches, each once.
	Topics []*Topic
	Stores []*Store
	// SubTopologies are the parts that are joined by repartition topics only.
	SubTopologies []*SubTopology
	Plugins       []*Plugin
	Policy        check.Policy
	Resources     Resources
	// Patterns are those of sources, with the topics they have found.
	Patterns    []lang.Pattern
	Determinism Determinism
	// Fingerprint is the SHA-256, in hexadecimal, of all that the plan does.
	Fingerprint string
}

// Source is a stream that comes in.
type Source struct {
	ID string
	// Was is the id it had first, which names what is stored; "" if it has always been ID.
	Was   string
	Topic string
	// Key and Value are the formats in the topic.
	Key, Value expression.Doc
	// Set is the set of KeyProgram and EventTime; they see Key and Value.
	Set *expression.Set
	// KeyProgram makes the key of a record the connector read. nil: as the connector gives it.
	KeyProgram *expression.Program
	// EventTime gives a record's timestamp. nil: its own.
	EventTime   *expression.Program
	MaxLateness time.Duration
	// IdleAfter and MaxSkew are 0 when the file does not say.
	IdleAfter, MaxSkew time.Duration
	// PartitionTime gives a record without a usable event time the latest of its partition.
	PartitionTime bool
	// Policy is that of the pipeline, with what is said of bad event times.
	Policy check.Policy
	// CloseAtEnd: when the source is bounded and read to its end, open windows close.
	CloseAtEnd bool
	Start      Start
	// Connector fills the topic. nil: somebody else does.
	Connector *Connector
	// Rows: every reader takes the records as rows of a table, so what is no row fails once, at the
	// source.
	Rows bool
	// TableOnly: no node reads the source, it only fills the topic of a table.
	TableOnly bool
	// Deterministic: read again from a position, the connector gives the same records.
	Deterministic bool
	// Group is the source of the file whose pattern found the topic.
	Group       string
	Pos         lang.Pos
	Fingerprint string
}

// Start says where reading begins when no position is stored.
type Start struct {
	Latest bool
	// Timestamp in ms, used when HasTimestamp.
	Timestamp    int64
	HasTimestamp bool
}

// Connector is a connector with its settings. Config.JSON() is what it is to be given.
type Connector struct {
	Name   string
	Config *lang.Tree
	Pos    lang.Pos
}

// Table is the latest row per key of a topic.
type Table struct {
	ID string
	// Was is as that of a Source.
	Was   string
	Topic string
	// Source fills the topic; "" when somebody else does.
	Source string
	// Step is the node whose records are the rows, "" unless there is no Topic.
	Step       string
	Key, Value expression.Doc
	// Global: every task keeps all rows.
	Global      bool
	Store       string
	Fingerprint string
}

// Kind is what a node does.
type Kind string

// The kinds of node. Each has its part of Node set.
const (
	KindFilter    Kind = "filter"
	KindMap       Kind = "map"
	KindPatch     Kind = "set" // set and unset
	KindFlatMap   Kind = "flat_map"
	KindKeyBy     Kind = "key_by"
	KindBranch    Kind = "branch"
	KindJoin      Kind = "join"
	KindAggregate Kind = "aggregate"
	KindReduce    Kind = "reduce"
	KindDedupe    Kind = "dedupe"
	KindThrottle  Kind = "throttle"
	KindPlugin    Kind = "plugin"
	KindLog       Kind = "log"
	KindRoute     Kind = "route"
	KindMerge     Kind = "merge"
	// KindTable keeps the rows of a table for steps that need what a row takes the place of.
	KindTable Kind = "table"
	// KindForeign is a part of a join by a foreign key.
	KindForeign Kind = "foreign"
)

// Node is one operator.
type Node struct {
	ID string
	// Was is the id the step had first, "" if it has always been ID.
	Was  string
	Kind Kind
	// From are the ids of sources, nodes and arms the node reads. Several are merged.
	From []string
	// Right is the id of what a join of two streams reads beside From, "" for any other node.
	Right string
	// Sub is the index in SubTopologies. A key_by node is in the part that writes the topic.
	Sub int
	// Key, Value, Rows and Window say what the records look like that come out.
	Key, Value expression.Doc
	Rows       []expression.Row
	Window     bool
	// Set is the set of all programs of the node.
	Set *expression.Set

	Filter    *expression.Program    // KindFilter: WantBool
	Map       *expression.Projection // KindMap
	Patch     *expression.Patch      // KindPatch
	FlatMap   *expression.Program    // KindFlatMap: use Items
	KeyBy     *KeyBy                 // KindKeyBy
	Arms      []Arm                  // KindBranch: the first that holds
	Join      *Join                  // KindJoin
	Aggregate *Aggregate             // KindAggregate, KindReduce
	Gate      *Gate                  // KindDedupe, KindThrottle
	Table     *TableRows             // KindTable
	Foreign   *Foreign               // KindForeign
	Plugin    *PluginStep            // KindPlugin
	Log       *expression.Template   // KindLog
	Route     *expression.Template   // KindRoute: the topic of a record; nothing comes out

	// Carry are the joined rows that are read further down. Where records leave the process or
	// the sub-topology (plugin, key_by) they travel in the headers expression.RowHeader(name);
	// rows that are not carried can be left behind.
	Carry []string
	// CarryWindow says the same of the window, in expression.WindowHeader.
	CarryWindow bool
	Policy      check.Policy
	// Implicit is true for a node the planner put in: a key_by before a join or aggregate, the rows
	// of a table, a part of a join by a foreign key.
	Implicit bool
	// OverTable: the node works on the changes of a table.
	OverTable     bool
	Deterministic bool
	Pos           lang.Pos
	// Fingerprint covers all the node does, State what its stored state depends on ("" without).
	Fingerprint string
	State       string
}

// KeyBy gives records a new key and moves them through a repartition topic.
type KeyBy struct {
	// Key is nil for records that keep their key.
	Key   *expression.Program
	Topic string
	// Group: rows of a table move to their group, out of the one before.
	Group bool
	// Null says what happens to a record whose new key is null: drop, round_robin (it is passed on
	// without a key) or dlq; "" is a failure of class key.
	Null string
}

// by is the key as the file has it.
func (k *KeyBy) by() string {
	if k.Key == nil {
		return "key"
	}
	return k.Key.Source()
}

// Arm is one way out of a branch; other nodes read it by its ID. When is nil for else.
type Arm struct {
	ID   string
	When *expression.Program
}

// Join looks the record's key up in a table, or joins records of two streams with equal keys. The
// row, or the value of Node.Right's record, becomes the header expression.RowHeader(As).
type Join struct {
	Table string // "" when streams are joined
	As    string
	// Left keeps a record without a row, whose row then is null. Otherwise MissingDLQ says
	// whether it is dropped or fails with class "join_missing".
	Left       bool
	MissingDLQ bool
	// Streams is set when streams are joined, AsOf when a table is in the order of event time,
	// Tables when two tables are joined.
	Streams *StreamJoin
	AsOf    *AsOfJoin
	Tables  *TableJoin
	// Key is what is looked up in a global table; nil is the record's key.
	Key *expression.Program
}

// StreamJoin says which records of two streams meet.
type StreamJoin struct {
	// Outer keeps records of both sides; Join.Left is set too.
	Outer                bool
	Before, After, Grace time.Duration
	// Late is dlq, drop or topic; LateTopic is set for topic.
	Late, LateTopic string
	Store           string
}

// AsOfJoin says which row of a table a record meets when both come in the order of event time. The
// rows are read through Node.Right.
type AsOfJoin struct {
	// History is how long replaced rows are kept; 0 takes the latest one.
	History, Grace time.Duration
	// IgnoreOld: a row does not replace a newer one. Without History.
	IgnoreOld bool
	// Late is dlq, drop or topic; LateTopic is set for topic.
	Late, LateTopic string
	Store           string
}

// Inputs are the ids of all that the node reads.
func (n *Node) Inputs() []string {
	if n.Right == "" {
		return n.From
	}
	return append(slices.Clone(n.From), n.Right)
}

// PluginStep is a call of a plugin's operator.
type PluginStep struct {
	Alias, Source, Operator string
	Config                  *lang.Tree
	Memory                  int64 // bytes, 0 is no limit
	// Timers: the operator sets timers, which are state of the step; WallTimers: some of them of the
	// machine's clock.
	Timers, WallTimers bool
}

// Plugin is one plugin process of the pipeline.
type Plugin struct {
	Alias, Source string
	Memory        int64 // bytes, 0 is no limit
}

// Sink is a stream that goes out. It strips headers for which expression.IsPrivateHeader holds.
type Sink struct {
	ID   string
	From string
	Sub  int
	// Topic is set, or Connector is.
	Topic     string
	Connector *Connector
	Set       *expression.Set
	// Key makes the key; nil: the record's own.
	Key *expression.Program
	// KeyDoc is the format of the record's own key.
	KeyDoc expression.Doc
	// Value makes the value; nil: the record's own.
	Value *expression.Projection
	// Text: a JSON string is written without quotes and escapes, other values as JSON.
	Text bool
	// ValueDoc is the format of what is written.
	ValueDoc expression.Doc
	// Guarantee is what holds for the sink, in words.
	Guarantee string
	// Exact: the connector writes exactly what is missing after a crash. Known: it was asked.
	Exact, Known bool
	Policy       check.Policy
	Pos          lang.Pos
	Fingerprint  string
}

// TopicRole is what a topic is to the pipeline.
type TopicRole string

// The roles. A repartition or changelog topic belongs to the pipeline alone.
const (
	TopicSource      TopicRole = "source"
	TopicTable       TopicRole = "table"
	TopicRepartition TopicRole = "repartition"
	TopicChangelog   TopicRole = "changelog"
	TopicSink        TopicRole = "sink"
	TopicDLQ         TopicRole = "dlq"
	TopicLate        TopicRole = "late"
	// TopicOutput is what a connector sink reads: the pipeline's own.
	TopicOutput TopicRole = "output"
	// TopicPositions keeps how far connector sources have read.
	TopicPositions TopicRole = "positions"
)

// Topic is a topic the pipeline touches.
type Topic struct {
	Name string    `json:"name"`
	Role TopicRole `json:"role"`
	// Create: the pipeline makes the topic when it is not there. Otherwise it must be.
	Create bool `json:"create"`
	// Partitions is the number it is made with, or must have; 0 is not said.
	Partitions int32 `json:"partitions,omitempty"`
	// SameAs names the topic whose number of partitions it takes when Partitions is 0.
	SameAs    string `json:"same_as,omitempty"`
	Compacted bool   `json:"compacted,omitempty"`
}

// Store is state kept by a task.
type Store struct {
	Name string
	// Node or Table owns it.
	Node, Table string
	// Changelog is the topic it is restored from.
	Changelog string
}

// SubTopology is a part of the plan that a task runs for one partition.
type SubTopology struct {
	Index int
	// Name is the id of the first source or key_by whose records it reads; it names the changelog.
	Name string
	// Changelog keeps the state of the part and how far it has read.
	Changelog string
	// Topics are what the part reads: sources' topics and repartition topics, in the order in
	// which records of equal time are processed.
	Topics []string
	Tables []string
	Nodes  []string
	Sinks  []string
	// Partitions is the number of tasks when the plan knows it, else 0.
	Partitions int32
	// CoPartitioned are topics that must have the same number of partitions.
	CoPartitioned []string
}

// Resources are the pipeline's bounds.
type Resources struct {
	CommitInterval time.Duration
	// Standby is how many workers keep a copy of the state of a task that another one runs.
	Standby int
}

// DefaultCommitInterval is how often positions and state are committed.
const DefaultCommitInterval = 200 * time.Millisecond

// Determinism is how far a replay repeats a run.
type Determinism string

// The classes.
const (
	// DeterminismA: every task reads one partition with one writer. Byte-identical.
	DeterminismA Determinism = "A"
	// DeterminismB: inputs are merged by event time. Byte-identical.
	DeterminismB Determinism = "B"
	// DeterminismD: something looks at a clock or the outside. A replay may differ.
	DeterminismD Determinism = "D"
)

// StreamID is the id under which the streams layer runs the node: that layer's ids have no dots,
// which the ids of implicit nodes have.
// A step that was renamed keeps the one it had, which names its state and its topics.
func (n *Node) StreamID() string {
	if n.Foreign != nil {
		return strings.ReplaceAll(n.first(), ".", ":")
	}
	return strings.ReplaceAll(n.first(), ".", "-")
}

// StreamID is the id under which the streams layer reads the source.
func (s *Source) StreamID() string { return cmp.Or(s.Was, s.ID) }

// StreamID is the id under which the streams layer keeps the rows of the table.
func (t *Table) StreamID() string { return cmp.Or(t.Was, t.ID) }

// first is the id the node had first.
func (n *Node) first() string { return cmp.Or(n.Was, n.ID) }

// wasPart is Was of a node that belongs to this one.
func (n *Node) wasPart(name string) string {
	if n.Was == "" {
		return ""
	}
	return n.Was + "." + name
}

// UserID is the id of the step in the file: an implicit node belongs to the step, or the table, it
// is for.
func (n *Node) UserID() string {
	if n.Implicit {
		id, _, _ := strings.Cut(n.ID, ".")
		return id
	}
	return n.ID
}

// OutputTopic is the topic the steps write for the sink: its own, or the one its connector reads.
func (p *Plan) OutputTopic(s *Sink) string { return OutputTopic(p.Pipeline, s) }

// OutputTopic is Plan.OutputTopic for a run under another name.
func OutputTopic(app string, s *Sink) string {
	if s.Connector == nil {
		return s.Topic
	}
	return app + "-" + s.ID + "-output"
}

// PositionTopic keeps how far the connector sources of a pipeline have read.
func PositionTopic(app string) string { return app + "-positions" }

// FilledByConnectors tells whether any source has a connector.
func (p *Plan) FilledByConnectors() bool {
	return slices.ContainsFunc(p.Sources, func(s *Source) bool { return s.Connector != nil })
}

// Node returns the node with an id, or nil.
func (p *Plan) Node(id string) *Node {
	for _, n := range p.Nodes {
		if n.ID == id {
			return n
		}
	}
	return nil
}

// Source returns the source with an id, or nil.
func (p *Plan) Source(id string) *Source {
	for _, s := range p.Sources {
		if s.ID == id {
			return s
		}
	}
	return nil
}

// Table returns the table with an id, or nil.
func (p *Plan) Table(id string) *Table {
	for _, t := range p.Tables {
		if t.ID == id {
			return t
		}
	}
	return nil
}

// Topic returns the topic with a name, or nil.
func (p *Plan) Topic(name string) *Topic {
	for _, t := range p.Topics {
		if t.Name == name {
			return t
		}
	}
	return nil
}
