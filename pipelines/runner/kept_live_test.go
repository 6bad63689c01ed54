package runner_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/pipelines/query"
	"github.com/millstream-io/millstream/pipelines/runner"
)

// liveCounts counts records of a topic per key, without an end.
const liveCounts = `version: 1
pipeline: p
sources: {in: {topic: in, key: string}}
steps: [{id: agg, from: in, aggregate: {by: key, unbounded: true, fields: {n: count}}}]
sinks: {out: {topic: out}}
`

func (r *rig) launch(run *runner.Runner, yaml string) *started {
	r.t.Helper()
	in, err := run.Prepare(r.ctx(), r.revision(yaml))
	if findings, ok := err.(*runner.ErrFindings); ok {
		r.t.Fatalf("findings: %+v", findings.Findings)
	}
	require.NoError(r.t, err)
	ctx, stop := context.WithCancel(context.Background())
	s := &started{r: r, in: in, stop: stop, done: make(chan error, 1)}
	go func() { s.done <- in.Run(ctx) }()
	r.t.Cleanup(func() { stop(); s.done <- <-s.done })
	return s
}

func asking(key string) query.Request {
	return query.Request{Pipeline: "p", Node: "agg", Key: &key, MaxLag: -1, From: -1 << 63,
		To: 1<<63 - 1}
}

// TestFreshRowsHaveAllThatWasCommitted: rows lag behind commits until the file is written, and say
// by how much; who asks for fresh ones gets all that was out before.
func TestFreshRowsHaveAllThatWasCommitted(t *testing.T) {
	r := newRig(t)
	r.topic("in", 2)
	run := r.runner()
	s := r.launch(run, liveCounts)
	c, address := serve(t, run)
	var want []string
	for i := range 20 {
		r.produce("in", "a=1")
		want = append(want, fmt.Sprintf(`a={"n":%d}`, i+1))
	}
	s.await("out", want...)
	asked := asking("a")
	asked.Fresh = true
	answer, err := c.Ask(r.ctx(), asked)
	require.NoError(t, err)
	require.Len(t, answer.Rows, 1)
	require.JSONEq(t, `{"n":20}`, string(answer.Rows[0].Value))
	require.Len(t, answer.Partitions, 2)
	read := int64(0)
	for _, p := range answer.Partitions {
		require.Zero(t, p.Lag)
		for _, in := range p.Inputs {
			read += in.Position
		}
	}
	require.EqualValues(t, 20, read, "the position is that of the rows")

	r.produce("in", "a=1")
	s.await("out", append(want, `a={"n":21}`)...)
	asked.Fresh = false
	answer, err = c.Ask(r.ctx(), asked)
	require.NoError(t, err)
	behind := int64(0)
	for _, p := range answer.Partitions {
		behind += p.Lag
	}
	if string(answer.Rows[0].Value) == `{"n":20}` {
		require.NotZero(t, behind, "rows that are behind say so")
		asked.MaxLag = 0
		_, err = c.Ask(r.ctx(), asked)
		require.ErrorContains(t, err, "changelog records behind: at most 0 were asked for")
	}
	code, body := get(t, address, query.Root+"p/state")
	require.Equal(t, 200, code)
	require.Contains(t, body, `"node":"agg","store":"agg","kind":"aggregate"`)
}

// TestRowsOfATaskThatDoesNotRunAreStale: they are refused with the phase, unless asked for.
func TestRowsOfATaskThatDoesNotRunAreStale(t *testing.T) {
	r := newRig(t)
	r.topic("in", 1)
	run := r.runner()
	s := r.launch(run, liveCounts)
	r.produce("in", "a=1", "a=1")
	s.await("out", `a={"n":1}`, `a={"n":2}`)
	s.halt()
	c, _ := serve(t, run)
	asked := asking("a")
	_, err := c.Ask(r.ctx(), asked)
	require.ErrorContains(t, err, "task p.in.0 is stopped")
	asked.Stale = true
	answer, err := c.Ask(r.ctx(), asked)
	require.NoError(t, err)
	require.JSONEq(t, `{"n":2}`, string(answer.Rows[0].Value))
	require.EqualValues(t, "stopped", answer.Partitions[0].Phase)
	_, err = run.Prepare(r.ctx(), r.revision(liveCounts))
	require.NoError(t, err)
	s = r.launch(run, liveCounts) // that it was looked at does not keep it from running
	s.until("it runs", func() bool { return s.in.Status().State == deploy.Running })
}

// TestRowsOfOtherWorkersAreAskedThere: each worker answers for its tasks and names who has the
// rest; a copy answers for a task of another worker only when stale rows are asked for.
func TestRowsOfOtherWorkersAreAskedThere(t *testing.T) {
	r := newRig(t)
	r.topic("in", 2)
	type member struct {
		run     *runner.Runner
		address string
		s       *started
	}
	var members []*member
	for i := range 2 {
		m := &member{}
		server := httptest.NewUnstartedServer(nil)
		m.address = server.Listener.Addr().String()
		m.run = runner.New(runner.Options{Cluster: r.newCluster, Logger: r.logger(),
			StateDir: fmt.Sprintf("%s/%d", r.state, i), Instance: fmt.Sprintf("w%d", i),
			Address: func() string { return m.address }})
		server.Config.Handler = query.Handler(query.HandlerOptions{Source: m.run})
		server.Start()
		t.Cleanup(server.Close)
		m.s = r.launch(m.run, liveCounts+"resources: {standby: 1}\n")
		members = append(members, m)
	}
	var want []string
	for i := range 10 {
		r.produce("in", fmt.Sprintf("k%d=1", i))
		want = append(want, fmt.Sprintf(`k%d={"n":1}`, i))
	}
	members[0].s.await("out", want...)
	spread := func() bool { // both have tasks, and copies of the other's
		for _, m := range members {
			_, body := get(t, m.address, query.Root+"p/state")
			if !strings.Contains(body, `"phase":"running"`) ||
				!strings.Contains(body, `"phase":"standby"`) {
				return false
			}
		}
		return true
	}
	members[0].s.until("tasks are spread", spread)
	for _, m := range members {
		c := &query.Client{Address: m.address}
		for i := range 10 {
			asked := asking(fmt.Sprintf("k%d", i))
			asked.Fresh = true
			answer, err := c.Ask(r.ctx(), asked)
			require.NoError(t, err)
			require.Len(t, answer.Rows, 1, "%+v", answer)
			require.Len(t, answer.Partitions, 2)
			require.Empty(t, answer.Elsewhere)
		}
		listing, err := c.List(r.ctx(), "p")
		require.NoError(t, err)
		for _, p := range listing.Stores[0].Partitions {
			require.EqualValues(t, "running", p.Phase)
		}
		var out strings.Builder
		asked := asking("")
		asked.Key, asked.Fresh = nil, true
		rows, err := c.Export(r.ctx(), asked, &out)
		require.NoError(t, err)
		require.EqualValues(t, 10, rows, out.String())
	}
	// Of a worker alone: its own tasks, and where the others are.
	_, body := get(t, members[0].address, query.Root+"p/state/agg")
	require.Contains(t, body, `"address":"`+members[1].address+`"`)
	_, body = get(t, members[0].address, query.Root+"p/state/agg?stale=true")
	require.Contains(t, body, `"phase":"standby"`)
	require.NotContains(t, body, `"elsewhere"`)
}
