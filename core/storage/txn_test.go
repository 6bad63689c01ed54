package storage

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/vfs"
	"github.com/millstream-io/millstream/core/vfs/vfstest"
)

const (
	abort  = record.ControlAbort
	commit = record.ControlCommit
)

func newTxnLog(t testing.TB) *Log {
	t.Helper()
	return mustCreate(t, mustOpen(t, vfs.NewMem(), "/data"), DefaultConfig())
}

func aborted(t testing.TB, l *Log, from, upTo int64) []AbortedTransaction {
	t.Helper()
	list, err := l.AbortedTransactions(from, upTo)
	require.NoError(t, err)
	return list
}

// A first batch needs the guard of a verification; the following ones do not, as the transaction is
// open; a marker ends what was verified before it (KIP-890, part 1).
func TestKIP890_AFirstBatchNeedsAGuardThatNoMarkerOvertook(t *testing.T) {
	l := newTxnLog(t)
	batch := func(seq int32) record.Batch { return txnBatch(t, 7, 0, seq, 1) }
	_, err := l.Append(batch(0), AppendOptions{})
	require.ErrorIs(t, err, ErrInvalidTxnState)

	guard, ongoing, err := l.StartVerification(7, 0, 0)
	require.NoError(t, err)
	require.False(t, ongoing)
	require.NotZero(t, guard)
	again, _, err := l.StartVerification(7, 0, 0)
	require.NoError(t, err)
	require.Equal(t, guard, again, "a repeat before the answer is the same question")
	_, err = l.Append(batch(0), AppendOptions{Guard: guard + 1})
	require.ErrorIs(t, err, ErrInvalidTxnState)
	_, err = l.Append(batch(0), AppendOptions{Guard: guard})
	require.NoError(t, err)

	none, ongoing, err := l.StartVerification(7, 0, 1)
	require.NoError(t, err)
	require.True(t, ongoing)
	require.Zero(t, none)
	_, err = l.Append(batch(1), AppendOptions{})
	require.NoError(t, err)

	mustEndTxn(t, l, abort, 7, 0)
	_, err = l.Append(batch(2), AppendOptions{})
	require.ErrorIs(t, err, ErrInvalidTxnState, "its transaction is over")
	guard, ongoing, err = l.StartVerification(7, 0, 2)
	require.NoError(t, err)
	require.False(t, ongoing)
	mustEndTxn(t, l, abort, 7, 0)
	_, err = l.Append(batch(2), AppendOptions{Guard: guard})
	require.ErrorIs(t, err, ErrInvalidTxnState, "the marker came between question and batch")

	c := l.Config()
	c.SkipVerification = true
	require.NoError(t, l.SetConfig(c))
	_, err = l.Append(batch(2), AppendOptions{})
	require.NoError(t, err, "transaction.partition.verification.enable=false")
}

// Of two first batches under verification, the second must not be written before the first, which
// may only be late (KIP-890).
func TestKIP890_ALaterSequenceDoesNotOvertakeTheFirst(t *testing.T) {
	l := newTxnLog(t)
	for _, seq := range []int32{3, 2} {
		_, _, err := l.StartVerification(7, 0, seq)
		require.NoError(t, err)
	}
	guard, _, err := l.StartVerification(7, 0, 4)
	require.NoError(t, err)
	_, err = l.Append(txnBatch(t, 7, 0, 3, 1), AppendOptions{Guard: guard})
	require.ErrorIs(t, err, ErrOutOfOrderSequence)
	_, err = l.Append(txnBatch(t, 7, 0, 2, 1), AppendOptions{Guard: guard})
	require.NoError(t, err)
	mustTxnAppend(t, l, 7, 0, 3, 1)

	// A producer of transaction version 2 has a new epoch here, so that it begins at 0.
	guard, _, err = l.StartVerification(8, 5, 1)
	require.NoError(t, err)
	_, err = l.Append(txnBatch(t, 8, 5, 1, 1), AppendOptions{Guard: guard, TransactionVersion: 2})
	require.ErrorIs(t, err, ErrOutOfOrderSequence)
	_, err = l.Append(txnBatch(t, 8, 5, 0, 1), AppendOptions{Guard: guard, TransactionVersion: 2})
	require.NoError(t, err)
}

