package metadata_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/metadata"
	"github.com/millstream-io/millstream/core/record"
)

// testdata/kafka-4.3.1-cluster-metadata.log is the metadata log of an Apache Kafka 4.3.1 broker of
// one node: eleven topics, configs set at creation and changed later, a restart of no broker.
func kafkaLog(t testing.TB) []record.Batch {
	t.Helper()
	data, err := os.ReadFile("testdata/kafka-4.3.1-cluster-metadata.log")
	require.NoError(t, err)
	var list []record.Batch
	for len(data) > 0 {
		var b record.Batch
		b, data, err = record.Next(data)
		require.NoError(t, err)
		list = append(list, b)
	}
	return list
}

// What kafka-topics --describe, kafka-configs --describe and the broker's answers said.
func TestKafkaMetadataLogIsRead(t *testing.T) {
	m := metadata.NewKafkaMetadata()
	for _, b := range kafkaLog(t) {
		require.NoError(t, m.Add(b))
	}
	topics, err := m.Topics()
	require.NoError(t, err)
	partitions := map[string]int{}
	for _, topic := range topics {
		partitions[topic.Name] = len(topic.LeaderEpoch)
		if topic.Name == "settled" {
			require.Equal(t, "e1533cea-d110-4462-a636-565b064723fb", topic.ID.String())
		}
		for _, epoch := range topic.LeaderEpoch {
			require.Equal(t, int32(1), epoch, "the shutdown took the leader away")
		}
	}
	require.Equal(t, map[string]int{"__consumer_offsets": 4, "__transaction_state": 4,
		"append-time": 1, "codec-gzip": 2, "codec-lz4": 2, "codec-none": 2, "codec-snappy": 2,
		"codec-zstd": 2, "compacted": 1, "deleted": 1, "settled": 1}, partitions)
	require.Equal(t, int64(1000), m.NextProducerID())
	records, refused := m.ConfigRecords(1)
	require.Empty(t, refused)
	configs := map[string]string{}
	for _, r := range records {
		if r, ok := r.(*metadata.TopicConfigRecord); ok {
			for _, topic := range topics {
				if topic.ID == r.TopicID {
					configs[topic.Name+" "+r.Key] = *r.Value
				}
			}
		}
	}
	require.Equal(t, "LogAppendTime", configs["append-time message.timestamp.type"])
	require.Equal(t, "86400000", configs["compacted min.compaction.lag.ms"])
	require.Equal(t, "compact", configs["__consumer_offsets cleanup.policy"])
	require.NotContains(t, configs, "compacted segment.ms", "it was set, then removed")
}

// kafkaBatch makes a batch of Kafka's metadata records, by hand from KIP-631.
func kafkaBatch(t testing.TB, values ...string) record.Batch {
	t.Helper()
	b := record.NewBuilder(record.BuilderOptions{})
	for _, v := range values {
		b.Append(record.Record{Value: []byte(v)})
	}
	batch, err := b.Build()
	require.NoError(t, err)
	return batch
}

const (
	kafkaID    = "0123456789abcdef"
	kafkaTopic = "\x01\x02\x00" + "\x02t" + kafkaID + "\x00"
	// partition 0, one replica, in sync, none moving, leader 1, epoch 6 and partition epoch 9.
	kafkaPartition = "\x01\x03\x00" + "\x00\x00\x00\x00" + kafkaID + "\x02\x00\x00\x00\x01" +
		"\x02\x00\x00\x00\x01" + "\x01" + "\x01" + "\x00\x00\x00\x01" + "\x00\x00\x00\x06" +
		"\x00\x00\x00\x09" + "\x00"
	// In tag 0 who is in sync, in tag 1 the leader.
	kafkaNewLeader = "\x01\x05\x00" + "\x00\x00\x00\x00" + kafkaID + "\x02" +
		"\x00\x05\x02\x00\x00\x00\x01" + "\x01\x04\x00\x00\x00\x01"
	kafkaInSync = "\x01\x05\x00" + "\x00\x00\x00\x00" + kafkaID + "\x01" +
		"\x00\x05\x02\x00\x00\x00\x01"
	kafkaRemoved = "\x01\x09\x00" + kafkaID + "\x00"
)

