package server_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/vfs"
)

// TestListOffsets asks a log of three batches, of which the second has the largest timestamp.
func TestListOffsets(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	newTopic(t, c, "t", 1, nil)
	newTopic(t, c, "empty", 1, nil)
	w := dial(t, c)
	for _, ts := range []int64{1000, 3000, 2000} {
		b := record.NewBuilder(record.BuilderOptions{})
		b.Append(record.Record{Timestamp: ts})
		b.Append(record.Record{Timestamp: ts + 10})
		out, err := b.Build()
		require.NoError(t, err)
		got := produceOne(w, produceRequest(9, "t", [16]byte{}, 0, out))
		require.Zero(t, got.ErrorCode)
	}
	for _, v := range []struct {
		name      string
		topic     string
		version   int16
		ts, found int64
		offset    int64
		epoch     int32
		code      int16
	}{
		{"earliest", "t", 7, -2, -1, 0, 0, 0},
		{"latest", "t", 7, -1, -1, 6, 0, 0},
		{"largest timestamp", "t", 7, -3, 3010, 3, 0, 0},
		{"largest timestamp too early", "t", 6, -3, -1, -1, -1, 35},
		{"earliest local", "t", 8, -4, -1, 0, 0, 0},
		{"latest tiered", "t", 9, -5, -1, -1, -1, 0},
		{"pending upload", "t", 11, -6, -1, -1, -1, 0},
		{"pending upload too early", "t", 10, -6, -1, -1, -1, 35},
		{"no such special", "t", 11, -7, -1, -1, -1, 35},
		{"time 0", "t", 7, 0, 1000, 0, 0, 0},
		{"exact time", "t", 7, 1010, 1010, 1, 0, 0},
		{"between", "t", 7, 1011, 3000, 2, 0, 0},
		{"second record of a batch", "t", 7, 3001, 3010, 3, 0, 0},
		{"later than all", "t", 7, 4000, -1, -1, -1, 0},
		{"empty, earliest", "empty", 7, -2, -1, 0, -1, 0},
		{"empty, latest", "empty", 7, -1, -1, 0, 0, 0},
		{"empty, time", "empty", 7, 5, -1, -1, -1, 0},
		{"empty, largest", "empty", 7, -3, -1, -1, -1, 0},
		{"unknown topic", "nope", 7, -1, -1, -1, -1, 3},
	} {
		t.Run(v.name, func(t *testing.T) {
			req := kmsg.NewPtrListOffsetsRequest()
			req.SetVersion(v.version)
			req.ReplicaID = -1
			rt := kmsg.NewListOffsetsRequestTopic()
			rt.Topic = v.topic
			rp := kmsg.NewListOffsetsRequestTopicPartition()
			rp.Timestamp = v.ts
			rt.Partitions = append(rt.Partitions, rp)
			req.Topics = append(req.Topics, rt)
			got := ask[*kmsg.ListOffsetsResponse](dial(t, c), req).Topics[0].Partitions[0]
			require.Equal(t, v.code, got.ErrorCode)
			require.Equal(t, v.offset, got.Offset)
			require.Equal(t, v.found, got.Timestamp)
			if v.topic != "empty" || v.ts != -2 {
				require.Equal(t, v.epoch, got.LeaderEpoch)
			}
		})
	}
}

// TestOffsetForLeaderEpoch: epoch 0 holds offsets 0 to 2, epoch 1 those from 3 (KIP-101).
func TestOffsetForLeaderEpoch(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	newTopic(t, c, "t", 1, nil)
	fill(t, dial(t, c), "t", 3)
	c.Crash()
	w := dial(t, c)
	fill(t, w, "t", 2)
	for version := int16(2); version <= 4; version++ {
		for _, v := range []struct {
			asked, found int32
			end          int64
			current      int32
			code         int16
		}{
			{0, 0, 3, 1, 0}, {1, 1, 5, 1, 0}, {2, -1, -1, 1, 0}, {0, 0, 3, -1, 0},
			{0, -1, -1, 0, 74}, {0, -1, -1, 2, 75},
		} {
			req := kmsg.NewPtrOffsetForLeaderEpochRequest()
			req.SetVersion(version)
			rt := kmsg.NewOffsetForLeaderEpochRequestTopic()
			rt.Topic = "t"
			rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
			rp.CurrentLeaderEpoch, rp.LeaderEpoch = v.current, v.asked
			rt.Partitions = append(rt.Partitions, rp)
			req.Topics = append(req.Topics, rt)
			got := ask[*kmsg.OffsetForLeaderEpochResponse](w, req).Topics[0].Partitions[0]
			require.Equal(t, v.code, got.ErrorCode, "%+v", v)
			require.Equal(t, v.found, got.LeaderEpoch, "%+v", v)
			require.Equal(t, v.end, got.EndOffset, "%+v", v)
		}
	}
}

