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

// check decides whether a client's batch is new, a repeat (dup is the mark of the first time), or
// refused. The order of the checks is Kafka's: a repeat is one also when newer batches followed.
func (t producerTable) check(b record.Batch) (dup batchMark, isDup bool, err error) {
	p, known := t[b.ProducerID()]
	if !known {
		return dup, false, nil // expired, or never seen: any sequence may come
	}
	epoch, first, last := b.ProducerEpoch(), b.BaseSequence(), b.LastSequence()
	if epoch == p.epoch {
		for _, m := range p.marks[:p.n] {
			if m.lastSequence == last && m.firstSequence() == first {
				return m, true, nil
			}
		}
	}
	if epoch < p.epoch {
		return dup, false, fmt.Errorf("%w: producer %d wrote with epoch %d, the last was %d",
			ErrInvalidProducerEpoch, b.ProducerID(), epoch, p.epoch)
	}
	if epoch > p.epoch {
		if first != 0 {
			return dup, false, fmt.Errorf("%w: producer %d began epoch %d with sequence %d, want 0",
				ErrOutOfOrderSequence, b.ProducerID(), epoch, first)
		}
		return dup, false, nil
	}
	want := int32(0)
	if p.n > 0 {
		want = int32((int64(p.marks[p.n-1].lastSequence) + 1) & math.MaxInt32)
	}
	if first != want {
		return dup, false, fmt.Errorf("%w: producer %d epoch %d wrote sequence %d, want %d",
			ErrOutOfOrderSequence, b.ProducerID(), epoch, first, want)
	}
	return dup, false, nil
}

// update takes a batch that is in the log, whoever wrote it: it checks nothing, so that every
// replica and every recovery comes to the same state.
func (t producerTable) update(h *batchHeader, nowMS int64) {
	if h.producerID < 0 {
		return
	}
	p := t[h.producerID]
	if p == nil {
		p = &producer{epoch: h.producerEpoch, coordinatorEpoch: -1, txnFirstOffset: -1}
		t[h.producerID] = p
	}
	if p.epoch != h.producerEpoch {
		p.epoch = h.producerEpoch
		p.n = 0
	}
	p.lastTimestamp = h.maxTimestamp
	p.seenMS = nowMS
	if h.isControl() {
		p.txnFirstOffset = -1
		return
	}
	if h.isTransactional() && p.txnFirstOffset < 0 {
		p.txnFirstOffset = h.baseOffset
	}
	if h.baseSequence < 0 {
		return
	}
	p.add(batchMark{
		lastSequence: int32((int64(h.baseSequence) + int64(h.lastOffsetDelta)) & math.MaxInt32),
		offsetDelta:  h.lastOffsetDelta,
		lastOffset:   h.lastOffset(),
		timestamp:    h.maxTimestamp,
	})
}

// expire forgets producers idle for longer than maxIdleMS, by the wall clock: record timestamps may
// be years old. A producer with an open transaction stays.
func (t producerTable) expire(nowMS, maxIdleMS int64) {
	for id, p := range t {
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
