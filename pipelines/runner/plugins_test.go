package runner_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/pipelines/check"
	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/pipelines/runner"
)

// pluginPipeline passes records through the plugin; CONFIG is its configuration.
const pluginPipeline = `version: 1
pipeline: p
on_error: {then: dlq, dlq: dead}
plugins: {it: {source: SOURCE}}
sources:
  in: {connector: file, config: {path: DIR/in.jsonl}, partitions: 3, key: value.id}
steps:
  - {id: step, plugin: {use: it, config: CONFIG}}
sinks: {out: {topic: out}}
`

func withPlugin(source, config string) string {
	return strings.NewReplacer("SOURCE", source, "CONFIG", config).Replace(pluginPipeline)
}

// A mistyped folder of a plugin is told from a plugin that does not build.
func TestCatalogNamesTheNearestFolder(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "plugins", "mark"), 0o755))
	catalog := runner.NewCatalog(runner.CatalogOptions{Build: true, Dir: dir})
	defer catalog.Close()
	for source, near := range map[string]string{"./plugins/marks": "./plugins/mark",
		"./plugins/entirely": "", "./plugin/mark": ""} {
		_, err := catalog.Operator(check.PluginRef{Alias: "m", Source: source}, "")
		require.Equal(t, &check.NoSourceError{Source: source, Near: near}, err)
	}
	_, err := catalog.Operator(check.PluginRef{Alias: "m", Source: "./plugins/mark"}, "")
	require.Error(t, err)
	_, missing := errors.AsType[*check.NoSourceError](err)
	require.False(t, missing, "the folder is there")
}

