package ndjson_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"github.com/millstream-io/millstream/cli/internal/ndjson"
)

// maybeBytes draws nil, empty, text, JSON and arbitrary bytes.
func maybeBytes() *rapid.Generator[[]byte] {
	return rapid.OneOf(
		rapid.Just([]byte(nil)),
		rapid.Just([]byte{}),
		rapid.SampledFrom([][]byte{
			[]byte(`{"a": 1.50, "b":"<&>"}`), []byte(`[1, 2]`), []byte(` {"a":1}`), []byte(`null`),
			[]byte("{\n}"), []byte(`{"n":12345678901234567890}`), []byte(`{bad}`), []byte(`"x"`),
		}),
		rapid.Map(rapid.String(), func(s string) []byte { return []byte(s) }),
		rapid.SliceOf(rapid.Byte()),
	)
}

func TestDecodeIsTheInverseOfAppend(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := &kgo.Record{
			Topic:     "flights",
			Partition: rapid.Int32Range(0, 9).Draw(t, "partition"),
			Offset:    rapid.Int64Min(0).Draw(t, "offset"),
			Timestamp: time.UnixMilli(rapid.Int64Range(0, 1<<45).Draw(t, "ts")),
			Key:       maybeBytes().Draw(t, "key"),
			Value:     maybeBytes().Draw(t, "value"),
		}
		for range rapid.IntRange(0, 3).Draw(t, "headers") {
			in.Headers = append(in.Headers, kgo.RecordHeader{
				Key: rapid.String().Draw(t, "hk"), Value: maybeBytes().Draw(t, "hv"),
			})
		}
		line := ndjson.Append(nil, in)
		require.NotContains(t, string(line[:len(line)-1]), "\n", "one record, one line")
		got, err := ndjson.Decode(line)
		require.NoError(t, err)
		require.Equal(t, in.Key, got.Record.Key)
		require.Equal(t, in.Value, got.Record.Value)
		require.Equal(t, in.Headers, got.Record.Headers)
		require.Equal(t, in.Partition, got.Record.Partition)
		require.Equal(t, in.Timestamp.UnixMilli(), got.Record.Timestamp.UnixMilli())
		require.Equal(t, line, ndjson.Append(nil, withOffset(got.Record, in.Offset)))
	})
}

func withOffset(r *kgo.Record, offset int64) *kgo.Record {
	r.Offset = offset
	return r
}

func TestAppendShowsJSONAsJSON(t *testing.T) {
	r := &kgo.Record{
		Topic: "t", Partition: 2, Offset: 7, Timestamp: time.UnixMilli(1767225600000),
		Key: []byte("SAN"), Value: []byte(`{"id":9007199254740993}`),
		Headers: []kgo.RecordHeader{{Key: "h", Value: []byte{0xff}}},
	}
	require.Equal(t, `{"topic":"t","partition":2,"offset":7,"ts":1767225600000,"tsType":"create",`+
		`"key":"SAN","keyEnc":"utf8","value":{"id":9007199254740993},"valueEnc":"json",`+
		`"headers":[["h","/w==","base64"]]}`+"\n", string(ndjson.Append(nil, r)))
}

func TestDecodeRefusesWhatItDoesNotUnderstand(t *testing.T) {
	for name, tc := range map[string]struct{ line, want string }{
		"misspelt field":   {`{"vlaue":1}`, `unknown field "vlaue"`},
		"two objects":      {`{"value":1}{"value":2}`, "something follows"},
		"bad base64":       {`{"value":"!!","valueEnc":"base64"}`, "not base64"},
		"unknown encoding": {`{"value":"x","valueEnc":"hex"}`, `unknown encoding "hex"`},
		"header shape":     {`{"value":"x","headers":[["a"]]}`, "header 0: want"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ndjson.Decode([]byte(tc.line))
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestDecodeTellsWhatIsWrong(t *testing.T) {
	for line, want := range map[string]string{
		`{}`:                                    "value is missing",
		`{"key":"k"}`:                           "value is missing",
		`{"value":1,"vale":2}`:                  `unknown field "vale"`,
		`{"value":1} {"value":2}`:               "something follows",
		`{"value":"x","valueEnc":"hex"}`:        `unknown encoding "hex"`,
		`{"value":null,"valueEnc":"utf8"}`:      "is null but its encoding",
		`{"value":"*","valueEnc":"base64"}`:     "not base64",
		`{"value":{},"valueEnc":"utf8"}`:        "needs a JSON string",
		`{"value":1,"headers":[["a"]]}`:         "header 0: want [key, value]",
		`{"value":1,"headers":[["a",1,2]]}`:     "header 0: encoding",
		`{"value":1,"headers":[[1,2]]}`:         "header 0: key",
		`{"value":1,"partition":99999999999}`:   "not a record",
		`["value"]`:                             "not a record",
		`{"value":1,"headers":[["a","b","z"]]}`: "header 0: value of a",
		``:                                      "not a record",
	} {
		_, err := ndjson.Decode([]byte(line))
		require.ErrorContains(t, err, want, line)
	}
}

// FuzzDecode looks for lines that crash it, and for records that change when they are written and
// read again.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"partition":1,"ts":5,"key":"/w==","keyEnc":"base64","value":{"a": 1},"headers":[["h",null]]}`,
		`{"value":"","valueEnc":"utf8","headers":[["/g==","x","utf8","base64"]]}`,
		`{"value":null}`, `{"value":[1,2]}`, `{`, `{"value":"\ud800"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := ndjson.Decode(data)
		if err != nil {
			return
		}
		again, err := ndjson.Decode(ndjson.Append(nil, first.Record))
		require.NoError(t, err)
		require.Equal(t, first.Record.Key, again.Record.Key)
		require.Equal(t, first.Record.Value, again.Record.Value)
		require.Equal(t, first.Record.Headers, again.Record.Headers)
	})
}
