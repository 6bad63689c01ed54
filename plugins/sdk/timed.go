package sdk

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/plugins/pluginpb"
)

// Timer is a timer of a key.
type Timer struct {
	Key []byte
	// Name tells the timers of a key apart: to set one again is to move it.
	Name string
	// At is when it was due, in UTC.
	At time.Time
	// Data is what was given with it.
	Data []byte
	// Wall: it was one of the machine's clock.
	Wall bool
}

// Timed is an operator with timers.
type Timed[C any] struct {
	// Each gets every record. Timers of event time that are due at its time have fired before.
	Each func(TimerCtx, C, *Record, Emit) error
	// OnTimer gets every timer that is due. What it does counts once, with the commit of the task: a
	// timer whose commit fails fires again.
	OnTimer func(TimerCtx, C, Timer, Emit) error
}

// TimerCtx is a Ctx for the record or timer at hand, whose key the timers are of.
type TimerCtx struct {
	Ctx
	op  *timedOp
	key []byte
}

// StreamTime is the event time up to which everything was processed, the zero time before any.
func (t TimerCtx) StreamTime() time.Time {
	if t.op.now == noTime {
		return time.Time{}
	}
	return time.UnixMilli(t.op.now).UTC()
}

// SetTimer makes a timer of event time due at a time; one of the same name is moved. One that is
// due already fires next. data comes back with it; it is copied.
func (t TimerCtx) SetTimer(name string, at time.Time, data []byte) error {
	return t.op.set(pluginpb.ClockEvent, t.key, name, at, data)
}

// DeleteTimer takes a timer of event time back, if it is set.
func (t TimerCtx) DeleteTimer(name string) { t.op.remove(pluginpb.ClockEvent, t.key, name) }

// SetWallTimer is SetTimer for the machine's clock. The part must say WithWallTimers.
func (t TimerCtx) SetWallTimer(name string, at time.Time, data []byte) error {
	if !t.op.wall {
		return errors.New("the part sets a timer of the machine's clock, but is not WithWallTimers")
	}
	return t.op.set(pluginpb.ClockWall, t.key, name, at, data)
}

// DeleteWallTimer is DeleteTimer for the machine's clock.
func (t TimerCtx) DeleteWallTimer(name string) { t.op.remove(pluginpb.ClockWall, t.key, name) }

// NewTimed makes an operator that sets timers by key and name. The host keeps them with the state
// of the task, so they survive a crash of the plugin, of the host, and a move to another machine.
func NewTimed[C any](name string, o Timed[C]) Part {
	var part Part
	wall := new(bool)
	part = newOperator(name, func(c C) operator {
		op := &timedOp{wall: *wall, now: noTime, next: forever, touched: map[timerID]*setTimer{}}
		op.each = func(t TimerCtx, r *Record, emit Emit) error { return o.Each(t, c, r, emit) }
		op.onTimer = func(t TimerCtx, timer Timer, emit Emit) error {
			return o.OnTimer(t, c, timer, emit)
		}
		return op
	})
	part.timers, part.wallTimers = true, wall
	return part
}

// WithWallTimers returns the operator with timers of the machine's clock too. What they do depends
// on how fast records came, so it is not deterministic.
func (p Part) WithWallTimers() Part {
	if p.wallTimers != nil {
		*p.wallTimers = true
	}
	return p.NotDeterministic()
}

const (
	noTime  = -1 << 63
	forever = 1<<63 - 1
)

// timerID names a timer of a task.
type timerID struct{ clock, key, name string }

// setTimer is what is known of a timer that was touched in this batch; a deleted one is not live.
type setTimer struct {
	at   int64
	data []byte
	live bool
}

// timedOp is an operator with timers at work.
type timedOp struct {
	each    func(TimerCtx, *Record, Emit) error
	onTimer func(TimerCtx, Timer, Emit) error
	wall    bool
	rec     Record
	now     int64 // stream time
	// touched are the timers that were set, deleted or fired since the batch began; none of them is
	// due before next.
	touched map[timerID]*setTimer
	next    int64
	// undo is what a call has changed, to be taken back when it fails.
	undo []change
}

// change is what a timer was before it was touched; nil when it was not.
type change struct {
	id  timerID
	was *setTimer
}

func (o *timedOp) touch(id timerID, t *setTimer) {
	o.undo = append(o.undo, change{id, o.touched[id]})
	o.touched[id] = t
	if t.live && id.clock == pluginpb.ClockEvent {
		o.next = min(o.next, t.at)
	}
}

// takeBack undoes what was touched since undo was emptied.
func (o *timedOp) takeBack() {
	for i := len(o.undo) - 1; i >= 0; i-- {
		c := o.undo[i]
		if c.was == nil {
			delete(o.touched, c.id)
		} else {
			o.touched[c.id] = c.was
		}
	}
}

func (o *timedOp) set(clock string, key []byte, name string, at time.Time, data []byte) error {
	if key == nil {
		return errors.New("a record without a key cannot set a timer")
	}
	o.touch(timerID{clock, string(key), name}, &setTimer{at: at.UnixMilli(),
		data: append([]byte{}, data...), live: true})
	return nil
}

func (o *timedOp) remove(clock string, key []byte, name string) {
	if key != nil {
		o.touch(timerID{clock, string(key), name}, &setTimer{})
	}
}

// process implements operator: records, timers that the host says are due, and those that became
// due within the batch, in the order of time.
func (o *timedOp) process(ctx Ctx, in *pluginpb.Decoder, out *results) error {
	for {
		more, err := in.Next(&o.rec.r)
		if err != nil || !more {
			return err
		}
		before := out.enc.Count()
		mark := out.enc.Mark()
		if name, ok := o.rec.Header(pluginpb.HeaderTimerFired); ok {
			err = o.fired(ctx, string(name), out)
		} else {
			mark, err = o.record(ctx, out)
		}
		if isFatal(err) {
			return err
		}
		if e := out.end(mark, before, err); e != nil {
			return e
		}
	}
}

