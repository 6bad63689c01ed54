package expression

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

var jsonSeeds = []string{event, `{}`, `[]`, `null`, `true`, `false`, `0`, `-0`, `-0.0`, `1e5`,
	`1E-7`,
	`123456789012345678`, `9223372036854775807`, `9223372036854775808`, `-9223372036854775808`,
	`1e400`, `1.`, `.5`, `01`, `+1`, `"\u00e9\ud83d\ude00\ud800x\/"`, `"\x"`, "\"\x01\"",
	`{"a":1,"a":2}`, `{"a":{"b":[1,{"c":null}]},"d":"e"}`, ` { "a" : [ 1 , 2 ] } `, `{"a":1}x`,
	`{"\u0061":1,"a":2}`, `[1,]`, `{,}`, `{"a"}`, "\ufeff{}", "\"\xff\"", `"abcdefgh\"ij"`,
	`{"aaaaaaaaaaaaaaaaaaaaaaaaaaaa":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\\"}`, `nul`, `tru`, `"`,
}

// standard decides by encoding/json what a value may be: valid, UTF-8, keys unique, not too deep.
func standard(data []byte) (value any, ok bool) {
	if !utf8.Valid(data) || !json.Valid(data) {
		return nil, false
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	v, ok := standardValue(dec, 0)
	return v, ok
}

func standardValue(dec *json.Decoder, depth int) (any, bool) {
	tok, err := dec.Token()
	if err != nil || depth > maxJSONDepth {
		return nil, false
	}
	switch tok := tok.(type) {
	case json.Number:
		return standardNumber(tok), true
	case json.Delim:
		if tok == '[' {
			list := []any{}
			for dec.More() {
				v, ok := standardValue(dec, depth+1)
				if !ok {
					return nil, false
				}
				list = append(list, v)
			}
			_, err := dec.Token()
			return list, err == nil && depth < maxJSONDepth
		}
		m := map[string]any{}
		for dec.More() {
			key, err := dec.Token()
			if err != nil {
				return nil, false
			}
			if _, dup := m[key.(string)]; dup {
				return nil, false
			}
			v, ok := standardValue(dec, depth+1)
			if !ok {
				return nil, false
			}
			m[key.(string)] = v
		}
		_, err := dec.Token()
		return m, err == nil && depth < maxJSONDepth
	}
	return tok, true
}

// standardNumber is a number by the rule of the language, computed with math/big.
func standardNumber(n json.Number) any {
	if i, ok := new(big.Int).SetString(n.String(), 10); ok && n != "-0" {
		if i.IsInt64() {
			return i.Int64()
		}
		return Number(n)
	}
	x, err := n.Float64()
	if err != nil {
		return Number(n)
	}
	return x
}

func FuzzJSON(f *testing.F) {
	for _, s := range jsonSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		want, ok := standard(data)
		got, err := DecodeJSON(data)
		if ok != (err == nil) {
			t.Fatalf("%q: encoding/json says valid=%v, we say %v", data, ok, err)
		}
		if (Valid(data) == nil) != ok {
			t.Fatalf("%q: Valid says %v", data, Valid(data))
		}
		if !ok {
			return
		}
		if !reflect.DeepEqual(want, got) {
			t.Fatalf("%q:\nwant %#v\ngot  %#v", data, want, got)
		}
		text, err := AppendJSON(nil, got)
		if err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		again, err := DecodeJSON(text)
		if err != nil {
			t.Fatalf("%q written as %q: %v", data, text, err)
		}
		if !reflect.DeepEqual(whole(got), whole(again)) {
			t.Fatalf("%q written as %q", data, text)
		}
	})
}

