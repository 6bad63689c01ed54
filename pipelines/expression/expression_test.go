package expression

import (
	"encoding/json"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/millstream-io/millstream/core/record"
	"github.com/stretchr/testify/require"
)

// orderType is the schema of example 6 of the language's design.
var orderType = &Type{Kind: KindObject, Fields: []Field{
	{"id", &Type{Kind: KindString}}, {"amount", &Type{Kind: KindFloat}},
	{"qty", &Type{Kind: KindInt}},
	{"country", &Type{Kind: KindString}},
	{"note", &Type{Kind: KindString, Nullable: true}},
	{"tags", &Type{Kind: KindList, Item: &Type{Kind: KindString}}},
	{"to", &Type{Kind: KindObject, Fields: []Field{{"city", &Type{Kind: KindString}}}}},
}}

func typed() *Scope {
	return &Scope{Key: Doc{Format: FormatString}, Value: Doc{Type: orderType},
		Vars: []Var{{"min", int64(3)}}}
}

func untyped() *Scope { return &Scope{Key: Doc{Format: FormatString}} }

// eval compiles and runs one expression on one value.
func eval(t *testing.T, scope *Scope, source, value string) (string, error) {
	t.Helper()
	set := NewSet(scope)
	p, issues := set.Compile(source, WantAny)
	require.NotNil(t, p, "%q: %v", source, issues)
	e := set.NewEnv(EnvOptions{Now: func() time.Time { return time.Unix(7, 0) }})
	rec := &Record{Key: []byte("k1"), Timestamp: 1000, Topic: "t", Partition: 2, Offset: 9,
		Headers:     []record.Header{{Key: "h", Value: []byte("v1")}, {Key: "h", Value: []byte("v2")}},
		WindowStart: 0, WindowEnd: 60000}
	if value != "" {
		rec.Value = []byte(value)
	}
	e.Reset(rec)
	out, err := p.AppendJSON(nil, e)
	return string(out), err
}

func TestEvalGivesTheSameOnBothPaths(t *testing.T) {
	window := untyped()
	window.Window = true
	window.Vars = []Var{{"min", int64(3)}, {"who", "x"}}
	for _, c := range []struct{ source, value, want string }{
		{`value.a`, `{"a":1.50}`, `1.50`},                           // passed on as it came
		{`value.a + 0`, `{"a":1.50}`, `1.5`},                        // calculated: as Go writes it
		{`value.a`, `{"a":{"z":1,"b":[ 2 ]}}`, `{"z":1,"b":[ 2 ]}`}, // key order and bytes kept
		{`[value.a]`, `{"a":{"z":1,"b":2}}`, `[{"z":1,"b":2}]`},     // through a decoded object too
		{`{"z": value.a, "b": key}`, `{"a":1}`, `{"z":1,"b":"k1"}`},
		{`{"z": {"y": 1, "x": 2}, "b": [{"q": 1, "a": 2}]}`, `{}`,
			`{"z":{"y":1,"x":2},"b":[{"a":2,"q":1}]}`}, // a literal in a list: sorted
		{`value.a.b`, `{"a":{"b":"x"}}`, `"x"`},
		{`value.missing`, `{}`, `null`},
		{`value.a?.b ?? "none"`, `{"a":null}`, `"none"`},
		{`value.a?.b.c ?? "none"`, `{}`, `"none"`},
		{`value["a b"]`, `{"a b":true}`, `true`},
		{`value.tags[0]`, `{"tags":["x","y"]}`, `"x"`},
		{`filter(value.items, .p > 2)`, `{"items":[{"p":3,"a":1},{"p":1}]}`, `[{"p":3,"a":1}]`},
		{`value.big`, `{"big":123456789012345678901234567890}`, `123456789012345678901234567890`},
		{`[value.big]`, `{"big":123456789012345678901234567890}`,
			`[123456789012345678901234567890]`},
		{`value.id + 1`, `{"id":9007199254740993}`, `9007199254740994`}, // 2^53+1: exact
		{`value.id == 9007199254740993`, `{"id":9007199254740993}`, `true`},
		{`value.x in [1, 2]`, `{"x":2}`, `true`},
		{`value.x in ["a", "b"]`, `{"x":"b"}`, `true`},
		{`6 / 2`, `{}`, `3`},
		{`value.s / value.n`, `{"s":10,"n":4}`, `2.5`},
		{`value == nil`, ``, `true`},
		{`value?.a ?? 7`, ``, `7`},
		{`len(value)`, `{"a":1,"b":2}`, `2`},
		{`keys(value)`, `{"b":1,"a":2}`, `["a","b"]`},
		{`key + topic + string(partition) + string(offset)`, `{}`, `"k1t29"`},
		{`timestamp`, `{}`, `"1970-01-01T00:00:01Z"`},
		{`window.end`, `{}`, `"1970-01-01T00:01:00Z"`},
		{`window.end - window.start`, `{}`, `"1m0s"`},
		{`headers.h`, `{}`, `"v2"`}, {`header("h")`, `{}`, `"v2"`}, {`headers["no"]`, `{}`, `null`},
		{`vars.min + 1`, `{}`, `4`}, {`vars.who`, `{}`, `"x"`},
		{`parse_time(value.at, "rfc3339").Year()`, `{"at":"2001-01-13T14:56:00Z"}`, `2001`},
		{`format_time(timestamp, "2006-01-02")`, `{}`, `"1970-01-01"`},
		{`record_time("date")`, `{}`, `"1970-01-01"`},
		{`processing_time()`, `{}`, `"1970-01-01T00:00:07Z"`},
		// XXH3_64bits("a") of the reference implementation
		{`hash("a")`, `{}`, `"e6c632b61e964e1f"`},
		// the example of the documentation of Python's uuid module
		{`uuid5("dns", "python.org")`, `{}`, `"886313e1-3b8a-5372-9b90-0c9aee199e5d"`},
		{`coalesce(value.a, value.b, 3)`, `{"b":2}`, `2`},
		{`mask("1234567", 4)`, `{}`, `"***4567"`},
		{`ip_in_cidr("10.1.2.3", "10.0.0.0/8")`, `{}`, `true`},
		{`json('{"n": 12345678901234567}').n`, `{}`, `12345678901234567`},
		{`toJSON({"b": 1, "a": 2})`, `{}`, `"{\"a\":2,\"b\":1}"`},
		{`let x = value.a; x * x`, `{"a":3}`, `9`},
		{`value.a`, `{"a":"q\"\u00e9\ud83d\ude00"}`, `"q\"\u00e9\ud83d\ude00"`},
		{`value.a + ""`, `{"a":"q\"\u00e9\ud83d\ude00"}`, `"q\"é😀"`},
	} {
		got, err := eval(t, window, c.source, c.value)
		require.NoError(t, err, c.source)
		require.Equal(t, c.want, got, "%s over %s", c.source, c.value)
	}
}

