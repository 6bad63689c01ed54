package aggregate

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/millstream-io/millstream/streams/operator"
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
	// Every emits the results that changed when stream time passes a multiple of Options.Every,
	// and what changed since then when a window closes.
	Every
)

// Options describe an aggregate. Records are grouped by their key.
type Options struct {
	// Windows cut the records of a key; zero aggregates for ever.
	Windows window.Windows
	// Grace keeps a window open after its end, in stream time.
	Grace time.Duration
	Emit  Emit
	// Every is the span of event time between two emissions, when Emit is Every.
	Every time.Duration
	// SkipUnchanged leaves out a result that is the same as before.
	SkipUnchanged bool
	// Fields make the result; at least one.
	Fields []Field
	// Result sets the value of an output record (SetDoc or SetValue) from the values of the
	// fields, which are only valid during the call. nil makes a JSON object of window_start and
	// window_end, if there are windows, and the fields in their order.
	Result func(rec *operator.Record, values []Value) error
	// Table says that records are changes of a table: what a record replaces (Record.Old) is
	// taken back before the record is added. Needs to be without windows.
	Table bool
	// Forget drops a result that got no record for so long, by timestamps, of an aggregate
	// without windows or with count windows; 0 keeps all for ever.
	Forget time.Duration
	// Unbounded says that results without windows of time are kept for ever, and that this is
	// meant. Without it Builder.Aggregate wants windows, or Forget.
	Unbounded bool
	// Store names the store; the id of the step if empty.
	Store string
	// Lateness keeps the rows of a tumbling or hopping window, or of a session, for so long after
	// it closed: a late record changes the result and emits it again at once.
	Lateness time.Duration
	// Late is the policy for records that come after their window was closed, and Lateness.
	Late operator.LatePolicy
	// OnError overrides the policy of the topology.
	OnError *operator.ErrorPolicy
}

// faults collects what is wrong with options.
type faults []error

func (f *faults) add(bad bool, format string, args ...any) {
	if bad {
		*f = append(*f, fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...))
	}
}

// Validate reports options that make no sense, all at once.
func (o *Options) Validate() error {
	var f faults
	if err := o.Windows.Validate(); err != nil {
		f = append(f, err)
	}
	windowed, kind := o.windowed(), o.Windows.Kind
	f.add(!windowed && o.Emit == OnClose, "emit on close needs windows")
	f.add((!windowed || kind == window.Count) && o.Grace != 0,
		"grace needs windows of time")
	f.add(o.Grace < 0, "grace is %s, must not be negative", o.Grace)
	f.add(o.Emit == Every && o.Every < time.Millisecond,
		"emit every %s, must be at least 1ms", o.Every)
	f.add(o.Emit == Every && kind == window.Count, "count windows emit on update or on close")
	f.add(o.Lateness < 0, "lateness is %s, must not be negative", o.Lateness)
	f.add(o.Lateness != 0 && (!windowed || kind == window.Count || kind == window.Sliding),
		"late updates need tumbling, hopping or session windows")
	f.add(o.Forget < 0, "ttl is %s, must not be negative", o.Forget)
	f.add(o.Forget != 0 && windowed && kind != window.Count,
		"a ttl is for aggregates without windows of time; windows end by themselves")
	f.add(o.Table && windowed, "changes of a table cannot be cut by windows")
	f.add(o.Table && o.Forget != 0, "rows of a table are kept until they are deleted")
	f.add(len(o.Fields) == 0, "no fields")
	seen := map[string]bool{}
	for i := range o.Fields {
		x := &o.Fields[i]
		f.add(x.Name == "", "field %d has no name", i)
		f.add(x.Name != "" && seen[x.Name], "two fields are called %q", x.Name)
		seen[x.Name] = true
		o.validateField(x, &f)
	}
	return errors.Join(f...)
}

func (o *Options) validateField(x *Field, f *faults) {
	if x.Func < Count || x.Func > Reduce {
		f.add(true, "field %q: unknown function %d", x.Name, x.Func)
		return
	}
	f.add(x.Func != Count && x.Func != Reduce && x.Value == nil,
		"field %q: %s of what?", x.Name, x.Func)
	lists := x.Func == TopK || x.Func == Collect
	f.add(lists && (x.Limit < 1 || x.Limit > maxLimit),
		"field %q: %s keeps %d values, need 1 to %d", x.Name, x.Func, x.Limit, maxLimit)
	f.add(x.Func == Quantile && (x.PerMille < 1 || x.PerMille > 1000),
		"field %q: a quantile of %d per mille, need 1 to 1000", x.Name, x.PerMille)
	f.add(x.Func == Reduce && (x.Reducer == nil || x.Reducer.Update == nil),
		"field %q: reduce by what?", x.Name)
	merges := o.Windows.Kind == window.Session || o.Windows.Kind == window.Sliding
	f.add(merges && x.Func == Reduce && x.Reducer != nil && x.Reducer.Merge == nil,
		"field %q: windows that grow together need to know how two reduced values do (merge)",
		x.Name)
	if o.Table && !x.retractable() {
		f.add(true, "field %q: %s cannot take back a row of a table; use %s", x.Name,
			x.describe(), x.instead())
	}
}

