package server

import (
	"context"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ListConfigResources (key 74), versions 0 and 1 (KIP-1142).
//
//   - Version 0 lists client metrics only, of which there are none. Version 1 lists topics and
//     brokers; no type asked for is all of them. Loggers and groups have no settings here.

// Resource types of configs.
const (
	resourceTopic        = 2
	resourceBroker       = 4
	resourceBrokerLogger = 8
	resourceMetrics      = 16
	resourceGroup        = 32
)

func (s *Server) listConfigResources(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.ListConfigResourcesRequest)
	resp := response[*kmsg.ListConfigResourcesResponse](r)
	if r.version == 0 {
		return resp, nil
	}
	types := req.ResourceTypes
	if len(types) == 0 {
		types = []int8{resourceTopic, resourceBroker}
	}
	image := s.image()
	add := func(kind int8, name string) {
		resource := kmsg.NewListConfigResourcesResponseConfigResource()
		resource.Type, resource.Name = kind, name
		resp.ConfigResources = append(resp.ConfigResources, resource)
	}
	for _, kind := range types {
		switch kind {
		case resourceTopic:
			for t := range image.Topics() {
				add(kind, t.Name)
			}
		case resourceBroker:
			for _, b := range image.Brokers() {
				add(kind, strconv.Itoa(int(b.ID)))
			}
		case resourceBrokerLogger, resourceMetrics, resourceGroup:
		default:
			resp.ConfigResources = nil
			resp.ErrorCode = kerr.UnsupportedVersion.Code
			return resp, nil
		}
	}
	return resp, nil
}
