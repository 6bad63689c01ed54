package aggregate

import (
	"fmt"
	"strconv"

	"github.com/millstream-io/millstream/streams/operator"
)

// closeDue closes every window that is due at stream time s. What comes out is stamped with the
// last instant before the window was due, so that a step behind this one takes it at that time.
func (a *aggregate) closeDue(ctx *operator.Context, s int64, in, out *operator.Batch) error {
	a.s = s
	n := 0
	for n < len(a.open) && a.windows.Closed(a.open[n].start, a.grace, s) {
		w := a.open[n]
		n++
		if a.o.Emit == OnClose {
			if err := a.emitWindow(ctx, w, in, out); err != nil {
				return err
			}
		}
		if err := a.all.Drop(w.start); err != nil {
			return fmt.Errorf("drop window %d: %w", w.start, err)
		}
	}
	if n > 0 {
		a.open = append(a.open[:0], a.open[n:]...)
	}
	return nil
}

// emitWindow emits all rows of a window in key order.
func (a *aggregate) emitWindow(ctx *operator.Context, w openWindow,
	in, out *operator.Batch) error {
	due := a.windows.CloseTime(w.start, a.grace)
	result := operator.Record{Window: a.windows.At(w.start), Order: in.OrderAt(due),
		StreamTime: due - 1}
	err := w.rows.Scan(nil, nil, func(key, row []byte) error {
		ts, err := a.decode(row)
		if err != nil {
			return err
		}
		result.Key, result.Timestamp = a.out.Copy(key), ts
		out.Records = append(out.Records, result)
		return a.emit(ctx, out)
	})
	if err != nil {
		return fmt.Errorf("emit window %d of step %s: %w", w.start, ctx.Step(), err)
	}
	return nil
}

// emit gives the last record of out the value made of accs.
func (a *aggregate) emit(ctx *operator.Context, out *operator.Batch) error {
	n := len(out.Records) - 1
	rec := &out.Records[n]
	for i := range a.accs {
		a.values[i] = a.accs[i].result(a.o.Fields[i].Func)
	}
	if a.o.Result != nil {
		if err := a.o.Result(rec, a.values); err != nil {
			err = ctx.Fail(rec, operator.ClassOperator, fmt.Errorf("make result: %w", err))
			out.Records = out.Records[:n]
			return err
		}
		return nil
	}
	b := a.out.Start()
	b = append(b, '{')
	if rec.Windowed() {
		b = append(b, `"window_start":`...)
		b = strconv.AppendInt(b, rec.Window.Start, 10)
		b = append(b, `,"window_end":`...)
		b = strconv.AppendInt(b, rec.Window.End, 10)
		b = append(b, ',')
	}
	for i, v := range a.values {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, a.names[i]...)
		b = v.AppendJSON(b)
	}
	rec.Value = a.out.End(append(b, '}'))
	return nil
}
