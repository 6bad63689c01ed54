package aggregate

import (
	"fmt"

	"github.com/millstream-io/millstream/streams/operator"
)

// advance does what is due at stream time s, in the order of the times at which it was due.
func (a *aggregate) advance(ctx *operator.Context, s int64, in, out *operator.Batch) error {
	if a.changed != nil {
		if at, ok := a.changed.next(a.s, s); ok {
			if err := a.closeDue(ctx, at, in, out); err != nil {
				return err
			}
			if err := a.emitChanged(ctx, at, nil, nil, in, out); err != nil {
				return err
			}
		}
	}
	if err := a.closeDue(ctx, s, in, out); err != nil {
		return err
	}
	if a.due != nil {
		if err := a.due.purge(s, a.purge); err != nil {
			return err
		}
	}
	a.s = s
	return nil
}

// closeDue closes every window that is due at stream time s, and drops those that take no late
// records any more. What comes out is stamped with the last instant before the window was due, so
// that a step behind this one takes it at that time.
func (a *aggregate) closeDue(ctx *operator.Context, s int64, in, out *operator.Batch) error {
	if a.pane > 0 {
		return a.closePanes(ctx, s, in, out)
	}
	for a.fired < len(a.open) && a.windows.Closed(a.open[a.fired].start, a.grace, s) {
		w := a.open[a.fired]
		a.fired++
		if err := a.emitClosed(ctx, w, in, out); err != nil {
			return fmt.Errorf("emit window %d of step %s: %w", w.start, ctx.Step(), err)
		}
	}
	n := 0
	for n < a.fired && a.windows.Closed(a.open[n].start, a.keep, s) {
		if err := a.all.Drop(a.open[n].start); err != nil {
			return fmt.Errorf("drop window %d: %w", a.open[n].start, err)
		}
		if err := a.values.drop(a.open[n].start); err != nil {
			return err
		}
		n++
	}
	if n > 0 {
		a.open = append(a.open[:0], a.open[n:]...)
		a.fired -= n
	}
	return nil
}

// emitClosed emits the rows of a window in key order, as far as they are not known.
func (a *aggregate) emitClosed(ctx *operator.Context, w openWindow,
	in, out *operator.Batch) error {
	due := a.windows.CloseTime(w.start, a.grace)
	switch a.o.Emit {
	case OnUpdate:
		return nil
	case Every:
		from, to := changesOf(a.windows.At(w.start))
		return a.emitChanged(ctx, due, from, to, in, out)
	}
	result := operator.Record{Window: a.windows.At(w.start), Order: in.OrderAt(due),
		StreamTime: due - 1}
	return w.rows.Scan(nil, nil, func(key, row []byte) error {
		ts, err := a.decode(row)
		if err != nil {
			return err
		}
		result.Key, result.Timestamp = a.out.Copy(key), ts
		return a.emit(ctx, out, result, a.accs)
	})
}

// emitChanged emits what changed since it was last emitted, between two keys of changes, ordered
// by the end and start of windows and the key.
func (a *aggregate) emitChanged(ctx *operator.Context, at int64, from, to []byte,
	in, out *operator.Batch) error {
	result := operator.Record{Order: in.OrderAt(at), StreamTime: at - 1}
	return a.changed.take(from, to, func(w operator.Window, key []byte, _ bool, _ []byte) error {
		rows := a.rows
		if a.windows.Size != 0 {
			rows = a.window(w.Start)
		}
		result.Window, result.Key, result.Timestamp = w, a.out.Copy(key), at-1
		row, ok, err := rows.Get(key)
		if err != nil {
			return fmt.Errorf("get row: %w", err)
		}
		if !ok {
			takeBack(out, result)
			return nil
		}
		if result.Timestamp, err = a.decode(row); err != nil {
			return err
		}
		return a.emit(ctx, out, result, a.accs)
	})
}
