package client

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/core/record"
)

// kafkaProducer produces with a kgo client of its own: closing it is the only way to be sure that
// what it has not sent is never sent.
type kafkaProducer struct {
	*unacked
	client *kgo.Client
	// large sends records that need a batch of their own; nil before the first.
	large    *kgo.Client
	newLarge func() (*kgo.Client, error)
	// known holds the partitions that have acknowledged a record. Only Send uses it.
	known map[TopicPartition]bool
}

var _ Producer = (*kafkaProducer)(nil)

// loneBytes is the size from which a record travels in a batch of its own, through a client of its
// own that may make batches as large as requests. All others share batches that any topic takes:
// Kafka's default limit is 1 MiB.
const (
	loneBytes  = 900 << 10
	largeBatch = 64 << 20
)

// newProducer makes a client that keeps the order of what it is given.
func (k *Kafka) newProducer(more ...kgo.Opt) (*kgo.Client, error) {
	client, err := kgo.NewClient(k.kgo(append([]kgo.Opt{
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.MaxBufferedRecords(1 << 30), // the bound is BufferBytes
		kgo.StopProducerOnDataLossDetected(),
	}, more...)...)...)
	if err != nil {
		return nil, fmt.Errorf("make Kafka producer: %w", err)
	}
	return client, nil
}

// Producer implements Cluster.
func (k *Kafka) Producer() (Producer, error) {
	client, err := k.newProducer(kgo.ProducerLinger(k.opts.Linger))
	if err != nil {
		return nil, err
	}
	return &kafkaProducer{
		client: client, unacked: k.newUnacked(), known: map[TopicPartition]bool{},
		newLarge: func() (*kgo.Client, error) {
			return k.newProducer(kgo.ProducerLinger(0), kgo.ProducerBatchMaxBytes(largeBatch))
		},
	}, nil
}

// sent is one Send on its way. kgo calls its promises from one goroutine at a time.
type sent struct {
	p     *kafkaProducer
	tp    TopicPartition
	left  int
	bytes int64
	next  int64
	err   error
}

// Send implements Producer. kgo keeps the order of Produce calls per partition and retries without
// end; a record fails only where a retry is no use (too large, not allowed, topic gone).
//
// A broker that knows the producer refuses a batch that does not follow the last one it took, so
// behind a failed batch nothing is appended. But it takes any first batch of a producer it does not
// know. Therefore the very first record to a partition travels alone: only when it is acknowledged
// may several batches be on their way.
func (p *kafkaProducer) Send(ctx context.Context, tp TopicPartition, records []record.Record,
) (int, error) {
	for n := 0; n < len(records); {
		run, client := records[n:], p.client
		alone := !p.known[tp]
		if size(&run[0]) >= loneBytes {
			if err := p.Flush(ctx); err != nil { // the other client's records come first
				return n, err
			}
			if p.large == nil {
				large, err := p.newLarge()
				if err != nil {
					return n, err
				}
				p.large = large
			}
			client, alone = p.large, true
		}
		m := 1
		for !alone && m < len(run) && size(&run[m]) < loneBytes {
			m++
		}
		if err := p.produce(ctx, client, tp, run[:m]); err != nil {
			return n, err
		}
		n += m
		if !alone {
			continue
		}
		if err := p.Flush(ctx); err != nil {
			return n, err
		}
		p.known[tp] = p.known[tp] || client == p.client
	}
	return len(records), nil
}

// size is about what a record takes in a batch.
func size(r *record.Record) int {
	n := len(r.Key) + len(r.Value) + 64
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value) + 10
	}
	return n
}

// produce hands all records to kgo, or none.
func (p *kafkaProducer) produce(ctx context.Context, client *kgo.Client, tp TopicPartition,
	records []record.Record,
) error {
	s := &sent{p: p, tp: tp, left: len(records)}
	out := make([]kgo.Record, len(records))
	headers := headerSlab(records)
	for i := range records {
		r, o := &records[i], &out[i]
		o.Topic, o.Partition = tp.Topic, tp.Partition
		o.Key, o.Value = r.Key, r.Value
		o.Timestamp = time.UnixMilli(r.Timestamp)
		if n := len(r.Headers); n > 0 {
			o.Headers, headers = headers[:n:n], headers[n:]
			for j, h := range r.Headers {
				o.Headers[j] = kgo.RecordHeader{Key: h.Key, Value: h.Value}
				s.bytes += int64(len(h.Key) + len(h.Value))
			}
		}
		s.bytes += int64(len(r.Key)+len(r.Value)) + 16
	}
	if err := p.admit(ctx, s.bytes); err != nil {
		return err
	}
	done := s.done
	for i := range out {
		// Not ctx: its end would drop records from the middle of a partition's queue.
		client.Produce(context.Background(), &out[i], done)
	}
	return nil
}

// headerSlab returns space for all headers of records.
func headerSlab(records []record.Record) []kgo.RecordHeader {
	n := 0
	for i := range records {
		n += len(records[i].Headers)
	}
	if n == 0 {
		return nil
	}
	return make([]kgo.RecordHeader, n)
}

// done is the promise of every record of a Send.
func (s *sent) done(r *kgo.Record, err error) {
	s.left--
	switch {
	case err != nil && s.err == nil:
		s.err = fmt.Errorf("append to %s: %w: %w", s.tp, ErrProduce, lost(err))
	case err == nil:
		s.next = max(s.next, r.Offset+1)
	}
	if s.left > 0 {
		return
	}
	s.p.settle(s.tp, s.bytes, s.next, s.err)
}

// Close implements Producer.
func (p *kafkaProducer) Close() {
	p.waiters.remove(p.unacked)
	_ = p.fail(ErrClosed)
	p.client.Close()
	if p.large != nil {
		p.large.Close()
	}
}
