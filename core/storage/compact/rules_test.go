package compact

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
)

func TestRule23_KeepsTheLastRecordOfEachKey(t *testing.T) {
	f := newFixture(t, compactConfig())
	f.put("a=1", "b=1", "a=2")
	f.put("c=1")
	f.put("b=2", "d=1")
	f.seal()
	require.Equal(t, 1, f.clean())
	require.Equal(t, []string{"2 a=2", "3 c=1", "4 b=2", "5 d=1", "6 last-6=x"}, f.content())
	require.Equal(t, int64(6), f.log.CleanedOffset())
	require.Zero(t, f.clean(), "compacted again without reason")
}

func TestRule23_LooksAtCleanSegmentsToo(t *testing.T) {
	f := newFixture(t, compactConfig())
	f.put("a=1", "b=1")
	f.seal() // last-2
	f.clean()
	f.put("a=2")
	f.seal() // last-4
	f.clean()
	require.Equal(t, []string{"1 b=1", "2 last-2=x", "3 a=2", "4 last-4=x"}, f.content())
}

func TestRule23_LeavesTheActiveSegmentAlone(t *testing.T) {
	f := newFixture(t, compactConfig())
	f.put("a=1")
	f.roll()
	f.put("b=1", "a=2", "a=3")
	f.clean()
	require.Equal(t, []string{"0 a=1", "1 b=1", "2 a=2", "3 a=3"}, f.content())
}

func TestRule23_StaysBelowTheHighWatermark(t *testing.T) {
	f := newFixture(t, compactConfig())
	f.put("a=1", "a=2")
	f.roll()
	f.hold = true
	f.put("a=3", "a=4")
	f.roll()
	f.put("b=1")
	f.log.SetHighWatermark(3)
	f.clean()
	require.Equal(t, []string{"1 a=2", "2 a=3", "3 a=4", "4 b=1"}, f.content())
	require.Equal(t, int64(2), f.log.CleanedOffset())
}

func TestRule23_KeepsCompressionAndHeader(t *testing.T) {
	for codec := record.None; codec <= record.Zstd; codec++ {
		t.Run(codec.String(), func(t *testing.T) {
			f := newFixture(t, compactConfig())
			f.putBatch(record.BuilderOptions{Codec: codec, LeaderEpoch: 7}, "a=1", "b=1", "c=1", "d=1")
			f.put("b=2", "d=2")
			f.seal()
			f.clean()
			b := f.batches()[0]
			require.Equal(t, codec, b.Codec())
			require.Equal(t, int32(7), b.LeaderEpoch())
			require.Equal(t, int64(0), b.BaseOffset())
			require.Equal(t, int32(3), b.LastOffsetDelta(), "offsets covered")
			require.Equal(t, t0, b.BaseTimestamp())
			require.Equal(t, t0+2, b.MaxTimestamp(), "of what stays")
			records, err := b.Records(1 << 20)
			require.NoError(t, err)
			require.Len(t, records, 2)
			require.Equal(t, []int64{0, 2}, []int64{records[0].Offset, records[1].Offset})
			require.Equal(t, []int64{t0, t0 + 2},
				[]int64{records[0].Timestamp, records[1].Timestamp})
		})
	}
}

func TestRule23_KeepsRecordHeaders(t *testing.T) {
	f := newFixture(t, compactConfig())
	b := record.NewBuilder(record.BuilderOptions{})
	for i, key := range []string{"a", "b", "c"} {
		b.Append(record.Record{Timestamp: t0, Key: []byte(key), Value: []byte{},
			Headers: []record.Header{{Key: "n", Value: []byte{byte(i)}}, {Key: "null"}}})
	}
	batch, err := b.Build()
	require.NoError(t, err)
	f.append(batch)
	f.put("b=2")
	f.seal()
	f.clean()
	records, err := f.batches()[0].Records(1 << 20)
	require.NoError(t, err)
	require.Len(t, records, 2)
	for i, want := range []byte{0, 2} {
		require.Equal(t, []record.Header{{Key: "n", Value: []byte{want}}, {Key: "null"}},
			records[i].Headers)
		require.NotNil(t, records[i].Value, "empty is not null")
	}
}

func TestRule24_TombstoneGetsAHorizonThenGoes(t *testing.T) {
	f := newFixture(t, compactConfig())
	f.put("a=1", "b=1")
	f.put("a", "c=1")
	f.seal() // last-4
	f.clean()
	require.Equal(t, []string{"1 b=1", "2 a", "3 c=1", "4 last-4=x"}, f.content())
	b := f.batches()[1]
	require.True(t, b.HasDeleteHorizon())
	require.Equal(t, t0+60_000, b.BaseTimestamp(), "now + delete.retention.ms")
	records, err := b.Records(1 << 20)
	require.NoError(t, err)
	require.Equal(t, t0+2, records[0].Timestamp, "time of a record is relative to the horizon")
	require.Equal(t, t0+3, b.MaxTimestamp())

	f.clock.Add(59_999)
	f.seal() // last-5
	f.clean()
	require.Contains(t, f.content(), "2 a", "removed before the horizon")
	require.Equal(t, t0+60_000, f.batches()[1].BaseTimestamp(), "the horizon moved")

	f.clock.Add(1)
	f.seal()
	f.clean()
	require.Equal(t, []string{"1 b=1", "3 c=1", "4 last-4=x", "5 last-5=x", "6 last-6=x"},
		f.content())
	require.True(t, f.batches()[1].HasDeleteHorizon())
}

