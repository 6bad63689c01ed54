package storage

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/vfs"
	"github.com/millstream-io/millstream/core/vfs/vfstest"
)

const activeLog = "/data/orders-0/00000000000000000000.log"

// afterKill returns the disk of a process that was killed after ten batches of two records were
// appended and, if synced, the recovery point was written behind the sixth.
func afterKill(t *testing.T, synced bool) (*vfs.Mem, map[int64]string) {
	t.Helper()
	fsys := vfs.NewMem()
	d := mustOpen(t, fsys, "/data")
	l := mustCreate(t, d, DefaultConfig())
	for i := range 10 {
		mustAppend(t, l, batchOf(t, 2, 50, t0+int64(i*2)))
		if i == 5 && synced {
			require.NoError(t, l.Sync(t.Context()))
			require.NoError(t, d.saveCheckpoints())
		}
	}
	want := readAll(t, l, 1<<20)
	d.closeAll()
	require.NoError(t, d.lock.Close())
	return fsys, want
}

func editFile(t *testing.T, fsys vfs.FS, name string, edit func([]byte) []byte) {
	t.Helper()
	data, err := vfs.ReadFile(fsys, name)
	require.NoError(t, err)
	require.NoError(t, writeFile(fsys, name, edit(bytes.Clone(data))))
}

// reopened opens the disk, reads everything, and opens it once more: recovery is idempotent.
func reopened(t *testing.T, fsys *vfs.Mem) (map[int64]string, *Log) {
	t.Helper()
	var got map[int64]string
	for i := range 2 {
		d, err := OpenDir(t.Context(), DirOptions{FS: fsys, Path: "/data", NodeID: 1})
		require.NoError(t, err)
		l, ok := d.Log(tp0)
		require.True(t, ok)
		require.NoError(t, l.Err())
		again := readAll(t, l, 1<<20)
		if i > 0 {
			require.Equal(t, got, again)
			t.Cleanup(func() { d.closeAll(); _ = d.lock.Close() })
			return got, l
		}
		got = again
		d.closeAll()
		require.NoError(t, d.lock.Close())
	}
	return nil, nil
}

func TestRecoveryCutsTheTailAtTheFirstBadBatch(t *testing.T) {
	size := len(batchOf(t, 2, 50, t0))
	for name, tc := range map[string]struct {
		keep int // records
		edit func(b []byte) []byte
	}{
		"nothing wrong":     {20, func(b []byte) []byte { return b }},
		"last byte missing": {18, func(b []byte) []byte { return b[:len(b)-1] }},
		"header cut":        {18, func(b []byte) []byte { return b[:9*size+30] }},
		"at a boundary":     {18, func(b []byte) []byte { return b[:9*size] }},
		"zero tail":         {20, func(b []byte) []byte { return append(b, make([]byte, 5000)...) }},
		"zero tail, unaligned": {20, func(b []byte) []byte {
			return append(b, make([]byte, 7)...)
		}},
		"garbage tail": {20, func(b []byte) []byte { return append(b, "garbage after the end"...) }},
		"a stale batch behind the end": {20, func(b []byte) []byte {
			return append(b, b[3*size:4*size]...) // intact, but its offsets are in the past
		}},
		"bit in the 8th batch": {14, func(b []byte) []byte { b[7*size+100] ^= 4; return b }},
		"length too large":     {18, func(b []byte) []byte { b[9*size+8] = 0x7f; return b }},
		"length negative":      {18, func(b []byte) []byte { b[9*size+8] = 0xff; return b }},
		"length zero": {18, func(b []byte) []byte {
			copy(b[9*size+8:], []byte{0, 0, 0, 0})
			return b
		}},
		"magic": {18, func(b []byte) []byte { b[9*size+16] = 1; return b }},
		"offset jumps back, CRC good": {18, func(b []byte) []byte {
			b[9*size+7] = 3
			return b
		}},
		"empty file": {0, func(b []byte) []byte { return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			fsys, want := afterKill(t, false)
			editFile(t, fsys, activeLog, tc.edit)
			got, l := reopened(t, fsys)
			require.Len(t, got, tc.keep)
			for at, v := range got {
				require.Equal(t, want[at], v)
			}
			require.Equal(t, int64(tc.keep), l.SyncedOffset())
			res := mustAppend(t, l, batchOf(t, 1, 10, t0))
			require.Equal(t, int64(tc.keep), res.BaseOffset)
		})
	}
}

// What was synced does not tear. Cutting there would lose everything behind it, so the partition
// goes offline with its files untouched, and the others start.
func TestDamageBelowTheRecoveryPointTakesThePartitionOffline(t *testing.T) {
	fsys, _ := afterKill(t, true)
	editFile(t, fsys, activeLog, func(b []byte) []byte { b[200] ^= 1; return b })
	before := dirFiles(t, fsys, "/data/orders-0")
	for range 2 { // also the second time: the recovery point must stay
		d := mustOpen(t, fsys, "/data")
		l, ok := d.Log(tp0)
		require.True(t, ok)
		require.ErrorIs(t, l.Err(), ErrDamaged)
		require.ErrorContains(t, l.Err(), activeLog)
		_, err := l.Append(batchOf(t, 1, 1, t0), AppendOptions{})
		require.ErrorIs(t, err, ErrDamaged)
		_, err = l.Read(0, 1, 10, true)
		require.ErrorIs(t, err, ErrDamaged)
		_, err = d.Create(tp0, topicA, DefaultConfig())
		require.ErrorIs(t, err, ErrDamaged)
		_, err = d.Create(TopicPartition{"other", 0}, topicB, DefaultConfig())
		require.NoError(t, err)
		require.ErrorIs(t, d.Close(), ErrDamaged)
		after := dirFiles(t, fsys, "/data/orders-0")
		require.Equal(t, before[fileEpochs], after[fileEpochs])
		require.Equal(t, before["00000000000000000000.log"], after["00000000000000000000.log"])
	}
	// The way out that the error names.
	editFile(t, fsys, "/data/"+fileRecoveryPoints, func([]byte) []byte { return []byte("0\n0\n") })
	d := mustOpen(t, fsys, "/data")
	require.False(t, d.WasClean())
	l, _ := d.Log(tp0)
	require.NoError(t, l.Err())
	require.Equal(t, int64(2), l.EndOffset())
}

