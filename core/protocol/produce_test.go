package protocol_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/protocol"
)

// produceRequest is a request with two topics, as kmsg encodes it. kmsg is the independent
// implementation that the hand-written codec is compared with.
func produceRequest(version int16) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.SetVersion(version)
	id := "txn"
	req.TransactionID = &id
	req.Acks, req.TimeoutMillis = -1, 1234
	for i, name := range []string{"first", "second"} {
		topic := kmsg.NewProduceRequestTopic()
		if version < 13 {
			topic.Topic = name
		} else {
			topic.TopicID = [16]byte{byte(i + 1), 15: 9}
		}
		for p := range int32(2) {
			part := kmsg.NewProduceRequestTopicPartition()
			part.Partition = p + 7
			if p == 0 {
				part.Records = []byte("records of " + name)
			}
			if version >= 9 {
				part.UnknownTags.Set(77, []byte("from the future"))
			}
			topic.Partitions = append(topic.Partitions, part)
		}
		req.Topics = append(req.Topics, topic)
	}
	return req
}

func TestProduceRequestReadsWhatKmsgWrites(t *testing.T) {
	var got protocol.ProduceRequest
	for version := int16(3); version <= 13; version++ {
		want := produceRequest(version)
		require.NoError(t, got.Decode(version, want.AppendTo(nil)))
		require.Equal(t, "txn", string(got.TransactionalID))
		require.Equal(t, want.Acks, got.Acks)
		require.Equal(t, want.TimeoutMillis, got.TimeoutMillis)
		require.Len(t, got.Topics, 2)
		for i := range want.Topics {
			topic := got.Topics[i]
			require.Equal(t, want.Topics[i].Topic, string(topic.Name), "version %d", version)
			require.Equal(t, want.Topics[i].TopicID, topic.ID)
			parts := got.Partitions[topic.First:topic.End]
			require.Len(t, parts, 2)
			for j, p := range want.Topics[i].Partitions {
				require.Equal(t, p.Partition, parts[j].Index)
				require.Equal(t, p.Records, parts[j].Records)
			}
		}
	}
}

func TestProduceRequestRefusesEveryCut(t *testing.T) {
	var got protocol.ProduceRequest
	for version := int16(3); version <= 13; version++ {
		whole := produceRequest(version).AppendTo(nil)
		for n := range whole {
			require.ErrorIs(t, got.Decode(version, whole[:n]), protocol.ErrMalformed,
				"version %d cut to %d of %d bytes", version, n, len(whole))
		}
	}
}

// TestProduceRequestBoundsArrays: an array length is believed only as far as bytes are there.
func TestProduceRequestBoundsArrays(t *testing.T) {
	body := []byte{0xff, 0xff} // no transactional id
	body = binary.BigEndian.AppendUint16(body, 1)
	body = binary.BigEndian.AppendUint32(body, 1000)
	body = binary.BigEndian.AppendUint32(body, 1<<31-1) // topics
	body = append(body, make([]byte, 64)...)
	allocated := testing.AllocsPerRun(10, func() {
		var got protocol.ProduceRequest
		if got.Decode(3, body) == nil {
			t.Fatal("accepted")
		}
	})
	require.LessOrEqual(t, allocated, 4.0) // the error and its text
}

func TestProduceResponseIsWhatKmsgReads(t *testing.T) {
	for version := int16(3); version <= 13; version++ {
		want := kmsg.NewPtrProduceResponse()
		want.SetVersion(version)
		id := [16]byte{1, 2, 3}
		topic := kmsg.NewProduceResponseTopic()
		if version < 13 {
			topic.Topic = "a-topic"
		} else {
			topic.TopicID = id
		}
		ok := kmsg.NewProduceResponseTopicPartition()
		ok.Partition, ok.BaseOffset, ok.LogAppendTime = 3, 1<<40, -1
		ok.LogStartOffset = 5
		bad := kmsg.NewProduceResponseTopicPartition()
		bad.Partition, bad.BaseOffset, bad.LogAppendTime, bad.ErrorCode = 4, -1, -1, 87
		bad.LogStartOffset = -1
		why, which := "no key", "record 2 has no key"
		bad.ErrorMessage = &why
		re := kmsg.NewProduceResponseTopicPartitionErrorRecord()
		re.RelativeOffset, re.ErrorMessage = 2, &which
		bad.ErrorRecords = append(bad.ErrorRecords, re)
		results := []protocol.ProduceResult{
			{Index: 3, BaseOffset: 1 << 40, LogAppendTime: -1, LogStartOffset: 5},
			{Index: 4, BaseOffset: -1, LogAppendTime: -1, LogStartOffset: -1, ErrorCode: 87,
				ErrorMessage: why, RecordErrors: []protocol.RecordError{{2, which}}},
		}
		var nodes []protocol.Endpoint
		if version >= 10 {
			bad.CurrentLeader.LeaderID, bad.CurrentLeader.LeaderEpoch = 6, 11
			results[1].Leader = &protocol.CurrentLeader{ID: 6, Epoch: 11}
			broker := kmsg.NewProduceResponseBroker()
			broker.NodeID, broker.Host, broker.Port = 6, "host", 9092
			want.Brokers = append(want.Brokers, broker)
			nodes = []protocol.Endpoint{{NodeID: 6, Host: "host", Port: 9092}}
		}
		topic.Partitions = append(topic.Partitions, ok, bad)
		want.Topics = append(want.Topics, topic)

		b := protocol.AppendProduceTopics(nil, version, 1)
		b = protocol.AppendProduceTopic(b, version, "a-topic", id, 2)
		b = protocol.AppendProducePartition(b, version, &results[0])
		b = protocol.AppendProducePartition(b, version, &results[1])
		b = protocol.AppendTopicEnd(b, version >= 9)
		b = protocol.AppendProduceEnd(b, version, 0, nodes)
		require.Equal(t, want.AppendTo(nil), b, "version %d", version)
	}
}

func FuzzProduceRequest(f *testing.F) {
	goldenRequests(f, func(key, version int16, body []byte) {
		if key == protocol.KeyProduce {
			f.Add(version, body)
		}
	})
	for version := int16(3); version <= 13; version++ {
		f.Add(version, produceRequest(version).AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, version int16, body []byte) {
		if version < 3 || version > 13 {
			return
		}
		var got protocol.ProduceRequest
		if got.Decode(version, body) != nil {
			return
		}
		req, err := protocol.DecodeRequest(protocol.KeyProduce, version, body)
		require.NoError(t, err, "kmsg refuses what is accepted here")
		want := req.(*kmsg.ProduceRequest)
		require.Len(t, got.Topics, len(want.Topics))
		for i := range want.Topics {
			require.Len(t, want.Topics[i].Partitions, got.Topics[i].End-got.Topics[i].First)
		}
	})
}

func BenchmarkProduceRequestDecode(b *testing.B) {
	body := produceRequest(9).AppendTo(nil)
	var req protocol.ProduceRequest
	b.ReportAllocs()
	for b.Loop() {
		if err := req.Decode(9, body); err != nil {
			b.Fatal(err)
		}
	}
}
