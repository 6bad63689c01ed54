package replica

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/metadata"
	"github.com/millstream-io/millstream/core/vfs"
)

// TestTopicConfigsReachTheLogWithoutARestart: each setting of a topic that is in force, and its
// broker synonyms, change what the open log goes by; taking it back gives what was before.
func TestTopicConfigsReachTheLogWithoutARestart(t *testing.T) {
	values := map[string]string{
		"cleanup.policy": "compact", "compression.type": "gzip", "compression.gzip.level": "2",
		"compression.lz4.level": "3", "compression.zstd.level": "4", "delete.retention.ms": "11",
		"file.delete.delay.ms": "12", "flush": "os", "flush.messages": "13", "flush.ms": "14",
		"index.interval.bytes": "15", "internal.segment.bytes": "16", "max.compaction.lag.ms": "17",
		"max.message.bytes": "18", "message.timestamp.after.max.ms": "19",
		"message.timestamp.before.max.ms": "20", "message.timestamp.type": "LogAppendTime",
		"min.cleanable.dirty.ratio": "0.21", "min.compaction.lag.ms": "22", "min.insync.replicas": "2",
		"preallocate": "true", "retention.bytes": "23", "retention.ms": "24",
		"segment.bytes": "2000000", "segment.index.bytes": "1200", "segment.jitter.ms": "25",
		"segment.ms": "26", "log.retention.minutes": "27", "log.retention.hours": "28",
		"log.roll.hours": "29", "log.roll.jitter.hours": "30",
	}
	// A level is of no use without its codec.
	companion := map[string]string{"compression.gzip.level": "gzip", "compression.lz4.level": "lz4",
		"compression.zstd.level": "zstd"}
	c := newCluster(t, vfs.NewMem())
	c.create("orders", topicA, 1)
	p := c.partition()
	state := func() any { return []any{p.Log().Config(), p.role.Load().minInSync} }
	for _, def := range metadata.TopicConfigDefs() {
		if def.Inert != "" {
			continue
		}
		value, ok := values[def.Name]
		require.True(t, ok, "no value to try for %s", def.Name)
		set := func(key, value string) metadata.Record {
			return &metadata.TopicConfigRecord{TopicID: topicA, Key: key, Value: &value}
		}
		if codec := companion[def.Name]; codec != "" {
			require.NoError(t, c.change(set("compression.type", codec)))
		}
		before := state()
		require.NoError(t, c.change(set(def.Name, value)))
		changed := state()
		if def.Name != "min.insync.replicas" { // at most the one replica that there is
			require.NotEqual(t, before, changed, def.Name)
		}
		require.NoError(t, c.change(&metadata.TopicConfigRecord{TopicID: topicA, Key: def.Name}))
		require.Equal(t, before, state(), def.Name)
		for _, synonym := range def.BrokerSynonyms {
			broker, _ := metadata.LookupBrokerConfig(synonym)
			if broker.ReadOnly {
				continue
			}
			require.NoError(t, c.change(&metadata.BrokerConfigRecord{BrokerID: -1, Key: synonym,
				Value: &value}))
			require.Equal(t, changed, state(), synonym)
			require.NoError(t, c.change(&metadata.BrokerConfigRecord{BrokerID: -1, Key: synonym}))
			require.Equal(t, before, state(), synonym)
		}
		require.NoError(t, c.change(&metadata.TopicConfigRecord{TopicID: topicA,
			Key: "compression.type"}))
	}
}

// TestVerificationFollowsItsConfig: KIP-890's switch is dynamic.
func TestVerificationFollowsItsConfig(t *testing.T) {
	c := newCluster(t, vfs.NewMem())
	c.create("orders", topicA, 1)
	p, off := c.partition(), "false"
	require.False(t, p.Log().Config().SkipVerification)
	require.NoError(t, c.change(&metadata.BrokerConfigRecord{BrokerID: node,
		Key: "transaction.partition.verification.enable", Value: &off}))
	require.True(t, p.Log().Config().SkipVerification)
}
