package storage

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/vfs"
)

// kafkaTxnDir is a directory of Kafka 4.4.0 with transactions, see testdata/README.md.
const kafkaTxnDir = "testdata/kafka-4.4.0-transactions"

var settled = TopicPartition{Topic: "settled", Partition: 0}

func settledConfig() Config {
	c := DefaultConfig()
	c.SegmentBytes, c.IndexIntervalBytes, c.SegmentIndexBytes = 2048, 256, 1024
	return c
}

// loadSettled returns Kafka's directory in memory, and the partition's files.
func loadSettled(t testing.TB) (*vfs.Mem, map[string]string) {
	t.Helper()
	fsys := vfs.NewMem()
	copyTree(t, kafkaTxnDir, fsys, "/data")
	return fsys, dirFiles(t, fsys, "/data/settled-0")
}

// What the broker answered before its shutdown: to ListOffsets latest, 140, and with read_committed
// 132; to DescribeProducers; and to Fetch with read_committed.
func TestKafkaTransactionsAreReadAsKafkaReadsThem(t *testing.T) {
	fsys, files := loadSettled(t)
	d := mustOpen(t, fsys, "/data")
	l, ok := d.Log(settled)
	require.True(t, ok)
	require.NoError(t, l.Err())
	require.Equal(t, int64(140), l.EndOffset())
	require.Equal(t, int64(140), l.HighWatermark())
	require.Equal(t, int64(132), l.LastStableOffset())
	require.Equal(t, []ProducerInfo{
		{0, 9, -1, 1796002433382, 0, -1},
		{1, 9, -1, 1796002433482, 0, -1},
		{2, 4, -1, 1796002433149, 0, -1},
		{3, 0, 28, 1796002433535, -1, -1},
		{4, 0, 1, 1796002433452, -1, 132},
	}, l.Producers())
	for _, answer := range []struct {
		from    int64
		bytes   int
		aborted []AbortedTransaction // sorted by first offset, which Kafka does not do
	}{
		{0, 1923, []AbortedTransaction{{0, 0}, {1, 23}}},
		{10, 1427, []AbortedTransaction{{0, 0}, {1, 23}}},
		{37, 1351, []AbortedTransaction{{0, 32}, {1, 35}, {2, 39}, {0, 52}}},
		{60, 1662, []AbortedTransaction{{0, 52}, {0, 64}, {1, 67}}},
		{90, 1625, []AbortedTransaction{{1, 87}, {0, 96}, {2, 103}}},
	} {
		c, err := l.Read(answer.from, 1<<20, l.LastStableOffset(), true)
		require.NoError(t, err)
		require.Equal(t, answer.bytes, c.Len(), "from %d", answer.from)
		require.Equal(t, answer.aborted, aborted(t, l, answer.from, c.NextOffset()))
		c.Release()
	}
	require.Len(t, readAll(t, l, 1000), 140)
	require.NoError(t, d.Close())
	require.Equal(t, files, dirFiles(t, fsys, "/data/settled-0"))
}

// writeSettled makes an empty log with Kafka's topic id, lets fill write it, and wants Kafka's
// files.
func writeSettled(t *testing.T, files map[string]string, fill func(*Log, record.Batch)) {
	t.Helper()
	fsys := vfs.NewMem()
	d := mustOpen(t, fsys, "/data")
	id, err := parsePartitionMetadata([]byte(files[filePartitionMetadata]))
	require.NoError(t, err)
	l, err := d.Create(settled, id, settledConfig())
	require.NoError(t, err)
	for _, batch := range kafkaBatches(t, files) {
		fill(l, slices.Clone(batch))
	}
	require.NoError(t, d.Close())
	got := dirFiles(t, fsys, "/data/settled-0")
	for name, want := range files {
		require.Equal(t, want, got[name], name)
	}
	require.Len(t, got, len(files))
}

func TestFollowerWritesTheTransactionsKafkaWrote(t *testing.T) {
	_, files := loadSettled(t)
	writeSettled(t, files, func(l *Log, b record.Batch) {
		_, err := l.Append(b, AppendOptions{Origin: Replicated})
		require.NoError(t, err)
	})
}

