package storage

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/vfs"
	"github.com/millstream-io/millstream/core/vfs/vfstest"
)

// Rule 7: the checks of Kafka's LogValidator, with the answers of a real 4.4.0 broker: format
// errors are CORRUPT_MESSAGE, broken rules INVALID_RECORD.
func TestRule7_ClientBatchesThatAreRefused(t *testing.T) {
	d := mustOpen(t, vfs.NewMem(), "/data")
	c := DefaultConfig()
	c.MaxMessageBytes = 2000
	l := mustCreate(t, d, c)
	edit := func(fn func(b record.Batch)) []byte {
		b := record.Batch(batchOf(t, 3, 20, t0))
		fn(b)
		b.UpdateCRC()
		return b
	}
	put32 := func(at int, v int32) func(record.Batch) {
		return func(b record.Batch) { binary.BigEndian.PutUint32(b[at:], uint32(v)) }
	}
	flip := func(at int) []byte {
		b := batchOf(t, 3, 20, t0)
		b[at] ^= 1
		return b
	}
	two := append(batchOf(t, 1, 20, t0), batchOf(t, 1, 20, t0)...)
	whole := batchOf(t, 3, 20, t0)
	for name, tc := range map[string]struct {
		batch []byte
		want  error
	}{
		"empty":           {nil, ErrInvalidRecord},
		"two batches":     {two, ErrInvalidRecord},
		"magic 0":         {edit(func(b record.Batch) { b[16] = 0 }), ErrInvalidRecord},
		"magic 1":         {edit(func(b record.Batch) { b[16] = 1 }), ErrInvalidRecord},
		"magic 3":         {edit(func(b record.Batch) { b[16] = 3 }), ErrCorrupt},
		"CRC":             {flip(18), ErrCorrupt},
		"payload bit":     {flip(70), ErrCorrupt},
		"cut":             {whole[:len(whole)-1], ErrInvalidRecord},
		"header only":     {whole[:20], ErrInvalidRecord},
		"negative length": {edit(put32(8, -1)), ErrCorrupt},
		"base offset":     {edit(func(b record.Batch) { b.SetBaseOffset(1) }), ErrInvalidRecord},
		"count 0":         {edit(put32(57, 0)), ErrInvalidRecord},
		"count too small": {edit(put32(57, 2)), ErrInvalidRecord},
		"count negative":  {edit(put32(57, -3)), ErrInvalidRecord},
		"delta negative":  {edit(put32(23, -1)), ErrInvalidRecord},
		"count beyond the body": {edit(func(b record.Batch) {
			put32(57, 500)(b)
			put32(23, 499)(b)
		}), ErrInvalidRecord},
		"control": {edit(func(b record.Batch) { b[22] |= 1 << 5 }), ErrInvalidRecord},
		"transactional, no id": {edit(func(b record.Batch) { b[22] |= 1 << 4 }),
			ErrInvalidRecord},
		"not verified":          {txnBatch(t, 1, 0, 0, 1), ErrInvalidTxnState},
		"codec 5":               {edit(func(b record.Batch) { b[22] |= 5 }), ErrInvalidRecord},
		"log append time":       {edit(func(b record.Batch) { b[22] |= 1 << 3 }), ErrInvalidTimestamp},
		"too large":             {batchOf(t, 1, 2000, t0), ErrTooLarge},
		"producer no sequence":  {producerBatch(t, 1, 0, -1, 1), ErrInvalidRecord},
		"producer no epoch":     {producerBatch(t, 1, -1, 0, 1), ErrInvalidProducerEpoch},
		"too far in the future": {batchOf(t, 1, 20, t0+3_600_001), ErrInvalidTimestamp},
	} {
		t.Run(name, func(t *testing.T) {
			res, err := l.Append(tc.batch, AppendOptions{})
			require.ErrorIs(t, err, tc.want)
			require.Equal(t, int64(-1), res.BaseOffset, "never 0 on an error")
			require.Zero(t, l.EndOffset())
		})
	}
	require.Zero(t, mustAppend(t, l, batchOf(t, 1, 20, t0+3_600_000)).BaseOffset)
}

