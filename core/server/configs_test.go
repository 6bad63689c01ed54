package server_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/coretest"
)

const (
	topicResource  = kmsg.ConfigResourceTypeTopic
	brokerResource = kmsg.ConfigResourceTypeBroker
)

func describe(w *wire, kind kmsg.ConfigResourceType, name string, names ...string,
) kmsg.DescribeConfigsResponseResource {
	w.t.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.SetVersion(4)
	req.IncludeSynonyms, req.IncludeDocumentation = true, true
	rr := kmsg.NewDescribeConfigsRequestResource()
	rr.ResourceType, rr.ResourceName = kind, name
	rr.ConfigNames = names
	req.Resources = append(req.Resources, rr)
	return ask[*kmsg.DescribeConfigsResponse](w, req).Resources[0]
}

// value returns a setting as "value source", "" when it is not there.
func value(w *wire, kind kmsg.ConfigResourceType, name, config string) (string, int8) {
	w.t.Helper()
	for _, c := range describe(w, kind, name, config).Configs {
		if c.Value != nil {
			return *c.Value, int8(c.Source)
		}
	}
	return "", 0
}

func TestDescribeConfigs(t *testing.T) {
	c := coretest.Start(t, coretest.Options{Config: map[string]string{
		"log.retention.hours": "2", "num.partitions": "3",
	}})
	own := "123456789"
	newTopic(t, c, "t", 1, map[string]*string{"segment.ms": &own})
	w := dial(t, c)
	all := describe(w, topicResource, "t")
	require.Zero(t, all.ErrorCode)
	byName := map[string]kmsg.DescribeConfigsResponseResourceConfig{}
	for _, c := range all.Configs {
		byName[c.Name] = c
		require.NotZero(t, c.ConfigType, c.Name)
		require.NotNil(t, c.Documentation, c.Name)
		require.NotEmpty(t, *c.Documentation, c.Name)
	}
	for _, name := range []string{ // the names in Kafka's LogConfig, and flush
		"cleanup.policy", "compression.type", "delete.retention.ms", "file.delete.delay.ms",
		"flush.messages", "flush.ms", "follower.replication.throttled.replicas",
		"index.interval.bytes", "leader.replication.throttled.replicas", "max.compaction.lag.ms",
		"max.message.bytes", "message.timestamp.after.max.ms", "message.timestamp.before.max.ms",
		"message.timestamp.type", "min.cleanable.dirty.ratio", "min.compaction.lag.ms",
		"min.insync.replicas", "preallocate", "retention.bytes", "retention.ms", "segment.bytes",
		"segment.index.bytes", "segment.jitter.ms", "segment.ms",
		"unclean.leader.election.enable", "remote.storage.enable", "flush",
	} {
		require.Contains(t, byName, name)
	}
	require.Equal(t, "delete", *byName["cleanup.policy"].Value)
	require.Equal(t, kmsg.ConfigTypeList, byName["cleanup.policy"].ConfigType)
	require.True(t, byName["cleanup.policy"].Source == kmsg.ConfigSourceDefaultConfig)

	segment := byName["segment.ms"]
	require.Equal(t, own, *segment.Value)
	require.Equal(t, kmsg.ConfigSourceDynamicTopicConfig, segment.Source)
	require.Equal(t, own, *segment.ConfigSynonyms[0].Value)

	retention := byName["retention.ms"]
	require.Equal(t, "7200000", *retention.Value, "hours in milliseconds")
	require.Equal(t, kmsg.ConfigSourceStaticBrokerConfig, retention.Source)

	require.Len(t, describe(w, topicResource, "t", "retention.ms", "no.such").Configs, 1)
	require.Equal(t, int16(3), describe(w, topicResource, "nope").ErrorCode)
	require.Equal(t, int16(17), describe(w, topicResource, "a/b").ErrorCode)
	require.Equal(t, int16(42), describe(w, brokerResource, "2").ErrorCode)
	require.Equal(t, int16(42), describe(w, brokerResource, "x").ErrorCode)
	require.Equal(t, int16(42), describe(w, kmsg.ConfigResourceType(64), "g").ErrorCode)
	v, source := value(w, brokerResource, "1", "num.partitions")
	require.Equal(t, "3", v)
	require.Equal(t, int8(kmsg.ConfigSourceStaticBrokerConfig), source)
}