// The leader gets the batches as clients and the coordinator sent them, and passes them with the
// checks of transaction version 2.
func TestLeaderWritesTheTransactionsKafkaWrote(t *testing.T) {
	_, files := loadSettled(t)
	writeSettled(t, files, func(l *Log, b record.Batch) {
		o := AppendOptions{LeaderEpoch: b.LeaderEpoch(), TransactionVersion: 2}
		switch {
		case b.IsControl():
			o.Origin = FromTxnCoordinator
		case b.IsTransactional():
			guard, _, err := l.StartVerification(b.ProducerID(), b.ProducerEpoch(), b.BaseSequence())
			require.NoError(t, err)
			o.Guard = guard
		}
		want := b.BaseOffset()
		b.SetBaseOffset(0)
		l.clock = func() int64 { return b.MaxTimestamp() }
		res, err := l.Append(b, o)
		require.NoError(t, err)
		require.Equal(t, want, res.BaseOffset)
	})
}

// sideFiles has the indexes of aborted transactions and the snapshots.
func sideFiles(files map[string]string) map[string]string {
	side := maps.Clone(files)
	maps.DeleteFunc(side, func(name, _ string) bool {
		return !strings.HasSuffix(name, suffixTxnIndex) && !strings.HasSuffix(name, suffixSnapshot)
	})
	return side
}

// Recovery has only the batches, and older snapshots if any are left.
func TestRecoveryRebuildsTheTransactionsKafkaWrote(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, fsys *vfs.Mem, name string, base int64){
		"nothing left": func(t *testing.T, fsys *vfs.Mem, name string, _ int64) {
			require.NoError(t, fsys.Remove(name))
		},
		"first snapshots left": func(t *testing.T, fsys *vfs.Mem, name string, base int64) {
			if !strings.HasSuffix(name, suffixSnapshot) || base > 55 {
				require.NoError(t, fsys.Remove(name))
			}
		},
		"torn": func(t *testing.T, fsys *vfs.Mem, name string, _ int64) {
			editFile(t, fsys, name, func(b []byte) []byte { return b[:len(b)-3] })
		},
	} {
		t.Run(name, func(t *testing.T) {
			fsys, files := loadSettled(t)
			for name := range sideFiles(files) {
				base, _, _ := parseSegmentFile(name)
				damage(t, fsys, filepath.Join("/data/settled-0", name), base)
			}
			require.NoError(t, fsys.Remove("/data/"+fileCleanShutdown))
			require.NoError(t, fsys.Remove("/data/"+fileRecoveryPoints))
			d := mustOpen(t, fsys, "/data")
			l, _ := d.Log(settled)
			require.NoError(t, l.Err())
			require.Equal(t, int64(132), l.LastStableOffset())
			require.Equal(t, []AbortedTransaction{{1, 35}, {2, 39}},
				slices.DeleteFunc(aborted(t, l, 37, 47), func(a AbortedTransaction) bool {
					return a.ProducerID == 0
				}))
			require.NoError(t, d.Close())
			require.Equal(t, sideFiles(files), sideFiles(dirFiles(t, fsys, "/data/settled-0")))
		})
	}
}

// Without a damaged log nothing is read anew but the index that is broken; the start is clean.
func TestBrokenTxnIndexIsRebuiltAtACleanStart(t *testing.T) {
	for _, name := range []string{"00000000000000000055.txnindex", "00000000000000000113.txnindex"} {
		for fault, edit := range map[string]func([]byte) []byte{
			"cut":         func(b []byte) []byte { return b[:40] },
			"version":     func(b []byte) []byte { b[1] = 9; return b },
			"order":       func(b []byte) []byte { return append(b, b[:34]...) },
			"beyond":      func(b []byte) []byte { b[20] = 1; return b },
			"first later": func(b []byte) []byte { b[17] = 0xff; return b },
		} {
			fsys, files := loadSettled(t)
			editFile(t, fsys, "/data/settled-0/"+name, edit)
			d := mustOpen(t, fsys, "/data")
			l, _ := d.Log(settled)
			require.NoError(t, l.Err(), fault)
			require.NoError(t, d.Close())
			require.Equal(t, files, dirFiles(t, fsys, "/data/settled-0"), fault)
		}
	}
}

// The directory of a topic that is made anew has no memory of the old transactions.
func TestRecreatedTopicForgetsTransactions(t *testing.T) {
	fsys, _ := loadSettled(t)
	d := mustOpen(t, fsys, "/data")
	require.NoError(t, d.Delete(settled))
	l, err := d.Create(settled, uuid.New(), settledConfig())
	require.NoError(t, err)
	require.Empty(t, l.Producers())
	require.Empty(t, aborted(t, l, 0, 1000))
}
