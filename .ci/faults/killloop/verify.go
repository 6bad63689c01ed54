package main

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// sentinelName begins the values of records that tell a reading how far to go.
const sentinelName = "sentinel"

var hashSeed = maphash.MakeSeed()

// hash is of a record's content.
func hash(key, value []byte) uint64 {
	return maphash.Bytes(hashSeed, fmt.Appendf(nil, "%d %s%s", len(key), key, value))
}

// history is what was read of one partition.
type history struct {
	// start is the log's start at the last look; verified is up to where everything was read.
	start, verified int64
	seen            map[int64]uint64
}

// verify reads what came since the last call, or all that is there, and compares it with the ledgers.
func (w *world) verify(ctx context.Context, all bool) error {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	w.keys.gate.Lock()
	unlock := sync.OnceFunc(w.keys.gate.Unlock)
	defer unlock()
	if err := w.keys.settle(ctx); err != nil {
		return err
	}
	// What is acknowledged now has to be found, later may be more.
	acks, newest := w.numbers.take(), w.keys.snapshot()
	over := make([][]int, len(w.txns))
	for i, t := range w.txns {
		over[i] = t.over()
	}
	for _, g := range w.groups {
		if err := g.check(ctx); err != nil {
			return err
		}
	}
	ends, err := w.sentinels(ctx)
	if err != nil {
		return err
	}
	if err := w.starts(ctx); err != nil {
		return err
	}
	if err := w.verifyKeys(ctx, ends, newest); err != nil {
		return err
	}
	unlock()
	first := func(o func(*kgo.Record) error) func(*kgo.Record) error {
		return func(r *kgo.Record) error { return w.observe(r, o) }
	}
	err = w.read(ctx, all, ends, first(w.numbers.observe), kgo.ReadUncommitted(), kept, orders)
	if err == nil {
		err = w.read(ctx, all, ends, first(w.observeTxn), kgo.ReadCommitted(), txn)
	}
	if err == nil {
		err = w.read(ctx, all, ends, first(w.copier.observe), kgo.ReadCommitted(), copied)
	}
	if err != nil {
		return err
	}
	if err := w.confirm(acks); err != nil {
		return err
	}
	for i, t := range w.txns {
		if err := t.check(over[i]); err != nil {
			return err
		}
	}
	return w.failure()
}

// verifyKeys reads the compacted topic from its start.
func (w *world) verifyKeys(ctx context.Context, ends map[string][]int64, newest map[string]int64) error {
	var records []*kgo.Record
	err := w.read(ctx, true, ends, func(r *kgo.Record) error {
		h := w.histories[compacted][r.Partition]
		if got, ok := h.seen[r.Offset]; ok && got != hash(r.Key, r.Value) {
			return fmt.Errorf("changed: compact-%d at %d is not what was read there before", r.Partition, r.Offset)
		}
		if r.Offset < h.verified {
			w.reread++
		}
		h.seen[r.Offset] = hash(r.Key, r.Value)
		records = append(records, r)
		return nil
	}, kgo.ReadUncommitted(), compacted)
	if err != nil {
		return err
	}
	return w.keys.check(records, newest)
}

// sentinels puts a record into each partition and returns their offsets: whatever was acknowledged before is below.
func (w *world) sentinels(ctx context.Context) (map[string][]int64, error) {
	cl, err := w.client()
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	var rs []*kgo.Record
	ends := map[string][]int64{}
	for topic, n := range partitions {
		ends[topic] = make([]int64, n)
		for p := range n {
			r := &kgo.Record{Topic: topic, Partition: p, Value: []byte(sentinelName + " 0 "), Key: []byte(sentinelName)}
			rs = append(rs, r)
		}
	}
	if err := cl.ProduceSync(ctx, rs...).FirstErr(); err != nil {
		return nil, fmt.Errorf("produce the sentinels: %w", err)
	}
	for _, r := range rs {
		ends[r.Topic][r.Partition] = r.Offset
	}
	return ends, nil
}

