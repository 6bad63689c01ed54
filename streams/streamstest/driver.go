package streamstest

import (
	"fmt"
	"math/rand/v2"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/task"
	"github.com/millstream-io/millstream/streams/topology"
)

// Options choose how a topology is run.
type Options struct {
	// Partitions are the partition counts of the topics outside the topology; 1 if not named.
	Partitions map[string]int32
	// Batch is the most records read and processed at once; 0 is 256.
	Batch int
	// Rand, if not nil, chooses the task that runs next, how much it reads and processes, whether
	// it commits, and whether it crashes.
	Rand *rand.Rand
	// CrashEvery makes every n-th step of a task a crash, when Rand is set; 0 is never.
	CrashEvery int
}

// Driver runs all tasks of a topology over topics in memory.
type Driver struct {
	opts  Options
	topo  *topology.Topology
	logs  map[string][][]record.Record // by topic and partition; offsets are indexes
	tasks []*runner
	ended bool
}

// runner is one task.
type runner struct {
	d         *Driver
	sub       *topology.Sub
	partition int32
	stores    *Stores
	core      *task.Core
	read      map[place]int64 // next offset to read
	committed []byte          // snapshot, nil before the first commit
	outputs   []task.Output   // of the open transaction
}

// place is a topic partition.
type place struct {
	topic     string
	partition int32
}

// New builds the topology and starts its tasks.
func New(b *topology.Builder, o Options) (*Driver, error) {
	if o.Batch <= 0 {
		o.Batch = 256
	}
	d := &Driver{opts: o, logs: map[string][][]record.Record{}}
	topo, err := b.Build(d.partitions)
	if err != nil {
		return nil, fmt.Errorf("build: %w", err)
	}
	d.topo = topo
	for _, x := range topo.InternalTopics() {
		d.logs[x.Name] = make([][]record.Record, x.Partitions)
	}
	for _, sub := range topo.Subs {
		for p := range sub.Partitions {
			r := &runner{d: d, sub: sub, partition: p, stores: NewStores()}
			if err := r.start(); err != nil {
				return nil, err
			}
			d.tasks = append(d.tasks, r)
		}
	}
	return d, nil
}

// partitions makes topics as they are asked for.
func (d *Driver) partitions(topic string) int32 {
	if d.logs[topic] == nil {
		d.logs[topic] = make([][]record.Record, max(1, d.opts.Partitions[topic]))
	}
	return int32(len(d.logs[topic]))
}

// start makes the core from the last commit.
func (r *runner) start() error {
	r.stores.Rollback()
	core, err := task.NewCore(task.CoreOptions{Topology: r.d.topo, Sub: r.sub,
		Partition: r.partition, Stores: r.stores, Partitions: r.d.partitions,
		Snapshot: r.committed})
	if err != nil {
		return fmt.Errorf("start task: %w", err)
	}
	r.core, r.outputs = core, nil
	r.read = map[place]int64{}
	for _, in := range core.Inputs() {
		r.read[place{in.Topic, in.Partition}] = in.Offset
	}
	return nil
}

// Feed appends records to a partition of a topic. Offsets are assigned.
func (d *Driver) Feed(topic string, partition int32, recs ...record.Record) {
	d.partitions(topic)
	log := &d.logs[topic][partition]
	for _, r := range recs {
		r.Offset = int64(len(*log))
		*log = append(*log, r)
	}
}

// Send appends one record with a string key and value to the partition of its key. A value of ""
// is null.
func (d *Driver) Send(topic, key, value string, timestamp int64) {
	r := record.Record{Key: []byte(key), Timestamp: timestamp}
	if value != "" {
		r.Value = []byte(value)
	}
	d.Feed(topic, record.PartitionForKey(r.Key, d.partitions(topic)), r)
}

// EndOfInput declares that the topics outside the topology end where they are.
func (d *Driver) EndOfInput() { d.ended = true }

// AdvanceTo moves event time: no record with a timestamp below ts follows in any source. Run must
// have processed everything before.
func (d *Driver) AdvanceTo(ts int64) {
	for _, r := range d.tasks {
		for _, in := range r.core.Inputs() {
			r.core.AdvanceTime(in.Topic, in.Partition, ts)
		}
	}
}

// Crash makes all tasks lose what they did not commit and start again from their last commit.
func (d *Driver) Crash() error {
	for _, r := range d.tasks {
		if err := r.start(); err != nil {
			return err
		}
	}
	return nil
}

