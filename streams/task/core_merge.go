package task

import (
	"fmt"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/eventtime"
	"github.com/millstream-io/millstream/streams/operator"
)

// lane is the records of one writer in one input partition. A topic of the outside world counts as
// having one writer. Within a lane records come out by rising effective time.
type lane struct {
	in      *coreInput
	ordinal int // of the source in the Sub
	writer  string
	// plain: the effective time of a record is its timestamp or the time of the lane, and nothing is
	// to be checked.
	plain bool

	// queue[first:] are records not processed, in offset order (disorder 0).
	queue []item
	first int
	// next is the record at the front of the queue, once it was looked at.
	next held
	// sorted holds records not processed when the source has disorder.
	sorted sortBuffer

	// clock is the time of an external partition as far as it was looked at.
	clock eventtime.Clock
	// w is the time of the writer of a repartition lane as far as it was read.
	w int64
	// seq is the last sequence of a repartition lane that was taken.
	seq int64
	// ended: bounded input was read to its end. idle: there may be nothing for a while; the task
	// waits until it is decided (Core.Decide) to go on without.
	ended, idle bool
	// floor is the time a decision gave a repartition lane; no record comes before it.
	floor int64
	// decisions are those of an earlier run that are still to be repeated, in order.
	decisions []Decision
	// processed is how far the lane has come; with the offsets it is all a restart needs.
	processed mark
	// rereadTo: records below this offset were read before the last restart, and those of them up
	// to processed (in the order of the sort buffer) were processed.
	rereadTo int64
}

// mark is the state of a lane behind its last processed record.
type mark struct {
	// max is the largest event time (external) or the time of the writer (repartition).
	max int64
	seq int64 // of the writer (repartition)
	// eff and offset are those of the last record processed (disorder > 0): all records up to
	// them in this order are processed.
	eff, offset int64
}

// item is a queued record.
type item struct {
	rec    *record.Record
	seq, w int64 // from the lane header of a repartitioned record
}

// held is a record with its place in the merge.
type held struct {
	rec operator.Record
	eff int64
	ok  bool  // there is a record
	bad error // its event time could not be told
	// skip: a bad record that is only counted.
	skip bool
	// before is clock.Max before this record, seq its sequence, w the writer's time.
	before, seq, w int64
}

// pending returns how many records wait in the lane.
func (l *lane) pending() int { return len(l.queue) - l.first + l.sorted.len() }

// firstOffset returns the offset of the first unprocessed record, fallback if there is none.
func (l *lane) firstOffset(fallback int64) int64 {
	if l.first < len(l.queue) {
		return l.queue[l.first].rec.Offset
	}
	return l.sorted.firstOffset(fallback)
}

// read fills h with a record of an external topic: tells its event time and moves the clock.
func (l *lane) read(h *held, r *record.Record) {
	*h = held{ok: true, before: l.clock.Max}
	l.in.record(&h.rec, r)
	s := l.in.source
	ts, err := eventtime.Extract(s.Timestamp, &h.rec)
	if err != nil {
		switch {
		case s.Bad == eventtime.BadSkip:
			h.skip, h.bad = true, err
		case s.Bad == eventtime.BadPartitionTime && l.clock.Max != operator.NoTime:
			ts = l.clock.Max
		default:
			h.bad = err
		}
	}
	if h.bad != nil {
		h.eff = l.clock.W() // takes its place, moves no time
		return
	}
	h.rec.Timestamp = ts
	h.eff = l.clock.Observe(ts)
}

// head returns the next record of the lane, nil when there is none that can be told to be next.
func (l *lane) head() *held {
	if len(l.decisions) > 0 && l.first == len(l.queue) {
		l.repeat(l.position())
	}
	if l.next.ok {
		return &l.next
	}
	if l.first < len(l.queue) {
		it := &l.queue[l.first]
		if l.in.byWriter == nil {
			l.repeat(it.rec.Offset)
			l.read(&l.next, it.rec)
			return &l.next
		}
		l.next = held{ok: true, seq: it.seq, w: it.w}
		l.in.record(&l.next.rec, it.rec)
		l.next.eff = max(it.w, l.next.rec.Timestamp)
		return &l.next
	}
	if h := l.sorted.peek(); h != nil && (h.eff <= l.clock.W() || l.ended) {
		return h
	}
	return nil
}

// time returns the lower bound of the effective time of records not read yet; ok is false when
// nobody has to wait for this lane.
func (l *lane) time(closes bool) (w int64, ok bool) {
	switch {
	case l.ended && l.in.byWriter != nil:
		return l.w, l.w == operator.EndOfTime
	case l.ended && closes:
		return operator.EndOfTime, true
	case l.ended:
		return 0, false
	case l.in.byWriter != nil:
		return l.w, true
	}
	return l.clock.W(), true
}

// take removes the head.
func (l *lane) take(h *held) {
	if l.sorted.len() > 0 {
		l.processed.eff, l.processed.offset = h.eff, h.rec.Raw.Offset
		l.sorted.pop()
		return
	}
	if l.in.byWriter != nil {
		l.processed.seq, l.processed.max = h.seq, max(l.processed.max, h.w)
	}
	l.next.ok = false
	l.queue[l.first].rec = nil
	if l.first++; l.first == len(l.queue) {
		l.queue, l.first = l.queue[:0], 0
	}
}

// earlier reports whether lane a at time wa comes before lane b at time wb.
func earlier(wa int64, a int, wb int64, b int) bool { return wa < wb || wa == wb && a < b }

