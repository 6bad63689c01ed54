package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/record"
)

// transactionTimeout is how long the log keeps a transaction open whose producer says nothing: as
// long as readers may have to wait behind one that was killed, unless its next holder ends it.
const transactionTimeout = 40 * time.Second

// laneBytes bounds what one partition has on its way. It keeps batches below what any topic takes
// (Kafka's default limit is 1 MiB), although the client would make them as large as requests.
const laneBytes = loneBytes

// kafkaTransactor is a kgo client with a transactional id. A client of its own per id, because the
// id, the producer epoch and the sequences of all partitions belong together.
type kafkaTransactor struct {
	kafkaProducer
	id    string
	begun bool
	admin kafkaAdmin
	// ids are the topic ids of topics whose offsets were committed: from version 6 on the request
	// has those in the place of names.
	ids map[string][16]byte
	// waiting is what each partition has on its way, guarded by kafkaProducer.mu.
	waiting map[TopicPartition]int64
}

var _ Transactor = (*kafkaTransactor)(nil)

// Transactor implements Cluster.
func (k *Kafka) Transactor(ctx context.Context, id string) (Transactor, error) {
	client, err := k.newProducer(kgo.ProducerLinger(k.opts.Linger), kgo.TransactionalID(id),
		kgo.TransactionTimeout(transactionTimeout), kgo.ProducerBatchMaxBytes(largeBatch))
	if err != nil {
		return nil, err
	}
	// This takes the id over: epochs before are refused from now on, and the answer comes when a
	// transaction that was open has its markers.
	err = settled(ctx, func() error {
		_, _, err := client.ProducerID(ctx)
		return err
	})
	if err != nil {
		client.Close()
		return nil, fmt.Errorf("take over transactional id %s: %w", id, lost(err))
	}
	t := &kafkaTransactor{id: id, admin: k.admin, ids: map[string][16]byte{},
		waiting: map[TopicPartition]int64{}}
	t.client, t.limit, t.stall, t.log = client, k.opts.BufferBytes, k.opts.StallAfter, k.opts.Logger
	t.mu.acked = map[TopicPartition]int64{}
	t.onMove = func(tp TopicPartition, bytes int64) { t.waiting[tp] += bytes }
	return t, nil
}

// Send implements Producer.
func (t *kafkaTransactor) Send(ctx context.Context, tp TopicPartition, records []record.Record,
) (int, error) {
	if len(records) > 0 && !t.begun {
		if err := t.client.BeginTransaction(); err != nil {
			return 0, fmt.Errorf("begin transaction of %s: %w", t.id, lost(err))
		}
		t.begun = true
	}
	for n := 0; n < len(records); {
		m, bytes := n, int64(0)
		for m < len(records) && (m == n || bytes+int64(size(&records[m])) <= laneBytes) {
			bytes += int64(size(&records[m]))
			m++
		}
		if err := t.room(ctx, tp, bytes); err != nil {
			return n, err
		}
		if err := t.produce(ctx, t.client, tp, records[n:m]); err != nil {
			return n, err
		}
		n = m
	}
	return len(records), nil
}

// room waits until bytes more of a partition may be on their way.
func (t *kafkaTransactor) room(ctx context.Context, tp TopicPartition, bytes int64) error {
	for {
		t.mu.Lock()
		if err := t.mu.err; err != nil {
			t.mu.Unlock()
			return err
		}
		have := t.waiting[tp]
		if have <= 0 || have+bytes <= laneBytes {
			t.mu.Unlock()
			return nil
		}
		moved, all := t.movedLocked(), t.mu.bytes
		t.mu.Unlock()
		if err := t.wait(ctx, moved, all); err != nil {
			return err
		}
	}
}

// Commit implements Transactor.
func (t *kafkaTransactor) Commit(ctx context.Context, group string,
	next map[TopicPartition]int64,
) error {
	if err := t.Flush(ctx); err != nil {
		return err
	}
	if !t.begun {
		return nil
	}
	if len(next) > 0 {
		if err := t.offsets(ctx, group, next); err != nil {
			return t.fail(fmt.Errorf("commit offsets of group %s in transaction of %s: %w", group, t.id,
				lost(err)))
		}
	}
	// Whatever error comes now, the log may have taken the commit: only who takes over the id can
	// tell.
	if err := t.client.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return t.fail(fmt.Errorf("commit transaction of %s: %w: %w", t.id, ErrLost, err))
	}
	t.begun = false
	return nil
}

// fail makes err the answer to everything that follows.
func (t *kafkaTransactor) fail(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.err == nil {
		t.mu.err = err
	}
	return err
}

