package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/record"
)

const readsGolden = "testdata/reads_kafka_4.4.0.txt"

// onPurpose are the questions that are answered in another way than Kafka does, with the reason.
var onPurpose = []struct{ question, why string }{
	{"sized 100", "whole batches, where Kafka cuts the last one to the limit of the partition"},
	{"sized 150", "the same"},
	{"negative limit", "a batch, where Kafka says UNKNOWN_SERVER_ERROR"},
	{"isolation 2", "an error for each partition, where Kafka has one for all too from 7 on"},
	{"topic in two places", "in the order of the request, where Kafka joins them"},
	{"partition named twice", "twice, where Kafka answers the last"},
	{"p2 iso0 ep-1 ts-3", "a deleted record is not found"},
	{"p2 iso1 ep-1 ts-3", "a deleted record is not found"},
	{"p2 iso0 ep0 ts-3", "a deleted record is not found"},
	{"p2 iso1 ep0 ts-3", "a deleted record is not found"},
	{"epoch-7", "no epoch is below 0: Kafka answers it with itself"},
	{"broker 1 v16", "with the address of the leader (KIP-951)"},
	{"broker 1 v18", "with the address of the leader (KIP-951)"},
	{"broker 2 v16", "with the address of the leader (KIP-951)"},
	{"broker 2 v18", "with the address of the leader (KIP-951)"},
}

// TestReadsAnswerAsKafkaDoes asks Fetch, ListOffsets and OffsetForLeaderEpoch in many versions,
// well and badly, and compares with what an Apache Kafka 4.4.0 answered to the same requests.
// Record it again with a fresh one-node Kafka:
//
//	go test ./core/server -run ReadsAnswerAsKafka -record-from 127.0.0.1:19092
func TestReadsAnswerAsKafkaDoes(t *testing.T) {
	w := &readWire{t: t, broker: newAnswerer(t, nil)}
	w.fetches()
	w.sessions()
	w.listOffsets()
	w.epochs()
	w.transactions()
	differ := map[string]bool{}
	compareAnswers(t, readsGolden, w.out.String(), func(got, want string) bool {
		question, _, _ := strings.Cut(got, ":")
		purpose := purposeOf(question)
		differ[purpose] = differ[purpose] || got != want
		return purpose != ""
	})
	for _, p := range onPurpose {
		assert.True(t, differ[p.question] || *recordFrom != "",
			"%q is answered as Kafka does: take it off the list", p.question)
	}
}

// purposeOf finds a question in the list of those that are answered in another way.
func purposeOf(question string) string {
	for _, p := range onPurpose {
		if strings.Contains(question+" ", p.question+" ") {
			return p.question
		}
	}
	return ""
}

// readWire sends requests and writes down the answers.
type readWire struct {
	t      *testing.T
	broker answerer
	out    strings.Builder
}

func (w *readWire) dial() *wire {
	conn := w.broker.connect(w.t)
	w.t.Cleanup(func() { _ = conn.Close() })
	return &wire{t: w.t, c: conn}
}

// topic makes a topic that keeps records of any age, and waits until it is served.
func (w *readWire) topic(name string, partitions int32) [16]byte {
	on, forever := w.dial(), "-1"
	req := kmsg.NewPtrCreateTopicsRequest()
	req.SetVersion(7)
	req.TimeoutMillis = 10000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, 1
	config := kmsg.NewCreateTopicsRequestTopicConfig()
	config.Name, config.Value = "retention.ms", &forever
	topic.Configs = append(topic.Configs, config)
	req.Topics = append(req.Topics, topic)
	made := ask[*kmsg.CreateTopicsResponse](on, req).Topics[0]
	require.Zero(w.t, made.ErrorCode)
	require.Eventually(w.t, func() bool {
		for p := range partitions {
			req := fetchRequest(13, name, made.TopicID, p, 0)
			if fetchOne(on, req).ErrorCode != 0 {
				return false
			}
		}
		return true
	}, waitLong, waitShort)
	return made.TopicID
}

// stamped is a batch of one record for each timestamp.
func stamped(t testing.TB, timestamps ...int64) []byte {
	t.Helper()
	b := record.NewBuilder(record.BuilderOptions{})
	for _, ts := range timestamps {
		b.Append(record.Record{Timestamp: ts, Value: []byte("value")})
	}
	out, err := b.Build()
	require.NoError(t, err)
	return append([]byte(nil), out...)
}

