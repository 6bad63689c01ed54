package protocol_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/protocol"
)

func fetchRequest(version int16) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.SetVersion(version)
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.IsolationLevel = 500, 1, 1<<20, 1
	if version >= 7 {
		req.SessionID, req.SessionEpoch = 0, -1
	}
	req.Rack = "rack-1"
	if version >= 12 {
		cluster := "some-cluster"
		req.ClusterID = &cluster
	}
	for i, name := range []string{"first", "second"} {
		topic := kmsg.NewFetchRequestTopic()
		if version < 13 {
			topic.Topic = name
		} else {
			topic.TopicID = [16]byte{byte(i + 1)}
		}
		for p := range int32(2) {
			part := kmsg.NewFetchRequestTopicPartition()
			part.Partition, part.FetchOffset, part.PartitionMaxBytes = p, 1<<33+int64(p), 4096
			part.CurrentLeaderEpoch, part.LastFetchedEpoch = 4, 3
			if version >= 17 {
				part.ReplicaDirectoryID = [16]byte{1, 2}
			}
			if version >= 18 {
				part.HighWatermark = 99
			}
			topic.Partitions = append(topic.Partitions, part)
		}
		req.Topics = append(req.Topics, topic)
	}
	forgotten := kmsg.NewFetchRequestForgottenTopic()
	forgotten.Topic, forgotten.Partitions = "gone", []int32{1, 2, 3}
	req.ForgottenTopics = append(req.ForgottenTopics, forgotten)
	return req
}

func TestFetchRequestReadsWhatKmsgWrites(t *testing.T) {
	var got protocol.FetchRequest
	for version := int16(4); version <= 18; version++ {
		want := fetchRequest(version)
		require.NoError(t, got.Decode(version, want.AppendTo(nil)), "version %d", version)
		require.Equal(t, int32(-1), got.ReplicaID)
		require.Equal(t, want.MaxWaitMillis, got.MaxWaitMillis)
		require.Equal(t, want.MinBytes, got.MinBytes)
		require.Equal(t, want.MaxBytes, got.MaxBytes)
		require.Equal(t, want.IsolationLevel, got.IsolationLevel)
		require.Equal(t, int32(-1), got.SessionEpoch)
		if version >= 11 {
			require.Equal(t, want.Rack, string(got.Rack))
		}
		require.Len(t, got.Topics, 2)
		for i := range want.Topics {
			require.Equal(t, want.Topics[i].Topic, string(got.Topics[i].Name))
			require.Equal(t, want.Topics[i].TopicID, got.Topics[i].ID)
			parts := got.Partitions[got.Topics[i].First:got.Topics[i].End]
			require.Len(t, parts, 2)
			for j, p := range want.Topics[i].Partitions {
				require.Equal(t, p.Partition, parts[j].Index)
				require.Equal(t, p.FetchOffset, parts[j].Offset)
				require.Equal(t, p.PartitionMaxBytes, parts[j].MaxBytes)
				if version >= 9 {
					require.Equal(t, p.CurrentLeaderEpoch, parts[j].CurrentLeaderEpoch)
				} else {
					require.Equal(t, int32(-1), parts[j].CurrentLeaderEpoch)
				}
				if version >= 12 {
					require.Equal(t, p.LastFetchedEpoch, parts[j].LastFetchedEpoch)
				}
			}
		}
	}
}

// TestFetchRequestKnowsReplicas: a follower's id is a field up to version 14, a tag after it.
func TestFetchRequestKnowsReplicas(t *testing.T) {
	for _, version := range []int16{4, 14, 15, 18} {
		req := fetchRequest(version)
		req.ReplicaID, req.ReplicaState.ID = 3, 3
		var got protocol.FetchRequest
		require.NoError(t, got.Decode(version, req.AppendTo(nil)))
		require.Equal(t, int32(3), got.ReplicaID, "version %d", version)
	}
}

func TestFetchRequestRefusesEveryCut(t *testing.T) {
	var got protocol.FetchRequest
	for version := int16(4); version <= 18; version++ {
		whole := fetchRequest(version).AppendTo(nil)
		for n := range whole {
			require.ErrorIs(t, got.Decode(version, whole[:n]), protocol.ErrMalformed,
				"version %d cut to %d of %d bytes", version, n, len(whole))
		}
	}
}

