package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The topics; see the package comment.
const (
	kept, compacted, txn, orders, copied = "kept", "compact", "txn", "orders", "copied"
)

// partitions of each topic.
var partitions = map[string]int32{kept: 3, compacted: 2, txn: 3, orders: 2, copied: 2}

// world is the load and what is known of it.
type world struct {
	addr   string
	random uint64
	admin  *kadm.Client
	// ctx ends the workers; life ends those that live as long as the broker.
	ctx        context.Context
	cancel     context.CancelFunc
	lifeCancel context.CancelFunc
	lives      int
	workers    sync.WaitGroup
	// failed gets the first thing that a worker has seen and that must not be.
	failed chan error

	numbers   *numbers
	keys      *keys
	txns      []*transactor
	groups    []*groupOf
	copier    *copier
	histories map[string][]*history
	// pending counts records sent and not acknowledged, and transactions begun and not ended.
	pending atomic.Int64
	// reread counts records that were compared with an earlier reading.
	reread int
}

func newWorld(ctx context.Context, addr string, random uint64) (*world, error) {
	w := &world{addr: addr, random: random, failed: make(chan error, 1), histories: map[string][]*history{}}
	w.ctx, w.cancel = context.WithCancel(ctx)
	cl, err := w.client()
	if err != nil {
		return nil, err
	}
	w.admin = kadm.NewClient(cl)
	if err := w.createTopics(); err != nil {
		return nil, err
	}
	w.numbers, w.keys = newNumbers(), newKeys()
	w.start(func() error {
		return w.produceKept("a", kgo.Lz4Compression())
	})
	w.start(func() error { return w.produceKept("b", kgo.NoCompression()) })
	w.start(w.produceOrders)
	w.start(w.produceKeys)
	for i, protocol := range []int{1, 2, 2} {
		t := newTransactor(w, fmt.Sprintf("t%d-v%d", i, protocol), protocol)
		w.txns = append(w.txns, t)
		w.start(t.run)
	}
	for _, name := range []string{"classic", "kip848"} {
		g := newGroupOf(w, name)
		w.groups = append(w.groups, g)
		for member := range 2 {
			w.start(func() error { return g.member(member) })
		}
	}
	w.copier = newCopier(w)
	w.start(w.copier.run)
	w.nextLife(ctx)
	return w, nil
}

// client makes a client that does not give up and comes back fast.
func (w *world) client(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(w.options(opts...)...)
}

func (w *world) options(opts ...kgo.Opt) []kgo.Opt {
	return append([]kgo.Opt{
		kgo.SeedBrokers(w.addr), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.AlwaysRetryEOF(),
		kgo.RetryBackoffFn(func(int) time.Duration { return 15 * time.Millisecond }), kgo.RequestRetries(1 << 20),
		kgo.RetryTimeout(time.Minute), kgo.UnknownTopicRetries(-1), kgo.MetadataMinAge(20 * time.Millisecond),
		kgo.MaxBufferedRecords(2000), kgo.ProducerLinger(0), kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.ConcurrentTransactionsBackoff(5 * time.Millisecond),
	}, opts...)
}

func (w *world) createTopics() error {
	text := func(s string) *string { return &s }
	bytes := map[string]string{kept: "3145728", txn: "6291456", orders: "4194304", copied: "4194304"}
	for topic, n := range partitions {
		configs := map[string]*string{"segment.bytes": text("1048576"), "segment.ms": text("400")}
		if topic == compacted {
			configs["cleanup.policy"] = text("compact")
			configs["min.cleanable.dirty.ratio"] = text("0.01")
			configs["delete.retention.ms"] = text("200")
			configs["segment.ms"] = text("150")
		} else {
			configs["retention.bytes"] = text(bytes[topic])
		}
		if _, err := w.admin.CreateTopic(w.ctx, n, 1, configs, topic); err != nil {
			return fmt.Errorf("create %s: %w", topic, err)
		}
		for range n {
			w.histories[topic] = append(w.histories[topic], &history{seen: map[int64]uint64{}})
		}
	}
	return nil
}

// start runs a worker until the world ends.
func (w *world) start(worker func() error) {
	w.workers.Go(func() {
		if err := worker(); err != nil && w.ctx.Err() == nil {
			w.fail(err)
		}
	})
}

// fail keeps the first failure.
func (w *world) fail(err error) {
	select {
	case w.failed <- err:
	default:
	}
}

// failure is what a worker has seen.
func (w *world) failure() error {
	select {
	case err := <-w.failed:
		return err
	default:
		return nil
	}
}

// nextLife starts the worker that lives as long as the broker.
func (w *world) nextLife(context.Context) {
	if w.lifeCancel != nil {
		w.lifeCancel()
	}
	var ctx context.Context
	ctx, w.lifeCancel = context.WithCancel(w.ctx)
	w.lives++
	name := fmt.Sprintf("o%d", w.lives)
	w.start(func() error { return w.produceOnce(ctx, name) })
}

// stop ends the workers. It does not wait for them: without a broker, clients take long to close.
func (w *world) stop() {
	w.lifeCancel()
	w.cancel()
}

func (w *world) inFlight() int { return int(w.pending.Load()) }

// progress waits until every kind of work has been acknowledged since it was called first in this cycle.
func (w *world) progress(ctx context.Context) error {
	before := w.counts()
	deadline := time.Now().Add(20 * time.Second)
	for {
		if err := w.failure(); err != nil {
			return err
		}
		var idle []string
		for name, n := range w.counts() {
			if n == before[name] {
				idle = append(idle, name)
			}
		}
		if len(idle) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no progress for 20 s: %s", strings.Join(idle, ", "))
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}

// counts are the acknowledged things by kind.
func (w *world) counts() map[string]int64 {
	out := map[string]int64{
		"records of idempotent producers": w.numbers.acked.Load(), "records with keys": w.keys.acked.Load(),
		"transactions that copy": w.copier.committed.Load(),
	}
	for _, t := range w.txns {
		out["transactions of "+t.id] = t.ended.Load()
	}
	for _, g := range w.groups {
		out["commits of "+g.name] = g.commits.Load()
	}
	return out
}

func (w *world) summary() string {
	var b strings.Builder
	for _, t := range w.txns {
		fmt.Fprintf(&b, "%s: %d transactions ended, %d unknown; ", t.id, t.ended.Load(), t.unknown.Load())
	}
	for _, g := range w.groups {
		fmt.Fprintf(&b, "%s: %d commits; ", g.name, g.commits.Load())
	}
	fmt.Fprintf(&b, "%d idempotent records, %d keys, %d copying transactions, %d records read again",
		w.numbers.acked.Load(), w.keys.acked.Load(), w.copier.committed.Load(), w.reread)
	return b.String()
}

// bit tells whether retention and compaction have taken something away, or the run proves less than it says.
func (w *world) bit() error {
	starts, err := w.admin.ListStartOffsets(w.ctx, kept)
	if err != nil {
		return err
	}
	moved := false
	starts.Each(func(o kadm.ListedOffset) { moved = moved || o.Offset > 0 })
	if !moved && w.lives > 40 {
		return errors.New("retention has deleted nothing")
	}
	if w.keys.gone == 0 && w.lives > 10 {
		return errors.New("compaction has removed nothing")
	}
	return nil
}

// randomOf is a source of random numbers for one worker.
func (w *world) randomOf(name string) *rand.Rand {
	h := hash([]byte(name), nil)
	return rand.New(rand.NewPCG(w.random, h))
}
