package aggregate

import (
	"fmt"
	"slices"

	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/window"
)

// sessions is the step of one task for session windows.
type sessions struct {
	spanRows
	o       Options
	gap     int64
	fire    int64 // ms after its end at which the result of a session is final: gap and grace
	keep    int64 // ms after its end at which a session is dropped: fire and lateness
	changed *changes
	due     closing
	s       int64
	other   []accumulator // scratch of a merge
}

func newSessions(o Options, f *folds) operator.Operator {
	x := &sessions{spanRows: spanRows{folds: f}, o: o, gap: o.Windows.Size,
		fire:  o.Windows.Size + o.Grace.Milliseconds(),
		keep:  o.Windows.Size + (o.Grace + o.Lateness).Milliseconds(),
		other: make([]accumulator, len(f.fields))}
	return &stepper{step: x}
}

func (x *sessions) prepare(ctx *operator.Context) error {
	x.s = ctx.StartTime()
	x.rows = ctx.Store(x.o.Store)
	if x.o.Emit == Every {
		x.changed = &changes{rows: ctx.Store(x.o.changed()), every: x.o.Every.Milliseconds()}
	}
	x.due.dues = x.dues
	return x.due.open(ctx.Windows(x.o.due()), x.gap, ctx.StartTime())
}

// dues implements closing.dues.
func (x *sessions) dues(key []byte, from, to int64, add func(due, start int64)) error {
	if err := x.get(key); err != nil {
		return err
	}
	for i := range x.spans {
		fire, drop := x.times(&x.spans[i])
		for _, due := range []int64{fire, drop} {
			if due >= from && due <= to {
				add(due, x.spans[i].start)
			}
		}
	}
	return nil
}

// times returns when the result of a session is final and when it takes no late records any more.
func (x *sessions) times(s *span) (fire, drop int64) {
	return window.DueAfter(s.end, x.fire), window.DueAfter(s.end, x.keep)
}

// add puts a record into the session it belongs to. Sessions that it connects become one.
func (x *sessions) add(ctx *operator.Context, rec *operator.Record, out *operator.Batch) error {
	if ok, err := usable(ctx, rec, false); !ok {
		return err
	}
	t := rec.Timestamp
	if rec.StreamTime >= window.DueAfter(t, x.keep) {
		own := operator.Window{Start: t, End: t, Inclusive: true}
		return ctx.Late(rec, operator.LateReport{First: own, Last: own, Grace: x.keep})
	}
	if err := x.evaluate(rec); err != nil {
		return ctx.Fail(rec, operator.ClassOperator, err)
	}
	if err := x.get(rec.Key); err != nil {
		return err
	}
	first := 0
	for first < len(x.spans) && x.spans[first].end < t-x.gap {
		first++
	}
	last := first // the sessions joined are spans[first:last]
	for last < len(x.spans) && x.spans[last].start <= t+x.gap {
		last++
	}
	same, err := x.join(x.spans[first:last], t)
	if err != nil {
		return ctx.Fail(rec, operator.ClassOperator, err)
	}
	return x.replace(ctx, rec, first, last, same, out)
}

// join brings the evaluated record and the sessions it belongs to together in accs. same tells
// that the result is what it was.
func (x *sessions) join(old []span, t int64) (same bool, err error) {
	reset(x.accs)
	for i := range old {
		if i == 0 {
			err = x.decode(old[0].raw, x.accs)
		} else if err = x.decode(old[i].raw, x.other); err == nil {
			err = x.merge(x.accs, x.other)
		}
		if err != nil {
			return false, err
		}
	}
	within := len(old) == 1 && old[0].start <= t && t <= old[0].end
	compare := x.o.SkipUnchanged && within
	if compare {
		x.results(x.before, x.accs)
	}
	if err := x.folds.add(x.accs); err != nil {
		return false, err
	}
	if compare {
		x.results(x.values, x.accs)
		same = slices.Equal(x.values, x.before)
	}
	return same, nil
}

