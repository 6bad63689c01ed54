package txn

import (
	"context"
	"sync/atomic"

	"github.com/millstream-io/millstream/core/coordinator"
)

// Counters are what a Coordinator counts.
type Counters struct {
	// Committed and Aborted are transactions whose markers are all written.
	Committed, Aborted atomic.Int64
	// Refused are requests that would have made a transactional id too many.
	Refused atomic.Int64
	// ids counts them.
	ids coordinator.Tally
}

// IDs is how many transactional ids there are.
func (c *Counters) IDs() int64 { return c.ids.Total() }

// Counters returns what is counted.
func (c *Coordinator) Counters() *Counters { return &c.count }

// Stats are the transactional ids of this node at one moment, each shard at its own.
type Stats struct {
	coordinator.Survey
	// ByState has the ids in each state.
	ByState [numStates]int
	// OldestStartMS is when the transaction began that is not complete for the longest, wall clock;
	// 0 if there is none.
	OldestStartMS int64
}

const numStates = len(stateNames)

// Stats asks every shard, for no longer than ctx.
func (c *Coordinator) Stats(ctx context.Context) Stats {
	var all Stats
	all.Survey = c.runtime.AskAll(ctx, statsInput{}, func(_ int32, out any) {
		shard := out.(*Stats)
		for state, n := range shard.ByState {
			all.ByState[state] += n
		}
		if ms := shard.OldestStartMS; ms > 0 && (all.OldestStartMS == 0 || ms < all.OldestStartMS) {
			all.OldestStartMS = ms
		}
	})
	return all
}

type statsInput struct{}

// stats is the machine's part of Stats.
func (m *machine) stats() *Stats {
	s := new(Stats)
	for _, tx := range m.txns {
		if tx.State < 0 || int(tx.State) >= numStates {
			continue
		}
		s.ByState[tx.State]++
		open := tx.State == Ongoing || tx.State.decided()
		if open && (s.OldestStartMS == 0 || tx.StartMS < s.OldestStartMS) {
			s.OldestStartMS = tx.StartMS
		}
	}
	return s
}

// ended counts a state that a transaction came to.
func (c *Counters) ended(s State) {
	switch s {
	case CompleteCommit:
		c.Committed.Add(1)
	case CompleteAbort:
		c.Aborted.Add(1)
	}
}
