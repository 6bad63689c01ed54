package command

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ticking is a pipeline with a source of its own; count 0 never ends.
func ticking(name string, count int, mark string) string {
	bound := ""
	if count > 0 {
		bound = fmt.Sprintf("count: %d, ", count)
	}
	return fmt.Sprintf(`version: 1
pipeline: %[1]s
sources: {ticks: {connector: generate, config: {%[2]srate: 50}, topic: %[1]s-ticks}}
steps: [{set: {mark: '"%[3]s"'}}]
sinks: {out: {topic: %[1]s-out}}
`, name, bound, mark)
}

func TestDevUntilDoneEndsByItself(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "pipeline.yaml"), ticking("short", 20, "m"))
	data := filepath.Join(t.TempDir(), "data")
	args := []string{"dev", dir, "--until-done", "--data-dir", data, "--listen", "127.0.0.1:0",
		"--http", "127.0.0.1:0"}
	r := run(t, args...)
	require.Zero(t, r.exit, r.err)
	require.Contains(t, r.out, `"mark":"m"`)
	require.Contains(t, r.err, "20 records in, 20 out")
	require.NotContains(t, r.out+r.err, "\r", "no bar where there is no terminal")
	require.NotContains(t, r.out+r.err, "\x1b")

	r = run(t, args...)
	require.Zero(t, r.exit, "what is done is done the next time too: %s", r.err)
	require.NotContains(t, r.out, "mark", "and written once")

	r = run(t, "dev", "--until-done", "--data-dir", data)
	require.Equal(t, 2, r.exit, "there is no pipeline in this folder")
	require.Contains(t, r.err, "error[NOTHING_TO_DO]")
}

func TestDevRefusesAFaultyFileBeforeItStarts(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	file := writeFile(t, filepath.Join(dir, "pipeline.yaml"), "pipeline: x\nsteps: {\n")
	r := run(t, "dev", dir, "--data-dir", data)
	require.Equal(t, 2, r.exit)
	require.Contains(t, r.err, file+":")
	require.NoDirExists(t, data)
	r = run(t, "dev", filepath.Join(dir, "none"))
	require.Equal(t, 2, r.exit)
	require.Contains(t, r.err, "error[CANNOT_READ]")
}

// TestDevFailedPipelineFailsUntilDone: exit 1 with the reason.
func TestDevFailedPipelineFailsUntilDone(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "in.ndjson"), "{\"n\":1}\n{broken\n")
	writeFile(t, filepath.Join(dir, "pipeline.yaml"), `version: 1
pipeline: stops
sources: {lines: {connector: file, config: {path: in.ndjson}, topic: stops-in}}
steps: [{filter: value.n > 0}]
sinks: {out: {topic: stops-out}}
`)
	r := run(t, "dev", dir, "--until-done", "--data-dir", filepath.Join(dir, "data"),
		"--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
	require.Equal(t, 1, r.exit, r.err)
	require.Contains(t, r.err, "error[PIPELINE_FAILED]: stops failed; its position is kept")
	require.Contains(t, r.err, "why: ")
}

