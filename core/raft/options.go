package raft

import (
	"errors"
	"io"
	"log/slog"
	"time"

	"crypto/rand"

	"github.com/millstream-io/millstream/core/storage"
	"github.com/millstream-io/millstream/core/vfs"
)

const (
	// MaxCommand is the largest command in bytes: the state machine is small, so a larger one is a
	// mistake, and it must fit into a segment.
	MaxCommand = 16 << 20
	// maxQueue bounds the proposals that wait for the loop; more wait in Propose.
	maxQueue = 64
	// electionTicks and heartbeatTicks are the etcd project's advice of 10 to 1.
	electionTicks  = 10
	heartbeatTicks = 1
)

// StateMachine is what the log drives. Restore and Apply are called by one goroutine at a time, in
// log order; an error of either ends the node.
type StateMachine interface {
	// Restore replaces the state with that of a snapshot, the state after index.
	Restore(index uint64, snapshot []byte) error
	// Apply applies a committed command. It must not keep it.
	Apply(index uint64, command []byte) error
	// Snapshot returns a function that encodes the present state. The call must be quick; the
	// function runs in another goroutine while Apply goes on.
	Snapshot() func() ([]byte, error)
	// LeaderChanged tells who leads: a node id, 0 if nobody is known to.
	LeaderChanged(id uint64)
}

// Options are the parts a node is made of.
type Options struct {
	FS           vfs.FS       // default vfs.OS()
	Dir          string       // directory of quorum-state and snapshots, made if missing
	Log          *storage.Log // of the entries, see OpenLog
	ID           uint64       // of this node, not 0, the same for ever in this Dir
	StateMachine StateMachine
	Logger       *slog.Logger     // default: discard
	Now          func() time.Time // stamps entries, decides nothing; default time.Now
	Rand         io.Reader        // marks proposals; default crypto/rand
	// Ticks drives elections; default a ticker of TickInterval, 100 ms.
	Ticks        <-chan time.Time
	TickInterval time.Duration
	// SnapshotEntries and SnapshotBytes are how much is applied until the next snapshot; default
	// 10,000 and 8 MiB, which keeps a restart below a second.
	SnapshotEntries uint64
	SnapshotBytes   int64
}

func (o Options) withDefaults() Options {
	if o.FS == nil {
		o.FS = vfs.OS()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	if o.TickInterval == 0 {
		o.TickInterval = 100 * time.Millisecond
	}
	if o.SnapshotEntries == 0 {
		o.SnapshotEntries = 10_000
	}
	if o.SnapshotBytes == 0 {
		o.SnapshotBytes = 8 << 20
	}
	return o
}

func (o Options) validate() error {
	var errs []error
	if o.Dir == "" {
		errs = append(errs, errors.New("raft options: Dir is empty"))
	}
	if o.Log == nil {
		errs = append(errs, errors.New("raft options: Log is nil"))
	}
	if o.ID == 0 {
		errs = append(errs, errors.New("raft options: ID is 0"))
	}
	if o.StateMachine == nil {
		errs = append(errs, errors.New("raft options: StateMachine is nil"))
	}
	return errors.Join(errs...)
}
