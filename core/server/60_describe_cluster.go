package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/metadata"
)

// DescribeCluster (key 60), versions 0 to 2.
//
//   - Endpoint type 1 (version 1, KIP-919) lists the brokers. Type 2, controllers, is refused:
//     controllers have no listener of their own.
//   - No broker is fenced (version 2, KIP-1073): a broker that is not there is not listed.

// Endpoint types.
const (
	endpointBrokers     = 1
	endpointControllers = 2
)

func (s *Server) describeCluster(_ context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.DescribeClusterRequest)
	resp := response[*kmsg.DescribeClusterResponse](r)
	resp.EndpointType = endpointBrokers
	if r.version >= 1 && req.EndpointType != endpointBrokers {
		message := "only brokers (endpoint type 1) can be described here"
		resp.ErrorCode, resp.ErrorMessage = kerr.UnsupportedEndpointType.Code, &message
		if req.EndpointType == endpointControllers {
			resp.ErrorCode = kerr.MismatchedEndpointType.Code
		}
		resp.ControllerID = -1
		return resp, nil
	}
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = s.clusterOperations(r.client)
	}
	image := s.image()
	resp.ClusterID, resp.ControllerID = image.ClusterID(), s.nodeID
	for _, b := range image.Brokers() {
		broker := kmsg.NewDescribeClusterResponseBroker()
		at := b.Endpoint(r.client.listener)
		broker.NodeID, broker.Host, broker.Port = b.ID, at.Host, at.Port
		if b.Rack != "" {
			broker.Rack = &b.Rack
		}
		resp.Brokers = append(resp.Brokers, broker)
	}
	return resp, nil
}

// clusterOperations is what a client may do on the cluster (KIP-430); nothing is told to one that
// may not describe it.
func (s *Server) clusterOperations(c *client) int32 {
	if !s.seesCluster(c, metadata.ACLDescribe) {
		return 0
	}
	return s.operations(c, metadata.ACLCluster, metadata.ClusterResource)
}
