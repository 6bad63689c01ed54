package pluginpb

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/millstream-io/millstream/core/record"
)

// golden is one frame written out by hand after the table in doc.go.
var golden = strings.Join([]string{
	"4d46 01 00 00000002",               // magic, version, flags, two records
	"0000018bcfe56800 000000000000000a", // base timestamp 1700000000000, base offset 10
	// record 1: topic 0 follows, "in"; partition 3; time +0; offset +0; key "k"; value {}; no headers
	"00 02 696e  06 00 00  02 6b  04 7b7d  00",
	// record 2: topic 0; partition -1; time -1; offset +300; null key; empty value; headers
	// h=null, i=""
	"00  01 01 d804  01  00  04  02 68 01  02 69 00",
}, "")

func goldenRecords() []Record {
	return []Record{
		{
			Record: record.Record{
				Offset: 10, Timestamp: 1_700_000_000_000, Key: []byte("k"), Value: []byte("{}"),
			}, Topic: "in", Partition: 3,
		},
		{
			Record: record.Record{
				Offset: 310, Timestamp: 1_699_999_999_999, Value: []byte{},
				Headers: []record.Header{{Key: "h"}, {Key: "i", Value: []byte{}}},
			}, Topic: "in", Partition: -1,
		},
	}
}

func goldenBytes(t testing.TB) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(golden, " ", ""))
	require.NoError(t, err)
	return b
}

func TestFrameGolden(t *testing.T) {
	require.Equal(t, hex.EncodeToString(goldenBytes(t)), hex.EncodeToString(Encode(goldenRecords())))
	got, err := Decode(goldenBytes(t))
	require.NoError(t, err)
	require.Equal(t, goldenRecords(), got)
	require.Nil(t, got[1].Key) // null and empty are kept apart
	require.NotNil(t, got[1].Value)
	require.Nil(t, got[1].Headers[0].Value)
	require.NotNil(t, got[1].Headers[1].Value)
}

func TestFrameEmpty(t *testing.T) {
	require.Nil(t, Encode(nil))
	got, err := Decode(nil)
	require.NoError(t, err)
	require.Empty(t, got)
}

func bytesGen() *rapid.Generator[[]byte] {
	return rapid.Custom(func(t *rapid.T) []byte {
		if rapid.Bool().Draw(t, "null") {
			return nil
		}
		return append([]byte{}, rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "bytes")...)
	})
}

func recordGen() *rapid.Generator[Record] {
	return rapid.Custom(func(t *rapid.T) Record {
		r := Record{Topic: rapid.StringN(0, 5, -1).Draw(t, "topic"), Partition: rapid.Int32().Draw(t,
			"partition")}
		r.Timestamp, r.Offset = rapid.Int64().Draw(t, "time"), rapid.Int64().Draw(t, "offset")
		r.Key, r.Value = bytesGen().Draw(t, "key"), bytesGen().Draw(t, "value")
		for range rapid.IntRange(0, 3).Draw(t, "headers") {
			r.Headers = append(r.Headers, record.Header{
				Key: rapid.StringN(0, 5, -1).Draw(t, "name"), Value: bytesGen().Draw(t, "header"),
			})
		}
		return r
	})
}

func TestFrameDecodeIsTheInverseOfEncode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SliceOfN(recordGen(), 1, 20).Draw(t, "records")
		frame := Encode(in)
		bound := FrameHeaderBytes
		for i := range in {
			bound += SizeBound(&in[i])
		}
		if len(frame) > bound {
			t.Fatalf("frame of %d bytes, bound %d", len(frame), bound)
		}
		out, err := Decode(frame)
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprintf("%#v", in) != fmt.Sprintf("%#v", out) {
			t.Fatalf("in  %#v\nout %#v", in, out)
		}
		if cut := rapid.IntRange(1, len(frame)-1).Draw(t, "cut"); true {
			if _, err := Decode(frame[:cut]); err == nil {
				t.Fatalf("cut at %d of %d passes", cut, len(frame))
			}
		}
	})
}