// retractable reports whether a value can be taken out again.
func (f *Field) retractable() bool {
	return f.Func != ApproxDistinct && f.Func != Reduce && !f.ByOffset
}

func (f *Field) describe() string {
	if f.ByOffset {
		return f.Func.String() + " by offset"
	}
	return f.Func.String()
}

func (f *Field) instead() string {
	switch {
	case f.ByOffset:
		return f.Func.String() + " by time"
	case f.Func == ApproxDistinct:
		return "distinct"
	}
	return "count, sum, avg, min, max or collect"
}

func (o *Options) windowed() bool { return o.Windows.Size != 0 }

// aligned reports whether rows are kept by window start.
func (o *Options) aligned() bool { return o.windowed() && o.Windows.Kind == window.Aligned }

// inRows reports whether the values behind a field's result are kept in rows of their own.
func (o *Options) inRows(f *Field) bool {
	switch f.Func {
	case Distinct:
		return o.aligned() || !o.windowed()
	case Min, Max, First, Last, TopK, Collect:
		return o.Table
	}
	return false
}

// Names of the stores beside the one of the results.
func (o *Options) members() string { return o.Store + ":values" }
func (o *Options) changed() string { return o.Store + ":changed" }
func (o *Options) due() string     { return o.Store + ":due" }

// Stores returns the stores the aggregate needs. Their format changes with windows and fields.
func (o *Options) Stores() []operator.StoreSpec {
	var format strings.Builder
	if o.Windows.Kind == window.Aligned {
		fmt.Fprintf(&format, "aggregate 1 %d/%d+%d", o.Windows.Size, o.Windows.Advance,
			o.Windows.Offset)
		if pane := o.pane(); pane > 0 {
			fmt.Fprintf(&format, " panes %d", pane)
		}
	} else {
		fmt.Fprintf(&format, "aggregate 2 kind %d %d", o.Windows.Kind, o.Windows.Size)
	}
	if o.Table {
		format.WriteString(" table")
	}
	rows := false
	for i := range o.Fields {
		format.WriteString(" " + o.Fields[i].meaning())
		if o.Table && o.Fields[i].Func == Last {
			format.WriteString("/falling") // of one time, by their bytes
		}
		rows = rows || o.inRows(&o.Fields[i])
	}
	kind := operator.KeyValue
	if o.aligned() {
		kind = operator.Windowed
	}
	list := []operator.StoreSpec{{Name: o.Store, Kind: kind, Format: format.String()}}
	if rows {
		list = append(list, operator.StoreSpec{Name: o.members(), Kind: kind,
			Format: format.String()})
	}
	if o.Emit == Every {
		list = append(list, operator.StoreSpec{Name: o.changed(), Format: "changed 1"})
	}
	if o.hasDue() {
		list = append(list, operator.StoreSpec{Name: o.due(), Kind: operator.Windowed,
			Format: fmt.Sprintf("due 1 %d %d %d", o.Grace.Milliseconds(),
				o.Lateness.Milliseconds(), o.Forget.Milliseconds())})
	}
	return list
}

// hasDue reports whether keys are marked by the time at which something happens to them.
func (o *Options) hasDue() bool {
	return o.Windows.Kind == window.Session || o.Windows.Kind == window.Sliding || o.Forget != 0
}

// New returns the factory of the aggregate's step. Options must be valid and name the store.
func New(o Options) operator.Factory {
	return func() operator.Operator {
		f := newFolds(&o)
		switch o.Windows.Kind {
		case window.Session:
			return newSessions(o, f)
		case window.Sliding:
			return newSliding(o, f)
		case window.Count:
			return newCounted(o, f)
		}
		return &aggregate{o: o, windows: o.Windows, grace: o.Grace.Milliseconds(),
			keep: (o.Grace + o.Lateness).Milliseconds(), pane: o.pane(), folds: f}
	}
}

// Bound reports an aggregate whose results are never forgotten, unless that is said to be meant.
// The rows of a table have an end of their own.
func (o *Options) Bound() error {
	if o.Table || o.Unbounded || o.Forget != 0 || o.windowed() && o.Windows.Kind != window.Count {
		return nil
	}
	return fmt.Errorf("%w: without windows of time every key there is would be kept for ever; "+
		"give it windows, Forget (a ttl), or say Unbounded if keys are few", ErrInvalid)
}
