package server_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/coretest"
)

// Faults of other brokers, as their users reported them, that must not be here.

func bugWire(t *testing.T) (*coretest.Cluster, *groupWire) {
	t.Helper()
	c := coretest.Start(t, coretest.Options{})
	w := newGroupWire(t, answererOf(c))
	w.prepare()
	return c, w
}

// committed commits once the group's coordinator has loaded.
func (w *groupWire) committed(version int16, r *kmsg.OffsetCommitRequest) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		resp := w.ask(version, r).(*kmsg.OffsetCommitResponse)
		return resp.Topics[0].Partitions[0].ErrorCode == 0
	}, time.Minute, time.Millisecond)
}

// listed lists groups once all coordinators have loaded.
func (w *groupWire) listed() []kmsg.ListGroupsResponseGroup {
	w.t.Helper()
	var resp *kmsg.ListGroupsResponse
	require.Eventually(w.t, func() bool {
		resp = w.ask(4, kmsg.NewPtrListGroupsRequest()).(*kmsg.ListGroupsResponse)
		return resp.ErrorCode == 0
	}, time.Minute, time.Millisecond)
	return resp.Groups
}

// restarted waits until a group's coordinator has loaded.
func (w *groupWire) restarted(c *coretest.Cluster, group string) {
	w.t.Helper()
	c.Restart()
	require.Eventually(w.t, func() bool {
		resp := w.ask(7, w.fetch(7, group, nil)).(*kmsg.OffsetFetchResponse)
		require.Contains(w.t, []int16{0, 14}, resp.ErrorCode, "loaded, or loading")
		return resp.ErrorCode == 0
	}, time.Minute, time.Millisecond)
}

// https://github.com/redpanda-data/redpanda/issues/3403: OffsetCommit answers every partition that
// was asked for, good or not, in the order of the request.
func TestRedpanda3403_CommitAnswersAllInOrder(t *testing.T) {
	_, w := bugWire(t)
	type answer struct {
		topic     string
		partition int32
		code      int16
	}
	want := []answer{
		{wireTopic, 2, 0}, {wireTopic, 77, 3}, {wireTopic, 0, 0}, {"no-such", 1, 3},
		{"no-such", 0, 3}, {wireTopic, 1, 0}, {wireTopic, 2, 0},
	}
	plain := kmsg.NewPtrOffsetCommitRequest()
	plain.Group = "bugs"
	for _, a := range want {
		plain.Topics = append(plain.Topics,
			w.commit("bugs", "", -1, a.topic, a.partition, "").Topics...)
	}
	w.listed() // all have loaded
	for _, version := range []int16{2, 8, 9} {
		resp := w.ask(version, plain).(*kmsg.OffsetCommitResponse)
		var got []answer
		for _, topic := range resp.Topics {
			for _, p := range topic.Partitions {
				got = append(got, answer{topic.Topic, p.Partition, p.ErrorCode})
			}
		}
		require.Equal(t, want, got, "version %d", version)
	}
}

// https://github.com/redpanda-data/redpanda/issues/17260: the leader epoch of a commit outlives the
// broker, and is -1 where the client gave none.
func TestRedpanda17260_LeaderEpochOfCommitOutlivesBroker(t *testing.T) {
	c, w := bugWire(t)
	r := w.commit("bugs", "", -1, wireTopic, 0, "")
	r.Topics[0].Partitions[0].LeaderEpoch = 42
	w.committed(8, r)
	w.committed(5, w.commit("bugs", "", -1, wireTopic, 1, "")) // has no leader epoch
	for range 2 {
		resp := w.ask(7, w.fetch(7, "bugs", []string{wireTopic})).(*kmsg.OffsetFetchResponse)
		require.EqualValues(t, 42, resp.Topics[0].Partitions[0].LeaderEpoch)
		require.EqualValues(t, -1, resp.Topics[0].Partitions[1].LeaderEpoch)
		require.EqualValues(t, 5, resp.Topics[0].Partitions[1].Offset)
		w.restarted(c, "bugs")
	}
}

