package replica

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/metadata"
)

func TestLogConfigHasTheSettingsOfCompaction(t *testing.T) {
	image := metadata.NewImage(1, map[string]string{"log.cleaner.min.compaction.lag.ms": "2",
		"log.cleaner.delete.retention.ms": "9"})
	c := logConfig(image.TopicSettings(&metadata.Topic{Configs: map[string]string{
		"cleanup.policy": "compact,delete", "delete.retention.ms": "1",
		"max.compaction.lag.ms": "3", "min.cleanable.dirty.ratio": "0.25"}}))
	require.True(t, c.Compact)
	require.True(t, c.Delete)
	require.Equal(t, int64(1), c.DeleteRetentionMS)
	require.Equal(t, int64(2), c.MinCompactionLagMS, "the broker's default")
	require.Equal(t, int64(3), c.MaxCompactionLagMS)
	require.Equal(t, 0.25, c.MinCleanableDirtyRatio)

	c = logConfig(image.TopicSettings(&metadata.Topic{
		Configs: map[string]string{"cleanup.policy": "compact"}}))
	require.False(t, c.Delete)
	require.Equal(t, int64(9), c.DeleteRetentionMS, "the broker's default")
	require.Equal(t, 0.5, c.MinCleanableDirtyRatio)
}
