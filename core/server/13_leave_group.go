package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/group"
)

// LeaveGroup (key 13), versions 0 to 5.
//
//   - Version 3 takes several members, each with its own code; an administrator names static
//     members by their instance id alone (KIP-345). The reason of version 5 is not used.

func (s *Server) leaveGroup(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.LeaveGroupRequest)
	leave := group.LeaveRequest{GroupID: req.Group}
	if r.version < 3 {
		leave.Members = []group.LeaveMember{{MemberID: req.MemberID}}
	}
	for i := range req.Members {
		leave.Members = append(leave.Members, group.LeaveMember{
			MemberID: req.Members[i].MemberID, InstanceID: req.Members[i].InstanceID,
		})
	}
	left := s.opts.Groups.Leave(ctx, leave)
	resp := response[*kmsg.LeaveGroupResponse](r)
	resp.ErrorCode = int16(left.Code)
	for _, m := range left.Members {
		if r.version < 3 {
			resp.ErrorCode = int16(m.Code)
			continue
		}
		out := kmsg.NewLeaveGroupResponseMember()
		out.MemberID, out.InstanceID, out.ErrorCode = m.MemberID, m.InstanceID, int16(m.Code)
		resp.Members = append(resp.Members, out)
	}
	return resp, nil
}
