package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/group"
	"github.com/millstream-io/millstream/core/txn"
)

// AddOffsetsToTxn (key 25), versions 0 to 4.
//
//   - Adds the partition of __consumer_offsets that the group's offsets go to, whatever the group's
//     state.
//   - A producer that was fenced is told INVALID_PRODUCER_EPOCH before version 2.

func (s *Server) addOffsetsToTxn(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.AddOffsetsToTxnRequest)
	resp := response[*kmsg.AddOffsetsToTxnResponse](r)
	out := s.opts.Transactions.AddPartitions(ctx, txn.AddRequest{
		TransactionalID: req.TransactionalID,
		Producer:        coordinator.Producer{ID: req.ProducerID, Epoch: req.ProducerEpoch},
		Partitions:      []txn.TopicPartition{s.offsetsPartition(req.Group)},
	})
	resp.ErrorCode = fencedCode(out.Code, r.version, 2)
	return resp, nil
}

// offsetsPartition is where the offsets of a group are kept.
func (s *Server) offsetsPartition(groupID string) txn.TopicPartition {
	return txn.TopicPartition{
		Topic: group.TopicName, Partition: s.opts.Groups.PartitionFor(groupID),
	}
}
