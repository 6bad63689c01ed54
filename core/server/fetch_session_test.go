package server_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/core/record"
)

// at is one partition and the offset wanted of it.
type at struct {
	partition int32
	offset    int64
}

// sessionFetch is a fetch of session (id, epoch) that names those partitions of topic t.
func sessionFetch(version int16, id [16]byte, session, epoch int32, parts ...at,
) *kmsg.FetchRequest {
	req := fetchRequest(version, "t", id, 0, 0)
	req.SessionID, req.SessionEpoch = session, epoch
	rt := &req.Topics[0]
	model := rt.Partitions[0]
	rt.Partitions = nil
	for _, p := range parts {
		model.Partition, model.FetchOffset = p.partition, p.offset
		rt.Partitions = append(rt.Partitions, model)
	}
	if len(parts) == 0 {
		req.Topics = nil
	}
	return req
}

// told lists the partitions of an answer in their order.
func told(resp *kmsg.FetchResponse) []int32 {
	var got []int32
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			got = append(got, p.Partition)
		}
	}
	return got
}

// putOne appends a batch of one record to a partition of t.
func putOne(t testing.TB, w *wire, partition int32) {
	t.Helper()
	got := produceOne(w, produceRequest(9, "t", [16]byte{}, partition,
		batch(t, 1, record.BuilderOptions{})))
	require.Zero(t, got.ErrorCode)
	// The last stable offset follows the high watermark a moment later, and a session tells of it.
	require.Eventually(t, func() bool {
		req := kmsg.NewPtrListOffsetsRequest()
		req.SetVersion(7)
		req.ReplicaID, req.IsolationLevel = -1, 1
		rt := kmsg.NewListOffsetsRequestTopic()
		rt.Topic = "t"
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition, rp.Timestamp = partition, -1
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		resp := ask[*kmsg.ListOffsetsResponse](w, req)
		return resp.Topics[0].Partitions[0].Offset > got.BaseOffset
	}, time.Minute, time.Millisecond)
}

// TestKIP227_SessionTellsOnlyWhatChanged is the life of a session: begun with all partitions, then
// asked and answered in differences, then closed. The steps and answers are those of Kafka 4.4.0.
func TestKIP227_SessionTellsOnlyWhatChanged(t *testing.T) {
	for _, version := range []int16{7, 12, 13, 18} {
		c := coretest.Start(t, coretest.Options{})
		id := newTopic(t, c, "t", 3, nil)
		w, producer := dial(t, c), dial(t, c)
		putOne(t, producer, 1)
		fetch := func(session, epoch int32, parts ...at) *kmsg.FetchResponse {
			return ask[*kmsg.FetchResponse](w, sessionFetch(version, id, session, epoch, parts...))
		}
		resp := fetch(0, 0, at{0, 0}, at{1, 0}, at{2, 0})
		require.Zero(t, resp.ErrorCode)
		require.Positive(t, resp.SessionID)
		require.Equal(t, []int32{0, 1, 2}, told(resp), "a new session is told all")
		s := resp.SessionID

		resp = fetch(s, 1, at{1, 1})
		require.Zero(t, resp.ErrorCode)
		require.Equal(t, s, resp.SessionID)
		require.Empty(t, told(resp), "nothing has changed")

		putOne(t, producer, 2)
		resp = fetch(s, 2)
		require.Equal(t, []int32{2}, told(resp), "partition 2 has data")
		require.NotEmpty(t, resp.Topics[0].Partitions[0].RecordBatches)

		resp = fetch(s, 3, at{2, 1}, at{0, 5})
		require.Equal(t, []int32{0}, told(resp), "an error is told")
		require.Equal(t, int16(1), resp.Topics[0].Partitions[0].ErrorCode)
		require.Equal(t, []int32{0}, told(fetch(s, 4)), "each time")
		require.Equal(t, []int32{0}, told(fetch(s, 5, at{0, 0})), "and when it is over")
		require.Empty(t, told(fetch(s, 6)))

		putOne(t, producer, 1)
		drop := sessionFetch(version, id, s, 7)
		forgotten := kmsg.NewFetchRequestForgottenTopic()
		forgotten.Topic, forgotten.TopicID, forgotten.Partitions = "t", id, []int32{1}
		drop.ForgottenTopics = append(drop.ForgottenTopics, forgotten)
		require.Empty(t, told(ask[*kmsg.FetchResponse](w, drop)), "partition 1 was forgotten")
		require.Equal(t, []int32{1}, told(fetch(s, 8, at{1, 1})), "and added again")

		resp = fetch(s, -1, at{2, 0})
		require.Equal(t, []int32{2}, told(resp), "closed: answered as without a session")
		require.Zero(t, resp.SessionID)
		require.Equal(t, int16(70), fetch(s, 9).ErrorCode, "the session is gone")
		c.Stop()
	}
}

