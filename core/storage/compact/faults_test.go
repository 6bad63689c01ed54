package compact

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/storage"
	"github.com/millstream-io/millstream/core/vfs"
)

// TestCompactionWhileAnyOperationFails has each operation of a compaction fail once, in each way it
// can. For want of space or descriptors nothing but this compaction is refused: the log takes
// appends, and the next compaction, without a start between, does the work. After any other failure
// and a start, kill -9 or power cut, the log is what it was or what it was to become.
func TestCompactionWhileAnyOperationFails(t *testing.T) {
	f := crashLog(t, vfs.NewMem())
	before := withRecords(f.content())
	require.Positive(t, f.clean())
	after := withRecords(f.content())
	require.NotEqual(t, before, after)
	require.NoError(t, f.dir.Close())
	for _, c := range []vfs.Rule{
		{Op: vfs.OpWrite, Err: syscall.ENOSPC}, {Op: vfs.OpWrite, Err: syscall.ENOSPC, Partial: 30},
		{Op: vfs.OpCreate, Err: syscall.ENOSPC}, {Op: vfs.OpRename, Err: syscall.ENOSPC},
		{Op: vfs.OpCreate, Err: syscall.EMFILE}, {Op: vfs.OpOpen, Err: syscall.EMFILE},
		{Op: vfs.OpSyncDir, Err: syscall.EMFILE}, {Op: vfs.OpRead, Err: syscall.EMFILE},
		{Op: vfs.OpWrite, Err: syscall.EIO}, {Op: vfs.OpRead, Err: syscall.EIO},
		{Op: vfs.OpSync, Err: syscall.EIO}, {Op: vfs.OpSync, Err: syscall.ENOSPC},
		{Op: vfs.OpSyncDir, Err: syscall.EIO}, {Op: vfs.OpTruncate, Err: syscall.EIO},
		{Op: vfs.OpRename, Err: syscall.EIO}, {Op: vfs.OpRemove, Err: syscall.EIO},
		{Op: vfs.OpCreate, Err: syscall.EIO}, {Op: vfs.OpOpen, Err: syscall.EIO},
	} {
		t.Run(fmt.Sprint(c.Op, " ", c.Err, " ", c.Partial), func(t *testing.T) {
			for c.Nth, c.Times = 1, 1; failOnce(t, c, before, after); c.Nth++ {
			}
			t.Logf("%d operations failed", c.Nth-1)
		})
	}
}

// failOnce compacts with one fault; false if there were not so many operations.
func failOnce(t *testing.T, rule vfs.Rule, before, after []string) bool {
	t.Helper()
	where := fmt.Sprintf("%s %v, number %d", rule.Op, rule.Err, rule.Nth)
	mem := vfs.NewMem()
	fault := vfs.NewFault(mem)
	f := crashLog(t, fault)
	asked := fault.Count(rule.Op)
	remove := fault.Inject(rule)
	f.cleaner.CleanNow(t.Context())
	remove()
	hit := fault.Count(rule.Op)-asked >= rule.Nth
	passing := !errors.Is(rule.Err, syscall.EIO) && rule.Op != vfs.OpSync
	if passing {
		require.NoError(t, f.dir.Err(), where)
		require.NoError(t, f.log.Err(), where)
		require.Empty(t, f.cleaner.Stats().Uncleanable, where)
	}
	if rule.Op == vfs.OpSync && hit {
		require.ErrorIs(t, f.dir.Err(), storage.ErrDirFailed, where)
	}
	if passing && f.dir.Err() == nil {
		f.put("more=1")
		f.clean()
		want := append(slices.Clone(after), "26 more=1")
		require.Equal(t, want, withRecords(f.content()), where)
		require.NoError(t, f.dir.Close(), where)
	}
	for seed, disk := range []*vfs.Mem{cloneDisk(mem), mem.CrashClone(1), mem.CrashClone(2)} {
		g := &fixture{t: t, fs: disk, stamp: t0 + 1_000_000, config: f.config}
		g.clock.Store(t0)
		g.open()
		require.NoError(t, g.log.Err(), "%s, %d", where, seed)
		g.log.SetHighWatermark(g.log.EndOffset())
		if !passing {
			g.clean()
			require.Equal(t, after, withRecords(g.content()), "%s, %d", where, seed)
		}
		require.NoError(t, g.dir.Close())
	}
	_ = f.dir.Close()
	return hit
}
