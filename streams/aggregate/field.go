package aggregate

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/millstream-io/millstream/streams/internal/fields"
	"github.com/millstream-io/millstream/streams/operator"
)

// Func is what a field computes.
type Func int8

// Functions.
const (
	// Count counts records, or with a Value those for which it is not null.
	Count Func = iota
	// Sum adds; null before the first number.
	Sum
	// Min and Max keep an extreme of numbers or strings; null before the first value.
	Min
	Max
	// Avg is sum/count of the numbers; null before the first.
	Avg
	// First and Last keep the value of the record with the smallest and largest timestamp, or of
	// the one processed first and last.
	First
	Last
	// Distinct counts different values.
	Distinct
	// ApproxDistinct estimates Distinct within about 1 % in at most 16 KiB.
	ApproxDistinct
	// Collect lists values by time.
	Collect
	// TopK lists what the records with the largest values show.
	TopK
	// Quantile is the number that Field.PerMille of 1000 numbers do not exceed, less at most 0.8 %.
	Quantile
	// StdDev is the standard deviation of a sample; null for fewer than two numbers.
	StdDev
	// Reduce is what Field.Reducer makes.
	Reduce
)

var funcNames = [...]string{"count", "sum", "min", "max", "avg", "first", "last", "distinct",
	"approx_distinct", "collect", "topk", "quantile", "stddev", "reduce"}

// String returns the name used in pipeline files; p50, p95 and p99 are all quantile.
func (f Func) String() string {
	if f >= 0 && int(f) < len(funcNames) {
		return funcNames[f]
	}
	return fmt.Sprintf("func(%d)", f)
}

// Limits of what one field keeps in a row.
const (
	maxLimit = 10_000
	maxBytes = 1 << 20
)

// Field is one value of an aggregate's result.
type Field struct {
	Name string
	Func Func
	// Value takes the argument from a record; null is passed over. Only Count may be without.
	Value func(rec *operator.Record) (Value, error)
	// Of is what TopK shows of a record; nil shows Value.
	Of func(rec *operator.Record) (Value, error)
	// Limit is how many values TopK and Collect keep: the first ones in the order of the list.
	Limit int
	// PerMille is the rank of a Quantile, 1 to 1000.
	PerMille int
	// ByOffset makes First and Last go by the order of processing instead of timestamps.
	ByOffset bool
	// Reducer is what Reduce does.
	Reducer *Reducer
	// rows: the values that make the result are kept in rows of their own; see members.
	rows bool
}

// Reducer folds records into one JSON value.
type Reducer struct {
	// Update returns what acc (nil before the first record) becomes with a record; nil forgets it.
	Update func(acc []byte, rec *operator.Record) ([]byte, error)
	// Merge puts what two windows came to together, the earlier one first. Sessions need it.
	Merge func(a, b []byte) ([]byte, error)
}

// Meaning describes what a row of the field depends on, for the format of the store.
func (f *Field) meaning() string {
	switch {
	case f.Func == Collect || f.Func == TopK:
		return fmt.Sprintf("%s/%d", f.Func, f.Limit)
	case f.ByOffset:
		return f.Func.String() + "/offset"
	}
	return f.Func.String()
}

// argument is what one record gives to one field.
type argument struct {
	value, shown Value
	ts, order    int64
	rec          *operator.Record
}

// accumulator is the state of one field of one row.
type accumulator struct {
	count    int64   // count, avg, distinct
	sum      int64   // exact sum of integers
	hasInt   bool    // an integer was added
	hasFloat bool    // a float was added
	float    float64 // Neumaier sum of floats and its compensation
	lost     float64
	extreme  Value // min, max
	more     *more // for the functions that need it, reused from row to row
}

// more is the state of the functions that keep more than a few numbers.
type more struct {
	hll       hll
	quantiles quantiles
	moments   moments
	entries   entries
	set       set
	reduced   []byte // nil is none
}

// need returns a.more.
func (a *accumulator) need() *more {
	if a.more == nil {
		a.more = &more{}
	}
	return a.more
}

// reset empties the accumulator.
func (a *accumulator) reset() {
	m := a.more
	*a = accumulator{more: m}
	if m != nil {
		m.hll.reset()
		m.quantiles.reset()
		m.moments, m.entries, m.reduced = moments{}, m.entries[:0], nil
		m.set = m.set[:0]
	}
}

// add puts one record into the accumulator. After an error it must not be used.
func (a *accumulator) add(f *Field, in *argument) error {
	v := in.value
	if v.Kind == Null && f.Func != Reduce {
		return nil
	}
	if v.Kind == Float && (math.IsNaN(v.Float) || math.IsInf(v.Float, 0)) {
		return fmt.Errorf("%w: %v", ErrNotFinite, v.Float)
	}
	switch f.Func {
	case Count:
		return a.inc(1)
	case Sum:
		return a.addNumber(v)
	case Avg:
		if err := a.addNumber(v); err != nil {
			return err
		}
		return a.inc(1)
	case Min, Max:
		return a.addExtreme(f, v)
	}
	return a.addMore(f, in)
}

