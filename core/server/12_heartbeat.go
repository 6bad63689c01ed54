package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/group"
)

// Heartbeat (key 12), versions 0 to 4.
//
//   - REBALANCE_IN_PROGRESS tells the member to join again; its session is prolonged all the same.

func (s *Server) heartbeat(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.HeartbeatRequest)
	resp := response[*kmsg.HeartbeatResponse](r)
	resp.ErrorCode = int16(s.opts.Groups.Heartbeat(ctx, group.HeartbeatRequest{
		GroupID: req.Group, MemberID: req.MemberID, InstanceID: req.InstanceID,
		Generation: req.Generation,
	}).Code)
	return resp, nil
}
