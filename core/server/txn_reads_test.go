package server_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/core/record"
)

// One test for each public bug of reading transactions, named after it. What a Kafka answers to the
// same reads, step by step, is in TestReadsAnswerAsKafkaDoes.

// committedFetch is a read_committed fetch of topic t.
func committedFetch(id [16]byte, offset int64) *kmsg.FetchRequest {
	req := fetchRequest(12, "t", id, 0, offset)
	req.IsolationLevel = 1
	return req
}

// abortedOf lists the first offsets of an answer's aborted transactions.
func abortedOf(p kmsg.FetchResponseTopicPartition) []int64 {
	firsts := []int64{}
	for _, a := range p.AbortedTransactions {
		firsts = append(firsts, a.FirstOffset)
	}
	return firsts
}

// lastOf is the offset after the last record of an answer.
func lastOf(t *testing.T, p kmsg.FetchResponseTopicPartition) int64 {
	t.Helper()
	end := int64(-1)
	for rest := p.RecordBatches; len(rest) > 0; {
		b, next, err := record.Next(rest)
		require.NoError(t, err)
		end, rest = b.NextOffset(), next
	}
	return end
}

// TestBug_franzgo_b9b50cce_AbortedInOrderOfTheirFirstOffset: a client that walks the list beside
// the records delivers aborted ones when it is in the order of the markers.
func TestBug_franzgo_b9b50cce_AbortedInOrderOfTheirFirstOffset(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	id := newTopic(t, c, "t", 1, nil)
	first, second := newTxnProducer(dial(t, c), "first"), newTxnProducer(dial(t, c), "second")
	third := newTxnProducer(dial(t, c), "third")
	first.put("t", 0, 1)
	second.put("t", 0, 1)
	third.put("t", 0, 1)
	third.end(false, "t", 0, 4)
	second.end(false, "t", 0, 5)
	first.end(false, "t", 0, 6)
	got := fetchOne(dial(t, c), committedFetch(id, 0))
	require.Equal(t, []int64{0, 1, 2}, abortedOf(got))
	require.Equal(t, first.id, got.AbortedTransactions[0].ProducerID)
	require.Equal(t, third.id, got.AbortedTransactions[2].ProducerID)
}

// TestBug_AutoMQ754_755_redpanda7043_AbortedForEveryPart: whatever part of the log is read, all
// aborted transactions with records in it are listed, though their markers are far behind, in
// other segments.
func TestBug_AutoMQ754_755_redpanda7043_AbortedForEveryPart(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	small := "1024"
	id := newTopic(t, c, "t", 1, map[string]*string{"internal.segment.bytes": &small})
	p, plain := newTxnProducer(dial(t, c), "p"), dial(t, c)
	const each = 20
	for range each {
		p.put("t", 0, 5)
		fill(t, plain, "t", 3)
	}
	p.end(false, "t", 0, 8*each+1)
	fill(t, plain, "t", 30)
	c.Restart() // the indexes come from the disk now
	w := dial(t, c)
	for offset := int64(0); offset < 8*each+31; offset++ {
		req := committedFetch(id, offset)
		req.MaxBytes = 500
		got := fetchOne(w, req)
		require.Zero(t, got.ErrorCode)
		want := []int64{}
		if offset <= 8*each { // the marker's offset
			want = append(want, 0)
		}
		require.Equal(t, want, abortedOf(got), "from %d", offset)
	}
}

// TestBug_redpanda6630_ReadUncommittedHidesNothing: aborted and open ones are there for who wants
// all, without a list.
func TestBug_redpanda6630_ReadUncommittedHidesNothing(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	id := newTopic(t, c, "t", 1, nil)
	p := newTxnProducer(dial(t, c), "p")
	p.put("t", 0, 2)
	w := dial(t, c)
	require.Equal(t, int64(2), lastOf(t, fetchOne(w, fetchRequest(12, "t", id, 0, 0))), "open")
	p.end(false, "t", 0, 3)
	req := fetchRequest(12, "t", id, 0, 0)
	got := fetchOne(w, req)
	require.NotEmpty(t, got.RecordBatches)
	b, _, err := record.Next(got.RecordBatches)
	require.NoError(t, err)
	require.Equal(t, int64(2), b.NextOffset(), "aborted")
	require.Nil(t, got.AbortedTransactions)
}

