package server

import (
	"context"
	"regexp"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/txn"
)

// ListTransactions (key 66), versions 0 to 2.
//
//   - Those whose coordinator this broker is. While one of its shards is still being loaded the
//     whole answer is COORDINATOR_LOAD_IN_PROGRESS.
//   - Filters: states, of which unknown ones are told; producer ids; how long they run (version 1,
//     KIP-994); a pattern for the whole id (version 2, KIP-1152), INVALID_REGULAR_EXPRESSION if it
//     is none.

func (s *Server) listTransactions(ctx context.Context, r *request) (kmsg.Response, error) {
	req := r.message.(*kmsg.ListTransactionsRequest)
	resp := response[*kmsg.ListTransactionsResponse](r)
	list := txn.ListRequest{ProducerIDs: req.ProducerIDFilters, LongerThan: -1}
	if r.version >= 1 && req.DurationFilterMillis >= 0 {
		list.LongerThan = durationMillis(req.DurationFilterMillis)
	}
	if pattern := req.TransactionalIDPattern; pattern != nil && *pattern != "" {
		matcher, err := regexp.Compile(`^(?s:` + *pattern + `)$`)
		if err != nil {
			resp.ErrorCode = kerr.InvalidRegularExpression.Code
			return resp, nil
		}
		list.Match = matcher.MatchString
	}
	for _, name := range req.StateFilters {
		if state, ok := txn.StateByName(name); ok {
			list.States = append(list.States, state)
		} else {
			resp.UnknownStateFilters = append(resp.UnknownStateFilters, name)
		}
	}
	list.NoState = len(req.StateFilters) > 0 && len(list.States) == 0
	out := s.opts.Transactions.List(ctx, list)
	resp.ErrorCode = int16(out.Code)
	for _, l := range out.Transactions {
		t := kmsg.NewListTransactionsResponseTransactionState()
		t.TransactionalID, t.ProducerID = l.TransactionalID, l.ProducerID
		t.TransactionState = l.State.String()
		resp.TransactionStates = append(resp.TransactionStates, t)
	}
	return resp, nil
}

// durationMillis is a client's number of milliseconds, cut at what a Duration holds.
func durationMillis(ms int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(min(ms, most)) * time.Millisecond
}