func TestEncoderRollsBack(t *testing.T) {
	in := goldenRecords()
	var e Encoder
	e.Append(&in[0])
	m := e.Mark()
	other := in[1]
	other.Topic = "other"
	e.Append(&other)
	e.Rollback(m)
	e.Append(&in[1])
	require.Equal(t, goldenBytes(t), e.Finish())
	m = e.Mark() // of an empty frame
	e.Append(&other)
	e.Rollback(m)
	require.Nil(t, e.Finish())
	e.Append(&in[0])
	e.Append(&in[1])
	require.Equal(t, goldenBytes(t), e.Finish())
}

func TestDecodeRefuses(t *testing.T) {
	for name, change := range map[string]func([]byte) []byte{
		"magic":    func(b []byte) []byte { b[0] = 0; return b },
		"version":  func(b []byte) []byte { b[2] = 2; return b },
		"flags":    func(b []byte) []byte { b[3] = 1; return b },
		"no count": func(b []byte) []byte { b[7] = 0; return b },
		"count":    func(b []byte) []byte { b[4] = 0xff; return b },
		"one more": func(b []byte) []byte { b[7] = 3; return b },
		"trailing": func(b []byte) []byte { return append(b, 0) },
		"topic":    func(b []byte) []byte { b[24] = 1; return b },
		"length":   func(b []byte) []byte { b[31] = 0xfe; return b },
		"short":    func(b []byte) []byte { return b[:23] },
		"large":    func(b []byte) []byte { return append(b, make([]byte, MaxFrameBytes)...) },
	} {
		_, err := Decode(change(goldenBytes(t)))
		if name == "large" {
			require.ErrorIs(t, err, ErrFrameTooLarge)
			continue
		}
		require.ErrorIs(t, err, ErrBadFrame, name)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(goldenBytes(f))
	f.Add([]byte{})
	f.Add(Encode([]Record{{Topic: "a"}, {Topic: "b"}, {Topic: "a"}}))
	f.Fuzz(func(t *testing.T, frame []byte) {
		records, err := Decode(frame)
		if err != nil {
			return
		}
		again, err := Decode(Encode(records))
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("%#v", records), fmt.Sprintf("%#v", again))
	})
}

func TestJoinerPutsPiecesTogether(t *testing.T) {
	frame := bytes.Repeat([]byte("0123456789"), 350_000) // 3.5 MB: four pieces
	var j Joiner
	pieces := 0
	var got []byte
	err := Split(frame, func(piece []byte, more bool) error {
		pieces++
		out, done, err := j.Add(7, bytes.Clone(piece), more)
		require.Equal(t, !more, done)
		got = out
		return err
	})
	require.NoError(t, err)
	require.Equal(t, 4, pieces)
	require.True(t, bytes.Equal(frame, got))
	_, _, err = j.Add(8, []byte("x"), true)
	require.NoError(t, err)
	_, _, err = j.Add(9, []byte("x"), false)
	require.ErrorIs(t, err, ErrBadFrame)
	var k Joiner
	for range MaxFrameBytes / ChunkBytes {
		_, _, err = k.Add(1, make([]byte, ChunkBytes), true)
		require.NoError(t, err)
	}
	_, _, err = k.Add(1, make([]byte, 1), false)
	require.ErrorIs(t, err, ErrFrameTooLarge)
}

func TestBuffersHaveTheirLength(t *testing.T) {
	for _, n := range []int{0, 1, 4095, 4096, 4097, 100_000, 8 << 20, 8<<20 + 1} {
		b := GetBuffer(n)
		require.Len(t, b, n)
		PutBuffer(b[:0])
		PutBuffer(b[n/2:]) // any slice may be given
		require.Len(t, GetBuffer(n), n)
	}
}

func BenchmarkFrame(b *testing.B) {
	records := make([]Record, 1000)
	for i := range records {
		records[i] = Record{Topic: "in", Record: record.Record{
			Offset: int64(i), Timestamp: 1_700_000_000_000 + int64(i),
			Key: bytes.Repeat([]byte("k"), 16), Value: bytes.Repeat([]byte("v"), 200),
		}}
	}
	frame := Encode(records)
	b.Run("encode", func(b *testing.B) {
		b.SetBytes(int64(len(frame)))
		b.ReportAllocs()
		for b.Loop() {
			PutBuffer(Encode(records))
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(len(frame)))
		b.ReportAllocs()
		var d Decoder
		var r Record
		for b.Loop() {
			require.NoError(b, d.Reset(frame))
			for more := true; more; {
				more, _ = d.Next(&r)
			}
		}
	})
}
