package client

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/core/record"
)

// kafkaConsumer reads with a kgo client of its own, without a group. It keeps its own positions:
// what kgo has buffered when a partition is moved or taken away is dropped by them.
type kafkaConsumer struct {
	client *kgo.Client

	mu struct {
		sync.Mutex
		at map[TopicPartition]int64 // next offset to hand out
	}
}

var _ Consumer = (*kafkaConsumer)(nil)

// Consumer implements Cluster.
func (k *Kafka) Consumer() (Consumer, error) {
	client, err := kgo.NewClient(k.kgo(
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxBytes(k.opts.FetchBytes),
		kgo.FetchMaxPartitionBytes(min(k.opts.FetchBytes, 1<<20)),
		kgo.FetchMaxWait(k.opts.FetchWait),
		kgo.KeepControlRecords(), // so that the position moves over them
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	)...)
	if err != nil {
		return nil, fmt.Errorf("make Kafka consumer: %w", err)
	}
	c := &kafkaConsumer{client: client}
	c.mu.at = map[TopicPartition]int64{}
	return c, nil
}

func (c *kafkaConsumer) Assign(tp TopicPartition, offset int64) {
	c.mu.Lock()
	_, had := c.mu.at[tp]
	c.mu.at[tp] = offset
	c.mu.Unlock()
	if had {
		c.client.RemoveConsumePartitions(byTopic([]TopicPartition{tp}))
	}
	c.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{
		tp.Topic: {tp.Partition: kgo.NewOffset().At(offset)},
	})
}

func (c *kafkaConsumer) Unassign(tps ...TopicPartition) {
	c.mu.Lock()
	for _, tp := range tps {
		delete(c.mu.at, tp)
	}
	c.mu.Unlock()
	c.client.ResumeFetchPartitions(byTopic(tps))
	c.client.RemoveConsumePartitions(byTopic(tps))
}

func (c *kafkaConsumer) Pause(tps ...TopicPartition) {
	if len(tps) > 0 {
		c.client.PauseFetchPartitions(byTopic(tps))
	}
}

func (c *kafkaConsumer) Resume(tps ...TopicPartition) {
	if len(tps) > 0 {
		c.client.ResumeFetchPartitions(byTopic(tps))
	}
}

func (c *kafkaConsumer) Close() { c.client.Close() }

func byTopic(tps []TopicPartition) map[string][]int32 {
	m := map[string][]int32{}
	for _, tp := range tps {
		m[tp.Topic] = append(m[tp.Topic], tp.Partition)
	}
	return m
}

func (c *kafkaConsumer) Poll(ctx context.Context) ([]Fetched, error) {
	for {
		fetches := c.client.PollFetches(ctx)
		var runs []Fetched
		var failed error
		fetches.EachPartition(func(p kgo.FetchTopicPartition) {
			tp := TopicPartition{p.Topic, p.Partition}
			if p.Err != nil && failed == nil {
				failed = c.failure(ctx, tp, p.Err)
			}
			if run, ok := c.take(tp, &p.FetchPartition); ok {
				runs = append(runs, run)
			}
		})
		switch {
		case failed != nil:
			return nil, failed
		case len(runs) > 0:
			return runs, nil
		}
	}
}

// failure words an error of a poll; nil when it concerns a partition that is not read any more.
func (c *kafkaConsumer) failure(ctx context.Context, tp TopicPartition, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if tp.Topic == "" {
		return fmt.Errorf("poll: %w", domain(err))
	}
	c.mu.Lock()
	at, assigned := c.mu.at[tp]
	c.mu.Unlock()
	if !assigned {
		return nil
	}
	return fmt.Errorf("read %s at %d: %w", tp, at, domain(err))
}

// take turns what kgo fetched of one partition into a run and moves the position.
func (c *kafkaConsumer) take(tp TopicPartition, p *kgo.FetchPartition) (Fetched, bool) {
	if len(p.Records) == 0 {
		return Fetched{}, false
	}
	c.mu.Lock()
	at, assigned := c.mu.at[tp]
	last := p.Records[len(p.Records)-1].Offset
	if !assigned || last < at {
		c.mu.Unlock()
		return Fetched{}, false
	}
	c.mu.at[tp] = last + 1
	c.mu.Unlock()
	run := Fetched{TopicPartition: tp, From: at, Next: last + 1, End: p.HighWatermark}
	run.Records = convert(p.Records, at)
	return run, true
}

// convert copies record structs, not their bytes, leaving out control records and those before
// offset from.
func convert(in []*kgo.Record, from int64) []record.Record {
	n := 0
	for _, r := range in {
		n += len(r.Headers)
	}
	headers := make([]record.Header, 0, n)
	out := make([]record.Record, 0, len(in))
	for _, r := range in {
		if r.Offset < from || r.Attrs.IsControl() {
			continue
		}
		o := record.Record{
			Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), Key: r.Key, Value: r.Value,
		}
		if len(r.Headers) > 0 {
			first := len(headers)
			for _, h := range r.Headers {
				headers = append(headers, record.Header{Key: h.Key, Value: h.Value})
			}
			o.Headers = headers[first:len(headers):len(headers)]
		}
		out = append(out, o)
	}
	return out
}

// millis returns the time of a record timestamp, for kgo.
func millis(ms int64) time.Time { return time.UnixMilli(ms) }
