package storage

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/vfs"
)

// manySegments makes a log of ten batches of two records, three batches to a segment, closed in
// order, and returns the disk and the size of a batch.
func manySegments(t *testing.T) (*vfs.Mem, int64) {
	t.Helper()
	fsys := vfs.NewMem()
	d := mustOpen(t, fsys, "/data")
	c := DefaultConfig()
	size := int64(len(batchOf(t, 2, 50, t0)))
	c.SegmentBytes = 3*size + 1
	l := mustCreate(t, d, c)
	for i := range 10 {
		mustAppend(t, l, batchOf(t, 2, 50, t0+int64(i*2)))
	}
	require.Equal(t, 4, l.Segments())
	require.NoError(t, d.Close())
	return fsys, size
}

func flipAt(t *testing.T, fsys vfs.FS, base int64, at int64) {
	t.Helper()
	editFile(t, fsys, fmt.Sprintf("/data/orders-0/%020d.log", base), func(b []byte) []byte {
		b[at] ^= 0x10
		return b
	})
}

func openScrubbed(t *testing.T, fsys vfs.FS, s DirSettings, now func() time.Time) (*Dir, *Log) {
	t.Helper()
	d, err := OpenDir(t.Context(), DirOptions{FS: fsys, Path: "/data", NodeID: 1, Settings: s,
		Now: now})
	require.NoError(t, err)
	l, ok := d.Log(tp0)
	require.True(t, ok)
	require.NoError(t, l.Err())
	l.SetHighWatermark(l.EndOffset())
	return d, l
}

// offsetsAt reads from an offset on and returns the first offset of the answer and the next one.
func offsetsAt(l *Log, at int64) (first, next int64, err error) {
	c, err := l.Read(at, 1<<20, l.EndOffset(), true)
	if err != nil {
		return 0, 0, err
	}
	defer c.Release()
	return c.FirstOffset(), c.NextOffset(), nil
}

// TestDamageIsNotServed flips a bit in a batch in the middle of a segment, after a clean stop, so
// that no start reads it: the batches before and after are served, that one never, and the error
// names file and position. Lengths and offsets are not among the fields, since the start notices
// those of a segment that small.
func TestDamageIsNotServed(t *testing.T) {
	for _, at := range []int64{17, 20, 21, 22, 27, 43, 57, 61, 80} {
		fsys, size := manySegments(t)
		flipAt(t, fsys, 6, size+at) // offsets 8 and 9
		d, l := openScrubbed(t, fsys, DirSettings{}, nil)
		first, next, err := offsetsAt(l, 6)
		require.NoError(t, err, at)
		require.Equal(t, [2]int64{6, 8}, [2]int64{first, next}, at)
		for range 2 {
			_, _, err = offsetsAt(l, 8)
			require.ErrorIs(t, err, ErrCorrupt, at)
			require.ErrorContains(t, err, fmt.Sprintf("%020d.log at position %d", 6, size), at)
		}
		first, _, err = offsetsAt(l, 10)
		require.NoError(t, err, at)
		require.Equal(t, int64(10), first, at)
		first, next, err = offsetsAt(l, 12)
		require.NoError(t, err)
		require.Equal(t, [2]int64{12, 18}, [2]int64{first, next})
		require.Equal(t, int64(1), d.Counters().Damages.Load(), at)
		mustAppend(t, l, batchOf(t, 1, 50, t0)) // the log goes on
		d.Abandon()
	}
}

// TestReadBytesAreLookedAtOnce: what this process has written is not read for its check, and the
// rest only once.
func TestReadBytesAreLookedAtOnce(t *testing.T) {
	mem, size := manySegments(t)
	fsys := vfs.NewFault(mem)
	d, l := openScrubbed(t, fsys, DirSettings{}, nil)
	defer d.Abandon()
	reads := func(at int64) int {
		before := fsys.Count(vfs.OpRead)
		_, _, err := offsetsAt(l, at)
		require.NoError(t, err)
		return fsys.Count(vfs.OpRead) - before
	}
	first := reads(0)
	require.Less(t, reads(0), first)
	require.Less(t, reads(2), first)
	mustAppend(t, l, batchOf(t, 2, 50, t0))
	flipAt(t, mem, 18, size+30) // would be noticed if it were looked at
	require.NoError(t, l.Sync(t.Context()))
	_, next, err := offsetsAt(l, 20)
	require.NoError(t, err)
	require.Equal(t, int64(22), next)
}

// TestScrubFindsWhatNobodyReads: a bit that rots while the broker runs is found by the scrub, some
// minutes after the start and then once in each interval; with rate 0 nothing is read.
func TestScrubFindsWhatNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, size := manySegments(t)
		set := DirSettings{ScrubBytesPerSecond: 1 << 20, ScrubInterval: time.Hour}
		d, l := openScrubbed(t, mem, set, time.Now)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- d.Run(ctx) }()
		_, next, err := offsetsAt(l, 6)
		require.NoError(t, err)
		require.Equal(t, int64(12), next)
		flipAt(t, mem, 6, size+30)
		time.Sleep(4 * time.Minute)
		require.Zero(t, d.Counters().ScrubbedBytes.Load())
		time.Sleep(2 * time.Minute)
		require.Equal(t, 9*size-size, d.Counters().ScrubbedBytes.Load(), "but for the damaged one")
		require.Equal(t, int64(1), d.Counters().Damages.Load())
		_, _, err = offsetsAt(l, 8)
		require.ErrorIs(t, err, ErrCorrupt, "though it was right when it was read first")
		time.Sleep(30 * time.Minute)
		require.Equal(t, 8*size, d.Counters().ScrubbedBytes.Load())
		time.Sleep(35 * time.Minute)
		require.Equal(t, 16*size, d.Counters().ScrubbedBytes.Load())
		d.Configure(DirSettings{})
		time.Sleep(48 * time.Hour)
		require.Equal(t, 16*size, d.Counters().ScrubbedBytes.Load())
		stop()
		require.NoError(t, <-done)
		d.Abandon()
	})
}
