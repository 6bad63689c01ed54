package aggregate

import (
	"encoding/json"
	"math"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/millstream-io/millstream/streams/internal/fields"
	"github.com/millstream-io/millstream/streams/operator"
)

// encoding/json writes floats as ECMA-262 does; it is the other implementation here.
func TestJSONAsJavaScriptWritesIt(t *testing.T) {
	for f, want := range map[float64]string{
		3: "3", -0.5: "-0.5", 1e21: "1e+21", 1e20: "100000000000000000000", 1e-7: "1e-7",
		0.000001: "0.000001", math.Copysign(0, -1): "0", 1.5e300: "1.5e+300", 2.5e-10: "2.5e-10",
	} {
		require.Equal(t, want, string(FloatValue(f).AppendJSON(nil)))
	}
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.Float64().Draw(t, "f")
		want, err := json.Marshal(f)
		if err != nil || f == 0 {
			return
		}
		require.Equal(t, string(want), string(FloatValue(f).AppendJSON(nil)))
	})
	require.Equal(t, `null`, string(Value{}.AppendJSON(nil)))
	require.Equal(t, `-7`, string(IntValue(-7).AppendJSON(nil)))
	require.Equal(t, `"a\"b"`, string(StringValue(`a"b`).AppendJSON(nil)))
}

func TestValueBecomesAGoValue(t *testing.T) {
	require.Equal(t, []any{int64(1), 2.5, "x", nil}, []any{IntValue(1).Any(), FloatValue(2.5).Any(),
		StringValue("x").Any(), Value{}.Any()})
}

// The quotient is the float64 nearest to the exact one: math/big says which.
func TestQuotientIsRoundedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sum := rapid.Int64().Draw(t, "sum")
		count := rapid.Int64Range(1, math.MaxInt64).Draw(t, "count")
		got := quotient(sum, count)
		exact := new(big.Rat).SetFrac64(sum, count)
		if exact.IsInt() {
			require.Equal(t, IntValue(exact.Num().Int64()), got)
			return
		}
		want, _ := exact.Float64()
		require.Equal(t, FloatValue(want), got)
	})
}

func TestCompareIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) (Value, *big.Float) {
			if rapid.Bool().Draw(t, name+" is int") {
				i := rapid.Int64().Draw(t, name)
				return IntValue(i), new(big.Float).SetInt64(i)
			}
			f := rapid.OneOf(rapid.Float64(), rapid.Custom(func(t *rapid.T) float64 {
				return float64(rapid.Int64().Draw(t, "whole"))
			})).Draw(t, name)
			return FloatValue(f), big.NewFloat(f)
		}
		a, x := draw("a")
		b, y := draw("b")
		got, err := compare(a, b)
		require.NoError(t, err)
		require.Equal(t, x.Cmp(y), got)
	})
	// 2^53+1 is not a float64; rounded to one it would equal 2^53.
	got, err := compare(IntValue(1<<53+1), FloatValue(1<<53))
	require.NoError(t, err)
	require.Equal(t, 1, got)
	_, err = compare(StringValue("1"), IntValue(1))
	require.ErrorIs(t, err, ErrMixed)
}

func TestIntegerSumFailsInsteadOfWrapping(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := accumulator{sum: rapid.Int64().Draw(t, "sum"), hasInt: true}
		v := rapid.Int64().Draw(t, "v")
		before := a
		exact := new(big.Int).Add(big.NewInt(a.sum), big.NewInt(v))
		err := a.add(&Field{Func: Sum}, &argument{value: IntValue(v)})
		if exact.IsInt64() {
			require.NoError(t, err)
			require.Equal(t, IntValue(exact.Int64()), a.result(&Field{Func: Sum}))
			return
		}
		require.ErrorIs(t, err, ErrOverflow)
		require.Equal(t, operator.ClassOverflow, operator.ClassOf(err, ""))
		require.Equal(t, before, a)
	})
}

