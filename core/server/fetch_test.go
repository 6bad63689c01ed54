package server_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/core/record"
)

func fetchOne(w *wire, req *kmsg.FetchRequest) kmsg.FetchResponseTopicPartition {
	w.t.Helper()
	resp := ask[*kmsg.FetchResponse](w, req)
	require.Zero(w.t, resp.ErrorCode)
	require.Len(w.t, resp.Topics, 1)
	require.Len(w.t, resp.Topics[0].Partitions, 1)
	return resp.Topics[0].Partitions[0]
}

// fill appends n batches of one record each.
func fill(t testing.TB, w *wire, topic string, n int) {
	t.Helper()
	for range n {
		got := produceOne(w, produceRequest(9, topic, [16]byte{}, 0,
			batch(t, 1, record.BuilderOptions{})))
		require.Zero(t, got.ErrorCode)
	}
}

// oneBatch is the size of a batch that fill appends.
func oneBatch(t testing.TB) int32 { return int32(len(batch(t, 1, record.BuilderOptions{}))) }

func TestFetchAnswersEachFaultWithItsCode(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	id := newTopic(t, c, "t", 1, nil)
	w := dial(t, c)
	fill(t, w, "t", 3)
	for _, v := range []struct {
		name    string
		version int16
		change  func(*kmsg.FetchRequest)
		code    int16
	}{
		{"good", 12, func(*kmsg.FetchRequest) {}, 0},
		{"good by id", 13, func(*kmsg.FetchRequest) {}, 0},
		{"at the end", 12, func(r *kmsg.FetchRequest) { first(r).FetchOffset = 3 }, 0},
		{"beyond the end", 12, func(r *kmsg.FetchRequest) { first(r).FetchOffset = 4 }, 1},
		{"before the start", 12, func(r *kmsg.FetchRequest) { first(r).FetchOffset = -5 }, 1},
		{"unknown topic", 12, func(r *kmsg.FetchRequest) { r.Topics[0].Topic = "x" }, 3},
		{"unknown partition", 12, func(r *kmsg.FetchRequest) { first(r).Partition = 1 }, 3},
		{"unknown id", 13, func(r *kmsg.FetchRequest) { r.Topics[0].TopicID = [16]byte{3} }, 100},
		{"zero id", 13, func(r *kmsg.FetchRequest) { r.Topics[0].TopicID = [16]byte{} }, 100},
		{"right epoch", 12, func(r *kmsg.FetchRequest) { first(r).CurrentLeaderEpoch = 0 }, 0},
		{"newer epoch", 12, func(r *kmsg.FetchRequest) { first(r).CurrentLeaderEpoch = 9 }, 75},
		{"no follower", 12, func(r *kmsg.FetchRequest) { r.ReplicaID = 2 }, 6},
		{"no follower, by id", 18, func(r *kmsg.FetchRequest) { r.ReplicaState.ID = 2 }, 6},
		{"no follower, with an epoch", 12, func(r *kmsg.FetchRequest) {
			r.ReplicaID, first(r).CurrentLeaderEpoch = 2, 0
		}, 75},
	} {
		t.Run(v.name, func(t *testing.T) {
			req := fetchRequest(v.version, "t", id, 0, 0)
			v.change(req)
			got := fetchOne(dial(t, c), req)
			require.Equal(t, v.code, got.ErrorCode)
			if v.code != 0 {
				require.Empty(t, got.RecordBatches)
				require.Equal(t, int64(-1), got.HighWatermark)
				return
			}
			require.Equal(t, int64(3), got.HighWatermark)
			require.Equal(t, int64(3), got.LastStableOffset)
			require.Equal(t, int64(0), got.LogStartOffset)
			require.Nil(t, got.AbortedTransactions)
		})
	}
	// A restart after a crash raises the epoch, so that the old one is fenced.
	c.Crash()
	req := fetchRequest(16, "t", id, 0, 0)
	first(req).CurrentLeaderEpoch = 0
	got := fetchOne(dial(t, c), req)
	require.Equal(t, int16(74), got.ErrorCode)
	require.Equal(t, int32(1), got.CurrentLeader.LeaderID)
	require.Equal(t, int32(1), got.CurrentLeader.LeaderEpoch)
}

func first(r *kmsg.FetchRequest) *kmsg.FetchRequestTopicPartition {
	return &r.Topics[0].Partitions[0]
}