// starts looks where the logs start.
func (w *world) starts(ctx context.Context) error {
	for topic, hs := range w.histories {
		offsets, err := w.admin.ListStartOffsets(ctx, topic)
		if err != nil {
			return fmt.Errorf("list the start offsets of %s: %w", topic, err)
		}
		for p, h := range hs {
			o, ok := offsets.Lookup(topic, int32(p))
			if !ok || o.Err != nil {
				return fmt.Errorf("start offset of %s-%d: %w", topic, p, o.Err)
			}
			if o.Offset < h.start {
				return fmt.Errorf("the start of %s-%d went back from %d to %d", topic, p, h.start, o.Offset)
			}
			h.start = o.Offset
			for offset := range h.seen {
				if offset < h.start {
					delete(h.seen, offset)
				}
			}
		}
	}
	return nil
}

// observe compares a record with what was read at its offset before, or gives it to next.
func (w *world) observe(r *kgo.Record, next func(*kgo.Record) error) error {
	h := w.histories[r.Topic][r.Partition]
	content := hash(r.Key, r.Value)
	got, ok := h.seen[r.Offset]
	switch {
	case ok && got != content:
		return fmt.Errorf("changed: %s-%d at %d is not what was read there before", r.Topic, r.Partition, r.Offset)
	case !ok && r.Offset < h.verified:
		return fmt.Errorf("new: %s-%d at %d was not there before", r.Topic, r.Partition, r.Offset)
	case ok:
		w.reread++
		return nil
	}
	h.seen[r.Offset] = content
	return next(r)
}

// read reads topics up to the sentinels, from the last sentinel or, with all, from the start.
func (w *world) read(ctx context.Context, all bool, ends map[string][]int64, observe func(*kgo.Record) error,
	isolation kgo.IsolationLevel, topics ...string) error {
	from, left := map[string]map[int32]kgo.Offset{}, 0
	for _, topic := range topics {
		from[topic] = map[int32]kgo.Offset{}
		for p, h := range w.histories[topic] {
			at := max(h.start, h.verified-100)
			if all {
				at = h.start
			}
			from[topic][int32(p)] = kgo.NewOffset().At(at)
			left++
		}
	}
	cl, err := w.client(kgo.ConsumePartitions(from), kgo.FetchIsolationLevel(isolation),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer cl.Close()
	previous := map[string]int64{}
	for left > 0 {
		fetches := cl.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%d partitions of %s are not read to the sentinel: %w", left, strings.Join(topics, ", "), err)
		}
		for _, e := range fetches.Errors() {
			if !errors.Is(e.Err, kerr.OffsetOutOfRange) {
				return fmt.Errorf("read %s-%d: %w", e.Topic, e.Partition, e.Err)
			}
		}
		for _, r := range fetches.Records() {
			end := ends[r.Topic][r.Partition]
			if r.Offset > end {
				continue
			}
			name := fmt.Sprint(r.Topic, r.Partition)
			if before, ok := previous[name]; ok && r.Topic != compacted && isolation == kgo.ReadUncommitted() &&
				r.Offset != before+1 && !w.deletedBefore(r) {
				return fmt.Errorf("lost: %s-%d has nothing between %d and %d", r.Topic, r.Partition, before, r.Offset)
			}
			if _, ok := previous[name]; !ok && isolation == kgo.ReadUncommitted() && r.Topic != compacted {
				if err := w.jumped(ctx, r); err != nil {
					return err
				}
			}
			previous[name] = r.Offset
			if err := observe(r); err != nil {
				return err
			}
			if r.Offset == end {
				left--
			}
		}
	}
	for _, topic := range topics {
		for p, h := range w.histories[topic] {
			h.verified = ends[topic][p] + 1
		}
	}
	return nil
}

// jumped looks whether the first record that is read comes later than asked for, which only retention may bring about.
func (w *world) jumped(ctx context.Context, r *kgo.Record) error {
	h := w.histories[r.Topic][r.Partition]
	if r.Offset <= h.verified {
		return nil
	}
	if err := w.starts(ctx); err != nil {
		return err
	}
	if h.start < r.Offset {
		return fmt.Errorf("lost: %s-%d begins with %d, its start is %d", r.Topic, r.Partition, r.Offset, h.start)
	}
	w.numbers.forget(r.Topic, r.Partition)
	return nil
}
