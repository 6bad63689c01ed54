package raft_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/raft"
	"github.com/millstream-io/millstream/core/storage"
	"github.com/millstream-io/millstream/core/vfs"
)

// TestAnyOperationOfTheDiskMayFail has each operation of two lives of a node, with snapshots, fail
// once, in each way it can. For want of space or descriptors a start may be refused, and commands
// may wait; nothing ends the node. Anything else may end it, and nobody is told of a command that
// is not there after the power cut that follows.
func TestAnyOperationOfTheDiskMayFail(t *testing.T) {
	for _, c := range []vfs.Rule{
		{Op: vfs.OpWrite, Err: syscall.ENOSPC}, {Op: vfs.OpWrite, Err: syscall.ENOSPC, Partial: 30},
		{Op: vfs.OpCreate, Err: syscall.ENOSPC}, {Op: vfs.OpRename, Err: syscall.ENOSPC},
		{Op: vfs.OpCreate, Err: syscall.EMFILE}, {Op: vfs.OpOpen, Err: syscall.EMFILE},
		{Op: vfs.OpSyncDir, Err: syscall.EMFILE}, {Op: vfs.OpWrite, Err: syscall.EMFILE},
		{Op: vfs.OpTruncate, Err: syscall.EMFILE},
		{Op: vfs.OpWrite, Err: syscall.EIO}, {Op: vfs.OpWrite, Err: syscall.EIO, Partial: 30},
		{Op: vfs.OpSync, Err: syscall.EIO}, {Op: vfs.OpSync, Err: syscall.ENOSPC},
		{Op: vfs.OpSyncDir, Err: syscall.EIO}, {Op: vfs.OpTruncate, Err: syscall.EIO},
		{Op: vfs.OpRename, Err: syscall.EIO}, {Op: vfs.OpRemove, Err: syscall.EIO},
		{Op: vfs.OpRead, Err: syscall.EIO}, {Op: vfs.OpReadDir, Err: syscall.EIO},
		{Op: vfs.OpCreate, Err: syscall.EIO}, {Op: vfs.OpOpen, Err: syscall.EIO},
	} {
		t.Run(fmt.Sprint(c.Op, " ", c.Err, " ", c.Partial), func(t *testing.T) {
			more := true
			for c.Nth, c.Times = 1, 1; more; c.Nth++ {
				synctest.Test(t, func(t *testing.T) { more = failOnce(t, c) })
			}
			t.Logf("%d operations failed", c.Nth-2)
		})
	}
}

// failOnce lives two lives with one fault; false if there were not so many operations.
func failOnce(t *testing.T, rule vfs.Rule) bool {
	where := fmt.Sprintf("%s %v, number %d", rule.Op, rule.Err, rule.Nth)
	mem := vfs.NewMem()
	fault := vfs.NewFault(mem)
	fault.Inject(rule)
	passing := rule.Err != syscall.EIO && !(rule.Op == vfs.OpSync && rule.Err == syscall.ENOSPC)
	var told []string
	for life := range 3 {
		err := oneLife(t, fault, life, &told)
		if err != nil && passing && life > 0 {
			require.True(t, errors.Is(err, storage.ErrNoSpace) || errors.Is(err, storage.ErrNoFiles) ||
				errors.Is(err, rule.Err), "%s: %v", where, err)
			require.NotErrorIs(t, err, raft.ErrFailed, where)
			require.NotErrorIs(t, err, raft.ErrDamaged, where)
		}
	}
	for seed := range uint64(3) {
		n, err := open(t, mem.CrashClone(seed), func(o *raft.Options) { o.SnapshotEntries = 3 })
		require.NoError(t, err, "%s, power cut %d", where, seed)
		n.propose(t, "last")
		require.Subset(t, n.words.get(), told, where)
		require.IsIncreasing(t, n.words.get()[:len(n.words.get())-1], where)
		n.close(t)
	}
	return fault.Count(rule.Op) >= rule.Nth
}

// oneLife opens a node, proposes and closes as far as it gets, and notes what it was told is there.
func oneLife(t *testing.T, fsys vfs.FS, life int, told *[]string) error {
	n, err := open(t, fsys, func(o *raft.Options) { o.SnapshotEntries = 3 })
	if err != nil {
		return err
	}
	for i := range 8 {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		word := fmt.Sprintf("%d %d", life, i)
		_, failed := n.Propose(ctx, []byte(word))
		cancel()
		if failed == nil {
			*told = append(*told, word)
		}
		err = errors.Join(err, failed)
	}
	if failed := n.Node.Close(); failed != nil {
		return errors.Join(err, failed, n.dir.Close())
	}
	return errors.Join(err, n.dir.Close())
}
