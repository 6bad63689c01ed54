package storage

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/vfs"
)

// killedSettled is Kafka's directory as a kill leaves it that never wrote a checkpoint, with all
// indexes of aborted transactions gone or broken.
func killedSettled(t *testing.T) *vfs.Mem {
	t.Helper()
	fsys, files := loadSettled(t)
	require.NoError(t, fsys.Remove("/data/"+fileCleanShutdown))
	require.NoError(t, fsys.Remove("/data/"+fileRecoveryPoints))
	for name := range sideFiles(files) {
		base, suffix, _ := parseSegmentFile(name)
		switch {
		case suffix != suffixTxnIndex:
		case base == 55:
			editFile(t, fsys, "/data/settled-0/"+name, func(b []byte) []byte { return b[:50] })
		default:
			require.NoError(t, fsys.Remove("/data/settled-0/"+name))
		}
	}
	syncTree(t, fsys, "/")
	return fsys
}

// syncTree makes everything in a directory durable.
func syncTree(t *testing.T, fsys vfs.FS, dir string) {
	t.Helper()
	entries, err := fsys.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		if e.IsDir() {
			syncTree(t, fsys, name)
			continue
		}
		f, err := fsys.OpenFile(name, vfs.ReadWrite, 0)
		require.NoError(t, err)
		require.NoError(t, errors.Join(f.Sync(), f.Close()))
	}
	require.NoError(t, fsys.SyncDir(dir))
}

// settledAborts are the aborted transactions of Kafka's directory, by hand from DumpLogSegments.
var settledAborts = []AbortedTransaction{{0, 0}, {1, 23}, {0, 32}, {1, 35}, {2, 39}, {0, 52},
	{0, 64}, {1, 67}, {1, 87}, {0, 96}, {2, 103}, {0, 116}, {1, 119}, {0, 128}, {1, 135}}

func requireSettled(t testing.TB, d *Dir, msg ...any) *Log {
	t.Helper()
	l, ok := d.Log(settled)
	require.True(t, ok, msg...)
	require.NoError(t, l.Err(), msg...)
	l.SetHighWatermark(l.EndOffset())
	require.Equal(t, int64(132), l.LastStableOffset(), msg...)
	require.Equal(t, settledAborts, aborted(t, l, 0, 140), msg...)
	return l
}

// What recovery found of aborted transactions stays in memory on a full disk, and no checkpoint
// says that it is stored before it is: a crash then starts from the log again.
func TestAbortedTransactionsOnAFullDisk(t *testing.T) {
	mem := killedSettled(t)
	fault := vfs.NewFault(mem)
	fault.SetSpace(0)
	d := mustOpen(t, fault, "/data")
	l := requireSettled(t, d)
	require.Less(t, l.SyncedOffset(), l.EndOffset())
	require.ErrorIs(t, l.Sync(t.Context()), ErrNoSpace)
	require.NoError(t, l.Err(), "the next sync may work")

	crashed := mem.CrashClone(1)
	again := mustOpen(t, crashed, "/data")
	requireSettled(t, again)

	fault.SetSpace(-1)
	require.NoError(t, l.Sync(t.Context()))
	require.Equal(t, l.EndOffset(), l.SyncedOffset())
	requireSettled(t, d)
	require.NoError(t, d.saveCheckpoints())
	requireSettled(t, mustOpen(t, mem.CrashClone(2), "/data"))
	require.NoError(t, d.Close())
}

// A segment may have been active, its indexes in memory, when the offset that it ends at became the
// recovery point. After a power cut they must not be believed, whether or not the list of aborted
// transactions, which directories of Kafka and of earlier builds do not have, tells of it.
func TestSegmentThatEndsAtTheRecoveryPointIsReadAgain(t *testing.T) {
	mem := vfs.NewMem()
	d := mustOpen(t, mem, "/data")
	l := mustCreate(t, d, DefaultConfig())
	mustTxnAppend(t, l, 1, 0, 0, 1)
	mustEndTxn(t, l, abort, 1, 0)
	require.NoError(t, l.Sync(t.Context()))
	require.NoError(t, d.saveCheckpoints())
	l.mu.Lock()
	require.NoError(t, l.rollLocked(l.EndOffset(), "test", t0))
	l.mu.Unlock()
	for seed := range uint64(500) {
		for _, listed := range []bool{true, false} {
			crashed := mem.CrashClone(seed)
			if !listed {
				require.NoError(t, crashed.Remove("/data/"+fileAbortsList))
			}
			d := mustOpen(t, crashed, "/data")
			l, _ := d.Log(tp0)
			require.NoError(t, l.Err())
			require.Equal(t, []AbortedTransaction{{1, 0}}, aborted(t, l, 0, 2),
				"seed %d, listed %t", seed, listed)
		}
	}
}

// Every single fault of the disk while a log with broken indexes is opened leaves either an error
// or the right list, and the next start has it.
func TestEveryFaultWhileTransactionsAreRecovered(t *testing.T) {
	for _, fsOp := range []vfs.Op{vfs.OpOpen, vfs.OpCreate, vfs.OpRead, vfs.OpSync, vfs.OpSyncDir,
		vfs.OpRename, vfs.OpTruncate, vfs.OpWrite} {
		for nth := 1; ; nth++ {
			mem := killedSettled(t)
			fault := vfs.NewFault(mem)
			remove := fault.Inject(vfs.Rule{Op: fsOp, Nth: nth, Times: 1, Err: syscall.EIO})
			d, err := OpenDir(t.Context(), DirOptions{FS: fault, Path: "/data", NodeID: 1})
			hit := fault.Count(fsOp) >= nth
			remove()
			if err == nil {
				if l, ok := d.Log(settled); ok && l.Err() == nil {
					requireSettled(t, d, "%s %d", fsOp, nth)
				}
				_ = d.Close()
				d.closeAll()
			}
			d = mustOpen(t, mem, "/data")
			requireSettled(t, d, "%s %d", fsOp, nth)
			if !hit {
				require.Greater(t, nth, 1, "%s never happens", fsOp)
				break
			}
		}
	}
}
