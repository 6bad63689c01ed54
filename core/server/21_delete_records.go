package server

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/metadata"
)

// DeleteRecords (key 21), versions 0 to 2.
//
//   - Moves the start of the log; -1 is the high watermark, beyond it OFFSET_OUT_OF_RANGE, below
//     the start nothing changes and that is fine.
//   - A topic that is only compacted is POLICY_VIOLATION: its records go by their keys. Internal
//     topics are INVALID_TOPIC_EXCEPTION.

func (s *Server) deleteRecords(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.DeleteRecordsRequest)
	resp := response[*kmsg.DeleteRecordsResponse](r)
	for i := range req.Topics {
		t := &req.Topics[i]
		topic := kmsg.NewDeleteRecordsResponseTopic()
		topic.Topic = t.Topic
		for j := range t.Partitions {
			in := &t.Partitions[j]
			out := kmsg.NewDeleteRecordsResponseTopicPartition()
			out.Partition, out.LowWatermark = in.Partition, -1
			low, err := s.deleteBefore(t.Topic, in.Partition, in.Offset)
			if err != nil {
				out.ErrorCode = errorCode(err)
			} else {
				out.LowWatermark = low
			}
			topic.Partitions = append(topic.Partitions, out)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp, nil
}

// deleteBefore moves the start of a partition and returns where it is.
func (s *Server) deleteBefore(topic string, index int32, offset int64) (int64, error) {
	p, err := s.lookup(topic, uuid.Nil, false, index)
	if err != nil {
		return -1, err
	}
	if metadata.IsInternalTopic(topic) {
		return -1, fmt.Errorf("the topic is internal: %w", kerr.InvalidTopicException)
	}
	image := s.image()
	if t, ok := image.Topic(topic); ok {
		settings := image.TopicSettings(t)
		if settings.CleanupCompact && !settings.CleanupDelete {
			return -1, fmt.Errorf("the topic is compacted: %w", kerr.PolicyViolation)
		}
	}
	if offset == -1 {
		offset = p.HighWatermark()
	}
	if err := p.DeleteRecords(offset); err != nil {
		return -1, err
	}
	return p.StartOffset(), nil
}