// KAFKA-19690: Kafka Streams survives INVALID_PRODUCER_EPOCH, but not INVALID_TXN_STATE, after its
// transaction timed out and was aborted with a new epoch.
func TestRule8_TheEpochIsCheckedBeforeTheVerification(t *testing.T) {
	l := newTxnLog(t)
	mustTxnAppend(t, l, 7, 3, 0, 1)
	mustEndTxn(t, l, abort, 7, 4)
	_, err := l.Append(txnBatch(t, 7, 3, 1, 1), AppendOptions{})
	require.ErrorIs(t, err, ErrInvalidProducerEpoch)
	_, _, err = l.StartVerification(7, 3, 1)
	require.ErrorIs(t, err, ErrInvalidProducerEpoch)
	_, err = l.Append(txnBatch(t, 7, 4, 0, 1), AppendOptions{})
	require.ErrorIs(t, err, ErrInvalidTxnState)
}

func TestRule8_ABatchOutsideTheOpenTransactionIsRefused(t *testing.T) {
	l := newTxnLog(t)
	mustTxnAppend(t, l, 7, 0, 0, 1)
	_, err := l.Append(producerBatch(t, 7, 0, 1, 1), AppendOptions{})
	require.ErrorIs(t, err, ErrInvalidTxnState)
	_, err = l.Append(producerBatch(t, 7, 0, -1, 1), AppendOptions{Origin: FromCoordinator})
	require.ErrorIs(t, err, ErrInvalidTxnState)
	mustAppend(t, l, producerBatch(t, 8, 0, 0, 1))
	mustEndTxn(t, l, commit, 7, 0)
	mustAppend(t, l, producerBatch(t, 7, 0, 1, 1))
}

// KAFKA-19999: a coordinator that did not get the answer sends its marker again, for ever if that
// is refused, and the next transaction cannot begin.
func TestKAFKA19999_RepeatedMarkerIsAccepted(t *testing.T) {
	l := newTxnLog(t)
	mustTxnAppend(t, l, 7, 5, 0, 1)
	marker := record.ControlOptions{Type: abort, ProducerID: 7, ProducerEpoch: 6}
	for range 3 {
		_, err := writeMarker(l, marker, 2)
		require.NoError(t, err)
	}
	l.SetHighWatermark(l.EndOffset())
	require.Equal(t, int64(4), l.LastStableOffset())
	require.Equal(t, []AbortedTransaction{{7, 0}}, aborted(t, l, 0, 4))
	// The next transaction has the marker's epoch: a repeat that comes now must not end it.
	mustTxnAppend(t, l, 7, 6, 0, 1)
	_, err := writeMarker(l, marker, 2)
	require.ErrorIs(t, err, ErrInvalidProducerEpoch)
	l.SetHighWatermark(l.EndOffset())
	require.Equal(t, int64(4), l.LastStableOffset())
}

// The rows are what a coordinator may send in a bad order; open says whether the producer has an
// open transaction of epoch 5 then, its last marker came from coordinator epoch 3.
func TestKIP890_MarkersAreFencedByEpochAndCoordinator(t *testing.T) {
	for i, c := range []struct {
		open        bool
		epoch       int16
		coordinator int32
		version     int16
		err         error
	}{
		{true, 5, 3, 0, nil},
		{true, 5, 3, 1, nil},
		{true, 6, 3, 1, nil},
		{true, 4, 3, 1, ErrInvalidProducerEpoch},
		{true, 4, 3, 2, ErrInvalidProducerEpoch},
		{true, 5, 3, 2, ErrInvalidProducerEpoch}, // late: the transaction is another one
		{true, 6, 3, 2, nil},
		{false, 5, 3, 2, nil}, // KAFKA-19999: the repeat of a marker
		{false, 4, 3, 2, ErrInvalidProducerEpoch},
		{true, 6, 2, 2, ErrTransactionCoordinatorFenced},
		{false, 5, 2, 1, ErrTransactionCoordinatorFenced},
		{true, 6, 4, 2, nil},
	} {
		l := newTxnLog(t)
		mustTxnAppend(t, l, 7, 5, 0, 1)
		_, err := writeMarker(l, record.ControlOptions{Type: commit, ProducerID: 7,
			ProducerEpoch: 5, CoordinatorEpoch: 3}, 1)
		require.NoError(t, err)
		if c.open {
			mustTxnAppend(t, l, 7, 5, 1, 1)
		}
		end := l.EndOffset()
		res, err := writeMarker(l, record.ControlOptions{Type: abort, ProducerID: 7,
			ProducerEpoch: c.epoch, CoordinatorEpoch: c.coordinator}, c.version)
		if c.err != nil {
			require.ErrorIs(t, err, c.err, "row %d", i)
			require.Equal(t, end, l.EndOffset())
			continue
		}
		require.NoError(t, err, "row %d", i)
		require.Equal(t, end, res.BaseOffset)
		p := l.Producers()[0]
		require.Equal(t, ProducerInfo{ID: 7, Epoch: c.epoch, CoordinatorEpoch: c.coordinator,
			TxnStartOffset: -1, LastTimestamp: 0, LastSequence: p.LastSequence}, p, "row %d", i)
		l.SetHighWatermark(l.EndOffset())
		require.Equal(t, l.EndOffset(), l.LastStableOffset())
	}
}

