package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// checker produces and consumes, and keeps the times that records took.
type checker struct {
	sync.Mutex
	sent  map[string]time.Time
	took  []time.Duration
	acked []string
	seen  map[string]int
	errs  []error
	// worst says when the slowest record came, and what was going on.
	worst   time.Duration
	worstAt time.Time
}

// run works until load ends, and then reads what is left.
func (c *checker) run(load context.Context, n *node) error {
	c.sent, c.seen = map[string]time.Time{}, map[string]int{}
	producer, err := n.client(kgo.DefaultProduceTopic("checked"), kgo.ProducerLinger(0),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	if err != nil {
		return err
	}
	defer producer.Close()
	consumer, err := n.client(kgo.ConsumeTopics("checked"), kgo.FetchMaxWait(time.Second),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer consumer.Close()
	reading, stop := context.WithCancel(context.Background())
	defer stop()
	read := make(chan struct{})
	go func() { defer close(read); c.read(reading, consumer) }()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var inFlight sync.WaitGroup
	for i := 0; load.Err() == nil; i++ {
		value := fmt.Sprintf("%08d", i)
		c.Lock()
		c.sent[value] = time.Now()
		c.Unlock()
		inFlight.Add(1)
		producer.Produce(context.Background(), kgo.StringRecord(value), func(_ *kgo.Record, err error) {
			defer inFlight.Done()
			c.Lock()
			defer c.Unlock()
			if err != nil {
				c.errs = append(c.errs, fmt.Errorf("produce %s: %w", value, err))
				return
			}
			c.acked = append(c.acked, value)
		})
		select {
		case <-tick.C:
		case <-load.Done():
		case <-n.Ended():
			return n.How()
		}
	}
	inFlight.Wait()
	deadline := time.After(time.Minute)
	for !c.complete() {
		select {
		case <-deadline:
			return c.judge()
		case <-time.After(10 * time.Millisecond):
		}
	}
	stop()
	<-read
	return c.judge()
}

func (c *checker) read(ctx context.Context, consumer *kgo.Client) {
	last := map[int32]string{}
	for ctx.Err() == nil {
		fetches := consumer.PollFetches(ctx)
		now := time.Now()
		c.Lock()
		fetches.EachError(func(topic string, p int32, err error) {
			if ctx.Err() == nil {
				c.errs = append(c.errs, fmt.Errorf("fetch %s-%d: %w", topic, p, err))
			}
		})
		fetches.EachRecord(func(r *kgo.Record) {
			value := string(r.Value)
			if value <= last[r.Partition] {
				c.errs = append(c.errs, fmt.Errorf("partition %d has %s after %s", r.Partition, value, last[r.Partition]))
			}
			last[r.Partition] = value
			if c.seen[value]++; c.seen[value] > 1 {
				c.errs = append(c.errs, fmt.Errorf("%s is there %d times", value, c.seen[value]))
			}
			took := now.Sub(c.sent[value])
			if took > c.worst {
				c.worst, c.worstAt = took, now
			}
			c.took = append(c.took, took)
		})
		c.Unlock()
	}
}

func (c *checker) complete() bool {
	c.Lock()
	defer c.Unlock()
	for _, value := range c.acked {
		if c.seen[value] == 0 {
			return false
		}
	}
	return true
}

// judge says what went wrong.
func (c *checker) judge() error {
	c.Lock()
	defer c.Unlock()
	slices.Sort(c.took)
	at := func(q float64) time.Duration {
		if len(c.took) == 0 {
			return 0
		}
		return c.took[int(q*float64(len(c.took)-1))].Round(100 * time.Microsecond)
	}
	fmt.Printf("checker: %d sent, %d acknowledged, %d read; from producer to consumer p50 %v, p99 %v, p99.9 %v, worst %v (%s)\n",
		len(c.sent), len(c.acked), len(c.seen), at(.5), at(.99), at(.999), at(1), c.worstAt.Format(time.TimeOnly))
	lost := 0
	for _, value := range c.acked {
		if c.seen[value] == 0 {
			lost++
		}
	}
	switch {
	case lost > 0:
		return fmt.Errorf("%d acknowledged records are lost", lost)
	case len(c.errs) > 0:
		return fmt.Errorf("%d errors, the first: %w", len(c.errs), c.errs[0])
	case len(c.acked) == 0:
		return fmt.Errorf("nothing was acknowledged")
	case at(.99) > p99Limit:
		return fmt.Errorf("p99 is %v, more than %v", at(.99), p99Limit)
	case at(1) > worstLimit:
		return fmt.Errorf("a record took %v, more than %v", at(1), worstLimit)
	}
	return nil
}
