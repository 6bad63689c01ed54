package storage

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/vfs"
	"github.com/millstream-io/millstream/core/vfs/vfstest"
)

// bases returns the base offsets of the segments.
func bases(l *Log) []int64 {
	var b []int64
	for _, s := range *l.segments.Load() {
		b = append(b, s.base)
	}
	return b
}

func TestLogRollsAtSegmentBytes(t *testing.T) {
	d := mustOpen(t, vfs.NewMem(), "/data")
	c := DefaultConfig()
	size := int64(len(batchOf(t, 1, 100, t0)))
	c.SegmentBytes = 2 * size
	l := mustCreate(t, d, c)
	for range 5 {
		mustAppend(t, l, batchOf(t, 1, 100, t0))
	}
	require.Equal(t, []int64{0, 2, 4}, bases(l))
}

// segment.ms is a span of record time: from the first batch's largest timestamp to the new one's.
func TestLogRollsAtSegmentMSOfRecordTime(t *testing.T) {
	clock := newTestClock()
	d := mustOpenAt(t, vfs.NewMem(), "/data", clock)
	c := DefaultConfig()
	c.SegmentMS = 1000
	l := mustCreate(t, d, c)
	mustAppend(t, l, batchOf(t, 1, 10, 5000))
	clock.ms.Add(1 << 40) // the wall clock does not matter
	mustAppend(t, l, batchOf(t, 1, 10, 6000))
	mustAppend(t, l, batchOf(t, 1, 10, 3000))
	require.Equal(t, []int64{0}, bases(l))
	mustAppend(t, l, batchOf(t, 1, 10, 6001))
	require.Equal(t, []int64{0, 3}, bases(l))
}

func TestLogRollsByAgeWithoutTimestamps(t *testing.T) {
	clock := newTestClock()
	d := mustOpenAt(t, vfs.NewMem(), "/data", clock)
	c := DefaultConfig()
	c.SegmentMS = 1000
	l := mustCreate(t, d, c)
	mustAppend(t, l, batchOf(t, 1, 10, record.NoTimestamp))
	clock.ms.Add(1000)
	mustAppend(t, l, batchOf(t, 1, 10, record.NoTimestamp))
	clock.ms.Add(1)
	mustAppend(t, l, batchOf(t, 1, 10, record.NoTimestamp))
	require.Equal(t, []int64{0, 2}, bases(l))
}

func TestLogRollsWhenAnIndexIsFull(t *testing.T) {
	d := mustOpen(t, vfs.NewMem(), "/data")
	c := DefaultConfig()
	c.IndexIntervalBytes, c.SegmentIndexBytes = 1, 6*offsetEntrySize
	l := mustCreate(t, d, c)
	for range 16 {
		mustAppend(t, l, batchOf(t, 1, 10, t0))
	}
	// The first batch has no entry, the next six fill the index.
	require.Equal(t, []int64{0, 7, 14}, bases(l))

	// The time index keeps room for its final entry: with four entries, the third is the last.
	l, err := d.Create(TopicPartition{"times", 0}, topicB, c)
	require.NoError(t, err)
	for i := range int64(9) {
		mustAppend(t, l, batchOf(t, 1, 10, t0+i))
	}
	require.Equal(t, []int64{0, 4, 8}, bases(l))
}

func TestLogRollsWhenRelativeOffsetsOverflow(t *testing.T) {
	vfstest.LeaveOut(t, "the copy of a log of two billion records, without most of them")
	d := mustOpen(t, vfs.NewMem(), "/data")
	l := mustCreate(t, d, DefaultConfig())
	for _, offset := range []int64{0, math.MaxInt32 - 1, math.MaxInt32, 1 << 40} {
		b := record.Batch(batchOf(t, 1, 10, t0))
		b.SetBaseOffset(offset)
		_, err := l.Append(b, AppendOptions{Origin: Replicated})
		require.NoError(t, err)
	}
	require.Equal(t, []int64{0, 1 << 40}, bases(l))
	require.Len(t, readAll(t, l, 1<<20), 4)
}

// retained is a log of 10 segments of one record each, at t0-9 h, t0-8 h, ... t0.
func retained(t *testing.T, c Config) (*testClock, *vfs.Mem, *Dir, *Log) {
	t.Helper()
	clock, fsys := newTestClock(), vfs.NewMem()
	d := mustOpenAt(t, fsys, "/data", clock)
	c.SegmentBytes = int64(len(batchOf(t, 1, 100, t0)))
	c.FileDeleteDelayMS = 60_000
	l := mustCreate(t, d, c)
	for i := range int64(10) {
		mustAppend(t, l, batchOf(t, 1, 100, t0-(9-i)*3600_000))
	}
	require.Len(t, bases(l), 10)
	l.SetHighWatermark(10)
	return clock, fsys, d, l
}

