package aggregate

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millstream-io/millstream/streams/internal/fields"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/state"
	"github.com/millstream-io/millstream/streams/window"
)

// Emit says when results come out.
type Emit int8

// Choices for Emit.
const (
	// OnUpdate emits the new result of a row with every record added to it.
	OnUpdate Emit = iota
	// OnClose emits the final result of a window once, when it closes.
	OnClose
)

// Options describe an aggregate. Records are grouped by their key.
type Options struct {
	// Windows are tumbling or hopping windows; zero aggregates for ever, with OnUpdate only.
	Windows window.Windows
	// Grace keeps a window open after its end, in stream time.
	Grace time.Duration
	Emit  Emit
	// Fields make the result; at least one.
	Fields []Field
	// Result sets the value of an output record (SetDoc or SetValue) from the values of the
	// fields, which are only valid during the call. nil makes a JSON object of window_start and
	// window_end, if there are windows, and the fields in their order.
	Result func(rec *operator.Record, values []Value) error
	// Store names the store; the id of the step if empty.
	Store string
	// Late is the policy for records that come after their window was closed.
	Late operator.LatePolicy
	// OnError overrides the policy of the topology.
	OnError *operator.ErrorPolicy
}

// Validate reports options that make no sense, all at once.
func (o *Options) Validate() error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...))
	}
	if err := o.Windows.Validate(); err != nil {
		faults = append(faults, err)
	}
	windowed := o.Windows.Size != 0
	if !windowed && o.Emit == OnClose {
		fault("emit on close needs windows")
	}
	if !windowed && o.Grace != 0 {
		fault("grace needs windows")
	}
	if o.Grace < 0 {
		fault("grace is %s, must not be negative", o.Grace)
	}
	if len(o.Fields) == 0 {
		fault("no fields")
	}
	seen := map[string]bool{}
	for i := range o.Fields {
		f := &o.Fields[i]
		switch {
		case f.Name == "":
			fault("field %d has no name", i)
		case seen[f.Name]:
			fault("two fields are called %q", f.Name)
		}
		seen[f.Name] = true
		if f.Func < Count || f.Func > Avg {
			fault("field %q: unknown function %d", f.Name, f.Func)
		} else if f.Func != Count && f.Value == nil {
			fault("field %q: %s of what?", f.Name, f.Func)
		}
	}
	return errors.Join(faults...)
}

// Stores returns the store the aggregate needs. Its format changes with windows and fields.
func (o *Options) Stores() []operator.StoreSpec {
	spec := operator.StoreSpec{Name: o.Store}
	if o.Windows.Size != 0 {
		spec.Kind = operator.Windowed
	}
	format := []string{fmt.Sprintf("aggregate 1 %d/%d+%d",
		o.Windows.Size, o.Windows.Advance, o.Windows.Offset)}
	for i := range o.Fields {
		format = append(format, o.Fields[i].Func.String())
	}
	spec.Format = strings.Join(format, " ")
	return []operator.StoreSpec{spec}
}

// New returns the factory of the aggregate's step. Options must be valid and name the store.
func New(o Options) operator.Factory {
	return func() operator.Operator {
		a := &aggregate{o: o, windows: o.Windows, grace: o.Grace.Milliseconds(),
			accs: make([]accumulator, len(o.Fields)), values: make([]Value, len(o.Fields))}
		for i := range o.Fields {
			name := Value{Kind: String, Text: o.Fields[i].Name}.AppendJSON(nil)
			a.names = append(a.names, append(name, ':'))
		}
		return a
	}
}

// aggregate is the step of one task.
type aggregate struct {
	o       Options
	windows window.Windows
	grace   int64    // ms
	names   [][]byte // field names as JSON, with colon

	ready bool        // the store was looked at
	rows  state.Store // without windows
	all   state.Windows
	// open are the windows with rows, ascending by start.
	open []openWindow
	s    int64 // stream time up to which windows were closed

	// Scratch of one record: its field values, the new rows of its windows one after another,
	// and where each of them is.
	accs    []accumulator
	values  []Value
	row     []byte
	targets []target
	out     operator.Arena
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
}

// Process implements operator.Operator.
func (a *aggregate) Process(ctx *operator.Context, in, out *operator.Batch) error {
	if err := a.prepare(ctx); err != nil {
		return err
	}
	for i := range in.Records {
		rec := &in.Records[i]
		if rec.StreamTime > a.s {
			if err := a.closeDue(ctx, rec.StreamTime, in, out); err != nil {
				return err
			}
		}
		if err := a.add(ctx, rec, out); err != nil {
			return err
		}
	}
	if in.StreamTime > a.s {
		return a.closeDue(ctx, in.StreamTime, in, out)
	}
	return nil
}

