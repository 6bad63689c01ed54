package record_test

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/millstream-io/millstream/core/record"
	"github.com/stretchr/testify/require"
)

// scan collects what Scan tells.
func scan(b record.Batch, limit int) (metas []record.Meta, err error) {
	err = b.Scan(limit, func(m record.Meta) bool { metas = append(metas, m); return true })
	return metas, err
}

// metasOf is the same by way of whole records.
func metasOf(records []record.Record) (metas []record.Meta) {
	for _, r := range records {
		metas = append(metas, record.Meta{Offset: r.Offset, Timestamp: r.Timestamp,
			HasKey: r.Key != nil})
	}
	return metas
}

func TestScanAgreesWithEach(t *testing.T) {
	for _, b := range kafkaBatches(t) {
		records, err := record.Batch(b).Records(1 << 20)
		require.NoError(t, err)
		got, err := scan(b, 1<<20)
		require.NoError(t, err)
		require.Equal(t, metasOf(records), got)
	}
}

// batchOf is a batch of count records whose compressed bytes are payload.
func batchOf(t *testing.T, c record.Codec, count int, payload []byte) record.Batch {
	builder := record.NewBuilder(record.BuilderOptions{Codec: c})
	for i := range count {
		builder.Append(record.Record{Offset: int64(i), Value: []byte("x")})
	}
	b, err := builder.Build()
	require.NoError(t, err)
	return append(b[:record.HeaderSize:record.HeaderSize], payload...)
}

// TestScanRefusesWhatEachRefuses damages each byte of a batch in turn.
func TestScanRefusesWhatEachRefuses(t *testing.T) {
	builder := record.NewBuilder(record.BuilderOptions{})
	for i := range 3 {
		builder.Append(record.Record{Offset: int64(i), Key: []byte("k"), Value: []byte("value"),
			Headers: []record.Header{{Key: "h", Value: []byte("v")}}})
	}
	whole, err := builder.Build()
	require.NoError(t, err)
	records := whole[record.HeaderSize:]
	for _, c := range codecs {
		for at := range records {
			for _, v := range []byte{0x00, 0x01, 0x0b, 0x7f, 0x80, 0xff} {
				damaged := bytes.Clone(records)
				damaged[at] = v
				packed, err := c.Compress(nil, damaged)
				require.NoError(t, err)
				b := batchOf(t, c, 3, packed)
				want, wantErr := b.Records(1 << 20)
				got, gotErr := scan(b, 1<<20)
				name := fmt.Sprintf("%v, byte %d is %#x: %v", c, at, v, wantErr)
				require.Equal(t, wantErr == nil, gotErr == nil, name)
				if wantErr == nil {
					require.Equal(t, metasOf(want), got, name)
				} else {
					require.ErrorIs(t, gotErr, record.ErrCorrupt, name)
				}
			}
		}
	}
}

// TestScanOfBombNeedsLittleMemory: 256 MiB of zeros in each codec, one record.
func TestScanOfBombNeedsLittleMemory(t *testing.T) {
	const size = 256 << 20
	builder := record.NewBuilder(record.BuilderOptions{})
	builder.Append(record.Record{Value: make([]byte, size)})
	whole, err := builder.Build()
	require.NoError(t, err)
	for _, c := range codecs[1:] {
		packed, err := c.Compress(nil, whole[record.HeaderSize:])
		require.NoError(t, err)
		bomb := batchOf(t, c, 1, packed)
		before := totalAlloc()
		metas, err := scan(bomb, 2*size)
		require.NoError(t, err, c)
		require.Len(t, metas, 1)
		_, err = scan(bomb, size/2)
		require.ErrorIs(t, err, record.ErrTooLarge, c)
		require.Less(t, totalAlloc()-before, uint64(32<<20), "%v", c)
	}
}

func totalAlloc() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// TestScanOfWideZstd: the highest levels of zstd name windows over 8 MiB even for few bytes.
func TestScanOfWideZstd(t *testing.T) {
	builder := record.NewBuilder(record.BuilderOptions{})
	builder.Append(record.Record{Value: []byte("x")})
	whole, err := builder.Build()
	require.NoError(t, err)
	for _, window := range []int{16 << 20, 512 << 20} {
		var out bytes.Buffer
		w, err := zstd.NewWriter(&out, zstd.WithWindowSize(window))
		require.NoError(t, err)
		_, err = w.Write(whole[record.HeaderSize:])
		require.NoError(t, err)
		require.NoError(t, w.Flush()) // so that the frame does not tell its size
		require.NoError(t, w.Close())
		before := totalAlloc()
		metas, err := scan(batchOf(t, record.Zstd, 1, out.Bytes()), 1<<20)
		require.NoError(t, err)
		require.Len(t, metas, 1)
		require.Less(t, totalAlloc()-before, uint64(16<<20))
	}
}
