package runner_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/pipelines/check"
	"github.com/millstream-io/millstream/pipelines/plan"
	"github.com/millstream-io/millstream/pipelines/runner"
)

// withTimers passes records of a topic through an operator with timers.
const withTimers = `version: 1
pipeline: p
plugins: {it: {source: SOURCE}}
sources: {in: {topic: in, key: string, value: string}}
steps: [{id: step, plugin: {use: it/PART, config: {die: DIR/died}}}]
sinks: {out: {topic: out}}
`

func timers(t *testing.T, part string) string {
	t.Helper()
	source, err := filepath.Abs("testdata/alarm")
	require.NoError(t, err)
	return strings.NewReplacer("SOURCE", source, "PART", part).Replace(withTimers)
}

// at writes a record of a key at an event time in ms.
func (r *rig) at(key, value string, ms int64) {
	r.t.Helper()
	r.write(&kgo.Record{Topic: "in", Key: []byte(key), Value: []byte(value),
		Timestamp: time.UnixMilli(ms)})
}

// TestPluginTimersFireOnceWhateverDies: a timer of event time is 10 ms behind the last record of
// its key; it survives a stop of the pipeline, and the death of its plugin in the batch that sets
// it fires it once. By hand: a is quiet from 5 to 15, seen at 100; b from 100 to 110, seen at 200;
// c from 200 on, of which nobody knows yet.
func TestPluginTimersFireOnceWhateverDies(t *testing.T) {
	r := newRig(t)
	r.topic("in", 1)
	yaml := timers(t, "quiet")
	s := r.start(yaml)
	r.at("a", "one", 1)
	r.at("a", "two", 5)
	s.until("both are committed", func() bool {
		st := s.in.Status()
		return st.RecordsIn == 2 && st.Lag == 0
	})
	s.halt()
	require.Empty(t, r.values("out"))

	s = r.start(yaml)
	r.at("b", "die", 100)
	s.await("out", "a=two@15")
	r.at("c", "three", 200)
	s.await("out", "a=two@15", "b=die@110")
	require.FileExists(t, filepath.Join(r.dir, "died"))
	require.EqualValues(t, 1, s.in.Status().Restarts)
	s.halt()
	out := r.read("out")
	require.EqualValues(t, 15, out[0].Timestamp.UnixMilli(), "the time at which it was due")
}

// TestPluginWallTimers fire without another record, and what has them is not deterministic: lint
// says so, and the plan.
func TestPluginWallTimers(t *testing.T) {
	r := newRig(t)
	r.topic("in", 1)
	yaml := timers(t, "wall")
	s := r.start(yaml)
	r.at("a", "one", 1)
	s.await("out", "a=one@0")
	r.at("a", "two", 2)
	s.await("out", "a=one@0", "a=two@0")
	s.halt()

	catalog := runner.NewCatalog(runner.CatalogOptions{Build: true, Dir: r.dir, CacheDir: pluginCache})
	defer catalog.Close()
	p, findings := runner.Compile(r.revision(yaml), catalog)
	require.Equal(t, plan.DeterminismD, p.Determinism)
	named := false
	for _, f := range findings {
		named = named || f.Code == check.CodeWallTimers && f.Line == 5
	}
	require.True(t, named, "%+v", findings)
	require.Equal(t, plan.DeterminismA, r.plan(timers(t, "quiet")).Determinism)
}
