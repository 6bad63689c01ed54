package server_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/coretest"
)

// One test for each public bug of a broker that ListOffsets and OffsetForLeaderEpoch show, named
// after it. Answers to every special in every version: TestReadsAnswerAsKafkaDoes.

// found is what ListOffsets says of a partition.
type found struct {
	code      int16
	timestamp int64
	offset    int64
	epoch     int32
}

// listAt asks ListOffsets v11 about partition 0 of topic t.
func listAt(w *wire, timestamp int64, iso int8) found {
	w.t.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	req.SetVersion(11)
	req.ReplicaID, req.IsolationLevel, req.TimeoutMillis = -1, iso, 1000
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = "t"
	rp := kmsg.NewListOffsetsRequestTopicPartition()
	rp.Timestamp = timestamp
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	got := ask[*kmsg.ListOffsetsResponse](w, req).Topics[0].Partitions[0]
	return found{got.ErrorCode, got.Timestamp, got.Offset, got.LeaderEpoch}
}

// nothing is the answer that says so.
var nothing = found{timestamp: -1, offset: -1, epoch: -1}

// TestBug_redpanda4308_4322_kop171_NotFoundIsMinusOne: a found offset with a negative timestamp, or
// the other way round, is an exception in a Java consumer. Not found is -1, -1, -1 and no error.
func TestBug_redpanda4308_4322_kop171_NotFoundIsMinusOne(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	newTopic(t, c, "t", 1, nil)
	w := dial(t, c)
	require.Equal(t, nothing, listAt(w, 0, 0), "empty log")
	require.Equal(t, nothing, listAt(w, -3, 0), "empty log has no largest time")
	got := produceOne(w, produceRequest(9, "t", [16]byte{}, 0, stamped(t, 10, 20)))
	require.Zero(t, got.ErrorCode)
	require.Equal(t, nothing, listAt(w, 21, 0), "later than all")
	require.Equal(t, nothing, listAt(w, 1<<62, 0))
	for ts := int64(0); ts <= 20; ts++ {
		if got := listAt(w, ts, 0); got.offset >= 0 {
			require.GreaterOrEqual(t, got.timestamp, ts)
		}
	}
}

// TestBug_redpanda6604_18112_16612_TimestampIsSearchedPerRecord: the first record at or after the
// time, within its batch, though times are out of order; an empty log ends where it starts.
func TestBug_redpanda6604_18112_16612_TimestampIsSearchedPerRecord(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	newTopic(t, c, "t", 1, nil)
	w := dial(t, c)
	require.Equal(t, found{timestamp: -1}, listAt(w, -1, 0), "the end of an empty log is 0")
	require.Equal(t, found{timestamp: -1}, listAt(w, -2, 0))
	for _, ts := range [][]int64{{100, 105, 101}, {300}, {200, 290, 310}, {50}} {
		got := produceOne(w, produceRequest(9, "t", [16]byte{}, 0, stamped(t, ts...)))
		require.Zero(t, got.ErrorCode)
	}
	all := []int64{100, 105, 101, 300, 200, 290, 310, 50}
	for ts := int64(0); ts <= 311; ts++ {
		want := nothing
		for offset, at := range all {
			if at >= ts {
				want = found{timestamp: at, offset: int64(offset)}
				break
			}
		}
		require.Equal(t, want, listAt(w, ts, 0), "time %d", ts)
	}
	deleteBefore(w, "t", map[int32]int64{0: 8})
	require.Equal(t, found{timestamp: -1, offset: 8}, listAt(w, -1, 0))
	require.Equal(t, found{timestamp: -1, offset: 8}, listAt(w, -2, 0))
	require.Equal(t, nothing, listAt(w, 0, 0))
}

// TestBug_redpanda17829_MaxTimestamp: the record with the largest time (KIP-734), the first one if
// there are several.
func TestBug_redpanda17829_MaxTimestamp(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	newTopic(t, c, "t", 1, nil)
	w := dial(t, c)
	for _, ts := range [][]int64{{100, 400, 101}, {400}, {200}} {
		got := produceOne(w, produceRequest(9, "t", [16]byte{}, 0, stamped(t, ts...)))
		require.Zero(t, got.ErrorCode)
	}
	require.Equal(t, found{timestamp: 400, offset: 1}, listAt(w, -3, 0))
}

