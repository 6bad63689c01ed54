package record_test

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/millstream-io/millstream/core/record"
	"github.com/stretchr/testify/require"
)

const noLimit = 1 << 30

// unhex reads hex digits; what follows a '#' on a line is a comment.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	var digits strings.Builder
	for line := range strings.Lines(s) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(line), ""))
	}
	b, err := hex.DecodeString(digits.String())
	require.NoError(t, err)
	return b
}

// kafkaBatches are batches that Kafka itself wrote, by name.
func kafkaBatches(t testing.TB) map[string]record.Batch {
	t.Helper()
	f, err := os.Open("testdata/kafka-batches.txt")
	require.NoError(t, err)
	defer f.Close()
	batches := make(map[string]record.Batch)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, digits, ok := strings.Cut(lines.Text(), " "); ok && name != "#" {
			batches[name] = unhex(t, digits)
		}
	}
	return batches
}

// goldenRecords are the records of the first five of kafkaBatches.
func goldenRecords() []record.Record {
	value2 := strings.TrimSpace(strings.Repeat("value-2 ", 8))
	return []record.Record{
		{Offset: 7, Timestamp: 1700000000000, Key: []byte("key-1"), Value: []byte("value-1"),
			Headers: []record.Header{{Key: "h1", Value: []byte("x")}, {Key: "h2"}}},
		{Offset: 8, Timestamp: 1700000000123, Value: []byte(value2)},
		{Offset: 9, Timestamp: 1699999999000, Key: []byte("key-3")},
		{Offset: 10, Timestamp: 1700000000500, Key: []byte{}, Value: []byte{}},
	}
}

var goldenOptions = record.BuilderOptions{BaseOffset: 7, LeaderEpoch: 5, Idempotent: true,
	ProducerID: 4711, ProducerEpoch: 3, BaseSequence: 20}

func build(t testing.TB, o record.BuilderOptions, records ...record.Record) record.Batch {
	t.Helper()
	b := record.NewBuilder(o)
	for _, r := range records {
		b.Append(r)
	}
	batch, err := b.Build()
	require.NoError(t, err)
	return batch
}

// byHand is the uncompressed batch of goldenRecords put together from the tables "Record Batch" and
// "Record" of the Kafka protocol guide; varints are zig-zag, so 5 is 0a and -1 is 01.
const byHand = `
	0000000000000007 000000aa 00000005 02  # offset 7, 170 bytes follow, leader epoch 5, magic 2
	a3c62ee0 0000 00000003                 # CRC-32C, no attributes, last offset delta 3
	0000018bcfe56800 0000018bcfe569f4      # base 1700000000000, max ...500
	0000000000001267 0003 00000014         # producer 4711, epoch 3, sequence 20
	00000004                               # 4 records
	36 00 00 00 0a 6b65792d31 0e 76616c75652d31      # 27 bytes, key-1, value-1
	   04 04 6831 02 78 04 6832 01                   # two headers: h1=x, h2=null
	8c01 00 f601 02 01 7e 76616c75652d322076616c75652d322076616c75652d322076616c75652d32
	   2076616c75652d322076616c75652d322076616c75652d322076616c75652d32 00   # +123 ms, null key
	18 00 cf0f 04 0a 6b65792d33 01 00      # -1000 ms, null value
	0e 00 e807 06 00 00 00                 # +500 ms, empty key and value
`

func TestGoldenBatchEncodes(t *testing.T) {
	got := build(t, goldenOptions, goldenRecords()...)
	require.Equal(t, hex.EncodeToString(unhex(t, byHand)), hex.EncodeToString(got))
	require.Equal(t, kafkaBatches(t)["none"], got)
}

func TestKafkasBatchesDecode(t *testing.T) {
	batches := kafkaBatches(t)
	for codec := record.None; codec <= record.Zstd; codec++ {
		t.Run(codec.String(), func(t *testing.T) {
			b, rest, err := record.Next(append(batches[codec.String()], "rest"...))
			require.NoError(t, err)
			require.Equal(t, "rest", string(rest))
			require.NoError(t, b.CheckCRC())
			require.Equal(t, codec, b.Codec())
			require.Equal(t, int64(7), b.BaseOffset())
			require.Equal(t, int64(10), b.LastOffset())
			require.Equal(t, int64(11), b.NextOffset())
			require.Equal(t, len(b), b.Len())
			require.Equal(t, int32(5), b.LeaderEpoch())
			require.Equal(t, int8(2), b.Magic())
			require.False(t, b.IsControl())
			require.False(t, b.IsTransactional())
			require.False(t, b.HasDeleteHorizon())
			require.Equal(t, record.CreateTime, b.TimestampType())
			require.Equal(t, int64(1700000000000), b.BaseTimestamp())
			require.Equal(t, int64(1700000000500), b.MaxTimestamp())
			require.Equal(t, int64(4711), b.ProducerID())
			require.Equal(t, int16(3), b.ProducerEpoch())
			require.Equal(t, int32(20), b.BaseSequence())
			require.Equal(t, int32(23), b.LastSequence())
			require.Equal(t, int32(4), b.Count())
			records, err := b.Records(noLimit)
			require.NoError(t, err)
			require.Equal(t, goldenRecords(), records)
		})
	}
}