// TestBug_redpanda3036_nisshi689_kop1856_LastStableOffsetIsExclusive: the first record of an open
// transaction is not read, the one before it is.
func TestBug_redpanda3036_nisshi689_kop1856_LastStableOffsetIsExclusive(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	id := newTopic(t, c, "t", 1, nil)
	w := dial(t, c)
	fill(t, w, "t", 3)
	p := newTxnProducer(dial(t, c), "p")
	p.put("t", 0, 1)
	fill(t, w, "t", 2)
	for offset := int64(0); offset <= 6; offset++ {
		got := fetchOne(w, committedFetch(id, offset))
		require.Zero(t, got.ErrorCode)
		require.Equal(t, int64(3), got.LastStableOffset)
		require.Equal(t, int64(6), got.HighWatermark)
		if offset < 3 {
			require.Equal(t, int64(3), lastOf(t, got))
		} else {
			require.Empty(t, got.RecordBatches)
		}
	}
}

// TestBug_redpanda3161_ListOffsetsKnowsIsolation: with read_committed the latest offset is the last
// stable one, and no time finds a record of an open transaction.
func TestBug_redpanda3161_ListOffsetsKnowsIsolation(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	newTopic(t, c, "t", 1, nil)
	w := dial(t, c)
	require.Zero(t, produceOne(w, produceRequest(9, "t", [16]byte{}, 0, stamped(t, 10))).ErrorCode)
	p := newTxnProducer(dial(t, c), "p")
	p.put("t", 0, 1)
	require.Equal(t, int64(2), listAt(w, -1, 0).offset)
	require.Equal(t, int64(1), listAt(w, -1, 1).offset)
	require.Equal(t, int64(1), listAt(w, 11, 0).offset)
	require.Equal(t, nothing, listAt(w, 11, 1))
	require.Equal(t, int64(1), listAt(w, -3, 0).offset)
	require.Equal(t, int64(0), listAt(w, -3, 1).offset)
	p.end(true, "t", 0, 3)
	require.Equal(t, int64(3), listAt(w, -1, 1).offset)
	require.Equal(t, int64(1), listAt(w, 11, 1).offset)
}

// TestFetchReadCommittedWaitsForTheMarker: new records of an open transaction do not end the wait
// of a read_committed fetch, its marker does. So it is with a session too.
func TestFetchReadCommittedWaitsForTheMarker(t *testing.T) {
	for _, session := range []bool{false, true} {
		c := coretest.Start(t, coretest.Options{})
		id := newTopic(t, c, "t", 1, nil)
		w, p := dial(t, c), newTxnProducer(dial(t, c), "p")
		p.put("t", 0, 1)
		req := committedFetch(id, 0)
		if session {
			req.SessionEpoch = 0
			req.SessionID = ask[*kmsg.FetchResponse](w, req).SessionID
			req.SessionEpoch, req.Topics = 1, nil
		}
		req.MaxWaitMillis = 1<<31 - 1
		sent := w.send(req)
		p.put("t", 0, 1)
		p.end(true, "t", 0, 3)
		got := w.receive(req, sent).(*kmsg.FetchResponse)
		part := got.Topics[0].Partitions[0]
		require.Equal(t, int64(3), part.LastStableOffset, "not before the marker")
		require.NotEmpty(t, part.RecordBatches)
		require.Empty(t, part.AbortedTransactions)
	}
}

// TestKIP227_SessionIsToldOfTheLastStableOffset: when it moves and nothing else does.
func TestKIP227_SessionIsToldOfTheLastStableOffset(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	id := newTopic(t, c, "t", 1, nil)
	w, p := dial(t, c), newTxnProducer(dial(t, c), "p")
	p.put("t", 0, 1)
	begin := sessionFetch(12, id, 0, 0, at{0, 1})
	begin.IsolationLevel = 1
	resp := ask[*kmsg.FetchResponse](w, begin)
	require.Equal(t, int64(0), resp.Topics[0].Partitions[0].LastStableOffset)
	p.end(true, "t", 0, 2)
	next := sessionFetch(12, id, resp.SessionID, 1, at{0, 2})
	next.IsolationLevel = 1
	resp = ask[*kmsg.FetchResponse](w, next)
	require.Equal(t, []int32{0}, told(resp))
	require.Equal(t, int64(2), resp.Topics[0].Partitions[0].LastStableOffset)
}
