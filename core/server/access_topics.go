package server

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/metadata"
)

func guardListOffsets(
	s *Server, ctx context.Context, r *request, next handlerFunc,
) (kmsg.Response, error) {
	req := r.message.(*kmsg.ListOffsetsRequest)
	refused := split(&req.Topics, func(t *kmsg.ListOffsetsRequestTopic) bool {
		return s.mayTopic(r, describe, t.Topic)
	})
	answer, err := next(s, ctx, r)
	if err != nil {
		return nil, err
	}
	resp := answer.(*kmsg.ListOffsetsResponse)
	for i := range refused {
		t := kmsg.NewListOffsetsResponseTopic()
		t.Topic = refused[i].Topic
		for j := range refused[i].Partitions {
			p := listedTwice(refused[i].Partitions[j].Partition)
			p.ErrorCode = codeTopic
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp, nil
}

// guardEpochs lets brokers ask about all topics.
func guardEpochs(
	s *Server, ctx context.Context, r *request, next handlerFunc,
) (kmsg.Response, error) {
	req := r.message.(*kmsg.OffsetForLeaderEpochRequest)
	broker := s.seesCluster(r.client, action)
	refused := split(&req.Topics, func(t *kmsg.OffsetForLeaderEpochRequestTopic) bool {
		return broker || s.mayTopic(r, describe, t.Topic)
	})
	answer, err := next(s, ctx, r)
	if err != nil {
		return nil, err
	}
	resp := answer.(*kmsg.OffsetForLeaderEpochResponse)
	for i := range refused {
		t := kmsg.NewOffsetForLeaderEpochResponseTopic()
		t.Topic = refused[i].Topic
		for j := range refused[i].Partitions {
			p := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			p.Partition, p.ErrorCode = refused[i].Partitions[j].Partition, codeTopic
			p.LeaderEpoch, p.EndOffset = noLeaderEpoch, noOffset
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp, nil
}

// guardCreateTopics refuses topics by their names, and shows configs only to who may see them.
func guardCreateTopics(
	s *Server, ctx context.Context, r *request, next handlerFunc,
) (kmsg.Response, error) {
	req := r.message.(*kmsg.CreateTopicsRequest)
	everywhere := s.seesCluster(r.client, create)
	refused := split(&req.Topics, func(t *kmsg.CreateTopicsRequestTopic) bool {
		return everywhere || s.mayTopic(r, create, t.Topic)
	})
	answer, err := next(s, ctx, r)
	if err != nil {
		return nil, err
	}
	resp := answer.(*kmsg.CreateTopicsResponse)
	for i := range resp.Topics {
		t := &resp.Topics[i]
		if t.ErrorCode == 0 && !s.seesTopic(r, getConfigs, t.Topic) {
			t.Configs, t.ConfigErrorCode = nil, codeTopic
			t.NumPartitions, t.ReplicationFactor = -1, -1
		}
	}
	for i := range refused {
		if slices.ContainsFunc(refused[:i], func(t kmsg.CreateTopicsRequestTopic) bool {
			return t.Topic == refused[i].Topic
		}) {
			continue
		}
		t := kmsg.NewCreateTopicsResponseTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = refused[i].Topic, -1, -1
		t.ErrorCode, t.ErrorMessage = codeTopic, pointer("Authorization failed.") // Kafka's words here
		resp.Topics = append(resp.Topics, t)
	}
	return resp, nil
}

// guardDeleteTopics asks for DELETE on the topic or, as Kafka does, on the cluster. That a topic
// does not exist, and the name for an id, is told only to who may describe it.
func guardDeleteTopics(
	s *Server, ctx context.Context, r *request, next handlerFunc,
) (kmsg.Response, error) {
	req := r.message.(*kmsg.DeleteTopicsRequest)
	everywhere := s.seesCluster(r.client, remove)
	may := func(name string) bool {
		if _, ok := s.image().Topic(name); !ok && s.seesTopic(r, describe, name) {
			return true // it is unknown
		}
		return everywhere || s.mayTopic(r, remove, name)
	}
	var refused []kmsg.DeleteTopicsResponseTopic
	refuse := func(name *string, id [16]byte) {
		t := kmsg.NewDeleteTopicsResponseTopic()
		t.Topic, t.TopicID = name, id
		setCode(&t, codeTopic)
		refused = append(refused, t)
	}
	for _, name := range split(&req.TopicNames, func(name *string) bool { return may(*name) }) {
		refuse(pointer(name), [16]byte{})
	}
	for _, t := range split(&req.Topics, func(t *kmsg.DeleteTopicsRequestTopic) bool {
		if t.Topic != nil {
			return may(*t.Topic)
		}
		topic, ok := s.image().TopicByID(t.TopicID)
		return !ok || may(topic.Name)
	}) {
		name := t.Topic
		if topic, ok := s.image().TopicByID(t.TopicID); ok && s.seesTopic(r, describe, topic.Name) {
			name = &topic.Name
		}
		refuse(name, t.TopicID)
	}
	answer, err := next(s, ctx, r)
	if err != nil {
		return nil, err
	}
	resp := answer.(*kmsg.DeleteTopicsResponse)
	resp.Topics = append(resp.Topics, refused...)
	return resp, nil
}

func guardDeleteRecords(
	s *Server, ctx context.Context, r *request, next handlerFunc,
) (kmsg.Response, error) {
	req := r.message.(*kmsg.DeleteRecordsRequest)
	refused := split(&req.Topics, func(t *kmsg.DeleteRecordsRequestTopic) bool {
		return s.mayTopic(r, remove, t.Topic)
	})
	answer, err := next(s, ctx, r)
	if err != nil {
		return nil, err
	}
	resp := answer.(*kmsg.DeleteRecordsResponse)
	for i := range refused {
		t := kmsg.NewDeleteRecordsResponseTopic()
		t.Topic = refused[i].Topic
		for j := range refused[i].Partitions {
			p := kmsg.NewDeleteRecordsResponseTopicPartition()
			p.Partition, p.LowWatermark = refused[i].Partitions[j].Partition, -1
			p.ErrorCode = codeTopic
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp, nil
}

func guardCreatePartitions(
	s *Server, ctx context.Context, r *request, next handlerFunc,
) (kmsg.Response, error) {
	req := r.message.(*kmsg.CreatePartitionsRequest)
	refused := split(&req.Topics, func(t *kmsg.CreatePartitionsRequestTopic) bool {
		return s.mayTopic(r, alter, t.Topic)
	})
	answer, err := next(s, ctx, r)
	if err != nil {
		return nil, err
	}
	resp := answer.(*kmsg.CreatePartitionsResponse)
	for i := range refused {
		t := kmsg.NewCreatePartitionsResponseTopic()
		t.Topic = refused[i].Topic
		setCode(&t, codeTopic)
		resp.Topics = append(resp.Topics, t)
	}
	return resp, nil
}

func guardProducers(
	s *Server, ctx context.Context, r *request, next handlerFunc,
) (kmsg.Response, error) {
	req := r.message.(*kmsg.DescribeProducersRequest)
	refused := split(&req.Topics, func(t *kmsg.DescribeProducersRequestTopic) bool {
		return s.mayTopic(r, read, t.Topic)
	})
	answer, err := next(s, ctx, r)
	if err != nil {
		return nil, err
	}
	resp := answer.(*kmsg.DescribeProducersResponse)
	for i := range refused {
		t := kmsg.NewDescribeProducersResponseTopic()
		t.Topic = refused[i].Topic
		for _, index := range refused[i].Partitions {
			p := kmsg.NewDescribeProducersResponseTopicPartition()
			p.Partition = index
			setCode(&p, codeTopic)
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp, nil
}

// guardTopicPartitions leaves topics out of "all", and refuses those asked for by name.
func guardTopicPartitions(
	s *Server, ctx context.Context, r *request, next handlerFunc,
) (kmsg.Response, error) {
	req := r.message.(*kmsg.DescribeTopicPartitionsRequest)
	everything := len(req.Topics) == 0
	if everything {
		for t := range s.image().Topics() {
			one := kmsg.NewDescribeTopicPartitionsRequestTopic()
			one.Topic = t.Name
			req.Topics = append(req.Topics, one)
		}
	}
	may := s.mayTopic
	if everything {
		may = s.seesTopic
	}
	refused := split(&req.Topics, func(t *kmsg.DescribeTopicPartitionsRequestTopic) bool {
		return may(r, describe, t.Topic)
	})
	if everything {
		refused = nil
		if c := req.Cursor; c != nil && !slices.ContainsFunc(req.Topics,
			func(t kmsg.DescribeTopicPartitionsRequestTopic) bool { return t.Topic == c.Topic }) {
			// The page begins at a topic that is gone, or not to be seen: after it.
			split(&req.Topics, func(t *kmsg.DescribeTopicPartitionsRequestTopic) bool {
				return t.Topic > c.Topic
			})
			req.Cursor = nil
		}
	}
	resp := kmsg.Response(r.message.ResponseKind())
	if len(req.Topics) > 0 { // none would be all
		var err error
		if resp, err = next(s, ctx, r); err != nil {
			return nil, err
		}
	}
	out := resp.(*kmsg.DescribeTopicPartitionsResponse)
	for i := range refused {
		t := kmsg.NewDescribeTopicPartitionsResponseTopic()
		t.Topic, t.ErrorCode = &refused[i].Topic, codeTopic
		out.Topics = append(out.Topics, t)
	}
	slices.SortStableFunc(out.Topics, func(a, b kmsg.DescribeTopicPartitionsResponseTopic) int {
		return compareNames(a.Topic, b.Topic)
	})
	return out, nil
}

// compareNames orders names, of which null is the least.
func compareNames(a, b *string) int {
	switch {
	case a == nil || b == nil:
		return 0
	case *a < *b:
		return -1
	case *a > *b:
		return 1
	}
	return 0
}

// configGrant is what describing (reading) or altering the configs of a resource needs.
func (s *Server) mayConfigs(
	r *request, op metadata.ACLOperation, kind int8, name string,
) (code int16) {
	switch kind {
	case resourceTopic:
		if !s.mayTopic(r, op, name) {
			return codeTopic
		}
	case resourceGroup:
		if !s.mayGroup(r, op, name) {
			return codeGroup
		}
	default:
		if !s.mayCluster(r.client, op) {
			return codeCluster
		}
	}
	return 0
}

func guardDescribeConfigs(
	s *Server, ctx context.Context, r *request, next handlerFunc,
) (kmsg.Response, error) {
	req := r.message.(*kmsg.DescribeConfigsRequest)
	refused := split(&req.Resources, func(t *kmsg.DescribeConfigsRequestResource) bool {
		return s.mayConfigs(r, getConfigs, int8(t.ResourceType), t.ResourceName) == 0
	})
	answer, err := next(s, ctx, r)
	if err != nil {
		return nil, err
	}
	resp := answer.(*kmsg.DescribeConfigsResponse)
	for i := range refused {
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName = refused[i].ResourceType, refused[i].ResourceName
		setCode(&out, s.mayConfigs(r, getConfigs, int8(out.ResourceType), out.ResourceName))
		resp.Resources = append(resp.Resources, out)
	}
	return resp, nil
}

func guardAlterConfigs(
	s *Server, ctx context.Context, r *request, next handlerFunc,
) (kmsg.Response, error) {
	req := r.message.(*kmsg.AlterConfigsRequest)
	refused := split(&req.Resources, func(t *kmsg.AlterConfigsRequestResource) bool {
		return s.mayConfigs(r, setConfigs, int8(t.ResourceType), t.ResourceName) == 0
	})
	answer, err := next(s, ctx, r)
	if err != nil {
		return nil, err
	}
	resp := answer.(*kmsg.AlterConfigsResponse)
	for i := range refused {
		out := kmsg.NewAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = refused[i].ResourceType, refused[i].ResourceName
		setCode(&out, s.mayConfigs(r, setConfigs, int8(out.ResourceType), out.ResourceName))
		resp.Resources = append(resp.Resources, out)
	}
	return resp, nil
}

func guardIncremental(
	s *Server, ctx context.Context, r *request, next handlerFunc,
) (kmsg.Response, error) {
	req := r.message.(*kmsg.IncrementalAlterConfigsRequest)
	refused := split(&req.Resources, func(t *kmsg.IncrementalAlterConfigsRequestResource) bool {
		return s.mayConfigs(r, setConfigs, int8(t.ResourceType), t.ResourceName) == 0
	})
	answer, err := next(s, ctx, r)
	if err != nil {
		return nil, err
	}
	resp := answer.(*kmsg.IncrementalAlterConfigsResponse)
	for i := range refused {
		out := kmsg.NewIncrementalAlterConfigsResponseResource()
		out.ResourceType, out.ResourceName = refused[i].ResourceType, refused[i].ResourceName
		setCode(&out, s.mayConfigs(r, setConfigs, int8(out.ResourceType), out.ResourceName))
		resp.Resources = append(resp.Resources, out)
	}
	return resp, nil
}