func metadataRequest(version int16, auto bool, topics ...string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.SetVersion(version)
	req.AllowAutoTopicCreation = auto
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range topics {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = &name
		req.Topics = append(req.Topics, rt)
	}
	return req
}

func TestMetadata(t *testing.T) {
	c := coretest.Start(t, coretest.Options{Config: map[string]string{"num.partitions": "2"}})
	id := newTopic(t, c, "b", 3, nil)
	w := dial(t, c)

	all := metadataRequest(12, false)
	all.Topics = nil
	got := ask[*kmsg.MetadataResponse](w, all)
	require.Len(t, got.Topics, 1)
	require.Equal(t, id, got.Topics[0].TopicID)
	require.Len(t, got.Topics[0].Partitions, 3)
	require.Equal(t, []int32{1}, got.Topics[0].Partitions[2].Replicas)
	require.Equal(t, int32(0), got.Topics[0].Partitions[2].LeaderEpoch)
	require.Len(t, got.Brokers, 1)
	require.Equal(t, "broker", got.Brokers[0].Host)
	require.Equal(t, int32(9092), got.Brokers[0].Port)
	require.Equal(t, int32(1), got.ControllerID)
	require.NotEmpty(t, *got.ClusterID)

	require.Empty(t, ask[*kmsg.MetadataResponse](w, metadataRequest(12, true)).Topics)
	require.Len(t, ask[*kmsg.MetadataResponse](w, metadataRequest(0, true)).Topics, 1,
		"none is all in version 0")

	got = ask[*kmsg.MetadataResponse](w, metadataRequest(9, false, "nope", "b", "a/b"))
	require.Equal(t, int16(3), got.Topics[0].ErrorCode)
	require.Equal(t, int16(0), got.Topics[1].ErrorCode)
	require.Equal(t, int16(17), got.Topics[2].ErrorCode)

	got = ask[*kmsg.MetadataResponse](w, metadataRequest(9, true, "made", "b"))
	require.Equal(t, int16(0), got.Topics[0].ErrorCode)
	require.Len(t, got.Topics[0].Partitions, 2)
	produced := produceOne(w, produceRequest(9, "made", id, 1,
		batch(t, 1, record.BuilderOptions{})))
	require.Zero(t, produced.ErrorCode, "served as soon as it is answered")

	byID := metadataRequest(12, false)
	for _, id := range [][16]byte{id, {9}} {
		rt := kmsg.NewMetadataRequestTopic()
		rt.TopicID = id
		byID.Topics = append(byID.Topics, rt)
	}
	got = ask[*kmsg.MetadataResponse](w, byID)
	require.Equal(t, "b", *got.Topics[0].Topic)
	require.Equal(t, int16(100), got.Topics[1].ErrorCode)
	require.Nil(t, got.Topics[1].Topic)
}

func TestNoAutoCreation(t *testing.T) {
	c := coretest.Start(t, coretest.Options{
		Config: map[string]string{"auto.create.topics.enable": "false"}})
	got := ask[*kmsg.MetadataResponse](dial(t, c), metadataRequest(9, true, "made"))
	require.Equal(t, int16(3), got.Topics[0].ErrorCode)
}

