package storage

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
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

// TestSpaceAheadOfASegment: a segment that grows has blocks ahead of its end, not more than it has
// bytes nor than aheadMost, and gives them back when it is sealed, closed, or recovered and closed.
func TestSpaceAheadOfASegment(t *testing.T) {
	dir := t.TempDir()
	c := DefaultConfig()
	c.SegmentBytes = 40 << 20
	d := mustOpen(t, vfs.OS(), dir)
	l := mustCreate(t, d, c)
	behind := func(base int64) int64 {
		var st syscall.Stat_t
		name := filepath.Join(dir, tp0.String(), segmentFile("", base, suffixLog))
		require.NoError(t, syscall.Stat(name, &st))
		return st.Blocks*512 - st.Size
	}
	const slack = 8 << 10 // whole blocks, and those of the file system's own
	batch := record.Batch(batchOf(t, 1, 100_000, t0))
	mustAppend(t, l, rewind(batch))
	require.Less(t, behind(0), int64(slack), "a small segment takes no more than it has")
	most := int64(0)
	for len(*l.segments.Load()) == 1 {
		mustAppend(t, l, rewind(batch))
		got := behind((*l.segments.Load())[0].base)
		require.LessOrEqual(t, got, min(max(l.Size(), aheadLeast), aheadMost)+slack)
		most = max(most, got)
	}
	probe := l.active().log.(vfs.Preallocator).Preallocate(0, 1)
	if probe == nil { // else this file system cannot
		require.Greater(t, most, int64(aheadMost*3/4))
	}
	require.Less(t, behind(0), int64(slack), "sealed")
	base := l.active().base
	for l.active().state().size < 4<<20 {
		mustAppend(t, l, rewind(batch))
	}
	end := l.EndOffset()
	require.NoError(t, d.lock.Close()) // as if the process were killed
	if probe == nil {
		require.Greater(t, behind(base), int64(aheadLeast))
	}
	d = mustOpen(t, vfs.OS(), dir)
	require.Equal(t, end, mustCreate(t, d, c).EndOffset())
	require.NoError(t, d.Close())
	require.Less(t, behind(base), int64(slack), "closed by the next process")
}
