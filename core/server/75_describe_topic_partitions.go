package server

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/metadata"
)

// DescribeTopicPartitions (key 75), version 0 (KIP-966).
//
//   - Topics come in the order of their names, unknown ones included; none asked for is all.
//   - At most response-partition-limit partitions, at least one; the cursor says where to go on.
//     One outside of the topics asked for is INVALID_REQUEST for all of them.

// defaultDescribedPartitions bounds one answer where max.request.partition.size.limit is not set.
const defaultDescribedPartitions = 2000

func (s *Server) describeTopicPartitions(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.DescribeTopicPartitionsRequest)
	resp := response[*kmsg.DescribeTopicPartitionsResponse](r)
	image := s.image()
	var names []string
	for i := range req.Topics {
		names = append(names, req.Topics[i].Topic)
	}
	if len(names) == 0 {
		for t := range image.Topics() {
			names = append(names, t.Name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if !validCursor(req.Cursor, names, len(req.Topics) > 0) {
		for _, name := range names {
			topic := kmsg.NewDescribeTopicPartitionsResponseTopic()
			topic.Topic, topic.ErrorCode = &name, kerr.InvalidRequest.Code
			resp.Topics = append(resp.Topics, topic)
		}
		return resp, nil
	}
	left := max(1, min(int(req.ResponsePartitionLimit), int(image.BrokerConfigInt(
		"max.request.partition.size.limit", defaultDescribedPartitions))))
	for _, name := range names {
		first := int32(0)
		if c := req.Cursor; c != nil {
			if name < c.Topic {
				continue
			}
			if name == c.Topic {
				first = max(c.Partition, 0)
			}
		}
		t, ok := image.Topic(name)
		if ok && left == 0 {
			resp.NextCursor = cursorAt(name, first)
			break
		}
		topic := describedTopic(name, t)
		topic.AuthorizedOperations = s.operations(r.client, metadata.ACLTopic, name)
		if ok {
			next := addPartitions(&topic, t, first, &left)
			if int(next) < len(t.Partitions) {
				resp.NextCursor = cursorAt(name, next)
			}
		}
		resp.Topics = append(resp.Topics, topic)
		if resp.NextCursor != nil {
			break
		}
	}
	return resp, nil
}

// validCursor tells whether a page can begin there: among the topics that are asked for, if any
// are; else at any topic, since the one that was next may have been deleted meanwhile.
func validCursor(
	c *kmsg.DescribeTopicPartitionsRequestCursor, names []string, asked bool,
) bool {
	return c == nil || c.Partition >= 0 && (!asked || slices.Contains(names, c.Topic))
}

func cursorAt(topic string, partition int32) *kmsg.DescribeTopicPartitionsResponseNextCursor {
	c := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	c.Topic, c.Partition = topic, partition
	return &c
}

// describedTopic answers for a topic without its partitions; t is nil when it is unknown.
func describedTopic(name string, t *metadata.Topic) kmsg.DescribeTopicPartitionsResponseTopic {
	topic := kmsg.NewDescribeTopicPartitionsResponseTopic()
	topic.Topic = &name
	switch {
	case t != nil:
		topic.TopicID, topic.IsInternal = [16]byte(t.ID), t.Internal
	case metadata.ValidateTopicName(name) != nil:
		topic.ErrorCode = kerr.InvalidTopicException.Code
	default:
		topic.ErrorCode = kerr.UnknownTopicOrPartition.Code
	}
	return topic
}

// addPartitions adds partitions from first on, as many as left allows, and returns the first one
// that is missing.
func addPartitions(
	topic *kmsg.DescribeTopicPartitionsResponseTopic, t *metadata.Topic, first int32, left *int,
) int32 {
	for int(first) < len(t.Partitions) && *left > 0 {
		p := &t.Partitions[first]
		out := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
		out.Partition, out.LeaderID, out.LeaderEpoch = first, p.Leader, p.LeaderEpoch
		out.Replicas, out.ISR = p.Replicas, p.ISR
		out.OfflineReplicas = []int32{}
		out.EligibleLeaderReplicas, out.LastKnownELR = []int32{}, []int32{}
		if p.Leader < 0 {
			out.ErrorCode = kerr.LeaderNotAvailable.Code
		}
		topic.Partitions = append(topic.Partitions, out)
		first++
		*left--
	}
	return first
}
