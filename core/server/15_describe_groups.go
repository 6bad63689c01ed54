package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/group/classic"
	"github.com/millstream-io/millstream/core/metadata"
)

// DescribeGroups (key 15), versions 0 to 6.
//
//   - A group that does not exist is in state Dead without error, from version 6 on with
//     GROUP_ID_NOT_FOUND (KIP-1043).
//   - Metadata and assignments of members are shown once the group is stable.
//   - Authorized operations are told if asked for, and only of a group without an error (KIP-430).

func (s *Server) describeGroups(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.DescribeGroupsRequest)
	resp := response[*kmsg.DescribeGroupsResponse](r)
	for _, id := range req.Groups {
		group := s.describeGroup(ctx, r.version, id)
		if req.IncludeAuthorizedOperations && group.ErrorCode == 0 {
			group.AuthorizedOperations = s.operations(r.client, metadata.ACLGroup, id)
		}
		resp.Groups = append(resp.Groups, group)
	}
	return resp, nil
}

func (s *Server) describeGroup(
	ctx context.Context, version int16, id string,
) kmsg.DescribeGroupsResponseGroup {
	d := s.opts.Groups.Describe(ctx, id)
	out := kmsg.NewDescribeGroupsResponseGroup()
	out.Group, out.ErrorCode = id, int16(d.Code)
	if out.ErrorCode == kerr.GroupIDNotFound.Code {
		out.State = classic.Dead.String()
		if version < 6 {
			out.ErrorCode = 0
			return out
		}
		out.ErrorMessage = pointer("Group " + id + " not found.")
		return out
	}
	if d.Code != noError {
		return out
	}
	out.State, out.ProtocolType, out.Protocol = d.State.String(), d.ProtocolType, d.Protocol
	for i := range d.Members {
		m := &d.Members[i]
		member := kmsg.NewDescribeGroupsResponseGroupMember()
		member.MemberID, member.InstanceID = m.MemberID, m.InstanceID
		member.ClientID, member.ClientHost = m.ClientID, m.ClientHost
		member.ProtocolMetadata = nonNil(m.Metadata)
		member.MemberAssignment = nonNil(m.Assignment)
		out.Members = append(out.Members, member)
	}
	return out
}