// fired handles a timer that the host says is due, unless it was touched in this batch.
func (o *timedOp) fired(ctx Ctx, name string, out *results) error {
	clock, _ := o.rec.Header(pluginpb.HeaderTimerClock)
	id := timerID{string(clock), string(o.rec.Key()), name}
	at := o.rec.r.Timestamp
	if id.clock == pluginpb.ClockEvent {
		if err := o.catchUp(ctx, at, &id, out); err != nil {
			return err
		}
		o.now = max(o.now, at)
	}
	if o.touched[id] != nil {
		return nil // set anew, deleted, or fired: what the host knew of it is over
	}
	return o.call(ctx, id, at, append([]byte{}, o.rec.Value()...), out)
}

// record handles a record, or the end of the batch. The mark is behind what timers emitted before
// the record, which stays when the record fails.
func (o *timedOp) record(ctx Ctx, out *results) (pluginpb.Mark, error) {
	text, _ := o.rec.Header(pluginpb.HeaderTimerTime)
	now, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return out.enc.Mark(), Fatal(fmt.Errorf("a record without its time: %w", err))
	}
	if err := o.catchUp(ctx, now, nil, out); err != nil {
		return out.enc.Mark(), err
	}
	o.now = max(o.now, now)
	if _, ends := o.rec.Header(pluginpb.HeaderTimerClock); ends {
		o.flush(out)
		return out.enc.Mark(), nil
	}
	o.rec.DeleteHeader(pluginpb.HeaderTimerTime)
	mark := out.enc.Mark()
	t := TimerCtx{Ctx: ctx, op: o, key: o.rec.Key()}
	o.undo = o.undo[:0]
	err = o.each(t, &o.rec, func(r *Record) { out.enc.Append(&r.r) })
	if err != nil && !errors.Is(err, ErrDrop) {
		o.takeBack()
	}
	return mark, err
}

// catchUp fires the timers of event time that were set in this batch and are due at a time, before
// the one the host gives.
func (o *timedOp) catchUp(ctx Ctx, now int64, before *timerID, out *results) error {
	for now >= o.next {
		var next timerID
		var due *setTimer
		for id, t := range o.touched {
			if !t.live || id.clock != pluginpb.ClockEvent || t.at > now {
				continue
			}
			if due == nil || compareTimers(t.at, id, due.at, next) < 0 {
				next, due = id, t
			}
		}
		if due == nil {
			o.next = now + 1 // what is set meanwhile lowers it
			return nil
		}
		if before != nil && compareTimers(due.at, next, now, *before) >= 0 {
			return nil
		}
		o.touched[next] = &setTimer{}
		o.now = max(o.now, due.at)
		if err := o.call(ctx, next, due.at, due.data, out); err != nil {
			return err
		}
	}
	return nil
}

func compareTimers(a int64, x timerID, b int64, y timerID) int {
	return cmp.Or(cmp.Compare(a, b), strings.Compare(x.key, y.key), strings.Compare(x.name, y.name))
}

// call calls OnTimer. An error of it is told beside the results: there is no record it is of.
func (o *timedOp) call(ctx Ctx, id timerID, at int64, data []byte, out *results) error {
	o.touched[id] = &setTimer{}
	key := []byte(id.key)
	timer := Timer{Key: key, Name: id.name, At: time.UnixMilli(at).UTC(), Data: data,
		Wall: id.clock == pluginpb.ClockWall}
	stamp := []record.Header{
		{Key: pluginpb.HeaderTimerOf, Value: strconv.AppendInt(nil, at, 10)},
		{Key: pluginpb.HeaderTimerClock, Value: []byte(id.clock)},
	}
	mark := out.enc.Mark()
	o.undo = o.undo[:0]
	err := o.onTimer(TimerCtx{Ctx: ctx, op: o, key: key}, timer, func(r *Record) {
		stamped := r.r
		stamped.Headers = append(slices.Clone(r.r.Headers), stamp...)
		out.enc.Append(&stamped)
	})
	switch {
	case err == nil, errors.Is(err, ErrDrop):
		return nil
	case isFatal(err):
		return err
	}
	out.enc.Rollback(mark)
	o.takeBack()
	failed := pluginpb.Record{}
	failed.Key, failed.Value, failed.Timestamp = key, data, at
	failed.Headers = append(stamp, record.Header{Key: pluginpb.HeaderTimerFailed,
		Value: []byte(err.Error())})
	out.enc.Append(&failed)
	return nil
}

// flush tells the host which timers are set and deleted since the batch began.
func (o *timedOp) flush(out *results) {
	ids := make([]timerID, 0, len(o.touched))
	for id := range o.touched {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b timerID) int {
		return cmp.Or(strings.Compare(a.clock, b.clock), strings.Compare(a.key, b.key),
			strings.Compare(a.name, b.name))
	})
	for _, id := range ids {
		t := o.touched[id]
		r := pluginpb.Record{}
		r.Key, r.Timestamp = []byte(id.key), t.at
		what := pluginpb.HeaderTimerDelete
		if t.live {
			r.Value, what = t.data, pluginpb.HeaderTimerSet
		}
		r.Headers = []record.Header{{Key: what, Value: []byte(id.name)},
			{Key: pluginpb.HeaderTimerClock, Value: []byte(id.clock)}}
		out.enc.Append(&r)
	}
	clear(o.touched)
	o.next = forever
}
