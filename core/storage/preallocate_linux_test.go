package storage

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/vfs"
)

// TestPreallocateReservesTheSegment: the blocks of a segment are there before its bytes, and those
// that it does not need are given back when it is full.
func TestPreallocateReservesTheSegment(t *testing.T) {
	dir := t.TempDir()
	c := DefaultConfig()
	c.SegmentBytes, c.SegmentMS, c.Preallocate = 4<<20, 1000, true
	d := mustOpen(t, vfs.OS(), dir)
	l := mustCreate(t, d, c)
	blocks := func(base int64) int64 {
		var st syscall.Stat_t
		name := filepath.Join(dir, tp0.String(), segmentFile("", base, suffixLog))
		require.NoError(t, syscall.Stat(name, &st))
		return st.Blocks * 512
	}
	// A file system that cannot reserve space must serve the log all the same.
	least := int64(0)
	if blocks(0) > 0 {
		least = 4 << 20
	}
	require.GreaterOrEqual(t, blocks(0), least)
	require.Zero(t, l.Size())
	mustAppend(t, l, batchOf(t, 1, 1_000_000, t0))
	mustAppend(t, l, batchOf(t, 1, 1000, t0+c.SegmentMS+1)) // rolls
	require.Len(t, *l.segments.Load(), 2)
	require.Less(t, blocks(0), int64(2<<20))
	require.GreaterOrEqual(t, blocks(1), least)
	require.NoError(t, d.Close())
	require.Less(t, blocks(1), int64(1<<20))
	require.Len(t, readAll(t, mustCreate(t, mustOpen(t, vfs.OS(), dir), c), 1<<22), 2)
}
