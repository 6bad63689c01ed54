package compact

import (
	"fmt"
	"slices"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/storage"
)

// transactions follows the transactions of a log while its batches are read in order, and says
// which batches are of aborted ones and which markers have outlived their data.
type transactions struct {
	// waiting are aborted transactions not reached yet, by first offset.
	waiting []storage.AbortedRange
	// aborted are the open ones that will end in an abort, by producer.
	aborted map[int64]*abortedState
	// committed are the producers with an open transaction that has data and will be committed.
	committed map[int64]bool
}

// abortedState is an aborted transaction that was reached.
type abortedState struct {
	storage.AbortedRange
	hasData bool // a batch of it is still in the log
}

func newTransactions() *transactions {
	return &transactions{aborted: map[int64]*abortedState{}, committed: map[int64]bool{}}
}

// add tells of aborted transactions that reach into what is read next. Telling twice is allowed.
func (t *transactions) add(list []storage.AbortedRange) {
	t.waiting = append(t.waiting, list...)
	slices.SortStableFunc(t.waiting, func(a, b storage.AbortedRange) int {
		return int(max(min(a.FirstOffset-b.FirstOffset, 1), -1))
	})
}

// reach opens the aborted transactions that begin at offset or before.
func (t *transactions) reach(offset int64) {
	for len(t.waiting) > 0 && t.waiting[0].FirstOffset <= offset {
		next := t.waiting[0]
		t.waiting = t.waiting[1:]
		if t.aborted[next.ProducerID] == nil {
			t.aborted[next.ProducerID] = &abortedState{AbortedRange: next}
		}
	}
}

// data takes a batch of records and reports whether it is of an aborted transaction.
func (t *transactions) data(b record.Batch) bool {
	t.reach(b.LastOffset())
	if !b.IsTransactional() {
		return false
	}
	if a := t.aborted[b.ProducerID()]; a != nil {
		a.hasData = true
		return true
	}
	t.committed[b.ProducerID()] = true
	return false
}

// marker takes a control batch. obsolete says that nothing of its transaction is left; aborted is
// the transaction that ends here if it was aborted and has data still.
func (t *transactions) marker(b record.Batch) (obsolete bool, aborted *storage.AbortedRange,
	err error) {
	t.reach(b.LastOffset())
	if b.Count() == 0 {
		return true, nil, nil // emptied before
	}
	records, err := b.Records(len(b))
	if err != nil {
		return false, nil, err
	}
	if len(records) == 0 {
		return false, nil, fmt.Errorf("control batch at %d without a record: %w", b.BaseOffset(),
			record.ErrCorrupt)
	}
	kind, _, err := record.ParseControl(&records[0])
	if err != nil {
		return false, nil, err
	}
	switch kind {
	case record.ControlAbort:
		a := t.aborted[b.ProducerID()]
		delete(t.aborted, b.ProducerID())
		if a != nil && a.hasData {
			return false, &a.AbortedRange, nil
		}
		return true, nil, nil
	case record.ControlCommit:
		obsolete = !t.committed[b.ProducerID()]
		delete(t.committed, b.ProducerID())
		return obsolete, nil, nil
	}
	return false, nil, nil // of a kind that is not ours to judge
}
