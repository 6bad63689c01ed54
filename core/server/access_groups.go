package server

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/metadata"
)

func guardOffsetCommit(
	s *Server, ctx context.Context, r *request, next handlerFunc,
) (kmsg.Response, error) {
	req := r.message.(*kmsg.OffsetCommitRequest)
	code := codeTopic
	mayGroup := s.mayGroup(r, read, req.Group)
	if !mayGroup {
		code = codeGroup
	}
	refused := split(&req.Topics, func(t *kmsg.OffsetCommitRequestTopic) bool {
		return mayGroup && s.mayTopicID(r, read, t.Topic, t.TopicID)
	})
	resp := kmsg.Response(r.message.ResponseKind())
	if mayGroup {
		var err error
		if resp, err = next(s, ctx, r); err != nil {
			return nil, err
		}
	}
	out := resp.(*kmsg.OffsetCommitResponse)
	for i := range refused {
		t := kmsg.NewOffsetCommitResponseTopic()
		t.Topic, t.TopicID = refused[i].Topic, refused[i].TopicID
		for j := range refused[i].Partitions {
			p := kmsg.NewOffsetCommitResponseTopicPartition()
			p.Partition, p.ErrorCode = refused[i].Partitions[j].Partition, code
			t.Partitions = append(t.Partitions, p)
		}
		out.Topics = append(out.Topics, t)
	}
	return out, nil
}

// guardOffsetFetch refuses groups, and in others the topics that are asked for; of all topics it
// leaves out those that may not be seen.
func guardOffsetFetch(
	s *Server, ctx context.Context, r *request, next handlerFunc,
) (kmsg.Response, error) {
	req := r.message.(*kmsg.OffsetFetchRequest)
	if r.version < 8 {
		return guardOffsetFetchOne(s, ctx, r, next)
	}
	refused := split(&req.Groups, func(g *kmsg.OffsetFetchRequestGroup) bool {
		return s.mayGroup(r, describe, g.Group)
	})
	topics := make([][]kmsg.OffsetFetchRequestGroupTopic, len(req.Groups))
	for i := range req.Groups {
		topics[i] = split(&req.Groups[i].Topics, func(t *kmsg.OffsetFetchRequestGroupTopic) bool {
			return s.mayTopicID(r, describe, t.Topic, t.TopicID)
		})
	}
	answer, err := next(s, ctx, r)
	if err != nil {
		return nil, err
	}
	resp := answer.(*kmsg.OffsetFetchResponse)
	for i := range resp.Groups {
		g := &resp.Groups[i]
		split(&g.Topics, func(t *kmsg.OffsetFetchResponseGroupTopic) bool {
			return s.seesTopicID(r, describe, t.Topic, t.TopicID)
		})
		if g.ErrorCode != 0 {
			continue
		}
		for j := range topics[i] {
			t := unknownFetch(&topics[i][j])
			t.Topic = topics[i][j].Topic
			for k := range t.Partitions {
				t.Partitions[k].ErrorCode = codeTopic
			}
			g.Topics = append(g.Topics, t)
		}
	}
	for i := range refused {
		g := kmsg.NewOffsetFetchResponseGroup()
		g.Group, g.ErrorCode = refused[i].Group, codeGroup
		resp.Groups = append(resp.Groups, g)
	}
	return resp, nil
}

