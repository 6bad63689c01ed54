package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/txn"
)

// InitProducerId (key 22), versions 0 to 5.
//
//   - Without a transactional id: a new producer id, unique in the cluster, with epoch 0. A client
//     that passes its id and epoch to have the epoch raised (version 3, KIP-360) gets a new id, as
//     from Kafka.
//   - With one: the id of its transactions and a new epoch, which fences whoever had it before. An
//     open transaction is aborted first: CONCURRENT_TRANSACTIONS until that is done.
//   - A producer that was fenced is told INVALID_PRODUCER_EPOCH before version 4, PRODUCER_FENCED
//     from then on.
//
// Known gap: version 6, two-phase commit (KIP-939), is not served; it is not stable in Kafka.

func (s *Server) initProducerID(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.InitProducerIDRequest)
	resp := response[*kmsg.InitProducerIDResponse](r)
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	noID := req.ProducerID == txn.NoProducerID
	if noEpoch := req.ProducerEpoch == txn.NoProducerEpoch; noID != noEpoch {
		resp.ErrorCode = kerr.InvalidRequest.Code
		return resp, nil
	}
	if req.TransactionalID == nil {
		p, code := s.opts.Transactions.NewProducer(ctx)
		resp.ErrorCode = int16(code)
		resp.ProducerID, resp.ProducerEpoch = p.ID, p.Epoch
		return resp, nil
	}
	init := txn.InitRequest{
		TransactionalID: *req.TransactionalID, TimeoutMS: req.TransactionTimeoutMillis,
	}
	if !noID {
		init.Expected = &coordinator.Producer{ID: req.ProducerID, Epoch: req.ProducerEpoch}
	}
	out := s.opts.Transactions.InitProducerID(ctx, init)
	resp.ErrorCode = fencedCode(out.Code, r.version, 4)
	resp.ProducerID, resp.ProducerEpoch = out.Producer.ID, out.Producer.Epoch
	return resp, nil
}
