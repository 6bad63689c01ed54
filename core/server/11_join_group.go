package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/group"
)

// JoinGroup (key 11), versions 0 to 9.
//
//   - Waits until the rebalance is over; the first of an empty group also for
//     group.initial.rebalance.delay.ms (KIP-134).
//   - Version 0 has one timeout for both session and rebalance.
//   - From version 4 a new member gets MEMBER_ID_REQUIRED and its id first (KIP-394).
//   - Version 5 has static members (KIP-345), version 9 may tell a static leader to keep the
//     assignment (KIP-814). The reason of version 8 is not used.

func (s *Server) joinGroup(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.JoinGroupRequest)
	join := group.JoinRequest{
		GroupID: req.Group, MemberID: req.MemberID, InstanceID: req.InstanceID,
		ClientID: r.clientID, ClientHost: "/" + r.clientHost, // as Java prints an address
		ProtocolType:       req.ProtocolType,
		Protocols:          make([]group.Protocol, len(req.Protocols)),
		SessionTimeoutMS:   req.SessionTimeoutMillis,
		RebalanceTimeoutMS: req.RebalanceTimeoutMillis,
		RequireMemberID:    r.version >= 4,
		CanSkipAssignment:  r.version >= 9,
		Visible:            s.visibleTo(r.client),
	}
	if r.version == 0 || join.RebalanceTimeoutMS < 0 {
		join.RebalanceTimeoutMS = req.SessionTimeoutMillis
	}
	for i := range req.Protocols {
		join.Protocols[i] = group.Protocol{
			Name: req.Protocols[i].Name, Metadata: req.Protocols[i].Metadata,
		}
	}
	joined := s.opts.Groups.Join(ctx, join)
	resp := response[*kmsg.JoinGroupResponse](r)
	resp.ErrorCode, resp.Generation = int16(joined.Code), joined.Generation
	resp.LeaderID, resp.MemberID = joined.Leader, joined.MemberID
	resp.SkipAssignment = joined.SkipAssignment
	switch {
	case joined.Code == noError:
		resp.ProtocolType, resp.Protocol = &joined.ProtocolType, &joined.Protocol
	case r.version < 7:
		resp.Protocol = pointer("") // not nullable there
	}
	resp.Members = make([]kmsg.JoinGroupResponseMember, len(joined.Members))
	for i, m := range joined.Members {
		out := kmsg.NewJoinGroupResponseMember()
		out.MemberID, out.InstanceID = m.MemberID, m.InstanceID
		out.ProtocolMetadata = nonNil(m.Metadata)
		resp.Members[i] = out
	}
	return resp, nil
}