// epochEnd asks OffsetForLeaderEpoch v4 about partition 0 of topic t.
func epochEnd(w *wire, epoch, current int32) kmsg.OffsetForLeaderEpochResponseTopicPartition {
	w.t.Helper()
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.SetVersion(4)
	req.ReplicaID = -1
	rt := kmsg.NewOffsetForLeaderEpochRequestTopic()
	rt.Topic = "t"
	rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	rp.LeaderEpoch, rp.CurrentLeaderEpoch = epoch, current
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return ask[*kmsg.OffsetForLeaderEpochResponse](w, req).Topics[0].Partitions[0]
}

// TestRule5_7_EpochEnds: where epochs end. Epochs 1 and 3 have records, 2 has none, 0 was deleted.
func TestRule5_7_EpochEnds(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	newTopic(t, c, "t", 1, nil)
	fill(t, dial(t, c), "t", 3) // epoch 0: offsets 0 to 2
	c.Crash()
	w := dial(t, c)
	fill(t, w, "t", 2) // epoch 1: 3 and 4
	deleteBefore(w, "t", map[int32]int64{0: 3})
	c.Crash() // epoch 2: nothing
	c.Crash()
	w = dial(t, c)
	fill(t, w, "t", 4) // epoch 3: 5 to 8
	for _, v := range []struct {
		name       string
		epoch      int32
		foundEpoch int32
		end        int64
	}{
		{"the latest one: the end of the log", 3, 3, 9},
		{"one before", 1, 1, 5},
		{"one without records: the one before it", 2, 1, 5},
		{"later than all", 4, -1, -1},
		{"none", -1, -1, -1},
	} {
		got := epochEnd(w, v.epoch, -1)
		require.Zero(t, got.ErrorCode, v.name)
		require.Equal(t, v.foundEpoch, got.LeaderEpoch, v.name)
		require.Equal(t, v.end, got.EndOffset, v.name)
	}
	require.Equal(t, int16(74), epochEnd(w, 1, 2).ErrorCode)
	require.Equal(t, int16(75), epochEnd(w, 1, 4).ErrorCode)
	require.Zero(t, epochEnd(w, 1, 3).ErrorCode)
}

// TestBug_redpanda11864_FoundEpochIsTold: not the current one, for which a consumer would take the
// end of the old one.
func TestBug_redpanda11864_FoundEpochIsTold(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	newTopic(t, c, "t", 1, nil)
	fill(t, dial(t, c), "t", 3)
	c.Crash()
	got := epochEnd(dial(t, c), 0, -1)
	require.Equal(t, int32(0), got.LeaderEpoch)
	require.Equal(t, int64(3), got.EndOffset)
}

// TestBug_redpanda5435_EmptyEpochsEnd: an epoch that wrote nothing ends where it began, which is
// not before the records of the one before it.
func TestBug_redpanda5435_EmptyEpochsEnd(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	newTopic(t, c, "t", 1, nil)
	fill(t, dial(t, c), "t", 3)
	for range 3 {
		c.Crash()
	}
	w := dial(t, c)
	for epoch := int32(0); epoch <= 3; epoch++ {
		require.Equal(t, int64(3), epochEnd(w, epoch, -1).EndOffset, "epoch %d", epoch)
	}
}

// TestBug_AutoMQ2863_EpochOfTheLog: the end of the latest epoch is the end of the log also when the
// start of the log has moved into it.
func TestBug_AutoMQ2863_EpochOfTheLog(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	newTopic(t, c, "t", 1, nil)
	w := dial(t, c)
	fill(t, w, "t", 5)
	deleteBefore(w, "t", map[int32]int64{0: 5})
	got := epochEnd(w, 0, -1)
	require.Equal(t, int32(0), got.LeaderEpoch)
	require.Equal(t, int64(5), got.EndOffset)
	c.Crash()
	w = dial(t, c)
	got = epochEnd(w, 0, -1)
	require.Equal(t, int64(5), got.EndOffset)
	got = epochEnd(w, 1, -1)
	require.Equal(t, int64(5), got.EndOffset)
}