// choose returns the lane whose record is next and the place up to which it may go on without
// asking again. ok is false when the next record is not known yet.
func (c *Core) choose() (best int, limitTime int64, limitLane int, ok bool) {
	best, limitLane = -1, len(c.lanes)
	bestTime := int64(0)
	limitTime = operator.EndOfTime
	for i, l := range c.lanes {
		t, wait := int64(0), false
		if h := l.head(); h != nil {
			t, wait = h.eff, true
		} else {
			t, wait = l.time(c.closes)
		}
		switch {
		case !wait:
		case best < 0 || t < bestTime:
			if best >= 0 {
				limitTime, limitLane = bestTime, best
			}
			best, bestTime = i, t
		case earlier(t, i, limitTime, limitLane):
			limitTime, limitLane = t, i
		}
	}
	return best, limitTime, limitLane, best >= 0 && c.lanes[best].head() != nil
}

// fill moves up to limit records into the batches of their sources, in the order of effective
// time, source, partition, writer and sequence.
func (c *Core) fill(limit int) (n int, err error) {
	for n < limit {
		i, limitTime, limitLane, ok := c.choose()
		if !ok {
			return n, nil
		}
		l := c.lanes[i]
		for n < limit {
			h := l.head()
			if h == nil || !earlier(h.eff, i, limitTime, limitLane) {
				break
			}
			if err := c.process(l, h); err != nil {
				return n, err
			}
			n++
			if l.plain && len(l.decisions) == 0 {
				n += c.processPlain(l, i, limit-n, limitTime, limitLane)
			}
		}
	}
	return n, nil
}

// processPlain is process for at most limit records of lane i, which is plain and not looked at: as
// long as they come before the limit and nothing is special about them.
func (c *Core) processPlain(l *lane, i, limit int, limitTime int64, limitLane int) (n int) {
	s := c.sources[l.ordinal]
	for n < limit && l.first < len(l.queue) {
		r := l.queue[l.first].rec
		if r.Timestamp < 0 || r.Timestamp > eventtime.Largest {
			break
		}
		eff := max(r.Timestamp, l.clock.Max)
		if !earlier(eff, i, limitTime, limitLane) {
			break
		}
		l.clock.Max = eff
		c.advance(eff)
		c.event()
		rec := s.batch.Next()
		l.in.record(rec, r)
		rec.StreamTime, rec.Order = c.now, 2*c.events+1
		c.events++
		c.count(r, -1)
		l.queue[l.first].rec = nil
		l.first++
		n++
	}
	s.taken += int64(n)
	if l.first == len(l.queue) {
		l.queue, l.first = l.queue[:0], 0
	}
	return n
}

// process makes the head of a lane the next event.
func (c *Core) process(l *lane, h *held) error {
	c.advance(h.eff)
	c.event()
	s := c.sources[l.ordinal]
	h.rec.StreamTime, h.rec.Order = c.now, 2*c.events+1
	c.events++
	c.count(h.rec.Raw, -1)
	s.taken++
	var err error
	switch {
	case h.bad == nil:
		err = c.pass(s, &h.rec)
	case h.skip:
		s.ctx.Stats().Dropped.Add(1)
	default:
		err = s.ctx.Fail(&h.rec, operator.ClassTimestamp, fmt.Errorf("event time: %w", h.bad))
	}
	l.take(h)
	return err
}

// pass gives a record to the steps that read its source.
func (c *Core) pass(s *sourceState, rec *operator.Record) error {
	if s.spec.Check != nil {
		if err := s.spec.Check(rec); err != nil {
			return s.ctx.Fail(rec, operator.ClassDecode, err)
		}
	}
	s.batch.Append(rec)
	return nil
}

// bound returns the time up to which everything was processed: the least time of all lanes, or S
// when nobody waits for any of them.
func (c *Core) bound() int64 {
	w, any := operator.EndOfTime, false
	for _, l := range c.lanes {
		if h := l.head(); h != nil {
			w, any = min(w, h.eff), true
		} else if t, ok := l.time(c.closes); ok {
			w, any = min(w, t), true
		}
	}
	if !any {
		return c.now
	}
	return w
}

// Paused appends the inputs that should not be read on because records of slower inputs are
// awaited and the buffer is full. It never names an input that is itself awaited.
func (c *Core) Paused(dst []Input) []Input {
	full, skewed := c.buffered.bytes > c.opts.MaxBuffered, false
	for _, in := range c.inputs {
		skewed = skewed || in.table == nil && in.source.MaxSkew > 0
	}
	if !full && !skewed {
		return dst
	}
	least := c.bound()
	for _, in := range c.inputs {
		if in.table == nil && (full && in.pausable(c.waiting > 0) || in.tooFar(least)) {
			dst = append(dst, Input{Topic: in.from.Topic, Partition: in.from.Partition})
		}
	}
	return dst
}

// tooFar reports whether the input has records that are further than its MaxSkew ahead of the
// slowest one. What is behind them in the partition can wait.
func (in *coreInput) tooFar(least int64) bool {
	if in.source.MaxSkew == 0 || in.byWriter != nil || in.lanes[0].pending() == 0 {
		return false
	}
	at := in.lanes[0].clock.W()
	if h := in.lanes[0].head(); h != nil {
		at = h.eff
	}
	return at > least && (least == operator.NoTime || at-least > in.source.MaxSkew)
}

// pausable reports whether no lane of the input is the one others wait for.
func (in *coreInput) pausable(waitForTables bool) bool {
	queued := 0
	for _, l := range in.lanes {
		queued += l.pending()
		if l.head() == nil && !l.ended && !waitForTables {
			return false
		}
	}
	return queued > 0
}
