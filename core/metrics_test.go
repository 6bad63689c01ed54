package core

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/metrics"
	"github.com/millstream-io/millstream/core/server"
)

var rewriteMetrics = flag.Bool("rewrite-metrics", false, "write core/METRICS.md anew")

const metricsPage = "METRICS.md"

// TestMetricsPageIsTrue compares core/METRICS.md with the families. Write it anew with:
//
// go test ./core -run MetricsPage -rewrite-metrics
func TestMetricsPageIsTrue(t *testing.T) {
	var page strings.Builder
	fmt.Fprint(&page, "# Metrics\n\nMade by a test from the families in `metrics_families.go` and ",
		"`server/metrics_page.go`; do not edit. `GET /metrics` on\n--http tells them, and those of the ",
		"Go runtime (`go_...`) and the process (`process_...`), as Prometheus's text.\nThe last column ",
		"is what Kafka's JMX beans or kafka_exporter call the same, or what is closest.\n")
	for _, source := range []struct {
		title string
		metrics.Source
	}{{"Requests and connections", (*server.Server)(nil)}, {"The broker", (*collector)(nil)}} {
		fmt.Fprintf(&page, "\n## %s\n\n| metric | kind | labels | what it is | in Kafka |\n"+
			"|---|---|---|---|---|\n", source.title)
		for _, f := range source.Families() {
			fmt.Fprintf(&page, "| `%s` | %s | %s | %s | %s |\n", f.Name, f.Kind,
				strings.Join(f.Labels, ", "), f.Help, f.Kafka)
		}
	}
	if *rewriteMetrics {
		require.NoError(t, os.WriteFile(metricsPage, []byte(page.String()), 0o644))
	}
	got, err := os.ReadFile(metricsPage)
	require.NoError(t, err)
	require.Equal(t, page.String(), string(got), "write it anew with -rewrite-metrics")
}
