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
//   - Topics that the client may not describe are left out of "all", and otherwise answered
//     TOPIC_AUTHORIZATION_FAILED, whether they exist or not. Creation needs CREATE on the topic or
//     the cluster.
//   - Authorized operations (KIP-430), of the cluster in versions 8 to 10.

func (s *Server) metadata(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.MetadataRequest)
	resp := response[*kmsg.MetadataResponse](r)
	all := req.Topics == nil || len(req.Topics) == 0 && r.version == 0
	refused := make(map[int]bool) // of req.Topics
	if !all {
		s.checkMetadata(r, req, refused)
		s.autoCreate(ctx, r, req, refused)
	}
	image := s.image()
	for _, b := range image.Brokers() {
		broker := kmsg.NewMetadataResponseBroker()
		at := b.Endpoint(r.client.listener)
		broker.NodeID, broker.Host, broker.Port = b.ID, at.Host, at.Port
		if b.Rack != "" {
			broker.Rack = &b.Rack
		}
		resp.Brokers = append(resp.Brokers, broker)
	}
	cluster := image.ClusterID()
	resp.ClusterID = &cluster
	resp.ControllerID = s.nodeID
	if req.IncludeClusterAuthorizedOperations {
		resp.AuthorizedOperations = s.clusterOperations(r.client)
	}
	if all {
		for t := range image.Topics() {
			if s.sees(r.client, metadata.ACLDescribe, metadata.ACLTopic, t.Name) {
				resp.Topics = append(resp.Topics, s.describeTopic(t, r))
			}
		}
		return resp, nil
	}
	for i := range req.Topics {
		if refused[i] {
			resp.Topics = append(resp.Topics, refusedTopic(&req.Topics[i], r.version))
			continue
		}
		resp.Topics = append(resp.Topics, s.findTopic(image, &req.Topics[i], r))
	}
	return resp, nil
}

// checkMetadata finds the topics that the client may not describe.
func (s *Server) checkMetadata(r *request, req *kmsg.MetadataRequest, refused map[int]bool) {
	image := s.image()
	for i := range req.Topics {
		name := ""
		if t := &req.Topics[i]; t.Topic != nil {
			name = *t.Topic
		} else if topic, ok := image.TopicByID(t.TopicID); ok {
			name = topic.Name
		} else {
			continue // an id that does not exist tells nothing
		}
		if !s.may(r.client, metadata.ACLDescribe, metadata.ACLTopic, name) {
			refused[i] = true
		}
	}
}

// refusedTopic answers for a topic that the client may not see; a name is not told for an id.
func refusedTopic(t *kmsg.MetadataRequestTopic, version int16) kmsg.MetadataResponseTopic {
	answer := kmsg.NewMetadataResponseTopic()
	answer.Topic, answer.TopicID = t.Topic, t.TopicID
	answer.ErrorCode = kerr.TopicAuthorizationFailed.Code
	if t.Topic == nil && version < 12 { // the name cannot be null there
		answer.Topic = pointer("")
	}
	return answer
}

// autoCreate creates the topics of the request that do not exist, if that is allowed. The answer
// tells what became of it: a topic that could not be created is still unknown then.
func (s *Server) autoCreate(
	ctx context.Context, r *request, req *kmsg.MetadataRequest, refused map[int]bool,
) {
	if r.version >= 4 && !req.AllowAutoTopicCreation || !s.brokerFlag("auto.create.topics.enable") {
		return
	}
	image := s.image()
	var missing []string
	for i := range req.Topics {
		name := req.Topics[i].Topic
		if name == nil || refused[i] || metadata.ValidateTopicName(*name) != nil {
			continue
		}
		if _, ok := image.Topic(*name); ok || metadata.IsInternalTopic(*name) {
			continue
		}
		if !s.seesCluster(r.client, metadata.ACLCreate) &&
			!s.may(r.client, metadata.ACLCreate, metadata.ACLTopic, *name) {
			refused[i] = true
			continue
		}
		missing = append(missing, *name)
	}
	if len(missing) > 0 {
		s.createDefaultTopics(ctx, r, missing)
	}
}

// findTopic answers for one requested topic.
func (s *Server) findTopic(
	image *metadata.Image, t *kmsg.MetadataRequestTopic, r *request,
) kmsg.MetadataResponseTopic {
	if t.Topic != nil {
		if topic, ok := image.Topic(*t.Topic); ok {
			return s.describeTopic(topic, r)
		}
	} else if topic, ok := image.TopicByID(t.TopicID); ok {
		return s.describeTopic(topic, r)
	}
	answer := kmsg.NewMetadataResponseTopic()
	answer.Topic, answer.TopicID = t.Topic, t.TopicID
	switch {
	case t.Topic == nil:
		answer.ErrorCode = kerr.UnknownTopicID.Code
		if r.version < 12 { // the name cannot be null there
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
func (s *Server) describeTopic(t *metadata.Topic, r *request) kmsg.MetadataResponseTopic {
	answer := kmsg.NewMetadataResponseTopic()
	answer.Topic, answer.TopicID, answer.IsInternal = &t.Name, [16]byte(t.ID), t.Internal
	if r.message.(*kmsg.MetadataRequest).IncludeTopicAuthorizedOperations {
		answer.AuthorizedOperations = s.operations(r.client, metadata.ACLTopic, t.Name)
	}
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
