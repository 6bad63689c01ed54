package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/controller"
)

// AlterConfigs (key 33), versions 0 to 2: the legacy call that replaces everything.
//
//   - Settings that the request does not name go back to their defaults.
//   - Levels of loggers (type 8) cannot be replaced.

func (s *Server) alterConfigs(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.AlterConfigsRequest)
	resp := response[*kmsg.AlterConfigsResponse](r)
	resources := make([]controller.ConfigResource, 0, len(req.Resources))
	for i := range req.Resources {
		in := &req.Resources[i]
		resource := controller.ConfigResource{
			Type: controller.ResourceType(in.ResourceType), Name: in.ResourceName, Replace: true,
		}
		for j := range in.Configs {
			resource.Changes = append(resource.Changes, controller.ConfigChange{
				Key: in.Configs[j].Name, Op: controller.OpSet, Value: in.Configs[j].Value,
			})
		}
		resources = append(resources, resource)
	}
	errs := s.alter(ctx, resources, req.ValidateOnly)
	for i := range req.Resources {
		out := kmsg.NewAlterConfigsResponseResource()
		out.ResourceType = req.Resources[i].ResourceType
		out.ResourceName = req.Resources[i].ResourceName
		setError(&out.ErrorCode, &out.ErrorMessage, errs[i])
		resp.Resources = append(resp.Resources, out)
	}
	return resp, nil
}