// TestKIP227_SessionIsToldOfOffsetsThatMove: the high watermark beyond the client's limit, and the
// start of the log.
func TestKIP227_SessionIsToldOfOffsetsThatMove(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	id := newTopic(t, c, "t", 1, nil)
	w, producer := dial(t, c), dial(t, c)
	putOne(t, producer, 0)
	begin := sessionFetch(12, id, 0, 0, at{0, 1})
	s := ask[*kmsg.FetchResponse](w, begin).SessionID
	del := kmsg.NewPtrDeleteRecordsRequest()
	del.TimeoutMillis = 5000
	topic := kmsg.NewDeleteRecordsRequestTopic()
	part := kmsg.NewDeleteRecordsRequestTopicPartition()
	part.Partition, part.Offset = 0, 1
	topic.Topic, topic.Partitions = "t", append(topic.Partitions, part)
	del.Topics = append(del.Topics, topic)
	ask[*kmsg.DeleteRecordsResponse](producer, del)
	resp := ask[*kmsg.FetchResponse](w, sessionFetch(12, id, s, 1))
	require.Equal(t, []int32{0}, told(resp))
	require.Equal(t, int64(1), resp.Topics[0].Partitions[0].LogStartOffset)
	require.Empty(t, resp.Topics[0].Partitions[0].RecordBatches)
	require.Empty(t, told(ask[*kmsg.FetchResponse](w, sessionFetch(12, id, s, 2))))
}

// TestKIP227_SessionErrors: 70 for an id that nobody has, 71 for a wrong epoch, 106 when topics
// are named in the other way.
func TestKIP227_SessionErrors(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	id := newTopic(t, c, "t", 1, nil)
	w := dial(t, c)
	fetch := func(version int16, session, epoch int32, parts ...at) *kmsg.FetchResponse {
		return ask[*kmsg.FetchResponse](w, sessionFetch(version, id, session, epoch, parts...))
	}
	byName := fetch(12, 0, 0, at{0, 0}).SessionID
	byID := fetch(13, 0, 0, at{0, 0}).SessionID
	require.NotEqual(t, byName, byID)
	for _, v := range []struct {
		name           string
		version        int16
		session, epoch int32
		code           int16
	}{
		{"no id, but an epoch", 12, 0, 3, 70},
		{"nobody's id", 12, byName ^ 1, 1, 70},
		{"negative id", 12, -7, 1, 70},
		{"epoch too early", 12, byName, 2, 71},
		{"epoch below all", 12, byName, -2, 71},
		{"by id now", 13, byName, 1, 106},
		{"by name now", 12, byID, 1, 106},
		{"right", 12, byName, 1, 0},
		{"the same again", 12, byName, 1, 71},
		{"right", 12, byName, 2, 0},
		{"close what is not there", 12, byName ^ 1, -1, 0},
	} {
		resp := fetch(v.version, v.session, v.epoch)
		require.Equal(t, v.code, resp.ErrorCode, v.name)
		if v.code != 0 {
			require.Zero(t, resp.SessionID, v.name)
			require.Empty(t, resp.Topics)
		}
	}
	again := fetch(12, byName, 0, at{0, 0})
	require.Positive(t, again.SessionID, "a new session instead of the old one")
	require.Equal(t, int16(70), fetch(12, byName, 3).ErrorCode)
}

// TestKIP227_SessionWithNothingLeftEnds: forgetting the last partition closes the session.
func TestKIP227_SessionWithNothingLeftEnds(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	id := newTopic(t, c, "t", 1, nil)
	w := dial(t, c)
	s := ask[*kmsg.FetchResponse](w, sessionFetch(13, id, 0, 0, at{0, 0})).SessionID
	drop := sessionFetch(13, id, s, 1)
	forgotten := kmsg.NewFetchRequestForgottenTopic()
	forgotten.TopicID, forgotten.Partitions = id, []int32{0, 77}
	drop.ForgottenTopics = append(drop.ForgottenTopics, forgotten)
	resp := ask[*kmsg.FetchResponse](w, drop)
	require.Zero(t, resp.ErrorCode)
	require.Zero(t, resp.SessionID)
	require.Equal(t, int16(70),
		ask[*kmsg.FetchResponse](w, sessionFetch(13, id, s, 2)).ErrorCode)
}

// TestKIP227_PartitionsTakeTurns: with a limit of one batch, those that gave records stand at the
// end, so that no partition starves.
func TestKIP227_PartitionsTakeTurns(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	id := newTopic(t, c, "t", 3, nil)
	w := dial(t, c)
	for partition := range int32(3) {
		for range 4 {
			putOne(t, w, partition)
		}
	}
	begin := sessionFetch(12, id, 0, 0, at{0, 0}, at{1, 0}, at{2, 0})
	begin.MaxBytes = 1
	s := ask[*kmsg.FetchResponse](w, begin).SessionID
	next := map[int32]int64{0: 1}
	moved := []at{{0, 1}}
	var order []int32
	for epoch := int32(1); epoch <= 6; epoch++ {
		req := sessionFetch(12, id, s, epoch, moved...)
		req.MaxBytes = 1
		resp := ask[*kmsg.FetchResponse](w, req)
		require.Len(t, told(resp), 1)
		p := told(resp)[0]
		order = append(order, p)
		next[p]++
		moved = []at{{p, next[p]}}
	}
	require.Equal(t, []int32{0, 1, 2, 0, 1, 2}, order)
}