// Run lets all tasks work until nothing is left to do, and commits.
func (d *Driver) Run() error {
	if d.opts.Rand != nil {
		if err := d.runRandomly(); err != nil {
			return err
		}
	}
	for {
		moved := false
		for _, r := range d.tasks {
			m, err := r.work()
			if err != nil {
				return err
			}
			moved = moved || m
		}
		if !moved {
			return nil
		}
	}
}

// runRandomly makes as many random steps as it takes for every task to have had many turns.
func (d *Driver) runRandomly() error {
	total := 0
	for _, parts := range d.logs {
		for _, log := range parts {
			total += len(log)
		}
	}
	rnd := d.opts.Rand
	for range len(d.tasks) * (total + 10) {
		r := d.tasks[rnd.IntN(len(d.tasks))]
		ins := r.core.Inputs()
		in := ins[rnd.IntN(len(ins))]
		if err := r.readSome(in, rnd.IntN(d.opts.Batch)+1); err != nil {
			return err
		}
		if _, err := r.core.Run(rnd.IntN(d.opts.Batch) + 1); err != nil {
			return fmt.Errorf("run task %s: %w", r.core.Writer(), err)
		}
		if rnd.IntN(2) == 0 {
			r.outputs = r.core.TakeOutputs(r.outputs)
		}
		if rnd.IntN(2) == 0 {
			r.commit()
		}
		if d.opts.CrashEvery > 0 && rnd.IntN(d.opts.CrashEvery) == 0 {
			// All at once, as the tasks of one process: an end is told anew in each run.
			if err := d.Crash(); err != nil {
				return err
			}
		}
	}
	return nil
}

// readSome hands at most limit records of one input to the core.
func (r *runner) readSome(in task.Input, limit int) error {
	at := place{in.Topic, in.Partition}
	log := r.d.logs[in.Topic][in.Partition]
	from := r.read[at]
	to := min(from+int64(limit), int64(len(log)))
	recs := make([]record.Record, 0, to-from)
	recs = append(recs, log[from:to]...)
	if err := r.core.Add(in.Topic, in.Partition, recs, to); err != nil {
		return err
	}
	r.read[at] = to
	if to < int64(len(log)) {
		return nil
	}
	switch {
	case in.Kind == task.TableInput:
		r.core.TableReady(in.Topic, in.Partition)
	case r.d.ended && !in.Repartition:
		r.core.EndOfInput(in.Topic, in.Partition)
	}
	return nil
}

// work reads and processes everything there is for one task and commits. Tables come first.
func (r *runner) work() (moved bool, err error) {
	before := fmt.Sprint(r.read, string(r.committed))
	for _, kind := range []task.InputKind{task.TableInput, task.StreamInput} {
		for _, in := range r.core.Inputs() {
			if in.Kind != kind {
				continue
			}
			end := int64(len(r.d.logs[in.Topic][in.Partition]))
			for first := true; first || r.read[place{in.Topic, in.Partition}] < end; first = false {
				if err := r.readSome(in, r.d.opts.Batch); err != nil {
					return false, err
				}
			}
		}
	}
	for {
		n, err := r.core.Run(r.d.opts.Batch)
		if err != nil {
			return false, fmt.Errorf("run task %s: %w", r.core.Writer(), err)
		}
		if n < r.d.opts.Batch {
			break
		}
	}
	r.commit()
	return fmt.Sprint(r.read, string(r.committed)) != before, nil
}

// commit makes outputs, state and positions permanent together.
func (r *runner) commit() {
	r.core.Watermarks()
	r.outputs = r.core.TakeOutputs(r.outputs)
	for _, o := range r.outputs {
		r.d.Feed(o.Topic, o.Partition, o.Record)
	}
	r.outputs = r.outputs[:0]
	r.committed = r.core.Snapshot()
	r.stores.Commit()
}

// Output returns the records of a topic, partition by partition, without the lane headers.
func (d *Driver) Output(topic string) []Record {
	var list []Record
	for p, log := range d.logs[topic] {
		for _, r := range log {
			list = append(list, Record{Partition: int32(p), Record: visible(r)})
		}
	}
	return list
}

// Log returns the records of a topic partition as they are, lane headers and control records
// included.
func (d *Driver) Log(topic string, partition int32) []record.Record {
	return d.logs[topic][partition]
}

// Stats returns the counters of all tasks, upstream first. They restart with a crash.
func (d *Driver) Stats() []task.StepStats {
	var list []task.StepStats
	for _, r := range d.tasks {
		list = append(list, r.core.Stats()...)
	}
	return list
}

// Done reports that the input has ended and all tasks have processed it.
func (d *Driver) Done() bool {
	for _, r := range d.tasks {
		if !r.core.Done() {
			return false
		}
	}
	return true
}