// incremental changes one setting and returns the error code.
func incremental(w *wire, kind kmsg.ConfigResourceType, name, config string,
	op kmsg.IncrementalAlterConfigOp, v string, validate bool) int16 {
	w.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.SetVersion(1)
	req.ValidateOnly = validate
	rr := kmsg.NewIncrementalAlterConfigsRequestResource()
	rr.ResourceType, rr.ResourceName = kind, name
	rc := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	rc.Name, rc.Op = config, op
	if op != kmsg.IncrementalAlterConfigOpDelete {
		rc.Value = &v
	}
	rr.Configs = append(rr.Configs, rc)
	req.Resources = append(req.Resources, rr)
	return ask[*kmsg.IncrementalAlterConfigsResponse](w, req).Resources[0].ErrorCode
}

func TestIncrementalAlterConfigs(t *testing.T) {
	const (
		set      = kmsg.IncrementalAlterConfigOpSet
		del      = kmsg.IncrementalAlterConfigOpDelete
		add      = kmsg.IncrementalAlterConfigOpAppend
		subtract = kmsg.IncrementalAlterConfigOpSubtract
	)
	c := coretest.Start(t, coretest.Options{})
	newTopic(t, c, "t", 1, nil)
	w := dial(t, c)
	for _, v := range []struct {
		kind     kmsg.ConfigResourceType
		name     string
		config   string
		op       kmsg.IncrementalAlterConfigOp
		value    string
		validate bool
		code     int16
		after    string
		source   int8
	}{
		{topicResource, "t", "retention.ms", set, "5000", true, 0, "604800000", 5},
		{topicResource, "t", "retention.ms", set, "5000", false, 0, "5000", 1},
		{topicResource, "t", "retention.ms", set, "x", false, 40, "5000", 1},
		{topicResource, "t", "retention.ms", add, "7", false, 40, "5000", 1},
		{topicResource, "t", "retention.ms", del, "", false, 0, "604800000", 5},
		{topicResource, "t", "cleanup.policy", add, "compact", false, 0, "delete,compact", 1},
		{topicResource, "t", "cleanup.policy", subtract, "delete", false, 0, "compact", 1},
		{topicResource, "t", "no.such", set, "1", false, 40, "", 0},
		{topicResource, "nope", "retention.ms", set, "1", false, 3, "", 0},
		{brokerResource, "", "log.retention.ms", set, "9000", false, 0, "9000", 3},
		{brokerResource, "1", "log.retention.ms", set, "8000", false, 0, "8000", 2},
		{brokerResource, "1", "node.id", set, "8", false, 42, "1", 0},
		{brokerResource, "7", "log.retention.ms", set, "8", false, 42, "", 0},
		{kmsg.ConfigResourceType(16), "m", "x", set, "8", false, 42, "", 0},
	} {
		code := incremental(w, v.kind, v.name, v.config, v.op, v.value, v.validate)
		require.Equal(t, v.code, code, "%+v", v)
		if v.source != 0 {
			after, source := value(w, v.kind, v.name, v.config)
			require.Equal(t, v.after, after, "%+v", v)
			require.Equal(t, v.source, source, "%+v", v)
		}
	}
	after, source := value(w, topicResource, "t", "retention.ms")
	require.Equal(t, "8000", after, "the broker's setting is the topic's default")
	require.Equal(t, int8(2), source)
	c.Restart()
	after, _ = value(dial(t, c), topicResource, "t", "cleanup.policy")
	require.Equal(t, "compact", after)
}

// TestAlterConfigsReplacesAll: the legacy call resets what it does not name.
func TestAlterConfigsReplacesAll(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	old := "1000000"
	newTopic(t, c, "t", 1, map[string]*string{"segment.ms": &old, "retention.ms": &old})
	w := dial(t, c)
	req := kmsg.NewPtrAlterConfigsRequest()
	req.SetVersion(2)
	rr := kmsg.NewAlterConfigsRequestResource()
	rr.ResourceType, rr.ResourceName = topicResource, "t"
	rc := kmsg.NewAlterConfigsRequestResourceConfig()
	v := "5000"
	rc.Name, rc.Value = "retention.ms", &v
	rr.Configs = append(rr.Configs, rc)
	req.Resources = append(req.Resources, rr)
	require.Zero(t, ask[*kmsg.AlterConfigsResponse](w, req).Resources[0].ErrorCode)
	after, source := value(w, topicResource, "t", "retention.ms")
	require.Equal(t, "5000", after)
	require.Equal(t, int8(1), source)
	_, source = value(w, topicResource, "t", "segment.ms")
	require.Equal(t, int8(5), source, "back to the default")
}

