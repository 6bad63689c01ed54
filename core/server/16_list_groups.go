package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/group"
)

// ListGroups (key 16), versions 0 to 5.
//
//   - Lists the groups this broker coordinates, sorted, those with offsets only included.
//   - Filters by state (version 4, KIP-518) and by type (version 5, KIP-848), in any case.

func (s *Server) listGroups(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.ListGroupsRequest)
	list := s.opts.Groups.List(ctx, group.ListRequest{
		States: req.StatesFilter, Types: req.TypesFilter,
	})
	resp := response[*kmsg.ListGroupsResponse](r)
	resp.ErrorCode = int16(list.Code)
	for i := range list.Groups {
		g := &list.Groups[i]
		out := kmsg.NewListGroupsResponseGroup()
		out.Group, out.ProtocolType = g.GroupID, g.ProtocolType
		out.GroupState, out.GroupType = g.State, g.Type
		resp.Groups = append(resp.Groups, out)
	}
	return resp, nil
}
