package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/group"
)

// SyncGroup (key 14), versions 0 to 5.
//
//   - Waits for the leader's assignments, and until they are durable.
//   - Version 5 checks protocol type and protocol, which must be there then (KIP-559).

func (s *Server) syncGroup(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.SyncGroupRequest)
	if r.version >= 5 && (req.ProtocolType == nil || req.Protocol == nil) {
		resp := response[*kmsg.SyncGroupResponse](r)
		resp.ErrorCode, resp.MemberAssignment = kerr.InconsistentGroupProtocol.Code, []byte{}
		return resp, nil
	}
	sync := group.SyncRequest{
		GroupID: req.Group, MemberID: req.MemberID, InstanceID: req.InstanceID,
		Generation: req.Generation, ProtocolType: req.ProtocolType, Protocol: req.Protocol,
		Assignments: make([]group.Assignment, len(req.GroupAssignment)),
	}
	for i := range req.GroupAssignment {
		sync.Assignments[i] = group.Assignment{
			MemberID:   req.GroupAssignment[i].MemberID,
			Assignment: req.GroupAssignment[i].MemberAssignment,
		}
	}
	synced := s.opts.Groups.Sync(ctx, sync)
	resp := response[*kmsg.SyncGroupResponse](r)
	resp.ErrorCode = int16(synced.Code)
	resp.MemberAssignment = nonNil(synced.Assignment)
	if synced.Code == noError {
		resp.ProtocolType, resp.Protocol = &synced.ProtocolType, &synced.Protocol
	}
	return resp, nil
}
