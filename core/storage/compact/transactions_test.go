package compact

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/storage"
)

// txn appends a batch of a transaction.
func (f *fixture) txn(producer int64, sequence int32, texts ...string) int64 {
	return f.putBatch(record.BuilderOptions{Idempotent: true, Transactional: true,
		ProducerID: producer, BaseSequence: sequence}, texts...)
}

func (f *fixture) aborted() []storage.AbortedTransaction {
	f.t.Helper()
	list, err := f.log.AbortedTransactions(0, f.log.EndOffset())
	require.NoError(f.t, err)
	return list
}

func TestRule25_AbortedDataGoesAtOnceItsMarkerLater(t *testing.T) {
	f := newFixture(t, compactConfig())
	f.put("a=1")
	f.txn(7, 0, "a=2", "b=2") // 1, 2
	f.roll()
	f.txn(7, 2, "c=2")               // 3
	f.marker(7, record.ControlAbort) // 4
	f.put("d=1")                     // 5
	f.seal()                         // 6
	aborted := []storage.AbortedTransaction{{ProducerID: 7, FirstOffset: 1}}
	require.Equal(t, aborted, f.aborted())

	f.clean()
	// a=1 is the last of a again, 3-3 keeps the producer's sequence, 4 tells who reads on.
	require.Equal(t, []string{"0 a=1", "3-3 empty", "4 marker", "5 d=1", "6 last-6=x"}, f.content())
	require.Equal(t, aborted, f.aborted(), "a batch of it is left")
	require.False(t, f.batches()[2].HasDeleteHorizon())

	// Once the producer has written again, nothing of the transaction is left but its marker, which
	// gets a horizon.
	f.putBatch(record.BuilderOptions{Idempotent: true, ProducerID: 7, BaseSequence: 3}, "e=1") // 7
	f.seal()                                                                                   // 8
	f.clean()
	require.Equal(t, []string{"0 a=1", "4 marker", "5 d=1", "6 last-6=x", "7 e=1", "8 last-8=x"},
		f.content())
	require.Empty(t, withMarkersOnly(t, f)[0].HasDeleteHorizon(), "its data was there in this pass")
	f.seal() // 9
	f.clean()
	b := withMarkersOnly(t, f)[0]
	require.True(t, b.HasDeleteHorizon())
	require.Equal(t, t0+60_000, b.BaseTimestamp())
	require.Empty(t, f.aborted())

	f.clock.Add(60_000)
	f.seal()
	f.clean()
	require.Empty(t, withMarkersOnly(t, f))
	require.Contains(t, f.content(), "0 a=1")
}

func withMarkersOnly(t *testing.T, f *fixture) []record.Batch {
	t.Helper()
	var list []record.Batch
	for _, b := range f.batches() {
		if b.IsControl() {
			list = append(list, b)
		}
	}
	return list
}

func TestRule25_CommittedDataIsKeptByKeyAndItsMarkerWithIt(t *testing.T) {
	f := newFixture(t, compactConfig())
	f.txn(7, 0, "a=1", "b=1")         // 0, 1
	f.marker(7, record.ControlCommit) // 2
	f.put("a=2")                      // 3
	f.seal()                          // 4
	for range 3 {
		f.clean()
		f.clock.Add(60_000)
		require.Equal(t, []string{"1 b=1", "2 marker"}, f.content()[:2])
		f.seal()
	}
	require.False(t, withMarkersOnly(t, f)[0].HasDeleteHorizon(), "its data is there")
}

func TestRule25_NothingOfAnOpenTransactionIsTouched(t *testing.T) {
	f := newFixture(t, compactConfig())
	f.put("a=1", "a=2") // 0, 1
	f.roll()
	f.txn(7, 0, "a=3") // 2
	f.put("a=4")       // 3
	f.seal()           // 4
	require.Equal(t, int64(2), f.log.LastStableOffset())
	f.clean()
	require.Equal(t, []string{"1 a=2", "2 a=3", "3 a=4", "4 last-4=x"}, f.content())
	require.Equal(t, int64(2), f.log.CleanedOffset())
	f.marker(7, record.ControlAbort) // 5
	f.seal()                         // 6
	f.clean()
	require.Equal(t, []string{"2-2 empty", "3 a=4", "4 last-4=x", "5 marker", "6 last-6=x"},
		f.content())
}

func TestRule25_SurvivesARestartWithoutTheIndex(t *testing.T) {
	f := newFixture(t, compactConfig())
	f.txn(7, 0, "a=1")               // 0
	f.marker(7, record.ControlAbort) // 1
	f.txn(7, 1, "b=1")               // 2
	f.marker(7, record.ControlCommit)
	f.txn(7, 2, "c=1") // 4
	f.marker(7, record.ControlAbort)
	f.seal()
	f.clean()
	before, aborted := f.content(), f.aborted()
	require.NoError(t, f.dir.Close())
	for _, name := range f.files() {
		if strings.HasSuffix(name, ".txnindex") || strings.HasSuffix(name, ".index") {
			require.NoError(t, f.fs.Remove("/data/"+tp0.String()+"/"+name))
		}
	}
	f.open()
	require.Equal(t, before, f.content())
	require.Subset(t, aborted, f.aborted())
}
