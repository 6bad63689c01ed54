package storage

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/millstream-io/millstream/core/record"
)

// producerWindow is how many batches of a producer are remembered to find repeats. Clients keep at
// most five requests in flight (KIP-98).
const producerWindow = 5

// batchMark is what is remembered of one batch of a producer.
type batchMark struct {
	lastSequence int32
	offsetDelta  int32 // lastOffset - baseOffset
	lastOffset   int64
	timestamp    int64 // largest record timestamp, ms
}

// firstSequence counts back from the last one, over the wrap from 0 to 2^31-1.
func (m batchMark) firstSequence() int32 {
	return int32((int64(m.lastSequence) - int64(m.offsetDelta)) & math.MaxInt32)
}

// producer is the state of one producer id in one partition.
//
// Invariant: 0 <= n <= producerWindow; marks[:n] are of epoch and in offset order.
type producer struct {
	epoch            int16
	coordinatorEpoch int32 // of the last transaction marker, -1 if none
	n                int   // marks in use
	marks            [producerWindow]batchMark
	lastTimestamp    int64 // of the last batch or marker, ms
	txnFirstOffset   int64 // first offset of the open transaction, -1 if none
	seenMS           int64 // wall clock of the last append or load; not stored; for expiry
}

// lastSequence returns the sequence of the last record, -1 if none is known in this epoch.
func (p *producer) lastSequence() int32 {
	if p.n == 0 {
		return record.NoSequence
	}
	return p.marks[p.n-1].lastSequence
}

// inTransaction reports whether the producer has an open transaction of epoch.
func (p *producer) inTransaction(epoch int16) bool {
	return p.txnFirstOffset >= 0 && p.epoch == epoch
}

// checkEpoch fences an earlier instance of the producer.
func (p *producer) checkEpoch(id int64, epoch int16) error {
	if epoch < p.epoch {
		return fmt.Errorf("%w: producer %d wrote with epoch %d, the last was %d",
			ErrInvalidProducerEpoch, id, epoch, p.epoch)
	}
	return nil
}

// sequenceBefore reports whether sequence a comes before b, over the wrap from 2^31-1 to 0: that
// way is the shorter one.
func sequenceBefore(a, b int32) bool {
	distance := (int64(b) - int64(a)) & math.MaxInt32
	return distance > 0 && distance < 1<<30
}

// add remembers a batch and forgets the oldest.
func (p *producer) add(m batchMark) {
	if p.n == producerWindow {
		copy(p.marks[:], p.marks[1:])
		p.n--
	}
	p.marks[p.n] = m
	p.n++
}

// producerTable is the state of all producers of a log (KIP-98). The log's mutex guards it.
type producerTable map[int64]*producer

// clientBatch is what a client's batch is checked against beyond the table.
type clientBatch struct {
	guards *guardTable
	guard  VerificationGuard // that came with the batch
	// unverified says that transactions need no guard: Config.SkipVerification.
	unverified bool
	// newEpochs says that the producer gets a new epoch for each transaction (KIP-890, transaction
	// version 2), so that its first batch anywhere has sequence 0.
	newEpochs bool
}

// check decides whether a client's batch is new, a repeat (dup is the mark of the first time), or
// refused. The order of the checks is Kafka's: a repeat is one also when newer batches followed,
// and the epoch comes before what is only wrong because the epoch is over.
func (t producerTable) check(b record.Batch, c clientBatch) (dup batchMark, isDup bool, err error) {
	p, known := t[b.ProducerID()]
	epoch, first, last := b.ProducerEpoch(), b.BaseSequence(), b.LastSequence()
	if known && epoch == p.epoch {
		for _, m := range p.marks[:p.n] {
			if m.lastSequence == last && m.firstSequence() == first {
				return m, true, nil
			}
		}
	}
	if known {
		if err := p.checkEpoch(b.ProducerID(), epoch); err != nil {
			return dup, false, err
		}
	}
	if b.IsTransactional() && !(known && p.inTransaction(epoch)) {
		if err := c.guards.check(b, c.guard, c.unverified); err != nil {
			return dup, false, err
		}
		if !known && c.newEpochs && first != 0 {
			return dup, false, fmt.Errorf("%w: producer %d began with sequence %d, want 0",
				ErrOutOfOrderSequence, b.ProducerID(), first)
		}
	}
	if !known {
		return dup, false, nil // expired, or never seen: any sequence may come
	}
	if err := p.checkSequence(b); err != nil {
		return dup, false, err
	}
	return dup, false, p.checkTransaction(b)
}

// checkSequence refuses a batch that does not follow the last one.
func (p *producer) checkSequence(b record.Batch) error {
	epoch, first := b.ProducerEpoch(), b.BaseSequence()
	if epoch > p.epoch {
		if first != 0 {
			return fmt.Errorf("%w: producer %d began epoch %d with sequence %d, want 0",
				ErrOutOfOrderSequence, b.ProducerID(), epoch, first)
		}
		return nil
	}
	want := int32((int64(p.lastSequence()) + 1) & math.MaxInt32)
	if first != want {
		return fmt.Errorf("%w: producer %d epoch %d wrote sequence %d, want %d",
			ErrOutOfOrderSequence, b.ProducerID(), epoch, first, want)
	}
	return nil
}