// TestKIP74_FetchGivesWholeBatchesWithinLimits: whole batches within the limits, but one at least
// (KIP-74); partitions that the limit leaves nothing for are answered empty, in order.
func TestKIP74_FetchGivesWholeBatchesWithinLimits(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	newTopic(t, c, "a", 1, nil)
	newTopic(t, c, "b", 1, nil)
	w := dial(t, c)
	fill(t, w, "a", 10)
	fill(t, w, "b", 10)
	size := oneBatch(t)
	for _, v := range []struct {
		name           string
		max, partition int32
		a, b           int // batches
	}{
		{"everything", 1 << 20, 1 << 20, 10, 10},
		{"one byte gives one batch", 1, 1 << 20, 1, 0},
		{"zero bytes give one batch", 0, 1 << 20, 1, 0},
		{"partition of one byte", 1 << 20, 1, 1, 0},
		{"a little over three", 3*size + 5, 1 << 20, 3, 0},
		{"first partition bounded", 8 * size, 4 * size, 4, 4},
		{"rest for the second", 6 * size, 4 * size, 4, 2},
	} {
		t.Run(v.name, func(t *testing.T) {
			req := fetchRequest(12, "a", [16]byte{}, 0, 0)
			req.MaxBytes = v.max
			first(req).PartitionMaxBytes = v.partition
			more := fetchRequest(12, "b", [16]byte{}, 0, 0)
			first(more).PartitionMaxBytes = v.partition
			req.Topics = append(req.Topics, more.Topics...)
			resp := ask[*kmsg.FetchResponse](w, req)
			require.Len(t, resp.Topics, 2)
			for i, want := range []int{v.a, v.b} {
				part := resp.Topics[i].Partitions[0]
				require.Len(t, part.RecordBatches, want*int(size))
				require.Equal(t, int64(10), part.HighWatermark)
			}
		})
	}
}

// TestFetchWithinABatch: the batch that holds the offset is sent whole.
func TestFetchWithinABatch(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	id := newTopic(t, c, "t", 1, nil)
	w := dial(t, c)
	produceOne(w, produceRequest(9, "t", id, 0, batch(t, 10, record.BuilderOptions{})))
	got := fetchOne(w, fetchRequest(12, "t", id, 0, 7))
	b, rest, err := record.Next(got.RecordBatches)
	require.NoError(t, err)
	require.Empty(t, rest)
	require.Equal(t, int64(0), b.BaseOffset())
	require.NoError(t, b.CheckCRC())
}

// TestFetchWaitsForEnoughBytes: an answer comes when there is enough, when the time is over, or at
// once when waiting makes no sense.
func TestFetchWaitsForEnoughBytes(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	id := newTopic(t, c, "t", 1, nil)
	w, producer := dial(t, c), dial(t, c)
	size := oneBatch(t)

	req := fetchRequest(12, "t", id, 0, 0)
	req.MaxWaitMillis, req.MinBytes = 1<<31-1, 3*size
	sent := w.send(req)
	fill(t, producer, "t", 3)
	got := w.receive(req, sent).(*kmsg.FetchResponse)
	require.Len(t, got.Topics[0].Partitions[0].RecordBatches, 3*int(size))

	req = fetchRequest(12, "t", id, 0, 3)
	req.MaxWaitMillis = 50
	start := time.Now()
	require.Empty(t, fetchOne(w, req).RecordBatches)
	require.GreaterOrEqual(t, time.Since(start), 50*time.Millisecond)

	req = fetchRequest(12, "t", id, 0, 2)
	req.MaxWaitMillis, req.MinBytes = 50, 1<<20
	start = time.Now()
	require.Len(t, fetchOne(w, req).RecordBatches, int(size), "what there is, when time is over")
	require.GreaterOrEqual(t, time.Since(start), 50*time.Millisecond)

	for name, change := range map[string]func(*kmsg.FetchRequest){
		"error":             func(r *kmsg.FetchRequest) { first(r).FetchOffset = 99 },
		"no topics":         func(r *kmsg.FetchRequest) { r.Topics = nil },
		"limit is too low":  func(r *kmsg.FetchRequest) { first(r).PartitionMaxBytes = 1 },
		"total limit is 0":  func(r *kmsg.FetchRequest) { r.MaxBytes = 0 },
		"min bytes is zero": func(r *kmsg.FetchRequest) { r.MinBytes, first(r).FetchOffset = 0, 3 },
	} {
		req := fetchRequest(12, "t", id, 0, 0)
		req.MaxWaitMillis, req.MinBytes = 1<<31-1, 1<<20
		change(req)
		t.Log("answered without a wait: ", name)
		ask[*kmsg.FetchResponse](w, req)
	}
}

