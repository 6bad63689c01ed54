package server

import (
	"context"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// OffsetForLeaderEpoch (key 23), versions 2 to 4.
//
//   - Answers the epoch that was found, which is the largest one up to the one asked for, and
//     where its records end; -1 and -1 for an epoch that is newer than all (KIP-101, KIP-279).

func (s *Server) offsetForLeaderEpoch(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.OffsetForLeaderEpochRequest)
	resp := response[*kmsg.OffsetForLeaderEpochResponse](r)
	for i := range req.Topics {
		t := &req.Topics[i]
		topic := kmsg.NewOffsetForLeaderEpochResponseTopic()
		topic.Topic = t.Topic
		for j := range t.Partitions {
			topic.Partitions = append(topic.Partitions, s.epochEnd(t.Topic, &t.Partitions[j]))
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp, nil
}

// epochEnd answers for one partition.
func (s *Server) epochEnd(
	topic string, in *kmsg.OffsetForLeaderEpochRequestTopicPartition,
) kmsg.OffsetForLeaderEpochResponseTopicPartition {
	out := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
	out.Partition = in.Partition
	out.LeaderEpoch, out.EndOffset = noLeaderEpoch, noOffset
	p, err := s.partition([]byte(topic), uuid.Nil, false, in.Partition)
	if err == nil {
		err = checkEpoch(p, in.CurrentLeaderEpoch)
	}
	if err != nil {
		out.ErrorCode = errorCode(err)
		return out
	}
	out.LeaderEpoch, out.EndOffset = p.OffsetForLeaderEpoch(in.LeaderEpoch)
	return out
}
