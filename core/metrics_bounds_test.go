package core_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/core/metrics"
)

// TestMetricsAreBounded: with more partitions, or committed offsets, than metrics.series.max, only
// sums are told, and how many are left out. One offset of 5 records that are there is 4 behind.
func TestMetricsAreBounded(t *testing.T) {
	c := coretest.Start(t, coretest.Options{Config: map[string]string{
		"metrics.series.max": "60", "offsets.topic.num.partitions": "1",
	}})
	ctx, cl := testContext(t), c.Client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	admin := kadm.NewClient(cl)
	page := func() string {
		var text strings.Builder
		p := metrics.NewPage(&text)
		for _, s := range c.Broker().Metrics() {
			s.WriteMetrics(p)
		}
		require.NoError(t, p.Flush())
		return text.String()
	}
	txnTopic(t, c, "t", 2)
	for range 5 {
		require.NoError(t, cl.ProduceSync(ctx, &kgo.Record{Topic: "t"}).FirstErr())
	}
	var offsets kadm.Offsets
	offsets.AddOffset("t", 0, 1, -1)
	offsets.AddOffset("t", 1, 0, -1)
	require.NoError(t, admin.CommitAllOffsets(ctx, "g", offsets))
	few := page()
	for _, line := range []string{
		`millstream_group_committed_offset{group="g",topic="t",partition="0"} 1`,
		`millstream_group_lag{group="g",topic="t",partition="0"} 4`,
		`millstream_group_topic_lag{group="g",topic="t"} 4`,
		`millstream_log_end_offset{topic="t",partition="0"} 5`,
		`millstream_metrics_omitted{kind="partitions"} 0`,
	} {
		require.Contains(t, few, line+"\n")
	}
	one := "1"
	_, err := admin.AlterBrokerConfigs(ctx,
		[]kadm.AlterConfig{{Name: "metrics.series.max", Value: &one}}, 1)
	require.NoError(t, err)
	many := page()
	for _, line := range []string{
		`millstream_group_topic_lag{group="g",topic="t"} 4`,
		`millstream_metrics_omitted{kind="partitions"} 3`, // of t, and __consumer_offsets
		`millstream_metrics_omitted{kind="committed offsets"} 2`,
	} {
		require.Contains(t, many, line+"\n")
	}
	require.NotContains(t, many, "millstream_group_lag{")
	require.NotContains(t, many, "millstream_log_end_offset{")
}
