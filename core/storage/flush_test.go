package storage

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/vfs"
)

// TestFlushMessagesSyncsEveryNRecords: an append that fills the number returns with all on the
// disk, as in Kafka.
func TestFlushMessagesSyncsEveryNRecords(t *testing.T) {
	c := DefaultConfig()
	c.Flush, c.FlushMessages = FlushOS, 5
	l := mustCreate(t, mustOpen(t, vfs.NewMem(), "/d"), c)
	for i, synced := range []int64{0, 0, 6, 6, 6, 12} {
		mustAppend(t, l, batchOf(t, 2, 10, t0+int64(i)))
		require.Equal(t, synced, l.SyncedOffset(), "after %d records", l.EndOffset())
	}
	c.FlushMessages = 1
	require.NoError(t, l.SetConfig(c))
	mustAppend(t, l, batchOf(t, 1, 10, t0))
	require.Equal(t, int64(13), l.SyncedOffset(), "holds from the next append on")
}

// TestFlushMSSyncsInTime: with flush.ms, nothing waits longer for its sync.
func TestFlushMSSyncsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := OpenDir(t.Context(), DirOptions{FS: vfs.NewMem(), Path: "/d", NodeID: 1,
			CheckpointInterval: time.Hour, RetentionInterval: time.Hour})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.Run(ctx) }()
		c := DefaultConfig()
		c.Flush, c.FlushMS = FlushOS, 300
		l := mustCreate(t, d, c)
		for range 2 {
			mustAppend(t, l, batchOf(t, 2, 10, time.Now().UnixMilli()))
			before := l.SyncedOffset()
			time.Sleep(299 * time.Millisecond)
			mustAppend(t, l, batchOf(t, 1, 10, time.Now().UnixMilli())) // does not put it off
			synctest.Wait()
			require.Equal(t, before, l.SyncedOffset())
			time.Sleep(time.Millisecond)
			synctest.Wait()
			require.Equal(t, l.EndOffset(), l.SyncedOffset())
		}
		stop()
		require.NoError(t, <-done)
		require.NoError(t, d.Close())
	})
}

// TestSegmentJitterSpreadsRolls: logs made together do not roll together, and none rolls later than
// segment.ms says or earlier than the jitter allows.
func TestSegmentJitterSpreadsRolls(t *testing.T) {
	d := mustOpen(t, vfs.NewMem(), "/d")
	c := DefaultConfig()
	c.SegmentMS, c.SegmentJitterMS = 10_000, 4_000
	at := map[int64]int{}
	for p := range int32(30) {
		l, err := d.Create(TopicPartition{Topic: "t", Partition: p}, topicA, c)
		require.NoError(t, err)
		mustAppend(t, l, batchOf(t, 1, 10, t0))
		rolled := int64(0)
		for ms := int64(5_900); rolled == 0; ms += 100 {
			mustAppend(t, l, batchOf(t, 1, 10, t0+ms))
			if len(*l.segments.Load()) > 1 {
				rolled = ms
			}
		}
		require.GreaterOrEqual(t, rolled, int64(6_000))
		require.LessOrEqual(t, rolled, int64(10_100))
		at[rolled/1000]++
	}
	require.GreaterOrEqual(t, len(at), 4, "%v", at)
}
