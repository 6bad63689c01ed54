package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/metadata"
)

// CreateAcls (key 30), versions 1 to 3.
//
//   - Each rule has its own code; one that is there already is fine.
//   - SECURITY_DISABLED where access is not controlled.

func (s *Server) createACLs(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.CreateACLsRequest)
	resp := response[*kmsg.CreateACLsResponse](r)
	acls := make([]metadata.ACL, 0, len(req.Creations))
	for i := range req.Creations {
		c := &req.Creations[i]
		acls = append(acls, metadata.ACL{
			ResourceType: metadata.ACLResourceType(c.ResourceType), Name: c.ResourceName,
			Pattern:   metadata.ACLPatternType(c.ResourcePatternType),
			Principal: c.Principal, Host: c.Host, Operation: metadata.ACLOperation(c.Operation),
			Permission: metadata.ACLPermission(c.PermissionType),
		})
	}
	var errs []error
	err := errSecurityDisabled
	if s.opts.Authorizer != nil {
		errs, err = s.opts.Controller.CreateACLs(ctx, acls)
	}
	for i := range acls {
		failure := err
		if failure == nil {
			failure = errs[i]
		}
		out := kmsg.NewCreateACLsResponseResult()
		setError(&out.ErrorCode, &out.ErrorMessage, failure)
		resp.Results = append(resp.Results, out)
		s.audit(r, "create access rule", failure, "rule", acls[i])
	}
	return resp, nil
}