// A marker for a producer that the partition never heard of is written: the coordinator cannot know
// that all its batches failed.
func TestMarkerOfAnUnknownProducerIsWritten(t *testing.T) {
	l := newTxnLog(t)
	mustEndTxn(t, l, abort, 7, 2)
	require.Equal(t, int64(1), l.EndOffset())
	require.Empty(t, aborted(t, l, 0, 1), "no records, so nothing to skip")
	_, _, err := l.StartVerification(7, 1, 0)
	require.ErrorIs(t, err, ErrInvalidProducerEpoch)
}

func TestMarkersThatAreNoneAreRefused(t *testing.T) {
	good := func() record.Batch {
		return record.ControlBatch(record.ControlOptions{ProducerID: 7, Type: abort})
	}
	edit := func(at int, v byte) record.Batch {
		b := good()
		b[at] = v
		b.UpdateCRC()
		return b
	}
	for name, c := range map[string]struct {
		batch []byte
		err   error
	}{
		"empty":             {nil, ErrCorrupt},
		"two":               {append(good(), good()...), ErrInvalidRecord},
		"data":              {txnBatch(t, 7, 0, 0, 1), ErrInvalidRecord},
		"not transactional": {edit(22, attrControl), ErrInvalidRecord},
		"no producer":       {edit(43, 0xff), ErrInvalidRecord},
		"no epoch":          {edit(51, 0xff), ErrInvalidRecord},
		"another type":      {edit(69, 3), ErrInvalidRecord},
		"key cut":           {edit(65, 2), ErrCorrupt},
		"no record":         {edit(60, 0), ErrInvalidRecord},
		"CRC":               {append(good()[:77], 9), ErrCorrupt},
	} {
		l := newTxnLog(t)
		_, err := l.Append(c.batch, AppendOptions{Origin: FromTxnCoordinator})
		require.ErrorIs(t, err, c.err, name)
		require.Zero(t, l.EndOffset(), name)
	}
	l := newTxnLog(t)
	_, err := l.Append(good(), AppendOptions{Origin: FromCoordinator})
	require.ErrorIs(t, err, ErrInvalidRecord, "a marker that nobody checked")
	_, err = l.Append(append(txnBatch(t, 7, 0, -1, 1), batchOf(t, 1, 1, t0)...),
		AppendOptions{Origin: FromCoordinator})
	require.ErrorIs(t, err, ErrInvalidRecord)
	_, err = l.Append(edit(65, 2), AppendOptions{Origin: Replicated})
	require.ErrorIs(t, err, ErrCorrupt)
}

// Offsets by hand: A is 0-1 and 4, B is 2-3, the marker of B is 5, of A 6.
func TestLastStableOffsetAndAbortedListFollowTheTransactions(t *testing.T) {
	l := newTxnLog(t)
	step := func(hw, want int64) {
		t.Helper()
		l.SetHighWatermark(hw)
		require.Equal(t, want, l.LastStableOffset())
	}
	step(0, 0)
	mustTxnAppend(t, l, 1, 0, 0, 2)
	step(2, 0)
	mustTxnAppend(t, l, 2, 0, 0, 2)
	mustTxnAppend(t, l, 1, 0, 2, 1)
	step(5, 0)
	require.Equal(t, []ProducerInfo{
		{1, 0, 2, t0, -1, 0}, {2, 0, 1, t0, -1, 2}}, l.Producers())
	require.Equal(t, int64(5), mustEndTxn(t, l, abort, 2, 0))
	step(6, 0)
	require.Equal(t, int64(6), mustEndTxn(t, l, abort, 1, 0))
	step(6, 0) // the marker is not below the high watermark
	step(7, 7)
	step(6, 7) // late: neither goes back
	both := []AbortedTransaction{{1, 0}, {2, 2}}
	require.Equal(t, both, aborted(t, l, 0, 7))
	require.Equal(t, both, aborted(t, l, 5, 7), "both markers are at 5 or later")
	require.Equal(t, both[:1], aborted(t, l, 6, 7))
	require.Equal(t, both[:1], aborted(t, l, 0, 2), "the second begins at 2")
	require.Empty(t, aborted(t, l, 7, 9))

	mustTxnAppend(t, l, 1, 0, 3, 1)
	mustEndTxn(t, l, commit, 1, 0)
	mustAppend(t, l, batchOf(t, 1, 1, t0))
	step(10, 10)
	require.Empty(t, aborted(t, l, 7, 10), "committed")
}

