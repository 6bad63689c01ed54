package sdk

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type inner struct {
	Host string `json:"host" default:"localhost"`
	Port int    `json:"port" default:"5432" min:"1" max:"65535"`
}

type full struct {
	Name    string          `json:"name" required:"true" min:"2" max:"5" doc:"who"`
	Ratio   float64         `json:"ratio" default:"0.8" min:"0" max:"1"`
	Count   uint32          `json:"count" default:"3"`
	Wait    time.Duration   `json:"wait" default:"1m30s" max:"1h"`
	Mode    string          `json:"mode" enum:"fast,slow" default:"fast"`
	On      bool            `json:"on" default:"true"`
	Tags    []string        `json:"tags" default:"[\"a\"]" max:"2"`
	Map     map[string]int  `json:"map"`
	Server  inner           `json:"server"`
	Servers []inner         `json:"servers"`
	Any     any             `json:"any"`
	Raw     json.RawMessage `json:"raw"`
	Pointer *int            `json:"pointer"`
	Skipped string          `json:"-"`
}

func (f *full) Validate() error {
	if f.Mode == "slow" && f.Wait < time.Second {
		return errors.Join(At("/wait", "too short for mode slow"), errors.New("and in general"))
	}
	return nil
}

func fullShape(t *testing.T) *shape {
	p := NewMap("x", func(Ctx, full, *Record) error { return nil })
	require.NoError(t, p.err)
	return p.shape
}

func TestConfigDefaults(t *testing.T) {
	c, found := decodeConfig[full](fullShape(t),
		[]byte(`{"name":"abc","servers":[{"port":1}],"pointer":4}`))
	require.Empty(t, found)
	four := 4
	require.Equal(t, full{
		Name: "abc", Ratio: 0.8, Count: 3, Wait: 90 * time.Second, Mode: "fast", On: true,
		Tags: []string{"a"}, Server: inner{"localhost", 5432}, Servers: []inner{{"localhost",
			1}}, Pointer: &four,
	}, c)
	_, found = decodeConfig[struct{}](&shape{kind: kindObject}, nil) // no configuration at all
	require.Empty(t, found)
}

func TestConfigFindsEverythingAtOnce(t *testing.T) {
	_, found := decodeConfig[full](fullShape(t), []byte(`{
		"ratio": 1.5, "count": -1, "wait": "2h", "mode": "fats", "on": "yes", "tags": ["a","b","c"],
		"map": {"x/y~": 1.5}, "server": {"prot": 1}, "servers": [{}, {"port": 70000}], "nmae": 1}`))
	var got []string
	for _, d := range found {
		got = append(got, d.Pointer+": "+d.Message+" | "+d.Hint)
	}
	require.Equal(t, []string{
		"/name: is required | who",
		"/ratio: 1.5 is above the maximum 1 | ",
		"/count: -1 is negative | ",
		"/wait: 2h is above the maximum 1h0m0s | ",
		`/mode: "fats" is not one of fast, slow | did you mean "fast"?`,
		`/on: is "yes", want true or false | `,
		"/tags: the length 3 is above the maximum 2 | ",
		"/map/x~1y~0: is the number 1.5, want an integer | ",
		`/server/prot: unknown field "prot" | did you mean "port"?`,
		"/servers/1/port: 70000 is above the maximum 65535 | ",
		`/nmae: unknown field "nmae" | did you mean "name"?`,
	}, got)
}

func TestConfigOtherFaults(t *testing.T) {
	s := fullShape(t)
	for in, want := range map[string]string{
		`[]`:                         ": is a list, want an object",
		`{`:                          ": configuration is not JSON: unexpected EOF",
		`{} {}`:                      ": configuration is not JSON: more than one JSON value",
		`{"name":"a"}`:               "/name: the length 1 is below the minimum 2",
		`{"name":7}`:                 "/name: is the number 7, want a string",
		`{"name":"abc","count":5e9}`: ": configuration: json",
		`{"name":"abc","wait":5}`:    `/wait: is the number 5, want a duration such as "1m30s"`,
		`{"name":"abc","count":1e2}`: "",
		`{"name":"abc","mode":"slow","wait":"1ms"}`: "/wait: too short for mode slow",
	} {
		_, found := decodeConfig[full](s, []byte(in))
		if want == "" {
			require.Empty(t, found, in)
			continue
		}
		require.NotEmpty(t, found, in)
		require.Contains(t, found[0].Pointer+": "+found[0].Message, want)
	}
	_, found := decodeConfig[full](s, []byte(`{"name":"abc","mode":"slow","wait":"1ms"}`))
	require.Len(t, found, 2)
}

func TestConfigSchema(t *testing.T) {
	type config struct {
		Threshold float64       `json:"threshold" default:"0.8" min:"0" max:"1" doc:"score to flag above"`
		Mode      string        `json:"mode" enum:"a,b" required:"true"`
		Wait      time.Duration `json:"wait"`
		Tags      []string      `json:"tags" min:"1"`
	}
	p := NewMap("x", func(Ctx, config, *Record) error { return nil })
	require.JSONEq(t, `{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
		"additionalProperties": false, "required": ["mode"],
		"properties": {
			"threshold": {"type": "number", "default": 0.8, "minimum": 0, "maximum": 1,
				"description": "score to flag above"},
			"mode": {"type": "string", "enum": ["a", "b"]},
			"wait": {"type": "string", "format": "go-duration"},
			"tags": {"type": "array", "items": {"type": "string"}, "minItems": 1}
		}}`, string(jsonSchema(p.shape)))
}

func TestConfigTypesAuthorsGetWrong(t *testing.T) {
	type badDefault struct {
		A int `json:"a" default:"x"`
	}
	type defaultOutside struct {
		A int `json:"a" default:"5" max:"3"`
	}
	type badTag struct {
		A int `json:"a" min:"one"`
	}
	type channel struct {
		A chan int `json:"a"`
	}
	for want, p := range map[string]Part{
		`default "x"`: NewMap("x", func(Ctx, badDefault, *Record) error { return nil }),
		"5 is above the maximum 3": NewMap("x", func(Ctx, defaultOutside,
			*Record) error {
			return nil
		}),
		`min:"one" is not a number`:    NewMap("x", func(Ctx, badTag, *Record) error { return nil }),
		"cannot be in a configuration": NewMap("x", func(Ctx, channel, *Record) error { return nil }),
		"is not a struct":              NewMap("x", func(Ctx, int, *Record) error { return nil }),
	} {
		_, err := Local(Plugin{Name: "x", Parts: []Part{p}})
		require.ErrorContains(t, err, want)
	}
	ok := NewMap("x", func(Ctx, struct{}, *Record) error { return nil })
	for want, p := range map[string]Plugin{
		"without a name": {Parts: []Part{ok}}, "has no parts": {Name: "x"},
		`two parts named "x"`: {Name: "x", Parts: []Part{ok, ok}}, "no New function made": {Name: "x",
			Parts: []Part{{}}},
	} {
		_, err := Local(p)
		require.ErrorContains(t, err, want)
	}
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte(`{"name":"abc","servers":[{"port":1}],"wait":"1s"}`))
	p := NewMap("x", func(Ctx, full, *Record) error { return nil })
	f.Fuzz(func(t *testing.T, raw []byte) {
		_, found := decodeConfig[full](p.shape, raw)
		for _, d := range found {
			require.NotEmpty(t, d.Message)
		}
	})
}