// TestCreateTopics has its codes from Kafka's ReplicationControlManager.
func TestCreateTopics(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	w := dial(t, c)
	topic := func(name string, partitions int32, replicas int16) kmsg.CreateTopicsRequestTopic {
		rt := kmsg.NewCreateTopicsRequestTopic()
		rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, partitions, replicas
		return rt
	}
	config := func(rt kmsg.CreateTopicsRequestTopic, name string, value *string,
	) kmsg.CreateTopicsRequestTopic {
		rc := kmsg.NewCreateTopicsRequestTopicConfig()
		rc.Name, rc.Value = name, value
		rt.Configs = append(rt.Configs, rc)
		return rt
	}
	assigned := topic("assigned", -1, -1)
	for p := range int32(2) {
		ra := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		ra.Partition, ra.Replicas = p, []int32{1}
		assigned.ReplicaAssignment = append(assigned.ReplicaAssignment, ra)
	}
	foreign := topic("foreign", -1, -1)
	ra := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
	ra.Replicas = []int32{7}
	foreign.ReplicaAssignment = append(foreign.ReplicaAssignment, ra)
	twice := topic("assigned-twice", -1, -1)
	twice.ReplicaAssignment = append(assigned.ReplicaAssignment[:1:1],
		assigned.ReplicaAssignment[0])
	day, word := "86400000", "long"
	req := kmsg.NewPtrCreateTopicsRequest()
	req.SetVersion(7)
	req.TimeoutMillis = 10000
	req.Topics = []kmsg.CreateTopicsRequestTopic{
		topic("good", 3, 1), topic("defaults", -1, -1), topic("a/b", 1, 1), topic("", 1, 1),
		topic("none", 0, 1), topic("replicas", 1, 2), topic("good.x", 1, 1), topic("good_x", 1, 1),
		topic("dup", 1, 1), topic("dup", 1, 1), assigned, foreign, twice,
		config(topic("configured", 1, 1), "retention.ms", &day),
		config(topic("bad-value", 1, 1), "retention.ms", &word),
		config(topic("bad-name", 1, 1), "no.such.config", &day),
		config(topic("null-value", 1, 1), "retention.ms", nil),
	}
	want := []int16{0, 0, 17, 17, 37, 38, 0, 17, 42, 0, 39, 39, 0, 40, 40, 40}
	names := slices.Compact(topicNames(req)) // the one that is named twice is answered once
	req.ValidateOnly = true
	for range 2 { // validated first, then really: the same answers
		got := ask[*kmsg.CreateTopicsResponse](w, req)
		for i, rt := range got.Topics {
			require.Equal(t, names[i], rt.Topic)
			require.Equal(t, want[i], rt.ErrorCode, "%s: %v", rt.Topic, rt.ErrorMessage)
			if want[i] != 0 {
				require.NotNil(t, rt.ErrorMessage)
				continue
			}
			require.Greater(t, len(rt.Configs), 25)
			require.Equal(t, int16(1), rt.ReplicationFactor)
			require.NotZero(t, rt.TopicID, "validated or not, as in Kafka")
		}
		require.Equal(t, int32(2), got.Topics[9].NumPartitions)
		req.ValidateOnly = false
	}
	got := ask[*kmsg.CreateTopicsResponse](w, req)
	require.Equal(t, int16(36), got.Topics[0].ErrorCode, "it exists now")
}

func TestDeleteTopics(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	id := newTopic(t, c, "by-id", 1, nil)
	newTopic(t, c, "by-name", 1, nil)
	w := dial(t, c)
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.SetVersion(6)
	req.TimeoutMillis = 10000
	name, unknown := "by-name", "nope"
	req.Topics = []kmsg.DeleteTopicsRequestTopic{
		{Topic: &name}, {TopicID: id}, {Topic: &unknown}, {TopicID: [16]byte{5}},
	}
	got := ask[*kmsg.DeleteTopicsResponse](w, req)
	var codes []int16
	for _, rt := range got.Topics {
		codes = append(codes, rt.ErrorCode)
	}
	require.Equal(t, []int16{0, 0, 3, 100}, codes)
	require.Equal(t, "by-id", *got.Topics[1].Topic)
	all := metadataRequest(9, false)
	all.Topics = nil
	require.Empty(t, ask[*kmsg.MetadataResponse](w, all).Topics)
	p := produceOne(w, produceRequest(13, "", id, 0, batch(t, 1, record.BuilderOptions{})))
	require.Equal(t, int16(100), p.ErrorCode)
}

