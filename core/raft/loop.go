package raft

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	etcdraft "go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// loopState is owned by the loop's goroutine.
type loopState struct {
	ticks   <-chan time.Time
	process [8]byte // marks this process' proposals
	number  uint64  // of the last proposal
	waiting map[uint64]*proposal
	early   []*proposal // came before the first election was over
	ready   bool        // everything committed before this start is applied, or another leads
	saved   quorumState // on the disk

	snapshotting  bool
	entriesSince  uint64 // applied since the newest snapshot was begun
	bytesSince    int64
	appliedTerm   uint64
	leadingInTerm uint64 // the term this node leads in, 0 if it does not
}

// snapshotDone tells the loop that a snapshot is on the disk, or why not.
type snapshotDone struct {
	id  snapshotID
	err error
}

// run is the owner of the algorithm. It ends at Close or at the first error.
func (n *Node) run() {
	defer close(n.done)
	ticks := n.opts.Ticks
	if ticks == nil {
		ticker := time.NewTicker(n.opts.TickInterval)
		defer ticker.Stop()
		ticks = ticker.C
	}
	n.loop.ticks = ticks
	for {
		for n.raw.HasReady() {
			if err := n.handleReady(n.raw.Ready()); err != nil {
				if !errors.Is(err, ErrClosed) {
					n.fail(err)
				}
				return
			}
		}
		select {
		case <-ticks:
			n.raw.Tick()
		case p := <-n.proposals:
			n.takeProposals(p)
		case d := <-n.snapshots:
			if err := n.snapshotWritten(d); err != nil {
				n.fail(err)
				return
			}
		case <-n.stop:
			if err := n.finish(); err != nil {
				n.fail(err)
			}
			return
		}
	}
}

// finish leaves the disk in order: the snapshot on its way is waited for, and the commit index is
// written down, so that a log that is lost meanwhile is noticed.
func (n *Node) finish() error {
	if n.loop.snapshotting {
		if err := n.snapshotWritten(<-n.snapshots); err != nil {
			return err
		}
	}
	state := n.loop.saved
	state.Commit = n.applied.Load()
	if err := saveQuorumState(n.opts.FS, n.opts.Dir, state); err != nil && !noSpace(err) {
		return err
	}
	return nil
}

// takeProposals hands over a proposal and all that wait behind it, so that they share one sync.
func (n *Node) takeProposals(p *proposal) {
	for {
		n.propose(p)
		select {
		case p = <-n.proposals:
		default:
			return
		}
	}
}

func (n *Node) propose(p *proposal) {
	if !n.loop.ready {
		if len(n.loop.early) < maxQueue {
			n.loop.early = append(n.loop.early, p)
		} else {
			p.result <- proposalResult{err: ErrNotLeader}
		}
		return
	}
	if err := n.checkSpace(len(p.command)); err != nil {
		p.result <- proposalResult{err: err}
		return
	}
	n.loop.number++
	err := n.raw.Propose(mark(n.loop.process, n.loop.number, p.command))
	if errors.Is(err, etcdraft.ErrProposalDropped) {
		err = ErrNotLeader
	}
	if err != nil {
		p.result <- proposalResult{err: fmt.Errorf("propose a command: %w", err)}
		return
	}
	n.loop.waiting[n.loop.number] = p
}

// handleReady does what the algorithm asks for, in the order that makes it safe: disk, then state
// machine, then Advance.
func (n *Node) handleReady(rd etcdraft.Ready) error {
	if rd.SoftState != nil {
		n.leaderChanged(rd.SoftState)
	}
	if !etcdraft.IsEmptyHardState(rd.HardState) {
		if err := n.saveHardState(rd.HardState); err != nil {
			return err
		}
	}
	if len(rd.Entries) > 0 {
		if err := n.append(rd.Entries); err != nil {
			return err
		}
	}
	if !etcdraft.IsEmptySnap(rd.Snapshot) || len(rd.Messages) > 0 {
		return fmt.Errorf("a message of another raft node: %w", ErrUnsupported)
	}
	for _, e := range rd.CommittedEntries {
		if err := n.apply(e); err != nil {
			return err
		}
	}
	n.raw.Advance(rd)
	return n.maybeSnapshot()
}

func (n *Node) leaderChanged(s *etcdraft.SoftState) {
	if s.Lead != 0 && s.Lead != n.leader.Load() {
		n.count.Elections.Add(1)
	}
	n.leader.Store(s.Lead)
	n.term.Store(n.raw.BasicStatus().GetTerm())
	level := slog.LevelInfo
	if s.Lead == 0 { // for the time of an election
		level = slog.LevelDebug
	}
	// Raft's ids are those of nodes plus one.
	n.log.Log(context.Background(), level, "raft leader changed", "leader", int64(s.Lead)-1,
		"term", n.raw.BasicStatus().GetTerm())
	leads := s.RaftState == etcdraft.StateLeader
	if leads {
		n.loop.leadingInTerm = n.raw.BasicStatus().GetTerm()
	} else {
		n.loop.leadingInTerm = 0
		for number, p := range n.loop.waiting {
			delete(n.loop.waiting, number)
			p.result <- proposalResult{err: ErrOutcomeUnknown}
		}
	}
	n.opts.StateMachine.LeaderChanged(s.Lead)
	if s.Lead != 0 && !leads {
		n.becomeReady() // commands are refused with ErrNotLeader from here on
	}
}

