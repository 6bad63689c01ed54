package offsets

import (
	"os"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
)

// kafkaRecords are the records of a __consumer_offsets that an Apache Kafka 4.4.0 wrote while
// TestKIP848_AnswersAsKafkaDoes was recorded.
func kafkaRecords(t testing.TB) []record.Record {
	b, err := os.ReadFile("../testdata/kafka_4.4.0/consumer_groups.log")
	require.NoError(t, err)
	var list []record.Record
	for len(b) > 0 {
		batch, rest, err := record.Next(b)
		require.NoError(t, err)
		b = rest
		require.NoError(t, batch.Each(1<<20, func(r *record.Record) error {
			list = append(list, r.Clone())
			return nil
		}))
	}
	return list
}

// again decodes a value and encodes it.
func again(kind Kind, value []byte) ([]byte, error) {
	switch kind {
	case KindConsumerGroup:
		v, err := ReadConsumerGroup(value)
		return v.Append(), err
	case KindConsumerMember:
		v, err := ReadConsumerMember(value)
		return v.Append(), err
	case KindConsumerTarget:
		v, err := ReadConsumerTarget(value)
		return v.Append(), err
	case KindConsumerAssignment:
		v, err := ReadConsumerAssignment(value)
		return AppendConsumerAssignment(v), err
	case KindConsumerCurrent:
		v, err := ReadConsumerCurrent(value)
		return v.Append(), err
	case KindConsumerRegex:
		v, err := ReadConsumerRegex(value)
		return v.Append(), err
	}
	return value, nil
}

func TestConsumerRecordsAreKafkas(t *testing.T) {
	seen := make(map[Kind]int)
	for _, r := range kafkaRecords(t) {
		k, err := ReadKey(r.Key)
		require.NoError(t, err)
		if k.Kind < KindConsumerGroup {
			continue
		}
		require.Equal(t, r.Key, AppendConsumerKey(nil, k))
		if r.Value == nil {
			seen[-k.Kind]++
			continue
		}
		seen[k.Kind]++
		b, err := again(k.Kind, r.Value)
		require.NoError(t, err)
		require.Equal(t, r.Value, b, "record at offset %d: %+v", r.Offset, k)
	}
	for kind := KindConsumerGroup; kind <= KindConsumerRegex; kind++ {
		if kind != KindConsumerPartitions {
			require.Positive(t, seen[kind], "kind %d", kind)
		}
		require.Positive(t, seen[-kind], "tombstone of kind %d", kind)
	}
}

func TestConsumerValuesWithoutWhatIsNewer(t *testing.T) {
	// Kafka 4.0 wrote no epochs, no hash and no timestamp: made by hand after its message
	// formats.
	c, err := ReadConsumerCurrent(unhex(t, `0000 00000003 00000002 01
		02 00000000000000000000000000000007 03 00000000 00000001 00
		01 00`))
	require.NoError(t, err)
	topic := uuid.UUID{15: 7}
	require.Equal(t, ConsumerCurrent{
		Epoch: 3, PreviousEpoch: 2, State: 1,
		Assigned: []TopicPartitions{{TopicID: topic, Partitions: []int32{0, 1}}},
		Revoking: []TopicPartitions{},
	}, c)
	g, err := ReadConsumerGroup(unhex(t, "0000 00000005 00"))
	require.NoError(t, err)
	require.Equal(t, ConsumerGroup{Epoch: 5}, g)
	v, err := ReadConsumerTarget(unhex(t, "0000 00000005 00"))
	require.NoError(t, err)
	require.Equal(t, ConsumerTarget{Epoch: 5}, v)
	_, err = ReadConsumerGroup(unhex(t, "0001 00000005 00"))
	require.ErrorIs(t, err, ErrUnknownVersion)
}

// FuzzConsumerValues looks for inputs that panic, take much memory, or do not come back as they
// are.
func FuzzConsumerValues(f *testing.F) {
	for _, r := range kafkaRecords(f) {
		if k, err := ReadKey(r.Key); err == nil && k.Kind >= KindConsumerGroup {
			f.Add(int(k.Kind), r.Value)
		}
	}
	f.Fuzz(func(t *testing.T, kind int, value []byte) {
		b, err := again(Kind(kind), value)
		if err != nil {
			return
		}
		c, err := again(Kind(kind), b)
		require.NoError(t, err)
		require.Equal(t, b, c)
	})
}
