package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// UnregisterBroker (key 64), version 0 (KIP-631).
//
//   - Takes a broker that is gone out of the cluster. The broker that is asked stays: Kafka lets a
//     live one be taken out, after which nobody can reach it.

func (s *Server) unregisterBroker(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.UnregisterBrokerRequest)
	resp := response[*kmsg.UnregisterBrokerResponse](r)
	setError(&resp.ErrorCode, &resp.ErrorMessage,
		s.opts.Controller.UnregisterBroker(ctx, req.BrokerID))
	return resp, nil
}
