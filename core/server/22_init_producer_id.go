package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// InitProducerId (key 22), versions 0 to 5.
//
//   - Without a transactional id: a new producer id, unique in the cluster, with epoch 0.
//   - A client that passes its id and epoch to have the epoch bumped (version 3, KIP-360) gets a
//     new id, as from Kafka.
//
// Known gap: transactions. A transactional id is refused with UNSUPPORTED_VERSION, which every
// client takes for final; an empty one with INVALID_REQUEST.

func (s *Server) initProducerID(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.InitProducerIDRequest)
	resp := response[*kmsg.InitProducerIDResponse](r)
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	if id := req.TransactionalID; id != nil {
		resp.ErrorCode = kerr.UnsupportedVersion.Code
		if *id == "" {
			resp.ErrorCode = kerr.InvalidRequest.Code
		}
		return resp, nil
	}
	id, err := s.producerIDs.next(ctx)
	if err != nil {
		// As Kafka while it waits for a block: every client tries that again, after a while.
		resp.ErrorCode = kerr.CoordinatorLoadInProgress.Code
		if s.complaints.allow() {
			s.log.Error("cannot give out a producer id", "error", err.Error())
		}
		return resp, nil
	}
	resp.ProducerID, resp.ProducerEpoch = id, 0
	return resp, nil
}
