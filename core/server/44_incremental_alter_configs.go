package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/controller"
)

// IncrementalAlterConfigs (key 44), versions 0 and 1.
//
//   - SET, DELETE, APPEND and SUBTRACT on topics, one broker, the default of all brokers, groups
//     and metrics subscriptions; SET and DELETE on the loggers of this broker, which forget their
//     levels when it ends.
//   - A resource changes as a whole or not at all; a setting or a resource named twice is
//     INVALID_REQUEST.
//   - To delete what was never there is fine, whatever its name.

func (s *Server) incrementalAlterConfigs(
	ctx context.Context, r *request,
) (kmsg.Response, error) {
	req := r.message.(*kmsg.IncrementalAlterConfigsRequest)
	resp := response[*kmsg.IncrementalAlterConfigsResponse](r)
	var resources []controller.ConfigResource
	errs := make([]error, len(req.Resources))
	for i := range req.Resources {
		in := &req.Resources[i]
		if in.ResourceType == resourceBrokerLogger {
			errs[i] = s.alterLoggers(req, i)
			continue
		}
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
	others := s.alter(ctx, resources, req.ValidateOnly)
	for i := range req.Resources {
		if req.Resources[i].ResourceType != resourceBrokerLogger {
			errs[i], others = others[0], others[1:]
		}
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
	if len(resources) == 0 {
		return nil
	}
	errs, err := s.opts.Controller.AlterConfigs(ctx, resources, validateOnly)
	if err != nil {
		errs = make([]error, len(resources))
		for i := range errs {
			errs[i] = err
		}
	}
	return errs
}