// checkTransaction refuses a batch outside the producer's open transaction.
func (p *producer) checkTransaction(b record.Batch) error {
	if p.txnFirstOffset >= 0 && !b.IsTransactional() {
		return fmt.Errorf("%w: producer %d has an open transaction since offset %d",
			ErrInvalidTxnState, b.ProducerID(), p.txnFirstOffset)
	}
	return nil
}

// checkCoordinator decides whether a batch that this broker writes for a producer, which has no
// sequences, is allowed.
func (t producerTable) checkCoordinator(b record.Batch) error {
	p, known := t[b.ProducerID()]
	if !known {
		return nil
	}
	if err := p.checkEpoch(b.ProducerID(), b.ProducerEpoch()); err != nil {
		return err
	}
	return p.checkTransaction(b)
}

// checkMarker decides whether a transaction marker is allowed. From transaction version 2 on, the
// coordinator raises the epoch before the marker, so that one with the producer's own epoch is late
// and might end the next transaction (KIP-890). Only a repeat, which finds no transaction open, is
// fine: its first answer may have been lost (KAFKA-19999).
func (t producerTable) checkMarker(b record.Batch, m marker, version int16) error {
	p, known := t[b.ProducerID()]
	if !known {
		return nil
	}
	epoch := b.ProducerEpoch()
	if err := p.checkEpoch(b.ProducerID(), epoch); err != nil {
		return err
	}
	if version >= 2 && epoch == p.epoch && p.txnFirstOffset >= 0 {
		return fmt.Errorf("%w: marker of producer %d with epoch %d, want a later one",
			ErrInvalidProducerEpoch, b.ProducerID(), epoch)
	}
	if m.coordinatorEpoch < p.coordinatorEpoch {
		return fmt.Errorf("%w: marker of producer %d from coordinator epoch %d, the last was %d",
			ErrTransactionCoordinatorFenced, b.ProducerID(), m.coordinatorEpoch, p.coordinatorEpoch)
	}
	return nil
}

// update takes a data batch that is in the log and reports whether it began a transaction.
func (t producerTable) update(h *batchHeader, nowMS int64) (began bool) {
	p := t.enter(h, nowMS)
	last := record.NoSequence // of the coordinator's batches
	if h.baseSequence >= 0 {
		last = int32((int64(h.baseSequence) + int64(h.lastOffsetDelta)) & math.MaxInt32)
	}
	p.add(batchMark{
		lastSequence: last,
		offsetDelta:  h.lastOffsetDelta,
		lastOffset:   h.lastOffset(),
		timestamp:    h.maxTimestamp,
	})
	// Compaction empties only batches of transactions that are decided, and may drop their markers.
	if h.isTransactional() && h.count > 0 && p.txnFirstOffset < 0 {
		p.txnFirstOffset = h.baseOffset
		return true
	}
	return false
}

// endTransaction takes a marker that is in the log and returns the first offset of the transaction
// it ends, -1 if none was open.
func (t producerTable) endTransaction(h *batchHeader, m marker, nowMS int64) int64 {
	p := t.enter(h, nowMS)
	first := p.txnFirstOffset
	p.coordinatorEpoch, p.txnFirstOffset = m.coordinatorEpoch, -1
	return first
}

// enter returns the producer of a batch, in the epoch of the batch.
func (t producerTable) enter(h *batchHeader, nowMS int64) *producer {
	p := t[h.producerID]
	if p == nil {
		p = &producer{coordinatorEpoch: -1, txnFirstOffset: -1}
		t[h.producerID] = p
	}
	if p.epoch != h.producerEpoch {
		p.epoch = h.producerEpoch
		p.n = 0
	}
	p.lastTimestamp = h.maxTimestamp
	p.seenMS = nowMS
	return p
}

// expire forgets producers idle for longer than maxIdleMS, by the wall clock: record timestamps may
// be years old. A producer with an open transaction stays.
func (t producerTable) expire(nowMS, jumpMS, maxIdleMS int64) {
	for id, p := range t {
		p.seenMS = sinceJump(p.seenMS, jumpMS, nowMS)
		if p.txnFirstOffset < 0 && nowMS-p.seenMS >= maxIdleMS {
			delete(t, id)
		}
	}
}

// widen adds to each producer the batches that old remembers and t does not, up to the window.
// Snapshots keep one batch a producer; old comes from reading the log before the snapshot.
func (t producerTable) widen(old producerTable) {
	for id, p := range t {
		o := old[id]
		if o == nil || o.epoch != p.epoch || p.n == 0 {
			continue
		}
		first := p.marks[0].lastOffset
		marks := make([]batchMark, 0, 2*producerWindow)
		for _, m := range o.marks[:o.n] {
			if m.lastOffset < first {
				marks = append(marks, m)
			}
		}
		marks = append(marks, p.marks[:p.n]...)
		if len(marks) > producerWindow {
			marks = marks[len(marks)-producerWindow:]
		}
		p.n = copy(p.marks[:], marks)
	}
}

// sortedIDs returns the producer ids in order, so that snapshots are reproducible.
func (t producerTable) sortedIDs() []int64 {
	ids := make([]int64, 0, len(t))
	for id := range t {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, cmp.Compare[int64])
	return ids
}
