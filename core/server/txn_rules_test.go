package server_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/core/record"
)

// Rules of transactions that a request as a whole shows. Those of the coordinator alone are in
// core/txn/testdata/scenarios, those of the log in core/storage.

// addPartitions is an AddPartitionsToTxn v3 of a producer.
func (p *txnProducer) addPartitions(topics map[string][]int32, order ...string,
) *kmsg.AddPartitionsToTxnRequest {
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.SetVersion(3)
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = p.name, p.id, p.epoch
	for _, name := range order {
		t := kmsg.NewAddPartitionsToTxnRequestTopic()
		t.Topic, t.Partitions = name, topics[name]
		req.Topics = append(req.Topics, t)
	}
	return req
}

// endCode ends the transaction and returns the code.
func (p *txnProducer) endCode(version int16, commit bool) int16 {
	req := kmsg.NewPtrEndTxnRequest()
	req.SetVersion(version)
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = p.name, p.id, p.epoch
	req.Commit = commit
	return settled(p.w, func() int16 { return ask[*kmsg.EndTxnResponse](p.w, req).ErrorCode })
}

// TestRule10_OneProducerInARequest: batches of two producers in one transactional request are
// INVALID_PRODUCER_ID_MAPPING, and none of them is appended.
func TestRule10_OneProducerInARequest(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	newTopic(t, c, "t", 2, nil)
	p := newTxnProducer(dial(t, c), "p")
	require.Zero(t, settled(p.w, func() int16 {
		req := p.addPartitions(map[string][]int32{"t": {0, 1}}, "t")
		return ask[*kmsg.AddPartitionsToTxnResponse](p.w, req).Topics[0].Partitions[0].ErrorCode
	}))
	of := func(id int64) []byte {
		return batch(t, 1, record.BuilderOptions{
			Idempotent: true, Transactional: true, ProducerID: id, ProducerEpoch: p.epoch})
	}
	req := produceRequest(9, "t", [16]byte{}, 0, of(p.id+1))
	req.TransactionID = &p.name
	second := kmsg.NewProduceRequestTopicPartition()
	second.Partition, second.Records = 1, of(p.id)
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, second)
	for _, got := range ask[*kmsg.ProduceResponse](p.w, req).Topics[0].Partitions {
		require.Equal(t, int16(49), got.ErrorCode)
		require.Equal(t, int64(-1), got.BaseOffset)
	}
	require.Zero(t, listAt(p.w, -1, 0).offset)
	req.Topics[0].Partitions[0].Records = of(p.id)
	for _, got := range ask[*kmsg.ProduceResponse](p.w, req).Topics[0].Partitions {
		require.Zero(t, got.ErrorCode)
	}
}

// TestRule16_OneBadTopicFailsAll: the good ones are OPERATION_NOT_ATTEMPTED and are not added, so
// that there is nothing to commit.
func TestRule16_OneBadTopicFailsAll(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	newTopic(t, c, "good", 2, nil)
	p := newTxnProducer(dial(t, c), "p")
	req := p.addPartitions(map[string][]int32{"good": {0, 1, 7}, "bad": {0}}, "good", "bad")
	resp := ask[*kmsg.AddPartitionsToTxnResponse](p.w, req)
	require.Equal(t, int16(55), resp.Topics[0].Partitions[0].ErrorCode)
	require.Equal(t, int16(55), resp.Topics[0].Partitions[1].ErrorCode)
	require.Equal(t, int16(3), resp.Topics[0].Partitions[2].ErrorCode)
	require.Equal(t, int16(3), resp.Topics[1].Partitions[0].ErrorCode)
	require.Equal(t, int16(48), p.endCode(3, true), "no transaction is open")
}

