package server_test

import (
	"encoding/binary"
	"strings"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/record"
)

// The chapters of TestErrorsAreKafkas about records and offsets.

func listRequest(topic string, partition int32, timestamp int64, epoch int32,
) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewListOffsetsRequestTopicPartition()
	rp.Partition, rp.Timestamp, rp.CurrentLeaderEpoch = partition, timestamp, epoch
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

// produceVersions are those whose codes are different, and the newest.
var produceVersions = []int16{3, 7, 8, 10, 11, 12, 13}

// produce asks in each version, each with its own copy of the records.
func (e *errorWire) produce(label, topic string, partition int32, records []byte,
	change func(*kmsg.ProduceRequest),
) {
	e.t.Helper()
	for _, version := range produceVersions {
		id := e.ids[topic]
		if id == [16]byte{} {
			id = [16]byte{1, 2, 3}
		}
		req := produceRequest(version, topic, id, partition, append([]byte(nil), records...))
		if change != nil {
			change(req)
		}
		e.send(label, version, req)
	}
}

func (e *errorWire) batch(n int, opts record.BuilderOptions) []byte { return batch(e.t, n, opts) }

func (e *errorWire) produceErrors() {
	plain := e.topic("p", 1)
	good := e.batch(2, record.BuilderOptions{})
	e.produce("unknown topic", "no-such", 0, good, nil)
	e.produce("unknown partition", plain, 7, good, nil)
	e.produce("negative partition", plain, -1, good, nil)
	e.produce("acks 2", plain, 0, good, func(r *kmsg.ProduceRequest) { r.Acks = 2 })
	e.produce("invalid topic name", "in valid", 0, good, nil)
	e.produce("internal topic", "__consumer_offsets", 0, good, nil)
	for _, c := range batchCases(func() []byte { return append([]byte(nil), good...) }) {
		e.produce(c.name, plain, 0, c.records, nil)
	}
	large := record.NewBuilder(record.BuilderOptions{})
	large.Append(record.Record{Timestamp: 1, Value: []byte(strings.Repeat("x", 2000))})
	tooLarge, err := large.Build()
	require.NoError(e.t, err)
	e.produce("larger than max.message.bytes", e.topic("small", 1, "max.message.bytes", "1000"), 0,
		tooLarge, nil)
	keyless := record.NewBuilder(record.BuilderOptions{})
	keyless.Append(record.Record{Timestamp: 1, Value: []byte("x")})
	noKey, err := keyless.Build()
	require.NoError(e.t, err)
	e.produce("no key in a compacted topic", e.topic("compacted", 1, "cleanup.policy", "compact"),
		0, noKey, nil)
	e.produce("record too old", e.topic("recent", 1, "message.timestamp.before.max.ms", "1000"), 0,
		good, nil)
	e.produce("record from the future", e.topic("now", 1), 0, futureBatch(e), nil)
	e.produce("min.insync.replicas 2 of 1 replica", e.topic("min", 1, "min.insync.replicas", "2"),
		0, good, nil)
	e.idempotentErrors()
}

// futureBatch has a record of the year 2100.
func futureBatch(e *errorWire) []byte {
	b := record.NewBuilder(record.BuilderOptions{})
	b.Append(record.Record{Timestamp: 4_102_444_800_000, Value: []byte("x")})
	out, err := b.Build()
	require.NoError(e.t, err)
	return out
}

// producerID asks for one.
func (e *errorWire) producerID() int64 {
	var id int64
	e.until(func() bool {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.ProducerID, req.ProducerEpoch = -1, -1
		resp, err := e.ask(4, req)
		id = resp.(*kmsg.InitProducerIDResponse).ProducerID
		return err == nil && resp.(*kmsg.InitProducerIDResponse).ErrorCode == 0
	})
	return id
}