// put appends a batch.
func (w *readWire) put(on *wire, topic string, partition int32, timestamps ...int64) {
	w.t.Helper()
	got := produceOne(on, produceRequest(9, topic, [16]byte{}, partition,
		stamped(w.t, timestamps...)))
	require.Zero(w.t, got.ErrorCode)
}

// deleteBefore moves the starts of the logs of a topic.
func deleteBefore(w *wire, topic string, starts map[int32]int64) {
	w.t.Helper()
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 5000
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic = topic
	for partition, offset := range starts {
		rp := kmsg.NewDeleteRecordsRequestTopicPartition()
		rp.Partition, rp.Offset = partition, offset
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)
	for _, p := range ask[*kmsg.DeleteRecordsResponse](w, req).Topics[0].Partitions {
		require.Zero(w.t, p.ErrorCode)
	}
}

// listOffsets asks for every special time and some others: of a log with times out of order, an
// empty one, an emptied one, one whose start has moved, and one that is not there.
func (w *readWire) listOffsets() {
	on := w.dial()
	w.topic("lists", 5)
	w.put(on, "lists", 0, 1000, 1001, 1002)
	w.put(on, "lists", 0, 2000)
	w.put(on, "lists", 0, 1500, 3000, 2500)
	w.put(on, "lists", 0, 3000, 100)
	w.put(on, "lists", 2, 5, 6, 7)
	for _, ts := range [][]int64{{10}, {20}, {30, 25}, {5}} {
		w.put(on, "lists", 4, ts...)
	}
	deleteBefore(on, "lists", map[int32]int64{2: 3, 4: 2})
	times := []int64{-1, -2, -3, -4, -5, -6, -7, -100, 0, 5, 6, 8, 11, 25, 26, 30, 31, 100, 1000,
		1001, 1003, 1500, 1501, 2001, 2999, 3000, 3001, 1 << 62}
	for _, version := range []int16{1, 2, 4, 7, 8, 9, 11} {
		for _, iso := range []int8{0, 1} {
			for _, epoch := range []int32{-1, 0, 1, -5} {
				if iso > 0 && version < 2 || epoch != -1 && version < 4 {
					continue
				}
				for p := range int32(6) {
					for _, ts := range times {
						asked := iso > 0 || epoch != -1 || version != 1 && version != 11
						if asked && ts > 0 {
							continue // the times were asked already
						}
						w.listOffset(on, version, iso, epoch, p, ts)
					}
				}
			}
		}
	}
}

func (w *readWire) listOffset(on *wire, version int16, iso int8, epoch, p int32, ts int64) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.SetVersion(version)
	req.ReplicaID, req.IsolationLevel, req.TimeoutMillis = -1, iso, 1000
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = "lists"
	rp := kmsg.NewListOffsetsRequestTopicPartition()
	rp.Partition, rp.Timestamp, rp.CurrentLeaderEpoch = p, ts, epoch
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	got := ask[*kmsg.ListOffsetsResponse](on, req).Topics[0].Partitions[0]
	fmt.Fprintf(&w.out, "list v%d p%d iso%d ep%d ts%d : error %d time %d offset %d epoch %d\n",
		version, p, iso, epoch, ts, got.ErrorCode, got.Timestamp, got.Offset, got.LeaderEpoch)
}

// epochs asks OffsetForLeaderEpoch.
func (w *readWire) epochs() {
	on := w.dial()
	for _, version := range []int16{2, 4} {
		for _, current := range []int32{-1, 0, 1, -5} {
			for _, replica := range []int32{-1, 1, 5} {
				for p := int32(-1); p < 6; p++ {
					for _, epoch := range []int32{-1, 0, 1, 5, -7} {
						if replica != -1 && p != 0 {
							continue
						}
						w.epoch(on, version, current, replica, p, epoch)
					}
				}
			}
		}
	}
}

func (w *readWire) epoch(on *wire, version int16, current, replica, p, epoch int32) {
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.SetVersion(version)
	req.ReplicaID = replica
	rt := kmsg.NewOffsetForLeaderEpochRequestTopic()
	rt.Topic = "lists"
	rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	rp.Partition, rp.LeaderEpoch, rp.CurrentLeaderEpoch = p, epoch, current
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	got := ask[*kmsg.OffsetForLeaderEpochResponse](on, req).Topics[0].Partitions[0]
	fmt.Fprintf(&w.out, "epoch v%d p%d cur%d replica%d epoch%d : error %d epoch %d end %d\n",
		version, p, current, replica, epoch, got.ErrorCode, got.LeaderEpoch, got.EndOffset)
}