// A transaction whose marker is lost with the unreplicated end of the log must not have been shown:
// it is unstable until its marker is below the high watermark, also when others that began later
// are decided already.
func TestDecidedTransactionIsUnstableUntilItsMarkerIsCommitted(t *testing.T) {
	l := newTxnLog(t)
	mustTxnAppend(t, l, 1, 0, 0, 1) // 0
	mustTxnAppend(t, l, 2, 0, 0, 1) // 1
	mustEndTxn(t, l, commit, 2, 0)  // 2
	mustEndTxn(t, l, commit, 1, 0)  // 3
	mustTxnAppend(t, l, 3, 0, 0, 1) // 4
	mustEndTxn(t, l, commit, 3, 0)  // 5
	for hw, want := range []int64{0, 0, 0, 0, 4, 4, 6} {
		l.SetHighWatermark(int64(hw))
		require.Equal(t, want, l.LastStableOffset(), "high watermark %d", hw)
	}
}

// The list of decided transactions is bounded, on the safe side.
func TestDecidedTransactionsAreBounded(t *testing.T) {
	var x txnTable
	for i := range int64(2 * maxDecided) {
		x.begin(1, 2*i)
		x.decide(2*i, 2*i+1)
	}
	require.Len(t, x.decided, maxDecided)
	require.Zero(t, x.firstUnstable())
	x.settle(2*maxDecided - 1)
	require.Equal(t, int64(2*maxDecided-2), x.firstUnstable())
	x.settle(4*maxDecided - 1)
	require.Equal(t, int64(2*maxDecided-2), x.firstUnstable())
	x.settle(4 * maxDecided)
	require.Equal(t, int64(noUnstable), x.firstUnstable())
}

// DeleteRecords and retention may take the beginning of an open transaction away.
func TestDeletedBeginningOfATransactionHoldsNobodyBack(t *testing.T) {
	l := newTxnLog(t)
	mustTxnAppend(t, l, 1, 0, 0, 1)
	mustAppend(t, l, batchOf(t, 4, 1, t0))
	l.SetHighWatermark(5)
	require.Zero(t, l.LastStableOffset())
	require.NoError(t, l.DeleteRecordsBefore(3))
	require.Equal(t, int64(3), l.LastStableOffset())
	mustEndTxn(t, l, abort, 1, 0)
	l.SetHighWatermark(6)
	require.Equal(t, int64(6), l.LastStableOffset())
	require.Equal(t, []AbortedTransaction{{1, 0}}, aborted(t, l, 3, 6))
}

// Compaction replaces segments beside readers: a list that was begun with the old ones is begun
// anew with the new ones, and not taken for one whose segments were deleted.
func TestAbortedListSurvivesTheReplacementOfASegment(t *testing.T) {
	l := newTxnLog(t)
	mustTxnAppend(t, l, 1, 0, 0, 1)
	mustEndTxn(t, l, abort, 1, 0)
	l.mu.Lock()
	require.NoError(t, l.rollLocked(l.EndOffset(), "test", t0))
	l.mu.Unlock()
	before := *l.segments.Load()
	same, err := openSegmentFiles(l.fsys, l.dir(), 0, t0)
	require.NoError(t, err)
	require.NoError(t, same.load())
	require.NoError(t, same.seal())
	l.publishCleaned(before[:1], same)
	before[0].release()
	_, ok, err := abortedIn(before, 0, 2)
	require.NoError(t, err)
	require.False(t, ok)
	require.Equal(t, []AbortedTransaction{{1, 0}}, aborted(t, l, 0, 2))
}

func TestOpenTransactionsDoNotExpire(t *testing.T) {
	clock := newTestClock()
	d := mustOpenAt(t, vfs.NewMem(), "/data", clock)
	l := mustCreate(t, d, DefaultConfig())
	mustTxnAppend(t, l, 1, 0, 0, 1)
	_, _, err := l.StartVerification(2, 0, 0)
	require.NoError(t, err)
	clock.ms.Add(48 * 3600 * 1000)
	d.ApplyRetention()
	require.Len(t, l.Producers(), 1)
	require.Empty(t, l.mu.guards.byID, "a verification that nothing followed")
	mustEndTxn(t, l, commit, 1, 0)
	clock.ms.Add(48 * 3600 * 1000)
	d.ApplyRetention()
	require.Empty(t, l.Producers())
}

