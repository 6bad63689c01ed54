package server_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/vfs"
)

// One test for each public bug of a broker that producing, metadata and administration show, named
// after it. Others are in fetch_bugs_test.go, offsets_bugs_test.go, groups_bugs_test.go and
// txn_reads_test.go.

// idempotent is a Produce v9 of one batch of two records by producer 9.
func idempotent(t *testing.T, sequence int32) *kmsg.ProduceRequest {
	return produceRequest(9, "t", [16]byte{}, 0, batch(t, 2, record.BuilderOptions{
		Idempotent: true, ProducerID: 9, ProducerEpoch: 1, BaseSequence: sequence,
	}))
}

// TestBug_redpanda3826_RequestsInFlightKeepTheirOrder: a producer with several requests in flight
// gets no OUT_OF_ORDER_SEQUENCE_NUMBER, since they reach the log in the order of the connection.
func TestBug_redpanda3826_RequestsInFlightKeepTheirOrder(t *testing.T) {
	disk := vfs.NewFault(vfs.NewMem())
	c := coretest.Start(t, coretest.Options{FS: disk})
	newTopic(t, c, "t", 1, nil)
	w := dial(t, c)
	disk.Inject(vfs.Rule{Op: vfs.OpSync, Delay: 5 * time.Millisecond})
	var sent []int32
	for i := range int32(40) {
		sent = append(sent, w.send(idempotent(t, 2*i)))
	}
	for i, id := range sent {
		got := w.receive(idempotent(t, 0), id).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		require.Zero(t, got.ErrorCode, "request %d", i)
		require.Equal(t, int64(2*i), got.BaseOffset)
	}
}

// TestBug_redpanda3039_3038_4261_RepeatAfterACrash: what the producer did not hear of before the
// broker died is written once, and it goes on where it was, in the next leader epoch.
func TestBug_redpanda3039_3038_4261_RepeatAfterACrash(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	newTopic(t, c, "t", 1, nil)
	w := dial(t, c)
	for i := range int32(6) {
		require.Zero(t, produceOne(w, idempotent(t, 2*i)).ErrorCode)
	}
	for range 2 {
		c.Crash()
		w = dial(t, c)
		for i := int32(1); i < 6; i++ { // the last five
			got := produceOne(w, idempotent(t, 2*i))
			require.Zero(t, got.ErrorCode)
			require.Equal(t, int64(2*i), got.BaseOffset)
		}
		require.Equal(t, int16(45), produceOne(w, idempotent(t, 14)).ErrorCode, "a gap")
	}
	require.Equal(t, int64(12), produceOne(w, idempotent(t, 12)).BaseOffset)
	require.Equal(t, int64(14), listAt(w, -1, 0).offset, "nothing twice")
}

// TestBug_kfake1229_1230_LeaderEpochOfTheClientIsIgnored: sarama sends 0, others -1; the log has
// the broker's.
func TestBug_kfake1229_1230_LeaderEpochOfTheClientIsIgnored(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	newTopic(t, c, "t", 1, nil)
	c.Crash()
	c.Crash() // epoch 2
	w := dial(t, c)
	for i, epoch := range []int32{-1, 0, 1, 2, 77} {
		records := record.Batch(batch(t, 1, record.BuilderOptions{}))
		records.SetLeaderEpoch(epoch)
		got := produceOne(w, produceRequest(9, "t", [16]byte{}, 0, records))
		require.Zero(t, got.ErrorCode, "epoch %d", epoch)
		read := fetchOne(w, fetchRequest(12, "t", [16]byte{}, 0, int64(i))).RecordBatches
		b, _, err := record.Next(read)
		require.NoError(t, err)
		require.Equal(t, int32(2), b.LeaderEpoch())
	}
}

