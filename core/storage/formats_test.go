package storage

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/vfs"
)

// unhex reads bytes written as hex with spaces and line ends.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	require.NoError(t, err)
	return b
}

// oneRecordBatch is a batch of one record as a producer sends it, by hand from the protocol guide:
// timestamp 1700000000000 = 0x18bcfe56800, key "k", value "v".
const oneRecordBatch = `
	0000000000000000 0000003a ffffffff 02 00000000 0000 00000000
	0000018bcfe56800 0000018bcfe56800 ffffffffffffffff ffff ffffffff 00000001
	10 00 00 00 02 6b 02 76 00`

func goldenBatch(t testing.TB) record.Batch {
	b := record.Batch(unhex(t, oneRecordBatch))
	b.UpdateCRC()
	return b
}

// The log file is the batches as they came, with base offset and leader epoch overwritten.
func TestLogFileBytes(t *testing.T) {
	fsys := vfs.NewMem()
	d := mustOpen(t, fsys, "/data")
	l := mustCreate(t, d, DefaultConfig())
	crc := hex.EncodeToString(goldenBatch(t)[17:21])
	for range 2 {
		_, err := l.Append(goldenBatch(t), AppendOptions{LeaderEpoch: 7})
		require.NoError(t, err)
	}
	tail := crc + `0000 00000000 0000018bcfe56800 0000018bcfe56800 ffffffffffffffff ffff ffffffff
		00000001 10 00 00 00 02 6b 02 76 00`
	want := unhex(t, `0000000000000000 0000003a 00000007 02`+tail+
		`0000000000000001 0000003a 00000007 02`+tail)
	got, err := vfs.ReadFile(fsys, "/data/orders-0/00000000000000000000.log")
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// Each batch is 70 bytes. With an interval of 100 bytes, batches 2 (at 140) and 4 (at 280) are
// indexed, since more than 100 bytes lie between entries; the time entries name batch 0, which has
// the largest timestamp all along, once.
func TestIndexFileBytes(t *testing.T) {
	fsys := vfs.NewMem()
	d := mustOpen(t, fsys, "/data")
	c := DefaultConfig()
	c.IndexIntervalBytes = 100
	l := mustCreate(t, d, c)
	for range 5 {
		mustAppend(t, l, goldenBatch(t))
	}
	require.NoError(t, d.Close())
	got := dirFiles(t, fsys, "/data/orders-0")
	require.Equal(t, unhex(t, `00000002 0000008c 00000004 00000118`),
		[]byte(got["00000000000000000000.index"]))
	require.Equal(t, unhex(t, `0000018bcfe56800 00000000`),
		[]byte(got["00000000000000000000.timeindex"]))
}

func TestSnapshotIsKafkasBytes(t *testing.T) {
	table := producerTable{}
	table[0x2a] = &producer{epoch: 3, coordinatorEpoch: -1, txnFirstOffset: -1,
		lastTimestamp: 1700000000000}
	table[0x2a].add(batchMark{lastSequence: 4, offsetDelta: 4, lastOffset: 4, timestamp: 1})
	table[0x2a].add(batchMark{lastSequence: 9, offsetDelta: 4, lastOffset: 19,
		timestamp: 1700000000000})
	got := encodeSnapshot(table)
	want := unhex(t, `0001 `+hex.EncodeToString(got[2:6])+` 00000001
		000000000000002a 0003 00000009 0000000000000013 00000004 0000018bcfe56800 ffffffff
		ffffffffffffffff`)
	require.Equal(t, want, got)

	back, err := decodeSnapshot(got)
	require.NoError(t, err)
	require.Equal(t, 1, back[0x2a].n, "only the last batch is kept")
	require.Equal(t, table[0x2a].marks[1], back[0x2a].marks[0])
	got[12] ^= 1
	_, err = decodeSnapshot(got)
	require.ErrorIs(t, err, ErrBadFile)
}

func TestCheckpointsAreKafkasTexts(t *testing.T) {
	epochs := epochList{{0, 0}, {5, 120}}
	require.Equal(t, "0\n2\n0 0\n5 120\n", string(epochs.format()))
	offsets := map[TopicPartition]int64{{"b", 10}: 7, {"b", 9}: 1, {"a.x", 0}: 0}
	text := formatOffsetCheckpoint(offsets)
	require.Equal(t, "0\n3\na.x 0 0\nb 9 1\nb 10 7\n", string(text))
	back, err := parseOffsetCheckpoint(text)
	require.NoError(t, err)
	require.Equal(t, offsets, back)

	id := uuid.MustParse("e53ab75e-5ad9-4ec2-8ae3-55bbde97bc14")
	require.Equal(t, "version: 0\ntopic_id: 5Tq3XlrZTsKK41W73pe8FA",
		string(formatPartitionMetadata(id)))
	clean, err := cleanShutdown{BrokerEpoch: 14}.format()
	require.NoError(t, err)
	require.Equal(t, `{"version":0,"brokerEpoch":14}`, string(clean))

	// A Java properties file: Kafka writes a date above, and its keys in no order.
	meta := metaProperties{clusterID: "MkU3OEVBNTcwNTJENDM2Qg", nodeID: 7, directoryID: id}
	require.Equal(t, "version=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\nnode.id=7\n"+
		"directory.id=5Tq3XlrZTsKK41W73pe8FA\n", string(meta.format()))
	kafkas := "#\n#Mon Nov 30 01:02:03 UTC 2026\nnode.id=7\ndirectory.id=5Tq3XlrZTsKK41W73pe8FA\n" +
		"version=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qg\n"
	parsed, err := parseMetaProperties([]byte(kafkas))
	require.NoError(t, err)
	require.Equal(t, meta, parsed)
}

func TestCheckpointTextsRefused(t *testing.T) {
	for _, text := range []string{"", "0\n", "1\n0\n", "0\n2\n0 0\n", "0\n1\n0\n", "0\n1\nx 0\n",
		"0\n2\n5 0\n4 1\n", "0\n2\n4 5\n5 5\n", "0\n1\n-1 0\n", "0\n1\n0 -1\n"} {
		_, err := parseEpochs([]byte(text))
		require.ErrorIs(t, err, ErrBadFile, "%q", text)
	}
	for _, text := range []string{"0\n", "0\n1\n", "0\n1\nt 0\n", "0\n1\nt x 0\n", "0\n1\nt 0 -1\n",
		"0\n1\n../t 0 1\n", "0\n9999999999\n"} {
		_, err := parseOffsetCheckpoint([]byte(text))
		require.ErrorIs(t, err, ErrBadFile, "%q", text)
	}
	for _, text := range []string{"", "version: 1\ntopic_id: 5Tq3XlrZTsKK41W73pe8FA",
		"version: 0\ntopic_id: short", "version: 0\nother: 1"} {
		_, err := parsePartitionMetadata([]byte(text))
		require.ErrorIs(t, err, ErrBadFile, "%q", text)
	}
	for _, text := range []string{"", "version=0\ncluster.id=a\nnode.id=1\n", "version=1\nnode.id=1\n",
		"version=1\ncluster.id=a\nnode.id=x\n"} {
		_, err := parseMetaProperties([]byte(text))
		require.ErrorIs(t, err, ErrBadFile, "%q", text)
	}
}

func TestPartitionDirectoryNames(t *testing.T) {
	for name, want := range map[string]TopicPartition{
		"a-0": {"a", 0}, "a-b-12": {"a-b", 12}, "__consumer_offsets-49": {"__consumer_offsets", 49},
		"a--1": {"a-", 1},
	} {
		got, ok := parseTopicPartition(name)
		require.True(t, ok, name)
		require.Equal(t, want, got)
	}
	for _, name := range []string{"a", "-0", "a-", "a-01", "a-+1", "a-2147483648", ".-0", "..-0",
		"a b-0", "a-0.0123456789abcdef0123456789abcdef-delete", strings.Repeat("a", 250) + "-0"} {
		_, ok := parseTopicPartition(name)
		require.False(t, ok, name)
	}
}

// Cases from OffsetForLeaderEpoch's rules (KIP-101, KIP-279, KIP-320): the found epoch is answered,
// not the one asked for nor the current one.
func TestEpochListAnswers(t *testing.T) {
	l := epochList{}.assign(2, 0).assign(4, 10).assign(4, 12).assign(7, 25)
	require.Equal(t, epochList{{2, 0}, {4, 10}, {7, 25}}, l)
	for _, c := range []struct {
		ask, epoch int32
		end        int64
	}{{-1, -1, -1}, {0, 0, 0}, {2, 2, 10}, {3, 2, 10}, {4, 4, 25}, {6, 4, 25}, {7, 7, 40},
		{8, -1, -1}} {
		epoch, end := l.endOffset(c.ask, 40)
		require.Equal(t, c.epoch, epoch, "epoch %d", c.ask)
		require.Equal(t, c.end, end, "epoch %d", c.ask)
	}
	require.Equal(t, epochList{{2, 0}, {4, 10}}, l.truncateEnd(25))
	require.Equal(t, epochList{{4, 13}, {7, 25}}, l.truncateStart(13))
	require.Equal(t, epochList{{7, 30}}, l.truncateStart(30))
	require.Equal(t, epochList{{2, 0}, {5, 8}}, l.assign(5, 8), "a new leader's truth wins")
	require.Equal(t, int32(4), l.at(24))
	require.Equal(t, int32(7), l.at(25))
}
