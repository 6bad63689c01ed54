package aggregate

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/millstream-io/millstream/streams/internal/fields"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/state"
	"github.com/millstream-io/millstream/streams/window"
)

// aggregate is the step of one task, for tumbling and hopping windows and for none.
type aggregate struct {
	*folds
	o       Options
	windows window.Windows
	grace   int64 // ms
	keep    int64 // ms after its end for which a window's rows are kept: grace and lateness
	pane    int64 // ms of a pane; 0 without (panes.go)

	ready   bool        // the store was looked at
	rows    state.Store // without windows
	all     state.Windows
	values  members
	changed *changes // emit every
	due     *expiry  // forget
	// open are the windows, or panes, with rows, ascending by start; the first fired of them are
	// closed and take late records only.
	open  []openWindow
	fired int
	s     int64 // stream time up to which windows were closed

	// Scratch of one record: the new rows of its windows one after another, and where each is.
	row     []byte
	targets []target
	// Scratch of one window that is put together from panes.
	paned  []paneRow
	copied []byte
	other  []accumulator
}

// openWindow is a window that holds rows.
type openWindow struct {
	start int64
	rows  state.Store
}

// target is one row a record changes.
type target struct {
	window operator.Window
	rows   state.Store
	from   int // the new row is row[from:to]
	to     int
	late   bool // the window has closed and takes late records
	same   bool // the result is what it was
	gone   bool // the result came to nothing
	had    bool // there was a result
	// before is when the result before was made, of a group of a table's rows.
	before int64
}

// Process implements operator.Operator.
func (a *aggregate) Process(ctx *operator.Context, in, out *operator.Batch) error {
	if err := a.prepare(ctx); err != nil {
		return err
	}
	for i := range in.Records {
		rec := &in.Records[i]
		if rec.StreamTime > a.s {
			if err := a.advance(ctx, rec.StreamTime, in, out); err != nil {
				return err
			}
		}
		if err := a.add(ctx, rec, out); err != nil {
			return err
		}
	}
	if in.StreamTime > a.s {
		return a.advance(ctx, in.StreamTime, in, out)
	}
	return nil
}

// prepare finds the open windows of a restored task.
func (a *aggregate) prepare(ctx *operator.Context) error {
	if a.ready {
		return nil
	}
	a.ready, a.s = true, ctx.StartTime()
	if a.o.Emit == Every {
		a.changed = &changes{rows: ctx.Store(a.o.changed()), every: a.o.Every.Milliseconds()}
	}
	for i := range a.fields {
		a.values.used = a.values.used || a.fields[i].rows
	}
	if a.windows.Size == 0 {
		a.rows = ctx.Store(a.o.Store)
		if a.values.used {
			a.values.store = ctx.Store(a.o.members())
		}
		if a.o.Forget > 0 {
			a.due = newExpiry(a.o.Forget.Milliseconds(), ctx.Windows(a.o.due()))
		}
		return nil
	}
	a.all = ctx.Windows(a.o.Store)
	if a.values.used {
		a.values.all = ctx.Windows(a.o.members())
	}
	starts, err := a.all.Starts()
	if err != nil {
		return fmt.Errorf("list open windows: %w", err)
	}
	for _, start := range starts {
		if a.pane == 0 && a.windows.Closed(start, a.grace, a.s) {
			a.fired++
		}
		a.open = append(a.open, openWindow{start, a.all.Window(start)})
	}
	return nil
}

// add puts a record into its open windows and reports those that are closed to it.
func (a *aggregate) add(ctx *operator.Context, rec *operator.Record, out *operator.Batch) error {
	if ok, err := a.usable(ctx, rec); !ok {
		return err
	}
	a.row, a.targets = a.row[:0], a.targets[:0]
	late := operator.LateReport{Grace: a.keep, Partly: true}
	switch {
	case a.windows.Size == 0:
		a.targets = append(a.targets, target{rows: a.rows})
	case a.pane > 0:
		late = a.findPane(rec)
	default:
		late = a.findWindows(rec)
	}
	if len(a.targets) > 0 {
		a.values.staged = a.values.staged[:0]
		if err := a.compute(ctx, rec); err != nil {
			if _, stop := errors.AsType[*operator.StopError](err); stop {
				return err
			}
			return ctx.Fail(rec, operator.ClassOperator, err)
		}
		if err := a.store(ctx, rec, out); err != nil {
			return err
		}
	}
	if !late.First.IsZero() {
		return ctx.Late(rec, late)
	}
	return nil
}

// usable reports whether a record can be grouped; err is the outcome when it cannot.
func (a *aggregate) usable(ctx *operator.Context, rec *operator.Record) (bool, error) {
	return usable(ctx, rec, a.o.Table)
}

// maxKey is the longest key that fits into every kind of row, escaped with room for more.
const maxKey = state.MaxKey/2 - 1024

func usable(ctx *operator.Context, rec *operator.Record, table bool) (bool, error) {
	switch {
	case rec.Key == nil:
		return false, ctx.Fail(rec, operator.ClassNullKey, operator.ErrNullKey)
	case len(rec.Key) > maxKey:
		return false, ctx.Fail(rec, operator.ClassNullKey,
			fmt.Errorf("%w: %d bytes, at most %d", ErrKeyTooLong, len(rec.Key), maxKey))
	case rec.IsNull() && (!table || rec.Old == nil):
		ctx.Stats().Ignored.Add(1)
		return false, nil
	}
	return true, nil
}

