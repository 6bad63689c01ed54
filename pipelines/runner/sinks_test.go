package runner_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/plugins/sdk"
)

// probe is a sink connector in this process that does as the test says.
type probe struct {
	mu struct {
		sync.Mutex
		taken []string
		// answer says what happens to a value; nil takes it.
		answer func(value string) error
		opens  int
	}
}

type probeConfig struct {
	Token string `json:"token"`
}

func (p *probe) plugin() sdk.Plugin {
	return sdk.Plugin{Name: "probe", Parts: []sdk.Part{
		sdk.NewSink("sink", func() sdk.SinkWriter[probeConfig] { return &probeWriter{p} }),
	}}
}

type probeWriter struct{ p *probe }

func (w *probeWriter) Open(sdk.Ctx, probeConfig, sdk.Offsets) error {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	w.p.mu.opens++
	return nil
}

func (w *probeWriter) Write(_ sdk.Ctx, records *sdk.Records) error {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	for i := range records.Len() {
		value := string(records.At(i).Value())
		if w.p.mu.answer != nil {
			if err := w.p.mu.answer(value); err != nil {
				records.Fail(i, err)
				continue
			}
		}
		w.p.mu.taken = append(w.p.mu.taken, value)
	}
	return nil
}

func (w *probeWriter) Close() error { return nil }

func (p *probe) taken() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.mu.taken...)
}

// toProbe sends the ids of the events to the probe.
const toProbe = `version: 1
pipeline: p
sources:
  in: {connector: file, config: {path: DIR/in.jsonl}, partitions: 1}
steps: [{map: value.id}]
sinks:
  probe: {connector: probe, config: {}, on_error: ON_ERROR}
`

func newProbe(t *testing.T, answer func(string) error) (*rig, *probe) {
	r, p := newRig(t), &probe{}
	p.mu.answer = answer
	r.extra = []sdk.Plugin{p.plugin()}
	r.file("in.jsonl", events)
	return r, p
}

func withPolicy(yaml, policy string) string {
	return strings.ReplaceAll(yaml, "ON_ERROR", policy)
}

func TestSinkIsTriedAgain(t *testing.T) {
	refused := map[string]int{}
	r, p := newProbe(t, func(v string) error {
		if refused[v]++; v == `"b"` && refused[v] < 3 {
			return sdk.Retryable(errors.New("busy"))
		}
		return nil
	})
	st := r.run(withPolicy(toProbe, "{retry: {max: 5, backoff: 1ms..5ms}, then: stop}"))
	require.ElementsMatch(t, []string{`"a"`, `"b"`, `"c"`, `"d"`}, p.taken())
	require.EqualValues(t, 4, st.Sinks[0].Records)
	require.Contains(t, r.log.String(), "sink refused records for now")
}

func TestSinkThatRefusesForGood(t *testing.T) {
	refuse := func(v string) error {
		if v == `"b"` {
			return errors.New("never")
		}
		return nil
	}
	t.Run("stop", func(t *testing.T) {
		r, p := newProbe(t, refuse)
		s := r.start(withPolicy(toProbe, "{then: stop}"))
		require.ErrorContains(t, s.wait(), "sink probe: record p-probe-output-0@1: never")
		p.mu.Lock()
		p.mu.answer = nil
		p.mu.Unlock()
		r.run(withPolicy(toProbe, "{then: stop}"))
		require.Subset(t, p.taken(), []string{`"a"`, `"b"`, `"c"`, `"d"`}, "nothing was passed over")
	})
	t.Run("drop", func(t *testing.T) {
		r, p := newProbe(t, refuse)
		st := r.run(withPolicy(toProbe, "{then: drop}"))
		require.Equal(t, []string{`"a"`, `"c"`, `"d"`}, p.taken())
		require.Zero(t, st.DeadLettered)
		require.Contains(t, r.log.String(), "record dropped")
	})
	t.Run("dlq", func(t *testing.T) {
		r, p := newProbe(t, refuse)
		st := r.run(withPolicy(toProbe, "{then: dlq, dlq: dead}"))
		require.Equal(t, []string{`"a"`, `"c"`, `"d"`}, p.taken())
		require.EqualValues(t, 1, st.DeadLettered)
		require.EqualValues(t, 3, st.Sinks[0].Records)
		dead := r.read("dead")
		require.Len(t, dead, 1)
		require.Equal(t, "sink_permanent", header(dead[0], "ms-dlq-class"))
		require.Equal(t, "1", header(dead[0], "ms-dlq-attempts"), "it would refuse it again")
		require.Equal(t, "probe", header(dead[0], "ms-dlq-step"))
		again := r.run(withPolicy(toProbe, "{then: dlq, dlq: dead}"))
		require.EqualValues(t, 1, again.DeadLettered)
		require.EqualValues(t, 3, again.Sinks[0].Records)
		require.Len(t, r.read("dead"), 1)
	})
	t.Run("by class", func(t *testing.T) {
		r, p := newProbe(t, refuse)
		r.run(withPolicy(toProbe, "{then: stop, by_class: {sink_permanent: drop}}"))
		require.Len(t, p.taken(), 3)
	})
	t.Run("retries run out", func(t *testing.T) {
		r, p := newProbe(t, func(v string) error {
			if v == `"b"` {
				return sdk.Retryable(errors.New("busy"))
			}
			return nil
		})
		st := r.run(withPolicy(toProbe, "{retry: {max: 2, backoff: 1ms..2ms}, then: dlq, dlq: dead}"))
		require.Len(t, p.taken(), 3)
		require.EqualValues(t, 1, st.DeadLettered)
		dead := r.read("dead")
		require.Equal(t, "sink_transient", header(dead[0], "ms-dlq-class"))
		require.Equal(t, "3", header(dead[0], "ms-dlq-attempts"))
	})
}

// TestFileSinkTemplates: what a connector sink writes goes through its key and value.
func TestFileSinkTemplates(t *testing.T) {
	r := newRig(t)
	r.file("in.jsonl", events)
	st := r.run(fileSource + "steps: [{filter: value.n > 4}]\nsinks: {file: {connector: file, " +
		`config: {path: DIR/out.ndjson}, value: '{"id": value.id}'}}` + "\n")
	require.ElementsMatch(t, []string{`{"id":"b"}`, `{"id":"c"}`}, r.lines("out.ndjson"))
	require.Equal(t, "effectively once (connector file resumes exactly)", st.Guarantees["file"])
}
