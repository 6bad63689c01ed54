package aggregate

import (
	"fmt"
	"slices"

	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/window"
)

// sliding is the step of one task for sliding windows. It keeps what the records of one instant
// come to, once; a window is put together from its instants when its result is asked for. Which
// windows there are follows from the instants.
type sliding struct {
	spanRows
	o       Options
	size    int64 // distance of first and last instant of a window
	grace   int64
	changed *changes
	due     closing
	s       int64
	other   []accumulator
	starts  []int64 // scratch
	old     []span  // the row before a record, for SkipUnchanged
}

func newSliding(o Options, f *folds) operator.Operator {
	x := &sliding{spanRows: spanRows{folds: f}, o: o, size: o.Windows.Size,
		grace: o.Grace.Milliseconds(), other: make([]accumulator, len(f.fields))}
	return &stepper{step: x}
}

func (x *sliding) prepare(ctx *operator.Context) error {
	x.s = ctx.StartTime()
	x.rows = ctx.Store(x.o.Store)
	if x.o.Emit == Every {
		x.changed = &changes{rows: ctx.Store(x.o.changed()), every: x.o.Every.Milliseconds()}
	}
	x.due.dues = x.dues
	return x.due.open(ctx.Windows(x.o.due()), x.size, ctx.StartTime())
}

// closeTime returns the stream time from which the window that starts at start is closed.
func (x *sliding) closeTime(start int64) int64 {
	return window.DueAfter(start+x.size, x.grace)
}

// at returns the window that starts at start.
func (x *sliding) at(start int64) operator.Window {
	return operator.Window{Start: start, End: start + x.size, Inclusive: true}
}

// dues implements closing.dues.
func (x *sliding) dues(key []byte, from, to int64, add func(due, start int64)) error {
	if err := x.get(key); err != nil {
		return err
	}
	for i := range x.spans {
		t := x.spans[i].start
		for _, start := range []int64{window.SlidingEndedBy(t, x.size), window.SlidingBegunBy(t)} {
			if due := x.closeTime(start); due >= from && due <= to {
				add(due, start)
			}
		}
	}
	return nil
}

// add puts a record into the instant it belongs to.
func (x *sliding) add(ctx *operator.Context, rec *operator.Record, out *operator.Batch) error {
	if ok, err := usable(ctx, rec, false); !ok {
		return err
	}
	t := rec.Timestamp
	if rec.StreamTime >= window.DueAfter(t+x.size, x.grace) {
		own := x.at(window.SlidingEndedBy(t, x.size))
		return ctx.Late(rec, operator.LateReport{First: own, Last: own, Grace: x.grace})
	}
	if err := x.evaluate(rec); err != nil {
		return ctx.Fail(rec, operator.ClassOperator, err)
	}
	if err := x.get(rec.Key); err != nil {
		return err
	}
	x.old = append(x.old[:0], x.spans...)
	i, found := x.find(t)
	reset(x.accs)
	if found {
		if err := x.decode(x.spans[i].raw, x.accs); err != nil {
			return err
		}
	} else {
		x.spans = slices.Insert(x.spans, i, span{start: t, end: t, ts: t})
	}
	if err := x.folds.add(x.accs); err != nil {
		return ctx.Fail(rec, operator.ClassOperator, err)
	}
	x.spans[i].raw = x.append(nil, x.accs)
	before := len(out.Records)
	bad, err := x.tell(ctx, rec, !found, out)
	if err != nil {
		return err
	}
	if bad != nil {
		out.Records = out.Records[:before]
		return ctx.Fail(rec, operator.ClassOperator, bad)
	}
	if err := x.put(rec.Key); err != nil {
		return err
	}
	if found {
		return nil
	}
	for _, start := range []int64{window.SlidingEndedBy(t, x.size), window.SlidingBegunBy(t)} {
		if due := x.closeTime(start); due > x.s {
			if err := x.due.mark(due, start, rec.Key); err != nil {
				return fmt.Errorf("mark window: %w", err)
			}
		}
	}
	return nil
}

// find returns the place of an instant.
func (x *sliding) find(t int64) (int, bool) {
	return slices.BinarySearchFunc(x.spans, t, func(s span, t int64) int {
		switch {
		case s.start < t:
			return -1
		case s.start > t:
			return 1
		}
		return 0
	})
}

// touched lists the starts of the open windows whose result a record at t changes, ascending. The
// window that begins behind a new instant holds other records and is there from now on.
func (x *sliding) touched(t int64, isNew bool) []int64 {
	x.starts = x.starts[:0]
	add := func(start int64) { x.starts = append(x.starts, start) }
	behind := false
	for i := range x.spans {
		p := x.spans[i].start
		if p > t+x.size+1 {
			break
		}
		ended, begun := window.SlidingEndedBy(p, x.size), window.SlidingBegunBy(p)
		for _, start := range []int64{ended, begun} {
			if start <= t && t <= start+x.size {
				add(start)
			}
		}
		behind = behind || p > t
		isNew = isNew && ended != t+1
	}
	if isNew && behind {
		add(t + 1)
	}
	x.starts = sortedOnce(x.starts)
	return slices.DeleteFunc(x.starts, func(start int64) bool {
		return x.closeTime(start) <= x.s
	})
}

