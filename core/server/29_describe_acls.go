package server

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/auth"
	"github.com/millstream-io/millstream/core/metadata"
)

// DescribeAcls (key 29), versions 1 to 3.
//
//   - The rules that match a filter, by resource (KIP-290).
//   - SECURITY_DISABLED where access is not controlled.
//   - A type that is not known is INVALID_REQUEST; Kafka closes the connection.

// errSecurityDisabled is the answer where there are no rules.
var errSecurityDisabled = fmt.Errorf("no Authorizer is configured: %w", kerr.SecurityDisabled)

// errBadFilter is for parts of filters that nobody knows.
var errBadFilter = fmt.Errorf("the filter has a part that is not known: %w", kerr.InvalidRequest)

func (s *Server) describeACLs(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.DescribeACLsRequest)
	resp := response[*kmsg.DescribeACLsResponse](r)
	filter := auth.Filter{
		ResourceType: metadata.ACLResourceType(req.ResourceType), Name: req.ResourceName,
		Pattern:   metadata.ACLPatternType(req.ResourcePatternType),
		Principal: req.Principal, Host: req.Host, Operation: metadata.ACLOperation(req.Operation),
		Permission: metadata.ACLPermission(req.PermissionType),
	}
	switch {
	case s.opts.Authorizer == nil:
		setError(&resp.ErrorCode, &resp.ErrorMessage, errSecurityDisabled)
		return resp, nil
	case !filter.Valid():
		setError(&resp.ErrorCode, &resp.ErrorMessage, errBadFilter)
		return resp, nil
	}
	for _, a := range filter.Pick(s.image().ACLs()) {
		n := len(resp.Resources)
		if n == 0 || !sameResource(&resp.Resources[n-1], &a) {
			out := kmsg.NewDescribeACLsResponseResource()
			out.ResourceType = kmsg.ACLResourceType(a.ResourceType)
			out.ResourceName = a.Name
			out.ResourcePatternType = kmsg.ACLResourcePatternType(a.Pattern)
			resp.Resources = append(resp.Resources, out)
			n++
		}
		acl := kmsg.NewDescribeACLsResponseResourceACL()
		acl.Principal, acl.Host = a.Principal, a.Host
		acl.Operation = kmsg.ACLOperation(a.Operation)
		acl.PermissionType = kmsg.ACLPermissionType(a.Permission)
		resp.Resources[n-1].ACLs = append(resp.Resources[n-1].ACLs, acl)
	}
	return resp, nil
}

func sameResource(r *kmsg.DescribeACLsResponseResource, a *metadata.ACL) bool {
	return metadata.ACLResourceType(r.ResourceType) == a.ResourceType && r.ResourceName == a.Name &&
		metadata.ACLPatternType(r.ResourcePatternType) == a.Pattern
}
