package operator

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/millstream-io/millstream/core/record"
)

func drawBytes(t *rapid.T, name string) []byte {
	if rapid.Bool().Draw(t, name+" null") {
		return nil
	}
	return append([]byte{}, rapid.SliceOfN(rapid.Byte(), 0, 5).Draw(t, name)...)
}

func drawHeaders(t *rapid.T, name string) []record.Header {
	var h []record.Header
	for range rapid.IntRange(0, 3).Draw(t, name+" count") {
		h = append(h, record.Header{Key: rapid.StringN(0, 4, -1).Draw(t, name+" key"),
			Value: drawBytes(t, name+" value")})
	}
	return h
}

// A record that goes through a repartition topic, changed or not, still shows the record it was
// first read as; going through a second one changes nothing.
func TestOriginSurvivesRepartition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := record.Record{Offset: rapid.Int64Min(0).Draw(t, "offset"),
			Timestamp: rapid.Int64().Draw(t, "ts"),
			Key:       drawBytes(t, "key"), Value: drawBytes(t, "value"), Headers: drawHeaders(t, "h")}
		rec := Record{Raw: &raw, From: &Input{Topic: "orders", Partition: 3}}
		want := Origin{Topic: "orders", Partition: 3, Offset: raw.Offset, Timestamp: raw.Timestamp,
			Key: raw.Key, Value: raw.Value, Headers: raw.Headers}
		for hop := range 2 {
			out := record.Record{Offset: 99, Timestamp: 7, Key: raw.Key, Value: raw.Value,
				Headers: raw.Headers}
			if rapid.Bool().Draw(t, "changed") {
				out.Key, out.Value = drawBytes(t, "new key"), drawBytes(t, "new value")
				out.Headers = drawHeaders(t, "new h")
			}
			header := AppendOrigin(nil, &rec, out.Key, out.Value, out.Headers)
			out.Headers = append(append([]record.Header{}, out.Headers...),
				record.Header{Key: HeaderOrigin, Value: header},
				record.Header{Key: HeaderLane, Value: []byte("x")})
			rec = Record{Raw: &out, From: &Input{Topic: "app-by-repartition"}}
			got := OriginOf(&rec)
			if len(got.Headers) == 0 && len(want.Headers) == 0 {
				got.Headers, want.Headers = nil, nil
			}
			require.Equal(t, want, got, "hop %d", hop)
			raw = out
			raw.Headers = VisibleHeaders(out.Headers)
		}
	})
}

func TestOriginOfAggregateResultIsItself(t *testing.T) {
	rec := Record{Key: []byte("k"), Value: []byte("v"), Timestamp: 9}
	require.Equal(t, Origin{Partition: -1, Offset: -1, Timestamp: 9, Key: []byte("k"),
		Value: []byte("v")}, OriginOf(&rec))
}

// The layout is part of repartition topics, which outlive the program: 6 bytes of topic, then
// partition 1, offset 2, timestamp 3 as zigzag varints, bits "key and value differ".
func TestOriginBytes(t *testing.T) {
	raw := record.Record{Offset: 2, Timestamp: 3, Key: []byte("k"), Value: nil}
	rec := Record{Raw: &raw, From: &Input{Topic: "orders", Partition: 1}}
	require.Equal(t, []byte("\x0corders\x02\x04\x06\x03\x02k\x01"),
		AppendOrigin(nil, &rec, []byte("K"), []byte("V"), nil))
	require.Equal(t, []byte("\x0corders\x02\x04\x06\x00"),
		AppendOrigin(nil, &rec, []byte("k"), nil, nil))
}

func FuzzParseOrigin(f *testing.F) {
	f.Add([]byte("\x0corders\x02\x04\x06\x03\x02k\x01"))
	f.Add([]byte("\x0corders\x02\x04\x06\x04\x02\x02a\x02b"))
	f.Add([]byte("\x0corders\x02\x04\x06\x04\xff\xff\xff\xff\xff\xff\xff\xff\x7f"))
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := parseOrigin(b, Origin{Key: []byte("k")})
		if err != nil {
			require.ErrorIs(t, err, errOrigin)
			return
		}
		raw := record.Record{Offset: o.Offset, Timestamp: o.Timestamp, Key: o.Key, Value: o.Value,
			Headers: o.Headers}
		if len(VisibleHeaders(raw.Headers)) != len(raw.Headers) {
			return // only bytes of ours have internal headers inside
		}
		rec := Record{Raw: &raw, From: &Input{Topic: o.Topic, Partition: o.Partition}}
		again, err := parseOrigin(AppendOrigin(nil, &rec, nil, nil, nil), Origin{})
		require.NoError(t, err)
		require.Equal(t, o.Offset, again.Offset)
		require.Equal(t, o.Value, again.Value)
	})
}

func TestVisibleHeaders(t *testing.T) {
	h := func(keys ...string) []record.Header {
		var list []record.Header
		for _, k := range keys {
			list = append(list, record.Header{Key: k})
		}
		return list
	}
	require.Nil(t, VisibleHeaders(nil))
	require.Nil(t, VisibleHeaders(h(HeaderLane)))
	require.Equal(t, h("a", "ms-dlq-step"), VisibleHeaders(h("a", "ms-dlq-step", HeaderWindow,
		HeaderOrigin, HeaderLane)))
	require.Equal(t, h("a", "b"), VisibleHeaders(h("a", HeaderLane, "b", HeaderWatermark)))
}

// A record that a step made, of one that came through a topic of this layer, may have the headers
// of that topic: a dead letter shows those of the user only.
func TestDeadLettersOfMadeRecordsHaveNoInternalHeaders(t *testing.T) {
	rec := Record{Key: []byte("k"), Value: []byte("v"), Headers: []record.Header{
		{Key: "mine", Value: []byte("1")}, {Key: HeaderLane, Value: []byte{1}}}}
	letter := (&DeadLetter{Step: "s", Class: "expr", Attempts: 1}).Record(&rec, "p", "h")
	_, lane := letter.Header(HeaderLane)
	require.False(t, lane)
	mine, _ := letter.Header("mine")
	require.Equal(t, "1", string(mine))
}