// findWindows fills targets with the open windows of a record and returns the closed ones.
func (a *aggregate) findWindows(rec *operator.Record) operator.LateReport {
	late := operator.LateReport{Grace: a.keep}
	first, last := a.windows.Starts(rec.Timestamp)
	for start := first; start <= last; start += a.windows.Advance {
		w := a.windows.At(start)
		if a.windows.Closed(start, a.keep, rec.StreamTime) {
			if late.First.IsZero() {
				late.First = w
			}
			late.Last = w
			continue
		}
		a.targets = append(a.targets, target{window: w, rows: a.window(start),
			late: a.windows.Closed(start, a.grace, rec.StreamTime)})
	}
	late.Partly = len(a.targets) > 0
	return late
}

// window returns the rows of a window, which is open from now on.
func (a *aggregate) window(start int64) state.Store {
	if n := len(a.open); n > 0 && a.open[n-1].start == start {
		return a.open[n-1].rows // most records are in the latest window
	}
	i, ok := slices.BinarySearchFunc(a.open, start, func(w openWindow, start int64) int {
		return cmp.Compare(w.start, start)
	})
	if !ok {
		a.open = slices.Insert(a.open, i, openWindow{start, a.all.Window(start)})
		if a.windows.Closed(start, a.grace, a.s) {
			a.fired++
		}
	}
	return a.open[i].rows
}

// compute makes the new row of every target in a.row. The stores are unchanged.
func (a *aggregate) compute(ctx *operator.Context, rec *operator.Record) error {
	if a.o.Table {
		return a.exchange(ctx, rec, &a.targets[0])
	}
	if err := a.evaluate(rec); err != nil {
		return err
	}
	for t := range a.targets {
		x := &a.targets[t]
		ts, err := a.load(rec, x)
		if err != nil {
			return err
		}
		if a.o.SkipUnchanged {
			a.results(a.before, a.accs)
		}
		if a.values.used {
			if err := a.countNew(rec, x); err != nil {
				return err
			}
		}
		if err := a.folds.add(a.accs); err != nil {
			return err
		}
		a.finish(x, max(ts, rec.Timestamp))
	}
	return nil
}

// load reads the row of a target into accs, which are empty if there is none, and returns its
// timestamp.
func (a *aggregate) load(rec *operator.Record, x *target) (ts int64, err error) {
	old, ok, err := x.rows.Get(rec.Key)
	if err != nil {
		return 0, fmt.Errorf("get row: %w", err)
	}
	ts = operator.NoTime
	if ok {
		if ts, err = a.decode(old); err != nil {
			return 0, err
		}
		if a.due == nil || !a.due.expired(ts, rec.StreamTime) {
			x.had = true
			return ts, nil
		}
		if err := a.forget(rec.Key); err != nil {
			return 0, err
		}
	}
	reset(a.accs)
	return operator.NoTime, nil
}

// finish appends the new row of a target.
func (a *aggregate) finish(x *target, ts int64) {
	if a.o.SkipUnchanged && x.had {
		a.results(a.folds.values, a.accs)
		x.same = slices.Equal(a.folds.values, a.before)
	}
	x.from = len(a.row)
	a.row = binary.BigEndian.AppendUint64(a.row, uint64(ts))
	a.row = a.folds.append(a.row, a.accs)
	x.to = len(a.row)
	if a.o.Table || a.reduces() {
		x.gone = a.allNull(a.accs)
	}
}

// decode reads a row into accs and returns its timestamp.
func (a *aggregate) decode(row []byte) (ts int64, err error) {
	r := fields.Reader{Left: row}
	ts = int64(r.Fixed64())
	a.read(&r, a.accs)
	if !r.Whole() {
		return 0, fmt.Errorf("decode %d bytes: %w", len(row), errRow)
	}
	return ts, nil
}

// store writes the new rows and emits them if every update is to be seen.
func (a *aggregate) store(ctx *operator.Context, rec *operator.Record,
	out *operator.Batch) error {
	if err := a.values.write(); err != nil {
		return err
	}
	for i := range a.targets {
		x := &a.targets[i]
		row := a.row[x.from:x.to]
		ts := int64(binary.BigEndian.Uint64(row))
		var err error
		if x.gone {
			err = x.rows.Delete(rec.Key)
		} else if err = x.rows.Put(rec.Key, row); err == nil && a.due != nil {
			err = a.due.mark(rec.Key, ts)
		}
		if err != nil {
			return fmt.Errorf("put row: %w", err)
		}
		if x.late {
			ctx.Stats().Late.Add(1)
		}
		if err := a.tell(ctx, rec, x, row, out); err != nil {
			return err
		}
	}
	return nil
}

// tell emits the new row of a target, or remembers that it changed.
func (a *aggregate) tell(ctx *operator.Context, rec *operator.Record, x *target, row []byte,
	out *operator.Batch) error {
	switch {
	case x.same || x.gone && !x.had:
		return nil
	case a.o.Emit == Every && !x.late:
		return a.changed.mark(x.window, rec.Key, nil)
	case a.o.Emit == OnClose && !x.late:
		return nil
	}
	result := operator.Record{Key: rec.Key, Timestamp: int64(binary.BigEndian.Uint64(row)),
		Window: x.window, StreamTime: rec.StreamTime, Order: rec.Order}
	result.CausedBy(rec)
	if a.o.Table {
		return a.tellChange(ctx, out, result, x)
	}
	if x.gone {
		takeBack(out, result)
		return nil
	}
	// With one target accs still hold what the row was made of.
	if len(a.targets) > 1 {
		if _, err := a.decode(row); err != nil {
			return err
		}
	}
	return a.emit(ctx, out, result, a.accs)
}