func TestCreatePartitions(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	newTopic(t, c, "t", 2, nil)
	w := dial(t, c)
	add := func(topic string, count int32, validate bool,
		assignment []kmsg.CreatePartitionsRequestTopicAssignment) int16 {
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.SetVersion(3)
		req.TimeoutMillis, req.ValidateOnly = 10000, validate
		rt := kmsg.NewCreatePartitionsRequestTopic()
		rt.Topic, rt.Count, rt.Assignment = topic, count, assignment
		req.Topics = append(req.Topics, rt)
		return ask[*kmsg.CreatePartitionsResponse](w, req).Topics[0].ErrorCode
	}
	require.Equal(t, int16(37), add("t", 1, false, nil))
	require.Equal(t, int16(37), add("t", 2, false, nil))
	require.Equal(t, int16(3), add("nope", 3, false, nil))
	require.Equal(t, int16(39), add("t", 3, false,
		[]kmsg.CreatePartitionsRequestTopicAssignment{}), "an empty list assigns nothing")
	require.Equal(t, int16(0), add("t", 4, true, nil))
	require.Equal(t, int16(37), add("t", 2, false, nil), "validated only")
	require.Equal(t, int16(0), add("t", 4, false, nil))
	p := produceOne(w, produceRequest(9, "t", [16]byte{}, 3, batch(t, 1, record.BuilderOptions{})))
	require.Zero(t, p.ErrorCode)
}

func TestDeleteRecords(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	newTopic(t, c, "t", 1, nil)
	w := dial(t, c)
	fill(t, w, "t", 10)
	for _, v := range []struct {
		offset, low int64
		code        int16
	}{{4, 4, 0}, {2, 4, 0}, {11, -1, 1}, {-2, -1, 1}, {-1, 10, 0}, {10, 10, 0}} {
		req := kmsg.NewPtrDeleteRecordsRequest()
		req.SetVersion(2)
		rt := kmsg.NewDeleteRecordsRequestTopic()
		rt.Topic = "t"
		rt.Partitions = []kmsg.DeleteRecordsRequestTopicPartition{{Offset: v.offset}}
		req.Topics = append(req.Topics, rt)
		got := ask[*kmsg.DeleteRecordsResponse](w, req).Topics[0].Partitions[0]
		require.Equal(t, v.code, got.ErrorCode, "%+v", v)
		require.Equal(t, v.low, got.LowWatermark, "%+v", v)
	}
	require.Equal(t, int16(1), fetchOne(w, fetchRequest(12, "t", [16]byte{}, 0, 3)).ErrorCode)
}

// TestInitProducerID: ids are never given twice, over a restart and a crash too.
func TestInitProducerID(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	seen := map[int64]bool{}
	next := func() {
		for version := int16(0); version <= 5; version++ {
			req := kmsg.NewPtrInitProducerIDRequest()
			req.SetVersion(version)
			got := ask[*kmsg.InitProducerIDResponse](dial(t, c), req)
			require.Zero(t, got.ErrorCode)
			require.Zero(t, got.ProducerEpoch)
			require.False(t, seen[got.ProducerID], "%d again", got.ProducerID)
			seen[got.ProducerID] = true
		}
	}
	next()
	c.Restart()
	next()
	c.Crash()
	next()
	req := kmsg.NewPtrInitProducerIDRequest()
	id, empty := "transactional", ""
	req.TransactionalID, req.TransactionTimeoutMillis = &id, 1000
	require.Equal(t, int16(16), ask[*kmsg.InitProducerIDResponse](dial(t, c), req).ErrorCode,
		"nobody asked for the coordinator yet")
	req.TransactionalID = &empty
	require.Equal(t, int16(42), ask[*kmsg.InitProducerIDResponse](dial(t, c), req).ErrorCode)
}

// TestInitProducerIDOnAFullDisk answers what every client tries again after a while.
func TestInitProducerIDOnAFullDisk(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem())
	c := coretest.Start(t, coretest.Options{FS: fault})
	fault.SetSpace(0)
	w := dial(t, c)
	for range 50 {
		got := ask[*kmsg.InitProducerIDResponse](w, kmsg.NewPtrInitProducerIDRequest())
		require.Equal(t, kerr.CoordinatorLoadInProgress.Code, got.ErrorCode)
	}
	fault.SetSpace(-1)
	got := ask[*kmsg.InitProducerIDResponse](w, kmsg.NewPtrInitProducerIDRequest())
	require.Zero(t, got.ErrorCode)
}

func topicNames(req *kmsg.CreateTopicsRequest) []string {
	var names []string
	for i := range req.Topics {
		names = append(names, req.Topics[i].Topic)
	}
	return names
}