func TestFloatSumIsCompensated(t *testing.T) {
	var a accumulator
	// The plain sum of these is 0; the right one is 2 (Neumaier's example).
	for _, f := range []float64{1, 1e100, 1, -1e100} {
		require.NoError(t, a.add(&Field{Func: Sum}, &argument{value: FloatValue(f)}))
	}
	require.Equal(t, FloatValue(2), a.result(&Field{Func: Sum}))
	a = accumulator{}
	for range 10 {
		require.NoError(t, a.add(&Field{Func: Sum}, &argument{value: FloatValue(0.1)}))
	}
	require.NoError(t, a.add(&Field{Func: Sum}, &argument{value: IntValue(2)}))
	require.Equal(t, FloatValue(3), a.result(&Field{Func: Sum}))

	for _, f := range []float64{math.NaN(), math.Inf(1)} {
		before := a
		require.ErrorIs(t, a.add(&Field{Func: Sum}, &argument{value: FloatValue(f)}), ErrNotFinite)
		require.ErrorIs(t, a.add(&Field{Func: Max}, &argument{value: FloatValue(f)}), ErrNotFinite)
		require.Equal(t, before, a)
	}
	require.NoError(t, a.add(&Field{Func: Sum}, &argument{value: FloatValue(math.MaxFloat64)}))
	require.ErrorIs(t, a.add(&Field{Func: Sum},
		&argument{value: FloatValue(math.MaxFloat64)}), ErrOverflow)
	require.ErrorIs(t, a.add(&Field{Func: Avg}, &argument{value: StringValue("x")}), ErrNotNumber)
	require.Zero(t, a.count)
}

func fiveFields() *aggregate {
	return New(Options{Fields: []Field{{Func: Count}, {Func: Sum}, {Func: Avg}, {Func: Min},
		{Func: Max}}})().(*aggregate)
}

// Rows outlive the program: timestamp, count, sum, avg, min, max.
func TestRowBytes(t *testing.T) {
	a := fiveFields()
	row := []byte("\x00\x00\x00\x00\x00\x00\x00\x2a" + "\x03" + "\x01\x0d" + "\x01\x0d\x02" +
		"\x01\x0d" + "\x03\x02ab")
	ts, err := a.decode(row)
	require.NoError(t, err)
	require.EqualValues(t, 42, ts)
	require.Equal(t, accumulator{count: 3}, a.accs[0])
	require.Equal(t, accumulator{sum: -7, hasInt: true}, a.accs[1])
	require.Equal(t, accumulator{sum: -7, hasInt: true, count: 2}, a.accs[2])
	require.Equal(t, accumulator{extreme: IntValue(-7)}, a.accs[3])
	require.Equal(t, accumulator{extreme: StringValue("ab")}, a.accs[4])
	again := row[:8:8]
	for i := range a.accs {
		again = a.accs[i].append(again, &a.fields[i])
	}
	require.Equal(t, row, again)
}

func FuzzRow(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x00\x2a\x03\x01\x0d\x01\x0d\x02\x01\x0d\x03\x02ab"))
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x00\x2a\x03\x02\x0d"))
	f.Add([]byte("\x00\x00\x00\x00\x00\x00\x00\x2a\x03\x01\x0d\x01\x0d\x02\x01\x0d\x03" +
		"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, row []byte) {
		a := fiveFields()
		if _, err := a.decode(row); err != nil {
			require.ErrorIs(t, err, errRow)
		}
	})
}

func FuzzAccumulatorRoundTrip(f *testing.F) {
	f.Add(int64(1), 2.5, "x", uint8(1))
	f.Fuzz(func(t *testing.T, i int64, x float64, s string, fn uint8) {
		field := &Field{Func: Func(fn % uint8(Reduce)), Limit: 3, PerMille: 500}
		var a, b accumulator
		for _, v := range []Value{IntValue(i), FloatValue(x), StringValue(s)} {
			_ = a.add(field, &argument{value: v, shown: v, ts: i, order: int64(fn)})
		}
		r := fields.Reader{Left: a.append(nil, field)}
		b.read(&r, field)
		require.True(t, r.Whole())
		require.Equal(t, a.append(nil, field), b.append(nil, field))
		require.Equal(t, a.result(field), b.result(field))
	})
}
