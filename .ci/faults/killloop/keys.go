package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// keysPerPartition is how many keys the compacted topic has in a partition.
const keysPerPartition = 30

// keys is the ledger of the compacted topic. A record's header has its number, since a tombstone has no value.
type keys struct {
	// gate is locked while the topic is verified: a record sent later could take the place of one that is looked for.
	gate sync.RWMutex
	mu   sync.Mutex
	// all counts what was sent.
	all atomic.Int64
	// acked counts acknowledgements; newest is the newest acknowledged number of a key.
	acked  atomic.Int64
	newest map[string]int64
	// tombstones are the numbers of a key that were sent without value.
	tombstones map[string]map[int64]bool
	// gone counts numbers that were not there any more.
	gone int64
}

func newKeys() *keys {
	return &keys{newest: map[string]int64{}, tombstones: map[string]map[int64]bool{}}
}

func (w *world) produceKeys() error {
	cl, err := w.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	random, next := w.randomOf("keys"), map[string]int64{}
	for w.ctx.Err() == nil {
		w.keys.gate.RLock()
		for range 1 + random.IntN(20) {
			p := random.Int32N(partitions[compacted])
			key := fmt.Sprintf("%d/%d", p, random.IntN(keysPerPartition))
			number := next[key]
			next[key]++
			r := &kgo.Record{Topic: compacted, Partition: p, Key: []byte(key), Value: value(key, number, random.IntN(300)),
				Headers: []kgo.RecordHeader{{Key: "n", Value: strconv.AppendInt(nil, number, 10)}}}
			if random.IntN(12) == 0 {
				r.Value = nil
			}
			w.keys.sent(key, number, r.Value == nil)
			w.pending.Add(1)
			cl.Produce(w.ctx, r, func(r *kgo.Record, err error) {
				w.pending.Add(-1)
				if err == nil {
					w.keys.acknowledged(key, number)
				} else if w.ctx.Err() == nil {
					w.fail(fmt.Errorf("the producer of keys gave up: %w", err))
				}
			})
		}
		w.keys.gate.RUnlock()
		_ = pause(w.ctx, time.Duration(1+random.IntN(8))*time.Millisecond)
	}
	return nil
}

func (k *keys) sent(key string, number int64, tombstone bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.tombstones[key] == nil {
		k.tombstones[key] = map[int64]bool{}
	}
	k.all.Add(1)
	if tombstone {
		k.tombstones[key][number] = true
	}
}

func (k *keys) acknowledged(key string, number int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.newest[key] = max(k.newest[key], number)
	k.acked.Add(1)
}

// settle waits until all that was sent is acknowledged; the gate is locked.
func (k *keys) settle(ctx context.Context) error {
	for k.acked.Load() < k.all.Load() {
		if err := pause(ctx, time.Millisecond); err != nil {
			return fmt.Errorf("%d records with keys are not acknowledged: %w", k.all.Load()-k.acked.Load(), err)
		}
	}
	return nil
}

// snapshot is what a reading that begins now has to find.
func (k *keys) snapshot() map[string]int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make(map[string]int64, len(k.newest))
	for key, n := range k.newest {
		out[key] = n
	}
	return out
}

// check compares all records of the compacted topic, in order, with a snapshot from before they were read.
func (k *keys) check(records []*kgo.Record, want map[string]int64) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	found := map[string]int64{}
	for _, r := range records {
		if len(r.Headers) == 0 {
			continue // a sentinel
		}
		key := string(r.Key)
		number, _ := strconv.ParseInt(string(r.Headers[0].Value), 10, 64)
		last, known := found[key]
		if known && number <= last {
			return fmt.Errorf("twice or out of order: key %s has %d after %d at %d", key, number, last, r.Offset)
		}
		if tombstone := k.tombstones[key][number]; tombstone != (r.Value == nil) {
			return fmt.Errorf("key %s, number %d at %d: tombstone is %v", key, number, r.Offset, !tombstone)
		}
		if known && number > last+1 || !known && number > 0 {
			k.gone++
		}
		found[key] = number
	}
	for key, n := range want {
		if last, ok := found[key]; (!ok || last < n) && !k.deletedSinceLocked(key, n) {
			return fmt.Errorf("lost: key %s has %d (there: %v), acknowledged is %d", key, last, ok, n)
		}
	}
	return nil
}

// deletedSinceLocked tells whether a tombstone at n or later may have taken the key away.
func (k *keys) deletedSinceLocked(key string, n int64) bool {
	for t := range k.tombstones[key] {
		if t >= n {
			return true
		}
	}
	return false
}
