package aggregate

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/millstream-io/millstream/streams/internal/fields"
	"github.com/millstream-io/millstream/streams/operator"
)

// set holds the identities of different values, ascending.
type set []string

func (s *set) insert(identity string) {
	if i, found := slices.BinarySearch(*s, identity); !found {
		*s = slices.Insert(*s, i, identity)
	}
}

// number fails for what is no number.
func number(v Value) error {
	if v.Kind != Int && v.Kind != Float {
		return fmt.Errorf("%w: %q", ErrNotNumber, v.Text)
	}
	return nil
}

// float returns a number as a float, rounded if it is an integer beyond 2^53.
func float(v Value) float64 {
	if v.Kind == Int {
		return float64(v.Int)
	}
	return v.Float
}

// addMore is add for the functions that keep more than a few numbers.
func (a *accumulator) addMore(f *Field, in *argument) error {
	m := a.need()
	switch f.Func {
	case First, Last, Collect, TopK:
		err := m.entries.insert(f, entry{in.ts, in.order, in.value, in.shown})
		if err == nil && m.entries.size() > maxBytes {
			return tooLarge(f)
		}
		return err
	case Distinct:
		if !f.rows { // else the caller counts what is new
			m.set.insert(string(in.value.appendIdentity(nil)))
		}
	case ApproxDistinct:
		m.hll.add(in.value.appendIdentity(nil))
	case Quantile:
		if err := number(in.value); err != nil {
			return err
		}
		m.quantiles.add(bucketOf(float(in.value)), 1)
	case StdDev:
		if err := number(in.value); err != nil {
			return err
		}
		return m.moments.add(in.value)
	case Reduce:
		acc, err := f.Reducer.Update(m.reduced, in.rec)
		if err == nil && len(acc) > maxBytes {
			return tooLarge(f)
		}
		m.reduced = acc
		return err
	}
	return nil
}

func tooLarge(f *Field) error {
	return operator.WithClass(operator.ClassTooLarge,
		fmt.Errorf("%w: %s keeps at most %d bytes", ErrTooLarge, f.Func, maxBytes))
}

// merge puts what a later window came to into the accumulator. After an error it must not be used.
func (a *accumulator) merge(f *Field, o *accumulator) error {
	switch f.Func {
	case Count, Sum, Avg:
		return a.mergeNumbers(o)
	case Min, Max:
		if o.extreme.Kind == Null {
			return nil
		}
		return a.addExtreme(f, o.extreme)
	}
	if o.more == nil {
		return nil
	}
	m := a.need()
	switch f.Func {
	case Distinct:
		for _, identity := range o.more.set {
			m.set.insert(identity)
		}
	case ApproxDistinct:
		m.hll.merge(&o.more.hll)
	case Quantile:
		m.quantiles.merge(&o.more.quantiles)
	case StdDev:
		return m.moments.merge(&o.more.moments)
	case Reduce:
		return a.mergeReduced(f, o.more.reduced)
	default:
		for _, e := range o.more.entries {
			if err := m.entries.insert(f, e); err != nil {
				return err
			}
		}
		if m.entries.size() > maxBytes {
			return tooLarge(f)
		}
	}
	return nil
}

func (a *accumulator) mergeNumbers(o *accumulator) error {
	if err := a.inc(o.count); err != nil {
		return err
	}
	s, ok := addExact(a.sum, o.sum)
	if !ok {
		return operator.WithClass(operator.ClassOverflow,
			fmt.Errorf("%w: %d + %d", ErrOverflow, a.sum, o.sum))
	}
	a.sum, a.hasInt = s, a.hasInt || o.hasInt
	if !o.hasFloat {
		return nil
	}
	if err := a.addFloat(o.float); err != nil {
		return err
	}
	a.lost += o.lost
	return nil
}

func (a *accumulator) mergeReduced(f *Field, other []byte) error {
	m := a.need()
	switch {
	case other == nil:
		return nil
	case m.reduced == nil:
		m.reduced = other
		return nil
	}
	acc, err := f.Reducer.Merge(m.reduced, other)
	if err == nil && len(acc) > maxBytes {
		return tooLarge(f)
	}
	m.reduced = acc
	return err
}

func (a *accumulator) resultMore(f *Field) Value {
	m := a.need()
	switch f.Func {
	case Distinct:
		if f.rows {
			return IntValue(a.count)
		}
		return IntValue(int64(len(m.set)))
	case ApproxDistinct:
		return IntValue(m.hll.estimate())
	case Quantile:
		return m.quantiles.at(uint64(f.PerMille))
	case StdDev:
		return m.moments.deviation()
	case Reduce:
		if m.reduced == nil {
			return Value{}
		}
		return Value{Kind: JSON, Text: string(m.reduced)}
	}
	return m.entries.result(f)
}

func (a *accumulator) appendMore(dst []byte, f *Field) []byte {
	m := a.need()
	switch f.Func {
	case Distinct:
		if f.rows {
			return binary.AppendUvarint(dst, uint64(a.count))
		}
		dst = binary.AppendUvarint(dst, uint64(len(m.set)))
		for _, identity := range m.set {
			dst = append(binary.AppendUvarint(dst, uint64(len(identity))), identity...)
		}
		return dst
	case ApproxDistinct:
		return m.hll.append(dst)
	case Quantile:
		return m.quantiles.append(dst)
	case StdDev:
		return m.moments.append(dst)
	case Reduce:
		if m.reduced == nil {
			return binary.AppendVarint(dst, -1)
		}
		return append(binary.AppendVarint(dst, int64(len(m.reduced))), m.reduced...)
	}
	return m.entries.append(dst, f)
}

func (a *accumulator) readMore(r *fields.Reader, f *Field) {
	m := a.need()
	switch f.Func {
	case Distinct:
		if f.rows {
			a.count = int64(r.Uvarint())
			return
		}
		m.set = m.set[:0]
		for range r.Count(1) {
			m.set = append(m.set, string(r.Bytes()))
		}
	case ApproxDistinct:
		m.hll.read(r)
	case Quantile:
		m.quantiles.read(r)
	case StdDev:
		m.moments.read(r)
	case Reduce:
		m.reduced = slices.Clone(r.NullableBytes())
	case First, Last, Collect, TopK:
		m.entries.read(r, f)
	default:
		r.Fail()
	}
}
