package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// transactionTimeout is how long the log keeps a transaction open whose producer says nothing: as
// long as readers may have to wait behind one that was killed, unless its next holder ends it.
const transactionTimeout = 40 * time.Second

// kafkaTransactor is the producer of a transactional id. It makes the batches of each partition
// itself, as records come, and sends the finished ones, one request at a time to each broker, with
// the sequences by which a broker knows a batch that comes again. Its user's goroutine makes
// batches and ends transactions; queue has what others need to send them.
type kafkaTransactor struct {
	*unacked
	client *kgo.Client // connections only
	id     string
	admin  kafkaAdmin
	// bumps: transactions are those of KIP-890, version 2. A batch takes its partition into the
	// transaction, and the end of one raises the epoch. Else partitions are told before.
	bumps bool
	// pid and epoch are those of the transaction that is open or next.
	pid   int64
	epoch int16
	begun bool
	// ids are the topic ids of topics whose offsets were committed: from version 6 on the request
	// has those in the place of names.
	ids   map[string][16]byte
	lanes map[TopicPartition]*txnLane
	// open are the lanes with a batch that is not finished, openBytes what is in those.
	open      []*txnLane
	openBytes int64

	closing context.Context
	close   context.CancelFunc
	running sync.WaitGroup
	queue   txnQueue
}

var _ Transactor = (*kafkaTransactor)(nil)

// Transactor implements Cluster.
func (k *Kafka) Transactor(ctx context.Context, id string) (Transactor, error) {
	bumps, err := k.transactionsBump(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask for the features of the cluster: %w", domain(err))
	}
	client, err := kgo.NewClient(k.kgo(kgo.MaxVersions(txnVersions(bumps)))...)
	if err != nil {
		return nil, fmt.Errorf("make Kafka transactor: %w", err)
	}
	t := &kafkaTransactor{unacked: k.newUnacked(), client: client, id: id, admin: k.admin,
		bumps: bumps, ids: map[string][16]byte{}, lanes: map[TopicPartition]*txnLane{}}
	t.closing, t.close = context.WithCancel(context.Background())
	t.queue.busy = map[int32]bool{}
	answered := k.waiters.ask("transactional id %s cannot be taken over", id)
	err = t.takeOver(ctx)
	answered()
	if err != nil {
		t.Close()
		return nil, fmt.Errorf("take over transactional id %s: %w", id, lost(err))
	}
	return t, nil
}

// transactionsBump tells whether the cluster's transactions are those of version 2.
func (k *Kafka) transactionsBump(ctx context.Context) (bool, error) {
	versions, err := kmsg.NewPtrApiVersionsRequest().RequestWith(ctx, k.shared)
	if err == nil {
		err = kerr.ErrorForCode(versions.ErrorCode)
	}
	if err != nil {
		return false, err
	}
	for _, f := range versions.FinalizedFeatures {
		if f.Name == "transaction.version" {
			return f.MaxVersionLevel >= 2, nil
		}
	}
	return false, nil
}

// txnVersions are the versions a transactor may speak. From some on requests mean transactions of
// version 2; Produce 13 names topics by id, which costs a look-up and gives nothing here.
func txnVersions(bumps bool) *kversion.Versions {
	v := kversion.Stable()
	v.SetMaxKeyVersion(int16(kmsg.Produce), 12)
	if !bumps {
		v.SetMaxKeyVersion(int16(kmsg.Produce), 11)
		v.SetMaxKeyVersion(int16(kmsg.AddPartitionsToTxn), 3) // 4 is for brokers
		v.SetMaxKeyVersion(int16(kmsg.EndTxn), 4)
		v.SetMaxKeyVersion(int16(kmsg.TxnOffsetCommit), 4)
	}
	return v
}

