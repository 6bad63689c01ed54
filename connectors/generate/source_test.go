package generate_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/connectors/generate"
	"github.com/millstream-io/millstream/plugins/plugintest"
)

const allFields = `"fields":[
	{"name":"n","type":"sequence"},{"name":"i","type":"int","min":-5,"max":5},
	{"name":"f","type":"float","min":0,"max":1},{"name":"b","type":"bool"},
	{"name":"s","type":"string","length":5},{"name":"u","type":"uuid"},{"name":"at","type":"time"},
	{"name":"c","type":"choice","values":["red","gr\"een"]},{"name":"k","type":"const","values":["x"]}]`

func read(t *testing.T, config string, position []byte) plugintest.Read {
	t.Helper()
	got, err := plugintest.ReadAll(t, generate.Plugin(), "source", config, position)
	require.NoError(t, err)
	require.Empty(t, got.Errors)
	return got
}

func values(r plugintest.Read) (out []string) {
	for _, x := range r.Records {
		out = append(out, string(x.Value))
	}
	return out
}

func TestSourceMakesFieldsOfTheirTypes(t *testing.T) {
	got := read(t, `{"count":500,"start":"2026-03-01T12:00:00Z","step":"90s",`+allFields+`}`, nil)
	require.Len(t, got.Records, 500)
	seen := map[string]map[any]bool{"b": {}, "c": {}, "i": {}}
	for n, r := range got.Records {
		var v struct {
			N          int64
			I          int64
			F          float64
			B          bool
			S, U, C, K string
			At         time.Time
		}
		require.NoError(t, json.Unmarshal(r.Value, &v), string(r.Value))
		at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(n) * 90 * time.Second)
		require.Equal(t, int64(n), v.N)
		require.Equal(t, at, v.At)
		require.Equal(t, at.UnixMilli(), r.Timestamp)
		require.True(t, v.I >= -5 && v.I <= 5 && v.F >= 0 && v.F <= 1)
		require.Len(t, v.S, 5)
		u, err := uuid.Parse(v.U)
		require.NoError(t, err)
		require.Equal(t, uuid.Version(4), u.Version())
		require.Equal(t, uuid.RFC4122, u.Variant())
		require.Contains(t, []string{"red", `gr"een`}, v.C)
		require.Equal(t, "x", v.K)
		seen["b"][v.B], seen["c"][v.C], seen["i"][v.I] = true, true, true
	}
	require.Len(t, seen["b"], 2)
	require.Len(t, seen["c"], 2)
	require.Len(t, seen["i"], 11)
}

func TestSourceSameSeedSameBytes(t *testing.T) {
	config := `{"count":3000,"seed":7,` + allFields + `}`
	want := values(read(t, config, nil))
	require.Equal(t, want, values(read(t, config, nil)))
	require.Equal(t, want[1234:], values(read(t, config, []byte(`{"next":1234}`))))
	require.NotEqual(t, want, values(read(t, `{"count":3000,"seed":8,`+allFields+`}`, nil)))
	// Golden: a change of these bytes breaks everybody's reproducible tests.
	require.Equal(t, []string{
		`{"id":0,"at":"2026-01-01T00:00:00Z","value":60}`,
		`{"id":1,"at":"2026-01-01T00:00:01Z","value":100}`,
	}, values(read(t, `{"count":2}`, nil)))
}

func TestSourceKeepsItsRate(t *testing.T) {
	began := time.Now()
	got := read(t, `{"count":50,"rate":200}`, nil)
	require.Len(t, got.Records, 50)
	require.GreaterOrEqual(t, time.Since(began), 240*time.Millisecond) // 50 at 200 a second: 250 ms
}

func TestSourceConfigFaults(t *testing.T) {
	for _, c := range []struct{ config, want string }{
		{
			`{"start":"yesterday"}`,
			`/start: "yesterday" is not an RFC 3339 time`,
		},
		{
			`{"count":-1}`,
			"/count: -1 is below the minimum 0",
		},
		{
			`{"fields":[{"name":"a","type":"integer"}]}`,
			`/fields/0/type: "integer" is not one of`,
		},
		{
			`{"fields":[{"type":"int"}]}`,
			"/fields/0/name: is required",
		},
		{
			`{"fields":[{"name":"a","type":"choice"}]}`,
			"/fields/0/values: is required for choice",
		},
		{
			`{"fields":[{"name":"a","type":"int","min":9,"max":1}]}`,
			"/fields/0/max: 1 is below min 9",
		},
		{
			`{"fields":[{"name":"a","type":"bool"},{"name":"a","type":"bool"}]}`,
			`/fields/1/name: field "a" is there twice`,
		},
	} {
		found := generate.Plugin().Parts[0].Check([]byte(c.config))
		require.NotEmpty(t, found, c.config)
		require.Contains(t, found[0].Pointer+": "+found[0].Message, c.want)
	}
}

func TestSourceSuite(t *testing.T) {
	plugintest.TestSource(t, plugintest.Source{Common: plugintest.Common{
		Command: plugintest.Self(t, "plugin"), Part: "source", Config: fmt.Sprintf(`{"count":5000,%s}`,
			allFields),
		BadConfig: `{"rate":-1}`, BadPointer: "/rate",
	}})
}
