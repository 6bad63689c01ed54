package storage

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/vfs"
)

var everyCodec = []record.Codec{record.None, record.Gzip, record.Snappy, record.Lz4, record.Zstd}

// codecBatch is a producer's batch of three records, one without key, one with a header.
func codecBatch(t testing.TB, c record.Codec, seq int32) record.Batch {
	t.Helper()
	b := record.NewBuilder(record.BuilderOptions{Codec: c, LeaderEpoch: -1, Idempotent: true,
		ProducerID: 77, ProducerEpoch: 2, BaseSequence: seq})
	b.Append(record.Record{Timestamp: t0 + 5, Value: bytes.Repeat([]byte("abc"), 300)})
	b.Append(record.Record{Timestamp: t0 + 9, Key: []byte("k"), Value: []byte("v"),
		Headers: []record.Header{{Key: "h", Value: []byte("x")}, {Key: "n"}}})
	b.Append(record.Record{Timestamp: t0 + 7, Key: []byte{}, Value: []byte{}})
	batch, err := b.Build()
	require.NoError(t, err)
	return batch
}

// batchAt reads the one batch at an offset.
func batchAt(t testing.TB, l *Log, offset int64) record.Batch {
	t.Helper()
	c, err := l.Read(offset, 1, farAway, true)
	require.NoError(t, err)
	defer c.Release()
	data, err := c.AppendTo(nil)
	require.NoError(t, err)
	batch, _, err := record.Next(data)
	require.NoError(t, err)
	require.NoError(t, batch.CheckCRC())
	return batch
}

// TestCompressionTypeIsTheCodecOfStoredBatches: whatever a producer sends, the topic's codec is
// what is stored (Kafka's BrokerCompressionType), and nothing else of the batch changes.
func TestCompressionTypeIsTheCodecOfStoredBatches(t *testing.T) {
	levels := map[record.Codec]int{record.Gzip: -1, record.Lz4: 9, record.Zstd: 3}
	for _, appendTime := range []bool{false, true} {
		for _, target := range everyCodec {
			c := DefaultConfig()
			c.LogAppendTime = appendTime
			c.Compression = Compression{Recode: true, Codec: target, Level: levels[target]}
			l := mustCreate(t, mustOpen(t, vfs.NewMem(), "/d"), c)
			for i, source := range everyCodec {
				sent := codecBatch(t, source, int32(3*i))
				want, err := sent.Records(1 << 20)
				require.NoError(t, err)
				res := mustAppend(t, l, bytes.Clone(sent))
				require.Equal(t, int64(3*i), res.BaseOffset)
				got := batchAt(t, l, res.BaseOffset)
				name := fmt.Sprint(source, " to ", target)
				require.Equal(t, target, got.Codec(), name)
				require.Equal(t, sent.ProducerID(), got.ProducerID(), name)
				require.Equal(t, sent.ProducerEpoch(), got.ProducerEpoch(), name)
				require.Equal(t, sent.BaseSequence(), got.BaseSequence(), name)
				require.Equal(t, int32(3), got.Count(), name)
				require.Equal(t, int32(2), got.LastOffsetDelta(), name)
				require.Equal(t, appendTime, got.TimestampType() == record.LogAppendTime, name)
				records, err := got.Records(1 << 20)
				require.NoError(t, err)
				for j := range want {
					want[j].Offset = res.BaseOffset + int64(j)
					if appendTime {
						want[j].Timestamp = t0
					}
				}
				require.Equal(t, want, records, name)
				repeat := mustAppend(t, l, bytes.Clone(sent))
				require.True(t, repeat.Duplicate, "a repeat is known by its sequence")
			}
		}
	}
}

// TestRule7_CompressionKeepsTheFlagOfATransaction: the bit that hides a batch until its commit.
func TestRule7_CompressionKeepsTheFlagOfATransaction(t *testing.T) {
	c := DefaultConfig()
	c.Compression = Compression{Recode: true, Codec: record.Zstd, Level: 3}
	l := mustCreate(t, mustOpen(t, vfs.NewMem(), "/d"), c)
	res := mustTxnAppend(t, l, 9, 0, 0, 2)
	got := batchAt(t, l, res.BaseOffset)
	require.True(t, got.IsTransactional())
	require.Equal(t, record.Zstd, got.Codec())
	require.Equal(t, res.BaseOffset, l.LastStableOffset())
}