// offsets makes offsets of a group part of the transaction. The member of the group is left out:
// what keeps a former owner of the partitions out is the epoch of the transactional id.
func (t *kafkaTransactor) offsets(ctx context.Context, group string,
	next map[TopicPartition]int64,
) error {
	pid, epoch, err := t.client.ProducerID(ctx)
	if err != nil {
		return err
	}
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = t.id, pid, epoch, group
	err = settled(ctx, func() error {
		resp, err := add.RequestWith(ctx, t.client)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(resp.ErrorCode)
	})
	if err != nil {
		return err
	}
	commit := kmsg.NewPtrTxnOffsetCommitRequest()
	commit.TransactionalID, commit.ProducerID, commit.ProducerEpoch = t.id, pid, epoch
	commit.Group, commit.Generation = group, -1
	at := map[string]int{}
	for tp, offset := range next {
		i, ok := at[tp.Topic]
		if !ok {
			i = len(commit.Topics)
			at[tp.Topic] = i
			topic := kmsg.NewTxnOffsetCommitRequestTopic()
			if topic.TopicID, err = t.topicID(ctx, tp.Topic); err != nil {
				return err
			}
			topic.Topic = tp.Topic
			commit.Topics = append(commit.Topics, topic)
		}
		p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset = tp.Partition, offset
		commit.Topics[i].Partitions = append(commit.Topics[i].Partitions, p)
	}
	err = settled(ctx, func() error {
		resp, err := commit.RequestWith(ctx, t.client)
		if err != nil {
			return err
		}
		for _, topic := range resp.Topics {
			for _, p := range topic.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return fmt.Errorf("%s-%d: %w", topic.Topic, p.Partition, err)
				}
			}
		}
		return nil
	})
	if err != nil {
		clear(t.ids)
	}
	return err
}

// topicID returns the id of a topic.
func (t *kafkaTransactor) topicID(ctx context.Context, topic string) ([16]byte, error) {
	if id, ok := t.ids[topic]; ok {
		return id, nil
	}
	details, err := t.admin.client.ListTopicsWithInternal(ctx, topic)
	if err != nil {
		return [16]byte{}, err
	}
	d, ok := details[topic]
	if !ok || d.Err != nil {
		return [16]byte{}, fmt.Errorf("find topic %s: %w", topic, errors.Join(d.Err, ErrUnknownTopic))
	}
	t.ids[topic] = d.ID
	return d.ID, nil
}

// Abort implements Transactor.
func (t *kafkaTransactor) Abort(ctx context.Context) {
	if !t.begun {
		return
	}
	_ = t.fail(ErrClosed)
	if err := t.client.AbortBufferedRecords(ctx); err != nil {
		return
	}
	if err := t.client.EndTransaction(ctx, kgo.TryAbort); err != nil {
		t.log.Info("transaction not aborted; its id's next holder does it", "id", t.id, "error", err)
	}
	t.begun = false
}

// gone tells that a topic was deleted: waiting does not help.
func gone(err error) bool {
	return errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, kerr.UnknownTopicOrPartition)
}

// settled calls fn again while the answer says that it will do shortly: a coordinator that moves or
// loads, the markers of the last transaction on their way.
func settled(ctx context.Context, fn func() error) error {
	for try := 0; ; try++ {
		err := fn()
		wait := notYet(err) || errors.Is(err, kerr.ConcurrentTransactions)
		if err == nil || !wait || gone(err) {
			return err
		}
		pause := time.NewTimer(backoff(try))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return errors.Join(err, ctx.Err())
		}
	}
}

// ends are the answers that mean that a transaction, or the right to one, is gone.
var ends = []error{
	kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.InvalidProducerIDMapping,
	kerr.UnknownProducerID, kerr.InvalidTxnState, kerr.TransactionAbortable,
	kerr.TransactionCoordinatorFenced, kerr.OutOfOrderSequenceNumber, kerr.ConcurrentTransactions,
	kerr.IllegalGeneration, kerr.UnknownMemberID, kerr.FencedInstanceID, kerr.RebalanceInProgress,
	kerr.TransactionalIDNotFound, kerr.StaleMemberEpoch, kerr.FencedMemberEpoch,
}

// lost marks an error of transactions as ErrLost.
func lost(err error) error {
	for _, end := range ends {
		if errors.Is(err, end) {
			return fmt.Errorf("%w: %w", ErrLost, err)
		}
	}
	if _, ok := errors.AsType[*kgo.ErrDataLoss](err); ok {
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	return domain(err)
}
