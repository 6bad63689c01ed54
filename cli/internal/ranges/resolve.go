package ranges

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// Bounds are the offsets [From, To) of one partition.
type Bounds struct {
	From, To int64
}

// Len is the number of offsets in the range.
func (b Bounds) Len() int64 { return max(0, b.To-b.From) }

// Range is a resolved range of a topic: per partition, the half-open offsets to read.
type Range map[int32]Bounds

// Len is the number of offsets in all partitions.
func (r Range) Len() int64 {
	var n int64
	for _, b := range r {
		n += b.Len()
	}
	return n
}

// Moved is a position that named an offset the log does not hold, in one partition.
type Moved struct {
	Point     Point
	Partition int32
	Asked     int64
	// Log is what the partition holds.
	Log Bounds
}

// String says where the position lies against the log.
func (m Moved) String() string {
	if m.Asked > m.Log.To {
		return fmt.Sprintf("%s lies behind the end of partition %d, which is %d", m.Point,
			m.Partition, m.Log.To)
	}
	return fmt.Sprintf("%s lies before the start of partition %d: offsets below %d are deleted",
		m.Point, m.Partition, m.Log.From)
}

// Resolve asks the log where from and to lie in each partition of the topic. Offsets outside what
// the log holds are moved to its edges; those that were named outright are told, by partition.
func Resolve(
	ctx context.Context, admin *kadm.Client, topic string, from, to Point,
) (Range, []Moved, error) {
	starts, err := list(ctx, admin.ListStartOffsets, topic)
	if err != nil {
		return nil, nil, err
	}
	ends, err := list(ctx, admin.ListEndOffsets, topic)
	if err != nil {
		return nil, nil, err
	}
	r := make(Range, len(starts))
	for partition, start := range starts {
		r[partition] = Bounds{From: start, To: ends[partition]}
	}
	froms, err := resolvePoint(ctx, admin, topic, from, r, starts)
	if err != nil {
		return nil, nil, err
	}
	tos, err := resolvePoint(ctx, admin, topic, to, r, froms)
	if err != nil {
		return nil, nil, err
	}
	moved := append(outside(from, froms, r), outside(to, tos, r)...)
	for partition, edge := range r {
		r[partition] = Bounds{
			From: clamp(froms[partition], edge),
			To:   clamp(tos[partition], edge),
		}
	}
	return r, moved, nil
}

// outside lists the partitions in which p names an offset that the log does not hold. "10 before
// the end" and times mean the nearest there is, so they are never outside.
func outside(p Point, asked map[int32]int64, edges Range) []Moved {
	if p.Kind != Offset && p.Kind != After && p.Kind != Committed {
		return nil
	}
	var all []Moved
	for _, partition := range slices.Sorted(maps.Keys(edges)) {
		edge := edges[partition]
		if offset := asked[partition]; offset != clamp(offset, edge) {
			all = append(all, Moved{Point: p, Partition: partition, Asked: offset, Log: edge})
		}
	}
	return all
}

func clamp(offset int64, edge Bounds) int64 { return min(max(offset, edge.From), edge.To) }

// resolvePoint gives the offset of p in every partition; reference is what +N counts from.
func resolvePoint(
	ctx context.Context, admin *kadm.Client, topic string, p Point, edges Range,
	reference map[int32]int64,
) (map[int32]int64, error) {
	switch p.Kind {
	case Timestamp:
		return atTime(ctx, admin, topic, p.Time, edges)
	case Committed:
		return committed(ctx, admin, topic, p.Group, edges)
	}
	out := make(map[int32]int64, len(edges))
	for partition, edge := range edges {
		switch p.Kind {
		case Start:
			out[partition] = edge.From
		case End:
			out[partition] = edge.To
		case Offset:
			out[partition] = p.N
		case After:
			out[partition] = reference[partition] + min(p.N, math.MaxInt64-reference[partition])
		case Before:
			out[partition] = edge.To - p.N
		}
	}
	return out, nil
}

type lister func(context.Context, ...string) (kadm.ListedOffsets, error)

func list(ctx context.Context, ask lister, topic string) (map[int32]int64, error) {
	listed, err := ask(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("list offsets of %s: %w", topic, err)
	}
	if err := listed.Error(); err != nil {
		return nil, fmt.Errorf("list offsets of %s: %w", topic, err)
	}
	out := make(map[int32]int64, len(listed[topic]))
	for partition, o := range listed[topic] {
		out[partition] = o.Offset
	}
	return out, nil
}

func atTime(
	ctx context.Context, admin *kadm.Client, topic string, t time.Time, edges Range,
) (map[int32]int64, error) {
	ms := max(t.UnixMilli(), 0) // negative numbers ask for other things than a time
	ask := func(ctx context.Context, topics ...string) (kadm.ListedOffsets, error) {
		return admin.ListOffsetsAfterMilli(ctx, ms, topics...)
	}
	found, err := list(ctx, ask, topic)
	if err != nil {
		return nil, err
	}
	for partition, edge := range edges {
		if offset, ok := found[partition]; !ok || offset < 0 {
			found[partition] = edge.To // no record that late
		}
	}
	return found, nil
}

func committed(
	ctx context.Context, admin *kadm.Client, topic, group string, edges Range,
) (map[int32]int64, error) {
	offsets, err := admin.FetchOffsets(ctx, group)
	if err != nil {
		return nil, fmt.Errorf("fetch offsets of group %s: %w", group, err)
	}
	out := make(map[int32]int64, len(edges))
	for partition, edge := range edges {
		out[partition] = edge.From
		if o, ok := offsets.Lookup(topic, partition); ok && o.At >= 0 {
			out[partition] = o.At
		}
	}
	return out, nil
}
