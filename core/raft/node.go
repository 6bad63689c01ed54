package raft

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millstream-io/millstream/core/record"
	etcdraft "go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// markSize is what is put in front of a command in the log: the process that proposed it (8 random
// bytes) and its number there, by which the proposer finds it again.
const markSize = 16

// Node is one member of the raft group.
type Node struct {
	opts  Options
	log   *slog.Logger
	store *store
	raw   *etcdraft.RawNode // owned by the loop

	proposals chan *proposal
	snapshots chan snapshotDone // from the encoding goroutine to the loop
	stop      chan struct{}     // closed by Close
	done      chan struct{}     // closed when the loop has ended
	stopOnce  sync.Once
	wg        sync.WaitGroup
	err       atomic.Pointer[error] // why the loop ended by itself
	leader    atomic.Uint64         // node id, 0 = unknown
	term      atomic.Uint64         // in which leader was found
	applied   atomic.Uint64         // index
	committed atomic.Uint64         // index
	count     Counters

	loop loopState
}

// proposal is a command on its way.
type proposal struct {
	command []byte
	result  chan proposalResult // of capacity 1
}

type proposalResult struct {
	index uint64
	err   error
}

// Open reads the node's state, restores the state machine from the newest snapshot, and starts the
// node. Entries after the snapshot are applied once they are known to be committed, that is after
// the first election; Propose waits for that by itself.
func Open(opts Options) (*Node, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	n := &Node{
		opts:      opts,
		log:       opts.Logger,
		proposals: make(chan *proposal, maxQueue),
		snapshots: make(chan snapshotDone, 1),
		stop:      make(chan struct{}),
		done:      make(chan struct{}),
	}
	if err := n.load(); err != nil {
		return nil, fmt.Errorf("open raft node %d in %s: %w", opts.ID, opts.Dir, err)
	}
	n.wg.Go(n.run)
	return n, nil
}

// load reads everything from the disk and prepares the algorithm.
func (n *Node) load() error {
	fsys, dir := n.opts.FS, n.opts.Dir
	if err := n.opts.Log.Err(); err != nil {
		return err // it looks empty, which is no reason to tell of damage
	}
	if err := fsys.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	if err := fsys.SyncDir(filepath.Dir(dir)); err != nil {
		return fmt.Errorf("sync parent directory: %w", err)
	}
	state, known, err := loadQuorumState(fsys, dir)
	if err != nil {
		return err
	}
	snap, hasSnap, err := loadSnapshot(fsys, dir, func(id snapshotID, err error) {
		n.log.Warn("raft snapshot cannot be read, trying an older one",
			"index", id.index, "error", err)
	})
	if err != nil {
		return err
	}
	if err := n.checkState(&state, known, snap); err != nil {
		return err
	}
	return n.restore(state, snap, hasSnap)
}

// checkState refuses state that does not fit together, and fills that of a new node.
func (n *Node) checkState(state *quorumState, known bool, snap snapshot) error {
	start, end := n.opts.Log.StartOffset(), n.opts.Log.EndOffset()
	if !known {
		if snap.index != 0 || end != 0 {
			return fmt.Errorf("%s is missing beside a log of %d entries: %w",
				quorumStateName, end, ErrDamaged)
		}
		*state = quorumState{ID: n.opts.ID, Voters: []uint64{n.opts.ID}} // kept with its first vote
		return nil
	}
	switch {
	case state.ID != n.opts.ID:
		return fmt.Errorf("the directory belongs to node %d", state.ID)
	case len(state.Voters) != 1 || state.Voters[0] != n.opts.ID:
		return fmt.Errorf("voters are %v, only this node alone is supported: %w",
			state.Voters, ErrUnsupported)
	case uint64(start) > snap.index:
		return fmt.Errorf("the log begins at entry %d, the snapshot ends at %d: %w",
			start+1, snap.index, ErrDamaged)
	case uint64(end) < max(state.Commit, snap.index):
		return fmt.Errorf("the log ends at entry %d, %d is committed: %w",
			end, max(state.Commit, snap.index), ErrDamaged)
	}
	return nil
}

// restore fills the storage in memory, the state machine and the algorithm.
func (n *Node) restore(state quorumState, snap snapshot, hasSnap bool) error {
	entries, err := readEntries(n.opts.Log, snap.index+1)
	if err != nil {
		return err
	}
	n.store = &store{
		MemoryStorage: etcdraft.NewMemoryStorage(),
		log:           n.opts.Log,
		voters:        state.Voters,
		now:           n.opts.Now,
		builder:       record.NewBuilder(record.BuilderOptions{}),
	}
	if hasSnap {
		if err := n.store.ApplySnapshot(snap.proto()); err != nil {
			return fmt.Errorf("take snapshot %d: %w", snap.index, err)
		}
		if err := n.opts.StateMachine.Restore(snap.index, snap.data); err != nil {
			return fmt.Errorf("restore snapshot %d: %w", snap.index, err)
		}
		n.applied.Store(snap.index)
	}
	term := state.Term
	if err := checkEntries(entries, snap.term); err != nil {
		return err
	}
	if len(entries) > 0 {
		if err := n.store.Append(entries); err != nil {
			return fmt.Errorf("keep raft entries: %w", err)
		}
		term = max(term, entries[len(entries)-1].GetTerm())
	}
	hard := &raftpb.HardState{
		Term: proto.Uint64(term), Vote: proto.Uint64(state.Vote),
		Commit: proto.Uint64(max(state.Commit, snap.index)),
	}
	if term != state.Term {
		hard.Vote = proto.Uint64(0)
	}
	if err := n.store.SetHardState(hard); err != nil {
		return fmt.Errorf("keep term and vote: %w", err)
	}
	return n.prepare(state, snap)
}