func TestEveryCodecRoundTrips(t *testing.T) {
	for codec := record.None; codec <= record.Zstd; codec++ {
		o := goldenOptions
		o.Codec = codec
		b := build(t, o, goldenRecords()...)
		require.NoError(t, b.CheckCRC())
		records, err := b.Records(noLimit)
		require.NoError(t, err)
		require.Equal(t, goldenRecords(), records, codec)
	}
}

func TestControlBatches(t *testing.T) {
	for name, kind := range map[string]record.ControlType{
		"commit": record.ControlCommit, "abort": record.ControlAbort,
	} {
		want := kafkaBatches(t)[name]
		got := record.ControlBatch(record.ControlOptions{Type: kind, BaseOffset: 99, LeaderEpoch: 5,
			ProducerID: 4711, ProducerEpoch: 3, CoordinatorEpoch: 8, Timestamp: 1700000000000})
		require.Equal(t, want, got)
		require.True(t, want.IsControl())
		require.True(t, want.IsTransactional())
		require.Equal(t, record.NoSequence, want.LastSequence())
		records, err := want.Records(noLimit)
		require.NoError(t, err)
		parsed, epoch, err := record.ParseControl(&records[0])
		require.NoError(t, err)
		require.Equal(t, kind, parsed)
		require.Equal(t, int32(8), epoch)
	}
	_, _, err := record.ParseControl(&record.Record{Key: []byte{0, 0, 0}})
	require.ErrorIs(t, err, record.ErrCorrupt)
	_, _, err = record.ParseControl(&record.Record{Key: make([]byte, 4)})
	require.ErrorIs(t, err, record.ErrCorrupt)
	kind, epoch, err := record.ParseControl(&record.Record{Key: []byte{0, 0, 0, 2}})
	require.NoError(t, err)
	require.Equal(t, record.ControlType(2), kind)
	require.Equal(t, int32(-1), epoch)
}

// What a broker may write into a batch lies outside the CRC, and a log append time inside it.
func TestBrokerEditsKeepTheBatchValid(t *testing.T) {
	b := build(t, goldenOptions, goldenRecords()...)
	b.SetBaseOffset(1 << 40)
	b.SetLeaderEpoch(9)
	require.NoError(t, b.CheckCRC())
	require.Equal(t, int64(1<<40+3), b.LastOffset())

	b.SetLogAppendTime(1800000000000)
	require.NoError(t, b.CheckCRC())
	require.Equal(t, record.LogAppendTime, b.TimestampType())
	records, err := b.Records(noLimit)
	require.NoError(t, err)
	for i, r := range records {
		require.Equal(t, int64(1800000000000), r.Timestamp)
		require.Equal(t, int64(1<<40+i), r.Offset)
	}
}

// KIP-98: the sequence after 2^31-1 is 0.
func TestSequenceWraps(t *testing.T) {
	o := goldenOptions
	o.BaseSequence = 1<<31 - 2
	require.Equal(t, int32(1), build(t, o, goldenRecords()...).LastSequence())
}

// The CRC of RFC 3720, appendix B.4, by way of a batch: the field must be CRC-32C of the bytes
// from attributes on. "123456789" has e3069283.
func TestCRCIsCastagnoli(t *testing.T) {
	b := build(t, record.BuilderOptions{}, record.Record{Value: []byte("x")})
	fake := append(bytes.Clone(b[:21]), "123456789"...)
	record.Batch(fake).UpdateCRC()
	require.Equal(t, uint32(0xe3069283), record.Batch(fake).CRC())
}

// Kafka's own test vectors of org.apache.kafka.common.utils.UtilsTest.testMurmur2.
func TestPartitionForKeyIsTheJavaClients(t *testing.T) {
	for key, hash := range map[string]int32{
		"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536,
		"a-little-bit-longer-string":                       -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971, "abc": 479470107,
	} {
		for _, n := range []int32{1, 2, 6, 50, 1000} {
			require.Equal(t, (hash&0x7fffffff)%n, record.PartitionForKey([]byte(key), n), key)
		}
	}
}

func TestHeaderReturnsTheLast(t *testing.T) {
	r := record.Record{Headers: []record.Header{{Key: "a", Value: []byte("1")}, {Key: "b"},
		{Key: "a", Value: []byte("2")}}}
	v, ok := r.Header("a")
	require.True(t, ok)
	require.Equal(t, "2", string(v))
	v, ok = r.Header("b")
	require.True(t, ok)
	require.Nil(t, v)
	_, ok = r.Header("c")
	require.False(t, ok)
}