// TestBug_redpanda27629_franzgo119_1331_MetadataHasTheTrueEpoch: an epoch that is made up, or goes
// backwards, stops a consumer for good. It is the one of the log, and rises.
func TestBug_redpanda27629_franzgo119_1331_MetadataHasTheTrueEpoch(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	newTopic(t, c, "t", 1, nil)
	last := int32(-1)
	for i := range 6 {
		w := dial(t, c)
		for version := int16(7); version <= 13; version++ {
			p := ask[*kmsg.MetadataResponse](w, metadataRequest(version, false, "t")).
				Topics[0].Partitions[0]
			require.Zero(t, p.ErrorCode)
			require.GreaterOrEqual(t, p.LeaderEpoch, last)
			last = p.LeaderEpoch
		}
		fill(t, w, "t", 1)
		req := fetchRequest(12, "t", [16]byte{}, 0, int64(i))
		first(req).CurrentLeaderEpoch = last
		got := fetchOne(w, req)
		require.Zero(t, got.ErrorCode, "the leader knows it as the current one")
		b, _, err := record.Next(got.RecordBatches)
		require.NoError(t, err)
		require.Equal(t, last, b.LeaderEpoch())
		if i%2 == 0 {
			c.Crash()
		} else {
			c.Restart()
		}
	}
	require.Equal(t, int32(3), last, "three crashes")
}

// TestBug_jepsen_bufstream_NoOffsetIsZeroByDefault: an error with offset 0 in it is taken for the
// beginning of the log by who does not look at the error.
func TestBug_jepsen_bufstream_NoOffsetIsZeroByDefault(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	id := newTopic(t, c, "t", 1, nil)
	w := dial(t, c)
	fill(t, w, "t", 3)
	put := produceOne(w, produceRequest(9, "t", id, 7, batch(t, 1, record.BuilderOptions{})))
	require.NotZero(t, put.ErrorCode)
	require.Equal(t, []int64{-1, -1}, []int64{put.BaseOffset, put.LogStartOffset})
	for _, partition := range []int32{0, 7} {
		req := fetchRequest(12, "t", id, partition, 99)
		got := fetchOne(w, req)
		require.NotZero(t, got.ErrorCode)
		require.Equal(t, int64(-1), got.HighWatermark)
		require.Equal(t, []int64{-1, -1}, []int64{got.LastStableOffset, got.LogStartOffset})
	}
	list := kmsg.NewPtrListOffsetsRequest()
	list.SetVersion(7)
	lt, lp := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
	lp.Partition, lp.Timestamp = 7, -2
	lt.Topic, lt.Partitions = "t", append(lt.Partitions, lp)
	list.Topics = append(list.Topics, lt)
	listed := ask[*kmsg.ListOffsetsResponse](w, list).Topics[0].Partitions[0]
	require.NotZero(t, listed.ErrorCode)
	require.Equal(t, []int64{-1, -1}, []int64{listed.Offset, listed.Timestamp})
}

// TestBug_redpanda15247_DescribeProducersTellsAll: also of those that are only idempotent, and of
// transactions that are over.
func TestBug_redpanda15247_DescribeProducersTellsAll(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	newTopic(t, c, "t", 1, nil)
	w := dial(t, c)
	require.Zero(t, produceOne(w, produceRequest(9, "t", [16]byte{}, 0, batch(t, 2,
		record.BuilderOptions{Idempotent: true, ProducerID: 1 << 40, ProducerEpoch: 3}))).ErrorCode)
	over, open := newTxnProducer(dial(t, c), "over"), newTxnProducer(dial(t, c), "open")
	over.put("t", 0, 1)
	over.end(true, "t", 0, 4)
	open.put("t", 0, 1)
	req := kmsg.NewPtrDescribeProducersRequest()
	rt := kmsg.NewDescribeProducersRequestTopic()
	rt.Topic, rt.Partitions = "t", []int32{0}
	req.Topics = append(req.Topics, rt)
	type state struct {
		epoch, sequence int32
		txn             int64
	}
	got := make(map[int64]state)
	for _, p := range ask[*kmsg.DescribeProducersResponse](w, req).Topics[0].Partitions[0].
		ActiveProducers {
		got[p.ProducerID] = state{p.ProducerEpoch, p.LastSequence, p.CurrentTxnStartOffset}
	}
	require.Equal(t, map[int64]state{
		1 << 40: {3, 1, -1},
		over.id: {int32(over.epoch), 0, -1},
		open.id: {int32(open.epoch), 0, 4},
	}, got)
}

