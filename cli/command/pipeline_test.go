package command

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/pipelines/lang"
)

// doubled is a pipeline over topics alone: it keeps even numbers.
func doubled(name string) string {
	return fmt.Sprintf(`version: 1
pipeline: %[1]s
sources: {numbers: {topic: %[1]s-in}}
steps: [{filter: value.n %% 2 == 0}, {set: {twice: value.n * 2}}]
sinks: {evens: {topic: %[1]s-out}}
`, name)
}

// numbers are n lines of values for produce.
func numbers(from, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"n":%d}`+"\n", from+i)
	}
	return b.String()
}

// applied applies the pipeline doubled and waits until it has written as many records as wanted.
func applied(t *testing.T, c cli, name string, records, written int) string {
	t.Helper()
	file := writeFile(t, filepath.Join(t.TempDir(), "pipeline.yaml"), doubled(name))
	c.ok("topic", "create", name+"-in", name+"-out", "-p", "1")
	c.feed(numbers(0, records), "produce", name+"-in")
	c.ok("pipeline", "apply", file)
	c.waitOut(name, written)
	return file
}

// waitOut waits until a pipeline reports that many records written.
func (c cli) waitOut(name string, records int) pipelineStatus {
	c.t.Helper()
	var st pipelineStatus
	eventually(c.t, func() bool {
		st = decode[pipelineStatus](c.t, c.ok("pipeline", "status", name, "-o", "json"))
		return st.RecordsOut >= int64(records) && st.State == deploy.Running
	}, func() string { return fmt.Sprintf("%d records out: %+v", records, st) })
	return st
}

func TestPipelineRunsStopsAndStarts(t *testing.T) {
	c := server(t)
	file := applied(t, c, "life", 10, 5)

	st := c.waitOut("life", 5)
	require.Equal(t, int64(10), st.RecordsIn)
	require.Equal(t, 1, st.Revision)
	require.Equal(t, "running", st.Wanted)
	var text string // the state is told apart from the counts
	eventually(t, func() bool {
		text = c.ok("pipeline", "status", "life")
		return strings.Contains(text, "state     running")
	}, func() string { return text })
	require.Contains(t, text, "SOURCE   TOPIC    CONNECTOR  RECORDS  DEAD  LAG  WATERMARK")
	require.NotContains(t, c.ok("pipeline", "status", "life", "--no-headers"), "SOURCE")
	require.Contains(t, c.ok("pipeline", "ls"), "life")
	require.Contains(t, c.run("pipeline", "status", "live").err, `did you mean "life"?`)

	stopped := decode[wantedRevision](t, c.ok("pipeline", "stop", "life", "-o", "json"))
	require.Equal(t, wantedRevision{"life", 1, "stopped"}, stopped)
	c.waitState("life", deploy.Stopped)
	c.feed(numbers(10, 10), "produce", "life-in")
	c.ok("pipeline", "start", "life")
	c.waitState("life", deploy.Running)
	eventually(t, func() bool {
		return strings.Count(c.ok("consume", "life-out", "-o", "ndjson"), "\n") == 10
	}, func() string { return "five more where it stood" })

	var logs string // each line is a record, which may come after the outputs
	eventually(t, func() bool {
		logs = c.ok("pipeline", "logs", "life")
		return strings.Count(logs, "pipeline started") == 2
	}, func() string { return logs })
	lines := decode[[]map[string]any](t, c.ok("pipeline", "logs", "life", "-o", "json"))
	require.Equal(t, "pipeline started", lines[0]["msg"])
	require.Contains(t, c.ok("pipeline", "logs", "life", "-o", "yaml"), `msg: "pipeline started"`)

	again := decode[appliedRevision](t, c.ok("pipeline", "apply", file, "-o", "json"))
	require.Equal(t, 2, again.Revision)
	require.Equal(t, "running", again.State)
}

func (c cli) waitState(name string, state deploy.State) {
	c.t.Helper()
	var st pipelineStatus
	eventually(c.t, func() bool {
		st = decode[pipelineStatus](c.t, c.ok("pipeline", "status", name, "-o", "json"))
		return st.State == state
	}, func() string { return fmt.Sprintf("%s to be %s: %+v", name, state, st) })
}

// TestPlanIsWhatApplyDoes: a hash that was shown is taken, another one is refused with 5, and so is
// a change that would lose state.
func TestPlanIsWhatApplyDoes(t *testing.T) {
	c := server(t)
	type verdict struct {
		Command string
		OK      bool
		Result  struct {
			Pipeline, Hash string
			Changes        []map[string]any
		}
	}
	file := writeFile(t, filepath.Join(t.TempDir(), "pipeline.yaml"), counting("planned", "1h"))
	c.ok("topic", "create", "planned-in", "planned-out", "-p", "1")
	plan := decode[verdict](t, c.ok("pipeline", "plan", file, "-o", "json"))
	require.True(t, plan.OK)
	require.Equal(t, "pipeline plan", plan.Command)
	require.Equal(t, "planned", plan.Result.Pipeline)
	require.NotEmpty(t, plan.Result.Changes)
	require.Contains(t, c.ok("pipeline", "plan", file), plan.Result.Hash)

	r := c.run("pipeline", "apply", file, "--plan", "0000")
	require.Equal(t, 5, r.exit)
	require.Contains(t, r.err, "error[STALE_PLAN]")
	c.ok("pipeline", "apply", file, "--plan", plan.Result.Hash)
	same := decode[verdict](t, c.ok("pipeline", "plan", file, "-o", "json"))
	require.Empty(t, same.Result.Changes)

	writeFile(t, file, counting("planned", "2h"))
	r = c.run("pipeline", "apply", file)
	require.Equal(t, 5, r.exit)
	require.Contains(t, r.err, "error[STATE_LOSS]")
	require.Equal(t, 1, decode[pipelineStatus](t,
		c.ok("pipeline", "status", "planned", "-o", "json")).WantedRevision)
}

// counting is a pipeline with state: records counted in windows.
func counting(name, size string) string {
	return fmt.Sprintf(`version: 1
