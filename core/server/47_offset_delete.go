package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/group"
)

// OffsetDelete (key 47), version 0 (KIP-496).
//
//   - Topics that members subscribe to are refused with GROUP_SUBSCRIBED_TO_TOPIC; a group of
//     members that are no consumers with NON_EMPTY_GROUP. What is not committed is no error.

func (s *Server) offsetDelete(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.OffsetDeleteRequest)
	resp := response[*kmsg.OffsetDeleteResponse](r)
	del := group.DeleteOffsetsRequest{GroupID: req.Group}
	image := s.image()
	codes := make([]int16, len(req.Topics))
	asked := make([]int, 0, len(req.Topics)) // index in req.Topics of each topic in del
	for i := range req.Topics {
		t := &req.Topics[i]
		if _, ok := image.Topic(t.Topic); !ok {
			codes[i] = kerr.UnknownTopicOrPartition.Code
			continue
		}
		tp := group.TopicPartitions{Topic: t.Topic}
		for j := range t.Partitions {
			tp.Partitions = append(tp.Partitions, t.Partitions[j].Partition)
		}
		del.Topics = append(del.Topics, tp)
		asked = append(asked, i)
	}
	deleted := s.opts.Groups.DeleteOffsets(ctx, del)
	if deleted.Code != noError {
		resp.ErrorCode = int16(deleted.Code)
		return resp, nil
	}
	for i, code := range deleted.Topics {
		codes[asked[i]] = int16(code)
	}
	for i := range req.Topics {
		topic := kmsg.NewOffsetDeleteResponseTopic()
		topic.Topic = req.Topics[i].Topic
		for j := range req.Topics[i].Partitions {
			p := kmsg.NewOffsetDeleteResponseTopicPartition()
			p.Partition, p.ErrorCode = req.Topics[i].Partitions[j].Partition, codes[i]
			topic.Partitions = append(topic.Partitions, p)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp, nil
}
