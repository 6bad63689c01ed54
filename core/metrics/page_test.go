package metrics_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/metrics"
)

func write(fn func(*metrics.Page)) string {
	var b strings.Builder
	p := metrics.NewPage(&b)
	fn(p)
	_ = p.Flush()
	return b.String()
}

// The text is that of Prometheus's page on its exposition formats.
func TestPageIsPrometheusText(t *testing.T) {
	requests := &metrics.Family{Name: "http_requests_total", Help: "The total\nof \\ \"all\".",
		Kind: metrics.Counter, Labels: []string{"method", "path"}}
	ratio := &metrics.Family{Name: "ratio", Help: "A part.", Kind: metrics.Gauge}
	got := write(func(p *metrics.Page) {
		p.Begin(requests)
		p.Int(1027, "post", "C:\\DIR\\FILE.TXT")
		p.Int(3, "get", "a\"b\nc")
		p.Int(4, "get", "é\xff")
		p.Begin(ratio)
		p.Float(0.25)
		p.One(ratio, 7)
	})
	require.Equal(t, `# HELP http_requests_total The total\nof \\ "all".
# TYPE http_requests_total counter
http_requests_total{method="post",path="C:\\DIR\\FILE.TXT"} 1027
http_requests_total{method="get",path="a\"b\nc"} 3
http_requests_total{method="get",path="é`+"\uFFFD"+`"} 4
# HELP ratio A part.
# TYPE ratio gauge
ratio 0.25
# HELP ratio A part.
# TYPE ratio gauge
ratio 7
`, got)
}

// Three observations: 50 µs is in the first bucket, which has its bound, 3 ms below 5 ms, 20 s
// above all. 20.00305 s together.
func TestHistogramCountsUpToAndWithItsBounds(t *testing.T) {
	var h metrics.Histogram
	h.Observe(50 * time.Microsecond)
	h.Observe(3 * time.Millisecond)
	h.Observe(20 * time.Second)
	require.EqualValues(t, 3, h.Count())
	f := &metrics.Family{Name: "x_seconds", Help: "X.", Kind: metrics.Distribution,
		Labels: []string{"api"}}
	text := write(func(p *metrics.Page) {
		p.Begin(f)
		p.Histogram(&h, "Fetch")
	})
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	require.NoError(t, err)
	got := families["x_seconds"].Metric[0]
	require.Equal(t, "Fetch", got.Label[0].GetValue())
	require.EqualValues(t, 3, got.Histogram.GetSampleCount())
	require.InDelta(t, 20.00305, got.Histogram.GetSampleSum(), 1e-9)
	counts := map[float64]uint64{}
	for _, b := range got.Histogram.Bucket {
		counts[b.GetUpperBound()] = b.GetCumulativeCount()
	}
	require.EqualValues(t, 1, counts[0.00005])
	require.EqualValues(t, 1, counts[0.0025])
	require.EqualValues(t, 2, counts[0.005])
	require.EqualValues(t, 2, counts[10])
}

func TestPageCostsNoMemoryPerSample(t *testing.T) {
	f := &metrics.Family{Name: "x", Help: "X.", Kind: metrics.Gauge,
		Labels: []string{"topic", "partition"}}
	p := metrics.NewPage(io.Discard)
	p.Begin(f)
	var h metrics.Histogram
	require.Zero(t, testing.AllocsPerRun(10, func() {
		for range 1000 {
			p.Int(1<<40, "topic", "12")
		}
		h.Observe(time.Millisecond)
	}))
}

type brokenWriter struct{ writes int }

var errBroken = errors.New("client is gone")

func (w *brokenWriter) Write([]byte) (int, error) {
	w.writes++
	return 0, errBroken
}

func TestPageStopsAtTheFirstError(t *testing.T) {
	w := &brokenWriter{}
	p := metrics.NewPage(w)
	p.Begin(&metrics.Family{Name: "x", Help: "X.", Kind: metrics.Gauge})
	for range 10_000 {
		p.Int(1)
	}
	require.ErrorIs(t, p.Flush(), errBroken)
	require.Equal(t, 1, w.writes)
}

func TestMissingLabelIsAnInvariant(t *testing.T) {
	p := metrics.NewPage(io.Discard)
	p.Begin(&metrics.Family{Name: "x", Kind: metrics.Gauge, Labels: []string{"topic"}})
	require.Panics(t, func() { p.Int(1) })
}
