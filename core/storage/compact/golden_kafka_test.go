package compact

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/storage"
	"github.com/millstream-io/millstream/core/vfs"
	"github.com/millstream-io/millstream/core/vfs/vfstest"
)

// testdata/kafka-4.4.0 is a partition before and after Apache Kafka 4.4.0 compacted it, see the
// README beside it. Kafka does what the same rules say, so that each batch must come out the same.

var recorded = storage.TopicPartition{Topic: "cleaned", Partition: 0}

// openRecorded opens a directory of the recording, copied into memory.
func openRecorded(t *testing.T, name string) (vfs.FS, *storage.Dir, *storage.Log) {
	t.Helper()
	disk := vfs.NewMem()
	copyFrom(t, filepath.Join("testdata/kafka-4.4.0", name), disk, "/data")
	// The recording has none.
	require.NoError(t, vfs.WriteFileAtomic(disk, "/data/"+recorded.String()+"/partition.metadata",
		[]byte("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"), 0o644))
	if strings.HasPrefix(name, "before-") {
		vfstest.Keep(t, disk, "/data")
	}
	dir, err := storage.OpenDir(t.Context(), storage.DirOptions{FS: disk, Path: "/data", NodeID: 1})
	require.NoError(t, err)
	l, ok := dir.Log(recorded)
	require.True(t, ok)
	require.NoError(t, l.Err())
	return disk, dir, l
}

func copyFrom(t *testing.T, from string, to vfs.FS, dir string) {
	t.Helper()
	require.NoError(t, to.MkdirAll(dir, 0o755))
	entries, err := vfs.OS().ReadDir(from)
	require.NoError(t, err)
	for _, e := range entries {
		if e.IsDir() {
			copyFrom(t, filepath.Join(from, e.Name()), to, filepath.Join(dir, e.Name()))
			continue
		}
		data, err := vfs.ReadFile(vfs.OS(), filepath.Join(from, e.Name()))
		require.NoError(t, err)
		require.NoError(t, vfs.WriteFileAtomic(to, filepath.Join(dir, e.Name()), data, 0o644))
	}
}

// describe returns everything that counts of a batch, as text. The time of a delete horizon is that
// of the compaction, and compressors differ.
func describe(t *testing.T, b record.Batch) string {
	t.Helper()
	var s strings.Builder
	fmt.Fprintf(&s, "%d-%d count=%d attributes=%x epoch=%d producer=%d/%d/%d max=%d", b.BaseOffset(),
		b.LastOffset(), b.Count(), b.Attributes(), b.LeaderEpoch(), b.ProducerID(),
		b.ProducerEpoch(), b.BaseSequence(), b.MaxTimestamp())
	if !b.HasDeleteHorizon() {
		fmt.Fprintf(&s, " base=%d", b.BaseTimestamp())
	}
	if b.Codec() == record.None && !b.HasDeleteHorizon() {
		fmt.Fprintf(&s, " size=%d", b.Len())
	}
	records, err := b.Records(1 << 24)
	require.NoError(t, err)
	for _, r := range records {
		fmt.Fprintf(&s, "\n  %d %d %q=%q null=%t %q", r.Offset, r.Timestamp, r.Key, r.Value,
			r.Value == nil, r.Headers)
	}
	return s.String()
}

// TestKafkaCompactsTheSame compares with a recording: keys, tombstones, five codecs, idempotent
// producers, committed and aborted transactions, two passes.
func TestKafkaCompactsTheSame(t *testing.T) {
	for _, stage := range []string{"1", "2"} {
		t.Run("stage "+stage, func(t *testing.T) {
			disk, dir, l := openRecorded(t, "before-"+stage)
			defer func() { require.NoError(t, dir.Close()) }()
			c := storage.DefaultConfig()
			c.Compact, c.Delete, c.MinCleanableDirtyRatio = true, false, 0
			c.SegmentBytes, c.IndexIntervalBytes, c.DeleteRetentionMS = 8192, 512, 1
			require.NoError(t, l.SetConfig(c))
			l.SetHighWatermark(l.EndOffset())
			cleaner, err := New(Options{Dir: dir})
			require.NoError(t, err)
			require.Equal(t, 1, cleaner.CleanNow(t.Context()))

			_, _, kafka := openRecorded(t, "after-"+stage)
			var want, got []string
			has := map[int64]bool{}
			for _, b := range batchesOf(t, kafka) {
				want = append(want, describe(t, b))
				has[b.BaseOffset()] = true
			}
			segments := l.CleanState().Segments
			for _, b := range batchesOf(t, l) {
				if b.Count() == 0 && !has[b.BaseOffset()] {
					require.True(t, slices.ContainsFunc(segments, func(s storage.SegmentInfo) bool {
						return s.Next == b.NextOffset()
					}), "only the last batch of a segment may be kept beyond what Kafka keeps")
					continue
				}
				got = append(got, describe(t, b))
			}
			require.Equal(t, want, got)
			require.Equal(t, bases(kafka), bases(l), "how segments were grouped")
			require.Equal(t, transactionIndexes(t, vfs.OS(),
				"testdata/kafka-4.4.0/after-"+stage+"/cleaned-0"),
				transactionIndexes(t, disk, "/data/cleaned-0"))
		})
	}
}

func bases(l *storage.Log) []int64 {
	var list []int64
	for _, s := range l.CleanState().Segments {
		list = append(list, s.Base)
	}
	return list
}

// transactionIndexes returns the .txnindex files by name.
func transactionIndexes(t *testing.T, disk vfs.FS, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	entries, err := disk.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".txnindex") {
			data, err := vfs.ReadFile(disk, filepath.Join(dir, e.Name()))
			require.NoError(t, err)
			files[e.Name()] = string(data)
		}
	}
	return files
}

// TestKafkaCompactedDirectoryMayBeCopied opens segments that Kafka compacted, with holes between
// them, without the checkpoints of the directory they came from: nothing of them may go.
func TestKafkaCompactedDirectoryMayBeCopied(t *testing.T) {
	for _, stage := range []string{"1", "2"} {
		_, dir, l := openRecorded(t, "after-"+stage)
		list := bases(l)
		holes := 0
		for _, s := range l.CleanState().Segments {
			if s.Next < s.End {
				holes++
			}
		}
		require.Positive(t, holes)
		files, err := filepath.Glob("testdata/kafka-4.4.0/after-" + stage + "/cleaned-0/*.log")
		require.NoError(t, err)
		require.Len(t, list, len(files))
		require.NoError(t, dir.Close())
	}
}
