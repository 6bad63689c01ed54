package aggregate

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/bits"

	"github.com/millstream-io/millstream/streams/internal/fields"
	"github.com/millstream-io/millstream/streams/operator"
)

// moments are what a standard deviation needs. Integers are kept exactly: their number, sum and
// sum of squares. Floats are kept as number, mean and sum of squared distances from it (Welford,
// Chan), which does not lose what matters when the mean is large.
type moments struct {
	n        int64  // integers
	sum      int64  // of integers
	high, lo uint64 // sum of squares of integers
	fn       int64  // floats
	mean, m2 float64
}

var errMoments = operator.WithClass(operator.ClassOverflow,
	fmt.Errorf("%w: sums of a standard deviation", ErrOverflow))

// square returns x*x.
func square(x int64) (high, lo uint64) {
	u := uint64(x)
	if x < 0 {
		u = -u
	}
	return bits.Mul64(u, u)
}

func (m *moments) add(v Value) error {
	if v.Kind == Float {
		m.fn++
		d := v.Float - m.mean
		m.mean += d / float64(m.fn)
		m.m2 += d * (v.Float - m.mean)
		return m.finite()
	}
	high, lo := square(v.Int)
	return m.addSums(1, v.Int, high, lo)
}

func (m *moments) addSums(n, sum int64, high, lo uint64) error {
	s, ok := addExact(m.sum, sum)
	l, carry := bits.Add64(m.lo, lo, 0)
	h, carry := bits.Add64(m.high, high, carry)
	if !ok || carry != 0 {
		return errMoments
	}
	m.n, m.sum, m.high, m.lo = m.n+n, s, h, l
	return nil
}

func (m *moments) finite() error {
	if math.IsInf(m.m2, 0) || math.IsNaN(m.m2) {
		return errMoments
	}
	return nil
}

func (m *moments) subtract(v Value) error {
	if v.Kind == Float {
		if m.fn == 0 {
			return ErrBelowZero
		}
		if m.fn--; m.fn == 0 {
			m.mean, m.m2 = 0, 0
			return nil
		}
		before := m.mean
		m.mean -= (v.Float - m.mean) / float64(m.fn)
		m.m2 = max(0, m.m2-(v.Float-m.mean)*(v.Float-before))
		return nil
	}
	high, lo := square(v.Int)
	l, borrow := bits.Sub64(m.lo, lo, 0)
	h, borrow := bits.Sub64(m.high, high, borrow)
	s, ok := subtractExact(m.sum, v.Int)
	if m.n == 0 || borrow != 0 || !ok {
		return ErrBelowZero
	}
	m.n, m.sum, m.high, m.lo = m.n-1, s, h, l
	return nil
}

func (m *moments) merge(o *moments) error {
	if err := m.addSums(o.n, o.sum, o.high, o.lo); err != nil {
		return err
	}
	m.fn, m.mean, m.m2 = chan2(m.fn, m.mean, m.m2, o.fn, o.mean, o.m2)
	return m.finite()
}

// chan2 puts two sets of numbers together.
func chan2(n int64, mean, m2 float64, on int64, omean, om2 float64) (int64, float64, float64) {
	switch {
	case on == 0:
		return n, mean, m2
	case n == 0:
		return on, omean, om2
	}
	d, all := omean-mean, float64(n+on)
	return n + on, mean + d*float64(on)/all, m2 + om2 + d*d*float64(n)*float64(on)/all
}

// deviation returns the standard deviation of a sample, null for fewer than two numbers.
func (m *moments) deviation() Value {
	n, mean, m2 := int64(0), 0.0, 0.0
	if m.n > 0 {
		// squares - sum*sum/n, exactly, then rounded once.
		squares := new(big.Int).SetUint64(m.high)
		squares.Lsh(squares, 64).Add(squares, new(big.Int).SetUint64(m.lo))
		count, sum := big.NewInt(m.n), big.NewInt(m.sum)
		top := squares.Mul(squares, count)
		top.Sub(top, sum.Mul(sum, sum))
		m2, _ = new(big.Rat).SetFrac(top, count).Float64()
		mean, _ = new(big.Rat).SetFrac(big.NewInt(m.sum), count).Float64()
		n = m.n
	}
	n, _, m2 = chan2(n, mean, m2, m.fn, m.mean, m.m2)
	if n < 2 {
		return Value{}
	}
	return FloatValue(math.Sqrt(m2 / float64(n-1)))
}

func (m *moments) append(dst []byte) []byte {
	dst = binary.AppendVarint(binary.AppendUvarint(dst, uint64(m.n)), m.sum)
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, m.high), m.lo)
	dst = binary.AppendUvarint(dst, uint64(m.fn))
	if m.fn > 0 {
		dst = binary.BigEndian.AppendUint64(dst, math.Float64bits(m.mean))
		dst = binary.BigEndian.AppendUint64(dst, math.Float64bits(m.m2))
	}
	return dst
}

func (m *moments) read(r *fields.Reader) {
	*m = moments{n: int64(r.Uvarint()), sum: r.Varint(), high: r.Uvarint(), lo: r.Uvarint(),
		fn: int64(r.Uvarint())}
	if m.fn > 0 {
		m.mean = math.Float64frombits(r.Fixed64())
		m.m2 = math.Float64frombits(r.Fixed64())
	}
}

// subtractExact returns a-b unless it does not fit.
func subtractExact(a, b int64) (int64, bool) {
	s := a - b
	return s, (s < a) == (b > 0) || b == 0
}

// addExact returns a+b unless it does not fit.
func addExact(a, b int64) (int64, bool) {
	s := a + b
	return s, (s > a) == (b > 0) || b == 0
}
