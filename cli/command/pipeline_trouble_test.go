package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/cli/output"
	"github.com/millstream-io/millstream/core"
	"github.com/millstream-io/millstream/pipelines/deploy"
)

// openBroker starts a log on a folder and returns its address and how to stop it.
func openBroker(t *testing.T, dir, listen string) (address string, stop func()) {
	t.Helper()
	broker, err := core.Open(t.Context(), core.Options{DataDir: dir, Listen: listen})
	require.NoError(t, err)
	return broker.Addr(), func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(t, broker.Close(ctx))
	}
}

// TestPipelineWithoutItsBrokerIsDegraded: a worker loses the broker of its pipeline. What it serves
// over HTTP says degraded, since when, why and what to do, and so do its metrics; when the broker
// is back, all of it and `pipeline status` say running, without an order.
func TestPipelineWithoutItsBrokerIsDegraded(t *testing.T) {
	dir := t.TempDir()
	address, stop := openBroker(t, dir, "127.0.0.1:0")
	c := cli{t, address}
	worker := started(t, "server", "--roles", "worker", "--data-dir", t.TempDir(), "--bootstrap",
		address)
	applied(t, c, "alone", 4, 2)
	c.waitOut("alone", 2)

	stop()
	gone := time.Now()
	reported := func() deploy.Status {
		var all []deploy.Status
		page := fetched(t, "http://"+worker.ready.HTTP+"/v1/pipelines")
		require.NoError(t, json.Unmarshal([]byte(page), &all))
		require.Len(t, all, 1)
		return all[0]
	}
	var st deploy.Status
	eventually(t, func() bool { st = reported(); return st.State == deploy.Degraded },
		func() string { return fmt.Sprintf("it is degraded: %+v", st) })
	require.WithinDuration(t, gone, st.Trouble.Since, time.Minute)
	require.Contains(t, st.Trouble.Error, "connect to "+address)
	require.Contains(t, st.Trouble.Do, "millstream doctor")
	page := fetched(t, "http://"+worker.ready.HTTP+"/metrics")
	require.Equal(t, "1", sample(page,
		`millstream_pipeline_info{pipeline="alone",revision="1",state="degraded"}`), page)
	require.NotEqual(t, "0", sample(page, `millstream_pipeline_trouble_seconds{pipeline="alone"}`))

	_, stop = openBroker(t, dir, address)
	defer stop()
	eventually(t, func() bool { st = reported(); return st.State == deploy.Running },
		func() string { return fmt.Sprintf("it runs: %+v", st) })
	require.Nil(t, st.Trouble)
	page = fetched(t, "http://"+worker.ready.HTTP+"/metrics")
	require.Equal(t, "0", sample(page, `millstream_pipeline_trouble_seconds{pipeline="alone"}`))
	var told string
	eventually(t, func() bool {
		told = c.ok("pipeline", "status", "alone")
		return strings.Contains(told, "state     running") && !strings.Contains(told, "trouble")
	}, func() string { return told })
	require.Zero(t, worker.stop())
}

// TestStatusTellsTrouble in text and in the list.
func TestStatusTellsTrouble(t *testing.T) {
	since := time.Now().Add(-130 * time.Second)
	st := pipelineStatus{Status: deploy.Status{Name: "p", State: deploy.Degraded, Revision: 1,
		Trouble: &deploy.Trouble{Since: since, Error: "in-0 is not answered: connect to b:1: refused",
			Do: "check the broker"}}, WantedRevision: 1}
	var b strings.Builder
	require.NoError(t, st.text(&b, output.NewPrinter(io.Discard, io.Discard)))
	require.Contains(t, b.String(), "state     degraded\n")
	require.Regexp(t, regexp.MustCompile(`trouble   for 2m1\ds, since `+since.Format("2006-01-02")+
		`\S+: in-0 is not answered: connect to b:1: refused\nway back  check the broker\n`), b.String())
	row := pipelineSummary{Name: "p", Trouble: st.Trouble}
	last := pipelineColumns[len(pipelineColumns)-1]
	require.Equal(t, st.Trouble.Error, last.Cell(row))
	row.Error = "revision 2: no"
	require.Equal(t, "revision 2: no", last.Cell(row))
}