func TestEvalErrorsNameThePlace(t *testing.T) {
	for _, c := range []struct{ source, value, want string }{
		{`value.a.b`, `{"a":null}`, "cannot fetch b from"},
		{`value.a.b`, `{"a":3}`, "cannot fetch b from int64"},
		{`value.a.b`, `{}`, "cannot fetch b from"},
		{`value.a > 1`, `{}`, "invalid operation"},
		{`map(1..2000000, # * 2)`, `{}`, "memory budget exceeded"},
		{`value.a`, `{"a":1`, "decode value: unexpected end at byte 6"},
		{`value.a`, `{"a":1}x`, "text after the end"},
		{`value.a`, `{"a":1,"a":2}`, `key "a" is here twice at byte 7`},
		{`value.a`, "{\"a\":\"\xff\"}", "invalid UTF-8"},
		{`value.a`, "\ufeff{}", "a value expected at byte 0"},
		{`1 / value.a`, `{"a":0}`, "+Inf has no JSON form"},
		{`parse_time(value.a, "rfc3339")`, `{"a":"x"}`, `"x" is not a time`},
	} {
		_, err := eval(t, untyped(), c.source, c.value)
		require.ErrorContains(t, err, c.want, c.source)
	}
}

func TestCompileIssues(t *testing.T) {
	joined := typed()
	joined.Rows = []Row{{Name: "user", Nullable: true, Doc: Doc{Type: &Type{Kind: KindObject,
		Fields: []Field{{"tier", &Type{Kind: KindString}}}}}}}
	for _, c := range []struct {
		source  string
		want    Want
		problem Problem
		offset  int
		width   int
		text    string
	}{
		{`value.amout > 100`, WantBool, ProblemUnknownField, 6, 5, `unknown field "amout" in value`},
		{`value.to.cty`, WantAny, ProblemUnknownField, 9, 3, `unknown field "cty" in value.to`},
		{`valu.amount`, WantAny, ProblemUnknownName, 0, 4, `unknown name "valu"`},
		{`amount > 1`, WantBool, ProblemUnknownName, 0, 6, `unknown name "amount"`},
		{`uper(value.id)`, WantAny, ProblemUnknownName, 0, 4, `unknown function "uper"`},
		{`1 +`, WantAny, ProblemSyntax, 2, 1, `ends where more is needed`},
		{`value.id > 1`, WantBool, ProblemType, 9, 1, `mismatched types string and int`},
		{`value.amount`, WantBool, ProblemResult, 0, 12, `true or false is needed here`},
		{`value.country`, WantNumber, ProblemResult, 0, 13, `a number is needed here`},
		{`now()`, WantAny, ProblemClock, 0, 3, `now() would make a replay differ`},
		{`decimal("1")`, WantAny, ProblemNotYet, 0, 7, `decimal is not supported yet`},
		{`$env`, WantAny, ProblemUnknownName, 0, 4, `$env is not part`},
		{`processing_time()`, WantTime, ProblemProcessingTime, 0, 15, `breaks replay determinism`},
		{`len(value.note) > 1`, WantBool, ProblemNullable, 10, 4, `value.note may be null`},
		{`user.tier`, WantAny, ProblemNullable, 5, 4, `user may be null`},
		{`window.start`, WantAny, ProblemUnknownName, 0, 6, `unknown name "window"`},
	} {
		p, issues := NewSet(joined).Compile(c.source, c.want)
		require.Len(t, issues, 1, c.source)
		got := issues[0]
		require.Contains(t, got.Message, c.text, c.source)
		require.Equal(t, []any{c.problem, c.offset, c.width},
			[]any{got.Problem, got.Offset, got.Width}, c.source)
		require.Equal(t, got.Warning, p != nil, c.source)
	}
	for _, fine := range []string{`value.note ?? ""`, `value.note == nil || len(value.note) > 1`,
		`user?.tier ?? "none"`, `value.note`, `user == nil`, `value.amount > vars.min`} {
		p, issues := NewSet(joined).Compile(fine, WantAny)
		require.Empty(t, issues, fine)
		require.NotNil(t, p, fine)
	}
	long := make([]byte, MaxSourceBytes+1)
	_, issues := NewSet(joined).Compile(string(long), WantAny)
	require.Equal(t, ProblemTooLong, issues[0].Problem)
}

