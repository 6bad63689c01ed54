package txn

import (
	"time"

	"github.com/millstream-io/millstream/core/coordinator"
)

// end answers EndTxn.
func (m *machine) end(now time.Time, t coordinator.Ticket, in *EndRequest) coordinator.Step {
	refuse := func(code ErrorCode) []coordinator.Output {
		return []coordinator.Output{{Ticket: t, Value: EndResponse{Code: code, Producer: noProducer}}}
	}
	tx := m.txns[in.TransactionalID]
	if tx == nil {
		return coordinator.Step{Outputs: refuse(coordinator.CodeInvalidProducerIDMapping)}
	}
	decide := decideEndV1
	if in.TransactionVersion >= versionTwo {
		decide = decideEndV2
	}
	code, prepare := decide(&tx.Metadata, in)
	switch {
	case code == coordinator.CodeNone && !prepare:
		// Done already: the client did not get the answer.
		return answer(t, EndResponse{Producer: tx.producer()})
	case !prepare:
		return coordinator.Step{Outputs: refuse(code)}
	}
	raises := in.TransactionVersion >= versionTwo
	if raises && exhausted(tx.ProducerEpoch) && in.newProducerID == NoProducerID {
		return answer(t, needProducerID{})
	}
	tr := tx.prepare(now, in)
	// What the client goes on with is what it will be told by a repetition: the identity after the
	// markers, not that under which they are written.
	after := tr.records[0].complete(0)
	resp := EndResponse{Producer: Producer{ID: after.ProducerID, Epoch: after.ProducerEpoch}}
	return m.write(now, tr, []coordinator.Output{{Ticket: t, Value: resp}}, refuse)
}

// prepare is the decision over a transaction. One without partitions has no markers to wait for and
// is complete at once.
func (tx *transaction) prepare(now time.Time, in *EndRequest) transition {
	to := PrepareAbort
	if in.Commit {
		to = PrepareCommit
	}
	ms := now.UnixMilli()
	next := tx.transit(to, ms)
	next.ClientVersion = in.TransactionVersion
	if tx.State != Ongoing {
		next.StartMS = ms
	}
	last := tx.lastEpoch
	if in.TransactionVersion >= versionTwo {
		last = tx.ProducerEpoch
		next.ProducerEpoch = raise(tx.ProducerEpoch)
		if exhausted(tx.ProducerEpoch) {
			next.NextProducerID = in.newProducerID
		}
	}
	tr := transition{id: in.TransactionalID, records: []Metadata{next}, lastEpoch: last}
	if len(next.Partitions) == 0 {
		tr.records = append(tr.records, next.complete(ms))
	}
	return tr
}

// decideEndV1 checks an EndTxn of a client whose epoch stays the same from one transaction to the
// next: prepare, or else answer with the code.
func decideEndV1(md *Metadata, in *EndRequest) (code ErrorCode, prepare bool) {
	switch {
	case md.ProducerID != in.Producer.ID:
		return coordinator.CodeInvalidProducerIDMapping, false
	case md.ProducerEpoch != in.Producer.Epoch || in.Producer.Epoch > lastEpoch:
		return coordinator.CodeProducerFenced, false
	case md.State == Ongoing:
		return coordinator.CodeNone, true
	case md.State == CompleteCommit && in.Commit, md.State == CompleteAbort && !in.Commit:
		return coordinator.CodeNone, false
	case md.State == PrepareCommit && in.Commit, md.State == PrepareAbort && !in.Commit:
		return coordinator.CodeConcurrentTransactions, false
	}
	return coordinator.CodeInvalidTxnState, false
}

// decideEndV2 is the same for a client whose epoch rises with each transaction (KIP-890). A
// repetition has the epoch before; one with the current epoch is about the next transaction:
//
//	                 abort               commit
//	                 again    current    again    current
//	Empty            fenced   prepare    fenced   invalid
//	CompleteAbort    none     prepare    invalid  invalid
//	CompleteCommit   invalid  prepare    none     invalid
//	PrepareAbort     wait     wait       invalid  wait
//	PrepareCommit    invalid  wait       wait     wait
//
// Wait is CONCURRENT_TRANSACTIONS. Kafka fences a client that ends its next transaction before the
// markers of the last are written, although it has the epoch it was given.
func decideEndV2(md *Metadata, in *EndRequest) (code ErrorCode, prepare bool) {
	current := in.Producer == Producer{ID: md.ProducerID, Epoch: md.ProducerEpoch}
	again := repeats(md, in.Producer)
	matches := md.State == PrepareCommit || md.State == CompleteCommit
	matches = matches == in.Commit
	switch {
	case md.ProducerID != in.Producer.ID && !again:
		return coordinator.CodeInvalidProducerIDMapping, false
	case !current && !again, in.Producer.Epoch > lastEpoch:
		return coordinator.CodeProducerFenced, false
	case md.State == Ongoing && current:
		return coordinator.CodeNone, true
	case md.State == Ongoing, md.State == Empty && again:
		return coordinator.CodeProducerFenced, false
	case md.State.decided() && (current || matches):
		return coordinator.CodeConcurrentTransactions, false
	case again && matches:
		return coordinator.CodeNone, false
	case current && !in.Commit && md.State.settled():
		return coordinator.CodeNone, true
	}
	return coordinator.CodeInvalidTxnState, false
}

// repeats tells whether p is the producer whose last EndTxn led to md.
func repeats(md *Metadata, p Producer) bool {
	if md.ProducerID == p.ID {
		// The highest epoch comes with a new producer id, or from fencing p.
		fenced := md.ProducerEpoch > lastEpoch && md.NextProducerID == NoProducerID
		return int(md.ProducerEpoch) == int(p.Epoch)+1 && !fenced
	}
	return md.PreviousProducerID == p.ID && p.Epoch == lastEpoch && md.ProducerEpoch == 0 &&
		(md.State == CompleteCommit || md.State == CompleteAbort)
}
