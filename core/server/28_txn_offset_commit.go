package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/group"
	"github.com/millstream-io/millstream/core/storage"
	"github.com/millstream-io/millstream/core/txn"
)

// TxnOffsetCommit (key 28), versions 0 to 5.
//
//   - The offsets become records of the producer's transaction in __consumer_offsets (KIP-98); the
//     answer comes when they are durable. They count from the commit marker on, and are gone with
//     an abort marker. Of an offset that is committed both ways, the later record counts.
//   - Version 3 says which member consumed the input (KIP-447): UNKNOWN_MEMBER_ID,
//     FENCED_INSTANCE_ID and ILLEGAL_GENERATION keep a consumer that lost its partitions from
//     committing for them, even while its group rebalances. Generation -1 without a member asks for
//     no check, as do the versions before.
//   - A generation in a group that does not exist is ILLEGAL_GENERATION, in all versions.
//   - The partition of __consumer_offsets is checked with the transaction's coordinator (KIP-890):
//     up to version 4 whether AddOffsetsToTxn added it, from version 5 on it is added. Not added is
//     INVALID_TXN_STATE up to version 3, TRANSACTION_ABORTABLE in version 4.
//   - A producer that was fenced by a newer epoch gets INVALID_PRODUCER_EPOCH.
//   - Each partition has its own code, in the order of the request; a topic or partition that does
//     not exist is UNKNOWN_TOPIC_OR_PARTITION.
//   - Versions 0 and 1 are told COORDINATOR_NOT_AVAILABLE in the place of
//     COORDINATOR_LOAD_IN_PROGRESS, which those producers die of (KAFKA-7296).

func (s *Server) txnOffsetCommit(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.TxnOffsetCommitRequest)
	resp := response[*kmsg.TxnOffsetCommitResponse](r)
	commit := group.TxnCommitRequest{
		GroupID: req.Group, MemberID: req.MemberID, InstanceID: req.InstanceID,
		Generation: req.Generation, ProducerID: req.ProducerID, ProducerEpoch: req.ProducerEpoch,
	}
	image := s.image()
	var committed []*int16 // where the code of each offset in commit goes
	for i := range req.Topics {
		in := &req.Topics[i]
		out := kmsg.NewTxnOffsetCommitResponseTopic()
		out.Topic = in.Topic
		topic, missing := lookupTopic(image, in.Topic, [16]byte{}, false)
		out.Partitions = make([]kmsg.TxnOffsetCommitResponseTopicPartition, len(in.Partitions))
		for j := range in.Partitions {
			p := &in.Partitions[j]
			out.Partitions[j] = kmsg.NewTxnOffsetCommitResponseTopicPartition()
			out.Partitions[j].Partition = p.Partition
			if topic == nil || p.Partition < 0 || int(p.Partition) >= len(topic.Partitions) {
				out.Partitions[j].ErrorCode = missing
				continue
			}
			commit.Offsets = append(commit.Offsets,
				offsetCommitted(topic, p.Partition, p.Offset, p.LeaderEpoch, p.Metadata))
			committed = append(committed, &out.Partitions[j].ErrorCode)
		}
		resp.Topics = append(resp.Topics, out)
	}
	if len(commit.Offsets) == 0 {
		return resp, nil
	}
	if code := s.verifyOffsets(ctx, r, req); code != noError {
		for i := range committed {
			*committed[i] = int16(code)
		}
		return resp, nil
	}
	for i, code := range s.opts.Groups.CommitTransactionOffsets(ctx, commit).Codes {
		if code == coordinator.CodeCoordinatorLoadInProgress && r.version < 2 {
			code = coordinator.CodeCoordinatorNotAvailable
		}
		*committed[i] = int16(code)
	}
	return resp, nil
}

// verifyOffsets asks the coordinator of the transaction whether the group's offsets are part of it,
// or makes them so.
func (s *Server) verifyOffsets(
	ctx context.Context, r *request, req *kmsg.TxnOffsetCommitRequest,
) group.ErrorCode {
	const adds, abortable = 5, 4
	switch {
	case req.Group == "":
		return noError // the group coordinator refuses it
	case r.version < adds && !s.brokerFlag("transaction.partition.verification.enable"):
		return noError
	}
	tp := s.offsetsPartition(req.Group)
	p, err := s.opts.Replicas.Partition(storage.TopicPartition(tp))
	if err != nil {
		return noError // the group coordinator says where it is
	}
	_, ongoing, err := p.StartVerification(req.ProducerID, req.ProducerEpoch, 0)
	if err != nil || ongoing {
		return group.ErrorCode(errorCode(err))
	}
	out := s.opts.Transactions.AddPartitions(ctx, txn.AddRequest{
		TransactionalID: req.TransactionalID, VerifyOnly: r.version < adds,
		Producer:           coordinator.Producer{ID: req.ProducerID, Epoch: req.ProducerEpoch},
		Partitions:         []txn.TopicPartition{tp},
		TransactionVersion: transactionVersion(r.version, adds),
		Patience:           addPatience,
	})
	code := out.CodeOf(0)
	switch {
	case code == coordinator.CodeProducerFenced:
		return coordinator.CodeInvalidProducerEpoch
	case code == coordinator.CodeTransactionAbortable && r.version < abortable:
		return coordinator.CodeInvalidTxnState
	case code == coordinator.CodeCoordinatorLoadInProgress && r.version < 2:
		return coordinator.CodeCoordinatorNotAvailable
	}
	return code
}
