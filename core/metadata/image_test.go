package metadata_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/millstream-io/millstream/core/metadata"
	"github.com/stretchr/testify/require"
)

func broker(id int32) *metadata.BrokerRecord {
	return &metadata.BrokerRecord{Broker: metadata.Broker{ID: id, Epoch: 9, Host: "h", Port: 1,
		Rack: "r", DirectoryID: uuid.UUID{5}}}
}

func partition(topic uuid.UUID, index int32, replicas ...int32) *metadata.PartitionRecord {
	return &metadata.PartitionRecord{TopicID: topic, Index: index, Partition: metadata.Partition{
		Leader: replicas[0], LeaderEpoch: 3, Replicas: replicas, ISR: replicas}}
}

// sample applies every kind of record.
func sample(t *testing.T) *metadata.Image {
	t.Helper()
	b, a := uuid.UUID{2}, uuid.UUID{7}
	return apply(t, metadata.NewImage(1, nil),
		&metadata.ClusterRecord{ClusterID: "c"}, broker(2), broker(1),
		&metadata.TopicRecord{Name: "b", ID: b}, partition(b, 0, 1, 2), partition(b, 1, 2, 1),
		&metadata.TopicRecord{Name: "a", ID: a, Internal: true}, partition(a, 0, 1),
		&metadata.TopicConfigRecord{TopicID: b, Key: "flush", Value: str("os")},
		&metadata.BrokerConfigRecord{BrokerID: -1, Key: "log.retention.ms", Value: str("3")},
		&metadata.BrokerConfigRecord{BrokerID: 1, Key: "log.retention.ms", Value: str("4")},
		metadata.NewClientQuotaRecord(metadata.QuotaEntity{User: metadata.NamedQuota("u"),
			ClientID: metadata.DefaultQuota}, "producer_byte_rate", new(5.0)),
		&metadata.ProducerIDsRecord{Next: 2000})
}

func TestImageFindsWhatWasApplied(t *testing.T) {
	img := sample(t)
	require.Equal(t, "c", img.ClusterID())
	require.Equal(t, int64(1), img.Version())
	require.Equal(t, metadata.NoLeader, img.ControllerID())
	require.Equal(t, int32(2), img.WithController(2).ControllerID())
	require.Equal(t, metadata.NoLeader, img.ControllerID())
	require.Equal(t, int64(2000), img.NextProducerID())
	require.Equal(t, []int32{1, 2}, []int32{img.Brokers()[0].ID, img.Brokers()[1].ID})
	_, ok := img.Broker(3)
	require.False(t, ok)
	var names []string
	for topic := range img.Topics() {
		names = append(names, topic.Name)
		byID, ok := img.TopicByID(topic.ID)
		require.True(t, ok)
		require.Same(t, topic, byID)
		byName, ok := img.Topic(topic.Name)
		require.True(t, ok)
		require.Same(t, topic, byName)
	}
	require.Equal(t, []string{"a", "b"}, names)
	_, ok = img.Topic("c")
	require.False(t, ok)
	_, ok = img.TopicByID(uuid.UUID{1})
	require.False(t, ok)
	require.Equal(t, map[string]string{"log.retention.ms": "4"}, img.BrokerConfig(1))
	defaults := img.BrokerConfigs(metadata.ClusterDefault)
	require.Len(t, defaults, 1)
	require.Equal(t, "3", defaults[0].Value)
	require.Equal(t, int64(50), img.BrokerConfigInt("offsets.topic.num.partitions", 1))
	require.Equal(t, int64(7), img.BrokerConfigInt("log.flush.interval.ms", 7)) // null
	require.Equal(t, int64(7), img.BrokerConfigInt("no.such.setting", 7))
}

func TestRecordsRebuildTheImage(t *testing.T) {
	img := sample(t)
	d := metadata.NewDelta(metadata.NewImage(1, nil))
	for _, r := range img.Records() {
		b, err := metadata.EncodeRecord(r)
		require.NoError(t, err)
		back, err := metadata.DecodeRecord(b)
		require.NoError(t, err)
		require.Equal(t, r, back)
		require.NoError(t, d.Apply(back))
	}
	require.Equal(t, img, d.Image(img.Version()))
}

// The stored form must not change: snapshots and logs of older builds hold it.
func TestStoredFormOfRecords(t *testing.T) {
	var got strings.Builder
	for _, r := range sample(t).Records() {
		b, err := metadata.EncodeRecord(r)
		require.NoError(t, err)
		fmt.Fprintln(&got, string(b))
	}
	want, err := os.ReadFile("testdata/records.ndjson")
	require.NoError(t, err)
	require.Equal(t, string(want), got.String())
}