// TestRule20_FindCoordinatorCreatesTheTopic: the first question for a transactional id, or for a
// group, makes the topic of its coordinator, which is internal.
func TestRule20_FindCoordinatorCreatesTheTopic(t *testing.T) {
	c := coretest.Start(t, coretest.Options{Config: map[string]string{
		"auto.create.topics.enable": "false"}})
	w := dial(t, c)
	for kind, name := range []string{"__consumer_offsets", "__transaction_state"} {
		before := ask[*kmsg.MetadataResponse](w, metadataRequest(9, true, name)).Topics[0]
		require.Equal(t, int16(3), before.ErrorCode, name)
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.SetVersion(4)
		find.CoordinatorType, find.CoordinatorKeys = int8(kind), []string{"x"}
		require.Eventually(t, func() bool {
			got := ask[*kmsg.FindCoordinatorResponse](w, find).Coordinators[0]
			require.Contains(t, []int16{0, 15}, got.ErrorCode)
			return got.ErrorCode == 0 && got.NodeID == 1
		}, time.Minute, 10*time.Millisecond)
		after := ask[*kmsg.MetadataResponse](w, metadataRequest(9, false, name)).Topics[0]
		require.Zero(t, after.ErrorCode, name)
		require.True(t, after.IsInternal, name)
		require.Len(t, after.Partitions, 50, name)
	}
}

// TestSeen9_11_EmptyAddPartitionsIsAnswered: Kafka never answers versions 4 and 5 without a
// transaction; here that is INVALID_REQUEST.
func TestSeen9_11_EmptyAddPartitionsIsAnswered(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	for version := int16(4); version <= 5; version++ {
		req := kmsg.NewPtrAddPartitionsToTxnRequest()
		req.SetVersion(version)
		got := ask[*kmsg.AddPartitionsToTxnResponse](dial(t, c), req)
		require.Equal(t, int16(42), got.ErrorCode)
	}
}

// TestSeen9_4_AbortOfAnEmptyTransactionRaisesTheEpoch: with EndTxn v5; repeated, it gives the same
// epoch again, and a transaction goes on from there (KIP-890).
func TestSeen9_4_AbortOfAnEmptyTransactionRaisesTheEpoch(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	p := newTxnProducer(dial(t, c), "p")
	req := kmsg.NewPtrEndTxnRequest()
	req.SetVersion(5)
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = p.name, p.id, p.epoch
	for range 3 {
		var got *kmsg.EndTxnResponse
		require.Zero(t, settled(p.w, func() int16 {
			got = ask[*kmsg.EndTxnResponse](p.w, req)
			return got.ErrorCode
		}))
		require.Equal(t, p.id, got.ProducerID)
		require.Equal(t, p.epoch+1, got.ProducerEpoch)
	}
}

// TestBug_redpanda22330_AddOffsetsDuringARebalance: the group's state does not matter, only whether
// there is a transaction.
func TestBug_redpanda22330_AddOffsetsDuringARebalance(t *testing.T) {
	c := coretest.Start(t, coretest.Options{Config: map[string]string{
		"group.initial.rebalance.delay.ms": "3000"}})
	p := newTxnProducer(dial(t, c), "p")
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.SetVersion(3)
	find.CoordinatorKey = "g"
	require.Zero(t, settled(p.w, func() int16 {
		return ask[*kmsg.FindCoordinatorResponse](p.w, find).ErrorCode
	}))
	joining := dial(t, c)
	join := joinRequest("g", "", "range=A")
	join.SetVersion(3)
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.SetVersion(5)
	describe.Groups = []string{"g"}
	require.Zero(t, settled(p.w, func() int16 {
		return ask[*kmsg.DescribeGroupsResponse](p.w, describe).Groups[0].ErrorCode
	}))
	joining.send(join) // answered after the initial delay of 3 s
	require.Eventually(t, func() bool {
		got := ask[*kmsg.DescribeGroupsResponse](p.w, describe).Groups[0]
		return got.State == "PreparingRebalance"
	}, time.Minute, time.Millisecond)
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.SetVersion(3)
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = p.name, p.id, p.epoch, "g"
	require.Zero(t, settled(p.w, func() int16 {
		return ask[*kmsg.AddOffsetsToTxnResponse](p.w, add).ErrorCode
	}))
}