func (e *errorWire) idempotentErrors() {
	topic, id := e.topic("idempotent", 1), e.producerID()
	write := func(label string, epoch int16, sequence int32, n int) {
		b := e.batch(n, record.BuilderOptions{Idempotent: true, ProducerID: id,
			ProducerEpoch: epoch, BaseSequence: sequence})
		e.send(label, 9, produceRequest(9, topic, e.ids[topic], 0, b))
	}
	write("first batch of an unknown producer, sequence 7", 1, 7, 2)
	write("next sequence", 1, 9, 2)
	write("repeat of the last batch", 1, 9, 2)
	write("repeat of the one before", 1, 7, 2)
	write("part of an earlier batch", 1, 8, 1)
	write("gap in the sequence", 1, 20, 1)
	write("old sequence", 1, 2, 1)
	write("old epoch", 0, 0, 1)
	write("new epoch, sequence 3", 2, 3, 1)
	write("new epoch, sequence 0", 2, 0, 1)
	write("no sequence", 2, -1, 1)
	write("no epoch", -1, 0, 1)
	write("sequence before the wrap", 3, 0, 1)
	transactional := e.batch(1, record.BuilderOptions{Idempotent: true, ProducerID: id,
		ProducerEpoch: 2, BaseSequence: 1, Transactional: true})
	e.produce("transactional batch without transactional id", topic, 0, transactional, nil)
}

// fetchVersions are those whose rules are different.
var fetchVersions = []int16{4, 7, 9, 11, 12, 13, 15, 16, 17, 18}

func (e *errorWire) fetchErrors() {
	topic := e.topic("f", 1)
	e.produceGood(topic)
	for _, version := range fetchVersions {
		ask := func(label string, partition int32, offset int64, change func(*kmsg.FetchRequest)) {
			req := fetchRequest(version, topic, e.ids[topic], partition, offset)
			if change != nil {
				change(req)
			}
			e.send(label, version, req)
		}
		ask("in range", 0, 0, nil)
		ask("at the end", 0, 2, nil)
		ask("beyond the end", 0, 3, nil)
		ask("negative offset", 0, -1, nil)
		ask("unknown partition", 9, 0, nil)
		ask("unknown topic", 0, 0, func(r *kmsg.FetchRequest) {
			r.Topics[0].Topic, r.Topics[0].TopicID = "no-such", [16]byte{1, 2, 3}
		})
		ask("leader epoch of the future", 0, 0, func(r *kmsg.FetchRequest) {
			r.Topics[0].Partitions[0].CurrentLeaderEpoch = 100
		})
		ask("unknown session", 0, 0, func(r *kmsg.FetchRequest) {
			r.SessionID, r.SessionEpoch = 12345, 1
		})
		ask("session id without epoch", 0, 0, func(r *kmsg.FetchRequest) {
			r.SessionID, r.SessionEpoch = 12345, -1
		})
		ask("max bytes 0", 0, 0, func(r *kmsg.FetchRequest) { r.MaxBytes = 0 })
		ask("isolation level 1", 0, 0, func(r *kmsg.FetchRequest) { r.IsolationLevel = 1 })
		e.fetchSession(version, topic)
	}
}

// fetchSession makes one and gets its epoch wrong.
func (e *errorWire) fetchSession(version int16, topic string) {
	if version < 7 {
		return
	}
	req := fetchRequest(version, topic, e.ids[topic], 0, 2)
	req.SessionID, req.SessionEpoch = 0, 0
	made := e.send("new session", version, req).(*kmsg.FetchResponse)
	for i, epoch := range []int32{1, 1, 5} {
		next := kmsg.NewPtrFetchRequest()
		next.MaxWaitMillis, next.MaxBytes = 0, 1<<20
		next.SessionID, next.SessionEpoch = made.SessionID, epoch
		label := []string{"right", "again", "ahead"}[i]
		e.send("session, epoch "+label, version, next)
	}
}

