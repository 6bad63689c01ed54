package task

import (
	"fmt"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/eventtime"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/state"
	"github.com/millstream-io/millstream/streams/topology"
)

// coreInput is one topic partition the task reads.
type coreInput struct {
	from   operator.Input // shared by all records of the input
	next   int64          // offset after everything added
	source *topology.Source
	table  *topology.Table
	ready  bool // table: read to its end once
	// lanes are those of a stream input: one, or one per writer of a repartition topic.
	lanes []*lane
	// byWriter finds the lane of a writer in a repartition topic.
	byWriter map[string]*lane
	store    state.Store       // of a table
	ctx      *operator.Context // of the source or table, for bad records
}

// sourceState is one source of the Sub with the batch of the current run.
type sourceState struct {
	spec  *topology.Source
	ctx   *operator.Context
	batch operator.Batch
	taken int64 // records of the current run, bad ones included
	tap   *TapPoint
}

// makeInputs lists what the task reads and makes the lanes, at the beginning of everything.
func (c *Core) makeInputs() {
	sub, task := c.opts.Sub, c.opts.Partition
	for i := range sub.Sources {
		s := &sub.Sources[i]
		_, tap := c.opts.taps.of(s.ID)
		c.sources = append(c.sources, &sourceState{spec: s, tap: tap})
		if task >= s.Partitions {
			continue
		}
		in := c.addInput(s.Topic, task)
		in.source, in.ready = s, true
		if !s.Repartition() {
			c.addLane(in, i, "")
			continue
		}
		in.byWriter = map[string]*lane{}
		for _, w := range s.Writers {
			in.byWriter[w] = c.addLane(in, i, w)
		}
	}
	for i := range sub.Tables {
		t := &sub.Tables[i]
		for p := range t.Partitions {
			if t.Broadcast || p == task {
				c.addInput(t.Topic, p).table = t
			}
		}
	}
}

func (c *Core) addInput(topic string, partition int32) *coreInput {
	in := &coreInput{from: operator.Input{Topic: topic, Partition: partition}}
	c.inputs = append(c.inputs, in)
	c.byName[inputName{topic, partition}] = in
	return in
}

func (c *Core) addLane(in *coreInput, ordinal int, writer string) *lane {
	l := &lane{in: in, ordinal: ordinal, writer: writer, w: operator.NoTime,
		floor:     operator.NoTime,
		processed: mark{max: operator.NoTime, eff: operator.NoTime, offset: -1},
		clock:     eventtime.NewClock(in.source.Disorder)}
	s := in.source
	l.plain = !s.Repartition() && s.RecordTime && s.Disorder == 0 && s.Check == nil
	in.lanes = append(in.lanes, l)
	c.lanes = append(c.lanes, l)
	return l
}

// Inputs returns the topic partitions the task reads and where to read on. Offset is the first
// record not processed, so it can be below what was added.
func (c *Core) Inputs() []Input {
	list := make([]Input, 0, len(c.inputs))
	for _, in := range c.inputs {
		x := Input{Topic: in.from.Topic, Partition: in.from.Partition, Offset: in.position(),
			Ready: in.ready, Watermark: in.watermark()}
		if in.table != nil {
			x.Kind = TableInput
		} else {
			x.Repartition = in.source.Repartition()
		}
		list = append(list, x)
	}
	return list
}

// watermark returns the time of the slowest lane.
func (in *coreInput) watermark() int64 {
	if len(in.lanes) == 0 {
		return operator.NoTime
	}
	w := operator.EndOfTime
	for _, l := range in.lanes {
		if in.byWriter != nil {
			w = min(w, l.w)
		} else {
			w = min(w, l.clock.W())
		}
	}
	return w
}

// position returns the offset of the first record not processed.
func (in *coreInput) position() int64 {
	at := in.next
	for _, l := range in.lanes {
		at = min(at, l.firstOffset(at))
	}
	return at
}

// Position returns the offset of the first record of a partition that is not processed.
func (c *Core) Position(topic string, partition int32) int64 {
	if in := c.byName[inputName{topic, partition}]; in != nil {
		return in.position()
	}
	return -1
}

// Transient reports whether no step keeps anything of a record beyond its batch, and none sorts.
func (c *Core) Transient() bool {
	for _, n := range c.opts.Sub.Nodes {
		if n.Sink == nil && !n.Transient {
			return false
		}
	}
	for _, s := range c.opts.Sub.Sources {
		if s.Disorder > 0 {
			return false
		}
	}
	return true
}

// Add hands over records read from a partition. next is the offset after them, with gaps and
// control records counted. The Core keeps recs and their bytes. Add never refuses; see Paused.
// Records below the position already added are ignored.
func (c *Core) Add(topic string, partition int32, recs []record.Record, next int64) error {
	in, err := c.input(topic, partition)
	if err != nil {
		return fmt.Errorf("add %d records: %w", len(recs), err)
	}
	for i := range recs {
		r := &recs[i]
		if r.Offset < in.next {
			continue
		}
		switch {
		case in.table != nil:
			err = c.addTableRow(in, r)
		case in.source.Repartition():
			err = c.addRepartitioned(in, r)
		default:
			err = c.addStream(in.lanes[0], r)
		}
		if err != nil {
			return err
		}
		in.next = r.Offset + 1
	}
	in.next = max(in.next, next)
	return nil
}