// numbered is a file of n records, r0 and on.
func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"id":"r%d"}`+"\n", i)
	}
	return b.String()
}

// tagged is what the plugin makes of numbered.
func tagged(n int, except ...int) []string {
	var out []string
	for i := range n {
		skip := false
		for _, e := range except {
			skip = skip || e == i
		}
		if !skip {
			out = append(out, fmt.Sprintf(`r%d={"id":"r%d","tagged":true}`, i, i))
		}
	}
	return out
}

func TestPlugin(t *testing.T) {
	r := newRig(t)
	r.file("in.jsonl", numbered(500))
	st := r.run(withPlugin(misbehave(t), "{do: tag}"))
	require.ElementsMatch(t, tagged(500), r.values("out"))
	require.Equal(t, "exactly once (transactions)", st.Guarantees["out"])
}

// TestPluginTimesAreNotAheadOfTheStream: a plugin may give a record an earlier time. One that time
// has not come to would close windows that others still belong to, so the record keeps its own.
func TestPluginTimesAreNotAheadOfTheStream(t *testing.T) {
	for do, want := range map[string][]int64{"earlier": {1000, 4000}, "ahead": {2000, 5000}} {
		r := newRig(t)
		r.file("in.jsonl", `{"id":"a","at":"1970-01-01T00:00:02Z"}`+"\n"+
			`{"id":"b","at":"1970-01-01T00:00:05Z"}`+"\n")
		yaml := strings.Replace(withPlugin(misbehave(t), "{do: "+do+"}"), "partitions: 3, key: value.id",
			`partitions: 1, key: value.id, event_time: 'parse_time(value.at, "rfc3339")'`, 1)
		r.run(yaml)
		var times []int64
		for _, rec := range r.read("out") {
			times = append(times, rec.Timestamp.UnixMilli())
		}
		require.ElementsMatch(t, want, times, do)
	}
}

// TestPluginIsKilled: the process dies by SIGKILL in the middle; nothing is lost or doubled.
func TestPluginIsKilled(t *testing.T) {
	r := newRig(t)
	r.file("in.jsonl", numbered(500))
	st := r.run(withPlugin(misbehave(t), fmt.Sprintf("{do: kill, on: r250, once: %s}",
		filepath.Join(r.dir, "killed"))))
	require.FileExists(t, filepath.Join(r.dir, "killed"))
	require.ElementsMatch(t, tagged(500), r.values("out"))
	require.EqualValues(t, 1, st.Restarts)
	require.Empty(t, r.read("dead"))
}

// TestPoisonRecord: the plugin panics on one record, which ends as a dead letter.
func TestPoisonRecord(t *testing.T) {
	r := newRig(t)
	r.file("in.jsonl", numbered(300))
	st := r.run(withPlugin(misbehave(t), `{do: panic, on: '"r77"'}`))
	require.ElementsMatch(t, tagged(300, 77), r.values("out"))
	dead := r.read("dead")
	require.Len(t, dead, 1)
	require.Equal(t, `{"id":"r77"}`, string(dead[0].Value))
	require.Equal(t, "plugin_crash", header(dead[0], "ms-dlq-class"))
	require.Equal(t, "step", header(dead[0], "ms-dlq-step"))
	require.EqualValues(t, 1, st.DeadLettered)
	require.EqualValues(t, 300, st.RecordsIn)
	require.EqualValues(t, 299, st.RecordsOut)
}

func TestPluginFailsRecords(t *testing.T) {
	r := newRig(t)
	r.file("in.jsonl", numbered(100))
	st := r.run(withPlugin(misbehave(t), `{do: fail, on: '"r5'}`)) // r5, r50 … r59
	require.Len(t, r.read("out"), 89)
	require.EqualValues(t, 11, st.DeadLettered)
	for _, rec := range r.read("dead") {
		require.Equal(t, "plugin", header(rec, "ms-dlq-class"))
		require.Contains(t, header(rec, "ms-dlq-error"), "cannot take it")
	}
}

func TestPluginAsksForAnotherTry(t *testing.T) {
	r := newRig(t)
	r.file("in.jsonl", numbered(20))
	yaml := withPlugin(misbehave(t), fmt.Sprintf(`{do: flaky, on: r7, once: %s}`,
		filepath.Join(r.dir, "once")))
	r.run(strings.Replace(yaml, "{then: dlq,", "{retry: {max: 3, backoff: 1ms..5ms}, then: dlq,", 1))
	require.ElementsMatch(t, tagged(20), r.values("out"))
	require.Empty(t, r.read("dead"))
}

// TestPluginPrints: what it writes to its standard streams is log, and disturbs nothing.
func TestPluginPrints(t *testing.T) {
	r := newRig(t)
	r.file("in.jsonl", numbered(20))
	r.run(withPlugin(misbehave(t), `{do: print}`))
	require.ElementsMatch(t, tagged(20), r.values("out"))
	require.Contains(t, r.log.String(), "hello from the plugin")
	require.Contains(t, r.log.String(), "and on the other stream")
}

// TestPluginGivesUp: the pipeline fails, names the plugin, keeps its position, and goes on from
// there.
func TestPluginGivesUp(t *testing.T) {
	r := newRig(t)
	r.file("in.jsonl", numbered(100))
	yaml := withPlugin(misbehave(t), fmt.Sprintf(`{do: give-up, on: '"r50"', once: %s}`,
		filepath.Join(r.dir, "once")))
	s := r.start(yaml)
	err := s.wait()
	require.ErrorContains(t, err, `plugin "it"`)
	require.ErrorContains(t, err, "gives up")
	r.run(yaml)
	require.ElementsMatch(t, tagged(100), r.values("out"))
}

// TestWhatIsNoPlugin: each gives an error that names the plugin and says what it did instead.
func TestWhatIsNoPlugin(t *testing.T) {
	r := newRig(t)
	r.file("in.jsonl", numbered(1))
	script := func(name, text string) string {
		path := filepath.Join(r.dir, name)
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755))
		return path
	}
	for name, tc := range map[string]struct{ source, want string }{
		"exits at once":  {script("exits", "echo no licence >&2; exit 3"), "no licence"},
		"prints garbage": {script("garbage", "echo hello; sleep 5"), "hello"},
		"is a text file": {r.file("text", "just text"), "is not an executable"},
		"does not exist": {filepath.Join(r.dir, "absent"), "there is no folder"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := r.runner().Prepare(r.ctx(), r.revision(withPlugin(tc.source, "{}")))
			require.Error(t, err)
			text := err.Error()
			if findings, ok := err.(*runner.ErrFindings); ok {
				text = fmt.Sprintf("%+v", findings.Findings)
			}
			require.Contains(t, text, tc.want)
			require.Contains(t, text, `"it"`)
		})
	}
}

// TestPluginThatAnswersGarbage: what is no frame ends the pipeline with the plugin's name, before
// any of it is passed on.
func TestPluginThatAnswersGarbage(t *testing.T) {
	garbler, err := filepath.Abs("testdata/garbler")
	require.NoError(t, err)
	r := newRig(t)
	r.file("in.jsonl", numbered(10))
	s := r.start(withPlugin(garbler, "{}"))
	err = s.wait()
	require.ErrorContains(t, err, `plugin "it"`)
	require.ErrorContains(t, err, "breaks the protocol")
	require.NotErrorIs(t, err, deploy.ErrTemporary)
	require.Empty(t, r.read("out"))
	r.run(withPlugin(misbehave(t), "{}"))
	require.ElementsMatch(t, tagged(10), r.values("out"), "the position was kept")
}

// TestPluginHangs: after the hang timeout the process is ended and another one does the work.
func TestPluginHangs(t *testing.T) {
	r := newRig(t)
	r.hang = 300 * time.Millisecond
	r.file("in.jsonl", numbered(50))
	st := r.run(withPlugin(misbehave(t), fmt.Sprintf(`{do: hang, on: '"r20"', once: %s}`,
		filepath.Join(r.dir, "once"))))
	require.ElementsMatch(t, tagged(50), r.values("out"))
	require.EqualValues(t, 1, st.Restarts)
	require.Contains(t, r.log.String(), "plugin=it")
}

// TestStopDoesNotWaitForAHungPlugin: the stop ends although nothing is answered, the position is
// kept, and the next run does all that was left, once.
func TestStopDoesNotWaitForAHungPlugin(t *testing.T) {
	r := newRig(t)
	r.hang, r.grace = time.Hour, 100*time.Millisecond
	r.file("in.jsonl", numbered(50))
	once := filepath.Join(r.dir, "once")
	yaml := withPlugin(misbehave(t), fmt.Sprintf(`{do: hang, on: '"r20"', once: %s}`, once))
	s := r.start(yaml)
	s.until("the plugin hangs", func() bool {
		_, err := os.Stat(once)
		return err == nil
	})
	s.halt()
	r.run(yaml)
	require.ElementsMatch(t, tagged(50), r.values("out"))
}
