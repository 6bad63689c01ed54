package record_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/millstream-io/millstream/core/record"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestNextRefusesWhatIsNoBatch(t *testing.T) {
	good := build(t, goldenOptions, goldenRecords()...)
	edit := func(at int, b ...byte) []byte {
		c := bytes.Clone(good)
		copy(c[at:], b)
		return c
	}
	for n := range len(good) {
		_, rest, err := record.Next(good[:n])
		require.ErrorIs(t, err, record.ErrShort, n)
		require.Len(t, rest, n)
	}
	cases := []struct {
		name  string
		bytes []byte
		want  error
	}{
		{"zero tail", make([]byte, 100), record.ErrCorrupt},
		{"length below a header", edit(8, 0, 0, 0, 48), record.ErrCorrupt},
		{"negative length", edit(8, 0xff, 0xff, 0xff, 0xff), record.ErrCorrupt},
		{"huge length", edit(8, 0x7f, 0xff, 0xff, 0xff), record.ErrShort},
		{"magic 1", edit(16, 1), record.ErrUnsupportedMagic},
		{"magic 3", edit(16, 3), record.ErrUnsupportedMagic},
	}
	for _, c := range cases {
		_, _, err := record.Next(c.bytes)
		require.ErrorIs(t, err, c.want, c.name)
	}
}

func TestEveryFlippedBitUnderTheCRCIsSeen(t *testing.T) {
	b := build(t, goldenOptions, goldenRecords()...)
	for at := 17; at < len(b); at++ {
		for bit := range 8 {
			b[at] ^= 1 << bit
			require.ErrorIs(t, b.CheckCRC(), record.ErrCorrupt)
			b[at] ^= 1 << bit
		}
	}
	require.NoError(t, b.CheckCRC())
}

// broken returns a batch with the given bytes as records and a right CRC, as only a faulty producer
// makes it.
func broken(count int32, records ...byte) record.Batch {
	b := append(make([]byte, record.HeaderSize), records...)
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	b[16] = 2
	binary.BigEndian.PutUint32(b[23:], 100) // last offset delta
	binary.BigEndian.PutUint32(b[57:], uint32(count))
	record.Batch(b).UpdateCRC()
	return b
}

func TestBrokenRecordsAreErrors(t *testing.T) {
	ok := []byte{12, 0, 0, 0, 1, 1, 0} // 6 bytes: null key, null value, no headers
	_, err := broken(1, ok...).Records(noLimit)
	require.NoError(t, err)
	cases := map[string]record.Batch{
		"fewer than the count":    broken(2, ok...),
		"more than the count":     broken(0, ok...),
		"negative count":          broken(-1, ok...),
		"huge count":              broken(math.MaxInt32, ok...),
		"length past the end":     broken(1, 14, 0, 0, 0, 1, 1, 0),
		"negative length":         broken(1, 11, 0, 0, 0, 1, 1, 0),
		"empty record":            broken(1, 0),
		"bytes after the headers": broken(1, 14, 0, 0, 0, 1, 1, 0, 9),
		"key past the record":     broken(1, 12, 0, 0, 0, 20, 1, 0),
		"key length -2":           broken(1, 12, 0, 0, 0, 3, 1, 0),
		"value past the record":   broken(1, 12, 0, 0, 0, 1, 20, 0),
		"huge header count":       broken(1, 20, 0, 0, 0, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f),
		"negative header count":   broken(1, 12, 0, 0, 0, 1, 1, 1),
		"null header key":         broken(1, 16, 0, 0, 0, 1, 1, 2, 1, 1),
		"offset delta too large":  broken(1, 14, 0, 0, 0xca, 1, 1, 1, 0),
		"negative offset delta":   broken(1, 12, 0, 0, 1, 1, 1, 0),
		"endless varint":          broken(1, bytes.Repeat([]byte{0xff}, 20)...),
	}
	for name, b := range cases {
		_, err := b.Records(noLimit)
		require.ErrorIs(t, err, record.ErrCorrupt, name)
	}
	unknown := broken(1, ok...)
	unknown[22] = 5
	_, err = unknown.Records(noLimit)
	require.ErrorIs(t, err, record.ErrUnsupportedCodec)
}

