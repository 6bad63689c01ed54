package group

import (
	"context"
	"sync/atomic"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/group/offsets"
)

// Counters are what a Coordinator counts.
type Counters struct {
	// Commits are committed offsets, those of transactions included, Expired are offsets and groups
	// that were removed since nobody used them.
	Commits, Expired atomic.Int64
	// Refused are requests that would have made a group too many.
	Refused atomic.Int64
	// groups counts them.
	groups coordinator.Tally
}

// Groups is how many groups there are.
func (c *Counters) Groups() int64 { return c.groups.Total() }

// Counters returns what is counted.
func (c *Coordinator) Counters() *Counters { return &c.count }

// committed counts the offsets of one request.
func (c *Counters) committed(codes []ErrorCode) {
	for _, code := range codes {
		if code == coordinator.CodeNone {
			c.Commits.Add(1)
		}
	}
}

// Stats are all groups of this node at one moment, each shard at its own.
type Stats struct {
	coordinator.Survey
	Groups  []GroupStats
	Offsets []OffsetStats
}

// GroupStats is one group.
type GroupStats struct {
	GroupID, Type, State string
	// Epoch is the generation or group epoch: it rises with each rebalance.
	Epoch   int32
	Members int
}

// OffsetStats is one committed offset.
type OffsetStats struct {
	GroupID, Topic string
	Partition      int32
	Offset         int64
}

// Stats asks every shard, for no longer than ctx.
func (c *Coordinator) Stats(ctx context.Context) Stats {
	var all Stats
	all.Survey = c.runtime.AskAll(ctx, statsInput{}, func(_ int32, out any) {
		shard := out.(*Stats)
		all.Groups = append(all.Groups, shard.Groups...)
		all.Offsets = append(all.Offsets, shard.Offsets...)
	})
	return all
}

type statsInput struct{}

// stats is the machine's part of Stats.
func (m *machine) stats() *Stats {
	s := &Stats{
		Groups:  make([]GroupStats, 0, len(m.groups)+len(m.consumers)),
		Offsets: make([]OffsetStats, 0, m.offsets.Len()),
	}
	for id, g := range m.consumers {
		s.Groups = append(s.Groups, GroupStats{id, typeConsumer, g.State(), g.Epoch(), g.Size()})
	}
	for id, e := range m.groups {
		s.Groups = append(s.Groups,
			GroupStats{id, typeClassic, e.State().String(), e.Generation(), e.Size()})
	}
	m.offsets.Each(func(group, topic string, partition int32, at offsets.Commit) {
		s.Offsets = append(s.Offsets, OffsetStats{group, topic, partition, at.Offset})
	})
	return s
}
