package storage

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/vfs"
)

// Group commit: appends return before the sync, the flusher then moves the synced offset and tells
// subscribers. Without the flusher nothing moves.
func TestGroupCommitPublishesAndNotifies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fault := vfs.NewFault(vfs.NewMem())
		d := mustOpen(t, fault, "/data")
		l := mustCreate(t, d, DefaultConfig())
		moves := make(chan [2]int64, 1000)
		cancel := l.Subscribe(func() { moves <- [2]int64{l.EndOffset(), l.SyncedOffset()} })
		mustAppend(t, l, batchOf(t, 1, 10, t0))
		next := func() (move [2]int64) {
			t.Helper()
			select {
			case move = <-moves:
			case <-time.After(time.Second): // of the bubble: long before a checkpoint syncs
				require.Fail(t, "nobody syncs")
			}
			return move
		}
		require.Equal(t, [2]int64{1, 0}, next())

		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.Run(ctx) }()
		require.Equal(t, [2]int64{1, 1}, next())

		mustAppend(t, l, batchOf(t, 1, 10, t0))
		require.Equal(t, [2]int64{2, 1}, next())
		require.Equal(t, [2]int64{2, 2}, next())

		// While one sync runs, the appends that come share the next one. What the journal does ahead is
		// done before.
		synctest.Wait()
		fault.Inject(vfs.Rule{Op: vfs.OpSync, Delay: time.Second})
		before := fault.Count(vfs.OpSync)
		for range 50 {
			mustAppend(t, l, batchOf(t, 1, 10, t0))
		}
		require.NoError(t, l.Sync(ctx))
		synctest.Wait()
		require.Equal(t, int64(52), l.SyncedOffset())
		require.LessOrEqual(t, fault.Count(vfs.OpSync)-before, 2)
		cancel()
		stop()
		require.NoError(t, <-done)
	})
}