// redpanda#4854 for transactions: the wrap of sequences is no step back while verifying.
func TestRule3_VerificationKnowsTheWrapOfSequences(t *testing.T) {
	l := newTxnLog(t)
	const last = 1<<31 - 1
	for _, seq := range []int32{last, 0} {
		_, _, err := l.StartVerification(7, 0, seq)
		require.NoError(t, err)
	}
	_, err := txnAppend(l, txnBatch(t, 7, 0, 0, 1))
	require.ErrorIs(t, err, ErrOutOfOrderSequence)
	mustTxnAppend(t, l, 7, 0, last, 1)
	mustTxnAppend(t, l, 7, 0, 0, 1)
}

// Compaction keeps the last batch of a producer without its records, and without its marker: a
// replica that reads it, or recovery, must not take its transaction for open.
func TestEmptiedBatchOpensNoTransaction(t *testing.T) {
	vfstest.LeaveOut(t, "a compacted batch in a log that the cleaner has not seen")
	l := newTxnLog(t)
	b := record.NewBuilder(record.BuilderOptions{Idempotent: true, Transactional: true,
		ProducerID: 7, BaseSequence: 3})
	b.Append(record.Record{Timestamp: t0})
	one, err := b.Build()
	require.NoError(t, err)
	empty := slices.Clone(one[:record.HeaderSize])
	empty[11], empty[60] = record.HeaderSize-12, 0 // length, count
	empty.UpdateCRC()
	_, err = l.Append(empty, AppendOptions{Origin: Replicated})
	require.NoError(t, err)
	l.SetHighWatermark(1)
	require.Equal(t, int64(1), l.LastStableOffset())
	require.Equal(t, []ProducerInfo{{7, 0, 3, t0, -1, -1}}, l.Producers())
}

// A batch of a transaction that is repeated after its end is found to be a repeat.
func TestRule1_RepeatOfATransactionalBatchAfterItsMarker(t *testing.T) {
	l := newTxnLog(t)
	first := mustTxnAppend(t, l, 7, 0, 0, 2)
	mustEndTxn(t, l, commit, 7, 0)
	res, err := l.Append(txnBatch(t, 7, 0, 0, 2), AppendOptions{})
	require.NoError(t, err)
	require.True(t, res.Duplicate)
	require.Equal(t, first.BaseOffset, res.BaseOffset)
}

// txnFiles has the bytes of the .txnindex files of a log.
func txnFiles(t testing.TB, fsys vfs.FS) map[string]string {
	t.Helper()
	files := dirFiles(t, fsys, "/data/orders-0")
	for name := range files {
		if _, suffix, ok := parseSegmentFile(name); !ok || suffix != suffixTxnIndex {
			delete(files, name)
		}
	}
	return files
}

// Bytes by hand from KIP-98's table: version, producer id, first and last offset, last stable
// offset. Producer 1 writes 0 and 3, producer 2 writes 1 and 2; 2 is aborted at 4, while 1 is open.
func TestTxnIndexFileBytes(t *testing.T) {
	fsys := vfs.NewMem()
	d := mustOpen(t, fsys, "/data")
	l := mustCreate(t, d, DefaultConfig())
	mustTxnAppend(t, l, 1, 0, 0, 1)
	mustTxnAppend(t, l, 2, 0, 0, 2)
	mustTxnAppend(t, l, 1, 0, 1, 1)
	require.NoError(t, l.Sync(t.Context()))
	require.Empty(t, txnFiles(t, fsys), "no file before the first abort")
	mustEndTxn(t, l, abort, 2, 0)
	mustEndTxn(t, l, abort, 1, 0)
	require.NoError(t, d.Close())
	require.Equal(t, map[string]string{"00000000000000000000.txnindex": string(unhex(t,
		`0000 0000000000000002 0000000000000001 0000000000000004 0000000000000000
		 0000 0000000000000001 0000000000000000 0000000000000005 0000000000000006`))},
		txnFiles(t, fsys))
	text := fmt.Sprintf("%x", dirFiles(t, fsys, "/data/orders-0")["00000000000000000006.snapshot"])
	require.Equal(t, `0001`+text[4:12]+`00000002`+
		`0000000000000001`+`0000`+`00000001`+`0000000000000003`+`00000000`+`0000018bcfe56800`+
		`00000001`+`ffffffffffffffff`+
		`0000000000000002`+`0000`+`00000001`+`0000000000000002`+`00000001`+`0000018bcfe56800`+
		`00000001`+`ffffffffffffffff`, text)
}
