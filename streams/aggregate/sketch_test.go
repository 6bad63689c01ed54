package aggregate

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/millstream-io/millstream/streams/internal/fields"
	"github.com/millstream-io/millstream/streams/operator"
)

// fold adds values one by one, through rows, as an operator does.
func fold(t require.TestingT, f *Field, values []Value) *accumulator {
	a := &accumulator{}
	for i, v := range values {
		require.NoError(t, a.add(f, &argument{value: v, shown: v, order: int64(i)}))
		r := fields.Reader{Left: a.append(nil, f)}
		a = &accumulator{}
		a.read(&r, f)
		require.True(t, r.Whole())
	}
	return a
}

// G60: any permutation, and any way to merge, gives the same bytes.
func TestG60_SketchesAreFreeOfOrder(t *testing.T) {
	for _, f := range []*Field{{Func: ApproxDistinct}, {Func: Quantile, PerMille: 990},
		{Func: Distinct}, {Func: StdDev}, {Func: Sum}, {Func: Min}, {Func: Max}} {
		t.Run(f.Func.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				list := rapid.SliceOfN(rapid.Int64Range(-1e9, 1e9), 1, 60).Draw(t, "values")
				var values []Value
				for _, x := range list {
					values = append(values, IntValue(x))
				}
				want := fold(t, f, values).append(nil, f)
				shuffled := rapid.Permutation(values).Draw(t, "order")
				require.Equal(t, want, fold(t, f, shuffled).append(nil, f))
				cut := rapid.IntRange(0, len(list)).Draw(t, "cut")
				a, b := fold(t, f, shuffled[:cut]), fold(t, f, shuffled[cut:])
				require.NoError(t, b.merge(f, a))
				require.Equal(t, want, b.append(nil, f))
			})
		})
	}
}

// A sketch that has grown dense is the same however it came to be.
func TestG60_DenseSketchesAreFreeOfOrder(t *testing.T) {
	const n = 50_000
	rnd := rand.New(rand.NewPCG(1, 2))
	var up, down, left, right hll
	for i := range n {
		up.add(fmt.Appendf(nil, "user-%d", i))
		down.add(fmt.Appendf(nil, "user-%d", n-1-i))
		if rnd.IntN(100) == 0 {
			left.add(fmt.Appendf(nil, "user-%d", i))
		} else {
			right.add(fmt.Appendf(nil, "user-%d", i))
		}
	}
	require.NotEmpty(t, up.dense)
	require.NotEmpty(t, left.sparse)
	require.Equal(t, up.append(nil), down.append(nil))
	left.merge(&right)
	require.Equal(t, up.append(nil), left.append(nil))
	require.InEpsilon(t, n, up.estimate(), 0.02)
}

// The standard error of 2^14 registers is 1.04/sqrt(2^14) = 0.81 %; four of them are allowed.
func TestApproxDistinctIsNear(t *testing.T) {
	var h hll
	next := 0
	for _, n := range []int{0, 1, 10, 100, 1000, 10_000, 100_000, 300_000} {
		for ; next < n; next++ {
			h.add(fmt.Appendf(nil, "value %d", next))
			h.add(fmt.Appendf(nil, "value %d", next/2))
		}
		require.InDelta(t, n, h.estimate(), 0.0325*float64(n)+0.5, "%d values", n)
	}
}

// The number reported for a rank is the exact one or less than 1 % nearer to 0.
func TestQuantileIsNear(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		normal := rapid.Float64Range(-1e12, 1e12).Filter(func(x float64) bool {
			return x == 0 || math.Abs(x) >= 0x1p-1022
		})
		list := rapid.SliceOfN(normal, 1, 80).Draw(t, "values")
		f := &Field{Func: Quantile, PerMille: rapid.IntRange(1, 1000).Draw(t, "per mille")}
		a := &accumulator{}
		for _, x := range list {
			require.NoError(t, a.add(f, &argument{value: FloatValue(x)}))
		}
		slices.Sort(list)
		exact := list[max(1, (len(list)*f.PerMille+999)/1000)-1]
		got := float(a.result(f))
		require.LessOrEqual(t, math.Abs(got), math.Abs(exact))
		require.GreaterOrEqual(t, math.Abs(got), 0.99*math.Abs(exact))
		require.False(t, got*exact < 0)
	})
}

// Small numbers are reported as they are.
func TestQuantileOfSmallIntegersIsExact(t *testing.T) {
	for x := int64(-256); x <= 256; x++ {
		a := fold(t, &Field{Func: Quantile, PerMille: 500}, []Value{IntValue(x)})
		require.Equal(t, IntValue(x), a.result(&Field{Func: Quantile, PerMille: 500}))
	}
}

