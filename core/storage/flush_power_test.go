package storage

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/vfs"
)

// afterPowerCut returns the end of the log on a disk whose power fails now, the worst of many cuts.
func afterPowerCut(t *testing.T, disk *vfs.Mem) int64 {
	t.Helper()
	worst := farAway
	for seed := range uint64(12) {
		d, err := OpenDir(t.Context(), DirOptions{FS: disk.CrashClone(seed), Path: "/d", NodeID: 1})
		require.NoError(t, err)
		l, ok := d.Log(tp0)
		require.True(t, ok)
		require.NoError(t, l.Err())
		worst = min(worst, l.EndOffset())
		d.closeAll()
		require.NoError(t, d.lock.Close())
	}
	return worst
}

// TestWhatEachFlushPolicySurvives is the table of core/DESIGN.md: what a power cut takes, at most,
// of what Append and the wait that belongs to the policy have returned.
func TestWhatEachFlushPolicySurvives(t *testing.T) {
	small, large := 100, 1<<20-200
	for _, c := range []struct {
		name   string
		config func(*Config)
		size   int           // of a batch
		wait   time.Duration // after each append
		kept   []int64       // end of the log after a cut that follows each append
	}{
		{"always: all that Append returned for",
			func(c *Config) { c.Flush = FlushAlways }, small, 0, []int64{1, 2, 3, 4}},
		{"group: all below SyncedOffset, at once",
			func(c *Config) { c.Flush = FlushGroup }, small, 0, []int64{1, 2, 3, 4}},
		{"os: nothing for sure",
			func(c *Config) { c.Flush = FlushOS }, small, time.Second, []int64{0, 0, 0, 0}},
		{"os: what a checkpoint has synced, each minute",
			func(c *Config) { c.Flush = FlushOS }, small, 21 * time.Second, []int64{0, 0, 3, 3}},
		{"os: but for the last 256 MiB, of which 240 are there before",
			func(c *Config) { c.Flush = FlushOS }, large, 0,
			[]int64{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 17, 17}},
		{"os with flush.messages=2: each second one",
			func(c *Config) { c.Flush, c.FlushMessages = FlushOS, 2 }, small, 0, []int64{0, 2, 2, 4}},
		{"os with flush.ms=1500: what is older",
			func(c *Config) { c.Flush, c.FlushMS = FlushOS, 1500 }, small, time.Second,
			[]int64{0, 2, 2, 4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := vfs.NewMem()
				d, err := OpenDir(t.Context(), DirOptions{FS: disk, Path: "/d", NodeID: 1})
				require.NoError(t, err)
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- d.Run(ctx) }()
				config := DefaultConfig()
				c.config(&config)
				l := mustCreate(t, d, config)
				if c.size == large {
					l.unsynced.Store(240 << 20)
				}
				for i, kept := range c.kept {
					mustAppend(t, l, batchOf(t, 1, c.size, time.Now().UnixMilli()))
					time.Sleep(c.wait)
					synctest.Wait() // group and os: the flusher has done what it was asked for
					if c.size == small || i+3 >= len(c.kept) {
						require.Equal(t, kept, afterPowerCut(t, disk), "after %d appends", i+1)
					}
					if config.Flush == FlushGroup {
						require.Equal(t, l.EndOffset(), l.SyncedOffset())
					}
				}
				stop()
				require.NoError(t, <-done)
				require.NoError(t, d.Close())
			})
		})
	}
}

// TestGroupAcknowledgesNothingBeforeItsSync: while the sync is on its way, SyncedOffset, which the
// high watermark and with it every answer follows, does not move, and a power cut may take it all.
func TestGroupAcknowledgesNothingBeforeItsSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		fault := vfs.NewFault(disk)
		d, err := OpenDir(t.Context(), DirOptions{FS: fault, Path: "/d", NodeID: 1})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.Run(ctx) }()
		l := mustCreate(t, d, DefaultConfig())
		other, err := d.Create(TopicPartition{"other", 0}, topicB, DefaultConfig())
		require.NoError(t, err)
		remove := fault.Inject(vfs.Rule{Op: vfs.OpSync, Path: "orders-0", Delay: 10 * time.Second})
		for range 3 {
			mustAppend(t, l, batchOf(t, 1, 10, time.Now().UnixMilli()))
			time.Sleep(3 * time.Second)
			require.Zero(t, l.SyncedOffset())
			require.Zero(t, afterPowerCut(t, disk))
			// Another log does not wait for the slow disk of this one's file.
			require.NoError(t, func() error {
				mustAppend(t, other, batchOf(t, 1, 10, time.Now().UnixMilli()))
				return other.Sync(t.Context())
			}())
			require.Equal(t, other.EndOffset(), other.SyncedOffset())
			_, err := l.Read(0, 1000, farAway, true)
			require.NoError(t, err)
		}
		remove()
		time.Sleep(20 * time.Second)
		require.Equal(t, int64(3), l.SyncedOffset())
		require.Equal(t, int64(3), afterPowerCut(t, disk))
		stop()
		require.NoError(t, <-done)
		require.NoError(t, d.Close())
	})
}