func TestRule24_BatchWithoutTombstonesHasNoHorizon(t *testing.T) {
	f := newFixture(t, compactConfig())
	f.put("a=1", "b=1")
	f.put("a=2")
	f.seal()
	f.clean()
	for _, b := range f.batches() {
		require.False(t, b.HasDeleteHorizon())
	}
}

func TestRule26_LastBatchOfALiveProducerStays(t *testing.T) {
	f := newFixture(t, compactConfig())
	o := record.BuilderOptions{Idempotent: true, ProducerID: 9, ProducerEpoch: 3, BaseSequence: 5}
	f.putBatch(o, "a=1", "b=1")
	o.BaseSequence = 7
	f.putBatch(o, "a=2", "b=2", "a=3")
	f.put("a=4", "b=4")
	f.seal() // last-7
	f.clean()
	require.Equal(t, []string{"2-4 empty", "5 a=4", "6 b=4", "7 last-7=x"}, f.content())
	b := f.batches()[0]
	require.Equal(t, int64(9), b.ProducerID())
	require.Equal(t, int16(3), b.ProducerEpoch())
	require.Equal(t, int32(7), b.BaseSequence())
	require.Equal(t, int32(9), b.LastSequence())

	// After a restart without the snapshots, the next sequence is still 10.
	require.NoError(t, f.dir.Close())
	for _, name := range f.files() {
		if strings.HasSuffix(name, ".snapshot") {
			require.NoError(t, f.fs.Remove("/data/"+tp0.String()+"/"+name))
		}
	}
	f.open()
	_, err := f.log.Append(producerBatch(t, 9, 3, 11), appendAsClient)
	require.Error(t, err)
	_, err = f.log.Append(producerBatch(t, 9, 3, 10), appendAsClient)
	require.NoError(t, err)
	f.log.SetHighWatermark(f.log.EndOffset())

	// Its next batch is the last one now, so that the empty one may go.
	f.seal()
	f.clean()
	require.NotContains(t, f.content(), "2-4 empty")
}

func TestRule26_LastBatchOfTheCleanedRangeStays(t *testing.T) {
	// redpanda#8698, #13609: a consumer waits for the last offset, which compaction took.
	f := newFixture(t, compactConfig())
	f.put("a=1")
	f.put("=no key")
	f.seal()
	f.clean()
	require.Equal(t, []string{"0 a=1", "1-1 empty", "2 last-2=x"}, f.content())
}

func TestRule27_EmptyBatchHasCountZero(t *testing.T) {
	// quix-streams#1017: who reads must get past offsets that are no more.
	for codec := record.None; codec <= record.Zstd; codec++ {
		f := newFixture(t, compactConfig())
		f.put("a=0")
		f.putBatch(record.BuilderOptions{Codec: codec, Transactional: true, Idempotent: true,
			ProducerID: 5, LeaderEpoch: 2}, "a=1", "a=2", "a=3")
		f.marker(5, record.ControlCommit)
		f.put("a=4")
		f.seal()
		f.clean()
		require.Equal(t, []string{"1-3 empty", "4 marker", "5 a=4", "6 last-6=x"}, f.content())
		b := f.batches()[0]
		require.Zero(t, b.Count())
		require.Equal(t, record.HeaderSize, b.Len())
		require.Equal(t, int32(2), b.LastOffsetDelta())
		require.Equal(t, record.None, b.Codec())
		require.Equal(t, record.NoTimestamp, b.BaseTimestamp())
		require.Equal(t, t0+3, b.MaxTimestamp())
		require.True(t, b.IsTransactional())
		require.Equal(t, int32(2), b.LeaderEpoch())
		for at := range int64(4) { // a read inside of the hole finds the empty batch
			c, err := f.log.Read(at, 1, 7, true)
			require.NoError(t, err)
			require.Equal(t, int64(4), c.NextOffset())
			c.Release()
		}
	}
}

func TestCompactedSegmentsBecomeOne(t *testing.T) {
	f := newFixture(t, compactConfig())
	for i := range 10 {
		f.put(fmt.Sprintf("k%d=%d", i%3, i))
		f.roll()
	}
	f.put("end=x")
	f.clean()
	require.Equal(t, []string{"7 k1=7", "8 k2=8", "9 k0=9", "10 end=x"}, f.content())
	var logs []string
	for _, name := range f.files() {
		if strings.HasSuffix(name, ".log") {
			logs = append(logs, name)
		}
	}
	require.Equal(t, []string{"00000000000000000000.log", "00000000000000000010.log"}, logs)

	c := compactConfig()
	c.SegmentBytes = 150 // two of 75 bytes
	f = newFixture(t, c)
	for i := range 6 {
		f.put(fmt.Sprintf("k%d=%d", i, i))
		f.roll()
	}
	f.put("end=x")
	f.clean()
	require.Len(t, f.log.CleanState().Segments, 4)
}

func TestRule27_EmptyBatchesHaveNoTime(t *testing.T) {
	f := newFixture(t, compactConfig())
	f.put("a=1")     // 0
	f.stamp += 500   // the latest record is the one that goes
	f.put("=no key") // 1

	f.stamp -= 500
	f.roll()
	f.put("end=x") // 2
	f.clean()
	require.Equal(t, []string{"0 a=1", "1-1 empty", "2 end=x"}, f.content())
	require.Equal(t, t0, f.log.CleanState().Segments[0].MaxTimestamp)
	found, ok, err := f.log.MaxTimestamp(2)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, int64(0), found.Offset)
	found, ok, err = f.log.OffsetForTimestamp(t0+400, 3)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, int64(2), found.Offset)
}