// saveHardState makes term and vote durable. The commit index moves with every entry and can be
// found again, so it alone is no reason to write.
func (n *Node) saveHardState(h *raftpb.HardState) error {
	next := n.loop.saved
	next.Term, next.Vote, next.Commit = h.GetTerm(), h.GetVote(), h.GetCommit()
	if next.Term != n.loop.saved.Term || next.Vote != n.loop.saved.Vote {
		// Entries up to the commit index are on the disk: they were in an earlier Ready.
		next.Commit = min(next.Commit, uint64(n.opts.Log.EndOffset()))
		if err := n.patiently(func() error {
			return saveQuorumState(n.opts.FS, n.opts.Dir, next)
		}); err != nil {
			return err
		}
		n.loop.saved = next
	}
	n.committed.Store(h.GetCommit())
	return n.store.SetHardState(h)
}

// apply gives one committed entry to the state machine and its proposer the index.
func (n *Node) apply(e *raftpb.Entry) error {
	index := e.GetIndex()
	n.loop.appliedTerm = e.GetTerm()
	if len(e.Data) == 0 { // the first entry of a leader's term
		n.applied.Store(index)
		if e.GetTerm() == n.loop.leadingInTerm {
			n.becomeReady()
		}
		return nil
	}
	process, number, command, err := unmark(e.Data)
	if err != nil {
		return fmt.Errorf("raft entry %d: %w: %w", index, ErrDamaged, err)
	}
	if err := n.opts.StateMachine.Apply(index, command); err != nil {
		return fmt.Errorf("apply raft entry %d: %w", index, err)
	}
	n.applied.Store(index)
	n.loop.entriesSince++
	n.loop.bytesSince += int64(len(command))
	if p := n.loop.waiting[number]; p != nil && process == n.loop.process {
		delete(n.loop.waiting, number)
		p.result <- proposalResult{index: index}
	}
	return nil
}

// becomeReady hands over the proposals that came early.
func (n *Node) becomeReady() {
	if n.loop.ready {
		return
	}
	n.loop.ready = true
	early := n.loop.early
	n.loop.early = nil
	for _, p := range early {
		n.propose(p)
	}
}

// maybeSnapshot begins a snapshot if enough was applied since the last.
func (n *Node) maybeSnapshot() error {
	l := &n.loop
	due := l.entriesSince >= n.opts.SnapshotEntries || l.bytesSince >= n.opts.SnapshotBytes
	if !due || l.snapshotting {
		return nil
	}
	l.snapshotting, l.entriesSince, l.bytesSince = true, 0, 0
	id := snapshotID{index: n.applied.Load(), term: l.appliedTerm}
	encode := n.opts.StateMachine.Snapshot()
	voters := l.saved.Voters
	n.wg.Go(func() {
		data, err := encode()
		if err == nil {
			s := snapshot{snapshotID: id, voters: voters, data: data}
			err = writeSnapshot(n.opts.FS, n.opts.Dir, s)
		}
		n.snapshots <- snapshotDone{id: id, err: err} // room for one, and only one is made
	})
	return nil
}

// snapshotWritten lets go of what the snapshots cover.
func (n *Node) snapshotWritten(d snapshotDone) error {
	n.loop.snapshotting = false
	if noSpace(d.err) {
		n.log.Warn("disk is full, the next raft snapshot is tried later", "error", d.err)
		return nil
	}
	if d.err != nil {
		return fmt.Errorf("write snapshot %d: %w", d.id.index, d.err)
	}
	if err := n.store.Compact(d.id.index); err != nil {
		return fmt.Errorf("compact to %d: %w", d.id.index, err)
	}
	n.count.Snapshots.Add(1)
	start, err := n.dropCovered()
	if noSpace(err) {
		n.log.Warn("no space or no descriptor left, old raft entries go with the next snapshot",
			"error", err)
		return nil
	}
	if err != nil {
		return err
	}
	n.log.Info("raft snapshot written", "index", d.id.index, "log_start", start)
	return nil
}

// dropCovered deletes older snapshots but for one, and the entries before that. It returns where
// the log begins now.
func (n *Node) dropCovered() (uint64, error) {
	oldest, err := pruneSnapshots(n.opts.FS, n.opts.Dir)
	if err != nil {
		return 0, err
	}
	if err := n.opts.Log.DeleteRecordsBefore(int64(oldest.index)); err != nil {
		return 0, fmt.Errorf("delete raft entries up to %d: %w", oldest.index, err)
	}
	return oldest.index, nil
}