func TestRule7_RefusedRecordsAreNamed(t *testing.T) {
	d := mustOpen(t, vfs.NewMem(), "/data")
	c := DefaultConfig()
	c.Compact = true
	c.TimestampBeforeMaxMS = 1000
	l := mustCreate(t, d, c)
	build := func(codec record.Codec, recs ...record.Record) []byte {
		b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: -1, Codec: codec})
		for _, r := range recs {
			b.Append(r)
		}
		batch, err := b.Build()
		require.NoError(t, err)
		return batch
	}
	good := record.Record{Timestamp: t0, Key: []byte("k"), Value: []byte("v")}
	noKey := record.Record{Timestamp: t0, Value: []byte("v")}
	old := record.Record{Timestamp: t0 - 1001, Key: []byte("k")}
	for _, codec := range []record.Codec{record.None, record.Zstd} {
		_, err := l.Append(build(codec, good, noKey, good, noKey), AppendOptions{})
		require.ErrorIs(t, err, ErrInvalidRecord)
		var refused *RecordsError
		require.ErrorAs(t, err, &refused)
		require.Len(t, refused.Records, 2)
		require.Equal(t, 1, refused.Records[0].Index)
		require.Equal(t, 3, refused.Records[1].Index)

		_, err = l.Append(build(codec, good, old), AppendOptions{})
		require.ErrorIs(t, err, ErrInvalidTimestamp)
		require.ErrorAs(t, err, &refused)
		require.Equal(t, 1, refused.Records[0].Index)
		mustAppend(t, l, build(codec, good, good))
	}
}

func TestAppendSetsLogAppendTime(t *testing.T) {
	clock := newTestClock()
	d := mustOpenAt(t, vfs.NewMem(), "/data", clock)
	c := DefaultConfig()
	c.LogAppendTime = true
	l := mustCreate(t, d, c)
	require.Equal(t, t0, mustAppend(t, l, batchOf(t, 2, 10, 5)).LogAppendTime)
	clock.ms.Add(-5000) // the clock goes back, the log does not
	require.Equal(t, t0, mustAppend(t, l, batchOf(t, 2, 10, 5)).LogAppendTime)
	clock.ms.Add(9000)
	require.Equal(t, t0+4000, mustAppend(t, l, batchOf(t, 2, 10, 5)).LogAppendTime)
	chunk, err := l.Read(2, 1<<20, farAway, true)
	require.NoError(t, err)
	defer chunk.Release()
	data, err := chunk.AppendTo(nil)
	require.NoError(t, err)
	batch, _, err := record.Next(data)
	require.NoError(t, err)
	require.NoError(t, batch.CheckCRC())
	require.Equal(t, record.LogAppendTime, batch.TimestampType())
	require.Equal(t, t0, batch.MaxTimestamp())
}

// produced is one append of a producer. base is the offset that a good or repeated one answers.
type produced struct {
	name  string
	pid   int64
	epoch int16
	seq   int32
	n     int
	base  int64
	dup   bool
	err   error
}

func walkProduced(t *testing.T, steps []produced) {
	t.Helper()
	l := mustCreate(t, mustOpen(t, vfs.NewMem(), "/data"), DefaultConfig())
	for i, step := range steps {
		name := fmt.Sprintf("%d %s", i, step.name)
		res, err := l.Append(producerBatch(t, step.pid, step.epoch, step.seq, step.n),
			AppendOptions{})
		if step.err != nil {
			require.ErrorIs(t, err, step.err, name)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, step.dup, res.Duplicate, name)
		require.Equal(t, step.base, res.BaseOffset, name)
		require.Equal(t, step.base+int64(step.n)-1, res.LastOffset, name)
	}
}

