package aggregate

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/state"
)

// Panes. Hopping windows whose results come out on close keep rows per pane, the spans of time that
// all windows hold whole or not at all: a record changes one row, and a window is put together from
// its panes when it closes. That is done only where it cannot be told from windows of their own:
// the functions must come to the same bytes in any order, and fail by record or never. Sums, say,
// are rounded or overflow in the order in which they are made.

// panesPerWindow bounds how many panes a window may have for each window that a record is in: a
// window is put together from all of them.
const panesPerWindow = 4

// pane returns the span of the panes; 0 where each window has its own rows.
func (o *Options) pane() int64 {
	w := o.Windows
	if !o.aligned() || o.Emit != OnClose || o.Lateness != 0 || w.Advance == w.Size {
		return 0
	}
	for i := range o.Fields {
		switch o.Fields[i].Func {
		case Count, ApproxDistinct, Quantile:
		default:
			return 0
		}
	}
	pane := w.Size
	for rest := w.Advance; rest != 0; {
		pane, rest = rest, pane%rest
	}
	if w.Size/pane > panesPerWindow*((w.Size+w.Advance-1)/w.Advance) {
		return 0
	}
	return pane
}

// paneOf returns the start of the pane of a time. All times in it are in the same windows.
func (a *aggregate) paneOf(ts int64) int64 {
	_, last := a.windows.Starts(ts)
	return last + (ts-last)/a.pane*a.pane
}

// findPane fills targets with the pane of a record, if one of its windows is open, and returns the
// closed ones.
func (a *aggregate) findPane(rec *operator.Record) operator.LateReport {
	late := operator.LateReport{Grace: a.keep}
	first, last := a.windows.Starts(rec.Timestamp)
	for start := first; start <= last; start += a.windows.Advance {
		if !a.windows.Closed(start, a.keep, rec.StreamTime) {
			at := a.paneOf(rec.Timestamp)
			a.targets = append(a.targets, target{rows: a.paneRows(at),
				window: operator.Window{Start: at, End: at + a.pane}})
			break
		}
		w := a.windows.At(start)
		if late.First.IsZero() {
			late.First = w
		}
		late.Last = w
	}
	late.Partly = len(a.targets) > 0
	return late
}

// paneRows returns the rows of a pane, which is kept from now on.
func (a *aggregate) paneRows(at int64) state.Store {
	if n := len(a.open); n > 0 && a.open[n-1].start == at {
		return a.open[n-1].rows
	}
	i, ok := slices.BinarySearchFunc(a.open, at, func(w openWindow, at int64) int {
		return cmp.Compare(w.start, at)
	})
	if !ok {
		a.open = slices.Insert(a.open, i, openWindow{at, a.all.Window(at)})
	}
	return a.open[i].rows
}

// closePanes emits the windows that are due at s and were not at the time before, and drops panes
// that no window needs any more.
func (a *aggregate) closePanes(ctx *operator.Context, s int64, in, out *operator.Batch) error {
	for done := int64(math.MinInt64); ; {
		start, ok, err := a.nextToClose(done)
		if err != nil || !ok || !a.windows.Closed(start, a.grace, s) {
			return err
		}
		if err := a.emitPanes(ctx, start, in, out); err != nil {
			return fmt.Errorf("emit window %d of step %s: %w", start, ctx.Step(), err)
		}
		done = start
	}
}

// nextToClose returns the first window with rows that begins after done and has not come out, and
// drops the panes before it.
func (a *aggregate) nextToClose(done int64) (start int64, ok bool, err error) {
	for len(a.open) > 0 {
		start, last := a.windows.Starts(a.open[0].start)
		for start <= last && (start <= done || a.windows.Closed(start, a.grace, a.s)) {
			start += a.windows.Advance
		}
		if start <= last {
			return start, true, nil
		}
		if err := a.all.Drop(a.open[0].start); err != nil {
			return 0, false, fmt.Errorf("drop pane %d: %w", a.open[0].start, err)
		}
		a.open = slices.Delete(a.open, 0, 1)
	}
	return 0, false, nil
}

// paneRow is a row of a pane of the window that closes; key and row lie in aggregate.copied.
type paneRow struct{ key, row []byte }

// panedBytes is about how much of the panes of a window is put together at once.
const panedBytes = 1 << 20

// emitPanes emits the rows of a window in key order, each put together from its panes.
func (a *aggregate) emitPanes(ctx *operator.Context, start int64, in, out *operator.Batch) error {
	due := a.windows.CloseTime(start, a.grace)
	result := operator.Record{Window: a.windows.At(start), Order: in.OrderAt(due),
		StreamTime: due - 1}
	for from := []byte(nil); ; {
		next, err := a.gather(start, from)
		if err != nil {
			return err
		}
		for rest := a.paned; len(rest) > 0; {
			n := 1
			for n < len(rest) && bytes.Equal(rest[n].key, rest[0].key) {
				n++
			}
			ts, err := a.combine(rest[:n])
			if err != nil {
				return err
			}
			result.Key, result.Timestamp = a.out.Copy(rest[0].key), ts
			if err := a.emit(ctx, out, result, a.accs); err != nil {
				return err
			}
			rest = rest[n:]
		}
		if next == nil {
			return nil
		}
		from = next
	}
}

// gather fills paned with the rows of a window's panes from a key on, in key order. next is the
// first key that is left, nil if none is: each pane gives its share of panedBytes, and one row at
// the least.
func (a *aggregate) gather(start int64, from []byte) (next []byte, err error) {
	a.paned, a.copied = a.paned[:0], a.copied[:0]
	share := panedBytes / int(a.windows.Size/a.pane)
	for _, pane := range a.open {
		if first, last := a.windows.Starts(pane.start); start < first || start > last {
			continue
		}
		began := len(a.copied)
		err := pane.rows.Scan(from, next, func(key, row []byte) error {
			at := len(a.copied)
			if at > began && at-began >= share {
				next = slices.Clone(key)
				return state.ErrStop
			}
			a.copied = append(append(a.copied, key...), row...)
			mid, end := at+len(key), len(a.copied)
			a.paned = append(a.paned, paneRow{a.copied[at:mid:mid], a.copied[mid:end:end]})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(a.paned, func(x, y paneRow) int { return bytes.Compare(x.key, y.key) })
	if next != nil { // panes read before may have rows of it, and behind
		i, _ := slices.BinarySearchFunc(a.paned, next, func(r paneRow, key []byte) int {
			return bytes.Compare(r.key, key)
		})
		a.paned = a.paned[:i]
	}
	return next, nil
}

// combine puts the rows of a key in accs and returns their largest timestamp.
func (a *aggregate) combine(rows []paneRow) (ts int64, err error) {
	if ts, err = a.decode(rows[0].row); err != nil {
		return 0, err
	}
	if a.other == nil {
		a.other = make([]accumulator, len(a.fields))
	}
	for _, r := range rows[1:] {
		if len(r.row) < 8 {
			return 0, fmt.Errorf("decode %d bytes: %w", len(r.row), errRow)
		}
		ts = max(ts, int64(binary.BigEndian.Uint64(r.row)))
		if err := a.folds.decode(r.row[8:], a.other); err != nil {
			return 0, err
		}
		if err := a.folds.merge(a.accs, a.other); err != nil {
			return 0, err
		}
	}
	return ts, nil
}
