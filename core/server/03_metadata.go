package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/metadata"
)

// Metadata (key 3), versions 0 to 13.
//
//   - Topics by name or, from version 12, by id; none is none, null (empty in version 0) is all.
//   - Unknown topics are created if the request (version 4) and auto.create.topics.enable allow.
//   - A partition without a leader has leader -1 and LEADER_NOT_AVAILABLE; its epoch is the true
//     one, never a guess, since clients compare epochs.
//   - The controller is this broker: any broker takes admin requests.
//
// Known gap: authorized operations are answered as "not asked", since there are no ACLs.

func (s *Server) metadata(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.MetadataRequest)
	resp := response[*kmsg.MetadataResponse](r)
	if !(req.Topics == nil || len(req.Topics) == 0 && r.version == 0) {
		s.autoCreate(ctx, r.version, req)
	}
	image := s.image()
	for _, b := range image.Brokers() {
		broker := kmsg.NewMetadataResponseBroker()
		broker.NodeID, broker.Host, broker.Port = b.ID, b.Host, b.Port
		if b.Rack != "" {
			broker.Rack = &b.Rack
		}
		resp.Brokers = append(resp.Brokers, broker)
	}
	cluster := image.ClusterID()
	resp.ClusterID = &cluster
	resp.ControllerID = s.nodeID
	if req.Topics == nil || len(req.Topics) == 0 && r.version == 0 {
		for t := range image.Topics() {
			resp.Topics = append(resp.Topics, s.describeTopic(t, r.version))
		}
		return resp, nil
	}
	for i := range req.Topics {
		resp.Topics = append(resp.Topics, s.findTopic(image, &req.Topics[i], r.version))
	}
	return resp, nil
}

// autoCreate creates the topics of the request that do not exist, if that is allowed. The answer
// tells what became of it: a topic that could not be created is still unknown then.
func (s *Server) autoCreate(ctx context.Context, version int16, req *kmsg.MetadataRequest) {
	if version >= 4 && !req.AllowAutoTopicCreation || !s.brokerFlag("auto.create.topics.enable") {
		return
	}
	image := s.image()
	var missing []string
	for i := range req.Topics {
		name := req.Topics[i].Topic
		if name == nil || metadata.ValidateTopicName(*name) != nil {
			continue
		}
		if _, ok := image.Topic(*name); !ok && !metadata.IsInternalTopic(*name) {
			missing = append(missing, *name)
		}
	}
	if len(missing) > 0 {
		s.createDefaultTopics(ctx, missing)
	}
}

// findTopic answers for one requested topic.
func (s *Server) findTopic(
	image *metadata.Image, t *kmsg.MetadataRequestTopic, version int16,
) kmsg.MetadataResponseTopic {
	if t.Topic != nil {
		if topic, ok := image.Topic(*t.Topic); ok {
			return s.describeTopic(topic, version)
		}
	} else if topic, ok := image.TopicByID(t.TopicID); ok {
		return s.describeTopic(topic, version)
	}
	answer := kmsg.NewMetadataResponseTopic()
	answer.Topic, answer.TopicID = t.Topic, t.TopicID
	switch {
	case t.Topic == nil:
		answer.ErrorCode = kerr.UnknownTopicID.Code
		if version < 12 { // the name cannot be null there
			empty := ""
			answer.Topic = &empty
		}
	case metadata.ValidateTopicName(*t.Topic) != nil:
		answer.ErrorCode = kerr.InvalidTopicException.Code
	default:
		answer.ErrorCode = kerr.UnknownTopicOrPartition.Code
	}
	return answer
}

// describeTopic answers for a topic that exists.
func (s *Server) describeTopic(t *metadata.Topic, version int16) kmsg.MetadataResponseTopic {
	answer := kmsg.NewMetadataResponseTopic()
	answer.Topic, answer.TopicID, answer.IsInternal = &t.Name, [16]byte(t.ID), t.Internal
	answer.Partitions = make([]kmsg.MetadataResponseTopicPartition, 0, len(t.Partitions))
	for i := range t.Partitions {
		p := &t.Partitions[i]
		part := kmsg.NewMetadataResponseTopicPartition()
		part.Partition, part.Leader, part.LeaderEpoch = int32(i), p.Leader, p.LeaderEpoch
		part.Replicas, part.ISR = p.Replicas, p.ISR
		part.OfflineReplicas = []int32{}
		if p.Leader < 0 {
			part.ErrorCode = kerr.LeaderNotAvailable.Code
		}
		answer.Partitions = append(answer.Partitions, part)
	}
	return answer
}
