package metadata_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/millstream-io/millstream/core/metadata"
	"github.com/stretchr/testify/require"
)

func TestConfigDefsAreSortedUniqueAndValid(t *testing.T) {
	for _, defs := range [][]*metadata.ConfigDef{
		metadata.TopicConfigDefs(), metadata.BrokerConfigDefs(),
	} {
		for i, d := range defs {
			if i > 0 {
				require.Less(t, defs[i-1].Name, d.Name)
			}
			require.NotEmpty(t, d.Doc, d.Name)
			if !d.NoDefault && d.Default != "" {
				require.NoError(t, d.Validate(d.Default), d.Name)
			}
		}
	}
	for _, d := range metadata.TopicConfigDefs() {
		for _, synonym := range d.BrokerSynonyms {
			_, ok := metadata.LookupBrokerConfig(synonym)
			require.True(t, ok, synonym)
		}
	}
}

// The names, types and defaults are those of LogConfig in Apache Kafka 4.3, except flush, which is
// Millstream's own.
func TestTopicConfigDefaultsAreKafkas(t *testing.T) {
	want := map[string]string{
		"cleanup.policy": "delete", "compression.type": "producer",
		"compression.gzip.level": "-1", "compression.lz4.level": "9",
		"compression.zstd.level": "3", "delete.retention.ms": "86400000",
		"file.delete.delay.ms": "60000", "flush.messages": "9223372036854775807",
		"flush.ms": "9223372036854775807", "index.interval.bytes": "4096",
		"follower.replication.throttled.replicas": "",
		"leader.replication.throttled.replicas":   "",
		"local.retention.bytes":                   "-2", "local.retention.ms": "-2",
		"max.compaction.lag.ms": "9223372036854775807", "max.message.bytes": "1048588",
		"message.timestamp.after.max.ms":  "3600000",
		"message.timestamp.before.max.ms": "9223372036854775807",
		"message.timestamp.type":          "CreateTime", "min.cleanable.dirty.ratio": "0.5",
		"min.compaction.lag.ms": "0", "min.insync.replicas": "1", "preallocate": "false",
		"remote.log.copy.disable": "false", "remote.log.delete.on.disable": "false",
		"remote.storage.enable": "false", "retention.bytes": "-1", "retention.ms": "604800000",
		"segment.bytes": "1073741824", "segment.index.bytes": "10485760",
		"segment.jitter.ms": "0", "segment.ms": "604800000",
		"unclean.leader.election.enable": "false", "flush": "group",
	}
	got := make(map[string]string)
	for _, v := range metadata.NewImage(1, nil).DefaultTopicConfigs(nil) {
		require.Equal(t, metadata.SourceDefault, v.Source)
		got[v.Def.Name] = v.Value
	}
	require.Equal(t, want, got)
}

func TestValidateTopicConfig(t *testing.T) {
	good := [][2]string{
		{"cleanup.policy", "compact,delete"}, {"cleanup.policy", "compact, delete"},
		{"retention.ms", "-1"}, {"segment.bytes", "1048576"}, {"preallocate", "true"},
		{"min.cleanable.dirty.ratio", "0.01"}, {"flush", "os"}, {"flush.messages", "1"},
		{"remote.storage.enable", "false"}, {"internal.segment.bytes", "100"},
		{"retention.ms", "9223372036854775807"}, {"compression.gzip.level", "-1"},
		{"cleanup.policy", ""}, {"retention.ms", " +5 "}, {"preallocate", " TRUE"},
	}
	for _, c := range good {
		require.NoError(t, metadata.ValidateTopicConfig(c[0], c[1]), c)
	}
	bad := [][3]string{
		{"cleanup.policy", "compct",
			"Invalid value compct for configuration cleanup.policy: String must be one of: compact, delete"},
		{"cleanup.policy", "compact,",
			"Invalid value compact, for configuration cleanup.policy: a list has no empty elements"},
		{"retention.ms", "-2",
			"Invalid value -2 for configuration retention.ms: Value must be at least -1"},
		{"retention.ms", "1d",
			"Invalid value 1d for configuration retention.ms: Not a number of type LONG"},
		{"segment.bytes", "1000",
			"Invalid value 1000 for configuration segment.bytes: Value must be at least 1048576"},
		{"segment.bytes", "2147483648",
			"Invalid value 2147483648 for configuration segment.bytes: Not a number of type INT"},
		{"preallocate", "yes",
			"Invalid value yes for configuration preallocate: Expected value to be either true or false"},
		{"min.cleanable.dirty.ratio", "1.5",
			"Invalid value 1.5 for configuration min.cleanable.dirty.ratio: Value must be no more than 1"},
		{"min.cleanable.dirty.ratio", "NaN",
			"Invalid value NaN for configuration min.cleanable.dirty.ratio: Not a number of type DOUBLE"},
		{"min.insync.replicas", "0",
			"Invalid value 0 for configuration min.insync.replicas: Value must be at least 1"},
		{"flush", "never",
			"Invalid value never for configuration flush: String must be one of: always, group, os"},
		{"retention", "1",
			"Unknown topic config name: retention"},
		{"remote.storage.enable", "true",
			"Invalid value true for configuration remote.storage.enable: only false is supported"},
		{"compression.gzip.level", "0",
			"Invalid value 0 for configuration compression.gzip.level: 0 is no level"},
	}
	for _, c := range bad {
		err := metadata.ValidateTopicConfig(c[0], c[1])
		require.EqualError(t, err, c[2])
		require.ErrorIs(t, err, metadata.ErrInvalidConfig)
	}
	require.EqualError(t, metadata.ValidateTopicConfigs(map[string]string{
		"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"}),
		"min.compaction.lag.ms 10 is more than max.compaction.lag.ms 9")
}