// A recovery point beyond the end is clamped (KAFKA-10101).
func TestRecoveryPointBeyondTheEnd(t *testing.T) {
	fsys, _ := afterKill(t, true)
	size := len(batchOf(t, 2, 50, t0))
	editFile(t, fsys, activeLog, func(b []byte) []byte { return b[:4*size] })
	got, l := reopened(t, fsys)
	require.Len(t, got, 8)
	require.Equal(t, int64(8), l.SyncedOffset())
}

// sideFileFaults break a file that can be made anew from the log.
var sideFileFaults = map[string]func(*testing.T, vfs.FS){
	"epochs garbage": func(t *testing.T, f vfs.FS) {
		editFile(t, f, "/data/orders-0/"+fileEpochs, func([]byte) []byte { return []byte("x") })
	},
	"epochs missing": func(t *testing.T, f vfs.FS) {
		require.NoError(t, f.Remove("/data/orders-0/"+fileEpochs))
	},
	"recovery points garbage": func(t *testing.T, f vfs.FS) {
		editFile(t, f, "/data/"+fileRecoveryPoints, func([]byte) []byte { return []byte{0, 0} })
	},
	"start offsets garbage": func(t *testing.T, f vfs.FS) {
		editFile(t, f, "/data/"+fileStartOffsets, func([]byte) []byte { return []byte("0\n5\n") })
	},
	"indexes missing": func(t *testing.T, f vfs.FS) {
		require.NoError(t, f.Remove(segmentFile("/data/orders-0", 0, suffixIndex)))
		require.NoError(t, f.Remove(segmentFile("/data/orders-0", 0, suffixTimeIndex)))
	},
	"time index of zeros": func(t *testing.T, f vfs.FS) { // KAFKA-10207
		editFile(t, f, segmentFile("/data/orders-0", 0, suffixTimeIndex),
			func(b []byte) []byte { return make([]byte, 120) })
	},
	"index of zeros": func(t *testing.T, f vfs.FS) {
		editFile(t, f, segmentFile("/data/orders-0", 0, suffixIndex),
			func(b []byte) []byte { return make([]byte, 80) })
	},
	"index cut": func(t *testing.T, f vfs.FS) {
		editFile(t, f, segmentFile("/data/orders-0", 0, suffixIndex),
			func(b []byte) []byte { return append(b, 1, 2, 3) })
	},
	"snapshots garbage": func(t *testing.T, f vfs.FS) {
		for base := range dirFiles(t, f, "/data/orders-0") {
			if at, suffix, ok := parseSegmentFile(base); ok && suffix == suffixSnapshot {
				editFile(t, f, segmentFile("/data/orders-0", at, suffixSnapshot),
					func(b []byte) []byte { b[3] ^= 9; return b })
			}
		}
	},
}

func TestBrokenSideFilesAreRebuilt(t *testing.T) {
	for name, edit := range sideFileFaults {
		for _, clean := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s clean=%v", name, clean), func(t *testing.T) {
				fsys := vfs.NewMem()
				d := mustOpen(t, fsys, "/data")
				l := mustCreate(t, d, smallConfig())
				for seq := range int32(40) {
					_, err := l.Append(producerBatch(t, 5, 0, seq, 1),
						AppendOptions{LeaderEpoch: seq / 15})
					require.NoError(t, err)
				}
				want, epochs := readAll(t, l, 1000), *l.epochs.Load()
				if clean {
					require.NoError(t, d.Close())
				} else {
					require.NoError(t, l.Sync(t.Context()))
					require.NoError(t, d.saveCheckpoints())
					d.closeAll()
					require.NoError(t, d.lock.Close())
				}
				edit(t, fsys)
				got, l := reopened(t, fsys)
				require.Equal(t, want, got)
				require.Equal(t, epochs, *l.epochs.Load())
				at, ok, err := l.OffsetForTimestamp(t0, farAway)
				require.NoError(t, err)
				require.True(t, ok)
				require.Zero(t, at.Offset)
				for seq := int32(35); seq < 40; seq++ {
					res, err := l.Append(producerBatch(t, 5, 0, seq, 1),
						AppendOptions{LeaderEpoch: 9})
					require.NoError(t, err)
					require.True(t, res.Duplicate)
				}
			})
		}
	}
}

func TestBrokenTopicIDTakesThePartitionOffline(t *testing.T) {
	vfstest.LeaveOut(t, "its topic id stays broken")
	fsys, _ := afterKill(t, false)
	editFile(t, fsys, "/data/orders-0/"+filePartitionMetadata,
		func([]byte) []byte { return []byte("version: 0\ntopic_id: ?") })
	d := mustOpen(t, fsys, "/data")
	l, _ := d.Log(tp0)
	require.ErrorIs(t, l.Err(), ErrBadFile)
	require.ErrorContains(t, l.Err(), filePartitionMetadata)
	require.ErrorContains(t, l.Err(), "write it anew with the topic's id")
}
