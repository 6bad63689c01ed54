package server

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/txn"
)

// AddPartitionsToTxn (key 24), versions 0 to 5.
//
//   - One partition that does not exist makes all the others OPERATION_NOT_ATTEMPTED, and none is
//     added.
//   - Versions 4 and 5 are of other brokers, with several transactions, which may only be verified
//     (KIP-890). Kafka never answers such a request without a transaction; here it is
//     INVALID_REQUEST.
//   - A producer that was fenced is told INVALID_PRODUCER_EPOCH before version 2.

func (s *Server) addPartitionsToTxn(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.AddPartitionsToTxnRequest)
	resp := response[*kmsg.AddPartitionsToTxnResponse](r)
	if r.version >= 4 {
		if len(req.Transactions) == 0 {
			resp.ErrorCode = kerr.InvalidRequest.Code
		}
		for i := range req.Transactions {
			resp.Transactions = append(resp.Transactions, s.addToOneTxn(ctx, r, &req.Transactions[i]))
		}
		return resp, nil
	}
	one := kmsg.NewAddPartitionsToTxnRequestTransaction()
	one.TransactionalID = req.TransactionalID
	one.ProducerID, one.ProducerEpoch = req.ProducerID, req.ProducerEpoch
	for i := range req.Topics {
		topic := kmsg.NewAddPartitionsToTxnRequestTransactionTopic()
		topic.Topic, topic.Partitions = req.Topics[i].Topic, req.Topics[i].Partitions
		one.Topics = append(one.Topics, topic)
	}
	added := s.addToOneTxn(ctx, r, &one)
	for i := range added.Topics {
		topic := kmsg.NewAddPartitionsToTxnResponseTopic()
		topic.Topic = added.Topics[i].Topic
		for _, p := range added.Topics[i].Partitions {
			partition := kmsg.NewAddPartitionsToTxnResponseTopicPartition()
			partition.Partition, partition.ErrorCode = p.Partition, p.ErrorCode
			topic.Partitions = append(topic.Partitions, partition)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp, nil
}

// addToOneTxn adds to, or verifies, one transaction.
func (s *Server) addToOneTxn(
	ctx context.Context, r *request, in *kmsg.AddPartitionsToTxnRequestTransaction,
) kmsg.AddPartitionsToTxnResponseTransaction {
	add := txn.AddRequest{
		TransactionalID: in.TransactionalID, VerifyOnly: in.VerifyOnly,
		Producer:           coordinator.Producer{ID: in.ProducerID, Epoch: in.ProducerEpoch},
		TransactionVersion: transactionVersion(r.version, 4),
	}
	image := s.image()
	var missing []int16 // a code for each of add.Partitions
	for i := range in.Topics {
		topic, unknown := lookupTopic(image, in.Topics[i].Topic, [16]byte{}, false)
		for _, n := range in.Topics[i].Partitions {
			code := unknown
			if topic != nil && n >= 0 && int(n) < len(topic.Partitions) {
				code = 0
			}
			missing = append(missing, code)
			add.Partitions = append(add.Partitions,
				txn.TopicPartition{Topic: in.Topics[i].Topic, Partition: n})
		}
	}
	codeOf := func(i int) int16 {
		if missing[i] == 0 {
			return kerr.OperationNotAttempted.Code
		}
		return missing[i]
	}
	if !slices.ContainsFunc(missing, func(code int16) bool { return code != 0 }) {
		out := s.opts.Transactions.AddPartitions(ctx, add)
		codeOf = func(i int) int16 { return fencedCode(out.CodeOf(i), r.version, 2) }
	}
	return addedToTxn(in, codeOf)
}

// addedToTxn is the answer for one transaction, with a code for each partition of the request.
func addedToTxn(
	in *kmsg.AddPartitionsToTxnRequestTransaction, codeOf func(i int) int16,
) kmsg.AddPartitionsToTxnResponseTransaction {
	out := kmsg.NewAddPartitionsToTxnResponseTransaction()
	out.TransactionalID = in.TransactionalID
	i := 0
	for _, t := range in.Topics {
		topic := kmsg.NewAddPartitionsToTxnResponseTransactionTopic()
		topic.Topic = t.Topic
		for _, n := range t.Partitions {
			p := kmsg.NewAddPartitionsToTxnResponseTransactionTopicPartition()
			p.Partition, p.ErrorCode = n, codeOf(i)
			topic.Partitions = append(topic.Partitions, p)
			i++
		}
		out.Topics = append(out.Topics, topic)
	}
	return out
}

// transactionVersion is that of a client which sends a request whose version since knows KIP-890.
func transactionVersion(version, since int16) int16 {
	if version >= since {
		return 2
	}
	return 0
}
