package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/record"
)

const (
	// requestBytes bounds one request, which has a batch of each of some partitions.
	requestBytes = 4 << 20
	// produceTimeout is how long a broker waits for its followers before it answers.
	produceTimeout = 10 * time.Second
)

// txnQueue is what a transactor's senders share.
type txnQueue struct {
	sync.Mutex
	// lanes have batches that are not acknowledged.
	lanes []*txnLane
	// busy are the brokers that are being sent to; looking: leaders are being asked for.
	busy    map[int32]bool
	looking bool
	closed  bool
	// spare are builders for further batches.
	spare []*record.Builder
	// quiet is closed when nothing is on its way any more; nil when nobody waits.
	quiet chan struct{}
}

// kick sends what can be sent.
func (t *kafkaTransactor) kick() {
	t.queue.Lock()
	defer t.queue.Unlock()
	t.kickLocked()
}

func (t *kafkaTransactor) kickLocked() {
	q := &t.queue
	if q.closed || t.failed() != nil {
		return
	}
	now := time.Now()
	var unknown []*txnLane
	for i, l := range q.lanes {
		switch {
		case l.busy || len(l.batches) == 0:
		case l.retry.After(now):
		case l.leader < 0:
			unknown = append(unknown, l)
		case !q.busy[l.leader]:
			leader := l.leader
			list := t.takeLocked(q.lanes[i:], leader, now)
			t.running.Go(func() { t.produce(leader, list) })
		}
	}
	if len(unknown) > 0 && !q.looking {
		q.looking = true
		t.running.Go(func() { t.lookUp(unknown) })
	}
}

// takeLocked takes lanes of a leader for one request. The first one has a batch for it.
func (t *kafkaTransactor) takeLocked(lanes []*txnLane, leader int32, now time.Time) []*txnLane {
	var list []*txnLane
	bytes := 0
	for _, l := range lanes {
		if l.busy || len(l.batches) == 0 || l.leader != leader || l.retry.After(now) {
			continue
		}
		if bytes += len(l.batches[0].batch); len(list) > 0 && bytes > requestBytes {
			break
		}
		l.busy = true
		list = append(list, l)
	}
	t.queue.busy[leader] = true
	return list
}

// produce sends the first batch of each lane to their leader.
func (t *kafkaTransactor) produce(leader int32, list []*txnLane) {
	err := t.tell(list)
	var answer *kmsg.ProduceResponse
	if err == nil {
		var resp kmsg.Response
		resp, err = t.client.Broker(int(leader)).Request(t.closing, t.request(list))
		answer, _ = resp.(*kmsg.ProduceResponse)
	}
	for _, l := range list {
		base, failed := int64(-1), err
		if failed == nil {
			base, failed = answerOf(answer, l.tp)
		}
		t.answered(l, base, failed)
	}
	t.queue.Lock()
	delete(t.queue.busy, leader)
	t.kickLocked()
	t.quietLocked()
	t.queue.Unlock()
}

// tell makes partitions known to the transaction, where batches do not do that.
func (t *kafkaTransactor) tell(list []*txnLane) error {
	if t.bumps {
		return nil
	}
	add := kmsg.NewPtrAddPartitionsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch = t.id, t.pid, t.epoch
	for _, l := range list {
		if l.added {
			continue
		}
		i := slices.IndexFunc(add.Topics, func(x kmsg.AddPartitionsToTxnRequestTopic) bool {
			return x.Topic == l.tp.Topic
		})
		if i < 0 {
			i = len(add.Topics)
			topic := kmsg.NewAddPartitionsToTxnRequestTopic()
			topic.Topic = l.tp.Topic
			add.Topics = append(add.Topics, topic)
		}
		add.Topics[i].Partitions = append(add.Topics[i].Partitions, l.tp.Partition)
	}
	if len(add.Topics) == 0 {
		return nil
	}
	err := settled(t.closing, func() error {
		resp, err := add.RequestWith(t.closing, t.client)
		if err != nil {
			return err
		}
		for _, topic := range resp.Topics {
			for _, p := range topic.Partitions {
				err := kerr.ErrorForCode(p.ErrorCode)
				if errors.Is(err, kerr.OperationNotAttempted) {
					continue // because of another partition, which says why
				}
				if err != nil {
					return fmt.Errorf("add %s-%d to the transaction: %w", topic.Topic, p.Partition, err)
				}
			}
		}
		return kerr.ErrorForCode(resp.ErrorCode)
	})
	if err != nil {
		return err
	}
	for _, l := range list {
		l.added = true
	}
	return nil
}

