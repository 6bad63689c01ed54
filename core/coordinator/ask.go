package coordinator

import (
	"context"
	"unicode/utf16"
)

// PartitionFor is the partition, and so the shard, that a name belongs to: as in Kafka, the
// absolute value of Java's String.hashCode, modulo partitions.
func PartitionFor(name string, partitions int32) int32 {
	var h int32
	for _, unit := range utf16.Encode([]rune(name)) {
		h = 31*h + int32(unit)
	}
	if h < 0 {
		h = -h
	}
	if h < 0 { // the smallest int32 has no absolute value
		h = 0
	}
	return h % partitions
}

// LeadOnly makes this node lead the shards of leading, each from its leader epoch on, and resign
// from all others, which it returns.
func (r *Runtime) LeadOnly(leading map[int32]int32) (resigned []int32) {
	for n := range r.Leading() {
		if _, ok := leading[n]; !ok {
			r.Resign(n)
			resigned = append(resigned, n)
		}
	}
	for n, epoch := range leading {
		r.Lead(n, epoch)
	}
	return resigned
}

// Ask hands an input to a shard and waits for the answer, for no longer than ctx: what is abandoned
// so may still happen.
func (r *Runtime) Ask(ctx context.Context, partition int32, in any) (any, ErrorCode) {
	type result struct {
		out  any
		code ErrorCode
	}
	ch := make(chan result, 1)
	r.Submit(partition, in, func(out any, code ErrorCode) { ch <- result{out, code} })
	select {
	case got := <-ch:
		return got.out, got.code
	case <-ctx.Done():
		return nil, CodeCoordinatorNotAvailable
	}
}
