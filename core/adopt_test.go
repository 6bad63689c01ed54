package core_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/core"
	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/vfs"
	"github.com/millstream-io/millstream/core/vnet"
)

// kafkaMetadata writes the metadata log that Kafka would have of a topic, its records by hand from
// KIP-631: TopicRecord, PartitionRecords, ConfigRecords, ProducerIdsRecord.
func kafkaMetadata(t *testing.T, disk vfs.FS, topic string, id kadm.TopicID, partitions int) {
	t.Helper()
	str := func(s string) string { return string(rune(len(s)+1)) + s }
	one := "\x02\x00\x00\x00\x01"
	values := []string{"\x01\x02\x00" + str(topic) + string(id[:]) + "\x00"}
	for i := range partitions {
		index := binary.BigEndian.AppendUint32(nil, uint32(i))
		values = append(values, "\x01\x03\x00"+string(index)+string(id[:])+one+one+"\x01\x01"+
			"\x00\x00\x00\x01"+"\x00\x00\x00\x07"+"\x00\x00\x00\x08"+"\x00")
	}
	config := func(key, value string) string {
		return "\x01\x04\x00" + "\x02" + str(topic) + str(key) + str(value) + "\x00"
	}
	values = append(values, config("retention.ms", "123456789"), config("no.such.config", "1"),
		"\x01\x0f\x00"+"\x00\x00\x00\x01"+"\x00\x00\x00\x00\x00\x00\x00\x05"+
			"\x00\x00\x00\x00\x00\x00\x0b\xb8"+"\x00")
	b := record.NewBuilder(record.BuilderOptions{})
	for _, v := range values {
		b.Append(record.Record{Value: []byte(v)})
	}
	batch, err := b.Build()
	require.NoError(t, err)
	dir := "/millstream/data/__cluster_metadata-0"
	require.NoError(t, disk.MkdirAll(dir, 0o755))
	require.NoError(t, vfs.WriteFileAtomic(disk, dir+"/00000000000000000000.log", batch, 0o644))
}

// withoutMetadata makes a directory as Kafka would leave it: three records in each of two
// partitions, and no metadata log of this project.
func withoutMetadata(t *testing.T) (*vfs.Mem, *coretest.Cluster, kadm.TopicID) {
	t.Helper()
	disk := vfs.NewMem()
	c := coretest.Start(t, coretest.Options{FS: disk})
	made, err := kadm.NewClient(c.Client()).CreateTopic(testContext(t), 2, 1, nil, "t")
	require.NoError(t, err)
	client := c.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for i := range 6 {
		require.NoError(t, client.ProduceSync(testContext(t), &kgo.Record{Topic: "t",
			Partition: int32(i % 2), Value: fmt.Append(nil, i)}).FirstErr())
	}
	c.Stop()
	require.NoError(t, disk.RemoveAll("/millstream/raft"))
	return disk, c, made.ID
}

// TestKafkasDirectoryIsAdopted: a copy of Kafka's log.dirs under data/ is all that migration takes.
func TestKafkasDirectoryIsAdopted(t *testing.T) {
	disk, c, id := withoutMetadata(t)
	kafkaMetadata(t, disk, "t", id, 2)
	for range 2 { // the second start has it from its own metadata
		c.Start()
		admin := kadm.NewClient(c.Client())
		topics, err := admin.ListTopics(testContext(t), "t")
		require.NoError(t, err)
		require.Equal(t, id, topics["t"].ID)
		require.Len(t, topics["t"].Partitions, 2)
		require.GreaterOrEqual(t, topics["t"].Partitions[0].LeaderEpoch, int32(8), "above Kafka's 7")
		require.ElementsMatch(t, []string{"0", "1", "2", "3", "4", "5"},
			values(testContext(t), t, c, "t", 6))
		configs, err := admin.DescribeTopicConfigs(testContext(t), "t")
		require.NoError(t, err)
		set := map[string]string{}
		for _, e := range configs[0].Configs {
			set[e.Key] = e.MaybeValue()
		}
		require.Equal(t, "123456789", set["retention.ms"])
		use := c.Client()
		producer, _, err := use.ProducerID(testContext(t))
		require.NoError(t, err)
		require.GreaterOrEqual(t, producer, int64(3000), "Kafka gave out those below")
		c.Stop()
	}
	require.Contains(t, c.Log(), "no.such.config", "what is not taken over is told")
	entries, err := disk.ReadDir("/millstream/data")
	require.NoError(t, err)
	for _, e := range entries {
		require.NotEqual(t, "__cluster_metadata-0", e.Name(), "it is set aside")
	}
}

// TestIncompleteCopyOfKafkasDirectoryIsRefused, and everything stays as it is.
func TestIncompleteCopyOfKafkasDirectoryIsRefused(t *testing.T) {
	disk, c, id := withoutMetadata(t)
	kafkaMetadata(t, disk, "t", id, 3)
	for range 2 {
		_, err := core.Open(context.Background(), core.Options{DataDir: "/millstream", FS: disk,
			Net: vnet.NewPipe(), Listen: "broker:1"})
		require.ErrorIs(t, err, core.ErrIncompleteCopy)
		require.ErrorContains(t, err, "t-2")
	}
	require.NoError(t, disk.RemoveAll("/millstream/data/__cluster_metadata-0"))
	kafkaMetadata(t, disk, "t", id, 2)
	c.Start()
	require.Len(t, values(testContext(t), t, c, "t", 6), 6)
}

// TestNodeIDIsThatOfTheDirectory: Kafka's node has whatever number.
func TestNodeIDIsThatOfTheDirectory(t *testing.T) {
	disk := vfs.NewMem()
	require.NoError(t, disk.MkdirAll("/millstream/data", 0o755))
	require.NoError(t, vfs.WriteFileAtomic(disk, "/millstream/data/meta.properties",
		[]byte("version=1\nnode.id=7\ncluster.id=AnLEp7vuY1ApGJ0vvkaaBA\n"), 0o644))
	c := coretest.Start(t, coretest.Options{FS: disk})
	metadata, err := kadm.NewClient(c.Client()).BrokerMetadata(testContext(t))
	require.NoError(t, err)
	require.Equal(t, int32(7), metadata.Brokers[0].NodeID)
	require.Equal(t, "AnLEp7vuY1ApGJ0vvkaaBA", metadata.Cluster)
}