// request makes the request of the first batch of each lane.
func (t *kafkaTransactor) request(list []*txnLane) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.TransactionID, req.Acks = &t.id, -1
	req.TimeoutMillis = int32(produceTimeout.Milliseconds())
	t.queue.Lock()
	defer t.queue.Unlock()
	for _, l := range list {
		i := slices.IndexFunc(req.Topics, func(x kmsg.ProduceRequestTopic) bool {
			return x.Topic == l.tp.Topic
		})
		if i < 0 {
			i = len(req.Topics)
			topic := kmsg.NewProduceRequestTopic()
			topic.Topic = l.tp.Topic
			req.Topics = append(req.Topics, topic)
		}
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = l.tp.Partition, l.batches[0].batch
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, p)
	}
	return req
}

// answerOf finds what a broker says of a partition: the offset of the first record.
func answerOf(resp *kmsg.ProduceResponse, tp TopicPartition) (base int64, err error) {
	for i := range resp.Topics {
		if resp.Topics[i].Topic != tp.Topic {
			continue
		}
		for j := range resp.Topics[i].Partitions {
			p := &resp.Topics[i].Partitions[j]
			if p.Partition != tp.Partition {
				continue
			}
			err := kerr.ErrorForCode(p.ErrorCode)
			if errors.Is(err, kerr.DuplicateSequenceNumber) { // the first try had come through
				err = nil
			}
			return p.BaseOffset, err
		}
	}
	return -1, fmt.Errorf("no answer for the partition: %w", kerr.UnknownServerError)
}

// answered takes the first batch of a lane off its way, or has it sent again.
func (t *kafkaTransactor) answered(l *txnLane, base int64, err error) {
	t.queue.Lock()
	l.busy = false
	b := l.batches[0]
	if err == nil {
		l.batches = slices.Delete(l.batches, 0, 1)
		l.tries, l.unknown = 0, 0
		if len(l.batches) == 0 {
			t.queue.lanes = slices.DeleteFunc(t.queue.lanes, func(o *txnLane) bool { return o == l })
		}
		if len(t.queue.spare) < maxSpare && len(b.batch) <= 2*batchBytes {
			t.queue.spare = append(t.queue.spare, b.builder)
		}
		t.queue.Unlock()
		next := int64(0)
		if base >= 0 {
			next = base + b.records
		}
		t.settle(l.tp, b.bytes, next, nil)
		return
	}
	again := t.again(l, err)
	t.queue.Unlock()
	if !again {
		_ = t.fail(fmt.Errorf("append to %s: %w: %w", l.tp, ErrProduce, lost(err)))
	}
}

// again has a batch sent once more when that may help: the broker knows it by its sequence. The
// queue is locked.
func (t *kafkaTransactor) again(l *txnLane, err error) bool {
	unknown := errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID)
	_, answer := errors.AsType[*kerr.Error](err)
	wait := backoff(l.tries)
	if !unknown {
		l.unknown = 0
	}
	switch {
	case t.queue.closed, t.closing.Err() != nil:
		return false
	case errors.Is(err, kerr.ConcurrentTransactions): // the markers of the last one are being written
		wait = soon(l.tries)
	case answer && !kerr.IsRetriable(err), unknown && l.unknown >= unknownTries:
		return false
	default:
		l.leader = -1
	}
	if unknown {
		l.unknown++
	}
	l.tries++
	l.retry = time.Now().Add(wait)
	time.AfterFunc(wait, t.kick)
	return true
}

// lookUp asks who leads partitions.
func (t *kafkaTransactor) lookUp(list []*txnLane) {
	var names []string
	for _, l := range list {
		if !slices.Contains(names, l.tp.Topic) {
			names = append(names, l.tp.Topic)
		}
	}
	request := kmsg.NewPtrMetadataRequest()
	for i := range names {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &names[i]
		request.Topics = append(request.Topics, topic)
	}
	metadata, err := request.RequestWith(t.closing, t.client)
	for _, l := range list {
		leader, failed := int32(-1), err
		if failed == nil {
			leader, _, failed = leaderOf(l.tp, metadata)
		}
		if failed == nil && leader < 0 {
			failed = kerr.LeaderNotAvailable
		}
		t.queue.Lock()
		again := true
		if failed == nil {
			l.leader = leader
		} else {
			again = t.again(l, failed)
		}
		t.queue.Unlock()
		if !again {
			_ = t.fail(fmt.Errorf("append to %s: %w: %w", l.tp, ErrProduce, lost(failed)))
		}
	}
	t.queue.Lock()
	t.queue.looking = false
	t.kickLocked()
	t.quietLocked()
	t.queue.Unlock()
}

// idle waits until nothing is on its way; false when ctx ended before.
func (t *kafkaTransactor) idle(ctx context.Context) bool {
	t.queue.Lock()
	quiet := make(chan struct{})
	t.queue.quiet = quiet
	t.quietLocked()
	t.queue.Unlock()
	select {
	case <-quiet:
		return true
	case <-ctx.Done():
		return false
	}
}

func (t *kafkaTransactor) quietLocked() {
	if t.queue.quiet != nil && len(t.queue.busy) == 0 {
		close(t.queue.quiet)
		t.queue.quiet = nil
	}
}