// whole makes a float that is a whole number the integer it reads as once written: 3.0 is 3.
func whole(v any) any {
	switch v := v.(type) {
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1e21 {
			text, _ := AppendFloat(nil, v)
			return parseNumber(text)
		}
	case []any:
		for i := range v {
			v[i] = whole(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = whole(v[k])
		}
	}
	return v
}

func TestStringScanFindsEverySpecialByte(t *testing.T) {
	for at := range 20 {
		for c := range 256 {
			text := bytes.Repeat([]byte{'x'}, 20)
			text[at] = byte(c)
			data := append(append([]byte{'"'}, text...), '"')
			_, ok := standard(data)
			require.Equal(t, ok, Valid(data) == nil, "%q", data)
		}
	}
}

// FuzzPaths compares the flat program with the one over the decoded value: same result or both
// an error, whatever the value is.
func FuzzPaths(f *testing.F) {
	sources := []string{`value.a`, `value.a.b`, `value.a?.b ?? "n"`, `value.a + value.b`,
		`value.a == value.b`, `value.a in [1, "x", 2.5]`, `len(value.a)`, `value["a"]["b"].c`,
		`{"x": value.a, "y": [value.b, value]}`, `value.a > 1 and value.b != nil`, `value`,
		`value.a?.b.c`, `map(value.a, #)`, `keys(value)`, `value.a ?? value.b ?? key`,
		`value.a.b + value.a.c`, `value.a matches "x+"`, `[value.a.b, value.a]`, `toJSON(value)`}
	values := append([]string{`{"a":1,"b":2}`, `{"a":{"b":{"c":3},"c":2}}`, `{"a":null,"b":"x"}`,
		`{"b":1}`, `{"a":{"b":null}}`, `{"a":[1,{"z":1,"b":2}],"b":2.50}`, `{"a":"xx","b":"x"}`},
		jsonSeeds...)
	for i := range sources {
		for _, v := range values {
			f.Add(i, []byte(v))
		}
	}
	set := NewSet(&Scope{Key: Doc{Format: FormatString}})
	programs := make([]*Program, len(sources))
	for i, s := range sources {
		if programs[i], _ = set.Compile(s, WantAny); programs[i] == nil {
			f.Fatal(s)
		}
	}
	e := set.NewEnv(EnvOptions{})
	f.Fuzz(func(t *testing.T, i int, value []byte) {
		p := programs[uint(i)%uint(len(programs))]
		run := func(p *Program) (string, error) {
			e.Reset(&Record{Key: []byte("k"), Value: value})
			out, err := p.AppendJSON(nil, e)
			return string(out), err
		}
		got, err1 := run(p)
		want, err2 := runPlain(e, p, value)
		if (err1 == nil) != (err2 == nil) {
			t.Fatalf("%s over %q: %v, decoded: %v", p.source, value, err1, err2)
		}
		if err1 != nil {
			return
		}
		a, errA := DecodeJSON([]byte(got))
		b, errB := DecodeJSON([]byte(want))
		if errA != nil || errB != nil || !reflect.DeepEqual(whole(a), whole(b)) {
			t.Fatalf("%s over %q: %s, decoded: %s (%v %v)", p.source, value, got, want, errA, errB)
		}
	})
}

// runPlain runs only the plain program.
func runPlain(e *Env, p *Program, value []byte) (string, error) {
	e.Reset(&Record{Key: []byte("k"), Value: value})
	if err := e.loadWhole(p); err != nil {
		return "", err
	}
	v, err := e.machine.Run(p.plain, e.whole)
	if err != nil {
		return "", err
	}
	out, err := (&encoder{from: e.from}).append(nil, v, 0)
	return string(out), err
}

func FuzzCompile(f *testing.F) {
	for _, s := range []string{predicate, `value.a?.b ?? {"x": [1, 2.5, "s"]}`, `map(1..3, # * 2)`,
		`let x = value; x.y`, `1 +`, `"`, `value[`, `a.b.c(d)`, `$env`, `now()`, `value.a.b()`,
		`processing_time().Unix()`, `header(key)`, `headers[key]`, `x ? y : z`, `not value.a`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		set := NewSet(untyped())
		p, issues := set.Compile(source, WantAny)
		if p == nil != Fatal(issues) {
			t.Fatalf("%q: program %v, issues %v", source, p != nil, issues)
		}
		for _, i := range issues {
			if i.Offset < 0 || i.Offset > len(source) || i.Message == "" || i.Problem == 0 {
				t.Fatalf("%q: %+v", source, i)
			}
		}
		if p == nil {
			return
		}
		e := set.NewEnv(EnvOptions{})
		e.Reset(&Record{Value: []byte(event)})
		if out, err := p.AppendJSON(nil, e); err == nil {
			if err := Valid(out); err != nil {
				t.Fatal(fmt.Errorf("%q gives %q: %w", source, out, err))
			}
		}
	})
}
