package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// member is a member of a group that has the topic "shared".
type member struct {
	mu    sync.Mutex
	parts map[int32]bool
}

func startMember(ctx context.Context, protocol string) (*member, error) {
	m := &member{parts: map[int32]bool{}}
	gone := func(_ context.Context, _ *kgo.Client, lost map[string][]int32) { m.set(lost["shared"], false) }
	opts := []kgo.Opt{kgo.ConsumerGroup(protocol), kgo.ConsumeTopics("shared"), kgo.SessionTimeout(sessionTimeout),
		kgo.HeartbeatInterval(time.Second), kgo.OnPartitionsRevoked(gone), kgo.OnPartitionsLost(gone),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, got map[string][]int32) { m.set(got["shared"], true) })}
	if protocol == "kip848" {
		opts = append(opts, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
	}
	cl, err := client(opts...)
	if err != nil {
		return nil, err
	}
	go func() {
		for ctx.Err() == nil {
			cl.PollFetches(ctx)
		}
		cl.Close()
	}()
	return m, nil
}

func (m *member) set(parts []int32, owned bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range parts {
		if m.parts[p] = true; !owned {
			delete(m.parts, p)
		}
	}
}

// count returns how many partitions the member has.
func (m *member) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.parts)
}

// others are the clients that stay.
type others struct {
	cancel  context.CancelFunc
	client  *kgo.Client
	members map[string]*member
	// markSeen is set when a record behind the open transaction is read with read_committed.
	markSeen atomic.Bool

	mu sync.Mutex
	// took are the times of records from their producer to their consumer.
	took []time.Duration
	errs []error
}

func startOthers(ctx context.Context, n *node) (o *others, err error) {
	o = &others{members: map[string]*member{}}
	ctx, o.cancel = context.WithCancel(ctx)
	if o.client, err = client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0)); err != nil {
		return nil, err
	}
	for topic, partitions := range map[string]int32{"steady": 1, "shared": sharedPartitions, "numbers": 3, "ledger": 1, "large": 1} {
		if _, err := kadm.NewClient(o.client).CreateTopic(ctx, partitions, 1, nil, topic); err != nil {
			return nil, fmt.Errorf("create %s: %w", topic, err)
		}
	}
	if err := transact(ctx); err != nil {
		return nil, err
	}
	noise := make([]byte, 100<<10)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	for range 100 {
		if err := o.client.ProduceSync(ctx, &kgo.Record{Topic: "large", Value: noise}).FirstErr(); err != nil {
			return nil, err
		}
	}
	for _, protocol := range []string{"classic", "kip848"} {
		if o.members[protocol], err = startMember(ctx, protocol); err != nil {
			return nil, err
		}
	}
	if err := o.consumeAll(ctx); err != nil {
		return nil, err
	}
	go o.produce(ctx)
	alone := func() bool {
		return o.owned("classic") == sharedPartitions && o.owned("kip848") == sharedPartitions && o.timed() > 10
	}
	_, err = n.Until(ctx, 20*time.Second, "the members have all partitions", alone)
	return o, err
}

// transact makes one transaction, so that the files of transactions are there when descriptors are counted first.
func transact(ctx context.Context) error {
	cl, err := client(kgo.TransactionalID("first"))
	if err != nil {
		return err
	}
	defer cl.Close()
	if err := cl.BeginTransaction(); err != nil {
		return err
	}
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "numbers", Value: []byte("first")}).FirstErr(); err != nil {
		return err
	}
	return cl.EndTransaction(ctx, kgo.TryCommit)
}

func (o *others) close() {
	o.cancel()
	o.client.Close()
}

func (o *others) owned(protocol string) int { return o.members[protocol].count() }

func (o *others) timed() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.took)
}

func (o *others) failed(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.errs = append(o.errs, err)
}

// produce writes records with the time into "steady", one after the other.
func (o *others) produce(ctx context.Context) {
	for ctx.Err() == nil {
		now := strconv.FormatInt(time.Now().UnixNano(), 10)
		err := o.client.ProduceSync(ctx, &kgo.Record{Topic: "steady", Value: []byte(now)}).FirstErr()
		if err != nil && ctx.Err() == nil {
			o.failed(fmt.Errorf("produce: %w", err))
		}
		_ = pause(ctx)
	}
}

// consumeAll starts the consumers of "steady" and of "ledger".
func (o *others) consumeAll(ctx context.Context) error {
	steady := func(r *kgo.Record) {
		nanos, _ := strconv.ParseInt(string(r.Value), 10, 64)
		o.mu.Lock()
		defer o.mu.Unlock()
		o.took = append(o.took, time.Since(time.Unix(0, nanos)))
	}
	ledger := func(r *kgo.Record) {
		if string(r.Value) != "mark" {
			o.failed(fmt.Errorf("a record of the open transaction is read: %s", r.Value))
		}
		o.markSeen.Store(true)
	}
	for topic, each := range map[string]func(*kgo.Record){"steady": steady, "ledger": ledger} {
		cl, err := client(kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(time.Second),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		if err != nil {
			return err
		}
		go func() {
			defer cl.Close()
			for ctx.Err() == nil {
				fetches := cl.PollFetches(ctx)
				fetches.EachRecord(each)
				if err := fetches.Err0(); err != nil && ctx.Err() == nil {
					o.failed(fmt.Errorf("fetch %s: %w", topic, err))
				}
			}
		}()
	}
	return nil
}

// mark writes a record behind the open transaction.
func (o *others) mark(ctx context.Context) error {
	return o.client.ProduceSync(ctx, &kgo.Record{Topic: "ledger", Value: []byte("mark")}).FirstErr()
}

func (o *others) marked() bool { return o.markSeen.Load() }

// judge says how those that stayed were served.
func (o *others) judge() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	slices.Sort(o.took)
	at := func(q float64) time.Duration {
		return o.took[int(q*float64(len(o.took)-1))].Round(100 * time.Microsecond)
	}
	fmt.Printf("others: %d records from producer to consumer, p50 %v, p99 %v, worst %v, %d errors\n", len(o.took), at(.5),
		at(.99), at(1), len(o.errs))
	if worst := at(1); worst > worstLimit {
		return fmt.Errorf("a record took %v, more than %v", worst, worstLimit)
	}
	return errors.Join(o.errs...)
}

// readBack looks that each of so many numbers is there once.
func (o *others) readBack(ctx context.Context, acked int) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	offsets, err := kadm.NewClient(o.client).ListEndOffsets(ctx, "numbers")
	if err != nil {
		return err
	}
	next := map[int32]int64{}
	left := func() (n int64) {
		offsets.Each(func(l kadm.ListedOffset) { n += max(l.Offset-next[l.Partition], 0) })
		return n
	}
	cl, err := client(kgo.ConsumeTopics("numbers"), kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer cl.Close()
	seen := map[string]int{}
	for left() > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("read the numbers: %w", err)
		}
		fetches.EachRecord(func(r *kgo.Record) { seen[string(r.Value)]++; next[r.Partition] = r.Offset + 1 })
	}
	for i := range acked {
		if n := seen[strconv.Itoa(i)]; n != 1 {
			return fmt.Errorf("record %d is there %d times", i, n)
		}
	}
	fmt.Printf("each of %d acknowledged records is there once\n", acked)
	return nil
}