func TestEncodeNumbersAsGoAndJavaScript(t *testing.T) {
	for _, x := range []float64{3, 2.5, 1e20, 1e21, 1e-6, 1e-7, 0.1 + 0.2, 123456789.25,
		math.Copysign(0, -1)} {
		want, err := json.Marshal(x)
		require.NoError(t, err)
		got, err := AppendJSON(nil, x)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
	}
}

func TestPatchKeepsOrderAndBytes(t *testing.T) {
	for _, c := range []struct{ value, want string }{
		{`{"b":1.0, "ip":"x","a":{"k":1,"drop":2}}`,
			`{"b":1.0,"a":{"k":1,"n":"k1"},"late":true,"new":{"x":2}}`},
		{`{"late":0,"a":null}`, `{"late":true,"a":{"n":"k1"},"new":{"x":2}}`},
		{`{}`, `{"late":true,"a":{"n":"k1"},"new":{"x":2}}`},
		{`{"ip":1}`, `{"late":true,"a":{"n":"k1"},"new":{"x":2}}`},
	} {
		set := NewSet(untyped())
		var patch Patch
		for _, s := range [][2]string{{"late", `true`}, {"a.n", `key`}, {"new.x", `1 + 1`}} {
			p, issues := set.Compile(s[1], WantAny)
			require.Empty(t, issues)
			require.NoError(t, patch.Set(s[0], Whole(p)))
		}
		require.NoError(t, patch.Unset("ip"))
		require.NoError(t, patch.Unset("a.drop"))
		require.Error(t, patch.Set("late.x", nil))
		e := set.NewEnv(EnvOptions{})
		e.Reset(&Record{Key: []byte("k1"), Value: []byte(c.value)})
		got, err := patch.Append(nil, e)
		require.NoError(t, err)
		require.JSONEq(t, c.want, string(got))
		require.Equal(t, c.want, string(got))
	}
}

// TestEnvsShareASet runs one set in several goroutines: nothing in it changes after compilation.
// The race detector is what looks.
func TestEnvsShareASet(t *testing.T) {
	set := NewSet(untyped())
	p, _ := set.Compile(`{"a": value.a.b ?? 1, "b": topic, "c": headers, "d": timestamp}`, WantAny)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			e := set.NewEnv(EnvOptions{})
			for i := range 100 {
				value := `{"a":{"b":2}}`
				if i%2 == 0 {
					value = `{"a":3}` // the plain program, which fails
				}
				e.Reset(&Record{Value: []byte(value), Topic: "t"})
				_, err := p.AppendJSON(nil, e)
				require.Equal(t, i%2 == 0, err != nil)
			}
		})
	}
	wg.Wait()
}

// TestResultsOutliveTheRecord: strings, numbers and bytes of a result are the caller's.
func TestResultsOutliveTheRecord(t *testing.T) {
	set := NewSet(&Scope{Key: Doc{Format: FormatBytes}})
	s, _ := set.Compile(`value.s`, WantAny)
	k, _ := set.Compile(`key`, WantAny)
	e := set.NewEnv(EnvOptions{})
	rec := &Record{Key: []byte("key-1"), Value: []byte(`{"s":"one"}`)}
	e.Reset(rec)
	first, err := s.Value(e)
	require.NoError(t, err)
	key, err := k.Value(e)
	require.NoError(t, err)
	copy(rec.Value, `{"s":"two"}`)
	copy(rec.Key, "key-2")
	e.Reset(rec)
	second, err := s.Value(e)
	require.NoError(t, err)
	require.Equal(t, []any{"one", "two", []byte("key-1")}, []any{first, second, key})
}

