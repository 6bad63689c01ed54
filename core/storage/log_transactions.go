package storage

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/millstream-io/millstream/core/record"
)

// noUnstable is the first unstable offset while no transaction is open.
const noUnstable = math.MaxInt64

// StartVerification is asked before a transactional batch of a client is appended (KIP-890).
// ongoing says that the producer has an open transaction of this epoch here, so that the
// coordinator need not be asked. Otherwise ask it, then pass guard to Append. The error is
// ErrInvalidProducerEpoch if the epoch is over: that one, unlike a lost transaction, a client
// survives (KAFKA-19690).
func (l *Log) StartVerification(producerID int64, epoch int16, baseSequence int32,
) (guard VerificationGuard, ongoing bool, err error) {
	if err := l.Err(); err != nil {
		return 0, false, err
	}
	now := l.clock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.mu.producers[producerID]; p != nil {
		if err := p.checkEpoch(producerID, epoch); err != nil {
			return 0, false, fmt.Errorf("verify a transaction in %s: %w", l.tp, err)
		}
		if p.inTransaction(epoch) {
			return 0, true, nil
		}
	}
	return l.mu.guards.start(producerID, epoch, baseSequence, now), false, nil
}

// LastStableOffset returns the offset below which every record is committed and of a transaction
// that is decided, or of none. It is at most the high watermark and never goes back while the log
// is open, but for truncation. A transaction counts as decided once its marker is below the high
// watermark.
func (l *Log) LastStableOffset() int64 {
	// In this order: what is unstable below this watermark was published before it was.
	highWatermark := l.highWatermark.Load()
	return min(highWatermark, l.firstUnstable.Load())
}

// settleTransactions lets go of transactions that a new high watermark has made final.
func (l *Log) settleTransactions(highWatermark int64) {
	if l.decided.Load() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.txns.settle(highWatermark)
	l.publishUnstableLocked()
}

// publishUnstableLocked follows a change of the transactions or of the log's start. What was
// deleted of an open transaction does not hold anybody back.
func (l *Log) publishUnstableLocked() {
	l.firstUnstable.Store(max(l.mu.txns.firstUnstable(), l.start.Load()))
	l.decided.Store(int64(len(l.mu.txns.decided)))
}

// applyLocked brings producers and transactions in line with batches b, which are in the active
// segment but not yet below the end.
func (l *Log) applyLocked(b []byte, now int64) error {
	s, changed := l.active(), false
	var h batchHeader
	for rest := b; len(rest) > 0; rest = rest[h.size:] {
		h.read(record.Batch(rest))
		if h.producerID < 0 {
			continue
		}
		a, aborted, err := applyBatch(l.mu.producers, &l.mu.txns, &h, record.Batch(rest[:h.size]), now)
		if err != nil {
			return err
		}
		if aborted {
			s.addAborted(a)
		}
		if h.isTransactional() {
			delete(l.mu.guards.byID, h.producerID) // it is open now, or over
			changed = true
		}
	}
	if changed {
		l.publishUnstableLocked()
	}
	l.countProducersLocked()
	return nil
}

// AbortedTransaction is a transaction whose records read committed must not see.
type AbortedTransaction struct {
	ProducerID  int64
	FirstOffset int64 // its records from here to its marker
}

// AbortedTransactions returns the transactions, by first offset, that have records in [from, upTo)
// and whose abort marker is in the log. The error is ErrOffsetOutOfRange if the segment of from has
// been deleted meanwhile, and its list with it.
func (l *Log) AbortedTransactions(from, upTo int64) ([]AbortedTransaction, error) {
	entries, err := l.abortedEntries(from, upTo)
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	found := make([]AbortedTransaction, len(entries))
	for i := range entries {
		found[i] = AbortedTransaction{entries[i].producerID, entries[i].firstOffset}
	}
	slices.SortFunc(found, func(a, b AbortedTransaction) int {
		return cmp.Or(cmp.Compare(a.FirstOffset, b.FirstOffset),
			cmp.Compare(a.ProducerID, b.ProducerID))
	})
	return found, nil
}

// abortedEntries returns the entries of AbortedTransactions, in the order of their markers.
func (l *Log) abortedEntries(from, upTo int64) ([]abortedTxn, error) {
	var seen *[]*segment
	for {
		if err := l.readable(); err != nil {
			return nil, err
		}
		list := l.segments.Load()
		i := sort.Search(len(*list), func(i int) bool { return (*list)[i].base > from }) - 1
		if i < 0 || list == seen {
			return nil, l.outOfRange(from, l.start.Load(), l.end.Load())
		}
		found, ok, err := abortedIn((*list)[i:], from, upTo)
		if err != nil {
			return nil, fmt.Errorf("aborted transactions of %s: %w", l.tp, err)
		}
		if ok {
			return found, nil
		}
		seen = list // compaction or retention took a segment out: look at those that are there now
	}
}

// abortedIn returns the entries of segments in list; ok is false if one of them is gone.
func abortedIn(list []*segment, from, upTo int64) (found []abortedTxn, ok bool, err error) {
	collect := func(a *abortedTxn) { found = append(found, *a) }
	for _, s := range list {
		if s.mu.aborts.count.Load() == 0 && s.refs.Load() > 0 {
			continue // it has none, and was still in the log when that was read
		}
		if !s.acquire() {
			return nil, false, nil
		}
		done, err := s.abortedBetween(from, upTo, collect)
		s.release()
		if err != nil || done {
			return found, true, err
		}
	}
	return found, true, nil
}

// abortedBetween calls fn with the segment's aborted transactions that have records in
// [from, upTo). done says that no later segment has such: all below upTo was decided by then.
func (s *segment) abortedBetween(from, upTo int64, fn func(*abortedTxn)) (done bool, err error) {
	collect := func(a *abortedTxn) bool {
		if a.firstOffset < upTo {
			fn(a)
		}
		done = a.lastStableOffset >= upTo
		return !done
	}
	s.mu.Lock()
	if s.mu.aborts.entries != nil {
		defer s.mu.Unlock()
		s.mu.aborts.eachInMemory(from, collect)
		return done, nil
	}
	s.mu.Unlock()
	err = s.mu.aborts.eachInFile(from, collect)
	return done, err
}

// addAborted puts a transaction into the index.
func (s *segment) addAborted(a abortedTxn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.aborts.add(a)
}

// ProducerInfo is what the log knows of a producer.
type ProducerInfo struct {
	ID               int64
	Epoch            int16
	LastSequence     int32 // -1 if none in this epoch
	LastTimestamp    int64 // of the last batch or marker, ms
	CoordinatorEpoch int32 // of the last marker, -1 if none
	TxnStartOffset   int64 // of the open transaction, -1 if none
}

// Producers returns the producers that the log remembers, by id.
func (l *Log) Producers() []ProducerInfo {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := make([]ProducerInfo, 0, len(l.mu.producers))
	for _, id := range l.mu.producers.sortedIDs() {
		p := l.mu.producers[id]
		list = append(list, ProducerInfo{ID: id, Epoch: p.epoch, LastSequence: p.lastSequence(),
			LastTimestamp: p.lastTimestamp, CoordinatorEpoch: p.coordinatorEpoch,
			TxnStartOffset: p.txnFirstOffset})
	}
	return list
}
