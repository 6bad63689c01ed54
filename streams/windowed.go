package streams

import (
	"time"

	"github.com/millstream-io/millstream/streams/aggregate"
)

// Window groups the records of each key by windows of event time.
func (s *Stream) Window(w Windows) *Window {
	if w == (Windows{}) {
		w = Tumbling(0) // reported by Build; the zero value would mean no windows
	}
	return &Window{s: s, o: aggregate.Options{Windows: w}}
}

// Window is a stream cut into windows, to be aggregated.
type Window struct {
	s *Stream
	o aggregate.Options
}

// Grace keeps windows open for a span of event time after their end.
func (w *Window) Grace(d time.Duration) *Window {
	w.o.Grace = d
	return w
}

// Every emits the results that changed whenever event time passes a multiple of d.
func (w *Window) Every(d time.Duration) *Window {
	w.o.Emit, w.o.Every = aggregate.Every, d
	return w
}

// OnlyChanged leaves out results that are the same as before.
func (w *Window) OnlyChanged() *Window {
	w.o.SkipUnchanged = true
	return w
}

// UpdateLate lets a window that closed take late records for a span of event time more; each
// changes the result and emits it again.
func (w *Window) UpdateLate(d time.Duration) *Window {
	w.o.Lateness = d
	return w
}

// OnClose emits the result of a window once, when it closes, instead of with every record.
func (w *Window) OnClose() *Window {
	w.o.Emit = aggregate.OnClose
	return w
}

// Late says what happens to records whose window is closed; they are counted in any case.
func (w *Window) Late(p LatePolicy) *Window {
	w.o.Late = p
	return w
}

// Aggregate computes fields per key and window. Results are JSON objects of window_start,
// window_end (ms) and the fields.
func (w *Window) Aggregate(id string, fields ...Field) *Stream {
	o := w.o
	o.Fields = fields
	return w.s.AggregateWith(id, o)
}

// Count counts records.
func Count(name string) Field { return Field{Name: name, Func: aggregate.Count} }

// Sum adds numbers: integers exactly, an overflow fails the record.
func Sum(name string, of func(*Record) (Value, error)) Field {
	return Field{Name: name, Func: aggregate.Sum, Value: of}
}

// Min keeps the smallest number or string.
func Min(name string, of func(*Record) (Value, error)) Field {
	return Field{Name: name, Func: aggregate.Min, Value: of}
}

// Max keeps the largest number or string.
func Max(name string, of func(*Record) (Value, error)) Field {
	return Field{Name: name, Func: aggregate.Max, Value: of}
}

// Avg divides the sum of numbers by their count.
func Avg(name string, of func(*Record) (Value, error)) Field {
	return Field{Name: name, Func: aggregate.Avg, Value: of}
}

// First keeps the value of the record with the smallest timestamp.
func First(name string, of func(*Record) (Value, error)) Field {
	return Field{Name: name, Func: aggregate.First, Value: of}
}

// Last keeps the value of the record with the largest timestamp.
func Last(name string, of func(*Record) (Value, error)) Field {
	return Field{Name: name, Func: aggregate.Last, Value: of}
}

// Distinct counts different values.
func Distinct(name string, of func(*Record) (Value, error)) Field {
	return Field{Name: name, Func: aggregate.Distinct, Value: of}
}

// ApproxDistinct estimates how many different values there are, within about 1 %.
func ApproxDistinct(name string, of func(*Record) (Value, error)) Field {
	return Field{Name: name, Func: aggregate.ApproxDistinct, Value: of}
}

// Collect lists at most limit values, by time.
func Collect(name string, limit int, of func(*Record) (Value, error)) Field {
	return Field{Name: name, Func: aggregate.Collect, Value: of, Limit: limit}
}

// TopK lists what the k records with the largest values show.
func TopK(name string, k int, by, show func(*Record) (Value, error)) Field {
	return Field{Name: name, Func: aggregate.TopK, Value: by, Of: show, Limit: k}
}

// Quantile is the number that perMille of 1000 numbers do not exceed, less at most 0.8 %.
func Quantile(name string, perMille int, of func(*Record) (Value, error)) Field {
	return Field{Name: name, Func: aggregate.Quantile, Value: of, PerMille: perMille}
}

// StdDev is the standard deviation of a sample.
func StdDev(name string, of func(*Record) (Value, error)) Field {
	return Field{Name: name, Func: aggregate.StdDev, Value: of}
}

// Reduce folds records into one JSON value.
func Reduce(name string, r aggregate.Reducer) Field {
	return Field{Name: name, Func: aggregate.Reduce, Reducer: &r}
}

// Int returns an integer value.
func Int(i int64) Value { return aggregate.IntValue(i) }

// Float returns a floating point value.
func Float(f float64) Value { return aggregate.FloatValue(f) }

// Text returns a string value.
func Text(s string) Value { return aggregate.StringValue(s) }

// Null returns the value that aggregates pass over.
func Null() Value { return Value{} }