func TestKeysAsTextAndTemplates(t *testing.T) {
	set := NewSet(untyped())
	var text Template
	for source, want := range map[string]string{`"a"`: "a", `7`: "7", `2.0`: "2", `true`: "true",
		`{"a": 1}`: `{"a":1}`, `timestamp`: "1970-01-01T00:00:01Z"} {
		p, issues := set.Compile(source, WantAny)
		require.Empty(t, issues)
		e := set.NewEnv(EnvOptions{})
		e.Reset(&Record{Timestamp: 1000})
		key, null, err := p.AppendKey(nil, e)
		require.NoError(t, err)
		require.False(t, null)
		require.Equal(t, want, string(key))
	}
	p, _ := set.Compile(`value?.missing`, WantAny)
	text.AddText("id ")
	text.AddProgram(p)
	e := set.NewEnv(EnvOptions{})
	e.Reset(&Record{})
	_, null, err := p.AppendKey(nil, e)
	require.NoError(t, err)
	require.True(t, null)
	out, err := text.Append(nil, e)
	require.NoError(t, err)
	require.Equal(t, "id null", string(out))
}

func TestNumberItemsAndTime(t *testing.T) {
	set := NewSet(untyped())
	compile := func(source string, want Want) *Program {
		p, issues := set.Compile(source, want)
		require.Empty(t, issues)
		return p
	}
	n, f, null := compile(`value.n`, WantNumber), compile(`value.f`, WantNumber),
		compile(`value.x`, WantNumber)
	bad, items := compile(`value.s`, WantNumber), compile(`value.list`, WantList)
	at := compile(`parse_time(value.at, "rfc3339")`, WantTime)
	e := set.NewEnv(EnvOptions{})
	e.Reset(&Record{Value: []byte(`{"n":9007199254740993,"f":2.5,"s":"x",
		"at":"1970-01-01T00:00:01.5Z","list":[{"b":1,"a":2},"x"]}`)})
	got, err := n.Number(e)
	require.NoError(t, err)
	require.Equal(t, Num{Int: 9007199254740993}, got)
	got, err = f.Number(e)
	require.NoError(t, err)
	require.Equal(t, Num{Float: 2.5, IsFloat: true}, got)
	got, err = null.Number(e)
	require.NoError(t, err)
	require.True(t, got.Null)
	_, err = bad.Number(e)
	require.ErrorContains(t, err, "a number is needed, this is a string")
	ms, err := at.Time(e)
	require.NoError(t, err)
	require.EqualValues(t, 1500, ms)
	var list []string
	require.NoError(t, items.Items(e, func(item []byte) error {
		list = append(list, string(item))
		return nil
	}))
	require.Equal(t, []string{`{"b":1,"a":2}`, `"x"`}, list)
}

// TestWrongTrustIsSafe: a caller that vouches for a value which is no JSON gets an error or a
// result, never a panic.
func TestWrongTrustIsSafe(t *testing.T) {
	set := NewSet(&Scope{Key: Doc{Format: FormatString}, Rows: []Row{{Name: "row"}}})
	var programs []*Program
	for _, source := range []string{`value`, `value.a`, `value.a.b`, `row`, `row.a.b`, `[value, row]`,
		`len(value)`, `row?.a ?? value.a`} {
		p, issues := set.Compile(source, WantAny)
		require.NotNil(t, p, issues)
		programs = append(programs, p)
	}
	var patch Patch
	require.NoError(t, patch.Set("a.b", Whole(programs[1])))
	require.NoError(t, patch.Unset("c"))
	e := set.NewEnv(EnvOptions{})
	for _, garbage := range append(jsonSeeds, "", " ", "{", "{\"a\"", `{"a":1,"b`, `{"a":[`, "\\",
		`{"a":{"b":1},}`, `{"a":1 "b":2}`, `[[[`, `{"a":"\`, `{"a":{"b":2}} {`, `{"a":1,`) {
		rec := &Record{Value: []byte(garbage), ValueValid: true, RowsValid: true,
			Headers: []record.Header{{Key: RowHeader("row"), Value: []byte(garbage)}}}
		for _, p := range programs {
			rec.ValueValid = true
			e.Reset(rec)
			_, _ = p.AppendJSON(nil, e)
			_, _, _ = p.AppendKey(nil, e)
		}
		rec.ValueValid = true
		e.Reset(rec)
		_, _ = patch.Append(nil, e)
	}
}
