package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/group"
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
			o := group.OffsetCommit{
				Topic: topic.Name, TopicID: topic.ID, Partition: p.Partition, Offset: p.Offset,
				LeaderEpoch: p.LeaderEpoch,
			}
			if p.Metadata != nil {
				o.Metadata = *p.Metadata
			}
			commit.Offsets = append(commit.Offsets, o)
			committed = append(committed, &out.Partitions[j].ErrorCode)
		}
		resp.Topics = append(resp.Topics, out)
	}
	if len(commit.Offsets) == 0 {
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