// https://github.com/redpanda-data/redpanda/issues/4900 and 4901: a group that was deleted stays
// deleted, and its offsets with it.
func TestRedpanda4900_DeletedGroupStaysDeleted(t *testing.T) {
	c, w := bugWire(t)
	w.committed(8, w.commit("bugs", "", -1, wireTopic, 0, ""))
	w.committed(8, w.commit("kept", "", -1, wireTopic, 0, ""))
	id := w.ask(3, joinRequest("bugs", "", "range=A")).(*kmsg.JoinGroupResponse).MemberID
	w.ask(5, syncRequest("bugs", id, 1, nil, id))
	w.ask(8, w.commit("bugs", id, 1, wireTopic, 1, ""))
	w.ask(5, leaveRequest("bugs", id))
	deleted := w.ask(2, deleteRequest("bugs")).(*kmsg.DeleteGroupsResponse)
	require.Zero(t, deleted.Groups[0].ErrorCode)
	for range 2 {
		listed := w.listed()
		require.Len(t, listed, 1)
		require.Equal(t, "kept", listed[0].Group)
		resp := w.ask(7, w.fetch(7, "bugs", nil)).(*kmsg.OffsetFetchResponse)
		require.Empty(t, resp.Topics)
		w.restarted(c, "bugs")
	}
}

// https://github.com/redpanda-data/redpanda/issues/3655: after a restart the coordinator of a group
// is where it was, and answers COORDINATOR_LOAD_IN_PROGRESS until it has loaded: never
// NOT_COORDINATOR, which clients answer by asking for the coordinator again, without end.
func TestRedpanda3655_CoordinatorIsStableOverRestart(t *testing.T) {
	c, w := bugWire(t)
	find := kmsg.NewPtrFindCoordinatorRequest()
	for i := range 64 {
		find.CoordinatorKeys = append(find.CoordinatorKeys, "group-"+string(rune('0'+i)))
	}
	before := w.ask(4, find).(*kmsg.FindCoordinatorResponse).Coordinators
	for _, key := range find.CoordinatorKeys {
		w.committed(8, w.commit(key, "", -1, wireTopic, 0, ""))
	}
	w.restarted(c, "group-0")
	require.Equal(t, before, w.ask(4, find).(*kmsg.FindCoordinatorResponse).Coordinators)
	for _, key := range find.CoordinatorKeys {
		require.Eventually(t, func() bool {
			resp := w.ask(7, w.fetch(7, key, nil)).(*kmsg.OffsetFetchResponse)
			require.NotEqualValues(t, 16, resp.ErrorCode)
			return resp.ErrorCode == 0 && len(resp.Topics) == 1
		}, time.Minute, time.Millisecond)
	}
}

// https://github.com/redpanda-data/redpanda/issues/6423: a transaction whose producer is gone is
// aborted when its time is up, also over a restart, and its offsets are stable again.
func TestRedpanda6423_UnstableOffsetsEndWithTheTimeout(t *testing.T) {
	c := coretest.Start(t, coretest.Options{Config: map[string]string{
		"transaction.abort.timed.out.transaction.cleanup.interval.ms": "50",
	}})
	w := &txnWire{groupWire: newGroupWire(t, answererOf(c))}
	w.prepare()
	w.prepareTransactions()
	w.committed(8, w.commit("bugs", "", -1, wireTopic, 0, ""))
	const timeout = 3 * time.Second
	r := kmsg.NewPtrInitProducerIDRequest()
	r.TransactionalID, r.TransactionTimeoutMillis = new("bugs"), int32(timeout.Milliseconds())
	require.Eventually(t, func() bool { // its coordinator may still be loading
		resp := w.ask(4, r).(*kmsg.InitProducerIDResponse)
		w.txnID, w.pid, w.epoch = "bugs", resp.ProducerID, resp.ProducerEpoch
		return resp.ErrorCode == 0
	}, time.Minute, 10*time.Millisecond)
	begun := time.Now()
	w.addOffsets("bugs")
	w.commitIn("", 4, w.txnCommit("bugs", wireTopic, 0, 77))
	w.restarted(c, "bugs")

	stable := func() (code int16, offset int64) {
		r := w.fetch(7, "bugs", []string{wireTopic})
		r.RequireStable = true
		resp := w.ask(7, r).(*kmsg.OffsetFetchResponse)
		if len(resp.Topics) == 0 {
			return resp.ErrorCode, 0
		}
		p := resp.Topics[0].Partitions[0]
		return p.ErrorCode, p.Offset
	}
	var code int16
	var offset int64
	require.Eventually(t, func() bool {
		code, offset = stable()
		return code != 14 // still loading
	}, time.Minute, time.Millisecond)
	if code != 88 { // pending before the restart is pending after it, unless the time was up
		require.GreaterOrEqual(t, time.Since(begun), timeout)
		require.Equal(t, []int64{0, 5}, []int64{int64(code), offset})
	}
	require.Eventually(t, func() bool {
		code, offset = stable()
		return code == 0 && offset == 5
	}, time.Minute, 20*time.Millisecond)
}
