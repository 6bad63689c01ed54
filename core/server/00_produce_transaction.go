package server

import (
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/metadata"
	"github.com/millstream-io/millstream/core/protocol"
	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/replica"
	"github.com/millstream-io/millstream/core/txn"
)

// Transactional batches of a Produce request.
//
//   - A partition that has no open transaction of the producer yet is checked with the coordinator
//     (KIP-890): up to version 11 whether the client added it, from version 12 on it is added. All
//     partitions of a request are asked for at once.
//   - Not added: INVALID_TXN_STATE up to version 10, TRANSACTION_ABORTABLE in version 11.
//   - Fenced: INVALID_PRODUCER_EPOCH, which is looked at first (KAFKA-19690).
//   - What is only for now, such as a coordinator that is being loaded, is NOT_ENOUGH_REPLICAS:
//     every client tries that again. From version 12 on CONCURRENT_TRANSACTIONS is told as it is,
//     after a short wait for the markers of the last transaction.
//   - One producer id for each request, else INVALID_PRODUCER_ID_MAPPING; without a transactional
//     id TRANSACTIONAL_ID_AUTHORIZATION_FAILED.
//   - With transaction.partition.verification.enable=false nothing is asked up to version 11.

// produceAdds is the first version of Produce that adds partitions to the transaction, and
// produceAbortable the first whose clients know TRANSACTION_ABORTABLE.
const (
	produceAdds      = 12
	produceAbortable = 11
)

// addPatience is how long a produce request waits for the markers of the last transaction. Kafka
// waits as long (add.partitions.to.txn.retry.backoff.max.ms).
const addPatience = 100 * time.Millisecond

// verification is what is known of a partition's batch before it is appended.
type verification struct {
	guard replica.VerificationGuard
	err   error
}

// transactionalBatch is the first batch of records if it is transactional.
func transactionalBatch(records []byte) (record.Batch, bool) {
	b := record.Batch(records)
	return b, len(b) >= record.HeaderSize && b.Magic() == 2 && b.IsTransactional()
}

// isTransactional tells whether the request has a transactional batch.
func (op *produceOp) isTransactional() bool {
	for i := range op.req.Partitions {
		if _, ok := transactionalBatch(op.req.Partitions[i].Records); ok {
			return true
		}
	}
	return false
}

// verify fills op.verified.
func (op *produceOp) verify(clientID string) {
	n := len(op.req.Partitions)
	op.verified = append(op.verified[:0], make([]verification, n)...)
	producer, err := op.producer()
	if err != nil {
		for i := range op.verified {
			op.verified[i].err = err
		}
		return
	}
	s := op.c.s
	if op.head.Version < produceAdds && !s.brokerFlag("transaction.partition.verification.enable") {
		return
	}
	// Twice if the markers of the last transaction came meanwhile.
	for op.verifyOnce(producer, clientID) {
	}
}

// verifyOnce prepares the partitions and asks the coordinator. It reports whether that has to be
// done again.
func (op *produceOp) verifyOnce(producer coordinator.Producer, clientID string) (again bool) {
	add := txn.AddRequest{
		TransactionalID: string(op.req.TransactionalID), Producer: producer,
		VerifyOnly:         op.head.Version < produceAdds,
		TransactionVersion: transactionVersion(op.head.Version, produceAdds),
		Patience:           addPatience,
	}
	var asked []*verification // where the answer for each of add.Partitions goes
	for i := range op.req.Topics {
		t := &op.req.Topics[i]
		for j := t.First; j < t.End; j++ {
			p, ongoing := op.startVerification(t, j, clientID)
			if p != nil && !ongoing {
				tp := p.TopicPartition()
				add.Partitions = append(add.Partitions,
					txn.TopicPartition{Topic: tp.Topic, Partition: tp.Partition})
				asked = append(asked, &op.verified[j])
			}
		}
	}
	if len(asked) == 0 {
		return false
	}
	out := op.c.s.opts.Transactions.AddPartitions(op.c.ctx, add)
	for i, v := range asked {
		v.err = verificationError(out.CodeOf(i), op.head.Version)
	}
	return out.Waited && out.Code == coordinator.CodeNone
}

// producer is the one producer of the request's transactional batches.
func (op *produceOp) producer() (p coordinator.Producer, err error) {
	if id := op.req.TransactionalID; id == nil || !op.c.s.may(&op.c.client, metadata.ACLWrite,
		metadata.ACLTransactionalID, alias(id)) {
		return p, kerr.TransactionalIDAuthorizationFailed
	}
	found := false
	for i := range op.req.Partitions {
		b, ok := transactionalBatch(op.req.Partitions[i].Records)
		if !ok {
			continue
		}
		this := coordinator.Producer{ID: b.ProducerID(), Epoch: b.ProducerEpoch()}
		if found && this != p {
			return p, fmt.Errorf("several producers in one request: %w", kerr.InvalidProducerIDMapping)
		}
		p, found = this, true
	}
	return p, nil
}

// startVerification prepares one partition; p is nil if its batch is not transactional, or if the
// append will be refused whatever the coordinator says.
func (op *produceOp) startVerification(
	t *protocol.ProduceTopic, i int, clientID string,
) (p *replica.Partition, ongoing bool) {
	in := &op.req.Partitions[i]
	b, ok := transactionalBatch(in.Records)
	if !ok {
		return nil, false
	}
	p, err := op.resolve(t, in.Index, clientID)
	if err != nil {
		return nil, false
	}
	v := &op.verified[i]
	v.guard, ongoing, v.err = p.StartVerification(b.ProducerID(), b.ProducerEpoch(), b.BaseSequence())
	if v.err != nil {
		return nil, false
	}
	return p, ongoing
}

// errNotVerified is for codes of the coordinator that old clients do not expect from Produce.
var errNotVerified = errors.New("cannot verify that the partition was added to the transaction")

// verificationError is what the coordinator's answer means to a producer.
func verificationError(code txn.ErrorCode, version int16) error {
	switch code {
	case coordinator.CodeNone:
		return nil
	case coordinator.CodeProducerFenced:
		return kerr.InvalidProducerEpoch
	case coordinator.CodeTransactionAbortable:
		if version < produceAbortable {
			return fmt.Errorf("the partition was not added to the transaction: %w", kerr.InvalidTxnState)
		}
	case coordinator.CodeConcurrentTransactions:
		if version < produceAdds {
			return fmt.Errorf("%w: %v: %w", errNotVerified, code, kerr.NotEnoughReplicas)
		}
	case coordinator.CodeCoordinatorLoadInProgress, coordinator.CodeCoordinatorNotAvailable,
		coordinator.CodeNotCoordinator:
		return fmt.Errorf("%w: %v: %w", errNotVerified, code, kerr.NotEnoughReplicas)
	}
	return kerr.ErrorForCode(int16(code))
}