func TestEachPassesOnTheCallersError(t *testing.T) {
	b := build(t, goldenOptions, goldenRecords()...)
	stop := errors.New("stop")
	calls := 0
	err := b.Each(noLimit, func(*record.Record) error { calls++; return stop })
	require.Equal(t, stop, err)
	require.Equal(t, 1, calls)
	require.ErrorIs(t, b.Each(10, nil), record.ErrTooLarge)
}

func TestBuilderNeedsRecords(t *testing.T) {
	_, err := record.NewBuilder(record.BuilderOptions{}).Build()
	require.Error(t, err)
}

func genRecord(t *rapid.T) record.Record {
	blob := rapid.OneOf(rapid.Just([]byte(nil)), rapid.SliceOfN(rapid.Byte(), 0, 300))
	r := record.Record{
		Timestamp: rapid.Int64Range(-1, 1<<45).Draw(t, "timestamp"),
		Key:       blob.Draw(t, "key"), Value: blob.Draw(t, "value"),
	}
	for range rapid.IntRange(0, 3).Draw(t, "headers") {
		r.Headers = append(r.Headers, record.Header{
			Key: rapid.String().Draw(t, "header"), Value: blob.Draw(t, "header value")})
	}
	return r
}

// One builder and one iterator are reused all along, so that leftovers of a batch would show.
func TestRoundTripOfAnything(t *testing.T) {
	builder := record.NewBuilder(record.BuilderOptions{})
	var it record.Iterator
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.Int64Range(0, 1<<60).Draw(t, "base")
		records := rapid.SliceOfN(rapid.Custom(genRecord), 1, 20).Draw(t, "records")
		builder.Reset(record.BuilderOptions{BaseOffset: base,
			Codec: record.Codec(rapid.IntRange(0, 4).Draw(t, "codec"))})
		maxTime := int64(record.NoTimestamp)
		for i := range records {
			records[i].Offset = base + int64(i)
			maxTime = max(maxTime, records[i].Timestamp)
			builder.Append(records[i])
		}
		require.Equal(t, len(records), builder.Count())
		b, err := builder.Build()
		require.NoError(t, err)
		require.Equal(t, maxTime, b.MaxTimestamp())
		require.NoError(t, b.CheckCRC())
		require.NoError(t, it.Reset(b, noLimit))
		var r record.Record
		for _, want := range records {
			ok, err := it.Next(&r)
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, want, r.Clone())
		}
		ok, err := it.Next(&r)
		require.NoError(t, err)
		require.False(t, ok)
	})
}

func TestRecordsOutliveTheIteratorsBuffers(t *testing.T) {
	o := goldenOptions
	o.Codec = record.Zstd
	first, err := build(t, o, goldenRecords()...).Records(noLimit)
	require.NoError(t, err)
	_, err = build(t, o, record.Record{Value: bytes.Repeat([]byte("z"), 999)}).Records(noLimit)
	require.NoError(t, err)
	require.Equal(t, goldenRecords(), first)
}

func TestVarintsAreZigZag(t *testing.T) {
	// Zig-zag examples of the Protocol Buffers encoding guide.
	for v, want := range map[int64]string{0: "00", -1: "01", 1: "02", -2: "03",
		0x7fffffff: "feffffff0f", -0x80000000: "ffffffff0f",
		math.MaxInt64: "feffffffffffffffff01", math.MinInt64: "ffffffffffffffffff01"} {
		b := record.AppendVarint(nil, v)
		require.Equal(t, want, fmt.Sprintf("%x", b))
		require.Equal(t, len(b), record.VarintSize(v))
		got, n := record.ReadVarint(append(b, 0xff))
		require.Equal(t, v, got)
		require.Equal(t, len(b), n)
		for cut := range len(b) {
			_, n := record.ReadVarint(b[:cut])
			require.Zero(t, n)
		}
	}
	_, n := record.ReadVarint(bytes.Repeat([]byte{0x80}, 11))
	require.Zero(t, n)
	u, n := record.ReadUvarint(record.AppendUvarint(nil, 300))
	require.Equal(t, uint64(300), u)
	require.Equal(t, 2, n)
	_, n = record.ReadUvarint(nil)
	require.Zero(t, n)
}