// guardOffsetFetchOne is guardOffsetFetch for versions 1 to 7.
func guardOffsetFetchOne(
	s *Server, ctx context.Context, r *request, next handlerFunc,
) (kmsg.Response, error) {
	req := r.message.(*kmsg.OffsetFetchRequest)
	mayGroup := s.mayGroup(r, describe, req.Group)
	code := codeTopic
	refused := split(&req.Topics, func(t *kmsg.OffsetFetchRequestTopic) bool {
		return mayGroup && s.mayTopic(r, describe, t.Topic)
	})
	answer := kmsg.Response(r.message.ResponseKind())
	if mayGroup {
		var err error
		if answer, err = next(s, ctx, r); err != nil {
			return nil, err
		}
	}
	resp := answer.(*kmsg.OffsetFetchResponse)
	split(&resp.Topics, func(t *kmsg.OffsetFetchResponseTopic) bool {
		return s.seesTopic(r, describe, t.Topic)
	})
	if !mayGroup {
		resp.ErrorCode, code = codeGroup, codeGroup
		if r.version >= 2 {
			return resp, nil // version 1 has only partitions to put it in
		}
	}
	for i := range refused {
		t := kmsg.NewOffsetFetchResponseTopic()
		t.Topic = refused[i].Topic
		for _, index := range refused[i].Partitions {
			p := kmsg.NewOffsetFetchResponseTopicPartition()
			p.Partition, p.Offset, p.LeaderEpoch = index, noOffset, noLeaderEpoch
			p.Metadata, p.ErrorCode = pointer(""), code
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp, nil
}

func guardDescribeGroups(
	s *Server, ctx context.Context, r *request, next handlerFunc,
) (kmsg.Response, error) {
	req := r.message.(*kmsg.DescribeGroupsRequest)
	refused := split(&req.Groups, func(g *string) bool { return s.mayGroup(r, describe, *g) })
	answer, err := next(s, ctx, r)
	if err != nil {
		return nil, err
	}
	resp := answer.(*kmsg.DescribeGroupsResponse)
	for _, g := range refused {
		out := kmsg.NewDescribeGroupsResponseGroup()
		out.Group = g
		setCode(&out, codeGroup)
		resp.Groups = append(resp.Groups, out)
	}
	return resp, nil
}

// guardListGroups leaves groups out, unless the client may describe the cluster.
func guardListGroups(
	s *Server, ctx context.Context, r *request, next handlerFunc,
) (kmsg.Response, error) {
	answer, err := next(s, ctx, r)
	if err != nil || s.seesCluster(r.client, describe) {
		return answer, err
	}
	resp := answer.(*kmsg.ListGroupsResponse)
	split(&resp.Groups, func(g *kmsg.ListGroupsResponseGroup) bool {
		return s.sees(r.client, describe, metadata.ACLGroup, g.Group)
	})
	return resp, nil
}

func guardDeleteGroups(
	s *Server, ctx context.Context, r *request, next handlerFunc,
) (kmsg.Response, error) {
	req := r.message.(*kmsg.DeleteGroupsRequest)
	refused := split(&req.Groups, func(g *string) bool { return s.mayGroup(r, remove, *g) })
	answer, err := next(s, ctx, r)
	if err != nil {
		return nil, err
	}
	resp := answer.(*kmsg.DeleteGroupsResponse)
	for _, g := range refused {
		out := kmsg.NewDeleteGroupsResponseGroup()
		out.Group, out.ErrorCode = g, codeGroup
		resp.Groups = append(resp.Groups, out)
	}
	return resp, nil
}

func guardOffsetDelete(
	s *Server, ctx context.Context, r *request, next handlerFunc,
) (kmsg.Response, error) {
	req := r.message.(*kmsg.OffsetDeleteRequest)
	if !s.mayGroup(r, remove, req.Group) {
		return refuseAll(r, codeGroup), nil
	}
	refused := split(&req.Topics, func(t *kmsg.OffsetDeleteRequestTopic) bool {
		return s.mayTopic(r, read, t.Topic)
	})
	answer, err := next(s, ctx, r)
	if err != nil {
		return nil, err
	}
	resp := answer.(*kmsg.OffsetDeleteResponse)
	if resp.ErrorCode != 0 {
		return resp, nil
	}
	for i := range refused {
		t := kmsg.NewOffsetDeleteResponseTopic()
		t.Topic = refused[i].Topic
		for j := range refused[i].Partitions {
			p := kmsg.NewOffsetDeleteResponseTopicPartition()
			p.Partition, p.ErrorCode = refused[i].Partitions[j].Partition, codeTopic
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp, nil
}

// guardConsumerHeartbeat asks for DESCRIBE on the topics that are subscribed to by name.
func guardConsumerHeartbeat(
	s *Server, ctx context.Context, r *request, next handlerFunc,
) (kmsg.Response, error) {
	req := r.message.(*kmsg.ConsumerGroupHeartbeatRequest)
	if !s.mayGroup(r, read, req.Group) {
		return refuseAll(r, codeGroup), nil
	}
	if slices.ContainsFunc(req.SubscribedTopicNames, func(t string) bool {
		return !s.mayTopic(r, describe, t)
	}) {
		return refuseAll(r, codeTopic), nil
	}
	return next(s, ctx, r)
}

// guardConsumerDescribe shows no group that reads a topic which the client may not see.
func guardConsumerDescribe(
	s *Server, ctx context.Context, r *request, next handlerFunc,
) (kmsg.Response, error) {
	req := r.message.(*kmsg.ConsumerGroupDescribeRequest)
	refused := split(&req.Groups, func(g *string) bool { return s.mayGroup(r, describe, *g) })
	answer, err := next(s, ctx, r)
	if err != nil {
		return nil, err
	}
	resp := answer.(*kmsg.ConsumerGroupDescribeResponse)
	for i := range resp.Groups {
		g := &resp.Groups[i]
		hidden := func(t kmsg.AssignmentTopicPartition) bool { return !s.mayTopic(r, describe, t.Topic) }
		if slices.ContainsFunc(g.Members, func(m kmsg.ConsumerGroupDescribeResponseGroupMember) bool {
			return slices.ContainsFunc(m.Assignment.TopicPartitions, hidden) ||
				slices.ContainsFunc(m.TargetAssignment.TopicPartitions, hidden) ||
				slices.ContainsFunc(m.SubscribedTopics, func(t string) bool {
					return !s.mayTopic(r, describe, t)
				})
		}) {
			refusedGroup := kmsg.NewConsumerGroupDescribeResponseGroup()
			refusedGroup.Group, refusedGroup.ErrorCode = g.Group, codeTopic
			refusedGroup.ErrorMessage = pointer(
				"The group has described topic(s) that the client is not authorized to describe.")
			*g = refusedGroup
		}
	}
	for _, g := range refused {
		out := kmsg.NewConsumerGroupDescribeResponseGroup()
		out.Group = g
		setCode(&out, codeGroup)
		resp.Groups = append(resp.Groups, out)
	}
	return resp, nil
}
