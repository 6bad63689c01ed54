package raft

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/millstream-io/millstream/core/storage"
	"github.com/millstream-io/millstream/core/vfs"
	"go.etcd.io/raft/v3/raftpb"
)

// reservedSpace is left on the disk when commands are refused, so that what was taken before, and
// the files around it, still fit.
const reservedSpace = 1 << 20

// noSpace reports whether err is a full disk, or no descriptor left, and nothing worse: after a
// failed sync the directory has failed, whatever the reason was.
func noSpace(err error) bool {
	return (errors.Is(err, storage.ErrNoSpace) || errors.Is(err, storage.ErrNoFiles) ||
		errors.Is(err, syscall.ENOSPC) || vfs.FileLimit(err)) &&
		!errors.Is(err, storage.ErrDirFailed) && !errors.Is(err, vfs.ErrUnsynced)
}

// checkSpace refuses a command for which there is no room, before the algorithm has taken it.
func (n *Node) checkSpace(size int) error {
	free, err := n.opts.FS.Free(n.opts.Dir)
	if err != nil || free >= uint64(size)+reservedSpace {
		return nil // where it cannot be known, the write tells
	}
	return fmt.Errorf("propose a command of %d bytes with %d bytes free: %w", size, free, ErrNoSpace)
}

// append makes entries durable; see patiently. Nothing of a refused write is in the log, so that
// trying again is safe.
func (n *Node) append(entries []*raftpb.Entry) error {
	return n.patiently(func() error { return n.store.append(entries) })
}

// patiently does what the algorithm counts on already: on a full disk it waits, and tries again
// with each tick, until there is space or Close (ErrClosed). No sync has failed then.
func (n *Node) patiently(write func() error) error {
	for warned := false; ; warned = true {
		err := write()
		if !noSpace(err) {
			return err
		}
		if !warned {
			n.log.Error("no space or no descriptor left, metadata changes wait", "error", err)
		}
		select {
		case <-n.loop.ticks:
		case <-n.stop:
			return ErrClosed
		}
	}
}