func TestManyHeaderNamesDoNotPileUp(t *testing.T) {
	var it record.Iterator
	var r record.Record
	for i := range 1000 {
		name := fmt.Sprintf("name-%d", i)
		b := build(t, record.BuilderOptions{},
			record.Record{Headers: []record.Header{{Key: name}}})
		require.NoError(t, it.Reset(b, noLimit))
		ok, err := it.Next(&r)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, name, r.Headers[0].Key)
	}
}

func TestIterationAllocatesNothing(t *testing.T) {
	records := slices.Repeat(goldenRecords(), 50)
	for _, codec := range []record.Codec{record.None, record.Snappy} {
		b := build(t, record.BuilderOptions{Codec: codec}, records...)
		var it record.Iterator
		var r record.Record
		allocs := testing.AllocsPerRun(20, func() {
			if err := it.Reset(b, noLimit); err != nil {
				t.Fatal(err)
			}
			for ok, err := it.Next(&r); ok || err != nil; ok, err = it.Next(&r) {
				if err != nil {
					t.Fatal(err)
				}
			}
		})
		require.Zero(t, allocs, codec)
	}
	builder := record.NewBuilder(record.BuilderOptions{})
	allocs := testing.AllocsPerRun(20, func() {
		builder.Reset(record.BuilderOptions{})
		for i := range records {
			builder.Append(records[i])
		}
		if _, err := builder.Build(); err != nil {
			t.Fatal(err)
		}
	})
	require.Zero(t, allocs)
}

func BenchmarkIterate(b *testing.B) {
	for _, codec := range []record.Codec{record.None, record.Lz4, record.Zstd} {
		b.Run("codec="+codec.String(), func(b *testing.B) {
			batch := build(b, record.BuilderOptions{Codec: codec}, benchRecords(100)...)
			var it record.Iterator
			var r record.Record
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				if err := it.Reset(batch, noLimit); err != nil {
					b.Fatal(err)
				}
				for ok, _ := it.Next(&r); ok; ok, _ = it.Next(&r) {
					n++
				}
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds()/1e6, "Mrec/s")
		})
	}
}

func benchRecords(size int) []record.Record {
	records := make([]record.Record, 1000)
	for i := range records {
		records[i] = record.Record{Timestamp: 1700000000000 + int64(i),
			Key:   fmt.Appendf(nil, "key-%d", i),
			Value: []byte(strings.Repeat(fmt.Sprintf("v%d ", i), size/5))}
	}
	return records
}

func BenchmarkBuild(b *testing.B) {
	for _, codec := range []record.Codec{record.None, record.Gzip, record.Snappy, record.Lz4,
		record.Zstd} {
		b.Run("codec="+codec.String(), func(b *testing.B) {
			records := benchRecords(100)
			builder := record.NewBuilder(record.BuilderOptions{})
			b.ReportAllocs()
			for b.Loop() {
				builder.Reset(record.BuilderOptions{Codec: codec})
				for i := range records {
					builder.Append(records[i])
				}
				if _, err := builder.Build(); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(builder.Size()))
			b.ReportMetric(float64(b.N*len(records))/b.Elapsed().Seconds()/1e6, "Mrec/s")
		})
	}
}

func BenchmarkCheckCRC(b *testing.B) {
	batch := build(b, record.BuilderOptions{}, record.Record{Value: make([]byte, 1<<20)})
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	for b.Loop() {
		if err := batch.CheckCRC(); err != nil {
			b.Fatal(err)
		}
	}
}
