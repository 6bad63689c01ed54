package txn

import (
	"slices"
	"time"

	"github.com/millstream-io/millstream/core/coordinator"
)

// add answers AddPartitionsToTxn, and the additions that come with a produce request (KIP-890).
func (m *machine) add(now time.Time, t coordinator.Ticket, in *AddRequest) coordinator.Step {
	tx := m.txns[in.TransactionalID]
	switch {
	case tx == nil:
		return answer(t, AddResponse{Code: coordinator.CodeInvalidProducerIDMapping})
	case in.VerifyOnly:
		return answer(t, verify(&tx.Metadata, in))
	}
	next, resp, changed := decideAdd(tx.Metadata, in, now)
	switch {
	case resp.Code == coordinator.CodeConcurrentTransactions && in.Patience > 0:
		m.park(now, t, tx, in)
		return coordinator.Step{}
	case !changed:
		return answer(t, resp)
	}
	tr := transition{id: in.TransactionalID, records: []Metadata{next}, lastEpoch: tx.lastEpoch}
	outs := []coordinator.Output{{Ticket: t, Value: resp}}
	return m.write(now, tr, outs, func(code ErrorCode) []coordinator.Output {
		return []coordinator.Output{{Ticket: t, Value: AddResponse{Code: code}}}
	})
}

// checkProducer compares a request's producer with that of the transactional id.
func checkProducer(md *Metadata, p Producer) ErrorCode {
	switch {
	case md.ProducerID != p.ID:
		return coordinator.CodeInvalidProducerIDMapping
	case md.ProducerEpoch != p.Epoch || p.Epoch > lastEpoch:
		return coordinator.CodeProducerFenced
	case md.State.decided():
		return coordinator.CodeConcurrentTransactions
	}
	return coordinator.CodeNone
}

// verify answers whether partitions are in the transaction.
func verify(md *Metadata, in *AddRequest) AddResponse {
	if code := checkProducer(md, in.Producer); code != coordinator.CodeNone {
		return AddResponse{Code: code}
	}
	codes := make([]ErrorCode, len(in.Partitions))
	for i, p := range in.Partitions {
		if !md.contains(p) {
			codes[i] = coordinator.CodeTransactionAbortable
		}
	}
	return AddResponse{Partitions: codes}
}

// decideAdd says what becomes of a transaction to which partitions are added; changed is false if
// nothing does.
func decideAdd(md Metadata, in *AddRequest, now time.Time) (
	next Metadata, resp AddResponse, changed bool,
) {
	if code := checkProducer(&md, in.Producer); code != coordinator.CodeNone {
		return md, AddResponse{Code: code}, false
	}
	if md.State == Ongoing && md.containsAll(in.Partitions) {
		return md, AddResponse{}, false
	}
	next = md.transit(Ongoing, now.UnixMilli())
	next.ClientVersion = in.TransactionVersion
	if md.State != Ongoing {
		next.StartMS = now.UnixMilli()
	}
	all := slices.Concat(md.Partitions, in.Partitions)
	slices.SortFunc(all, comparePartitions)
	next.Partitions = slices.Compact(all)
	return next, AddResponse{}, true
}

// park makes an addition wait for the markers of the last transaction.
func (m *machine) park(
	now time.Time, t coordinator.Ticket, tx *transaction, in *AddRequest,
) {
	p := parked{ticket: t, request: in, deadline: now.Add(in.Patience)}
	tx.parked = append(tx.parked, p)
	if len(m.waiting) == 0 || p.deadline.Before(m.firstDeadline) {
		m.firstDeadline = p.deadline
	}
	m.waiting[in.TransactionalID] = tx
}

// unpark answers the additions that have waited long enough.
func (m *machine) unpark(now time.Time) coordinator.Step {
	var step coordinator.Step
	m.firstDeadline = time.Time{}
	for id, tx := range m.waiting {
		tx.parked = slices.DeleteFunc(tx.parked, func(p parked) bool {
			if p.deadline.After(now) {
				if m.firstDeadline.IsZero() || p.deadline.Before(m.firstDeadline) {
					m.firstDeadline = p.deadline
				}
				return false
			}
			step.Outputs = append(step.Outputs, coordinator.Output{
				Ticket: p.ticket,
				Value:  AddResponse{Code: coordinator.CodeConcurrentTransactions},
			})
			return true
		})
		if len(tx.parked) == 0 {
			delete(m.waiting, id)
		}
	}
	return step
}