func TestKafkaMetadataFollowsChanges(t *testing.T) {
	for _, v := range []struct {
		name    string
		records []string
		epochs  []int32 // of topic t; nil: it is not there
	}{
		{"made", []string{kafkaTopic, kafkaPartition}, []int32{6}},
		{"each leader begins an epoch", []string{kafkaTopic, kafkaPartition, kafkaNewLeader,
			kafkaInSync, kafkaNewLeader}, []int32{8}},
		{"removed", []string{kafkaTopic, kafkaPartition, kafkaRemoved}, nil},
		{"aborted", []string{"\x01\x17\x00\x00", kafkaTopic, kafkaPartition, "\x01\x19\x00\x00"}, nil},
		{"not ended", []string{"\x01\x17\x00\x00", kafkaTopic, kafkaPartition}, nil},
		{"ended", []string{"\x01\x17\x00\x00", kafkaTopic, kafkaPartition, "\x01\x18\x00\x00"},
			[]int32{6}},
		{"unknown kinds do not count", []string{"\x01\x7f\x00", kafkaTopic, kafkaPartition}, []int32{6}},
	} {
		m := metadata.NewKafkaMetadata()
		require.NoError(t, m.Add(kafkaBatch(t, v.records...)), v.name)
		topics, err := m.Topics()
		require.NoError(t, err, v.name)
		if v.epochs == nil {
			require.Empty(t, topics, v.name)
			continue
		}
		require.Len(t, topics, 1, v.name)
		require.Equal(t, v.epochs, topics[0].LeaderEpoch, v.name)
	}
}

// Client quotas as KIP-546 writes them: user u and the default of client ids, then the address
// ::1, a change and a removal.
func TestKafkaMetadataHasClientQuotas(t *testing.T) {
	const (
		pair  = "\x01\x0e\x00" + "\x03" + "\x05user\x02u\x00" + "\x0aclient-id\x00\x00"
		ip    = "\x01\x0e\x00" + "\x02" + "\x03ip\x04::1\x00"
		host  = "\x01\x0e\x00" + "\x02" + "\x03ip\x05host\x00"
		rate  = "\x13producer_byte_rate"
		new   = "\x19connection_creation_rate"
		two   = "\x40\x00\x00\x00\x00\x00\x00\x00\x00\x00" // 2.0, set
		three = "\x40\x08\x00\x00\x00\x00\x00\x00\x00\x00"
		gone  = "\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00"
	)
	m := metadata.NewKafkaMetadata()
	require.NoError(t, m.Add(kafkaBatch(t, pair+rate+two, ip+new+two, pair+rate+three,
		host+new+two)))
	records, refused := m.ConfigRecords(1)
	require.Len(t, refused, 1)
	require.ErrorContains(t, refused[0], "host is not a valid IP")
	q := apply(t, metadata.NewImage(1, nil), records...).ClientQuotas()
	require.Len(t, q.Entities(), 2)
	require.Equal(t, map[string]float64{"producer_byte_rate": 3}, q.Get(metadata.QuotaEntity{
		User: metadata.NamedQuota("u"), ClientID: metadata.DefaultQuota}))
	require.Equal(t, map[string]float64{"connection_creation_rate": 2},
		q.Get(metadata.QuotaEntity{IP: metadata.NamedQuota("::1")}))
	require.NoError(t, m.Add(kafkaBatch(t, pair+rate+gone)))
	records, _ = m.ConfigRecords(1)
	require.Len(t, records, 1)
	require.ErrorIs(t, m.Add(kafkaBatch(t, "\x01\x0e\x00\x02\x03ip")), metadata.ErrBadRecord)
}

func TestKafkaMetadataOfALaterVersionIsRefused(t *testing.T) {
	m := metadata.NewKafkaMetadata()
	err := m.Add(kafkaBatch(t, "\x01\x02\x01"+"\x02t"+kafkaID+"\x00"))
	require.ErrorIs(t, err, metadata.ErrUnknownRecord)
}

func FuzzKafkaMetadata(f *testing.F) {
	for _, b := range kafkaLog(f) {
		if !b.IsControl() {
			require.NoError(f, b.Each(1<<20, func(r *record.Record) error {
				f.Add(bytes.Clone(r.Value))
				return nil
			}))
		}
	}
	for _, v := range []string{kafkaTopic, kafkaPartition, kafkaNewLeader, kafkaRemoved} {
		f.Add([]byte(v))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		m := metadata.NewKafkaMetadata()
		// Whatever the bytes are, the answer is an error or a list.
		_ = m.Add(kafkaBatch(t, kafkaTopic, kafkaPartition, string(value)))
		_, _ = m.Topics()
		_, _ = m.ConfigRecords(1)
	})
}