func (a *accumulator) addExtreme(f *Field, v Value) error {
	if v.Kind == JSON {
		return ErrNoOrder
	}
	if a.extreme.Kind == Null {
		a.extreme = v
		return nil
	}
	c, err := compare(v, a.extreme)
	if f.Func == Min && c < 0 || f.Func == Max && c > 0 {
		a.extreme = v
	}
	return err
}

func (a *accumulator) inc(n int64) error {
	c, ok := addExact(a.count, n)
	if !ok {
		return operator.WithClass(operator.ClassOverflow, fmt.Errorf("%w: count", ErrOverflow))
	}
	a.count = c
	return nil
}

func (a *accumulator) addNumber(v Value) error {
	switch v.Kind {
	case Int:
		s, ok := addExact(a.sum, v.Int)
		if !ok {
			return operator.WithClass(operator.ClassOverflow,
				fmt.Errorf("%w: %d + %d", ErrOverflow, a.sum, v.Int))
		}
		a.sum, a.hasInt = s, true
		return nil
	case Float:
		return a.addFloat(v.Float)
	}
	return fmt.Errorf("%w: %q", ErrNotNumber, v.Text)
}

// addFloat is Neumaier's variant of Kahan summation, which keeps what is rounded away.
func (a *accumulator) addFloat(x float64) error {
	s := a.float + x
	if math.IsInf(s, 0) {
		return operator.WithClass(operator.ClassOverflow, fmt.Errorf("%w: float sum", ErrOverflow))
	}
	if math.Abs(a.float) >= math.Abs(x) {
		a.lost += (a.float - s) + x
	} else {
		a.lost += (x - s) + a.float
	}
	a.float, a.hasFloat = s, true
	return nil
}

// result returns the value of the field.
func (a *accumulator) result(f *Field) Value {
	switch f.Func {
	case Count:
		return IntValue(a.count)
	case Sum:
		switch {
		case a.hasFloat:
			return FloatValue(float64(a.sum) + (a.float + a.lost))
		case a.hasInt:
			return IntValue(a.sum)
		}
		return Value{}
	case Avg:
		switch {
		case a.count == 0:
			return Value{}
		case a.hasFloat:
			return FloatValue((float64(a.sum) + (a.float + a.lost)) / float64(a.count))
		}
		return quotient(a.sum, a.count)
	case Min, Max:
		return a.extreme
	}
	return a.resultMore(f)
}

// Bits of an encoded sum.
const (
	bitInt   = 1
	bitFloat = 2
)

// append encodes the accumulator.
func (a *accumulator) append(dst []byte, f *Field) []byte {
	switch f.Func {
	case Count:
		return binary.AppendUvarint(dst, uint64(a.count))
	case Sum:
		return a.appendSum(dst)
	case Avg:
		return binary.AppendUvarint(a.appendSum(dst), uint64(a.count))
	case Min, Max:
		return a.extreme.appendBytes(dst)
	}
	return a.appendMore(dst, f)
}

func (a *accumulator) appendSum(dst []byte) []byte {
	var bits byte
	if a.hasInt {
		bits |= bitInt
	}
	if a.hasFloat {
		bits |= bitFloat
	}
	dst = binary.AppendVarint(append(dst, bits), a.sum)
	if a.hasFloat {
		dst = binary.BigEndian.AppendUint64(dst, math.Float64bits(a.float))
		dst = binary.BigEndian.AppendUint64(dst, math.Float64bits(a.lost))
	}
	return dst
}

// read decodes what append made. A kind that is not known fails r.
func (a *accumulator) read(r *fields.Reader, f *Field) {
	switch f.Func {
	case Count:
		a.count = int64(r.Uvarint())
	case Sum, Avg:
		a.readSum(r)
		a.count = 0
		if f.Func == Avg {
			a.count = int64(r.Uvarint())
		}
	case Min, Max:
		a.extreme = readValue(r)
	default:
		a.readMore(r, f)
	}
}

func (a *accumulator) readSum(r *fields.Reader) {
	bits := r.Byte()
	a.hasInt, a.hasFloat = bits&bitInt != 0, bits&bitFloat != 0
	a.sum = r.Varint()
	a.float, a.lost = 0, 0
	if a.hasFloat {
		a.float = math.Float64frombits(r.Fixed64())
		a.lost = math.Float64frombits(r.Fixed64())
	}
}