// TestKIP227_SessionWaitsLikeAnyFetch: an incremental fetch that names nothing waits for data of
// all partitions of its session.
func TestKIP227_SessionWaitsLikeAnyFetch(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	id := newTopic(t, c, "t", 3, nil)
	w, producer := dial(t, c), dial(t, c)
	s := ask[*kmsg.FetchResponse](w,
		sessionFetch(12, id, 0, 0, at{0, 0}, at{1, 0}, at{2, 0})).SessionID
	req := sessionFetch(12, id, s, 1)
	req.MaxWaitMillis = 1<<31 - 1
	sent := w.send(req)
	putOne(t, producer, 2)
	require.Equal(t, []int32{2}, told(w.receive(req, sent).(*kmsg.FetchResponse)))
	// The last stable offset follows the high watermark and may be told after it.
	epoch := int32(1)
	var start time.Time
	require.Eventually(t, func() bool {
		epoch++
		req = sessionFetch(12, id, s, epoch, at{2, 1})
		req.MaxWaitMillis = 50
		start = time.Now()
		return len(told(ask[*kmsg.FetchResponse](w, req))) == 0
	}, time.Minute, time.Millisecond)
	require.GreaterOrEqual(t, time.Since(start), 50*time.Millisecond)
}

// TestKIP227_PipelinedRequestsOfASession: the next request of a connection ends the wait of the one
// before it; from another connection it makes that one's answer an error.
func TestKIP227_PipelinedRequestsOfASession(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	id := newTopic(t, c, "t", 1, nil)
	w := dial(t, c)
	s := ask[*kmsg.FetchResponse](w, sessionFetch(12, id, 0, 0, at{0, 0})).SessionID
	long := sessionFetch(12, id, s, 1)
	long.MaxWaitMillis = 1<<31 - 1
	next := sessionFetch(12, id, s, 2)
	first, second := w.send(long), w.send(next)
	require.Zero(t, w.receive(long, first).(*kmsg.FetchResponse).ErrorCode)
	require.Zero(t, w.receive(next, second).(*kmsg.FetchResponse).ErrorCode)

	long.SessionEpoch, long.MaxWaitMillis = 3, 1<<31-1
	first = w.send(long)
	// The session is busy once the other connection's epoch is right.
	other := dial(t, c)
	require.Eventually(t, func() bool {
		req := sessionFetch(12, id, s, 4)
		return ask[*kmsg.FetchResponse](other, req).ErrorCode == 0
	}, time.Minute, time.Millisecond)
	putOne(t, other, 0)
	resp := w.receive(long, first).(*kmsg.FetchResponse)
	require.Equal(t, int16(71), resp.ErrorCode)
	require.Equal(t, s, resp.SessionID)
	require.Empty(t, resp.Topics)
}

// TestKIP227_UnknownPartitionsAreKept: a topic that is made later is found by the session.
func TestKIP227_UnknownPartitionsAreKept(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	w := dial(t, c)
	resp := ask[*kmsg.FetchResponse](w, sessionFetch(12, [16]byte{}, 0, 0, at{0, 0}))
	require.Equal(t, int16(3), resp.Topics[0].Partitions[0].ErrorCode)
	s := resp.SessionID
	require.Positive(t, s)
	newTopic(t, c, "t", 1, nil)
	resp = ask[*kmsg.FetchResponse](w, sessionFetch(12, [16]byte{}, s, 1))
	require.Equal(t, "t", resp.Topics[0].Topic)
	require.Zero(t, resp.Topics[0].Partitions[0].ErrorCode)
	require.Equal(t, int64(0), resp.Topics[0].Partitions[0].HighWatermark)
}

// TestFetchSessionSlotsCanBeZero: every fetch is then answered in full.
func TestFetchSessionSlotsCanBeZero(t *testing.T) {
	c := coretest.Start(t, coretest.Options{
		Config: map[string]string{"max.incremental.fetch.session.cache.slots": "0"},
	})
	id := newTopic(t, c, "t", 1, nil)
	resp := ask[*kmsg.FetchResponse](dial(t, c), sessionFetch(12, id, 0, 0, at{0, 0}))
	require.Zero(t, resp.ErrorCode)
	require.Zero(t, resp.SessionID)
	require.Equal(t, []int32{0}, told(resp))
}