// takeOver asks for a producer epoch of the id: those before are refused from now on. The answer
// comes when a transaction that was open has its markers.
func (t *kafkaTransactor) takeOver(ctx context.Context) error {
	return settled(ctx, func() error {
		init := kmsg.NewPtrInitProducerIDRequest()
		init.TransactionalID = &t.id
		init.TransactionTimeoutMillis = int32(transactionTimeout.Milliseconds())
		init.ProducerID, init.ProducerEpoch = -1, -1
		resp, err := init.RequestWith(ctx, t.client)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		if err == nil {
			t.pid, t.epoch = resp.ProducerID, resp.ProducerEpoch
		}
		return err
	})
}

// Commit implements Transactor.
func (t *kafkaTransactor) Commit(ctx context.Context, group string,
	next map[TopicPartition]int64,
) error {
	t.finishAll()
	if !t.begun {
		return t.failed()
	}
	defer t.waiters.ask("the transaction of %s cannot be committed", t.id)()
	if err := t.unacked.Flush(ctx); err != nil {
		return err
	}
	// Not before: two who take something into a transaction at once are told to come again.
	if len(next) > 0 {
		if err := t.offsets(ctx, group, next); err != nil {
			return t.fail(fmt.Errorf("commit offsets of group %s in transaction of %s: %w", group, t.id,
				lost(err)))
		}
	}
	// Whatever error comes now, the log may have taken the commit: only who takes over the id can
	// tell.
	if err := t.end(ctx, true); err != nil {
		return t.fail(fmt.Errorf("commit transaction of %s: %w: %w", t.id, ErrLost, err))
	}
	return nil
}

// end ends the transaction. Asked again, a coordinator says the same as the first time.
func (t *kafkaTransactor) end(ctx context.Context, commit bool) error {
	return settled(ctx, func() error {
		end := kmsg.NewPtrEndTxnRequest()
		end.TransactionalID, end.Commit = t.id, commit
		end.ProducerID, end.ProducerEpoch = t.pid, t.epoch
		resp, err := end.RequestWith(ctx, t.client)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		if err != nil {
			return err
		}
		t.begun = false
		bumped := t.bumps && resp.ProducerID >= 0 && resp.ProducerEpoch >= 0
		if bumped {
			t.pid, t.epoch = resp.ProducerID, resp.ProducerEpoch
		}
		for _, l := range t.lanes {
			if l.added = false; bumped {
				l.sequence = 0
			}
		}
		return nil
	})
}

// offsets makes offsets of a group part of the transaction. The member of the group is left out:
// what keeps a former owner of the partitions out is the epoch of the transactional id.
func (t *kafkaTransactor) offsets(ctx context.Context, group string,
	next map[TopicPartition]int64,
) (err error) {
	if !t.bumps { // else the commit of the offsets does it
		add := kmsg.NewPtrAddOffsetsToTxnRequest()
		add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = t.id, t.pid, t.epoch, group
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
	}
	commit := kmsg.NewPtrTxnOffsetCommitRequest()
	commit.TransactionalID, commit.ProducerID, commit.ProducerEpoch = t.id, t.pid, t.epoch
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

// Abort implements Transactor. What is not on its way yet never will be; what is must have come to
// its end before, for a batch behind the end would begin another transaction.
func (t *kafkaTransactor) Abort(ctx context.Context) {
	if !t.begun {
		return
	}
	_ = t.fail(ErrClosed)
	if !t.idle(ctx) {
		return
	}
	if err := t.end(ctx, false); err != nil {
		t.log.Info("transaction not aborted; its id's next holder does it", "id", t.id, "error", err)
	}
	t.begun = false
}

// Close implements Producer.
func (t *kafkaTransactor) Close() {
	t.waiters.remove(t.unacked)
	_ = t.fail(ErrClosed)
	t.queue.Lock()
	t.queue.closed = true
	t.queue.Unlock()
	t.close()
	t.client.Close()
	t.running.Wait()
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
		pause := time.NewTimer(soon(try))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return errors.Join(err, ctx.Err())
		}
	}
}

// soon is the wait before an answer is asked for again that mostly changes within milliseconds.
func soon(try int) time.Duration { return min(time.Millisecond<<min(try, 10), time.Second) }

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
