package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/auth"
	"github.com/millstream-io/millstream/core/metadata"
)

// DeleteAcls (key 31), versions 1 to 3.
//
//   - Deletes the rules that match filters, and tells which they were.
//   - SECURITY_DISABLED where access is not controlled; INVALID_REQUEST for a type that is not
//     known.

func (s *Server) deleteACLs(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.DeleteACLsRequest)
	resp := response[*kmsg.DeleteACLsResponse](r)
	for i := range req.Filters {
		f := &req.Filters[i]
		filter := auth.Filter{
			ResourceType: metadata.ACLResourceType(f.ResourceType), Name: f.ResourceName,
			Pattern:   metadata.ACLPatternType(f.ResourcePatternType),
			Principal: f.Principal, Host: f.Host, Operation: metadata.ACLOperation(f.Operation),
			Permission: metadata.ACLPermission(f.PermissionType),
		}
		out := kmsg.NewDeleteACLsResponseResult()
		deleted, err := s.deleteMatching(ctx, &filter)
		setError(&out.ErrorCode, &out.ErrorMessage, err)
		for _, a := range deleted {
			out.MatchingACLs = append(out.MatchingACLs, deletedACL(&a))
			s.audit(r, "delete access rule", nil, "rule", a)
		}
		resp.Results = append(resp.Results, out)
	}
	return resp, nil
}

// deleteMatching deletes the rules that match, and returns them.
func (s *Server) deleteMatching(ctx context.Context, f *auth.Filter) ([]metadata.ACL, error) {
	switch {
	case s.opts.Authorizer == nil:
		return nil, errSecurityDisabled
	case !f.Valid():
		return nil, errBadFilter
	}
	matching := f.Pick(s.image().ACLs())
	if len(matching) == 0 {
		return nil, nil
	}
	if err := s.opts.Controller.DeleteACLs(ctx, matching); err != nil {
		return nil, err
	}
	return matching, nil
}

func deletedACL(a *metadata.ACL) kmsg.DeleteACLsResponseResultMatchingACL {
	out := kmsg.NewDeleteACLsResponseResultMatchingACL()
	out.ResourceType = kmsg.ACLResourceType(a.ResourceType)
	out.ResourceName = a.Name
	out.ResourcePatternType = kmsg.ACLResourcePatternType(a.Pattern)
	out.Principal, out.Host = a.Principal, a.Host
	out.Operation = kmsg.ACLOperation(a.Operation)
	out.PermissionType = kmsg.ACLPermissionType(a.Permission)
	return out
}
