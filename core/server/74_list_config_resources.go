package server

import (
	"context"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/metadata"
)

// ListConfigResources (key 74), versions 0 and 1 (KIP-1142).
//
//   - Version 0 lists metrics subscriptions only. Version 1 lists what is asked for, no type is
//     all: topics, brokers, loggers, and the metrics subscriptions and groups that have settings.

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
	types := slices.Clone(req.ResourceTypes)
	switch {
	case r.version == 0:
		types = []int8{resourceMetrics}
	case len(types) == 0:
		types = []int8{resourceTopic, resourceBroker, resourceBrokerLogger, resourceMetrics,
			resourceGroup}
	}
	slices.Sort(types)
	image := s.image()
	for _, kind := range slices.Compact(types) {
		names, ok := configuredNames(image, kind)
		if !ok {
			resp.ConfigResources = nil
			resp.ErrorCode = kerr.UnsupportedVersion.Code
			return resp, nil
		}
		for _, name := range names {
			resource := kmsg.NewListConfigResourcesResponseConfigResource()
			resource.Type, resource.Name = kind, name
			resp.ConfigResources = append(resp.ConfigResources, resource)
		}
	}
	return resp, nil
}

// configuredNames returns the resources of a kind; false for a kind that is not known.
func configuredNames(image *metadata.Image, kind int8) (names []string, known bool) {
	switch kind {
	case resourceTopic:
		for t := range image.Topics() {
			names = append(names, t.Name)
		}
	case resourceBroker, resourceBrokerLogger:
		for _, b := range image.Brokers() {
			names = append(names, strconv.Itoa(int(b.ID)))
		}
	case resourceMetrics, resourceGroup:
		names = image.ConfiguredResources(metadata.ResourceKind(kind))
	default:
		return nil, false
	}
	return names, true
}
