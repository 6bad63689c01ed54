package client

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/millstream-io/millstream/core/record"
)

const (
	// batchBytes is the size at which a batch is finished. A record that is larger travels alone;
	// all others share batches that any topic takes: Kafka's default limit is 1 MiB.
	batchBytes = 256 << 10
	// maxSpare bounds the memory of builders kept for further batches.
	maxSpare = 4
)

// txnLane is one partition that a transactor writes to.
type txnLane struct {
	tp TopicPartition
	// building is the batch that takes records, nil when there is none; counted are its bytes that
	// openBytes has. sequence is that of its first record.
	building *record.Builder
	counted  int64
	sequence int32
	// added: the transaction knows the partition.
	added bool

	// Under the queue's lock: batches are finished and not acknowledged, in order; busy says that
	// the first is on its way.
	batches []*txnBatch
	busy    bool
	// leader is -1 when it has to be looked up. tries failed since the last answer, the next one is
	// not before retry, by a clock that does not jump.
	leader int32
	tries  int
	// unknown is how many times in a row the broker did not know the topic.
	unknown int
	retry   time.Time
}

// txnBatch is a finished batch; builder has its memory.
type txnBatch struct {
	builder *record.Builder
	batch   record.Batch
	records int64
	bytes   int64
}

// Send implements Producer. Records are encoded at once, so nobody refers to them afterwards.
func (t *kafkaTransactor) Send(ctx context.Context, tp TopicPartition, records []record.Record,
) (int, error) {
	if len(records) == 0 {
		return 0, nil
	}
	if err := t.failed(); err != nil {
		return 0, err
	}
	t.begun = true
	l := t.lane(tp)
	for i := range records {
		r := &records[i]
		if b := l.building; b != nil && b.Size()+size(r) > batchBytes {
			if err := t.admit(ctx, int64(b.Size())); err != nil {
				return i, err
			}
			if err := t.finish(l); err != nil {
				return i, err
			}
		}
		if l.building == nil {
			t.start(l)
		}
		l.building.Append(*r)
	}
	t.openBytes += int64(l.building.Size()) - l.counted
	l.counted = int64(l.building.Size())
	if t.openBytes > t.limit/2 { // many partitions, each with little
		return len(records), t.finishAdmitted(ctx)
	}
	return len(records), nil
}

// finishAdmitted puts all batches on their way, as many as may be. Those that are left go with the
// next flush.
func (t *kafkaTransactor) finishAdmitted(ctx context.Context) error {
	for len(t.open) > 0 {
		l := t.open[len(t.open)-1]
		if err := t.admit(ctx, int64(l.building.Size())); err != nil {
			return err
		}
		if err := t.finish(l); err != nil {
			return err
		}
	}
	return nil
}

// lane returns that of a partition.
func (t *kafkaTransactor) lane(tp TopicPartition) *txnLane {
	l := t.lanes[tp]
	if l == nil {
		l = &txnLane{tp: tp, leader: -1}
		t.lanes[tp] = l
	}
	return l
}

// start begins a batch of a lane.
func (t *kafkaTransactor) start(l *txnLane) {
	l.building = t.builder()
	l.building.Reset(record.BuilderOptions{LeaderEpoch: -1, Idempotent: true, Transactional: true,
		ProducerID: t.pid, ProducerEpoch: t.epoch, BaseSequence: l.sequence})
	t.open = append(t.open, l)
}

// builder returns one that nobody uses.
func (t *kafkaTransactor) builder() *record.Builder {
	t.queue.Lock()
	defer t.queue.Unlock()
	if n := len(t.queue.spare); n > 0 {
		b := t.queue.spare[n-1]
		t.queue.spare = t.queue.spare[:n-1]
		return b
	}
	return &record.Builder{}
}

// finish puts the batch of a lane on its way, which was admitted.
func (t *kafkaTransactor) finish(l *txnLane) error {
	b := l.building
	t.openBytes -= l.counted
	l.building, l.counted = nil, 0
	t.open = slices.DeleteFunc(t.open, func(o *txnLane) bool { return o == l })
	batch, err := b.Build()
	if err != nil { // more than a batch can say: only one record can be as large
		err = fmt.Errorf("append to %s: %w: %w", l.tp, ErrProduce, err)
		t.settle(l.tp, int64(b.Size()), 0, err)
		return err
	}
	l.sequence = int32((int64(l.sequence) + int64(b.Count())) & 0x7fffffff) // KIP-98: wraps to 0
	t.queue.Lock()
	if len(l.batches) == 0 {
		t.queue.lanes = append(t.queue.lanes, l)
	}
	l.batches = append(l.batches, &txnBatch{builder: b, batch: batch, records: int64(b.Count()),
		bytes: int64(b.Size())})
	t.kickLocked()
	t.queue.Unlock()
	return nil
}

// finishAll puts all batches on their way. A failure is kept for Flush.
func (t *kafkaTransactor) finishAll() {
	for len(t.open) > 0 {
		l := t.open[len(t.open)-1]
		t.add(int64(l.building.Size()))
		if t.finish(l) != nil {
			return
		}
	}
}

// Flush implements Producer.
func (t *kafkaTransactor) Flush(ctx context.Context) error {
	t.finishAll()
	return t.unacked.Flush(ctx)
}
