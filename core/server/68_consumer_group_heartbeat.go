package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/group"
	"github.com/millstream-io/millstream/core/metadata"
)

// ConsumerGroupHeartbeat (key 68), versions 0 and 1 (KIP-848).
//
//   - Joins (epoch 0), lives, reports what it owns, leaves (-1), and leaves for a while (-2).
//   - Null fields are unchanged. The assignment is there if it has changed, or if the request has
//     told everything.
//   - With the feature group.version at 0, all is UNSUPPORTED_VERSION.
//   - From version 1 on the member chooses its id, and may subscribe by a regular expression, which
//     matches only topics that the client may describe.

func (s *Server) consumerGroupHeartbeat(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.ConsumerGroupHeartbeatRequest)
	beat := group.ConsumerHeartbeatRequest{
		GroupID: req.Group, MemberID: req.MemberID, MemberEpoch: req.MemberEpoch,
		InstanceID: req.InstanceID, RackID: req.RackID,
		RebalanceTimeoutMS: req.RebalanceTimeoutMillis,
		Topics:             req.SubscribedTopicNames, Regex: req.SubscribedTopicRegex,
		Assignor: req.ServerAssignor,
		ClientID: r.clientID, ClientHost: "/" + r.clientHost, // as Java prints an address
		RequireMemberID: r.version >= 1, Visible: s.visibleTo(r.client),
	}
	if req.Topics != nil {
		beat.Owned = make([]group.ConsumerPartitions, len(req.Topics))
		for i := range req.Topics {
			beat.Owned[i].TopicID = req.Topics[i].TopicID
			beat.Owned[i].Partitions = req.Topics[i].Partitions
		}
	}
	if s.image().FeatureLevel(metadata.GroupVersion) < 1 {
		return unsupportedGroup(r), nil
	}
	answer := s.opts.Groups.ConsumerHeartbeat(ctx, beat)
	resp := response[*kmsg.ConsumerGroupHeartbeatResponse](r)
	resp.ErrorCode = int16(answer.Code)
	if answer.Message != "" {
		resp.ErrorMessage = &answer.Message
	}
	if answer.MemberID != "" {
		resp.MemberID = &answer.MemberID
	}
	resp.MemberEpoch, resp.HeartbeatIntervalMillis = answer.MemberEpoch, answer.IntervalMS
	if answer.Assignment != nil {
		resp.Assignment = &kmsg.ConsumerGroupHeartbeatResponseAssignment{}
		for _, tp := range answer.Assignment {
			out := kmsg.NewConsumerGroupHeartbeatResponseAssignmentTopic()
			out.TopicID, out.Partitions = tp.TopicID, tp.Partitions
			resp.Assignment.Topics = append(resp.Assignment.Topics, out)
		}
	}
	return resp, nil
}

// unsupportedGroup is the answer while group.version is off.
func unsupportedGroup(r *request) kmsg.Response {
	resp := response[*kmsg.ConsumerGroupHeartbeatResponse](r)
	resp.ErrorCode = kerr.UnsupportedVersion.Code
	return resp
}
