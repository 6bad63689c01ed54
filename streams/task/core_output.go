package task

import (
	"encoding/binary"
	"slices"
	"strconv"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/operator"
)

// outputs collects what the steps of a run want to write and gives it its order and sequence.
type outputs struct {
	core *Core
	// pending are the outputs of the current run in the order the steps made them.
	pending []pending
	// done are outputs in their final order, not taken yet.
	done []Output
	// seq is the last sequence given out.
	seq int64
	// control: what is reported now is outside the order of events.
	control bool
	told    map[string]told // of the snapshot, by repartition topic
	arena   operator.Arena
	headers headerArena
	scratch []byte
	// lane is that of the next output, if it has one.
	lane []byte
	// extra are the headers of one record beside its own and its lane.
	extra [3]record.Header
}

var _ operator.Reporter = (*outputs)(nil)

// pending is an output with the place of its cause.
type pending struct {
	order, time int64
	lane        []byte // value of its lane header, sequence not filled in; nil without one
	out         Output
}

// write encodes a batch for a sink and returns how many records it took.
func (o *outputs) write(n *nodeState, in *operator.Batch) (written int, err error) {
	s := n.spec.Sink
	o.pending = slices.Grow(o.pending, len(in.Records))
	for i := range in.Records {
		rec := &in.Records[i]
		key, value, err := s.Encode(rec)
		if s.Repartition {
			key = rec.Key
		}
		if err != nil {
			if err := n.ctx.Fail(rec, operator.ClassEncode, err); err != nil {
				return written, err
			}
			continue
		}
		topic, partitions, failed, err := o.core.route(n, rec)
		if failed != nil {
			err = n.ctx.Fail(rec, operator.ClassRoute, failed)
		}
		if err != nil {
			return written, err
		}
		if failed != nil {
			continue
		}
		partition := o.core.opts.Partition % partitions
		switch {
		case key != nil:
			partition = record.PartitionForKey(key, partitions)
		case s.Repartition: // a null key is only passed on to be spread
			partition = int32((rec.Order >> 1) % int64(partitions))
		}
		x := record.Record{Timestamp: rec.Timestamp, Key: key, Value: value, Headers: rec.Headers}
		if s.Repartition {
			o.sign(rec, &x, o.passOn(n, rec, &x))
		}
		o.add(rec, topic, partition, x)
		written++
	}
	return written, nil
}

// passOn returns the headers that carry origin, window and old value through a repartition topic.
// They are valid until the next call.
func (o *outputs) passOn(n *nodeState, rec *operator.Record, x *record.Record) []record.Header {
	if !n.spec.Sink.Repartition {
		return nil
	}
	extra := o.extra[:0]
	if rec.Windowed() {
		w := o.arena.Make(operator.WindowSize)
		operator.PutWindow(w, rec.Window)
		extra = append(extra, record.Header{Key: operator.HeaderWindow, Value: w})
	}
	if rec.Old != nil {
		o.scratch = operator.AppendOld(o.scratch[:0], encodedOld(rec.Old, n.spec.Sink.Encode))
		extra = append(extra, record.Header{Key: operator.HeaderOld, Value: o.arena.Copy(o.scratch)})
	}
	o.scratch = operator.AppendOrigin(o.scratch[:0], rec, x.Key, x.Value, x.Headers)
	return append(extra,
		record.Header{Key: operator.HeaderOrigin, Value: o.arena.Copy(o.scratch)})
}

// encodedOld is an old row whose value is what a sink would write.
func encodedOld(old *operator.Record, encode operator.EncodeFunc) *operator.Record {
	if !old.Dirty {
		return old
	}
	made := *old
	if _, value, err := encode(old); err == nil {
		made.Value = value
	}
	return &made
}

// sign makes the headers of x those it has, extra and the lane.
func (o *outputs) sign(rec *operator.Record, x *record.Record, extra []record.Header) {
	o.lane = o.arena.Make(laneFixed + len(o.core.writer))
	AppendLane(o.lane[:0], Lane{Writer: o.core.writer, W: rec.StreamTime})
	h := o.headers.make(len(x.Headers) + len(extra) + 1)
	copy(h, x.Headers)
	copy(h[len(x.Headers):], extra)
	h[len(h)-1] = record.Header{Key: LaneHeader, Value: o.lane}
	x.Headers = h
}

// add takes an output caused by rec.
func (o *outputs) add(rec *operator.Record, topic string, partition int32, x record.Record) {
	if o.lane == nil && o.core.opts.Topology.Sign {
		o.sign(rec, &x, nil)
	}
	p := pending{order: rec.Order, time: rec.StreamTime, lane: o.lane,
		out: Output{Topic: topic, Partition: partition, Record: x}}
	o.lane = nil
	if o.control {
		p.number(o.seq)
		p.out.Control = true
		o.done = append(o.done, p.out)
		return
	}
	o.pending = append(o.pending, p)
}

