package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// DeleteGroups (key 42), versions 0 to 2.
//
//   - Only groups without members can go: NON_EMPTY_GROUP else, GROUP_ID_NOT_FOUND if there is
//     none. Their committed offsets go with them.

func (s *Server) deleteGroups(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.DeleteGroupsRequest)
	resp := response[*kmsg.DeleteGroupsResponse](r)
	for _, id := range req.Groups {
		out := kmsg.NewDeleteGroupsResponseGroup()
		out.Group, out.ErrorCode = id, int16(s.opts.Groups.Delete(ctx, id))
		resp.Groups = append(resp.Groups, out)
	}
	return resp, nil
}
