package main

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// groupOf is a consumer group on topic kept, and what it was told about its commits.
type groupOf struct {
	w    *world
	name string
	// commits counts the acknowledged ones.
	commits atomic.Int64

	mu struct {
		sync.Mutex
		// acked is the highest offset whose commit was acknowledged, sent the highest of all, by partition.
		acked, sent map[int32]int64
	}
}

func newGroupOf(w *world, name string) *groupOf {
	g := &groupOf{w: w, name: name}
	g.mu.acked, g.mu.sent = map[int32]int64{}, map[int32]int64{}
	return g
}

// member is one member after the other: each leaves after a while, so that the group rebalances.
func (g *groupOf) member(index int) error {
	random := g.w.randomOf(fmt.Sprint(g.name, index))
	for g.w.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(g.w.ctx, time.Duration(5+random.IntN(20))*time.Second)
		err := g.consume(ctx)
		cancel()
		if err != nil && g.w.ctx.Err() == nil {
			return fmt.Errorf("group %s: %w", g.name, err)
		}
	}
	return nil
}

func (g *groupOf) consume(ctx context.Context) error {
	var mu sync.Mutex
	least, next := map[int32]int64{}, map[int32]int64{}
	// owned are the partitions of the present assignment: a member that was taken for dead and comes back under a new id
	// still has records of the old one, and a commit of those would be taken, as by Kafka.
	owned := map[int32]bool{}
	gone := func(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
		mu.Lock()
		defer mu.Unlock()
		for _, p := range lost[kept] {
			delete(owned, p)
		}
	}
	opts := []kgo.Opt{
		kgo.ConsumerGroup(g.name), kgo.ConsumeTopics(kept), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.BlockRebalanceOnPoll(),
		kgo.SessionTimeout(6 * time.Second), kgo.RebalanceTimeout(2 * time.Second), kgo.HeartbeatInterval(200 * time.Millisecond),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, got map[string][]int32) {
			mu.Lock()
			defer mu.Unlock()
			for _, p := range got[kept] {
				delete(next, p)
				least[p], owned[p] = g.acknowledged(p), true
			}
		}),
		kgo.OnPartitionsRevoked(gone), kgo.OnPartitionsLost(gone),
	}
	if g.name == "kip848" {
		opts = append(opts, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	}
	cl, err := g.w.client(opts...)
	if err != nil {
		return err
	}
	defer cl.CloseAllowingRebalance()
	for ctx.Err() == nil {
		fetches := cl.PollRecords(ctx, 300)
		for _, r := range fetches.Records() {
			mu.Lock()
			err := g.inOrder(r, least, next)
			mu.Unlock()
			if err != nil {
				return err
			}
		}
		if fetches.NumRecords() > 0 {
			g.commit(ctx, cl, func(p int32) bool {
				mu.Lock()
				defer mu.Unlock()
				return owned[p]
			})
		}
		cl.AllowRebalance()
	}
	return nil
}

// inOrder checks that a member skips nothing: neither where it begins nor later.
func (g *groupOf) inOrder(r *kgo.Record, least, next map[int32]int64) error {
	want, known := next[r.Partition]
	next[r.Partition] = r.Offset + 1
	switch {
	case known && r.Offset != want && !g.w.deletedBefore(r):
		return fmt.Errorf("a member skips from %d to %d in partition %d", want, r.Offset, r.Partition)
	case !known && r.Offset < least[r.Partition]:
		return fmt.Errorf("offsets went back: a member begins with %d in partition %d, committed was %d", r.Offset,
			r.Partition, least[r.Partition])
	}
	return nil
}

func (g *groupOf) acknowledged(p int32) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.acked[p]
}

// commit commits what was polled of the partitions that are the member's.
func (g *groupOf) commit(ctx context.Context, cl *kgo.Client, owns func(int32) bool) {
	offsets := cl.UncommittedOffsets()
	maps.DeleteFunc(offsets[kept], func(p int32, _ kgo.EpochOffset) bool { return !owns(p) })
	if len(offsets[kept]) == 0 {
		return
	}
	g.mu.Lock()
	for p, o := range offsets[kept] {
		g.mu.sent[p] = max(g.mu.sent[p], o.Offset)
	}
	g.mu.Unlock()
	cl.CommitOffsetsSync(ctx, offsets, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse,
		err error) {
		if err != nil {
			return
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if kerr.ErrorForCode(p.ErrorCode) == nil {
					g.mu.acked[p.Partition] = max(g.mu.acked[p.Partition], offsets[kept][p.Partition].Offset)
					g.commits.Add(1)
				}
			}
		}
	})
}

// check compares what the broker has committed.
func (g *groupOf) check(ctx context.Context) error {
	acked := map[int32]int64{}
	for p := range partitions[kept] {
		acked[p] = g.acknowledged(p)
	}
	offsets, err := g.w.admin.FetchOffsets(ctx, g.name)
	if err != nil {
		return fmt.Errorf("fetch the offsets of %s: %w", g.name, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for p, want := range acked {
		o, ok := offsets.Lookup(kept, p)
		if at := o.At; want > 0 && (!ok || o.Err != nil || at < want) {
			return fmt.Errorf("offsets went back: group %s has %d in partition %d (there: %v, %v), acknowledged is %d",
				g.name, at, p, ok, o.Err, want)
		} else if ok && at > g.mu.sent[p] {
			return fmt.Errorf("group %s has %d in partition %d, which nobody has committed", g.name, at, p)
		}
	}
	return nil
}

// deletedBefore tells whether retention has taken what was before a record: a member that is slow is left behind.
func (w *world) deletedBefore(r *kgo.Record) bool {
	for {
		starts, err := w.admin.ListStartOffsets(w.ctx, r.Topic)
		o, ok := starts.Lookup(r.Topic, r.Partition)
		if err == nil && ok && o.Err == nil {
			return o.Offset >= r.Offset
		}
		// The broker may be dead for now.
		if pause(w.ctx, 20*time.Millisecond) != nil {
			return true
		}
	}
}
