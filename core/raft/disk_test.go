package raft_test

import (
	"context"
	"fmt"
	"runtime"
	"syscall"
	"testing"

	"github.com/millstream-io/millstream/core/raft"
	"github.com/millstream-io/millstream/core/vfs"
	"github.com/stretchr/testify/require"
)

func TestDamagedNewestSnapshotFallsBackToTheOther(t *testing.T) {
	mem := vfs.NewMem()
	n := mustOpen(t, mem, func(o *raft.Options) { o.SnapshotEntries = 10 })
	var want []string
	log, _ := n.dir.Log(raft.LogPartition)
	for i := 0; log.StartOffset() == 0; i++ { // until the second snapshot is made
		want = append(want, fmt.Sprint(i))
		n.propose(t, want[i])
	}
	n.close(t)
	names := snapshots(t, mem)
	require.Len(t, names, 2)
	flipByte(t, mem, "/data/raft/"+names[1], 80)

	n = mustOpen(t, mem, nil)
	n.propose(t, "x")
	require.Equal(t, append(want, "x"), n.words.get())
	n.close(t)

	for _, name := range snapshots(t, mem) {
		if name != names[1] {
			flipByte(t, mem, "/data/raft/"+name, 80)
		}
	}
	_, err := open(t, mem, nil)
	require.ErrorIs(t, err, raft.ErrDamaged)
}

func TestDamagedOnlySnapshotFallsBackToTheLog(t *testing.T) {
	mem := vfs.NewMem()
	n := mustOpen(t, mem, func(o *raft.Options) { o.SnapshotEntries = 10 })
	var want []string
	for i := range 12 {
		want = append(want, fmt.Sprint(i))
		n.propose(t, want[i])
	}
	n.close(t)
	names := snapshots(t, mem)
	require.Len(t, names, 1)
	flipByte(t, mem, "/data/raft/"+names[0], 80)
	n = mustOpen(t, mem, nil)
	n.propose(t, "x")
	require.Equal(t, append(want, "x"), n.words.get())
	n.close(t)
}

func flipByte(t *testing.T, fsys vfs.FS, name string, at int64) {
	t.Helper()
	f, err := fsys.OpenFile(name, vfs.ReadWrite, 0)
	require.NoError(t, err)
	b := make([]byte, 1)
	_, err = f.ReadAt(b, at)
	require.NoError(t, err)
	b[0] ^= 0x40
	_, err = f.WriteAt(b, at)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
}

func TestDamagedStateIsRefused(t *testing.T) {
	build := func() *vfs.Mem {
		mem := vfs.NewMem()
		n := mustOpen(t, mem, nil)
		for i := range 5 {
			n.propose(t, fmt.Sprint(i))
		}
		n.close(t)
		return mem
	}
	t.Run("quorum state flipped", func(t *testing.T) {
		mem := build()
		flipByte(t, mem, "/data/raft/quorum-state", 70)
		_, err := open(t, mem, nil)
		require.ErrorIs(t, err, raft.ErrDamaged)
	})
	t.Run("quorum state lost", func(t *testing.T) {
		mem := build()
		require.NoError(t, mem.Remove("/data/raft/quorum-state"))
		_, err := open(t, mem, nil)
		require.ErrorIs(t, err, raft.ErrDamaged)
		require.ErrorContains(t, err, "quorum-state is missing beside a log of 6 entries")
	})
	t.Run("log lost", func(t *testing.T) {
		mem := build()
		require.NoError(t, mem.RemoveAll("/data/__cluster_metadata-0"))
		_, err := open(t, mem, nil)
		require.ErrorIs(t, err, raft.ErrDamaged)
		require.ErrorContains(t, err, "the log ends at entry 0, ")
	})
	t.Run("log lost behind a snapshot", func(t *testing.T) {
		mem := vfs.NewMem()
		n := mustOpen(t, mem, func(o *raft.Options) { o.SnapshotEntries = 2 })
		for i := range 9 {
			n.propose(t, fmt.Sprint(i))
		}
		n.close(t)
		require.NoError(t, mem.RemoveAll("/data/__cluster_metadata-0"))
		_, err := open(t, mem, nil)
		require.ErrorIs(t, err, raft.ErrDamaged)
	})
	t.Run("other node", func(t *testing.T) {
		_, err := open(t, build(), func(o *raft.Options) { o.ID = 2 })
		require.ErrorContains(t, err, "the directory belongs to node 1")
	})
	t.Run("any byte of the log flipped", func(t *testing.T) {
		mem := build()
		const name = "/data/__cluster_metadata-0/00000000000000000000.log"
		info, err := mem.Stat(name)
		require.NoError(t, err)
		require.Greater(t, info.Size(), int64(400))
		for at := range info.Size() {
			flipByte(t, mem, name, at)
			_, err := open(t, mem.CrashClone(1), nil)
			require.Error(t, err, at)
			flipByte(t, mem, name, at)
		}
		mustOpen(t, mem, nil).close(t)
	})
}

