package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeTransactions (key 65), version 0.
//
//   - Answered by the coordinator of each id; ids that it does not know, or not yet, have a code of
//     their own.
//   - The partitions of a decided transaction are listed until all its markers are written; Kafka
//     takes them away one by one.

func (s *Server) describeTransactions(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.DescribeTransactionsRequest)
	resp := response[*kmsg.DescribeTransactionsResponse](r)
	for _, id := range req.TransactionalIDs {
		d := s.opts.Transactions.Describe(ctx, id)
		out := kmsg.NewDescribeTransactionsResponseTransactionState()
		out.ErrorCode, out.TransactionalID = int16(d.Code), id
		if d.Code == 0 {
			out.State, out.TimeoutMillis, out.StartTimestamp = d.State.String(), d.TimeoutMS, d.StartMS
			out.ProducerID, out.ProducerEpoch = d.Producer.ID, d.Producer.Epoch
		}
		for i, p := range d.Partitions {
			if i == 0 || p.Topic != d.Partitions[i-1].Topic {
				topic := kmsg.NewDescribeTransactionsResponseTransactionStateTopic()
				topic.Topic = p.Topic
				out.Topics = append(out.Topics, topic)
			}
			last := &out.Topics[len(out.Topics)-1]
			last.Partitions = append(last.Partitions, p.Partition)
		}
		resp.TransactionStates = append(resp.TransactionStates, out)
	}
	return resp, nil
}
