package coordinator_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/record"
)

// ledger is a counter whose numbers may be part of a transaction. Inputs beside those of counter:
// staged adds to a producer's transaction; marker ends one; "seen" answers all replays in order.
type ledger struct {
	counter
	seen []string
}

type staged struct {
	producer int64
	n        int
}

type marker struct {
	producer int64
	commit   bool
}

func (l *ledger) Handle(now time.Time, t coordinator.Ticket, in any) coordinator.Step {
	switch in := in.(type) {
	case staged:
		step := l.add(t, in.n, in.n)
		step.Producer = &coordinator.Producer{ID: in.producer, Epoch: 1}
		return step
	case marker:
		m := &record.ControlOptions{ProducerID: in.producer, ProducerEpoch: 1}
		if in.commit {
			m.Type = record.ControlCommit
		}
		return coordinator.Step{
			Marker: m, Outputs: []coordinator.Output{{Ticket: t, Value: "decided"}},
		}
	}
	if in == "seen" {
		return coordinator.Step{Outputs: []coordinator.Output{{Ticket: t, Value: l.seen}}}
	}
	return l.counter.Handle(now, t, in)
}

func (l *ledger) Replay(rec record.Record) error {
	l.seen = append(l.seen, fmt.Sprintf("%d: %s", rec.Offset, rec.Value))
	return l.counter.Replay(rec)
}

func (l *ledger) ReplayTransactional(p coordinator.Producer, rec record.Record) error {
	l.seen = append(l.seen, fmt.Sprintf("%d: %s of %d/%d", rec.Offset, rec.Value, p.ID, p.Epoch))
	return nil
}

func (l *ledger) ReplayMarker(p coordinator.Producer, commit bool, offset int64) error {
	l.seen = append(l.seen, fmt.Sprintf("%d: commit %s of %d/%d", offset,
		strconv.FormatBool(commit), p.ID, p.Epoch))
	return nil
}

func openLedger(log *memLog) *coordinator.Runtime {
	rt := coordinator.New(coordinator.Options{
		Log:        log,
		NewMachine: func(int32) coordinator.Machine { return &ledger{} },
	})
	rt.Lead(0, 1)
	synctest.Wait()
	return rt
}

// Transactional steps are batches of their own, in the order of the inputs, and the machine sees
// the same of its own steps as of the log when it is loaded again.
func TestKIP98_TransactionalStepsKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &memLog{epoch: 1}
		rt := openLedger(log)
		gate := make(chan struct{})
		log.set(func(l *memLog) { l.gate = gate })
		ask(rt, 1)
		synctest.Wait()
		ask(rt, 2)
		ask(rt, 3)
		ask(rt, staged{7, 4})
		ask(rt, staged{8, 5})
		ask(rt, 6)
		ask(rt, marker{7, true})
		decided := ask(rt, marker{8, false})
		log.set(func(l *memLog) { l.gate = nil })
		close(gate)
		require.Equal(t, "decided", <-decided)
		require.Equal(t, []string{
			"1 records", "2 records", "1 records of {7 1}", "1 records of {8 1}", "1 records",
			"marker of 7", "marker of 8",
		}, log.shape)
		want := fmt.Sprint([]string{
			"0: 1", "1: 2", "2: 3", "3: 4 of 7/1", "4: 5 of 8/1", "5: 6", "6: commit true of 7/1",
			"7: commit false of 8/1",
		})
		require.Equal(t, want, <-ask(rt, "seen"))
		rt.Close()
		rt = openLedger(log)
		require.Equal(t, want, <-ask(rt, "seen"), "after loading")
		rt.Close()
	})
}

// A refused marker or batch is told to the caller by the code of the error; those around it go on.
func TestKIP98_RefusedStepsTellWhy(t *testing.T) {
	for err, want := range map[error]string{
		coordinator.ErrInvalidProducerEpoch:         "INVALID_PRODUCER_EPOCH",
		coordinator.ErrTransactionCoordinatorFenced: "TRANSACTION_COORDINATOR_FENCED",
		coordinator.ErrInvalidTxnState:              "INVALID_TXN_STATE",
		errors.New("disk is full"):                  "COORDINATOR_NOT_AVAILABLE",
	} {
		synctest.Test(t, func(t *testing.T) {
			log := &memLog{epoch: 1}
			rt := openLedger(log)
			defer rt.Close()
			log.set(func(l *memLog) { l.fail = err })
			require.Equal(t, want, <-ask(rt, staged{7, 4}))
			log.set(func(l *memLog) { l.fail = err })
			require.Equal(t, want, <-ask(rt, marker{7, true}))
			require.Equal(t, "5", <-ask(rt, 5))
			require.Equal(t, "[0: 5]", <-ask(rt, "seen"))
		})
	}
}

// A large transactional step goes out in parts, each of them the producer's.
func TestKIP98_LargeTransactionalStepsAreSplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &memLog{epoch: 1}
		rt := coordinator.New(coordinator.Options{
			Log:        log,
			NewMachine: func(int32) coordinator.Machine { return &bulkLedger{} },
		})
		defer rt.Close()
		rt.Lead(0, 1)
		synctest.Wait()
		require.Equal(t, "4", <-ask(rt, 4))
		require.Equal(t, slices.Repeat([]string{"2 records of {7 1}"}, 2), log.shape)
		require.Equal(t, "[0 1 2 3]", <-ask(rt, "offsets"))
	})
}

// bulkLedger answers n with n records of 200 kB in one transaction.
type bulkLedger struct {
	ledger
	offsets []int64
}

func (b *bulkLedger) Handle(now time.Time, t coordinator.Ticket, in any) coordinator.Step {
	if in == "offsets" {
		return coordinator.Step{Outputs: []coordinator.Output{{Ticket: t, Value: b.offsets}}}
	}
	step := (&bulk{}).Handle(now, t, in)
	step.Producer = &coordinator.Producer{ID: 7, Epoch: 1}
	return step
}

func (b *bulkLedger) ReplayTransactional(_ coordinator.Producer, rec record.Record) error {
	b.offsets = append(b.offsets, rec.Offset)
	return nil
}

// A machine without transactions does not load a log that has some: it would take what is not
// decided, or was aborted, for true.
func TestRuntimeRefusesTransactionsItsMachineDoesNotKnow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &memLog{epoch: 1, entries: []coordinator.Entry{{
			Record:   record.Record{Value: []byte("40")},
			Producer: &coordinator.Producer{ID: 7},
		}}}
		rt := open(log)
		defer rt.Close()
		synctest.Wait()
		require.Equal(t, "COORDINATOR_NOT_AVAILABLE", <-ask(rt, "sum"))
	})
}