// TestKIP595_FetchTellsWhereToTruncate: KIP-595. A client that has read an epoch which this log
// does not have, or further than it goes, is told where to truncate to, and gets no records.
func TestKIP595_FetchTellsWhereToTruncate(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	id := newTopic(t, c, "t", 1, nil)
	fill(t, dial(t, c), "t", 3)
	c.Crash() // epoch 1 starts at offset 3
	w := dial(t, c)
	fill(t, w, "t", 2)
	for _, v := range []struct {
		last       int32
		offset     int64
		epoch      int32
		end        int64
		divergence bool
		code       int16
	}{
		{last: 0, offset: 3},
		{last: 1, offset: 4},
		{last: -1, offset: 0},
		{last: 0, offset: 4, epoch: 0, end: 3, divergence: true},
		{last: 5, offset: 4, code: 1}, // later than all: there is no place to truncate to
	} {
		req := fetchRequest(12, "t", id, 0, v.offset)
		first(req).LastFetchedEpoch = v.last
		if v.divergence { // not worth waiting for more
			req.MaxWaitMillis, req.MinBytes = 15000, 1<<20
		}
		got := fetchOne(w, req)
		require.Equal(t, v.code, got.ErrorCode)
		if v.code != 0 {
			continue
		}
		if !v.divergence {
			require.NotEmpty(t, got.RecordBatches)
			require.Equal(t, int32(-1), got.DivergingEpoch.Epoch)
			continue
		}
		require.Empty(t, got.RecordBatches, "%+v", v)
		require.Equal(t, v.end, got.DivergingEpoch.EndOffset, "%+v", v)
		require.Equal(t, v.epoch, got.DivergingEpoch.Epoch, "%+v", v)
	}
}

func TestFetchReadCommitted(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	id := newTopic(t, c, "t", 1, nil)
	w := dial(t, c)
	fill(t, w, "t", 1)
	for version := int16(4); version <= 18; version++ {
		req := fetchRequest(version, "t", id, 0, 0)
		req.IsolationLevel = 1
		got := fetchOne(w, req)
		require.NotNil(t, got.AbortedTransactions)
		require.Empty(t, got.AbortedTransactions)
		require.NotEmpty(t, got.RecordBatches)
	}
}

// TestFetchLeavesWithItsClient: a parked fetch of a client that hangs up is not kept.
func TestFetchLeavesWithItsClient(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	id := newTopic(t, c, "t", 1, nil)
	w := dial(t, c)
	req := fetchRequest(12, "t", id, 0, 0)
	req.MaxWaitMillis = 1<<31 - 1
	w.send(req)
	require.NoError(t, w.c.Close())
	c.Stop() // goleak finds what stays behind, and Stop would wait for it
}

// TestCloseAnswersParkedFetch: a broker that closes answers fetches with what there is, rather
// than keeping them for their time.
func TestCloseAnswersParkedFetch(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	id := newTopic(t, c, "t", 1, nil)
	w := dial(t, c)
	fill(t, w, "t", 1)
	req := fetchRequest(12, "t", id, 0, 0)
	req.MaxWaitMillis, req.MinBytes = 1<<31-1, 1<<20
	sent := w.send(req)
	// What a later request of the connection does tells that the fetch was read.
	later := produceRequest(9, "t", id, 0, batch(t, 1, record.BuilderOptions{}))
	sentLater := w.send(later)
	seen := fetchRequest(12, "t", id, 0, 1)
	seen.MaxWaitMillis = 10000
	require.NotEmpty(t, fetchOne(dial(t, c), seen).RecordBatches)
	closed := make(chan error, 1)
	go func() { closed <- c.Broker().Close(t.Context()) }()
	got := w.receive(req, sent).(*kmsg.FetchResponse)
	require.Len(t, got.Topics[0].Partitions[0].RecordBatches, 2*int(oneBatch(t)))
	w.receive(later, sentLater)
	requireHangUp(t, w)
	require.NoError(t, <-closed)
}
