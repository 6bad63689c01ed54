package txn

import (
	"math"
	"time"

	"github.com/millstream-io/millstream/core/coordinator"
)

// init answers InitProducerId.
func (m *machine) init(now time.Time, t coordinator.Ticket, in *InitRequest) coordinator.Step {
	refuse := func(code ErrorCode) []coordinator.Output {
		resp := InitResponse{Code: code, Producer: noProducer}
		return []coordinator.Output{{Ticket: t, Value: resp}}
	}
	tx := m.txns[in.TransactionalID]
	if tx == nil && m.share.Full(m.opts.MaxIDs) {
		m.complain(now)
		return coordinator.Step{Outputs: refuse(coordinator.CodePolicyViolation)}
	}
	if tx == nil && in.newProducerID == NoProducerID {
		return answer(t, needProducerID{})
	}
	if tx == nil {
		tx = &transaction{lastEpoch: NoProducerEpoch, Metadata: Metadata{
			ProducerID: in.newProducerID, PreviousProducerID: NoProducerID,
			NextProducerID: NoProducerID, ProducerEpoch: NoProducerEpoch,
			NextProducerEpoch: NoProducerEpoch, State: Empty, StartMS: -1,
		}}
	}
	switch {
	case !tx.mayInit(in.Expected):
		return coordinator.Step{Outputs: refuse(coordinator.CodeProducerFenced)}
	case tx.State.decided():
		return coordinator.Step{Outputs: refuse(coordinator.CodeConcurrentTransactions)}
	case tx.State == Ongoing:
		// The transaction is aborted first. The client tries again and finds it done; the epoch
		// rises once more then.
		outs := refuse(coordinator.CodeConcurrentTransactions)
		return m.write(now, m.fence(in.TransactionalID, tx, now), outs, refuse)
	}
	next, last, ok := tx.nextEpoch(in, now)
	if !ok {
		return answer(t, needProducerID{})
	}
	resp := InitResponse{Producer: Producer{ID: next.ProducerID, Epoch: next.ProducerEpoch}}
	outs := []coordinator.Output{{Ticket: t, Value: resp}}
	tr := transition{id: in.TransactionalID, records: []Metadata{next}, lastEpoch: last}
	return m.write(now, tr, outs, refuse)
}

// complain counts a refused id, and says so now and then.
func (m *machine) complain(now time.Time) {
	m.count.Refused.Add(1)
	if now.Sub(m.complained) >= time.Minute {
		m.complained = now
		m.opts.Logger.Warn("refused a new transactional id: there are as many as may be",
			"limit", "millstream.transactional.ids.max", "value", m.opts.MaxIDs)
	}
}

// checkInit checks what does not depend on the state, nor on who leads.
func (o *Options) checkInit(in *InitRequest) ErrorCode {
	timeout := time.Duration(in.TimeoutMS) * time.Millisecond
	switch {
	case in.TransactionalID == "" || len(in.TransactionalID) > maxID:
		return coordinator.CodeInvalidRequest
	case timeout <= 0 || timeout > o.MaxTimeout:
		return coordinator.CodeInvalidTransactionTimeout
	}
	return coordinator.CodeNone
}

// mayInit tells whether a client that believes to have expected may go on (KIP-360): it has the
// current epoch, or the one before and its answer was lost, or the last one of the producer id
// before. With a transaction open nothing can have been lost: only the current epoch may.
func (tx *transaction) mayInit(expected *Producer) bool {
	switch {
	case expected == nil || tx.ProducerEpoch == NoProducerEpoch:
		return true
	case *expected == tx.producer():
		return true
	case tx.State == Ongoing:
		return false
	case tx.State.decided():
		// CONCURRENT_TRANSACTIONS until it is over; the epoch is looked at again then.
		return expected.ID == tx.ProducerID || expected.ID == tx.PreviousProducerID
	case expected.ID == tx.ProducerID,
		expected.ID == tx.PreviousProducerID && exhausted(expected.Epoch):
		return expected.Epoch != NoProducerEpoch && expected.Epoch == tx.lastEpoch
	}
	return false
}

// nextEpoch raises the epoch, or begins a new producer id when the epochs are used up. ok is false
// if that takes a producer id which the request does not have.
func (tx *transaction) nextEpoch(in *InitRequest, now time.Time) (
	next Metadata, last int16, ok bool,
) {
	next = tx.transit(Empty, now.UnixMilli())
	next.TimeoutMS = in.TimeoutMS
	next.StartMS = -1
	next.Partitions = nil
	switch {
	case in.Expected != nil && tx.ProducerEpoch != NoProducerEpoch && *in.Expected != tx.producer():
		// Repeated: the same answer again, also to the next repetition.
		next.PreviousProducerID = tx.PreviousProducerID
		return next, tx.lastEpoch, true
	case exhausted(tx.ProducerEpoch) && in.newProducerID == NoProducerID:
		return next, 0, false
	case exhausted(tx.ProducerEpoch):
		next.ProducerID, next.ProducerEpoch = in.newProducerID, 0
	default:
		next.ProducerEpoch = tx.ProducerEpoch + 1
	}
	if in.Expected == nil {
		return next, NoProducerEpoch, true
	}
	return next, tx.ProducerEpoch, true
}

// fence is the abort of an open transaction whose client is gone or late: the epoch rises so that
// nothing of it is accepted any more. In version 2 that is how every transaction ends, so that a
// client which was late can find out with EndTxn or InitProducerId, and go on.
func (m *machine) fence(id string, tx *transaction, now time.Time) transition {
	next, last := tx.transit(PrepareAbort, now.UnixMilli()), NoProducerEpoch
	next.ProducerEpoch, next.ClientVersion = raise(tx.ProducerEpoch), 0
	next.NextProducerID = NoProducerID
	if m.opts.TransactionVersion() >= versionTwo && next.ProducerEpoch <= lastEpoch {
		last = tx.ProducerEpoch
	}
	if m.opts.TransactionVersion() >= versionTwo {
		next.ClientVersion = versionTwo
	}
	return transition{id: id, records: []Metadata{next}, lastEpoch: last}
}

// raise is the next epoch; the highest stays.
func raise(epoch int16) int16 {
	if epoch == math.MaxInt16 {
		return epoch
	}
	return epoch + 1
}