func (e *errorWire) produceGood(topic string) {
	resp, err := e.ask(9, produceRequest(9, topic, e.ids[topic], 0,
		e.batch(2, record.BuilderOptions{})))
	require.NoError(e.t, err)
	require.Zero(e.t, resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
}

func (e *errorWire) offsetErrors() {
	topic := e.topic("o", 1)
	e.produceGood(topic)
	for _, version := range []int16{1, 4, 7, 8, 9, 10, 11} {
		for _, timestamp := range []int64{-1, -2, -3, -4, -5, -6, -7, 0, 1 << 60} {
			label := "timestamp " + timestampName(timestamp)
			e.send(label, version, listRequest(topic, 0, timestamp, -1))
		}
		e.send("unknown partition", version, listRequest(topic, 5, -1, -1))
		e.send("unknown topic", version, listRequest("no-such", 0, -1, -1))
		if version >= 4 {
			e.send("leader epoch of the future", version, listRequest(topic, 0, -1, 100))
		}
		twice := listRequest(topic, 0, -1, -1)
		twice.Topics[0].Partitions = append(twice.Topics[0].Partitions,
			twice.Topics[0].Partitions[0])
		e.send("the same partition twice", version, twice)
	}
	for _, version := range []int16{2, 3, 4} {
		e.send("known epoch", version, epochRequest(topic, 0, -1, 0))
		e.send("epoch of the future", version, epochRequest(topic, 0, -1, 100))
		e.send("current epoch of the future", version, epochRequest(topic, 0, 100, 0))
		e.send("unknown partition", version, epochRequest(topic, 9, -1, 0))
		e.send("unknown topic", version, epochRequest("no-such", 0, -1, 0))
	}
	for _, version := range []int16{0, 1, 2} {
		e.send("to offset 1", version, deleteRecordsRequest(topic, 0, 1))
		e.send("to offset 0, below the start", version, deleteRecordsRequest(topic, 0, 0))
		e.send("beyond the high watermark", version, deleteRecordsRequest(topic, 0, 100))
		e.send("to the high watermark", version, deleteRecordsRequest(topic, 0, -1))
		e.send("negative offset", version, deleteRecordsRequest(topic, 0, -5))
		e.send("unknown partition", version, deleteRecordsRequest(topic, 9, 0))
		e.send("unknown topic", version, deleteRecordsRequest("no-such", 0, 0))
		e.send("internal topic", version, deleteRecordsRequest("__consumer_offsets", 0, 0))
	}
}

func timestampName(ts int64) string {
	names := map[int64]string{-1: "-1 latest", -2: "-2 earliest", -3: "-3 max timestamp",
		-4: "-4 earliest local", -5: "-5 latest tiered", -6: "-6 earliest pending upload",
		-7: "-7", 0: "0", 1 << 60: "of the far future"}
	return names[ts]
}

func epochRequest(topic string, partition, current, epoch int32,
) *kmsg.OffsetForLeaderEpochRequest {
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.ReplicaID = -1
	rt := kmsg.NewOffsetForLeaderEpochRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	rp.Partition, rp.CurrentLeaderEpoch, rp.LeaderEpoch = partition, current, epoch
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

func deleteRecordsRequest(topic string, partition int32, offset int64) *kmsg.DeleteRecordsRequest {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 5000
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewDeleteRecordsRequestTopicPartition()
	rp.Partition, rp.Offset = partition, offset
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

// frameErrors are requests that no decoder takes.
func (e *errorWire) frameErrors() {
	raw := func(label string, body []byte) {
		e.connect()
		frame := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
		answer, err := e.exchange(append(frame, body...))
		codes := "connection closed"
		if err == nil {
			codes = "answered"
		}
		if len(answer) >= 6 && strings.HasPrefix(label, "ApiVersions") {
			codes = codeName(int16(binary.BigEndian.Uint16(answer[4:])))
		}
		e.note(label, codes)
	}
	header := func(key, version int16) []byte {
		b := binary.BigEndian.AppendUint16(nil, uint16(key))
		b = binary.BigEndian.AppendUint16(b, uint16(version))
		b = binary.BigEndian.AppendUint32(b, 7)
		return append(b, 0, 1, 'c')
	}
	raw("Frame v0: unknown key 999", header(999, 0))
	raw("Frame v0: Metadata v99", header(3, 99))
	raw("Frame v0: Produce v2", append(header(0, 2), make([]byte, 12)...))
	raw("Frame v0: Metadata cut short", append(header(3, 1), 0, 0, 0, 9))
	raw("Frame v0: Metadata with a negative array length", append(header(3, 1), 0xff, 0xff, 0xff, 0xf0))
	raw("Frame v0: empty", nil)
	raw("Frame v0: half a header", []byte{0, 3})
	raw("ApiVersions v0: right", header(18, 0))
	raw("ApiVersions v99: unknown version", append(header(18, 99), 0))
	raw("ApiVersions v3: empty client software name", append(header(18, 3), 0, 1, 1, 0))
	raw("ApiVersions v3: client software name with a space",
		append(header(18, 3), 0, 4, 'a', ' ', 'b', 2, '1', 0))
}