pipeline: %[1]s
sources: {numbers: {topic: %[1]s-in}}
steps:
  - id: counted
    aggregate:
      by: value.n %% 2
      window: {tumbling: %[2]s}
      emit: on_update
      fields: {count: count}
sinks: {counts: {topic: %[1]s-out}}
`, name, size)
}

// TestMistakesStopLintPlanAndApply: findings have file:line:col and exit code 2, in every format,
// and nothing is applied.
func TestMistakesStopLintPlanAndApply(t *testing.T) {
	c := server(t)
	dir := t.TempDir()
	t.Chdir(dir)
	bad := strings.Replace(doubled("bad"), "value.n % 2 == 0", "value.n % 2 +", 1)
	writeFile(t, "bad.yaml", bad)
	writeFile(t, "good.yaml", doubled("good"))
	writeFile(t, "twin.yaml", doubled("good"))

	r := c.run("pipeline", "lint", "bad.yaml")
	require.Equal(t, 2, r.exit)
	require.Contains(t, r.out, "bad.yaml:4:30: error[E204]: ")
	require.Contains(t, r.err, "1 error")
	for _, verb := range []string{"plan", "apply"} {
		r := c.run("pipeline", verb, "bad.yaml")
		require.Equal(t, 2, r.exit, verb)
		require.Empty(t, r.out, verb)
		require.Contains(t, r.err, "bad.yaml:4:30: error[E204]: ", verb)
	}
	require.Equal(t, 1, c.run("pipeline", "status", "bad").exit, "it was not applied")

	type verdict struct {
		OK     bool
		Result []lang.Finding
	}
	for _, verb := range []string{"lint", "plan"} {
		r := c.run("pipeline", verb, "bad.yaml", "-o", "json")
		require.Equal(t, 2, r.exit)
		v := decode[verdict](t, r.out)
		require.False(t, v.OK)
		require.Contains(t, fmt.Sprint(v.Result), "E204")
	}

	r = c.run("pipeline", "lint", "missing.yaml", "good.yaml", "bad.yaml", "twin.yaml")
	require.Equal(t, 2, r.exit)
	require.Contains(t, r.err, "error[CANNOT_READ]: cannot read missing.yaml")
	require.Contains(t, r.err,
		`error[DUPLICATE_PIPELINE]: good.yaml and twin.yaml are both called "good"`)
	require.Contains(t, r.out, "good: 1 source, 2 steps, 1 sink")
	require.Contains(t, r.out, "bad.yaml:4:30", "the others are checked all the same")

	require.Contains(t, c.run("pipeline", "lint", "good.yaml", "--var", "x").err, "error[BAD_VAR]")
	r = c.run("pipeline", "lint", "missing.yaml")
	require.Contains(t, r.err, "error[CANNOT_READ]")
	require.NotContains(t, r.err, "no findings", "nothing was looked at")
	// The aggregate of this one is two nodes of the plan.
	text := strings.Replace(counted("moved"), "by: key", "by: value.k", 1)
	r = c.run("pipeline", "lint", writeFile(t, "moved.yaml", text))
	require.Contains(t, r.out, "moved: 1 source, 1 step, 1 sink")
}

// TestStatusWithoutAWorker: a broker alone takes revisions, and says that nobody runs them.
func TestStatusWithoutAWorker(t *testing.T) {
	c := startBroker(t, nil)
	c.ok("topic", "create", "idle-in")
	file := writeFile(t, filepath.Join(t.TempDir(), "pipeline.yaml"), doubled("idle"))
	r := c.run("pipeline", "apply", file, "--no-wait", "-o", "json")
	require.Zero(t, r.exit, r.err)
	require.Equal(t, 1, decode[appliedRevision](t, r.out).Revision)
	require.Contains(t, c.ok("pipeline", "status", "idle"), "no worker has taken it")
	require.Contains(t, c.ok("pipeline", "ls"), "no worker has taken it")
	require.Contains(t, c.run("pipeline", "logs", "idle").err, "logged nothing")
}

// TestPlanWithoutABroker compares with nothing and says so.
func TestPlanWithoutABroker(t *testing.T) {
	file := writeFile(t, filepath.Join(t.TempDir(), "pipeline.yaml"), doubled("alone"))
	r := run(t, "pipeline", "plan", file, "--bootstrap", "127.0.0.1:1")
	require.Zero(t, r.exit, r.err)
	require.Contains(t, r.out, "pipeline alone")
	require.Contains(t, r.err, "no broker at 127.0.0.1:1: compared with nothing")
}

func TestPipelineInitWritesOneThatPasses(t *testing.T) {
	t.Chdir(t.TempDir())
	require.Equal(t, written{"warm", []string{"warm/pipeline.yaml"}},
		decode[written](t, run(t, "pipeline", "init", "warm", "-o", "json").out))
	r := run(t, "pipeline", "lint", "warm")
	require.Zero(t, r.exit, r.out)
	before, err := os.ReadFile("warm/pipeline.yaml")
	require.NoError(t, err)
	r = run(t, "pipeline", "init", "warm")
	require.Equal(t, 5, r.exit)
	require.Contains(t, r.err, "error[FILE_EXISTS]")
	after, err := os.ReadFile("warm/pipeline.yaml")
	require.NoError(t, err)
	require.Equal(t, before, after)
	for _, name := range []string{"Warm", "warm-", "9warm", "wa rm"} {
		require.Contains(t, run(t, "pipeline", "init", name).err, "error[BAD_NAME]", name)
	}
}

// TestFailedPipelineTellsWhy: a pipeline that stops at a record it cannot read, because it has no
// dead-letter topic.
func TestFailedPipelineTellsWhy(t *testing.T) {
	c := server(t)
	file := writeFile(t, filepath.Join(t.TempDir(), "pipeline.yaml"), doubled("fails"))
	c.ok("topic", "create", "fails-in", "fails-out", "-p", "1")
	c.ok("pipeline", "apply", file)
	c.feed("{broken\n", "produce", "fails-in")
	c.waitState("fails", deploy.Failed)
	require.Contains(t, c.ok("pipeline", "status", "fails"), "error     ")
	require.Contains(t, c.ok("pipeline", "logs", "fails"), "pipeline failed")
	require.Contains(t, c.ok("pipeline", "ls"), "failed")
}