func TestRecordsThatDoNotFitAreRefused(t *testing.T) {
	img, b := sample(t), uuid.UUID{2}
	for _, r := range []metadata.Record{
		&metadata.TopicRecord{Name: "a", ID: uuid.UUID{99}},
		&metadata.TopicRecord{Name: "new", ID: b},
		&metadata.TopicRemovedRecord{ID: uuid.UUID{99}},
		&metadata.TopicConfigRecord{TopicID: uuid.UUID{99}},
		partition(uuid.UUID{99}, 0, 1), partition(b, 3, 1), partition(b, -1, 1),
		&metadata.PartitionRecord{TopicID: b, Partition: metadata.Partition{
			Leader: 1, Replicas: []int32{1, 2}, ISR: []int32{2}}},
		&metadata.PartitionRecord{TopicID: b, Partition: metadata.Partition{
			Leader: 1, Replicas: []int32{1}, ISR: []int32{1, 2}}},
		&metadata.ProducerIDsRecord{Next: 1999},
	} {
		d := metadata.NewDelta(img)
		require.ErrorIs(t, d.Apply(r), metadata.ErrBadRecord, "%+v", r)
		require.Equal(t, img.Records(), d.Peek().Records())
	}
}

func TestDeltaLeavesItsBaseAlone(t *testing.T) {
	base, b := sample(t), uuid.UUID{2}
	before := base.Records()
	next := apply(t, base, broker(3), partition(b, 0, 2, 1), partition(b, 2, 1),
		&metadata.TopicConfigRecord{TopicID: b, Key: "flush"},
		&metadata.TopicConfigRecord{TopicID: uuid.UUID{7}, Key: "flush", Value: str("os")},
		&metadata.TopicRemovedRecord{ID: uuid.UUID{7}},
		&metadata.TopicRecord{Name: "0", ID: uuid.UUID{1}},
		&metadata.BrokerConfigRecord{BrokerID: 1, Key: "log.retention.ms"},
		&metadata.BrokerConfigRecord{BrokerID: -1, Key: "log.retention.ms", Value: str("8")})
	require.Equal(t, before, base.Records())
	require.NotEqual(t, before, next.Records())
	require.Nil(t, next.BrokerConfig(1))
	_, ok := next.Topic("a")
	require.False(t, ok)
	topic, _ := next.Topic("b")
	require.Len(t, topic.Partitions, 3)
	require.Empty(t, topic.Configs)
}

func TestTopicNamesFollowKafkasRules(t *testing.T) {
	for _, good := range []string{"a", "A-Z_0.9", strings.Repeat("x", 249), "...", "__x"} {
		require.NoError(t, metadata.ValidateTopicName(good))
	}
	for _, bad := range []string{"", ".", "..", strings.Repeat("x", 250), "a/b", "a b", "ü", "a\x00"} {
		require.ErrorIs(t, metadata.ValidateTopicName(bad), metadata.ErrInvalidTopicName)
	}
	img := apply(t, metadata.NewImage(1, nil), &metadata.TopicRecord{Name: "a.b_c", ID: uuid.UUID{1}})
	for name, want := range map[string]bool{"a_b.c": true, "a_b_c": true, "a.b_c": false,
		"abc": false, "a.b.d": false, "aXb_c": false} {
		_, got := img.CollidingTopic(name)
		require.Equal(t, want, got, name)
	}
	require.True(t, metadata.IsInternalTopic("__consumer_offsets"))
	require.False(t, metadata.IsInternalTopic("__mine"))
}

func TestDocSaysWhatChangesNothing(t *testing.T) {
	d, _ := metadata.LookupTopicConfig("local.retention.ms")
	require.Contains(t, d.DisplayDoc(), "it changes nothing: tiered storage")
	d, _ = metadata.LookupTopicConfig("retention.ms")
	require.NotContains(t, d.DisplayDoc(), "changes nothing")
	hidden := slices.ContainsFunc(metadata.NewImage(1, nil).DefaultTopicConfigs(nil),
		func(v metadata.ConfigValue) bool { return v.Def.Name == "internal.segment.bytes" })
	require.False(t, hidden)
}

func FuzzDecodeRecord(f *testing.F) {
	f.Add([]byte(`{"kind":"topic","v":0,"data":{"id":"07000000-0000-0000-0000-000000000000"}}`))
	f.Add([]byte(`{"kind":"partition","v":0,"data":{"index":0,"replicas":[1],"isr":[1],"leader":1}}`))
	f.Add([]byte(`{"kind":"brokerConfig","v":0,"data":{"brokerId":-1,"key":"k","value":null}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := metadata.DecodeRecord(data)
		if err != nil {
			return
		}
		_ = metadata.NewDelta(metadata.NewImage(0, nil)).Apply(r)
		b, err := metadata.EncodeRecord(r)
		require.NoError(t, err)
		again, err := metadata.DecodeRecord(b)
		require.NoError(t, err)
		require.Equal(t, r, again)
	})
}

func BenchmarkTopic(b *testing.B) {
	d := metadata.NewDelta(metadata.NewImage(1, nil))
	for i := range 10_000 {
		id := uuid.UUID{byte(i), byte(i >> 8), 1}
		if err := d.Apply(&metadata.TopicRecord{Name: fmt.Sprintf("topic-%d", i), ID: id}); err != nil {
			b.Fatal(err)
		}
	}
	img := d.Image(1)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := img.Topic("topic-4711"); !ok {
			b.Fatal("not found")
		}
	}
}