// replace puts the session in accs in the place of spans[first:last] and tells the difference.
func (x *sessions) replace(ctx *operator.Context, rec *operator.Record, first, last int,
	same bool, out *operator.Batch) error {
	s := span{start: rec.Timestamp, end: rec.Timestamp}
	old := slices.Clone(x.spans[first:last])
	for i := range old {
		s.start, s.end = min(s.start, old[i].start), max(s.end, old[i].end)
	}
	s.ts = s.end
	s.emitted = len(old) == 1 && old[0].window() == s.window() && old[0].emitted
	fire, drop := x.times(&s)
	late := rec.StreamTime >= fire
	if late {
		ctx.Stats().Late.Add(1)
	}
	gone := x.reduces() && x.allNull(x.accs)
	result := operator.Record{Key: rec.Key, StreamTime: rec.StreamTime, Order: rec.Order}
	result.CausedBy(rec)
	for i := range old {
		if gone || old[i].window() != s.window() {
			if err := x.retract(&old[i], result, late, out); err != nil {
				return err
			}
		}
	}
	if gone {
		x.spans = slices.Delete(x.spans, first, last)
		return x.put(rec.Key)
	}
	tell := x.o.Emit == OnUpdate || late
	s.emitted = s.emitted || tell
	s.raw = x.append(nil, x.accs)
	x.spans = slices.Replace(x.spans, first, last, s)
	if err := x.put(rec.Key); err != nil {
		return err
	}
	if len(old) != 1 || old[0].window() != s.window() {
		if err := x.mark(fire, drop, s.start, rec.Key); err != nil {
			return err
		}
	}
	switch {
	case same:
		return nil
	case tell:
		result.Window, result.Timestamp = s.window(), s.end
		return x.emit(ctx, out, result, x.accs)
	case x.o.Emit == Every:
		var told []byte
		if s.emitted { // so it is the same session, and old[0] what it was
			told = old[0].raw
		}
		return x.changed.mark(s.window(), rec.Key, told)
	}
	return nil
}

// mark says when something happens to a session.
func (x *sessions) mark(fire, drop, start int64, key []byte) error {
	if err := x.due.mark(drop, start, key); err != nil {
		return fmt.Errorf("mark session: %w", err)
	}
	if fire == drop || x.o.Emit == OnUpdate || fire <= x.s {
		return nil
	}
	if err := x.due.mark(fire, start, key); err != nil {
		return fmt.Errorf("mark session: %w", err)
	}
	return nil
}

// retract tells that a session is not there any more, to those who know it.
func (x *sessions) retract(old *span, result operator.Record, now bool, out *operator.Batch) error {
	if x.o.Emit == Every && !now {
		return x.changed.gone(old.window(), result.Key, old.emitted, old.raw)
	}
	told := old.raw
	if x.o.Emit == Every {
		_, before, err := x.changed.pop(old.window(), result.Key)
		if err != nil {
			return err
		}
		if before != nil {
			told = before
		}
	}
	if old.emitted {
		result.Window, result.Timestamp = old.window(), old.end
		return x.takeBackOf(out, result, told, x.other)
	}
	return nil
}

func (x *sessions) advance(ctx *operator.Context, s int64, in, out *operator.Batch) error {
	from := x.s
	x.s = s
	return advance(ctx, x, x.changed, from, s, in, out)
}

// closeDue emits the sessions that are final at s and drops those that are over.
func (x *sessions) closeDue(ctx *operator.Context, s int64, in, out *operator.Batch) error {
	return x.due.advance(s, func(d dueSpan) error {
		key := []byte(d.key)
		if err := x.get(key); err != nil {
			return err
		}
		i := slices.IndexFunc(x.spans, func(s span) bool { return s.start == d.start })
		if i < 0 {
			return nil
		}
		fire, drop := x.times(&x.spans[i])
		if d.due == fire {
			if err := x.final(ctx, i, key, d.due, in, out); err != nil {
				return err
			}
		}
		switch d.due {
		case drop:
			x.spans = slices.Delete(x.spans, i, i+1)
		case fire:
			x.spans[i].emitted = true
		default:
			return nil // it has grown since
		}
		return x.put(key)
	})
}

// final emits the result of a session that will not change any more.
func (x *sessions) final(ctx *operator.Context, i int, key []byte, due int64,
	in, out *operator.Batch) error {
	s := &x.spans[i]
	switch x.o.Emit {
	case OnUpdate:
		return nil
	case Every:
		if changed, _, err := x.changed.pop(s.window(), key); !changed || err != nil {
			return err
		}
	}
	if err := x.decode(s.raw, x.accs); err != nil {
		return err
	}
	return x.emit(ctx, out, operator.Record{Key: key, Window: s.window(), Timestamp: s.end,
		Order: in.OrderAt(due), StreamTime: due - 1}, x.accs)
}

// emitChanged emits what changed since the last time, ordered by end, start and key.
func (x *sessions) emitChanged(ctx *operator.Context, at int64, in, out *operator.Batch) error {
	result := operator.Record{Order: in.OrderAt(at), StreamTime: at - 1}
	return x.changed.take(nil, nil, func(w operator.Window, key []byte, back bool,
		told []byte) error {
		w.Inclusive = true
		result.Key, result.Window, result.Timestamp = x.out.Copy(key), w, w.End
		if err := x.get(key); err != nil {
			return err
		}
		i := slices.IndexFunc(x.spans, func(s span) bool { return s.window() == w })
		if i < 0 {
			switch {
			case back && told != nil:
				return x.takeBackOf(out, result, told, x.other)
			case back: // a row of an older file
				takeBack(out, result)
			}
			return nil
		}
		x.spans[i].emitted = true
		if err := x.put(key); err != nil {
			return err
		}
		if err := x.decode(x.spans[i].raw, x.accs); err != nil {
			return err
		}
		return x.emit(ctx, out, result, x.accs)
	})
}
