package server_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/core/metrics"
	"github.com/millstream-io/millstream/core/record"
)

// metricsPage writes what /metrics tells of the broker.
func metricsPage(t testing.TB, c *coretest.Cluster) string {
	t.Helper()
	var text strings.Builder
	p := metrics.NewPage(&text)
	for _, s := range c.Broker().Metrics() {
		s.WriteMetrics(p)
	}
	require.NoError(t, p.Flush())
	return text.String()
}

func parseMetrics(t testing.TB, page string) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(page))
	require.NoError(t, err)
	return families
}

// scraped has the samples of a page as "name{label=value,...}"; histograms have _count and _sum.
type scraped map[string]float64

func scrape(t testing.TB, c *coretest.Cluster) scraped {
	t.Helper()
	s := scraped{}
	for name, f := range parseMetrics(t, metricsPage(t, c)) {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			at := "{" + strings.Join(labels, ",") + "}"
			switch {
			case m.Histogram != nil:
				s[name+"_count"+at] = float64(m.Histogram.GetSampleCount())
				s[name+"_sum"+at] = m.Histogram.GetSampleSum()
			case m.Counter != nil:
				s[name+at] = m.Counter.GetValue()
			default:
				s[name+at] = m.Gauge.GetValue()
			}
		}
	}
	return s
}

// TestMetricsKeepPrometheusRules: names, units and helps pass the library's lint, each family of
// the page is a listed one, and none is listed twice.
func TestMetricsKeepPrometheusRules(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	newTopic(t, c, "t", 1, nil)
	w := dial(t, c)
	fill(t, w, "t", 1)
	families := parseMetrics(t, metricsPage(t, c))
	problems, err := testutil.GatherAndLint(prometheus.GathererFunc(
		func() (all []*dto.MetricFamily, err error) {
			for _, f := range families {
				all = append(all, f)
			}
			return all, nil
		}))
	require.NoError(t, err)
	require.Empty(t, problems)
	listed := map[string]*metrics.Family{}
	for _, s := range c.Broker().Metrics() {
		for _, f := range s.Families() {
			require.NotContains(t, listed, f.Name)
			require.True(t, strings.HasPrefix(f.Name, "millstream_"), f.Name)
			require.True(t, strings.HasSuffix(f.Help, "."), f.Name)
			listed[f.Name] = f
		}
	}
	for name := range families {
		require.Contains(t, listed, name)
	}
	for name := range listed {
		require.Contains(t, metricsPage(t, c), "# HELP "+name+" ", "listed, not written")
	}
}

// after asserts what changes by a step: each named sample by just that much.
type after struct {
	t *testing.T
	c *coretest.Cluster
	// seen are the names of families that some step has moved.
	seen map[string]bool
}

func (a *after) moves(what string, step func(), want map[string]float64) {
	a.t.Helper()
	before := scrape(a.t, a.c)
	step()
	// What is counted when an answer has been written may come after the client has it.
	require.EventuallyWithT(a.t, func(t *assert.CollectT) {
		now := scrape(a.t, a.c)
		for sample, delta := range want {
			if assert.Contains(t, now, sample) {
				assert.InDelta(t, delta, now[sample]-before[sample], 1e-9, sample)
			}
		}
	}, 5*time.Second, time.Millisecond, what)
	for sample := range want {
		name, _, _ := strings.Cut(sample, "{")
		a.seen[strings.TrimSuffix(name, "_count")] = true
	}
}

// TestMetricsMoveWithWhatHappens gives each step its effect, worked out by hand. Sizes are those of
// the frames sent.
func TestMetricsMoveWithWhatHappens(t *testing.T) {
	c := coretest.Start(t, coretest.Options{})
	a := &after{t: t, c: c, seen: map[string]bool{}}
	newTopic(t, c, "t", 2, nil)
	w := dial(t, c)
	records := batch(t, 3, record.BuilderOptions{})
	size := float64(len(records))
	produce := produceRequest(9, "t", [16]byte{}, 1, records)
	produceBytes := float64(len(frameOf(produce)) - 1) // wire has a shorter name
	a.moves("produce", func() { ask[*kmsg.ProduceResponse](w, produce) }, map[string]float64{
		`millstream_request_duration_seconds_count{api=Produce}`: 1,
		`millstream_request_local_seconds_count{api=Produce}`:    1,
		`millstream_request_wait_seconds_count{api=Produce}`:     1, // for the sync
		`millstream_request_response_seconds_count{api=Produce}`: 1,
		`millstream_request_bytes_total{api=Produce}`:            produceBytes,
		`millstream_network_bytes_total{direction=in}`:           produceBytes,
		// 4 size, 4 correlation, 1 tags; 1 topics, 2 "t", 1 partitions, 4 index, 2 code, 8 offset,
		// 8 time, 8 start, 1 record errors, 1 message, 3 tags; 4 throttle, 1 tags.
		`millstream_response_bytes_total{api=Produce}`:       52,
		`millstream_produced_bytes_total{topic=t}`:           size,
		`millstream_produced_bytes_total{topic=}`:            size,
		`millstream_produced_records_total{topic=t}`:         3,
		`millstream_produced_records_total{topic=}`:          3,
		`millstream_produces_total{topic=t}`:                 1,
		`millstream_log_end_offset{topic=t,partition=1}`:     3,
		`millstream_high_watermark{topic=t,partition=1}`:     3,
		`millstream_last_stable_offset{topic=t,partition=1}`: 3,
		`millstream_log_size_bytes{topic=t,partition=1}`:     size,
		`millstream_log_sync_seconds_count{directory=data}`:  1,
		`millstream_log_end_offset{topic=t,partition=0}`:     0,
	})
}