// TestBug_kafkago1360_1378_kafkaex497_OldJoinGroup: versions 0 and 1 are not only advertised but
// served: join, sync, heartbeat, leave, each in version 0.
func TestBug_kafkago1360_1378_kafkaex497_OldJoinGroup(t *testing.T) {
	c := coretest.Start(t, coretest.Options{Config: map[string]string{
		"group.initial.rebalance.delay.ms": "0"}})
	w := dial(t, c)
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKey = "g"
	require.Zero(t, settled(w, func() int16 {
		return ask[*kmsg.FindCoordinatorResponse](w, find).ErrorCode
	}))
	for version := int16(0); version <= 1; version++ {
		group := fmt.Sprint("g", version)
		join := joinRequest(group, "", "range=A")
		join.SetVersion(version)
		var joined *kmsg.JoinGroupResponse
		require.Zero(t, settled(w, func() int16 {
			joined = ask[*kmsg.JoinGroupResponse](w, join)
			return joined.ErrorCode
		}))
		require.NotEmpty(t, joined.MemberID)
		require.Equal(t, joined.MemberID, joined.LeaderID)
		require.Equal(t, int32(1), joined.Generation)
		sync := syncRequest(group, joined.MemberID, 1, nil, joined.MemberID)
		sync.SetVersion(0)
		synced := ask[*kmsg.SyncGroupResponse](w, sync)
		require.Zero(t, synced.ErrorCode)
		require.Equal(t, "part0", string(synced.MemberAssignment))
		beat := beatRequest(group, joined.MemberID, 1, nil)
		beat.SetVersion(0)
		require.Zero(t, ask[*kmsg.HeartbeatResponse](w, beat).ErrorCode)
		leave := kmsg.NewPtrLeaveGroupRequest()
		leave.Group, leave.MemberID = group, joined.MemberID
		require.Zero(t, ask[*kmsg.LeaveGroupResponse](w, leave).ErrorCode)
	}
}

// TestSeen9_1_NewPartitionsAreServedAtOnce: neither CreateTopics nor CreatePartitions nor Metadata
// tells of a partition that then answers NOT_LEADER_OR_FOLLOWER or UNKNOWN_TOPIC_OR_PARTITION.
func TestSeen9_1_NewPartitionsAreServedAtOnce(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	w := dial(t, c)
	for i := range 20 {
		name := fmt.Sprint("t", i)
		create := newTopicRequest(name, 3, 1)
		create.SetVersion(7)
		require.Zero(t, ask[*kmsg.CreateTopicsResponse](w, create).Topics[0].ErrorCode)
		grow := kmsg.NewPtrCreatePartitionsRequest()
		grow.SetVersion(3)
		grow.TimeoutMillis = 10000
		gt := kmsg.NewCreatePartitionsRequestTopic()
		gt.Topic, gt.Count = name, 4
		grow.Topics = append(grow.Topics, gt)
		for partition := range int32(4) {
			if partition == 3 {
				require.Zero(t, ask[*kmsg.CreatePartitionsResponse](w, grow).Topics[0].ErrorCode)
			}
			put := produceRequest(9, name, [16]byte{}, partition, batch(t, 1, record.BuilderOptions{}))
			require.Zero(t, produceOne(w, put).ErrorCode, "%s-%d", name, partition)
		}
	}
}

// TestRow37_OnlyAdminsWriteInternalTopics: produce to the broker's own topics is INVALID_TOPIC, but
// for a client that calls itself __admin_client.
func TestRow37_OnlyAdminsWriteInternalTopics(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	w := dial(t, c)
	newTxnProducer(w, "p") // makes the topic
	req := produceRequest(9, "__transaction_state", [16]byte{}, 0,
		batch(t, 1, record.BuilderOptions{}))
	for client, code := range map[string]int16{"": 17, "admin": 17, "__admin_client": 0} {
		w.id++
		_, err := w.c.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID(client)).
			AppendRequest(nil, req, w.id))
		require.NoError(t, err)
		got := w.receive(req, w.id).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		require.Equal(t, code, got.ErrorCode, "client id %q", client)
	}
}