// TestCompressionTypeProducerKeepsTheBytes: nothing but what the broker owns is touched.
func TestCompressionTypeProducerKeepsTheBytes(t *testing.T) {
	l := mustCreate(t, mustOpen(t, vfs.NewMem(), "/d"), DefaultConfig())
	for i, source := range everyCodec {
		sent := codecBatch(t, source, int32(3*i))
		got := batchAt(t, l, mustAppend(t, l, bytes.Clone(sent)).BaseOffset)
		require.Equal(t, []byte(sent[16:]), []byte(got[16:]), "%v", source)
	}
}

// TestRule7_SizeIsCheckedBeforeAndAfterCompression: Kafka looks at what arrives and at what it
// makes of it.
func TestRule7_SizeIsCheckedBeforeAndAfterCompression(t *testing.T) {
	c := DefaultConfig()
	c.MaxMessageBytes = 600
	c.Compression = Compression{Recode: true, Codec: record.Gzip, Level: -1}
	d := mustOpen(t, vfs.NewMem(), "/d")
	l := mustCreate(t, d, c)
	_, err := l.Append(codecBatch(t, record.None, 0), AppendOptions{})
	require.ErrorIs(t, err, ErrTooLarge, "1 KB arrives, though it would be small when compressed")
	mustAppend(t, l, codecBatch(t, record.Gzip, 0))
	c.Compression = Compression{Recode: true}
	require.NoError(t, l.SetConfig(c))
	_, err = l.Append(codecBatch(t, record.Gzip, 3), AppendOptions{})
	require.ErrorIs(t, err, ErrTooLarge, "1 KB would be stored, though less arrives")
	require.Equal(t, int64(3), l.EndOffset())
}

// TestRule7_CompressionBombsAndBrokenRecordsAreRefused: what is decompressed is bounded and
// checked.
func TestRule7_CompressionBombsAndBrokenRecordsAreRefused(t *testing.T) {
	c := DefaultConfig()
	c.Compression = Compression{Recode: true, Codec: record.Lz4, Level: 9}
	l := mustCreate(t, mustOpen(t, vfs.NewMem(), "/d"), c)
	b := record.NewBuilder(record.BuilderOptions{Codec: record.Zstd, LeaderEpoch: -1})
	b.Append(record.Record{Timestamp: t0, Value: make([]byte, maxPlainBytes(&c)+1)})
	bomb, err := b.Build()
	require.NoError(t, err)
	require.Less(t, len(bomb), 10_000)
	_, err = l.Append(bomb, AppendOptions{})
	require.ErrorIs(t, err, ErrTooLarge)

	broken := codecBatch(t, record.Gzip, 0)
	broken[len(broken)-9] ^= 0x55
	broken.UpdateCRC()
	_, err = l.Append(broken, AppendOptions{})
	require.ErrorIs(t, err, ErrInvalidRecord)
	require.Zero(t, l.EndOffset())
}

// TestCompressionLevelsTradeTimeForSpace: a higher level stores the same text in fewer bytes.
func TestCompressionLevelsTradeTimeForSpace(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var text []byte
	for len(text) < 200_000 {
		text = fmt.Appendf(text, "user-%d clicked on page %d; ", rng.IntN(5000), rng.IntN(300))
	}
	b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: -1})
	b.Append(record.Record{Timestamp: t0, Value: text})
	batch, err := b.Build()
	require.NoError(t, err)
	for codec, levels := range map[record.Codec][2]int{
		record.Gzip: {1, 9}, record.Lz4: {9, 12}, record.Zstd: {1, 19},
	} {
		var sizes [2]int
		for i, level := range levels {
			c := DefaultConfig()
			c.Compression = Compression{Recode: true, Codec: codec, Level: level}
			l := mustCreate(t, mustOpen(t, vfs.NewMem(), "/d"), c)
			mustAppend(t, l, bytes.Clone(batch))
			sizes[i] = int(l.Size())
			require.Equal(t, string(text), readAll(t, l, 1<<20)[0])
		}
		require.Less(t, sizes[1], sizes[0], "%v", codec)
	}
}