func TestFetchResponseIsWhatKmsgReads(t *testing.T) {
	records := []byte("these are records")
	for version := int16(4); version <= 18; version++ {
		for _, committed := range []bool{false, true} {
			want := kmsg.NewPtrFetchResponse()
			want.SetVersion(version)
			id := [16]byte{8}
			topic := kmsg.NewFetchResponseTopic()
			if version < 13 {
				topic.Topic = "a-topic"
			} else {
				topic.TopicID = id
			}
			part := kmsg.NewFetchResponseTopicPartition()
			part.Partition, part.HighWatermark, part.LastStableOffset = 2, 10, 10
			part.LogStartOffset, part.RecordBatches = 1, records
			if committed {
				aborted := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
				aborted.ProducerID, aborted.FirstOffset = 1<<40+5, 1<<33+6
				part.AbortedTransactions = append(part.AbortedTransactions, aborted, aborted)
			}
			result := protocol.FetchResult{
				Index: 2, HighWatermark: 10, LastStableOffset: 10, LogStartOffset: 1,
				HasAborted: committed, RecordBytes: len(records),
			}
			if committed {
				one := protocol.AbortedTransaction{ProducerID: 1<<40 + 5, FirstOffset: 1<<33 + 6}
				result.Aborted = []protocol.AbortedTransaction{one, one}
			}
			var nodes []protocol.Endpoint
			if version >= 12 {
				part.DivergingEpoch.Epoch, part.DivergingEpoch.EndOffset = 3, 77
				result.Diverging = &protocol.EpochEnd{Epoch: 3, EndOffset: 77}
				part.CurrentLeader.LeaderID, part.CurrentLeader.LeaderEpoch = -1, 5
				result.Leader = &protocol.CurrentLeader{ID: -1, Epoch: 5}
			}
			if version >= 16 {
				broker := kmsg.NewFetchResponseBroker()
				broker.NodeID, broker.Host, broker.Port = 6, "host", 9092
				want.Brokers = append(want.Brokers, broker)
				nodes = []protocol.Endpoint{{NodeID: 6, Host: "host", Port: 9092}}
			}
			topic.Partitions = append(topic.Partitions, part)
			want.Topics = append(want.Topics, topic)

			b := protocol.AppendFetchStart(nil, version, 0, 0, 0, 1)
			b = protocol.AppendFetchTopic(b, version, "a-topic", id, 1)
			b = protocol.AppendFetchPartition(b, version, &result)
			b = append(b, records...)
			b = protocol.AppendFetchPartitionEnd(b, version, &result)
			b = protocol.AppendTopicEnd(b, version >= 12)
			b = protocol.AppendFetchEnd(b, version, nodes)
			require.Equal(t, want.AppendTo(nil), b, "version %d", version)
		}
	}
}

// FuzzFetchRequest compares with kmsg, which must accept what is accepted here and read the same.
func FuzzFetchRequest(f *testing.F) {
	goldenRequests(f, func(key, version int16, body []byte) {
		if key == protocol.KeyFetch {
			f.Add(version, body)
		}
	})
	for version := int16(4); version <= 18; version++ {
		f.Add(version, fetchRequest(version).AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, version int16, body []byte) {
		if version < 4 || version > 18 {
			return
		}
		var got protocol.FetchRequest
		if got.Decode(version, body) != nil {
			return
		}
		req, err := protocol.DecodeRequest(protocol.KeyFetch, version, body)
		if err != nil {
			return // kmsg reads the insides of tags that are read over here
		}
		want := req.(*kmsg.FetchRequest)
		require.Equal(t, want.SessionID, got.SessionID)
		require.Equal(t, want.SessionEpoch, got.SessionEpoch)
		require.Equal(t, want.MaxWaitMillis, got.MaxWaitMillis)
		require.Len(t, got.Topics, len(want.Topics))
		for i := range want.Topics {
			parts := got.Partitions[got.Topics[i].First:got.Topics[i].End]
			require.Len(t, parts, len(want.Topics[i].Partitions))
			for j, p := range want.Topics[i].Partitions {
				require.Equal(t, p.Partition, parts[j].Index)
				require.Equal(t, p.FetchOffset, parts[j].Offset)
				require.Equal(t, p.PartitionMaxBytes, parts[j].MaxBytes)
			}
		}
		require.Len(t, got.Forgotten, len(want.ForgottenTopics))
		for i := range want.ForgottenTopics {
			f := got.Forgotten[i]
			require.Len(t, want.ForgottenTopics[i].Partitions, f.End-f.First)
		}
	})
}

func BenchmarkFetchRequestDecode(b *testing.B) {
	body := fetchRequest(12).AppendTo(nil)
	var req protocol.FetchRequest
	b.ReportAllocs()
	for b.Loop() {
		if err := req.Decode(12, body); err != nil {
			b.Fatal(err)
		}
	}
}
