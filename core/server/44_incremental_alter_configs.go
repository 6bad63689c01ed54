package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/controller"
)

// IncrementalAlterConfigs (key 44), versions 0 and 1.
//
//   - SET, DELETE, APPEND and SUBTRACT on topics, one broker, and the default of all brokers.
//   - A resource changes as a whole or not at all; a setting or a resource named twice is
//     INVALID_REQUEST.
//
// Known gap: broker loggers, client metrics and groups are refused.

func (s *Server) incrementalAlterConfigs(
	ctx context.Context, r *request,
) (kmsg.Response, error) {
	req := r.message.(*kmsg.IncrementalAlterConfigsRequest)
	resp := response[*kmsg.IncrementalAlterConfigsResponse](r)
	resources := make([]controller.ConfigResource, 0, len(req.Resources))
	for i := range req.Resources {
		in := &req.Resources[i]
		resource := controller.ConfigResource{
			Type: controller.ResourceType(in.ResourceType), Name: in.ResourceName,
		}
		for j := range in.Configs {
			c := &in.Configs[j]
			resource.Changes = append(resource.Changes, controller.ConfigChange{
				Key: c.Name, Op: controller.ConfigOp(c.Op), Value: c.Value,
			})
		}
		resources = append(resources, resource)
	}
	errs := s.alter(ctx, resources, req.ValidateOnly)
	for i := range req.Resources {
		out := kmsg.NewIncrementalAlterConfigsResponseResource()
		out.ResourceType = req.Resources[i].ResourceType
		out.ResourceName = req.Resources[i].ResourceName
		setError(&out.ErrorCode, &out.ErrorMessage, errs[i])
		resp.Resources = append(resp.Resources, out)
	}
	return resp, nil
}

// alter changes settings and returns one error, or nil, for each resource.
func (s *Server) alter(
	ctx context.Context, resources []controller.ConfigResource, validateOnly bool,
) []error {
	errs, err := s.opts.Controller.AlterConfigs(ctx, resources, validateOnly)
	if err != nil {
		errs = make([]error, len(resources))
		for i := range errs {
			errs[i] = err
		}
	}
	return errs
}