// sortedOnce sorts numbers in place and leaves each once.
func sortedOnce(all []int64) []int64 {
	slices.Sort(all)
	return slices.Compact(all)
}

// tell emits the results a record changed, or remembers that they changed. bad is why a window's
// instants cannot be put together with the record.
func (x *sliding) tell(ctx *operator.Context, rec *operator.Record, isNew bool,
	out *operator.Batch) (bad, err error) {
	if x.o.Emit == OnClose {
		return nil, nil
	}
	for _, start := range x.touched(rec.Timestamp, isNew) {
		if x.o.SkipUnchanged {
			same, err := x.same(start)
			if err != nil {
				return err, nil
			}
			if same {
				continue
			}
		}
		if x.o.Emit == Every {
			err = x.changed.mark(x.at(start), rec.Key, nil)
		} else {
			result := operator.Record{Key: rec.Key, StreamTime: rec.StreamTime, Order: rec.Order}
			result.CausedBy(rec)
			bad, err = x.emitWindow(ctx, result, start, out)
		}
		if bad != nil || err != nil {
			return bad, err
		}
	}
	return nil, nil
}

// same reports whether a window comes to what it came to before the record.
func (x *sliding) same(start int64) (bool, error) {
	n, err := x.combine(x.old, start, nil)
	if err != nil || n == 0 {
		return false, err
	}
	x.results(x.before, x.accs)
	if _, err := x.combine(x.spans, start, nil); err != nil {
		return false, err
	}
	x.results(x.values, x.accs)
	return slices.Equal(x.values, x.before), nil
}

// combine puts the instants of a window together in accs and returns how many there are and, in
// ts, the last of them.
func (x *sliding) combine(spans []span, start int64, ts *int64) (n int, err error) {
	reset(x.accs)
	for i := range spans {
		p := spans[i].start
		if p < start {
			continue
		}
		if p > start+x.size {
			break
		}
		if n++; n == 1 {
			err = x.decode(spans[i].raw, x.accs)
		} else if err = x.decode(spans[i].raw, x.other); err == nil {
			err = x.merge(x.accs, x.other)
		}
		if err != nil {
			return n, err
		}
		if ts != nil {
			*ts = p
		}
	}
	return n, nil
}

// emitWindow emits a window of the row in spans. bad is why its instants cannot be put together.
func (x *sliding) emitWindow(ctx *operator.Context, result operator.Record, start int64,
	out *operator.Batch) (bad, err error) {
	result.Window = x.at(start)
	n, err := x.combine(x.spans, start, &result.Timestamp)
	if err != nil {
		return fmt.Errorf("window %s: %w", result.Window, err), nil
	}
	if n == 0 {
		return nil, nil
	}
	return nil, x.emit(ctx, out, result, x.accs)
}

// emitDue is emitWindow for what no record asks for: a result that cannot be made fails itself.
func (x *sliding) emitDue(ctx *operator.Context, result operator.Record, start int64,
	out *operator.Batch) error {
	bad, err := x.emitWindow(ctx, result, start, out)
	if bad != nil {
		result.Window, result.Timestamp = x.at(start), start
		return ctx.Fail(&result, operator.ClassOperator, bad)
	}
	return err
}

func (x *sliding) advance(ctx *operator.Context, s int64, in, out *operator.Batch) error {
	from := x.s
	x.s = s
	return advance(ctx, x, x.changed, from, s, in, out)
}

// closeDue emits the windows that are closed at s and drops the instants no open window holds.
func (x *sliding) closeDue(ctx *operator.Context, s int64, in, out *operator.Batch) error {
	return x.due.advance(s, func(d dueSpan) error {
		key := []byte(d.key)
		if err := x.get(key); err != nil {
			return err
		}
		tell := x.o.Emit == OnClose
		if x.o.Emit == Every {
			var err error
			if tell, _, err = x.changed.pop(x.at(d.start), key); err != nil {
				return err
			}
		}
		if tell {
			result := operator.Record{Key: key, Order: in.OrderAt(d.due), StreamTime: d.due - 1}
			if err := x.emitDue(ctx, result, d.start, out); err != nil {
				return err
			}
		}
		n, _ := x.find(d.start)
		if n == 0 {
			return nil
		}
		x.spans = slices.Delete(x.spans, 0, n)
		return x.put(key)
	})
}

// emitChanged emits what changed since the last time, ordered by end, start and key.
func (x *sliding) emitChanged(ctx *operator.Context, at int64, in, out *operator.Batch) error {
	return x.changed.take(nil, nil, func(w operator.Window, key []byte, _ bool, _ []byte) error {
		if err := x.get(key); err != nil {
			return err
		}
		result := operator.Record{Key: x.out.Copy(key), Order: in.OrderAt(at), StreamTime: at - 1}
		return x.emitDue(ctx, result, w.Start, out)
	})
}
