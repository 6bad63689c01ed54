package server_test

import (
	"encoding/binary"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/core/record"
)

func produceOne(w *wire, req *kmsg.ProduceRequest) kmsg.ProduceResponseTopicPartition {
	w.t.Helper()
	resp := ask[*kmsg.ProduceResponse](w, req)
	require.Len(w.t, resp.Topics, 1)
	require.Len(w.t, resp.Topics[0].Partitions, 1)
	return resp.Topics[0].Partitions[0]
}

// reseal computes the CRC of an edited batch: CRC-32C of everything from byte 21 on.
func reseal(b []byte) []byte {
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// produceCase is one line of TestProduceAnswersEachFaultWithItsCode.
type produceCase struct {
	name    string
	topic   string // default "t"
	records []byte
	change  func(*kmsg.ProduceRequest)
	code    int16
}

// produceCases has its codes from a real Kafka 4.3.1, asked over the wire, and from its
// LogValidator.
func produceCases(t *testing.T) []produceCase {
	good := func() []byte { return batch(t, 2, record.BuilderOptions{}) }
	keyless := record.NewBuilder(record.BuilderOptions{})
	keyless.Append(record.Record{Timestamp: 1, Key: []byte("k")})
	keyless.Append(record.Record{Timestamp: 1})
	noKey, err := keyless.Build()
	require.NoError(t, err)
	large := record.NewBuilder(record.BuilderOptions{})
	large.Append(record.Record{Timestamp: 1, Value: []byte(strings.Repeat("x", 2000))})
	tooLarge, err := large.Build()
	require.NoError(t, err)
	withID := func(opts record.BuilderOptions) []byte {
		opts.Idempotent, opts.ProducerID = true, 5
		return batch(t, 1, opts)
	}
	return append(batchCases(good), []produceCase{
		{name: "good", code: 0, records: good()},
		{name: "unknown topic", topic: "nope", code: 3, records: good()},
		{name: "unknown partition", code: 3, records: good(), change: partition(7)},
		{name: "negative partition", code: 3, records: good(), change: partition(-1)},
		{name: "acks 2", code: 21, records: good(),
			change: func(r *kmsg.ProduceRequest) { r.Acks = 2 }},
		{name: "transactional", code: 53, records: withID(
			record.BuilderOptions{Transactional: true})},
		{name: "no sequence", code: 87, records: withID(record.BuilderOptions{BaseSequence: -1})},
		{name: "no key in a compacted topic", topic: "compacted", code: 87, records: noKey},
		{name: "too old", topic: "recent", code: 32, records: good()},
		{name: "too large", topic: "small", code: 10, records: tooLarge},
		{name: "internal topic", topic: "__consumer_offsets", code: 17, records: good()},
	}...)
}

// batchCases are batches that break the format.
func batchCases(good func() []byte) []produceCase {
	edit := func(at int, v byte) []byte {
		b := good()
		b[at] = v
		return reseal(b)
	}
	badCRC := good()
	badCRC[len(badCRC)-1] ^= 1
	return []produceCase{
		{name: "magic 0", code: 87, records: edit(16, 0)},
		{name: "magic 1", code: 87, records: edit(16, 1)},
		{name: "magic 3", code: 2, records: edit(16, 3)},
		{name: "two batches", code: 87, records: append(good(), good()...)},
		{name: "no batch", code: 87, records: []byte{}},
		{name: "null", code: 87},
		{name: "bad CRC", code: 2, records: badCRC},
		{name: "cut short", code: 87, records: good()[:70]},
		{name: "wrong count", code: 87, records: edit(60, 3)},
		{name: "wrong last offset delta", code: 87, records: edit(26, 7)},
		{name: "control batch", code: 87, records: edit(22, 0x20)},
		{name: "unknown codec", code: 87, records: edit(22, 7)},
	}
}

// TestProduceAnswersEachFaultWithItsCode: base offset is -1 on error, and a message says why.
func TestProduceAnswersEachFaultWithItsCode(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	compact, second := "compact", "1000"
	id := newTopic(t, c, "t", 1, nil)
	newTopic(t, c, "compacted", 1, map[string]*string{"cleanup.policy": &compact})
	newTopic(t, c, "recent", 1, map[string]*string{"message.timestamp.before.max.ms": &second})
	newTopic(t, c, "small", 1, map[string]*string{"max.message.bytes": &second})
	find := kmsg.NewPtrFindCoordinatorRequest() // makes the internal topic
	find.CoordinatorKey = "g"
	ask[*kmsg.FindCoordinatorResponse](dial(t, c), find)
	for _, v := range produceCases(t) {
		t.Run(v.name, func(t *testing.T) {
			topic := v.topic
			if topic == "" {
				topic = "t"
			}
			req := produceRequest(9, topic, id, 0, v.records)
			if v.change != nil {
				v.change(req)
			}
			got := produceOne(dial(t, c), req)
			require.Equal(t, v.code, got.ErrorCode, "message: %v", got.ErrorMessage)
			if v.code == 0 {
				require.Equal(t, int64(0), got.BaseOffset)
				return
			}
			require.Equal(t, int64(-1), got.BaseOffset)
			require.Equal(t, int64(-1), got.LogAppendTime)
			require.NotNil(t, got.ErrorMessage)
			if v.topic == "compacted" {
				require.Len(t, got.ErrorRecords, 1)
				require.Equal(t, int32(1), got.ErrorRecords[0].RelativeOffset)
			}
		})
	}
}

func partition(n int32) func(*kmsg.ProduceRequest) {
	return func(r *kmsg.ProduceRequest) { r.Topics[0].Partitions[0].Partition = n }
}

// TestProduceIsAnsweredInRequestOrder: every topic and partition, good and bad, in the order of
// the request.
func TestProduceIsAnsweredInRequestOrder(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	newTopic(t, c, "b", 3, nil)
	newTopic(t, c, "a", 1, nil)
	req := kmsg.NewPtrProduceRequest()
	req.SetVersion(9)
	req.Acks, req.TimeoutMillis = -1, 5000
	for _, topic := range []string{"b", "nope", "a"} {
		rt := kmsg.NewProduceRequestTopic()
		rt.Topic = topic
		for _, p := range []int32{2, 0, 9} {
			rp := kmsg.NewProduceRequestTopicPartition()
			rp.Partition, rp.Records = p, batch(t, 1, record.BuilderOptions{})
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
	}
	resp := ask[*kmsg.ProduceResponse](dial(t, c), req)
	var got []any
	for _, rt := range resp.Topics {
		got = append(got, rt.Topic)
		for _, p := range rt.Partitions {
			got = append(got, p.Partition, p.ErrorCode)
		}
	}
	require.Equal(t, []any{
		"b", int32(2), int16(0), int32(0), int16(0), int32(9), int16(3),
		"nope", int32(2), int16(3), int32(0), int16(3), int32(9), int16(3),
		"a", int32(2), int16(3), int32(0), int16(0), int32(9), int16(3),
	}, got)
}

// TestProduceByTopicID: version 13 names topics by id (KIP-516).
func TestProduceByTopicID(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	id := newTopic(t, c, "t", 1, nil)
	w := dial(t, c)
	got := produceOne(w, produceRequest(13, "", id, 0, batch(t, 1, record.BuilderOptions{})))
	require.Equal(t, int16(0), got.ErrorCode)
	got = produceOne(w, produceRequest(13, "", [16]byte{1, 2}, 0,
		batch(t, 1, record.BuilderOptions{})))
	require.Equal(t, int16(100), got.ErrorCode)
	got = produceOne(w, produceRequest(13, "", id, 4, batch(t, 1, record.BuilderOptions{})))
	require.Equal(t, int16(3), got.ErrorCode)
}

// TestKIP98_RepeatsAreAnsweredOnce: a batch sent again gets the offset of the first time; a gap
// and an older epoch are refused.
func TestKIP98_RepeatsAreAnsweredOnce(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	id := newTopic(t, c, "t", 1, nil)
	w := dial(t, c)
	send := func(epoch int16, sequence int32) kmsg.ProduceResponseTopicPartition {
		return produceOne(w, produceRequest(9, "t", id, 0, batch(t, 2, record.BuilderOptions{
			Idempotent: true, ProducerID: 9, ProducerEpoch: epoch, BaseSequence: sequence,
		})))
	}
	for i := range int32(6) {
		require.Equal(t, int64(2*i), send(1, 2*i).BaseOffset)
	}
	require.Equal(t, int64(4), send(1, 4).BaseOffset, "one of the last five")
	require.Equal(t, int16(45), send(1, 0).ErrorCode, "older than the last five")
	require.Equal(t, int16(45), send(1, 14).ErrorCode, "a gap")
	require.Equal(t, int16(47), send(0, 12).ErrorCode, "an older epoch")
	require.Equal(t, int16(45), send(2, 12).ErrorCode, "a new epoch starts at 0")
	require.Equal(t, int64(12), send(2, 0).BaseOffset)
}

// TestAcksNoneGetsNoAnswer: no answer, and an error closes the connection.
func TestAcksNoneGetsNoAnswer(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	id := newTopic(t, c, "t", 1, nil)
	w := dial(t, c)
	for range 3 {
		req := produceRequest(9, "t", id, 0, batch(t, 1, record.BuilderOptions{}))
		req.Acks = 0
		w.send(req)
	}
	got := produceOne(w, produceRequest(9, "t", id, 0, batch(t, 1, record.BuilderOptions{})))
	require.Equal(t, int64(3), got.BaseOffset)
	req := produceRequest(9, "nope", id, 0, batch(t, 1, record.BuilderOptions{}))
	req.Acks = 0
	w.send(req)
	requireHangUp(t, w)
}

// TestLogAppendTime: the broker's time is in the answer and in the records.
func TestLogAppendTime(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	kind := "LogAppendTime"
	id := newTopic(t, c, "t", 1, map[string]*string{"message.timestamp.type": &kind})
	w := dial(t, c)
	got := produceOne(w, produceRequest(9, "t", id, 0, batch(t, 3, record.BuilderOptions{})))
	require.Equal(t, int16(0), got.ErrorCode)
	require.Greater(t, got.LogAppendTime, int64(1_700_000_000_000))
	part := fetchOne(w, fetchRequest(12, "t", id, 0, 0))
	b, _, err := record.Next(part.RecordBatches)
	require.NoError(t, err)
	require.NoError(t, b.CheckCRC())
	require.Equal(t, got.LogAppendTime, b.MaxTimestamp())
}

// TestLargeProduceComesFirst: clients with fixed versions, and those that asked on another
// connection, begin with the records.
func TestLargeProduceComesFirst(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	newTopic(t, c, "t", 1, nil)
	b := record.NewBuilder(record.BuilderOptions{})
	b.Append(record.Record{Timestamp: 1, Value: []byte(strings.Repeat("x", 900_000))})
	records, err := b.Build()
	require.NoError(t, err)
	got := produceOne(dial(t, c), produceRequest(9, "t", [16]byte{}, 0, records))
	require.Zero(t, got.ErrorCode)
}