// Rules 1 and 2 of KIP-98 as Kafka has them: a repeat of one of the last five batches succeeds with
// its first offset (redpanda#3039), anything else that is not next is out of order.
func TestRule1And2_RepeatsInAWindowOfFiveAndNothingElse(t *testing.T) {
	walkProduced(t, []produced{
		{"unknown producer may start anywhere", 1, 0, 500, 2, 0, false, nil},
		{"next", 1, 0, 502, 1, 2, false, nil},
		{"gap", 1, 0, 504, 1, 0, false, ErrOutOfOrderSequence},
		{"repeat of the last", 1, 0, 502, 1, 2, true, nil},
		{"repeat of the one before", 1, 0, 500, 2, 0, true, nil},
		{"half a repeat is none", 1, 0, 500, 1, 0, false, ErrOutOfOrderSequence},
		{"nor is the other half", 1, 0, 501, 1, 0, false, ErrOutOfOrderSequence},
		{"next", 1, 0, 503, 3, 3, false, nil},
		{"next", 1, 0, 506, 1, 6, false, nil},
		{"next", 1, 0, 507, 1, 7, false, nil},
		{"fifth back is a repeat", 1, 0, 500, 2, 0, true, nil},
		{"next", 1, 0, 508, 1, 8, false, nil},
		{"sixth back is not known", 1, 0, 500, 2, 0, false, ErrOutOfOrderSequence},
	})
}

// Rules 4 and 5: an old epoch is fenced, a new one begins at sequence 0.
func TestRule4And5_EpochsFenceAndBeginAt0(t *testing.T) {
	walkProduced(t, []produced{
		{"unknown producer", 1, 0, 508, 9, 0, false, nil},
		{"new epoch begins at 0", 1, 1, 7, 1, 0, false, ErrOutOfOrderSequence},
		{"new epoch", 1, 1, 0, 2, 9, false, nil},
		{"old epoch is fenced", 1, 0, 517, 1, 0, false, ErrInvalidProducerEpoch},
		{"old epoch's repeat is fenced too", 1, 0, 508, 1, 0, false, ErrInvalidProducerEpoch},
		{"next in the new epoch", 1, 1, 2, 1, 11, false, nil},
		{"an epoch may be left out", 1, 5, 0, 1, 12, false, nil},
	})
}

// Rule 3: after 2^31-1 comes 0 (redpanda#4854).
func TestRule3_SequencesWrapTo0(t *testing.T) {
	const last = math.MaxInt32
	walkProduced(t, []produced{
		{"up to the last", 2, 0, last - 1, 2, 0, false, nil},
		{"0 cannot be left out", 2, 0, 1, 1, 0, false, ErrOutOfOrderSequence},
		{"wrap", 2, 0, 0, 1, 2, false, nil},
		{"next", 2, 0, 1, 1, 3, false, nil},
		{"repeat from before the wrap", 2, 0, last - 1, 2, 0, true, nil},
		{"another producer", 3, 0, last, 3, 4, false, nil},
		{"a batch may span the wrap", 3, 0, 2, 1, 7, false, nil},
		{"repeat of the spanning batch", 3, 0, last, 3, 4, true, nil},
	})
}