// TestDevReloads edits a running pipeline in every way an editor does: a good change is applied, a
// bad one is refused with its place while the old one runs on, an empty file is waited for, another
// name takes the old one's place, a missing file is told.
func TestDevReloads(t *testing.T) {
	dir := t.TempDir()
	file := writeFile(t, filepath.Join(dir, "pipeline.yaml"), ticking("hot", 0, "first"))
	p := started(t, "dev", dir, "--data-dir", filepath.Join(t.TempDir(), "data"))
	c := p.client(t)
	p.prints(t, `"mark":"first"`)

	writeFile(t, file, ticking("hot", 0, "second"))
	p.prints(t, `"mark":"second"`)
	p.says(t, "reload   "+file)

	writeFile(t, file, strings.Replace(ticking("hot", 0, "third"), "mark:", "mark: 1 +", 1))
	p.says(t, "refused; the running revision goes on")
	require.Contains(t, p.err.String(), file+":4:")
	st := decode[pipelineStatus](t, c.ok("pipeline", "status", "hot", "-o", "json"))
	require.Equal(t, 2, st.WantedRevision, "what was refused is not applied")

	// An editor that empties the file before it writes it: nothing is said of the empty file.
	refusals := strings.Count(p.err.String(), "refused;")
	writeFile(t, file, "")
	<-time.After(2 * settle) // the pause such an editor makes
	writeFile(t, file, ticking("hot", 0, "fourth"))
	p.prints(t, `"mark":"fourth"`)
	require.Equal(t, refusals, strings.Count(p.err.String(), "refused;"))

	// Saved again without a change: no new revision.
	before := decode[pipelineStatus](t, c.ok("pipeline", "status", "hot", "-o", "json"))
	writeFile(t, file, ticking("hot", 0, "fourth"))

	writeFile(t, file, ticking("cold", 0, "fifth"))
	p.says(t, "renamed  hot is stopped, its position is kept; cold begins")
	p.prints(t, `"mark":"fifth"`)
	c.waitState("hot", "stopped")
	require.Equal(t, before.WantedRevision,
		decode[pipelineStatus](t, c.ok("pipeline", "status", "hot", "-o", "json")).WantedRevision)

	require.NoError(t, os.Remove(file))
	p.says(t, "cannot read "+file)
	require.Equal(t, refusals+1, strings.Count(p.err.String(), "refused;"))
	require.Zero(t, p.stop(), "Ctrl-C drains and ends well")
	require.Contains(t, p.err.String(), "stopping: draining pipelines")
}

// TestDevRefusesAChangeThatLosesState keeps what runs.
func TestDevRefusesAChangeThatLosesState(t *testing.T) {
	dir, data := t.TempDir(), filepath.Join(t.TempDir(), "data")
	text := func(size string) string {
		return strings.Replace(counting("kept", size), "{topic: kept-in}",
			"{connector: generate, config: {rate: 50}, topic: kept-in}", 1)
	}
	file := writeFile(t, filepath.Join(dir, "pipeline.yaml"), strings.ReplaceAll(text("1h"),
		"value.n % 2", "value.id % 2"))
	p := started(t, "dev", dir, "--data-dir", data)
	p.prints(t, "count")
	writeFile(t, file, strings.ReplaceAll(text("2h"), "value.n % 2", "value.id % 2"))
	p.says(t, "this change cannot use the state that is stored")
	st := p.client(t).waitOut("kept", 1)
	require.Equal(t, 1, st.WantedRevision)
	require.Zero(t, p.stop())

	// The same at the next start.
	r := run(t, "dev", dir, "--data-dir", data, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
	require.Equal(t, 5, r.exit, r.err)
	require.Contains(t, r.err, "error[STATE_LOSS]")
}

func TestDevMovesFromTakenPortsAndSaysSo(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	address := taken.Addr().String()
	p := started(t, "dev", "--data-dir", filepath.Join(t.TempDir(), "data"), "--listen", address)
	require.NotEqual(t, address, p.ready.Bootstrap)
	p.says(t, address+" is taken, another port is used")
	p.says(t, "broker   "+p.ready.Bootstrap)
	require.Equal(t, os.Getpid(), p.ready.PID)
	p.client(t).ok("topic", "ls")

	// server does not move: its clients know where it is.
	r := run(t, "server", "--data-dir", filepath.Join(t.TempDir(), "data"), "--listen", address)
	require.Equal(t, 3, r.exit)
	require.Contains(t, r.err, "error[CANNOT_LISTEN]: cannot listen on "+address)
	for _, bad := range []string{"9092", "127.0.0.1", "a:b:c"} {
		r = run(t, "dev", "--data-dir", t.TempDir(), "--listen", bad)
		require.Equal(t, 2, r.exit, bad)
		require.Contains(t, r.err, "error[BAD_ADDRESS]", bad)
	}
}
