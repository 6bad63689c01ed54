package storage

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/vfs"
)

// testdata/kafka-4.4.0 is the data directory of an Apache Kafka 4.4.0 broker after a clean shutdown
// (__cluster_metadata left out). Topic frozen, one partition, internal.segment.bytes=16384,
// index.interval.bytes=1024, segment.index.bytes=4096, was written by ProducerPerformance in six
// runs: idempotent, plain, zstd, lz4, snappy, gzip.
const kafkaDir = "testdata/kafka-4.4.0"

var frozen = TopicPartition{Topic: "frozen", Partition: 0}

// frozenConfig is the topic's configuration.
func frozenConfig() Config {
	c := DefaultConfig()
	c.SegmentBytes, c.IndexIntervalBytes, c.SegmentIndexBytes = 16384, 1024, 4096
	return c
}

// loadKafkaDir copies the directory into memory.
func loadKafkaDir(t testing.TB) *vfs.Mem {
	t.Helper()
	fsys := vfs.NewMem()
	copyTree(t, kafkaDir, fsys, "/data")
	return fsys
}

// copyTree copies a directory of the real disk into fsys.
func copyTree(t testing.TB, from string, fsys vfs.FS, to string) {
	t.Helper()
	require.NoError(t, fsys.MkdirAll(to, 0o755))
	entries, err := vfs.OS().ReadDir(from)
	require.NoError(t, err)
	for _, e := range entries {
		source, target := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		if e.IsDir() {
			copyTree(t, source, fsys, target)
			continue
		}
		data, err := vfs.ReadFile(vfs.OS(), source)
		require.NoError(t, err)
		require.NoError(t, writeFile(fsys, target, data))
	}
}

// dirFiles returns name and content of the files in a directory.
func dirFiles(t testing.TB, fsys vfs.FS, dir string) map[string]string {
	t.Helper()
	entries, err := fsys.ReadDir(dir)
	require.NoError(t, err)
	files := map[string]string{}
	for _, e := range entries {
		if e.IsDir() || e.Name() == fileLock {
			continue
		}
		data, err := vfs.ReadFile(fsys, filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		files[e.Name()] = string(data)
	}
	return files
}

func TestKafkaDirectoryOpensAndClosesUnchanged(t *testing.T) {
	fsys := loadKafkaDir(t)
	before := dirFiles(t, fsys, "/data/frozen-0")
	d := mustOpen(t, fsys, "/data")
	require.True(t, d.WasClean())
	require.Equal(t, "d4udTX_6Bm2ZUqAzto9LRw", d.ClusterID())
	l, ok := d.Log(frozen)
	require.True(t, ok)
	require.NoError(t, l.Err())
	require.Equal(t, "5Tq3XlrZTsKK41W73pe8FA", encodeID(l.TopicID()))
	require.Equal(t, int64(790), l.EndOffset())
	require.Len(t, readAll(t, l, 1000), 790)
	require.NoError(t, d.Close())
	require.Equal(t, before, dirFiles(t, fsys, "/data/frozen-0"))

	after := dirFiles(t, fsys, "/data")
	for _, name := range []string{fileRecoveryPoints, fileStartOffsets, fileHighWatermarks} {
		want, err := vfs.ReadFile(vfs.OS(), filepath.Join(kafkaDir, name))
		require.NoError(t, err)
		require.Equal(t, string(want), after[name], name)
	}
}

// TestAppendWritesTheFilesKafkaWrote appends Kafka's batches one by one to an empty log: rolls,
// index entries and snapshots must fall where Kafka put them.
func TestAppendWritesTheFilesKafkaWrote(t *testing.T) {
	kafka := loadKafkaDir(t)
	fsys := vfs.NewMem()
	d := mustOpen(t, fsys, "/data")
	source := dirFiles(t, kafka, "/data/frozen-0")
	id, err := parsePartitionMetadata([]byte(source[filePartitionMetadata]))
	require.NoError(t, err)
	l, err := d.Create(frozen, id, frozenConfig())
	require.NoError(t, err)
	for _, batch := range kafkaBatches(t, source) {
		_, err := l.Append(slices.Clone(batch), AppendOptions{Origin: Replicated})
		require.NoError(t, err)
	}
	require.NoError(t, d.Close())
	got := dirFiles(t, fsys, "/data/frozen-0")
	for name, want := range source {
		require.Equal(t, want, got[name], name)
	}
	require.Len(t, got, len(source))
}

func kafkaBatches(t testing.TB, files map[string]string) []record.Batch {
	t.Helper()
	var names []string
	for name := range files {
		if strings.HasSuffix(name, suffixLog) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var batches []record.Batch
	for _, name := range names {
		for rest := []byte(files[name]); len(rest) > 0; {
			b, after, err := record.Next(rest)
			require.NoError(t, err)
			batches, rest = append(batches, b), after
		}
	}
	return batches
}

// TestRecoveryRebuildsTheIndexesKafkaWrote recovers each segment without its indexes.
func TestRecoveryRebuildsTheIndexesKafkaWrote(t *testing.T) {
	fsys := loadKafkaDir(t)
	want := dirFiles(t, fsys, "/data/frozen-0")
	for name := range want {
		base, suffix, ok := parseSegmentFile(name)
		if !ok || suffix != suffixLog {
			continue
		}
		require.NoError(t, fsys.Remove(segmentFile("/data/frozen-0", base, suffixIndex)))
		require.NoError(t, fsys.Remove(segmentFile("/data/frozen-0", base, suffixTimeIndex)))
		s, err := openSegmentFiles(fsys, "/data/frozen-0", base, t0)
		require.NoError(t, err)
		res, err := s.recover(1024, nil, func(recovered) error { return nil })
		require.NoError(t, err)
		require.Zero(t, res.torn)
		require.NoError(t, s.seal())
		s.release()
	}
	require.Equal(t, want, dirFiles(t, fsys, "/data/frozen-0"))
}

// TestReplayGivesTheProducersKafkaStored compares with every snapshot: its one batch per producer
// and, beyond it, the window of five that the log holds.
func TestReplayGivesTheProducersKafkaStored(t *testing.T) {
	fsys := loadKafkaDir(t)
	want := dirFiles(t, fsys, "/data/frozen-0")
	d := mustOpen(t, fsys, "/data")
	l, _ := d.Log(frozen)
	list := *l.segments.Load()
	for name, data := range want {
		at, suffix, ok := parseSegmentFile(name)
		if !ok || suffix != suffixSnapshot {
			continue
		}
		state := newProducerState(producerTable{})
		require.NoError(t, l.replay(&state, list, 0, at, t0))
		require.Equal(t, data, string(encodeSnapshot(state.producers)), name)
	}
	// The snapshot at the end keeps one batch a producer; opening reads the log for the others.
	all := newProducerState(producerTable{})
	require.NoError(t, l.replay(&all, list, 0, l.EndOffset(), t0))
	require.Equal(t, all.producers, l.mu.producers)
}