// number gives an output its sequence.
func (p *pending) number(seq int64) {
	if p.out.Seq = seq; p.lane != nil {
		binary.BigEndian.PutUint64(p.lane[laneSeqAt:], uint64(seq))
	}
}

// DeadLetter implements operator.Reporter.
func (o *outputs) DeadLetter(rec *operator.Record, d operator.DeadLetter) {
	t := o.core.opts.Topology
	o.aside(rec, d.Topic, d.Record(rec, t.App, t.ConfigHash))
}

// LateRecord implements operator.Reporter.
func (o *outputs) LateRecord(rec *operator.Record, topic string, late operator.LateReport) {
	o.aside(rec, topic, late.Record(rec))
}

// aside writes a record that left the stream.
func (o *outputs) aside(rec *operator.Record, topic string, x record.Record) {
	n := max(1, o.core.partitionsOf(topic, 0))
	partition := o.core.opts.Partition % n
	if x.Key != nil {
		partition = record.PartitionForKey(x.Key, n)
	}
	if x.Timestamp < 0 {
		x.Timestamp = max(0, rec.Timestamp)
	}
	o.add(rec, topic, partition, x)
}

// flush orders the outputs of a run by their cause and gives out sequences. Several steps write in
// turns, each for the whole batch; sorted, the order does not tell where batches were cut.
func (o *outputs) flush() {
	sorted := slices.IsSortedFunc(o.pending, comparePending)
	if !sorted {
		slices.SortStableFunc(o.pending, comparePending)
	}
	o.done = slices.Grow(o.done, len(o.pending))
	for i := range o.pending {
		p := &o.pending[i]
		// Numbered by the event, so that the numbers of later events do not depend on how
		// many outputs earlier ones had: a table row may have come sooner on another run.
		o.seq = max(o.seq+1, p.order>>1<<16)
		p.number(o.seq)
		o.done = append(o.done, p.out)
	}
	clear(o.pending)
	o.pending = o.pending[:0]
}

func comparePending(a, b pending) int {
	switch {
	case a.order < b.order || a.order == b.order && a.time < b.time:
		return -1
	case a.order == b.order && a.time == b.time:
		return 0
	}
	return 1
}

// TakeOutputs appends the outputs made since the last call to dst. Their bytes are not reused.
func (c *Core) TakeOutputs(dst []Output) []Output {
	dst = append(dst, c.out.done...)
	clear(c.out.done)
	c.out.done = c.out.done[:0]
	return dst
}

// Watermarks adds control outputs for the repartition topics whose readers do not know the time of
// this task yet. Call it before TakeOutputs at every commit: the time it tells covers only what
// was put out before.
func (c *Core) Watermarks() {
	now := told{W: c.now, Ended: c.Done(), Idle: len(c.lanes) > 0}
	for _, l := range c.lanes {
		if l.pending() > 0 || !l.ended && !l.idle {
			now.Idle = false
		}
	}
	for _, n := range c.nodes {
		if n.spec.Sink == nil || !n.spec.Sink.Repartition || n.told == now {
			continue
		}
		for p := range n.partitions {
			c.out.done = append(c.out.done, c.watermark(n.spec.Sink.Topic, p, now))
		}
		n.told = now
	}
}

// watermark makes the control record of one partition.
func (c *Core) watermark(topic string, partition int32, t told) Output {
	lane := AppendLane(nil, Lane{Writer: c.writer, Seq: c.out.seq, W: t.W, Control: true,
		Ended: t.Ended, Idle: t.Idle})
	return Output{Topic: topic, Partition: partition, Seq: c.out.seq, Control: true,
		Record: record.Record{Timestamp: max(0, c.lastTime), Headers: []record.Header{
			{Key: operator.HeaderWatermark, Value: strconv.AppendInt(nil, t.W, 10)},
			{Key: LaneHeader, Value: lane},
		}}}
}

// headerArena gives the headers of outputs their memory in large pieces, never twice; see
// operator.Arena.
type headerArena struct{ piece []record.Header }

// headersPiece is how many headers one allocation makes.
const headersPiece = 512

// make returns n headers.
func (a *headerArena) make(n int) []record.Header {
	if n > cap(a.piece)-len(a.piece) {
		a.piece = make([]record.Header, 0, max(n, headersPiece))
	}
	at := len(a.piece)
	a.piece = a.piece[:at+n]
	return a.piece[at : at+n : at+n]
}
