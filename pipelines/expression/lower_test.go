package expression

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
)

// chooser makes choices from bytes, so that a fuzzer can steer them.
type chooser struct{ data []byte }

func (c *chooser) pick(n int) int {
	if len(c.data) == 0 {
		return 0
	}
	b := int(c.data[0])
	c.data = c.data[1:]
	return b % n
}

func (c *chooser) of(list ...string) string { return list[c.pick(len(list))] }

// expression writes a random expression: most make sense, some fail at run time.
func (c *chooser) expression(depth int) string {
	if depth <= 0 || len(c.data) == 0 {
		return c.of("value.a", "value.b", "value.c.d", "value.c?.d", "value.gone", "value.c", "key",
			`header("h")`, "vars.n", "vars.s", "1", "-2", "0", "2.5", "1e300", `"x"`, `"de"`, `""`,
			"true", "false", "nil", "9007199254740993", "topic", "offset", "partition",
			"timestamp", "value", "value.c?.d?.e", "value.list")
	}
	sub := func() string { return c.expression(depth - 1) }
	switch c.pick(8) {
	case 0, 1, 2:
		return "(" + sub() + " " + c.of("+", "-", "*", "/", "%", "**", "==", "!=", "<", ">", "<=",
			">=", "and", "or", "??", "contains", "startsWith", "endsWith") + " " + sub() + ")"
	case 3:
		return c.of("not ", "-", "+") + "(" + sub() + ")"
	case 4:
		return "(" + sub() + " ? " + sub() + " : " + sub() + ")"
	case 5:
		return "(" + sub() + c.of(" in ", " not in ") + c.of(`["x", "de", ""]`, "[1, 2, 2.5]",
			`["x", 1, nil, true]`, "["+sub()+", "+sub()+"]", "value.list") + ")"
	case 6:
		return "(" + sub() + " matches " + c.of(`"^d"`, `"x+"`, `""`) + ")"
	}
	return c.of("len", "abs", "floor", "ceil", "round", "int", "float", "upper", "lower", "trim",
		"string", "type") + "(" + sub() + ")"
}

func (c *chooser) scalar() string {
	return c.of("1", "0", "-7", "2.5", "-0", "-0.0", "1e3", "12.34", "true", "false", "null", `""`,
		`"x"`, `"de"`, `" Aé "`, `"a\u00e9\n"`, "9223372036854775807", "-9223372036854775808",
		"9007199254740993", "9223372036854775808", "1e400", "0.1", "123456789012345.6", "[1]",
		`{"d":1}`, `{"d":{"e":"x"}}`, `{"d":null}`, "{}", "1.7976931348623157e308", `"NaN"`, "100")
}

func (c *chooser) event() string {
	switch c.pick(20) {
	case 18:
		return c.scalar()
	case 19:
		return ""
	}
	out := fmt.Sprintf(`{"a":%s,"c":%s,"b":%s`, c.scalar(), c.scalar(), c.scalar())
	return out + c.of("", `,"list":["x",1,null]`) + "}"
}

// checkLowered compares typed code with the VM over one event: the same value of the same type,
// and where the VM gives an error, typed code gave none of its own.
func checkLowered(t testing.TB, p *Program, e *Env, rec Record) (typed bool) {
	e.Reset(&rec)
	o, err := p.eval(e)
	if err == nil && o.kind == opBail {
		return false
	}
	got := o.value()
	again := rec
	e.Reset(&again)
	want, wantErr := p.interpret(e)
	if fmt.Sprint(err) != fmt.Sprint(wantErr) {
		t.Fatalf("%s over %q: typed %v, VM %v", p.source, rec.Value, err, wantErr)
	}
	x, isFloat := got.(float64)
	y, _ := want.(float64)
	same := reflect.DeepEqual(got, want)
	if isFloat {
		same = math.Float64bits(x) == math.Float64bits(y) || math.IsNaN(x) && math.IsNaN(y)
	}
	if !same {
		t.Fatalf("%s over %q: typed %T %v, VM %T %v", p.source, rec.Value, got, got, want, want)
	}
	return true
}

func lowerScope() *Scope {
	return &Scope{Key: Doc{Format: FormatString}, Vars: []Var{{"n", int64(3)}, {"s", "de"}}}
}