// checkEntries makes sure that terms never fall, which the algorithm would answer with a panic.
func checkEntries(entries []*raftpb.Entry, term uint64) error {
	for _, e := range entries {
		if e.GetTerm() < term {
			return fmt.Errorf("raft entry %d has term %d after %d: %w",
				e.GetIndex(), e.GetTerm(), term, ErrDamaged)
		}
		term = e.GetTerm()
	}
	return nil
}

// prepare makes the algorithm and the loop's state.
func (n *Node) prepare(state quorumState, snap snapshot) error {
	raw, err := etcdraft.NewRawNode(&etcdraft.Config{
		ID:                        n.opts.ID,
		ElectionTick:              electionTicks,
		HeartbeatTick:             heartbeatTicks,
		Storage:                   n.store,
		Applied:                   snap.index,
		MaxSizePerMsg:             1 << 20,
		MaxCommittedSizePerReady:  MaxCommand,
		MaxUncommittedEntriesSize: 4 * MaxCommand,
		MaxInflightMsgs:           64,
		CheckQuorum:               true,
		PreVote:                   true,
		Logger:                    raftLogger{n.log},
	})
	if err != nil {
		return fmt.Errorf("start raft: %w", err)
	}
	n.raw = raw
	n.loop.saved = state
	n.loop.waiting = make(map[uint64]*proposal)
	if _, err := io.ReadFull(n.opts.Rand, n.loop.process[:]); err != nil {
		return fmt.Errorf("draw the process mark: %w", err)
	}
	if err := raw.Campaign(); err != nil { // alone: no need to wait for an election timeout
		return fmt.Errorf("campaign: %w", err)
	}
	return nil
}

func (s snapshot) proto() *raftpb.Snapshot {
	return &raftpb.Snapshot{Data: s.data, Metadata: &raftpb.SnapshotMetadata{
		Index: proto.Uint64(s.index), Term: proto.Uint64(s.term),
		ConfState: &raftpb.ConfState{Voters: s.voters},
	}}
}

// Propose puts a command into the log and returns its index once it was applied on this node.
// ErrNotLeader: it was not taken. ErrOutcomeUnknown, ErrFailed, ErrClosed and an error of ctx: it
// may or may not be applied later, so commands must stand being repeated.
func (n *Node) Propose(ctx context.Context, command []byte) (uint64, error) {
	if len(command) > MaxCommand {
		return 0, fmt.Errorf("command of %d bytes, limit %d: %w",
			len(command), MaxCommand, ErrTooLarge)
	}
	p := &proposal{command: command, result: make(chan proposalResult, 1)}
	began := time.Now()
	select {
	case n.proposals <- p:
	case <-n.done:
		return 0, n.endError()
	case <-ctx.Done():
		return 0, fmt.Errorf("propose a command: %w", ctx.Err())
	}
	select {
	case r := <-p.result:
		if r.err == nil {
			n.count.Proposals.Observe(time.Since(began))
		}
		return r.index, r.err
	case <-n.done:
		select {
		case r := <-p.result: // both were ready
			return r.index, r.err
		default:
			return 0, n.endError()
		}
	case <-ctx.Done():
		return 0, fmt.Errorf("wait for a command: %w", ctx.Err())
	}
}

// Leader returns the id of the node that leads, 0 if none is known.
func (n *Node) Leader() uint64 { return n.leader.Load() }

// Term returns the term of the leader that Leader returns.
func (n *Node) Term() uint64 { return n.term.Load() }

// Applied returns the index of the last entry the state machine has.
func (n *Node) Applied() uint64 { return n.applied.Load() }

// Done is closed when the node has ended, by Close or by a failure (Err).
func (n *Node) Done() <-chan struct{} { return n.done }

// Err returns why the node ended by itself, nil if it did not. It wraps ErrFailed.
func (n *Node) Err() error {
	if err := n.err.Load(); err != nil {
		return *err
	}
	return nil
}

// Close stops the node and waits for its goroutines. It returns Err. A second call does no more.
func (n *Node) Close() error {
	n.stopOnce.Do(func() { close(n.stop) })
	n.wg.Wait()
	return n.Err()
}

func (n *Node) endError() error {
	if err := n.Err(); err != nil {
		return err
	}
	return ErrClosed
}

// fail remembers the first error that ends the node.
func (n *Node) fail(err error) {
	err = fmt.Errorf("%w: %w", ErrFailed, err)
	if n.err.CompareAndSwap(nil, &err) {
		n.log.Error("raft node has failed", "error", err)
	}
}

// mark puts process and number in front of a command.
func mark(process [8]byte, number uint64, command []byte) []byte {
	data := make([]byte, 0, markSize+len(command))
	data = append(data, process[:]...)
	data = binary.BigEndian.AppendUint64(data, number)
	return append(data, command...)
}

var errNoMark = errors.New("entry is shorter than its mark")

// unmark splits an entry's data.
func unmark(data []byte) (process [8]byte, number uint64, command []byte, err error) {
	if len(data) < markSize {
		return process, 0, nil, errNoMark
	}
	copy(process[:], data)
	return process, binary.BigEndian.Uint64(data[8:]), data[markSize:], nil
}
