package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/controller"
)

// AlterPartitionReassignments (key 45), versions 0 and 1 (KIP-455).
//
//   - Replicas as they are now are accepted; unknown brokers are INVALID_REPLICA_ASSIGNMENT; ending
//     a move is NO_REASSIGNMENT_IN_PROGRESS.
//
// Known gap: nothing moves, since there is one broker.

func (s *Server) alterPartitionReassignments(
	ctx context.Context, r *request,
) (kmsg.Response, error) {
	req := r.message.(*kmsg.AlterPartitionAssignmentsRequest)
	resp := response[*kmsg.AlterPartitionAssignmentsResponse](r)
	resp.AllowReplicationFactorChange = req.AllowReplicationFactorChange
	var moves []controller.Reassignment
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			moves = append(moves, controller.Reassignment{
				PartitionRef: controller.PartitionRef{
					Topic: t.Topic, Partition: t.Partitions[j].Partition,
				},
				Replicas:   t.Partitions[j].Replicas,
				SameFactor: r.version >= 1 && !req.AllowReplicationFactorChange,
			})
		}
	}
	ctx, cancel := requestTimeout(ctx, req.TimeoutMillis)
	defer cancel()
	errs, err := s.opts.Controller.Reassign(ctx, moves)
	if err != nil {
		setError(&resp.ErrorCode, &resp.ErrorMessage, err)
		return resp, nil
	}
	for i := range req.Topics {
		topic := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		topic.Topic = req.Topics[i].Topic
		for j := range req.Topics[i].Partitions {
			out := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			out.Partition = req.Topics[i].Partitions[j].Partition
			setError(&out.ErrorCode, &out.ErrorMessage, errs[0])
			errs = errs[1:]
			topic.Partitions = append(topic.Partitions, out)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp, nil
}
