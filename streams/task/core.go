package task

import (
	"fmt"
	"sync/atomic"
	"time"

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
	// Route makes a topic that a record names if it is not there, and returns the number of its
	// partitions. nil takes Partitions, or 1.
	Route func(topic string) (int32, error)
	// Snapshot restores a Core; nil starts at the beginning of every input.
	Snapshot []byte
	// Decisions about idle lanes of an earlier run over the same input, to be made again.
	Decisions []Decision
	// Clock measures how long steps take, for their counters alone; nil does not measure.
	Clock func() time.Time
	// MaxBuffered bounds the bytes of unprocessed records before Paused names partitions to
	// pause; 0 is 2 MiB.
	MaxBuffered int64

	// taps are where others may look on; nil is nowhere.
	taps *tapPoints
}

// defaultMaxBuffered is the bound of unprocessed records of one task: 2 MiB.
const defaultMaxBuffered = 2 << 20

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
	// Ready: a table that was read to its end once, see Core.TableReady. True for streams.
	Ready bool
	// Repartition: the topic belongs to the topology; records before Offset may be deleted once
	// it is committed.
	Repartition bool
	// Watermark is the time of the partition: no record before it is expected any more. It is
	// operator.NoTime before the first record, and for a table.
	Watermark int64
}

// Output is a record to be written.
type Output struct {
	Topic     string
	Partition int32
	// Seq is the sequence of the record in its writer (Core.Writer): strictly increasing over
	// all outputs of the task, with gaps, and a function of the stream inputs alone.
	Seq int64
	// Control marks an output outside the sequence: a watermark, or the dead letter of a table
	// record or of a foreign record. It repeats the sequence before it and is never a duplicate.
	Control bool
	Record  record.Record
}

// Core is the deterministic heart of a task: records in, records out. It reads no clock, no disk
// and no network. It belongs to one goroutine; only Stats and StreamTime may be read by others.
type Core struct {
	opts   CoreOptions
	writer string
	name   string // <sub>.<partition>
	closes bool   // the end of bounded input closes windows

	inputs []*coreInput // sources in order of (ordinal, partition), then tables
	byName map[inputName]*coreInput
	lanes  []*lane // in order of (ordinal, partition, writer), which breaks ties of time
	// waiting counts table inputs that are not ready.
	waiting int
	// buffered counts the records and bytes added and not processed.
	buffered struct {
		records int
		bytes   int64
	}

	now  int64        // S
	time atomic.Int64 // S as others see it: that after the last run
	// lastTime is the last S that was neither NoTime nor EndOfTime: the timestamp of watermarks.
	lastTime int64
	// eventTime is S as it was at the last event.
	eventTime int64
	// events is the number of stream records processed since the beginning, bad ones included.
	events int64
	// runs counts Runs that did something: one in busySample is measured.
	runs uint64
	// wall is the machine's time as it was told, wallDone the last that steps have seen.
	wall, wallDone int64
	// steps are the moves of S in the current run.
	steps []operator.TimeStep

	sources []*sourceState
	nodes   []*nodeState
	out     outputs
	stats   []StepStats
	// counts are the counters of the snapshot, until the steps are made.
	counts []operator.Counts
}

// inputName finds an input.
type inputName struct {
	topic     string
	partition int32
}

// NewCore makes the core of one task, restored when there is a snapshot. It fails when the
// topology and the snapshot or the existing topics do not fit each other.
func NewCore(opts CoreOptions) (*Core, error) {
	if opts.MaxBuffered <= 0 {
		opts.MaxBuffered = defaultMaxBuffered
	}
	c := &Core{opts: opts, closes: opts.Topology.CloseAtEnd, byName: map[inputName]*coreInput{}}
	if opts.taps == nil {
		c.opts.taps = &tapPoints{}
	}
	c.name = fmt.Sprintf("%s.%d", opts.Sub.Name, opts.Partition)
	c.writer = topology.Writer(opts.Topology.App, opts.Sub.Name, opts.Partition)
	c.now = operator.NoTime
	c.time.Store(c.now)
	c.eventTime = operator.NoTime
	c.out.core = c
	c.makeInputs()
	if opts.Snapshot != nil {
		if err := c.restore(opts.Snapshot); err != nil {
			return nil, fmt.Errorf("restore task %s: %w", c.writer, err)
		}
	}
	c.repeatDecisions()
	if err := c.makeSteps(); err != nil {
		return nil, fmt.Errorf("make task %s: %w", c.writer, err)
	}
	for _, in := range c.inputs {
		if in.table != nil && !in.ready {
			c.waiting++
		}
	}
	return c, nil
}

// Writer returns the name under which the task writes: <app>.<sub>.<partition>.
func (c *Core) Writer() string { return c.writer }

// StreamTime returns the time of the task. Any goroutine may call it.
func (c *Core) StreamTime() int64 { return c.time.Load() }

// Run processes at most limit records and fires what is due. It returns how many were processed;
// fewer than limit means that nothing more can be processed now. After an error the Core must
// not be used: nothing since the last commit counts.
func (c *Core) Run(limit int) (n int, err error) {
	if c.waiting > 0 {
		return 0, nil
	}
	for _, s := range c.sources {
		s.batch.Reset()
	}
	c.steps = c.steps[:0]
	n, err = c.fill(limit)
	if err != nil {
		return n, err
	}
	before := c.now
	c.advance(c.bound())
	c.time.Store(c.now)
	if n == 0 && c.now == before && c.wall == c.wallDone {
		return 0, nil
	}
	c.wallDone = c.wall
	if err := c.runSteps(); err != nil {
		return n, err
	}
	c.out.flush()
	return n, nil
}

// WantsWall tells that a step asks for the machine's clock.
func (c *Core) WantsWall() bool {
	for i := range c.opts.Sub.Nodes {
		if c.opts.Sub.Nodes[i].WallClock {
			return true
		}
	}
	return false
}

// SetWall tells the machine's time, in ms, to the steps that ask for it. It never goes back.
func (c *Core) SetWall(ms int64) { c.wall = max(c.wall, ms) }

// advance sets S, which never goes back.
func (c *Core) advance(s int64) {
	if s <= c.now {
		return
	}
	c.now = s
	c.steps = append(c.steps, operator.TimeStep{Time: s, Order: 2 * c.events})
	if s != operator.EndOfTime && s != operator.NoTime {
		c.lastTime = s
	}
}

// event tells the steps that the next record is about to be processed.
func (c *Core) event() {
	s := c.now
	switch n := len(c.steps); {
	case s <= c.eventTime:
		return
	case n > 0 && c.steps[n-1].Time == s:
		c.steps[n-1].Event = true
	default: // a watermark had moved time there before
		c.steps = append(c.steps, operator.TimeStep{Time: s, Order: 2 * c.events, Event: true})
	}
	c.eventTime = s
}

// Done reports that all stream inputs have ended and everything was processed. A task downstream
// learns the end from watermarks.
func (c *Core) Done() bool {
	for _, l := range c.lanes {
		if !l.ended || l.pending() > 0 {
			return false
		}
	}
	return c.waiting == 0 && c.bound() <= c.now
}

// StepStats is a step and its counters, which move while the task runs.
type StepStats struct {
	Step, Kind string
	// Stores are those the step keeps its state in.
	Stores []string
	*operator.Stats
	// Work is what the step did in this process.
	Work Work
	// began are the counters with which the step was made.
	began operator.Counts
}

// Stats returns the counters of all sources, tables, steps and sinks. Any goroutine may call it.
func (c *Core) Stats() []StepStats { return c.stats }
