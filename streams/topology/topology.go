package topology

import (
	"time"

	"github.com/millstream-io/millstream/streams/eventtime"
	"github.com/millstream-io/millstream/streams/operator"
)

// Topology is a pipeline ready to run.
type Topology struct {
	// App is the name of the pipeline: the prefix of its internal topics and group.
	App string
	// ConfigHash goes into dead letters; "" is allowed.
	ConfigHash string
	// CloseAtEnd: the end of bounded input closes all windows (on_end: close).
	CloseAtEnd bool
	// Sign and StepName are as of Options.
	Sign     bool
	StepName func(id string) string
	// Subs are the sub-topologies, upstream ones first.
	Subs []*Sub
}

// Sub is a part of a topology whose tasks run without passing through a topic. It has one task per
// partition.
type Sub struct {
	ID         int    // index in Topology.Subs
	Name       string // id of its first source; stable
	Partitions int32  // number of tasks
	Sources    []Source
	Tables     []Table
	Nodes      []Node // steps and sinks; every node comes after its inputs
	Stores     []operator.StoreSpec
	// Fingerprint changes when state of this Sub would be read differently.
	Fingerprint string
}

// Source is a topic read in event-time order.
type Source struct {
	ID    string
	Topic string
	// Group, if set, is what several sources are together, as that of a pattern: there may be more
	// of them at the next start.
	Group      string
	Partitions int32 // of the topic; a task whose number is not below it does not read it
	Timestamp  eventtime.Extractor
	// RecordTime: Timestamp takes that of the record and nothing else.
	RecordTime bool
	Disorder   int64 // ms
	Bad        eventtime.BadTimestamp
	// IdleAfter without a record at the end of its log lets a partition hold up nobody; 0 is never.
	IdleAfter time.Duration
	// MaxSkew in ms is how far a partition may be ahead of the slowest one; 0 is any.
	MaxSkew int64
	OnError operator.ErrorPolicy
	// Check is as of SourceOptions.
	Check func(rec *operator.Record) error
	// Writers are the names of the tasks that write the topic, when it is a repartition topic of
	// this topology; nil for any other.
	Writers []string
}

// Repartition reports whether the topic is written by tasks of the same topology.
func (s *Source) Repartition() bool { return s.Writers != nil }

// Table is a compacted topic kept in a store and looked up by joins.
type Table struct {
	ID         string // also the name of its store
	Topic      string
	Partitions int32
	// Broadcast: every task reads all partitions, so that any key can be looked up.
	Broadcast bool
	// Decode checks and decodes a value; nil leaves the bytes.
	Decode  func(key, value []byte) (any, error)
	OnError operator.ErrorPolicy
}

// Port is one output of a source or a node.
type Port struct {
	Source int // index in Sub.Sources, or -1
	Node   int // index in Sub.Nodes when Source is -1
	Output int // of a node with several outputs
}

// Node is a step, or a sink when Sink is set.
type Node struct {
	ID      string
	Kind    string // "filter", "aggregate", "sink" …: for plans and fingerprints
	Inputs  []Port // more than one: merged in processing order
	New     operator.Factory
	Outputs []string // names; empty means one output without a name
	Stores  []operator.StoreSpec
	OnError operator.ErrorPolicy
	Late    operator.LatePolicy
	Sink    *Sink
	// WallClock: the step is called when the machine's clock moves, and is not deterministic.
	WallClock bool
	// Transient: the step keeps nothing of a record, not even its bytes, beyond the batch.
	Transient bool
}

// Sink is a topic a node writes to.
type Sink struct {
	Topic string
	// TopicOf names the topic of each record, when there is no Topic.
	TopicOf func(rec *operator.Record) (string, error)
	// Partitions is the number of partitions, 0 when it was not known to Build.
	Partitions int32
	Encode     operator.EncodeFunc
	// Repartition: the topic belongs to this topology and carries watermarks and origins.
	Repartition bool
}

// InternalTopic is a topic that has to exist before tasks run.
type InternalTopic struct {
	Name       string
	Partitions int32
	Kind       string // "repartition" or "changelog"
	Windowed   bool   // a changelog of windows: old rows may also be deleted by age
}
