package core

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/group"
	"github.com/millstream-io/millstream/core/metrics"
	"github.com/millstream-io/millstream/core/replica"
	"github.com/millstream-io/millstream/core/storage"
)

// groupKind is what groups are counted by.
type groupKind struct{ kind, state string }

// writeGroups writes all about groups and returns how many committed offsets there are; they are
// told one by one if they are not more than most.
func (c *collector) writeGroups(ctx context.Context, p *metrics.Page, most int,
	transactions coordinator.Survey,
) int {
	b := c.b
	s := b.groups.Stats(ctx)
	counts := make(map[groupKind]int64)
	for i := range s.Groups {
		counts[groupKind{s.Groups[i].Type, s.Groups[i].State}]++
	}
	kinds := make([]groupKind, 0, len(counts))
	for k := range counts {
		kinds = append(kinds, k)
	}
	slices.SortFunc(kinds, func(a, b groupKind) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.state, b.state))
	})
	p.Begin(famGroups)
	for _, k := range kinds {
		p.Int(counts[k], k.kind, k.state)
	}
	p.One(famCommits, b.groups.Counters().Commits.Load())
	p.One(famExpiredOffsets, b.groups.Counters().Expired.Load())
	p.Begin(famShards)
	writeSurvey(p, "group", s.Survey)
	writeSurvey(p, "transaction", transactions)
	slices.SortFunc(s.Groups, func(a, b group.GroupStats) int {
		return cmp.Compare(a.GroupID, b.GroupID)
	})
	p.Begin(famMembers)
	for i := range s.Groups {
		p.Int(int64(s.Groups[i].Members), s.Groups[i].GroupID)
	}
	p.Begin(famEpoch)
	for i := range s.Groups {
		p.Int(int64(s.Groups[i].Epoch), s.Groups[i].GroupID)
	}
	c.writeOffsets(p, s.Offsets, most)
	return len(s.Offsets)
}

func writeSurvey(p *metrics.Page, name string, s coordinator.Survey) {
	p.Int(int64(s.Leading-s.Loading-s.Silent), name, "active")
	p.Int(int64(s.Loading), name, "loading")
	p.Int(int64(s.Silent), name, "silent")
}

// writeOffsets writes committed offsets and lags, first the lags of topics as a whole.
func (c *collector) writeOffsets(p *metrics.Page, offsets []group.OffsetStats, most int) {
	slices.SortFunc(offsets, func(a, b group.OffsetStats) int {
		return cmp.Or(cmp.Compare(a.GroupID, b.GroupID), cmp.Compare(a.Topic, b.Topic),
			cmp.Compare(a.Partition, b.Partition))
	})
	lags := make([]int64, len(offsets))
	for i := range offsets {
		lags[i] = c.lag(&offsets[i])
	}
	p.Begin(famTopicLag)
	for i := 0; i < len(offsets); {
		o, sum := &offsets[i], int64(0)
		for ; i < len(offsets) && offsets[i].GroupID == o.GroupID && offsets[i].Topic == o.Topic; i++ {
			sum += max(lags[i], 0)
		}
		p.Int(sum, o.GroupID, o.Topic)
	}
	p.Begin(famCommitted)
	if len(offsets) > most {
		p.Begin(famLag)
		return
	}
	for i := range offsets {
		o := &offsets[i]
		p.Int(o.Offset, o.GroupID, o.Topic, strconv.Itoa(int(o.Partition)))
	}
	p.Begin(famLag)
	for i := range offsets {
		if o := &offsets[i]; lags[i] >= 0 {
			p.Int(lags[i], o.GroupID, o.Topic, strconv.Itoa(int(o.Partition)))
		}
	}
}

// lag is how far a committed offset is behind the high watermark, -1 if there is no such partition.
// An offset may be ahead for a moment, or for long if its log was cut: that is no lag.
func (c *collector) lag(o *group.OffsetStats) int64 {
	p := c.b.replicas.Find(storage.TopicPartition{Topic: o.Topic, Partition: o.Partition})
	if p == nil {
		return -1
	}
	return max(p.HighWatermark()-o.Offset, 0)
}

// writePartitions writes what is known of each partition, if there are not more than most.
func (c *collector) writePartitions(p *metrics.Page, partitions []*replica.Partition, most int) {
	producers := int64(0)
	for _, part := range partitions {
		producers += int64(part.Log().ProducerCount())
	}
	p.One(famProducers, producers)
	p.Begin(famLimitRefusals)
	p.Int(c.b.groups.Counters().Refused.Load(), "millstream.groups.max")
	p.Int(c.b.transactions.Counters().Refused.Load(), "millstream.transactional.ids.max")
	p.Int(c.b.dataDir.Counters().ProducersRefused.Load(), "millstream.producer.ids.max")
	if len(partitions) > most {
		partitions = nil
	}
	for _, f := range []struct {
		family *metrics.Family
		of     func(*replica.Partition) int64
	}{
		{famSize, func(p *replica.Partition) int64 { return p.Log().Size() }},
		{famStart, (*replica.Partition).StartOffset},
		{famEnd, (*replica.Partition).EndOffset},
		{famHighWatermark, (*replica.Partition).HighWatermark},
		{famLastStable, (*replica.Partition).LastStableOffset},
		{famSegments, func(p *replica.Partition) int64 { return int64(p.Log().Segments()) }},
	} {
		p.Begin(f.family)
		for _, part := range partitions {
			tp := part.TopicPartition()
			p.Int(f.of(part), tp.Topic, strconv.Itoa(int(tp.Partition)))
		}
	}
}
