package raft

import (
	"sync/atomic"

	"github.com/millstream-io/millstream/core/metrics"
)

// Counters are what a Node counts.
type Counters struct {
	// Proposals is the time from taking a command to its being applied here.
	Proposals metrics.Histogram
	// Elections are leaders that this node has seen come in.
	Elections atomic.Int64
	// Snapshots are those written.
	Snapshots atomic.Int64
}

// Status is where the node's log is, in indexes.
type Status struct {
	Term    uint64
	Leader  uint64 // node id, 0 = unknown
	Applied uint64
	// Committed and Last are those on the disk.
	Committed, Last uint64
}

// Counters returns what is counted.
func (n *Node) Counters() *Counters { return &n.count }

// Status returns where the node is.
func (n *Node) Status() Status {
	return Status{
		Term: n.term.Load(), Leader: n.leader.Load(), Applied: n.applied.Load(),
		Committed: n.committed.Load(), Last: uint64(n.opts.Log.EndOffset()),
	}
}