// prepare finds the open windows of a restored task.
func (a *aggregate) prepare(ctx *operator.Context) error {
	if a.ready {
		return nil
	}
	a.ready, a.s = true, ctx.StartTime()
	if a.windows.Size == 0 {
		a.rows = ctx.Store(a.o.Store)
		return nil
	}
	a.all = ctx.Windows(a.o.Store)
	starts, err := a.all.Starts()
	if err != nil {
		return fmt.Errorf("list open windows: %w", err)
	}
	for _, start := range starts {
		a.open = append(a.open, openWindow{start, a.all.Window(start)})
	}
	return nil
}

// add puts a record into its open windows and reports those that are closed to it.
func (a *aggregate) add(ctx *operator.Context, rec *operator.Record, out *operator.Batch) error {
	if rec.Key == nil {
		return ctx.Fail(rec, operator.ClassNullKey, operator.ErrNullKey)
	}
	if rec.IsNull() {
		ctx.Stats().Ignored.Add(1)
		return nil
	}
	a.row, a.targets = a.row[:0], a.targets[:0]
	late := operator.LateReport{Grace: a.grace, Partly: true}
	if a.windows.Size == 0 {
		a.targets = append(a.targets, target{rows: a.rows})
	} else {
		late = a.findWindows(rec)
	}
	if len(a.targets) > 0 {
		if err := a.compute(rec); err != nil {
			return ctx.Fail(rec, operator.ClassOperator, err)
		}
		if err := a.store(ctx, rec, out); err != nil {
			return err
		}
	}
	if late.First.End != late.First.Start {
		return ctx.Late(rec, late)
	}
	return nil
}

// findWindows fills targets with the open windows of a record and returns the closed ones.
func (a *aggregate) findWindows(rec *operator.Record) operator.LateReport {
	late := operator.LateReport{Grace: a.grace}
	first, last := a.windows.Starts(rec.Timestamp)
	for start := first; start <= last; start += a.windows.Advance {
		w := a.windows.At(start)
		if a.windows.Closed(start, a.grace, rec.StreamTime) {
			if late.First.End == late.First.Start {
				late.First = w
			}
			late.Last = w
			continue
		}
		a.targets = append(a.targets, target{window: w, rows: a.window(start)})
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
	}
	return a.open[i].rows
}

// compute makes the new row of every target in a.row. The stores are unchanged.
func (a *aggregate) compute(rec *operator.Record) error {
	for i := range a.o.Fields {
		f := &a.o.Fields[i]
		if f.Value == nil {
			a.values[i] = IntValue(1)
			continue
		}
		v, err := f.Value(rec)
		if err != nil {
			return fmt.Errorf("field %s: %w", f.Name, err)
		}
		a.values[i] = v
	}
	for t := range a.targets {
		x := &a.targets[t]
		old, ok, err := x.rows.Get(rec.Key)
		if err != nil {
			return fmt.Errorf("get row: %w", err)
		}
		ts := rec.Timestamp
		if ok {
			before, err := a.decode(old)
			if err != nil {
				return err
			}
			ts = max(ts, before)
		} else {
			clear(a.accs)
		}
		x.from = len(a.row)
		a.row = binary.BigEndian.AppendUint64(a.row, uint64(ts))
		for i := range a.accs {
			f := &a.o.Fields[i]
			if err := a.accs[i].add(f.Func, a.values[i]); err != nil {
				return fmt.Errorf("field %s: %w", f.Name, err)
			}
			a.row = a.accs[i].append(a.row, f.Func)
		}
		x.to = len(a.row)
	}
	return nil
}

// decode reads a row into accs and returns its timestamp.
func (a *aggregate) decode(row []byte) (ts int64, err error) {
	r := fields.Reader{Left: row}
	ts = int64(r.Fixed64())
	for i := range a.accs {
		a.accs[i].read(&r, a.o.Fields[i].Func)
	}
	if !r.Whole() {
		return 0, fmt.Errorf("decode %d bytes: %w", len(row), errRow)
	}
	return ts, nil
}

// store writes the new rows and emits them if every update is to be seen.
func (a *aggregate) store(ctx *operator.Context, rec *operator.Record,
	out *operator.Batch) error {
	for i := range a.targets {
		x := &a.targets[i]
		row := a.row[x.from:x.to]
		if err := x.rows.Put(rec.Key, row); err != nil {
			return fmt.Errorf("put row: %w", err)
		}
		if a.o.Emit != OnUpdate {
			continue
		}
		ts, err := a.decode(row)
		if err != nil {
			return err
		}
		out.Records = append(out.Records, operator.Record{Key: rec.Key, Timestamp: ts,
			Window: x.window, StreamTime: rec.StreamTime, Order: rec.Order})
		if err := a.emit(ctx, out); err != nil {
			return err
		}
	}
	return nil
}