func lowerCase(t testing.TB, data []byte) (compiled, typed bool) {
	c := &chooser{data}
	source := c.expression(1 + c.pick(4))
	set := NewSet(lowerScope())
	p, _ := set.Compile(source, WantAny)
	if p == nil {
		return false, false
	}
	e := set.NewEnv(EnvOptions{})
	for range 3 {
		rec := Record{Key: []byte("de"), Topic: "x", Offset: 7, Partition: 2, Timestamp: 1,
			Headers: []record.Header{{Key: "h", Value: []byte("x")}}}
		if text := c.event(); text != "" {
			rec.Value = []byte(text)
		}
		typed = checkLowered(t, p, e, rec) || typed
	}
	return true, typed
}

func FuzzLowered(f *testing.F) {
	for seed := range uint64(50) {
		f.Add(randomBytes(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) { lowerCase(t, data) })
}

func randomBytes(seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	out := make([]byte, 20+r.IntN(60))
	for i := range out {
		out[i] = byte(r.Uint32())
	}
	return out
}

// TestTypedCodeGivesWhatTheVMGives runs random expressions over random events both ways.
func TestTypedCodeGivesWhatTheVMGives(t *testing.T) {
	compiled, typed := 0, 0
	for seed := range uint64(20_000) {
		c, ok := lowerCase(t, randomBytes(seed))
		if c {
			compiled++
		}
		if ok {
			typed++
		}
	}
	// Were typed code never used, the comparison would prove nothing.
	t.Logf("%d expressions compiled, %d of them ran as typed code", compiled, typed)
	require.Greater(t, compiled, 4_000)
	require.Greater(t, typed, 1_500)
}

// TestCommonExpressionsAreTyped holds the common subset to typed code over a usual event.
func TestCommonExpressionsAreTyped(t *testing.T) {
	for source, want := range map[string]any{
		predicate:                                   true,
		`value.price * value.qty`:                   212.5,
		`value.qty % 5`:                             2,
		`value.country in ["DE", "FR"]`:             true,
		`value.qty in [1, 17]`:                      true,
		`value.note contains "door"`:                true,
		`value.user startsWith "u-"`:                true,
		`value.at matches "^2026"`:                  true,
		`value.to.city == "Berlin"`:                 true,
		`value.to?.state ?? "none"`:                 "none",
		`value.gone == nil`:                         true,
		`value.qty > 10 ? "many" : "few"`:           "many",
		`len(value.note) > 3 && not (value.qty<=1)`: true,
		`value.price / 5`:                           2.5,
		`value.to != nil`:                           true,
		`vars.n + value.qty`:                        20,
		`value.user + "@" + value.country`:          "u-104233@DE",
		`key == "k" || value.id == 1`:               true,
		`value.price * 0.908`:                       11.35,
	} {
		set := NewSet(lowerScope())
		p, issues := set.Compile(source, WantAny)
		require.NotNil(t, p, "%s: %v", source, issues)
		e := set.NewEnv(EnvOptions{})
		e.Reset(&Record{Value: []byte(event), Key: []byte("k")})
		o, err := p.eval(e)
		require.NoError(t, err)
		require.NotEqual(t, opBail, o.kind, source)
		require.Equal(t, want, o.value(), source)
	}
}

func TestTypedDecimalsAreThoseOfStrconv(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200_000 {
		whole := fmt.Sprint(r.Uint64N(uint64(math.Pow10(r.IntN(16)))))
		text := fmt.Sprintf("%s%s.%0*d", strings.Repeat("-", r.IntN(2)), whole, 1+r.IntN(6),
			r.IntN(10))
		want := parseNumber([]byte(text)).(float64)
		if got, ok := parseDecimal([]byte(text)); ok {
			require.Equal(t, math.Float64bits(want), math.Float64bits(got), text)
		}
	}
}

// TestWindowTimesAreTyped: the ends of a window as numbers need no VM, and are what it gives.
func TestWindowTimesAreTyped(t *testing.T) {
	scope := lowerScope()
	scope.Window = true
	set := NewSet(scope)
	for source, want := range map[string]int64{
		`window.start.UnixMilli()`: -5, `window.end.UnixMilli()`: 60_000,
		`window.end.UnixMilli() - window.start.UnixMilli()`: 60_005,
	} {
		p, problems := set.Compile(source, WantAny)
		require.Empty(t, problems, source)
		rec := Record{WindowStart: -5, WindowEnd: 60_000}
		e := set.NewEnv(EnvOptions{})
		require.True(t, checkLowered(t, p, e, rec), source)
		e.Reset(&rec)
		got, err := p.Value(e)
		require.NoError(t, err)
		require.EqualValues(t, want, got, source)
	}
}
