package record_test

import (
	"bytes"
	"testing"

	"github.com/millstream-io/millstream/core/record"
	"github.com/stretchr/testify/require"
)

const fuzzLimit = 1 << 20

// FuzzBatch walks any bytes as a run of batches. What decodes must encode to the same records.
func FuzzBatch(f *testing.F) {
	for _, b := range kafkaBatches(f) {
		f.Add([]byte(b))
	}
	f.Add([]byte(broken(1, 12, 0, 0, 0, 1, 1, 0)))
	f.Fuzz(func(t *testing.T, data []byte) {
		for rest := data; ; {
			b, next, err := record.Next(rest)
			if err != nil {
				return
			}
			if len(next) >= len(rest) || len(b) < record.HeaderSize {
				t.Fatal("no progress")
			}
			_ = b.CheckCRC()
			if records, err := b.Records(fuzzLimit); err == nil && len(records) > 0 {
				checkRebuild(t, b, records)
			}
			rest = next
		}
	})
}

func checkRebuild(t *testing.T, b record.Batch, records []record.Record) {
	builder := record.NewBuilder(record.BuilderOptions{})
	for _, r := range records {
		builder.Append(r)
	}
	again, err := builder.Build()
	require.NoError(t, err)
	got, err := again.Records(2 * len(again))
	require.NoError(t, err)
	require.Len(t, got, len(records))
	for i := range got {
		got[i].Offset = records[i].Offset
		require.Equal(t, records[i], got[i])
	}
	require.Equal(t, int(b.Count()), len(records))
}

func fuzzCodec(f *testing.F, c record.Codec) {
	for _, text := range [][]byte{{}, []byte("x"), bytes.Repeat([]byte("millstream "), 100)} {
		packed, err := c.Compress(nil, text)
		require.NoError(f, err)
		f.Add(packed)
	}
	f.Add([]byte(kafkaBatches(f)[c.String()][record.HeaderSize:]))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := c.Decompress(nil, data, fuzzLimit)
		if len(got) > fuzzLimit+1 {
			t.Fatalf("%d bytes in spite of the limit", len(got))
		}
		if err != nil {
			return
		}
		packed, err := c.Compress(nil, got)
		require.NoError(t, err)
		again, err := c.Decompress(nil, packed, len(got))
		require.NoError(t, err)
		require.True(t, bytes.Equal(got, again))
	})
}

func FuzzGzip(f *testing.F)   { fuzzCodec(f, record.Gzip) }
func FuzzSnappy(f *testing.F) { fuzzCodec(f, record.Snappy) }
func FuzzLz4(f *testing.F)    { fuzzCodec(f, record.Lz4) }
func FuzzZstd(f *testing.F)   { fuzzCodec(f, record.Zstd) }

// FuzzParseControl reads any key and value as a marker: what is one comes back from a marker made
// of it.
func FuzzParseControl(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1}, []byte{0, 0, 0, 0, 0, 7})
	f.Add([]byte{0, 0, 0, 0}, []byte{0, 0, 0, 0, 0, 7, 9})
	f.Add([]byte{0, 0, 0, 5}, []byte{})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		kind, epoch, err := record.ParseControl(&record.Record{Key: key, Value: value})
		if err != nil || kind != record.ControlAbort && kind != record.ControlCommit {
			return
		}
		b := record.ControlBatch(record.ControlOptions{Type: kind, CoordinatorEpoch: epoch})
		records, err := b.Records(1 << 10)
		require.NoError(t, err)
		require.Len(t, records, 1)
		again, sameEpoch, err := record.ParseControl(&records[0])
		require.NoError(t, err)
		require.Equal(t, kind, again)
		require.Equal(t, epoch, sameEpoch)
	})
}
