package task

import (
	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/state"
	"github.com/millstream-io/millstream/streams/topology"
)

// CoreOptions describe one task.
type CoreOptions struct {
	Topology *topology.Topology
	Sub      *topology.Sub
	// Partition is the number of the task in its Sub.
	Partition int32
	// Stores hold the state of the steps; the caller commits them together with Snapshot.
	Stores state.Stores
	// Partitions returns the number of partitions of a topic the task writes to, 0 if the topic
	// does not exist. nil asks the topology alone.
	Partitions func(topic string) int32
	// Snapshot restores a Core; nil starts at the beginning of every input.
	Snapshot []byte
	// MaxBuffered bounds the bytes of unprocessed records before Paused names partitions to
	// pause; 0 is 64 MiB.
	MaxBuffered int64
}

// InputKind says how an input is read.
type InputKind int8

// Kinds of inputs.
const (
	// StreamInput is read in event-time order.
	StreamInput InputKind = iota
	// TableInput is applied to its table as it arrives.
	TableInput
)

// Input is a topic partition a task reads.
type Input struct {
	Topic     string
	Partition int32
	Kind      InputKind
	// Offset is the first offset not processed: where to read from after a restore.
	Offset int64
	// Caught up: a table that was read to its end once, see Core.TableReady.
	Ready bool
	// Repartition: the topic belongs to the topology; records before Offset may be deleted once
	// it is committed.
	Repartition bool
}

// Output is a record to be written.
type Output struct {
	Topic     string
	Partition int32
	// Seq is the sequence of the record in its writer (Core.Writer): strictly increasing over
	// all outputs of the task, with gaps, and a function of the stream inputs alone.
	Seq int64
	// Control marks a watermark. It repeats the sequence of the data record before it.
	Control bool
	Record  record.Record
}

// Core is the deterministic heart of a task: records in, records out. It reads no clock, no disk
// and no network. It belongs to one goroutine; only Stats and StreamTime may be read by others.
type Core struct {
	opts CoreOptions
}

// NewCore makes the core of one task, restored when there is a snapshot.
func NewCore(opts CoreOptions) (*Core, error) { return &Core{opts: opts}, nil }

// Writer returns the name under which the task writes: <app>.<sub>.<partition>.
func (c *Core) Writer() string { return "" }

// Inputs returns the topic partitions the task reads and where to read on.
func (c *Core) Inputs() []Input { return nil }

// Add hands over records read from a partition. next is the offset after them, with gaps and
// control records counted. The Core keeps recs and their bytes. Add never refuses; see Paused.
func (c *Core) Add(topic string, partition int32, recs []record.Record, next int64) error {
	return nil
}

// TableReady tells that a table partition was read to the end it had when the task started. No
// stream record is processed before every table partition is ready.
func (c *Core) TableReady(topic string, partition int32) {}

// EndOfInput tells that a bounded partition was read to its end. Buffered records are still
// processed; the partition holds up nobody. If the topology closes at the end, time goes to
// EndOfTime when all partitions have ended.
func (c *Core) EndOfInput(topic string, partition int32) {}

// Idle tells that a partition is taken to have no records for now, so that others need not wait
// for it. Its next record ends that.
func (c *Core) Idle(topic string, partition int32) {}

// Run processes at most limit records and fires what is due. It returns how many were processed;
// fewer than limit means that nothing more can be processed now. After an error the Core must
// not be used.
func (c *Core) Run(limit int) (n int, err error) { return 0, nil }

// Watermarks adds control outputs for the repartition topics whose readers do not know the time of
// this task yet. Call it before TakeOutputs at every commit.
func (c *Core) Watermarks() {}

// TakeOutputs appends the outputs made since the last call to dst. Their bytes are not reused.
func (c *Core) TakeOutputs(dst []Output) []Output { return dst }

// Paused appends the inputs that should not be read on because records of slower inputs are
// awaited and the buffer is full. It never names all inputs that are waited for.
func (c *Core) Paused(dst []Input) []Input { return dst }

// Buffered returns the number and bytes of records read and not processed.
func (c *Core) Buffered() (records int, bytes int64) { return 0, 0 }

// Snapshot describes the Core after the last Run and Watermarks: to be stored in one commit with
// the stores and after the outputs.
func (c *Core) Snapshot() []byte { return nil }

// StreamTime returns the time of the task.
func (c *Core) StreamTime() int64 { return operator.NoTime }

// Done reports that all stream inputs have ended and everything was processed.
func (c *Core) Done() bool { return false }

// StepStats is a step and its counters, which move while the task runs.
type StepStats struct {
	Step, Kind string
	*operator.Stats
}

// Stats returns the counters of all sources, tables, steps and sinks. Any goroutine may call it.
func (c *Core) Stats() []StepStats { return nil }