func (c *Core) input(topic string, partition int32) (*coreInput, error) {
	in := c.byName[inputName{topic, partition}]
	if in == nil {
		return nil, fmt.Errorf("task %s does not read %s-%d", c.writer, topic, partition)
	}
	return in, nil
}

// addStream queues a record of an external topic.
func (c *Core) addStream(l *lane, r *record.Record) error {
	l.ended, l.idle = false, false
	if l.clock.Disorder == 0 {
		c.enqueue(l, item{rec: r})
		return nil
	}
	l.repeat(r.Offset)
	before := l.clock.Max
	var h held
	l.read(&h, r)
	done := place{eff: l.processed.eff, offset: l.processed.offset}
	if r.Offset < l.rereadTo && !done.less(place{eff: h.eff, offset: r.Offset}) {
		return nil // processed before the restart, out of the order of offsets
	}
	l.sorted.push(h, before)
	c.count(r, 1)
	return nil
}

// addRepartitioned queues a record of a repartition topic or takes the time it carries.
func (c *Core) addRepartitioned(in *coreInput, r *record.Record) error {
	value, _ := r.Header(LaneHeader)
	id, writer, err := parseLane(value)
	l := in.byWriter[string(writer)]
	if err == nil && l == nil {
		err = fmt.Errorf("%w: unknown writer %q", ErrLane, writer)
	}
	if err != nil {
		return c.failAside(in, r, operator.ClassDecode, fmt.Errorf(
			"%w; only tasks of pipeline %q may write to this topic", err, c.opts.Topology.App))
	}
	l.w = max(l.w, id.W)
	if id.Control {
		l.ended, l.idle = id.Ended, id.Idle
		l.seq = max(l.seq, id.Seq)
		return nil
	}
	if id.Seq <= l.seq {
		in.ctx.Stats().Duplicates.Add(1)
		return nil
	}
	l.repeat(id.Seq - 1)
	l.seq, l.ended, l.idle = id.Seq, false, false
	c.enqueue(l, item{rec: r, seq: id.Seq, w: max(id.W, l.floor)})
	return nil
}

// enqueue puts a record at the end of a lane. One that others wait for is never empty, so what was
// taken from its front makes room before it grows.
func (c *Core) enqueue(l *lane, it item) {
	if len(l.queue) == cap(l.queue) && 2*l.first >= len(l.queue) {
		n := copy(l.queue, l.queue[l.first:])
		clear(l.queue[n:])
		l.queue, l.first = l.queue[:n], 0
	}
	l.queue = append(l.queue, it)
	c.count(it.rec, 1)
}

// recordOverhead is what an unprocessed record costs beside its bytes.
const recordOverhead = 96

// count adds (n = 1) or removes (n = -1) a record from the buffer's size.
func (c *Core) count(r *record.Record, n int) {
	c.buffered.records += n
	c.buffered.bytes += int64(n) * int64(recordOverhead+len(r.Key)+len(r.Value))
}

// Buffered returns the number and bytes of records read and not processed.
func (c *Core) Buffered() (records int, bytes int64) {
	return c.buffered.records, c.buffered.bytes
}

// record fills rec, which is zero, with what steps see of a record that was read.
func (in *coreInput) record(rec *operator.Record, r *record.Record) {
	rec.Key, rec.Value, rec.Timestamp = r.Key, r.Value, r.Timestamp
	rec.Raw, rec.From = r, &in.from
	if len(r.Headers) == 0 {
		return
	}
	rec.Headers = operator.VisibleHeaders(r.Headers)
	if in.source != nil && in.source.Repartition() {
		if w, ok := r.Header(operator.HeaderWindow); ok {
			rec.Window = operator.ParseWindow(w)
		}
		if b, ok := r.Header(operator.HeaderOld); ok {
			rec.Old = operator.ParseOld(b, r.Key)
		}
	}
}

// TableReady tells that a table partition was read to the end it had when the task started. No
// stream record is processed before every table partition is ready.
func (c *Core) TableReady(topic string, partition int32) {
	in := c.byName[inputName{topic, partition}]
	if in != nil && in.table != nil && !in.ready {
		in.ready = true
		c.waiting--
	}
}

// EndOfInput tells that a bounded partition was read to its end. Buffered records are still
// processed; the partition holds up nobody. If the topology closes at the end, time goes to
// EndOfTime when all partitions have ended. Another record of the partition takes it back, but
// not the time.
func (c *Core) EndOfInput(topic string, partition int32) {
	if in := c.byName[inputName{topic, partition}]; in != nil {
		for _, l := range in.lanes {
			l.ended = true
		}
	}
}

// Idle tells that a partition is taken to have no records for now: Decide lets others go on without
// it. Its next record ends that.
func (c *Core) Idle(topic string, partition int32) {
	if in := c.byName[inputName{topic, partition}]; in != nil {
		for _, l := range in.lanes {
			l.idle = true
		}
	}
}

// AdvanceTime tells that no record with an event time below ts follows in a partition of an
// external topic. It counts for nothing while records of the partition wait to be processed.
func (c *Core) AdvanceTime(topic string, partition int32, ts int64) {
	in := c.byName[inputName{topic, partition}]
	if in == nil || in.table != nil || in.source.Repartition() {
		return
	}
	l := in.lanes[0]
	if l.pending() == 0 {
		l.clock.Max = max(l.clock.Max, ts+l.clock.Disorder)
	}
}
