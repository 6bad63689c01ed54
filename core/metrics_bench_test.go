package core_test

import (
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/core/metrics"
)

// BenchmarkMetricsPage writes the page of a broker with 10,000 partitions and 9 groups that have
// committed in each of them: 90,000 offsets.
func BenchmarkMetricsPage(b *testing.B) {
	c := coretest.Start(b, coretest.Options{})
	admin := kadm.NewClient(c.Client())
	const partitions, groups = 10_000, 9
	_, err := admin.CreateTopic(b.Context(), partitions, 1, nil, "many")
	require.NoError(b, err)
	for g := range groups {
		var offsets kadm.Offsets
		for p := range int32(partitions) {
			offsets.AddOffset("many", p, 0, -1)
		}
		require.NoError(b, admin.CommitAllOffsets(b.Context(), fmt.Sprintf("group-%d", g), offsets))
	}
	size := &counter{}
	b.ReportAllocs()
	for b.Loop() {
		size.bytes = 0
		p := metrics.NewPage(size)
		for _, s := range c.Broker().Metrics() {
			s.WriteMetrics(p)
		}
		require.NoError(b, p.Flush())
	}
	b.ReportMetric(float64(size.bytes), "page-bytes")
}

// counter counts what is written.
type counter struct{ bytes int64 }

var _ io.Writer = (*counter)(nil)

func (c *counter) Write(p []byte) (int, error) {
	c.bytes += int64(len(p))
	return len(p), nil
}