// exactDeviation is the definition, in rational numbers.
func exactDeviation(list []int64) float64 {
	n := big.NewRat(int64(len(list)), 1)
	mean := new(big.Rat)
	for _, x := range list {
		mean.Add(mean, big.NewRat(x, 1))
	}
	mean.Quo(mean, n)
	sum := new(big.Rat)
	for _, x := range list {
		d := new(big.Rat).Sub(big.NewRat(x, 1), mean)
		sum.Add(sum, d.Mul(d, d))
	}
	v, _ := sum.Quo(sum, big.NewRat(int64(len(list)-1), 1)).Float64()
	return math.Sqrt(v)
}

func TestStdDevOfIntegersIsExactAndTakesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.Int64Range(-1e15, 1e15), 2, 40).Draw(t, "values")
		f := &Field{Func: StdDev}
		a := &accumulator{}
		for _, x := range list {
			require.NoError(t, a.add(f, &argument{value: IntValue(x)}))
		}
		gone := rapid.Int64().Draw(t, "gone")
		before := a.append(nil, f)
		if a.add(f, &argument{value: IntValue(gone)}) == nil {
			require.NoError(t, a.subtract(f, IntValue(gone)))
			require.Equal(t, before, a.append(nil, f))
			require.InDelta(t, exactDeviation(list), a.result(f).Float,
				1e-12*(1+exactDeviation(list)))
		}
	})
}

// A mean of 1e9 with a spread of 1: sums of squares in floats would lose it all.
func TestStdDevOfFloatsKeepsASmallSpread(t *testing.T) {
	f := &Field{Func: StdDev}
	a, b := &accumulator{}, &accumulator{}
	for i := range 100 {
		x := FloatValue(1e9 + 0.5 + float64(i%2)*2 - 1)
		require.NoError(t, a.add(f, &argument{value: x}))
	}
	require.InDelta(t, math.Sqrt(100.0/99), a.result(f).Float, 1e-7)
	require.NoError(t, b.merge(f, a))
	require.InDelta(t, math.Sqrt(100.0/99), b.result(f).Float, 1e-7)
	require.NoError(t, b.subtract(f, FloatValue(1e9+1.5)))
	require.NoError(t, b.add(f, &argument{value: FloatValue(1e9 + 1.5)}))
	require.InDelta(t, math.Sqrt(100.0/99), b.result(f).Float, 1e-6)
}

func TestSumsOfSquaresFailInsteadOfWrapping(t *testing.T) {
	f := &Field{Func: StdDev}
	a := &accumulator{}
	require.NoError(t, a.add(f, &argument{value: IntValue(math.MaxInt64)}))
	err := a.add(f, &argument{value: IntValue(math.MaxInt64)})
	require.ErrorIs(t, err, ErrOverflow)
	require.Equal(t, operator.ClassOverflow, operator.ClassOf(err, ""))
	var c accumulator
	c.count = math.MaxInt64
	require.ErrorIs(t, c.merge(&Field{Func: Count}, &accumulator{count: 1}), ErrOverflow)
	c = accumulator{sum: math.MaxInt64}
	require.ErrorIs(t, c.merge(&Field{Func: Sum}, &accumulator{sum: 1}), ErrOverflow)
}

func TestListsAreBounded(t *testing.T) {
	f := &Field{Func: Collect, Limit: 100}
	a := &accumulator{}
	big := StringValue(string(make([]byte, 600_000)))
	require.NoError(t, a.add(f, &argument{value: big}))
	err := a.add(f, &argument{value: big})
	require.ErrorIs(t, err, ErrTooLarge)
	require.Equal(t, operator.ClassTooLarge, operator.ClassOf(err, ""))
}

// The rows of values compare as the values do, whatever they are.
func TestPlacesSortAsValues(t *testing.T) {
	value := rapid.OneOf(rapid.Map(rapid.Int64(), IntValue),
		rapid.Map(rapid.Float64Range(-1e300, 1e300), FloatValue),
		rapid.Map(rapid.Int64Range(-3, 3), func(i int64) Value { return FloatValue(float64(i)) }),
		rapid.Map(rapid.Int64Range(-3, 3), IntValue))
	text := rapid.Map(rapid.StringMatching("[\x00ab]{0,4}"), StringValue)
	rapid.Check(t, func(t *rapid.T) {
		gen := value
		if rapid.Bool().Draw(t, "text") {
			gen = text
		}
		x, y := gen.Draw(t, "x"), gen.Draw(t, "y")
		want, err := compare(x, y)
		require.NoError(t, err)
		place := func(fn Func, v Value) string {
			f := &Field{Func: fn}
			return string(f.appendPlace(nil, &argument{value: v, shown: v}))
		}
		require.Equal(t, want, cmp.Compare(place(Min, x), place(Min, y)))
		require.Equal(t, -want, cmp.Compare(place(Max, x), place(Max, y)))
	})
}