// The window of five must be there after a restart, clean or not, also when rolls wrote snapshots
// that keep one batch only (redpanda#3039: a retry after a leader's death).
func TestRule1_WindowOfFiveSurvivesRestart(t *testing.T) {
	for _, clean := range []bool{true, false} {
		t.Run(fmt.Sprintf("clean=%v", clean), func(t *testing.T) {
			fsys := vfs.NewMem()
			d := mustOpen(t, fsys, "/data")
			c := smallConfig()
			c.SegmentBytes = 200 // about two batches
			l := mustCreate(t, d, c)
			for seq := range int32(9) {
				mustAppend(t, l, producerBatch(t, 7, 3, seq, 1))
				mustAppend(t, l, producerBatch(t, 8, 0, seq, 1))
			}
			require.NoError(t, l.Sync(t.Context()))
			if clean {
				require.NoError(t, d.Close())
			} else {
				fsys = fsys.CrashClone(1)
			}
			d = mustOpen(t, fsys, "/data")
			l, _ = d.Log(tp0)
			require.NoError(t, l.Err())
			for seq := int32(4); seq < 9; seq++ {
				res := mustAppend(t, l, producerBatch(t, 7, 3, seq, 1))
				require.True(t, res.Duplicate, "sequence %d", seq)
				require.Equal(t, int64(seq)*2, res.BaseOffset)
			}
			_, err := l.Append(producerBatch(t, 7, 3, 3, 1), AppendOptions{})
			require.ErrorIs(t, err, ErrOutOfOrderSequence)
			require.False(t, mustAppend(t, l, producerBatch(t, 7, 3, 9, 1)).Duplicate)
		})
	}
}

// Rule 6: a producer without state, since it was idle for long, may go on with any sequence
// (redpanda#22670).
func TestRule6_ExpiredProducersStartAnywhere(t *testing.T) {
	clock := newTestClock()
	d := mustOpenAt(t, vfs.NewMem(), "/data", clock)
	l := mustCreate(t, d, DefaultConfig())
	mustAppend(t, l, producerBatch(t, 7, 3, 0, 1))
	clock.ms.Add(24*3600*1000 - 1)
	d.ApplyRetention()
	_, err := l.Append(producerBatch(t, 7, 3, 100, 1), AppendOptions{})
	require.ErrorIs(t, err, ErrOutOfOrderSequence)
	clock.ms.Add(1)
	d.ApplyRetention()
	mustAppend(t, l, producerBatch(t, 7, 3, 100, 1))
}

func TestAppendReplicatedKeepsOffsetsAndEpochs(t *testing.T) {
	vfstest.LeaveOut(t, "the copy of a compacted log, not itself compacted")
	d := mustOpen(t, vfs.NewMem(), "/data")
	l := mustCreate(t, d, smallConfig())
	batch := func(offset int64, epoch int32) []byte {
		b := record.Batch(batchOf(t, 2, 10, t0))
		b.SetBaseOffset(offset)
		b.SetLeaderEpoch(epoch)
		return b
	}
	run := append(append(batch(0, 1), batch(5, 1)...), batch(7, 4)...)
	res, err := l.Append(run, AppendOptions{Origin: Replicated})
	require.NoError(t, err)
	require.Equal(t, int64(0), res.BaseOffset)
	require.Equal(t, int64(8), res.LastOffset)
	require.Equal(t, int64(9), l.EndOffset())
	require.Equal(t, epochList{{1, 0}, {4, 7}}, *l.epochs.Load())
	_, err = l.Append(batch(8, 4), AppendOptions{Origin: Replicated})
	require.ErrorIs(t, err, ErrOffsetOrder)
	_, err = l.Append(batchOf(t, 1, 1, t0), AppendOptions{LeaderEpoch: 3})
	require.ErrorIs(t, err, ErrStaleEpoch)

	// Offset 3 lies in a hole: the next batch is read, as in a compacted log.
	chunk, err := l.Read(3, 1, farAway, true)
	require.NoError(t, err)
	require.Equal(t, int64(5), chunk.FirstOffset())
	chunk.Release()
}

func TestAppendFromCoordinatorTakesSeveralBatches(t *testing.T) {
	d := mustOpen(t, vfs.NewMem(), "/data")
	l := mustCreate(t, d, DefaultConfig())
	mustAppend(t, l, batchOf(t, 3, 10, t0))
	run := append(batchOf(t, 2, 10, t0), batchOf(t, 4, 10, t0)...)
	res, err := l.Append(run, AppendOptions{Origin: FromCoordinator})
	require.NoError(t, err)
	require.Equal(t, int64(3), res.BaseOffset)
	require.Equal(t, int64(8), res.LastOffset)
	require.Len(t, readAll(t, l, 1), 9)
}
