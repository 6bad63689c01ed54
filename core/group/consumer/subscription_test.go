package consumer

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/group/assign"
)

// The bytes are those of Kafka's own ConsumerProtocol, as its message definitions have them.
const (
	subscriptionV3 = "\x00\x03\x00\x00\x00\x01\x00\x02t1\xff\xff\xff\xff" + // topics, user data
		"\x00\x00\x00\x01\x00\x02t1\x00\x00\x00\x02\x00\x00\x00\x04\x00\x00\x00\x05" + // owned
		"\x00\x00\x00\x07\x00\x02r1" // generation, rack
	assignmentV1 = "\x00\x01\x00\x00\x00\x01\x00\x02t1\x00\x00\x00\x01\x00\x00\x00\x04" +
		"\x00\x00\x00\x01x"
)

func TestReadsTheConsumersOwnProtocol(t *testing.T) {
	s, ok := readSubscription([]byte(subscriptionV3))
	require.True(t, ok)
	require.Equal(t, subscription{
		version: 3, topics: []string{"t1"}, rack: new("r1"),
		owned: []topicPartitions{{"t1", []int32{4, 5}}},
	}, s)
	s, ok = readSubscription([]byte("\x00\x00\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff"))
	require.True(t, ok)
	require.Equal(t, subscription{topics: []string{"t"}}, s)
	list, userData, ok := readClassicAssignment([]byte(assignmentV1))
	require.True(t, ok)
	require.Equal(t, []topicPartitions{{"t1", []int32{4}}}, list)
	require.Equal(t, "x", string(userData))
	for n := range len(subscriptionV3) {
		_, ok := readSubscription([]byte(subscriptionV3[:n]))
		require.False(t, ok, "cut at %d", n)
	}
}

// FuzzClassicMetadata looks for metadata of clients that panics or takes much memory.
func FuzzClassicMetadata(f *testing.F) {
	f.Add([]byte(subscriptionV3))
	f.Add([]byte(assignmentV1))
	f.Fuzz(func(_ *testing.T, b []byte) {
		readSubscription(b)
		readClassicAssignment(b)
	})
}

func TestHashOfNothingIsZero(t *testing.T) {
	require.Zero(t, hashTopics(nil, nil))
	a := Topic{Name: "t", ID: uuid.UUID{1}, Partitions: 2}
	b := a
	b.Racks = func(p int32) []string { return []string{"r"} }
	require.NotEqual(t, a.hash(), b.hash(), "racks count")
}

func TestAssignmentKeepsTheEpochOfEachPartition(t *testing.T) {
	topic := uuid.UUID{1}
	a := at(assign.Partitions{topic: {0, 2}}, 3)
	a.put(topic, 1, 5)
	require.Equal(t, []int32{3, 5, 3}, a.list()[0].Epochs)
	require.Equal(t, a, readAssignment(a.list(), 9))
}
