package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/txn"
)

// EndTxn (key 26), versions 0 to 5.
//
//   - Answered when the decision is durable; the markers follow, and until all are written the next
//     request about the transactional id is CONCURRENT_TRANSACTIONS.
//   - Version 5 is of clients whose epoch rises with each transaction (KIP-890): the answer has the
//     producer of the next one, a repeated request gets the same answer, and a transaction without
//     partitions can be aborted.
//   - A producer that was fenced is told INVALID_PRODUCER_EPOCH before version 2.

func (s *Server) endTxn(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.EndTxnRequest)
	resp := response[*kmsg.EndTxnResponse](r)
	out := s.opts.Transactions.EndTxn(ctx, txn.EndRequest{
		TransactionalID:    req.TransactionalID,
		Producer:           coordinator.Producer{ID: req.ProducerID, Epoch: req.ProducerEpoch},
		Commit:             req.Commit,
		TransactionVersion: transactionVersion(r.version, 5),
	})
	resp.ErrorCode = fencedCode(out.Code, r.version, 2)
	resp.ProducerID, resp.ProducerEpoch = out.Producer.ID, out.Producer.Epoch
	return resp, nil
}