// TestSettingsTakeEffect: a changed limit holds for the next batch.
func TestSettingsTakeEffect(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	newTopic(t, c, "t", 1, nil)
	w := dial(t, c)
	fill(t, w, "t", 1)
	require.Zero(t, incremental(w, topicResource, "t", "max.message.bytes",
		kmsg.IncrementalAlterConfigOpSet, "70", false))
	got := produceOne(w, produceRequest(9, "t", [16]byte{}, 0, sizedBatch(t, 2000)))
	require.Equal(t, int16(10), got.ErrorCode)
}

func TestDescribeCluster(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	w := dial(t, c)
	for version := int16(0); version <= 2; version++ {
		req := kmsg.NewPtrDescribeClusterRequest()
		req.SetVersion(version)
		req.EndpointType = 1
		got := ask[*kmsg.DescribeClusterResponse](w, req)
		require.Zero(t, got.ErrorCode)
		require.Equal(t, int32(1), got.ControllerID)
		require.Equal(t, "broker", got.Brokers[0].Host)
	}
	req := kmsg.NewPtrDescribeClusterRequest()
	req.SetVersion(2)
	req.EndpointType = 2
	require.Equal(t, int16(114), ask[*kmsg.DescribeClusterResponse](w, req).ErrorCode)
}

// TestDescribeTopicPartitions: names in order, unknown ones included, in pages.
func TestDescribeTopicPartitions(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	for _, name := range []string{"c", "a", "b"} {
		newTopic(t, c, name, 3, nil)
	}
	w := dial(t, c)
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = 2000
	for _, name := range []string{"c", "nope", "a"} {
		rt := kmsg.NewDescribeTopicPartitionsRequestTopic()
		rt.Topic = name
		req.Topics = append(req.Topics, rt)
	}
	got := ask[*kmsg.DescribeTopicPartitionsResponse](w, req)
	var names []string
	for _, rt := range got.Topics {
		names = append(names, *rt.Topic)
	}
	require.Equal(t, []string{"a", "c", "nope"}, names)
	require.Equal(t, int16(3), got.Topics[2].ErrorCode)
	require.Nil(t, got.NextCursor)

	req.Topics, req.ResponsePartitionLimit = nil, 2
	var seen []string
	for {
		got := ask[*kmsg.DescribeTopicPartitionsResponse](w, req)
		for _, rt := range got.Topics {
			for _, p := range rt.Partitions {
				seen = append(seen, *rt.Topic+string(rune('0'+p.Partition)))
			}
		}
		if got.NextCursor == nil {
			break
		}
		cursor := kmsg.NewDescribeTopicPartitionsRequestCursor()
		cursor.Topic, cursor.Partition = got.NextCursor.Topic, got.NextCursor.Partition
		req.Cursor = &cursor
	}
	require.Equal(t, []string{"a0", "a1", "a2", "b0", "b1", "b2", "c0", "c1", "c2"}, seen)
}

func TestDescribeLogDirs(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	newTopic(t, c, "t", 2, nil)
	w := dial(t, c)
	fill(t, w, "t", 3)
	req := kmsg.NewPtrDescribeLogDirsRequest()
	req.SetVersion(4)
	got := ask[*kmsg.DescribeLogDirsResponse](w, req)
	require.Len(t, got.Dirs, 1)
	dir := got.Dirs[0]
	require.Equal(t, "/millstream/data", dir.Dir)
	require.Greater(t, dir.UsableBytes, int64(0))
	require.Greater(t, dir.TotalBytes, dir.UsableBytes)
	require.Len(t, dir.Topics, 1)
	require.Len(t, dir.Topics[0].Partitions, 2)
	require.Equal(t, int64(3*oneBatch(t)), dir.Topics[0].Partitions[0].Size)
}

func TestListConfigResources(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	newTopic(t, c, "t", 1, nil)
	w := dial(t, c)
	req := kmsg.NewPtrListConfigResourcesRequest()
	req.SetVersion(1)
	got := ask[*kmsg.ListConfigResourcesResponse](w, req)
	require.Len(t, got.ConfigResources, 3)
	require.Equal(t, "t", got.ConfigResources[0].Name)
	req.ResourceTypes = []int8{99}
	require.Equal(t, int16(35), ask[*kmsg.ListConfigResourcesResponse](w, req).ErrorCode)
	req.SetVersion(0)
	require.Empty(t, ask[*kmsg.ListConfigResourcesResponse](w, req).ConfigResources)
}