func TestRetentionByTimeUsesRecordTimestamps(t *testing.T) {
	c := DefaultConfig()
	c.RetentionMS = 5 * 3600_000
	clock, fsys, d, l := retained(t, c)
	d.ApplyRetention()
	require.Equal(t, int64(4), l.StartOffset(), "records older than five hours")
	clock.ms.Add(1)
	d.ApplyRetention()
	require.Equal(t, int64(5), l.StartOffset())

	files := dirFiles(t, fsys, "/data/orders-0")
	require.Contains(t, files, "00000000000000000000.log.deleted")
	require.NotContains(t, files, "00000000000000000000.log")
	clock.ms.Add(60_000)
	d.removeDue()
	require.NotContains(t, dirFiles(t, fsys, "/data/orders-0"), "00000000000000000000.log.deleted")

	clock.ms.Add(1 << 40) // everything, the active segment too
	d.ApplyRetention()
	require.Equal(t, int64(10), l.StartOffset())
	require.Equal(t, []int64{10}, bases(l))
	d.ApplyRetention()
	require.Equal(t, []int64{10}, bases(l), "an empty segment stays")
	require.Equal(t, int64(10), mustAppend(t, l, batchOf(t, 1, 10, t0)).BaseOffset)
}

func TestRetentionBySizeKeepsAtLeastTheLimit(t *testing.T) {
	c := DefaultConfig()
	c.RetentionBytes = int64(len(batchOf(t, 1, 100, t0)))*3 + 1
	_, _, d, l := retained(t, c)
	d.ApplyRetention()
	require.Equal(t, int64(6), l.StartOffset())
}

func TestRetentionStopsAtTheHighWatermark(t *testing.T) {
	c := DefaultConfig()
	c.RetentionBytes = 0
	_, _, d, l := retained(t, c)
	l.highWatermark.Store(3)
	d.ApplyRetention()
	require.Equal(t, int64(3), l.StartOffset())
}

func TestRetentionLeavesCompactedTopicsAlone(t *testing.T) {
	c := DefaultConfig()
	c.RetentionBytes, c.RetentionMS, c.Compact, c.Delete = 0, 1, true, false
	_, _, d, l := retained(t, c)
	d.ApplyRetention()
	require.Zero(t, l.StartOffset())
}

func TestDeleteRecordsBefore(t *testing.T) {
	_, fsys, d, l := retained(t, DefaultConfig())
	require.NoError(t, l.DeleteRecordsBefore(7))
	require.NoError(t, l.DeleteRecordsBefore(2), "at or before the start is no error")
	require.ErrorIs(t, l.DeleteRecordsBefore(11), ErrOffsetOutOfRange)
	require.Equal(t, int64(7), l.StartOffset())
	require.Equal(t, []int64{7, 8, 9}, bases(l))
	require.NoError(t, l.DeleteRecordsBefore(10), "up to the end")
	require.NoError(t, d.Close())
	d = mustOpen(t, fsys, "/data")
	l, _ = d.Log(tp0)
	require.Equal(t, int64(10), l.StartOffset())
	require.Equal(t, int64(10), l.EndOffset())
}

func TestTruncateAndReset(t *testing.T) {
	fsys := vfs.NewMem()
	d, l := filledLog(t, fsys)
	require.NoError(t, l.AssignEpoch(5, 90))
	require.NoError(t, l.Sync(t.Context()))
	want := readAll(t, l, 1000)
	require.NoError(t, l.TruncateTo(90), "the end: nothing to do")
	require.NoError(t, l.TruncateTo(200))
	require.Equal(t, int64(90), l.EndOffset())
	require.NoError(t, l.TruncateTo(40))
	require.Equal(t, int64(39), l.EndOffset(), "the batch that holds 40 goes as a whole")
	require.Equal(t, int64(39), l.SyncedOffset())
	require.Equal(t, int32(0), l.LatestEpoch())
	got := readAll(t, l, 1000)
	require.Len(t, got, 39)
	for at, v := range got {
		require.Equal(t, want[at], v)
	}
	mustAppend(t, l, batchOf(t, 3, 100, t0))
	require.NoError(t, d.Close())
	d = mustOpen(t, fsys, "/data")
	l, _ = d.Log(tp0)
	require.Equal(t, int64(42), l.EndOffset())
	require.Len(t, readAll(t, l, 1000), 42)

	require.NoError(t, l.ResetTo(1000))
	require.Equal(t, int64(1000), l.StartOffset())
	require.Equal(t, int64(1000), mustAppend(t, l, batchOf(t, 1, 1, t0)).BaseOffset)
	require.NoError(t, d.Close())
	d = mustOpen(t, fsys, "/data")
	l, _ = d.Log(tp0)
	require.Equal(t, int64(1000), l.StartOffset())
	require.Equal(t, int64(1001), l.EndOffset())
}

func TestTruncateTakesProducersBack(t *testing.T) {
	d := mustOpen(t, vfs.NewMem(), "/data")
	c := smallConfig()
	c.SegmentBytes = 300
	l := mustCreate(t, d, c)
	for seq := range int32(20) {
		mustAppend(t, l, producerBatch(t, 7, 0, seq, 1))
	}
	require.NoError(t, l.TruncateTo(10))
	_, err := l.Append(producerBatch(t, 7, 0, 20, 1), AppendOptions{})
	require.ErrorIs(t, err, ErrOutOfOrderSequence)
	require.True(t, mustAppend(t, l, producerBatch(t, 7, 0, 9, 1)).Duplicate)
	require.Equal(t, int64(10), mustAppend(t, l, producerBatch(t, 7, 0, 10, 1)).BaseOffset)
}
