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
)

// String returns the name used in pipeline files.
func (f Func) String() string {
	names := [...]string{"count", "sum", "min", "max", "avg"}
	if int(f) < len(names) {
		return names[f]
	}
	return fmt.Sprintf("func(%d)", f)
}

// Field is one number (or string) of an aggregate's result.
type Field struct {
	Name string
	Func Func
	// Value takes the argument from a record; null is passed over. Only Count may be without.
	Value func(rec *operator.Record) (Value, error)
}

// accumulator is the state of one field of one row.
type accumulator struct {
	count    int64   // count, avg
	sum      int64   // exact sum of integers
	hasInt   bool    // an integer was added
	hasFloat bool    // a float was added
	float    float64 // Neumaier sum of floats and its compensation
	lost     float64
	extreme  Value // min, max
}

// add puts one value into the accumulator; on error it is unchanged.
func (a *accumulator) add(f Func, v Value) error {
	if v.Kind == Null {
		return nil
	}
	if v.Kind == Float && (math.IsNaN(v.Float) || math.IsInf(v.Float, 0)) {
		return fmt.Errorf("%w: %v", ErrNotFinite, v.Float)
	}
	switch f {
	case Count:
		return a.inc()
	case Sum:
		return a.addNumber(v)
	case Avg:
		b := *a
		if err := b.addNumber(v); err != nil {
			return err
		}
		if err := b.inc(); err != nil {
			return err
		}
		*a = b
		return nil
	}
	if a.extreme.Kind == Null {
		a.extreme = v
		return nil
	}
	c, err := compare(v, a.extreme)
	if err != nil {
		return err
	}
	if f == Min && c < 0 || f == Max && c > 0 {
		a.extreme = v
	}
	return nil
}

func (a *accumulator) inc() error {
	if a.count == math.MaxInt64 {
		return operator.WithClass(operator.ClassOverflow, fmt.Errorf("%w: count", ErrOverflow))
	}
	a.count++
	return nil
}

func (a *accumulator) addNumber(v Value) error {
	switch v.Kind {
	case Int:
		s := a.sum + v.Int
		if (s > a.sum) != (v.Int > 0) && v.Int != 0 {
			return operator.WithClass(operator.ClassOverflow,
				fmt.Errorf("%w: %d + %d", ErrOverflow, a.sum, v.Int))
		}
		a.sum, a.hasInt = s, true
		return nil
	case Float:
		// Neumaier's variant of Kahan summation keeps what is rounded away.
		s := a.float + v.Float
		if math.IsInf(s, 0) {
			return operator.WithClass(operator.ClassOverflow,
				fmt.Errorf("%w: float sum", ErrOverflow))
		}
		if math.Abs(a.float) >= math.Abs(v.Float) {
			a.lost += (a.float - s) + v.Float
		} else {
			a.lost += (v.Float - s) + a.float
		}
		a.float, a.hasFloat = s, true
		return nil
	}
	return fmt.Errorf("%w: %q", ErrNotNumber, v.Text)
}

// result returns the value of the field.
func (a *accumulator) result(f Func) Value {
	switch f {
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
	}
	return a.extreme
}

// Bits of an encoded sum.
const (
	bitInt   = 1
	bitFloat = 2
)

// append encodes the accumulator.
func (a *accumulator) append(dst []byte, f Func) []byte {
	switch f {
	case Count:
		return binary.AppendUvarint(dst, uint64(a.count))
	case Sum:
		return a.appendSum(dst)
	case Avg:
		return binary.AppendUvarint(a.appendSum(dst), uint64(a.count))
	}
	v := a.extreme
	dst = append(dst, byte(v.Kind))
	switch v.Kind {
	case Int:
		return binary.AppendVarint(dst, v.Int)
	case Float:
		return binary.BigEndian.AppendUint64(dst, math.Float64bits(v.Float))
	case String:
		return append(binary.AppendUvarint(dst, uint64(len(v.Text))), v.Text...)
	}
	return dst
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
func (a *accumulator) read(r *fields.Reader, f Func) {
	*a = accumulator{}
	switch f {
	case Count:
		a.count = int64(r.Uvarint())
		return
	case Sum, Avg:
		bits := r.Byte()
		a.hasInt, a.hasFloat = bits&bitInt != 0, bits&bitFloat != 0
		a.sum = r.Varint()
		if a.hasFloat {
			a.float = math.Float64frombits(r.Fixed64())
			a.lost = math.Float64frombits(r.Fixed64())
		}
		if f == Avg {
			a.count = int64(r.Uvarint())
		}
		return
	}
	switch a.extreme.Kind = Kind(r.Byte()); a.extreme.Kind {
	case Null:
	case Int:
		a.extreme.Int = r.Varint()
	case Float:
		a.extreme.Float = math.Float64frombits(r.Fixed64())
	case String:
		a.extreme.Text = string(r.Bytes())
	default:
		r.Fail()
	}
}