func TestValidateBrokerConfig(t *testing.T) {
	require.NoError(t, metadata.ValidateBrokerConfig("log.retention.ms", "1000"))
	require.NoError(t, metadata.ValidateBrokerConfig("message.max.bytes", "2000000"))
	require.ErrorIs(t, metadata.ValidateBrokerConfig("node.id", "3"), metadata.ErrReadOnlyConfig)
	require.ErrorIs(t, metadata.ValidateBrokerConfig("nope", "3"), metadata.ErrInvalidConfig)
	require.NoError(t, metadata.ValidateStaticConfigs(map[string]string{"num.partitions": "3"}))
	require.Error(t, metadata.ValidateStaticConfigs(map[string]string{"num.partitions": "x"}))
	require.Error(t, metadata.ValidateStaticConfigs(map[string]string{"nope": "x"}))
}

func str(s string) *string { return &s }

func apply(t *testing.T, img *metadata.Image, records ...metadata.Record) *metadata.Image {
	t.Helper()
	d := metadata.NewDelta(img)
	for _, r := range records {
		require.NoError(t, d.Apply(r))
	}
	return d.Image(img.Version() + 1)
}

func value(t *testing.T, list []metadata.ConfigValue, name string) metadata.ConfigValue {
	t.Helper()
	i := slices.IndexFunc(list, func(v metadata.ConfigValue) bool { return v.Def.Name == name })
	require.GreaterOrEqual(t, i, 0, name)
	return list[i]
}

// The order of sources is that of Kafka's DescribeConfigs: topic, broker, all brokers, static,
// default.
func TestTopicConfigSources(t *testing.T) {
	img := metadata.NewImage(1, map[string]string{"log.retention.hours": "2"})
	id := uuid.UUID{1}
	img = apply(t, img, &metadata.TopicRecord{Name: "a", ID: id})
	retention := func() metadata.ConfigValue {
		topic, _ := img.Topic("a")
		return value(t, img.TopicConfigs(topic), "retention.ms")
	}
	v := retention()
	require.Equal(t, "7200000", v.Value)
	require.Equal(t, metadata.SourceStatic, v.Source)

	img = apply(t, img,
		&metadata.BrokerConfigRecord{BrokerID: -1, Key: "log.retention.ms", Value: str("5")})
	v = retention()
	require.Equal(t, "5", v.Value)
	require.Equal(t, metadata.SourceClusterDefault, v.Source)

	img = apply(t, img,
		&metadata.BrokerConfigRecord{BrokerID: 1, Key: "log.retention.ms", Value: str("6")},
		&metadata.BrokerConfigRecord{BrokerID: 2, Key: "log.retention.ms", Value: str("99")})
	require.Equal(t, "6", retention().Value)
	require.Equal(t, metadata.SourceBroker, retention().Source)

	img = apply(t, img,
		&metadata.TopicConfigRecord{TopicID: id, Key: "retention.ms", Value: str("7")})
	v = retention()
	require.Equal(t, []metadata.ConfigSynonym{
		{Name: "retention.ms", Value: "7", Source: metadata.SourceTopic},
		{Name: "log.retention.ms", Value: "6", Source: metadata.SourceBroker},
		{Name: "log.retention.ms", Value: "5", Source: metadata.SourceClusterDefault},
		{Name: "log.retention.hours", Value: "2", Source: metadata.SourceStatic},
	}, v.Synonyms)
	topic, _ := img.Topic("a")
	require.Equal(t, int64(7), img.TopicSettings(topic).RetentionMS)

	img = apply(t, img, &metadata.TopicConfigRecord{TopicID: id, Key: "retention.ms"})
	require.Equal(t, "6", retention().Value)
}

func TestBrokersKnowTheirID(t *testing.T) {
	list := metadata.NewImage(4, nil).BrokerConfigs(4)
	require.Equal(t, "4", value(t, list, "node.id").Value)
	require.Equal(t, "4", value(t, list, "broker.id").Value)
	require.True(t, value(t, list, "broker.rack").Null)
	require.Equal(t, "168", value(t, list, "log.retention.hours").Value)
	require.True(t, value(t, list, "log.retention.minutes").Null)
	require.True(t, slices.IsSortedFunc(list, func(a, b metadata.ConfigValue) int {
		return strings.Compare(a.Def.Name, b.Def.Name)
	}))
}

func TestTopicSettingsFollowItsConfigs(t *testing.T) {
	img := metadata.NewImage(1, nil)
	settings := func(configs map[string]string) metadata.TopicSettings {
		return img.TopicSettings(&metadata.Topic{Configs: configs})
	}
	s := settings(nil)
	require.True(t, s.CleanupDelete)
	require.False(t, s.CleanupCompact)
	require.Equal(t, metadata.FlushGroup, s.Flush)
	require.Equal(t, int64(1<<30), s.SegmentBytes)
	require.Equal(t, 1048588, s.MaxMessageBytes)
	s = settings(map[string]string{"cleanup.policy": "compact", "internal.segment.bytes": "9",
		"message.timestamp.type": "LogAppendTime"})
	require.True(t, s.CleanupCompact)
	require.False(t, s.CleanupDelete)
	require.True(t, s.LogAppendTime)
	require.Equal(t, int64(9), s.SegmentBytes)
	require.Equal(t, "always", settings(map[string]string{"flush.messages": "1"}).Flush)
	require.Equal(t, "os",
		settings(map[string]string{"flush.messages": "1", "flush": "os"}).Flush)

	// A node that starts with the page cache as its durability still keeps what a topic asks for.
	img = metadata.NewImage(1, map[string]string{"log.flush": "os"})
	require.Equal(t, "os", settings(nil).Flush)
	require.Equal(t, "always", settings(map[string]string{"flush": "always"}).Flush)
}
