package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/group"
	"github.com/millstream-io/millstream/core/metadata"
)

// ConsumerGroupDescribe (key 69), versions 0 and 1 (KIP-848).
//
//   - A group that does not exist, or is a classic one, is GROUP_ID_NOT_FOUND.
//   - The assignment of a member has what it still has to give back, too.
//   - Version 1 tells members that use the classic protocol (0) from the others (1).
//   - Authorized operations are told if asked for, and only of a group without an error (KIP-430).

func (s *Server) consumerGroupDescribe(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.ConsumerGroupDescribeRequest)
	resp := response[*kmsg.ConsumerGroupDescribeResponse](r)
	on := s.image().FeatureLevel(metadata.GroupVersion) >= 1
	for _, id := range req.Groups {
		if !on {
			out := kmsg.NewConsumerGroupDescribeResponseGroup()
			out.Group, out.ErrorCode = id, kerr.UnsupportedVersion.Code
			resp.Groups = append(resp.Groups, out)
			continue
		}
		group := s.describeConsumerGroup(ctx, id)
		if req.IncludeAuthorizedOperations && group.ErrorCode == 0 {
			group.AuthorizedOperations = s.operations(r.client, metadata.ACLGroup, id)
		}
		resp.Groups = append(resp.Groups, group)
	}
	return resp, nil
}

func (s *Server) describeConsumerGroup(
	ctx context.Context, id string,
) kmsg.ConsumerGroupDescribeResponseGroup {
	out := kmsg.NewConsumerGroupDescribeResponseGroup()
	out.Group = id
	if id == "" {
		out.ErrorCode = kerr.InvalidGroupID.Code
		return out
	}
	d := s.opts.Groups.DescribeConsumer(ctx, id)
	out.ErrorCode = int16(d.Code)
	if d.Message != "" {
		out.ErrorMessage = &d.Message
	}
	if d.Code != noError {
		return out
	}
	out.State, out.Epoch, out.AssignmentEpoch = d.State, d.Epoch, d.AssignmentEpoch
	out.AssignorName = d.Assignor
	for i := range d.Members {
		m := &d.Members[i]
		member := kmsg.NewConsumerGroupDescribeResponseGroupMember()
		member.MemberID, member.InstanceID, member.RackID = m.MemberID, m.InstanceID, m.RackID
		member.MemberEpoch = m.Epoch
		member.ClientID, member.ClientHost = m.ClientID, m.ClientHost
		member.SubscribedTopics, member.SubscribedTopicRegex = m.Topics, m.Regex
		member.Assignment = namedAssignment(m.Assignment)
		member.TargetAssignment = namedAssignment(m.Target)
		member.MemberType = 1
		if m.Classic {
			member.MemberType = 0
		}
		out.Members = append(out.Members, member)
	}
	return out
}

func namedAssignment(list []group.NamedPartitions) kmsg.Assignment {
	var out kmsg.Assignment
	for i := range list {
		tp := kmsg.NewAssignmentTopicPartition()
		tp.TopicID, tp.Topic = list[i].TopicID, list[i].Topic
		tp.Partitions = list[i].Partitions
		out.TopicPartitions = append(out.TopicPartitions, tp)
	}
	return out
}
