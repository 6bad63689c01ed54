package main

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// ack is a record that was acknowledged.
type ack struct {
	topic     string
	partition int32
	offset    int64
	hash      uint64
}

// numbers is the ledger of producers that send rising numbers.
type numbers struct {
	mu sync.Mutex
	// pending are acknowledgements that no reading has confirmed yet.
	pending []ack
	// acked counts the acknowledgements.
	acked atomic.Int64
	// last is the last number read of each producer, topic and partition.
	last map[string]int64
}

func newNumbers() *numbers { return &numbers{last: map[string]int64{}} }

func (n *numbers) acknowledged(r *kgo.Record) {
	n.mu.Lock()
	n.pending = append(n.pending, ack{r.Topic, r.Partition, r.Offset, hash(r.Key, r.Value)})
	n.mu.Unlock()
	n.acked.Add(1)
}

// take returns the acknowledgements so far.
func (n *numbers) take() []ack {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.pending
	n.pending = nil
	return out
}

// observe checks the order of a record that is read for the first time. Values are "PRODUCER NUMBER FILL".
func (n *numbers) observe(r *kgo.Record) error {
	name, rest, _ := strings.Cut(string(r.Value), " ")
	text, _, _ := strings.Cut(rest, " ")
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("%s-%d at %d has a value that nobody sent: %.40q", r.Topic, r.Partition, r.Offset, r.Value)
	}
	if name == sentinelName {
		return nil
	}
	key := fmt.Sprintf("%s %s-%d", name, r.Topic, r.Partition)
	last, known := n.last[key]
	if known && last == forgotten {
		n.last[key] = number
		return nil
	}
	gaps := strings.HasPrefix(name, "o") // whose records may get lost when they were not acknowledged
	switch {
	case !known && !gaps && number != 0:
		return fmt.Errorf("lost: %s begins with %d at %d", key, number, r.Offset)
	case known && number <= last:
		return fmt.Errorf("twice or out of order: %s has %d after %d at %d", key, number, last, r.Offset)
	case known && !gaps && number != last+1:
		return fmt.Errorf("lost: %s has %d after %d at %d", key, number, last, r.Offset)
	}
	n.last[key] = number
	return nil
}

// fill makes records of different sizes.
var fill = bytes.Repeat([]byte("abcdefghijklmnopqrstuvwxyz012345"), 40)

func value(name string, number int64, size int) []byte {
	return append(fmt.Appendf(nil, "%s %d ", name, number), fill[:size]...)
}

// produceNumbers sends batches of numbers to the partitions of a topic until ctx ends.
func (w *world) produceNumbers(ctx context.Context, cl *kgo.Client, topic, name string, perRound int,
	promise func(*kgo.Record, error)) {
	random := w.randomOf(name + topic)
	next := make([]int64, partitions[topic])
	for ctx.Err() == nil {
		for range 1 + random.IntN(perRound) {
			p := random.Int32N(partitions[topic])
			r := &kgo.Record{Topic: topic, Partition: p, Value: value(name, next[p], random.IntN(len(fill)))}
			next[p]++
			w.pending.Add(1)
			cl.Produce(ctx, r, func(r *kgo.Record, err error) {
				w.pending.Add(-1)
				promise(r, err)
			})
		}
		_ = pause(ctx, time.Duration(1+random.IntN(8))*time.Millisecond)
	}
}

// mustAck is the promise of a producer that repeats until it is told success.
func (w *world) mustAck(r *kgo.Record, err error) {
	switch {
	case err == nil:
		w.numbers.acknowledged(r)
	case w.ctx.Err() == nil:
		w.fail(fmt.Errorf("an idempotent producer gave up on %s-%d: %w", r.Topic, r.Partition, err))
	}
}

func (w *world) produceKept(name string, codec kgo.CompressionCodec, opts ...kgo.Opt) error {
	cl, err := w.client(append(opts, kgo.ProducerBatchCompression(codec))...)
	if err != nil {
		return err
	}
	defer cl.Close()
	w.produceNumbers(w.ctx, cl, kept, name, 30, w.mustAck)
	return nil
}

func (w *world) produceOrders() error {
	cl, err := w.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	w.produceNumbers(w.ctx, cl, orders, "order", 3, w.mustAck)
	return nil
}

// produceOnce sends each record once, without a producer id, until ctx ends.
func (w *world) produceOnce(ctx context.Context, name string) error {
	cl, err := w.client(kgo.DisableIdempotentWrite(), kgo.RecordRetries(0), kgo.RequestRetries(0),
		kgo.MaxProduceRequestsInflightPerBroker(1))
	if err != nil {
		return err
	}
	defer cl.Close()
	w.produceNumbers(ctx, cl, kept, name, 5, func(r *kgo.Record, err error) {
		if err == nil {
			w.numbers.acknowledged(r)
		}
	})
	return nil
}

// confirm looks up acknowledged records in what was read.
func (w *world) confirm(acks []ack) error {
	for _, a := range acks {
		h := w.histories[a.topic][a.partition]
		got, ok := h.seen[a.offset]
		switch {
		case !ok && a.offset < h.start:
		case !ok:
			return fmt.Errorf("lost: %s-%d at %d was acknowledged and is not there", a.topic, a.partition, a.offset)
		case got != a.hash:
			return fmt.Errorf("lost: %s-%d at %d is not what was acknowledged there", a.topic, a.partition, a.offset)
		}
	}
	return nil
}

// forgotten takes the place of the last number of which retention has deleted what followed.
const forgotten = -1

// forget says that records of a partition were deleted before they were read.
func (n *numbers) forget(topic string, partition int32) {
	for key := range n.last {
		if strings.HasSuffix(key, fmt.Sprintf(" %s-%d", topic, partition)) {
			n.last[key] = forgotten
		}
	}
}