// A write that failed must end the node: going on would answer for entries that are not there.
func TestDiskErrorEndsTheNode(t *testing.T) {
	for _, c := range []struct {
		op  vfs.Op
		err error
	}{
		{vfs.OpWrite, syscall.EIO}, {vfs.OpSync, syscall.EIO},
		{vfs.OpSync, syscall.ENOSPC}, // a sync is never tried again, whatever it failed of
	} {
		t.Run(fmt.Sprint(c.op, " ", c.err), func(t *testing.T) {
			mem := vfs.NewMem()
			fault := vfs.NewFault(mem)
			n := mustOpen(t, fault, nil)
			n.propose(t, "kept")
			remove := fault.Inject(vfs.Rule{Op: c.op, Path: ".log", Err: c.err})
			_, err := n.Propose(t.Context(), []byte("lost"))
			require.ErrorIs(t, err, raft.ErrFailed)
			<-n.Done()
			require.ErrorIs(t, n.Err(), raft.ErrFailed)
			remove()
			_, err = n.Propose(t.Context(), []byte("more"))
			require.ErrorIs(t, err, raft.ErrFailed)
			require.Equal(t, []string{"kept"}, n.words.get())
			require.ErrorIs(t, n.Close(), raft.ErrFailed)
			n.dir.Close()

			again := mustOpen(t, mem.CrashClone(1), nil)
			again.propose(t, "new")
			require.Contains(t, [][]string{{"kept", "new"}, {"kept", "lost", "new"}},
				again.words.get())
			again.close(t)
		})
	}
}

// A full disk refuses commands and ends nothing: once there is space, all goes on.
func TestDiskFullRefusesAndRecovers(t *testing.T) {
	mem := vfs.NewMem()
	fault := vfs.NewFault(mem)
	n := mustOpen(t, fault, func(o *raft.Options) { o.SnapshotEntries = 3 })
	n.propose(t, "a")
	fault.SetSpace(1000)
	_, err := n.Propose(t.Context(), []byte("b"))
	require.ErrorIs(t, err, raft.ErrNoSpace)
	fault.SetSpace(-1)
	n.propose(t, "c")

	// The disk fills up behind the check: the command waits and is done when there is space.
	remove := fault.Inject(vfs.Rule{Op: vfs.OpWrite, Path: ".log", Nth: 1, Times: 2,
		Err: syscall.ENOSPC, Partial: 20})
	n.propose(t, "d")
	remove()
	require.Equal(t, []string{"a", "c", "d"}, n.words.get())

	// A snapshot can wait too.
	remove = fault.Inject(vfs.Rule{Op: vfs.OpWrite, Path: "snapshot-", Err: syscall.ENOSPC})
	for range 20 {
		n.propose(t, "x")
	}
	remove()
	count := 23
	for ; len(snapshots(t, mem)) < 2; count++ {
		n.propose(t, "y")
	}
	n.close(t)

	n = mustOpen(t, mem, nil)
	n.propose(t, "z")
	require.Len(t, n.words.get(), count+1)
	n.close(t)
}

// Close must not wait for space.
func TestCloseWhileTheDiskIsFull(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem())
	n := mustOpen(t, fault, nil)
	n.propose(t, "a")
	fault.Inject(vfs.Rule{Op: vfs.OpWrite, Path: ".log", Err: syscall.ENOSPC})
	result := make(chan error, 1)
	go func() {
		_, err := n.Propose(context.Background(), []byte("b"))
		result <- err
	}()
	for before := fault.Count(vfs.OpWrite); fault.Count(vfs.OpWrite) == before; {
		runtime.Gosched()
	}
	require.NoError(t, n.Node.Close())
	require.ErrorIs(t, <-result, raft.ErrClosed)
	n.dir.Close()
}

func TestFailedSnapshotEndsTheNode(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem())
	n := mustOpen(t, fault, func(o *raft.Options) { o.SnapshotEntries = 2 })
	fault.Inject(vfs.Rule{Op: vfs.OpSync, Path: "snapshot-", Err: syscall.EIO})
	for range 2 {
		n.propose(t, "x")
	}
	<-n.Done()
	require.ErrorIs(t, n.Close(), syscall.EIO)
	n.dir.Close()
}
