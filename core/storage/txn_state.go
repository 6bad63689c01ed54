package storage

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"github.com/millstream-io/millstream/core/record"
)

// maxMarkerSize bounds a control batch of a producer; a transaction marker has 78 bytes.
const maxMarkerSize = 4 << 10

// marker is what the record of a transaction's control batch says.
type marker struct {
	abort            bool
	coordinatorEpoch int32
}

// readMarker reads a producer's control batch. ok is false if it ends no transaction: compaction
// has emptied it, or its type is one that this version does not know.
func readMarker(b record.Batch) (m marker, ok bool, err error) {
	if len(b) > maxMarkerSize {
		return m, false, fmt.Errorf("%w: control batch of %d bytes", ErrCorrupt, len(b))
	}
	err = b.Each(maxMarkerSize, func(r *record.Record) error {
		kind, epoch, err := record.ParseControl(r)
		if kind == record.ControlAbort || kind == record.ControlCommit {
			m, ok = marker{kind == record.ControlAbort, epoch}, true
		}
		return err
	})
	if err != nil {
		return m, false, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return m, ok, nil
}

// transaction is one that holds the last stable offset back.
type transaction struct {
	producerID  int64
	firstOffset int64
	marker      int64 // offset of its marker; 0 while it is open
}

// maxDecided bounds the list of decided transactions. There are more only after a start that knows
// nothing of the high watermark; then several are taken for one, which is decided by the last.
const maxDecided = 4096

// txnTable has the transactions that are open, and those that are decided by a marker which is not
// below the high watermark: such a marker may still be lost. The log's mutex guards it.
//
// Invariant: open and decided are each in the order of firstOffset; in decided, marker rises too,
// since a transaction that began later than one which ends later holds nobody back.
type txnTable struct {
	open    []transaction
	decided []transaction
}

// begin notes a transaction whose first batch is at offset, behind all others.
func (x *txnTable) begin(producerID, offset int64) {
	x.open = append(x.open, transaction{producerID: producerID, firstOffset: offset})
}

// decide notes the marker, behind all others, of the open transaction that began at firstOffset.
func (x *txnTable) decide(firstOffset, marker int64) {
	i := sort.Search(len(x.open), func(i int) bool { return x.open[i].firstOffset >= firstOffset })
	if i == len(x.open) || x.open[i].firstOffset != firstOffset {
		return
	}
	t := x.open[i]
	t.marker = marker
	x.open = slices.Delete(x.open, i, i+1)
	n := len(x.decided)
	for n > 0 && x.decided[n-1].firstOffset > t.firstOffset {
		n--
	}
	if x.decided = x.decided[:n]; n == maxDecided {
		x.decided[n-1].marker = marker
		return
	}
	x.decided = append(x.decided, t)
}

// settle forgets the transactions whose marker is below the high watermark.
func (x *txnTable) settle(highWatermark int64) {
	n := sort.Search(len(x.decided), func(i int) bool { return x.decided[i].marker >= highWatermark })
	x.decided = slices.Delete(x.decided, 0, n)
}

// firstUnstable returns the smallest first offset of all, noUnstable if there is none.
func (x *txnTable) firstUnstable() int64 {
	first := int64(noUnstable)
	if len(x.open) > 0 {
		first = x.open[0].firstOffset
	}
	if len(x.decided) > 0 {
		first = min(first, x.decided[0].firstOffset)
	}
	return first
}

// firstOpen returns the first offset of the oldest open transaction, none if there is none.
func (x *txnTable) firstOpen(none int64) int64 {
	if len(x.open) == 0 {
		return none
	}
	return x.open[0].firstOffset
}

// producerState is what a log knows of its producers and their transactions at one offset.
type producerState struct {
	producers producerTable
	txns      txnTable
}

// newProducerState takes the table of a snapshot, with its open transactions.
func newProducerState(t producerTable) producerState {
	s := producerState{producers: t}
	for id, p := range t {
		if p.txnFirstOffset >= 0 {
			s.txns.begin(id, p.txnFirstOffset)
		}
	}
	slices.SortFunc(s.txns.open, func(a, b transaction) int {
		return cmp.Compare(a.firstOffset, b.firstOffset)
	})
	return s
}

// applyBatch takes a batch that is in the log, whoever wrote it: it checks nothing, so that every
// replica and every recovery comes to the same state. b has the whole batch if it is a control
// batch. The result is the transaction that it aborts, if it does.
func applyBatch(t producerTable, x *txnTable, h *batchHeader, b record.Batch, nowMS int64,
) (a abortedTxn, aborted bool, err error) {
	if h.producerID < 0 {
		return a, false, nil
	}
	if !h.isControl() {
		if t.update(h, nowMS) {
			x.begin(h.producerID, h.baseOffset)
		}
		return a, false, nil
	}
	m, ok, err := readMarker(b)
	if err != nil || !ok {
		return a, false, err
	}
	first := t.endTransaction(h, m, nowMS)
	if first < 0 {
		return a, false, nil // of a transaction without records here, or a repeat
	}
	x.decide(first, h.baseOffset)
	a = abortedTxn{producerID: h.producerID, firstOffset: first, lastOffset: h.baseOffset,
		lastStableOffset: x.firstOpen(h.baseOffset + 1)}
	return a, m.abort, nil
}

// VerificationGuard proves that the coordinator was asked about the producer's transaction and that
// no marker came since (KIP-890). 0 is none.
type VerificationGuard uint64

// verification is a producer's wish to begin a transaction here, until its first batch or a marker.
type verification struct {
	guard VerificationGuard
	epoch int16
	// lowestSequence is the first of the sequences that came with it in epoch. A later batch must
	// not overtake it, or the client would repeat the earlier one in vain.
	lowestSequence int32
	startedMS      int64 // wall clock, for expiry
}

// guardTable has the verifications that are under way. The log's mutex guards it.
type guardTable struct {
	byID map[int64]*verification
	last VerificationGuard // given out
}

// start returns the guard of a producer, a new one unless it has one.
func (g *guardTable) start(id int64, epoch int16, sequence int32, nowMS int64) VerificationGuard {
	v := g.byID[id]
	if v == nil {
		if g.byID == nil {
			g.byID = make(map[int64]*verification)
		}
		g.last++
		v = &verification{g.last, epoch, sequence, nowMS}
		g.byID[id] = v
	}
	if epoch > v.epoch || epoch == v.epoch && sequenceBefore(sequence, v.lowestSequence) {
		v.epoch, v.lowestSequence = epoch, sequence
	}
	return v.guard
}

// check refuses the first batch of a transaction that was not verified, or came too early.
func (g *guardTable) check(b record.Batch, guard VerificationGuard, skip bool) error {
	v := g.byID[b.ProducerID()]
	if !skip && (v == nil || guard != v.guard) {
		return fmt.Errorf("%w: producer %d has no transaction here that its coordinator knows of",
			ErrInvalidTxnState, b.ProducerID())
	}
	if v != nil && v.epoch == b.ProducerEpoch() &&
		sequenceBefore(v.lowestSequence, b.BaseSequence()) {
		return fmt.Errorf("%w: producer %d wrote sequence %d, but %d is to come first",
			ErrOutOfOrderSequence, b.ProducerID(), b.BaseSequence(), v.lowestSequence)
	}
	return nil
}

// expire forgets verifications that no batch followed.
func (g *guardTable) expire(nowMS, jumpMS, maxIdleMS int64) {
	for id, v := range g.byID {
		v.startedMS = sinceJump(v.startedMS, jumpMS, nowMS)
		if nowMS-v.startedMS >= maxIdleMS {
			delete(g.byID, id)
		}
	}
}
