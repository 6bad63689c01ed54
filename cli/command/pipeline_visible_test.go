package command

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/metrics"
	"github.com/millstream-io/millstream/pipelines/deploy"
)

// fetched is the body of a page that must be there.
func fetched(t testing.TB, url string) string {
	t.Helper()
	response, err := http.Get(url)
	require.NoError(t, err)
	defer func() { require.NoError(t, response.Body.Close()) }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode, "%s: %s", url, body)
	return string(body)
}

// sample is the value of one sample of a page, "" when it has none.
func sample(page, name string) string {
	for line := range strings.Lines(page) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// timed is a pipeline with a window of event time and a dead-letter topic: value.at is the time.
func timed(name string, partitions int) string {
	return fmt.Sprintf(`version: 1
pipeline: %[1]s
on_error: {then: dlq, dlq: %[1]s-dead}
sources:
  numbers: {topic: %[1]s-in, event_time: 'parse_time(value.at, "unix_ms")', partitions: %[2]d}
steps:
  - {id: whole, filter: value.n > 0}
  - id: counted
    aggregate:
      by: value.n %% 2
      window: {tumbling: 10s}
      late: drop
      emit: on_update
      fields: {count: count}
sinks: {counts: {topic: %[1]s-out}}
`, name, partitions)
}

// allAt tells whether every step and sink has come to at. Counters of a status are live, watermarks
// those of the last look at a task.
func allAt(st pipelineStatus, at time.Time) bool {
	for _, s := range st.Steps {
		if !s.Watermark.Equal(at) {
			return false
		}
	}
	for _, s := range st.Sinks {
		if !s.Watermark.Equal(at) {
			return false
		}
	}
	return true
}

// TestStatusAndMetricsTellEachNode: of seven records one is no JSON, one does not pass the filter
// and one is too late; the last moves event time to 00:01:00. All of that shows in the status, and
// in the metrics under the names of Prometheus's convention.
func TestStatusAndMetricsTellEachNode(t *testing.T) {
	p := started(t, "server", "--data-dir", t.TempDir())
	c := p.client(t)
	file := writeFile(t, filepath.Join(t.TempDir(), "pipeline.yaml"), timed("nodes", 1))
	c.ok("topic", "create", "nodes-in", "nodes-out", "nodes-dead", "-p", "1")
	var lines strings.Builder
	for _, line := range []string{
		`{"n":1,"at":1000}`, `{"n":2,"at":2000}`, `no JSON`,
		`{"n":0,"at":3000}`, `{"n":3,"at":4000}`,
		`{"n":4,"at":60000}`, `{"n":5,"at":5000}`,
	} {
		lines.WriteString(line + "\n")
	}
	c.feed(lines.String(), "produce", "nodes-in")
	c.ok("pipeline", "apply", file)
	st := c.waitOut("nodes", 4)
	minute := time.Unix(60, 0).UTC()
	eventually(t, func() bool {
		st = decode[pipelineStatus](t, c.ok("pipeline", "status", "nodes", "-o", "json"))
		return st.Late == 1 && st.Lag == 0 && allAt(st, minute)
	}, func() string { return fmt.Sprintf("one late record, one minute: %+v", st) })

	require.EqualValues(t, 7, st.RecordsIn)
	require.EqualValues(t, 1, st.DeadLettered)
	require.Equal(t, minute, st.Sources[0].Watermark)
	require.EqualValues(t, 1, st.Sources[0].DeadLettered)
	steps := map[string]deploy.StepStatus{}
	for _, s := range st.Steps {
		steps[s.ID] = s
	}
	require.EqualValues(t, 6, steps["whole"].In)
	require.EqualValues(t, 5, steps["whole"].Out)
	require.EqualValues(t, 1, steps["counted"].Late)
	require.EqualValues(t, 4, steps["counted"].Out)
	require.Equal(t, minute, steps["whole"].Watermark)
	require.Greater(t, steps["counted"].LagSeconds, 50*365*24*3600.0, "1970 is long ago")
	require.Equal(t, minute, st.Sinks[0].Watermark)
	source := st.Tasks[slices.IndexFunc(st.Tasks, func(t deploy.TaskStatus) bool {
		return t.ID == "numbers.0"
	})]
	require.Equal(t, "running", source.Phase)
	require.EqualValues(t, 7, source.Inputs[0].Position)
	require.Equal(t, minute, source.Inputs[0].Watermark)

	text := c.ok("pipeline", "status", "nodes")
	for _, want := range []string{"WATERMARK", "1970-01-01T00:01:00Z", "nodes-in-0", "numbers.0"} {
		require.Contains(t, text, want)
	}
	page := fetched(t, "http://"+p.ready.HTTP+"/metrics")
	requireMemory(t, st, text, page)
	for name, want := range map[string]string{
		`millstream_pipeline_info{pipeline="nodes",revision="1",state="running"}`:               "1",
		`millstream_pipeline_watermark_seconds{pipeline="nodes"}`:                               "60",
		`millstream_pipeline_lag_records{pipeline="nodes"}`:                                     "0",
		`millstream_pipeline_node_records_in_total{pipeline="nodes",node="numbers"}`:            "7",
		`millstream_pipeline_node_dead_lettered_records_total{pipeline="nodes",node="numbers"}`: "1",
		`millstream_pipeline_node_records_out_total{pipeline="nodes",node="whole"}`:             "5",
		`millstream_pipeline_node_late_records_total{pipeline="nodes",node="counted"}`:          "1",
		`millstream_pipeline_node_records_out_total{pipeline="nodes",node="counts"}`:            "4",
		`millstream_pipeline_node_watermark_seconds{pipeline="nodes",node="counted"}`:           "60",
		`millstream_pipeline_input_position{pipeline="nodes",topic="nodes-in",partition="0"}`:   "7",
		`millstream_pipeline_metrics_omitted{kind="nodes"}`:                                     "0",
	} {
		require.Equal(t, want, sample(page, name), name)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	_, err := parser.TextToMetricFamilies(strings.NewReader(page))
	require.NoError(t, err)
	require.Contains(t, fetched(t, "http://"+p.ready.HTTP+"/v1/pipelines"), `"name":"nodes"`)
}

// TestPipelineMetricsAreBounded: with more nodes than metrics.series.max only the pipeline itself
// is told, and how many nodes are not.
func TestPipelineMetricsAreBounded(t *testing.T) {
	dir := t.TempDir()
	config := writeFile(t, filepath.Join(dir, "node.yaml"), "broker: {metrics.series.max: 2}\n")
	p := started(t, "server", "--data-dir", filepath.Join(dir, "data"), "--config", config)
	c := p.client(t)
	applied(t, c, "bounded", 4, 2)
	page := ""
	eventually(t, func() bool {
		page = fetched(t, "http://"+p.ready.HTTP+"/metrics")
		return sample(page, `millstream_pipeline_lag_records{pipeline="bounded"}`) == "0"
	}, func() string { return "no lag in " + page })
	require.Equal(t, "4", sample(page, `millstream_pipeline_metrics_omitted{kind="nodes"}`))
	require.Equal(t, "0",
		sample(page, `millstream_pipeline_metrics_omitted{kind="input partitions"}`))
	require.NotContains(t, page, "millstream_pipeline_node_records_in_total{")
	require.Contains(t, page, "millstream_pipeline_input_position{")
}

// TestWorkersTellTheirPartsAndTheStatusIsTheirSum: two workers share four partitions of one
// pipeline. Each serves its metrics, and they add up to what the status says, which says who runs
// what.
func TestWorkersTellTheirPartsAndTheStatusIsTheirSum(t *testing.T) {
	c := startBroker(t, nil)
	c.ok("topic", "create", "two-in", "-p", "4")
	c.ok("topic", "create", "two-out", "-p", "4")
	c.feed(numbers(0, 1000), "produce", "two-in")
	file := writeFile(t, filepath.Join(t.TempDir(), "pipeline.yaml"), doubled("two"))
	var workers []*process
	for range 2 {
		workers = append(workers, started(t, "server", "--roles", "worker", "--data-dir", t.TempDir(),
			"--bootstrap", c.address))
	}
	for _, w := range workers {
		require.Contains(t, fetched(t, "http://"+w.ready.HTTP+"/healthz"), "ok")
		require.Contains(t, fetched(t, "http://"+w.ready.HTTP+"/readyz"), "ok")
		require.Contains(t, fetched(t, "http://"+w.ready.HTTP+"/debug/pprof/goroutine?debug=1"),
			"goroutine profile")
	}
	c.ok("pipeline", "apply", file)
	var st pipelineStatus
	eventually(t, func() bool {
		st = decode[pipelineStatus](t, c.ok("pipeline", "status", "two", "-o", "json"))
		names := map[string]bool{}
		for _, task := range st.Tasks {
			if task.Phase == "running" {
				names[task.Worker] = true
			}
		}
		return len(names) == 2 && st.RecordsIn == 1000 && st.RecordsOut == 500 && st.Lag == 0
	}, func() string { return fmt.Sprintf("1000 records by two workers: %+v", st) })
	require.Len(t, st.Tasks, 4)
	require.EqualValues(t, 1000, st.Steps[0].In)
	require.EqualValues(t, 500, st.Sinks[0].Records)

	sum := 0
	for _, w := range workers {
		page := fetched(t, "http://"+w.ready.HTTP+"/metrics")
		var n int
		_, err := fmt.Sscan(sample(page,
			`millstream_pipeline_node_records_in_total{pipeline="two",node="numbers"}`), &n)
		require.NoError(t, err)
		sum += n
	}
	require.Equal(t, 1000, sum, "work that moved counts where it was done")

	c.feed(numbers(1000, 100), "produce", "two-in")
	eventually(t, func() bool {
		st = decode[pipelineStatus](t, c.ok("pipeline", "status", "two", "-o", "json"))
		return st.RecordsIn == 1100
	}, func() string { return fmt.Sprintf("1100 records: %+v", st) })
	require.Zero(t, workers[0].stop(), workers[0].err)
	eventually(t, func() bool { // its tasks wait for it, the other one goes on
		st = decode[pipelineStatus](t, c.ok("pipeline", "status", "two", "-o", "json"))
		phases := map[string]int{}
		for _, task := range st.Tasks {
			phases[task.Phase]++
		}
		return phases["running"] == 2 && phases["stopped"] == 2
	}, func() string { return fmt.Sprintf("one worker has gone: %+v", st) })
	require.EqualValues(t, 1100, st.RecordsIn, "no task counts twice, none is forgotten")
	require.Equal(t, deploy.Running, st.State)
	require.Zero(t, workers[1].stop(), workers[1].err)
	c.waitState("two", deploy.Stopped)
	require.EqualValues(t, 1100, decode[pipelineStatus](t,
		c.ok("pipeline", "status", "two", "-o", "json")).RecordsIn)
}

// tailWhileFed looks at the pipeline "tailed" while records come.
func tailWhileFed(t *testing.T, c cli, args ...string) result {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			c.feed(numbers(10, 4), "produce", "tailed-in")
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	}()
	r := runWith(ctx, strings.NewReader(""), append([]string{"pipeline", "tail", "tailed",
		"--bootstrap", c.address}, args...)...)
	cancel()
	<-fed
	return r
}

// TestTailShowsWhatPasses: a node's records as they come and as they go, filtered, in text and as
// NDJSON; and it says what cannot be seen.
func TestTailShowsWhatPasses(t *testing.T) {
	c := server(t)
	applied(t, c, "tailed", 4, 2)
	tail := func(args ...string) result { return tailWhileFed(t, c, args...) }
	st := decode[pipelineStatus](t, c.ok("pipeline", "status", "tailed", "-o", "json"))
	filter, set := st.Steps[0].ID, st.Steps[1].ID

	r := tail("--node", set, "-n", "6", "-o", "ndjson")
	require.Zero(t, r.exit, r.err)
	seen := map[string]bool{}
	for line := range strings.Lines(r.out) {
		var one tailed
		require.NoError(t, json.Unmarshal([]byte(line), &one))
		value, err := json.Marshal(one.Value)
		require.NoError(t, err)
		seen[string(value)] = true
		require.Equal(t, "tailed-in", one.Topic)
		require.Equal(t, "numbers.0", one.Task)
	}
	require.Equal(t, map[string]bool{`{"n":10,"twice":20}`: true, `{"n":12,"twice":24}`: true}, seen)
	require.Contains(t, r.err, "records shown")

	r = tail("--node", filter, "--before", "--filter", "value.n == 11", "-n", "3")
	require.Zero(t, r.exit, r.err)
	require.Equal(t, 3, strings.Count(r.out, `{"n":11}`), r.out)
	require.Equal(t, 3, strings.Count(r.out, "\n"), r.out)

	r = tail("--node", "evens", "-n", "2", "-o", "json")
	require.Zero(t, r.exit, r.err)
	require.Contains(t, r.out, `"twice"`)
	require.Zero(t, tail("--node", "numbers", "-n", "1").exit)

	for want, args := range map[string][]string{
		`did you mean "evens"?`: {"--node", "even"},
		"which node?":           {},
		"must be from 1":        {"--node", "evens", "--rate", "0"},
		"UNKNOWN_PIPELINE":      {"--node", "x", "none"},
	} {
		args = append([]string{"pipeline", "tail", "tailed"}, args...)
		if want == "UNKNOWN_PIPELINE" {
			args = []string{"pipeline", "tail", "none", "--node", "x"}
		}
		r := c.run(args...)
		require.NotZero(t, r.exit)
		require.Contains(t, r.err, want)
	}
	r = tail("--node", "evens", "--filter", "value.n ==", "-n", "1")
	require.NotZero(t, r.exit)
	require.Contains(t, r.err, "CANNOT_SHOW")

	c.ok("pipeline", "stop", "tailed")
	c.waitState("tailed", deploy.Stopped)
	r = c.run("pipeline", "tail", "tailed", "--node", "evens", "--wait", "200ms")
	require.Contains(t, r.err, "NO_WORKER")
}

var rewriteMetrics = flag.Bool("rewrite-metrics", false, "write cli/METRICS.md anew")

// TestPipelineMetricsPageIsTrue compares cli/METRICS.md with the families. Write it anew with:
//
// go test ./cli/command -run PipelineMetricsPage -rewrite-metrics
func TestPipelineMetricsPageIsTrue(t *testing.T) {
	const file = "../METRICS.md"
	var page strings.Builder
	fmt.Fprint(&page, "# Metrics of pipelines\n\nMade by a test from the families in ",
		"`command/pipeline_metrics.go`; do not edit. A node and a worker alone\ntell them at ",
		"`GET /metrics` on --http, beside those of core/METRICS.md. Counters are those of the ",
		"process.\n\n| metric | kind | labels | what it is |\n|---|---|---|---|\n")
	for _, f := range newPipelineMetrics(nil).Families() {
		fmt.Fprintf(&page, "| `%s` | %s | %s | %s |\n", f.Name, f.Kind, strings.Join(f.Labels, ", "),
			f.Help)
		require.Equal(t, f.Kind == metrics.Counter, strings.HasSuffix(f.Name, "_total"), f.Name)
	}
	if *rewriteMetrics {
		require.NoError(t, os.WriteFile(file, []byte(page.String()), 0o644))
	}
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, page.String(), string(got), "write it anew with -rewrite-metrics")
}

// requireMemory: status and metrics tell what state takes in memory, and of how much.
func requireMemory(t *testing.T, st pipelineStatus, text, page string) {
	t.Helper()
	require.Positive(t, st.Memory.DirtyBytes+st.Memory.CachedBytes)
	require.Contains(t, text, "all pipelines here may take 512 MiB")
	require.Equal(t, "536870912",
		sample(page, `millstream_pipeline_state_memory_limit_bytes{pipeline="nodes"}`))
	require.Equal(t, "0", sample(page, `millstream_pipeline_state_evicted_rows{pipeline="nodes"}`))
}
