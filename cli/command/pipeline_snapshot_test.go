package command

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/pipelines/runner"
	"github.com/millstream-io/millstream/streams/task"
)

// moved is counted with a topic between its two parts.
func moved(name string) string {
	return strings.Replace(counted(name), "by: key", "by: upper(key)", 1)
}

func appliedMoved(t *testing.T, c cli, name string) (file string) {
	t.Helper()
	file = writeFile(t, filepath.Join(t.TempDir(), "pipeline.yaml"), moved(name))
	c.ok("topic", "create", name+"-in", name+"-out", "-p", "1")
	c.feed("a=1\nb=1\na=1\n", "produce", name+"-in", "--key-separator", "=")
	c.ok("pipeline", "apply", file)
	c.waitCounts(name, map[string]string{`"A"`: `{"n":2}`, `"B"`: `{"n":1}`})
	return file
}

// values are those of the first n records of a topic.
func (c cli) values(topic string, n int) (all []string) {
	c.t.Helper()
	for _, r := range c.records(topic, n) {
		all = append(all, string(r.Key)+" "+string(r.Value))
	}
	return all
}

// TestForkedReplayIsTheEndOfAFullOne: a replay that begins with the state of a snapshot puts out
// what one from the start puts out behind it, which is what the live pipeline did, byte for byte.
// From nothing it would count from one again.
func TestForkedReplayIsTheEndOfAFullOne(t *testing.T) {
	c := server(t)
	appliedMoved(t, c, "fork")
	file := filepath.Join(t.TempDir(), "fork.state")
	taken := decode[takenSnapshot](t, c.ok("pipeline", "state", "snapshot", "fork", file, "-o", "json"))
	require.Equal(t, map[string]map[int32]int64{"fork-in": {0: 3}}, taken.Inputs)
	require.EqualValues(t, 2, taken.Rows)

	c.feed("b=1\na=1\nc=1\n", "produce", "fork-in", "--key-separator", "=")
	c.waitCounts("fork", map[string]string{`"A"`: `{"n":3}`, `"B"`: `{"n":2}`, `"C"`: `{"n":1}`})
	r := c.run("replay", "run", "fork", "--state", file, "--as", "fork-since", "--wait", "-o", "json")
	require.Zero(t, r.exit, r.err)
	started := decode[startedReplay](t, r.out)
	require.EqualValues(t, 3, started.Records)
	require.Equal(t, deploy.Span{From: 3, To: 6}, started.Ranges["fork-in"][0])
	c.ok("replay", "run", "fork", "--from", "start", "--as", "fork-all", "--wait")
	require.Equal(t, []string{`A {"n":1}`, `B {"n":1}`, `A {"n":2}`, `B {"n":2}`, `A {"n":3}`,
		`C {"n":1}`}, c.values("fork-all.fork-out", 6))
	require.Equal(t, c.values("fork-all.fork-out", 6)[3:], c.values("fork-since.fork-out", 3))
	for name, compared := range map[string]int64{"fork-all": 6, "fork-since": 3} {
		v := decode[verifyVerdict](t, c.ok("replay", "verify", name, "-o", "json"))
		require.True(t, v.OK, name)
		require.Equal(t, compared, v.Result.Outputs[0].Compared)
	}

	// The counters of a replay are its own, and live is a snapshot of now.
	st := decode[pipelineStatus](t, c.ok("replay", "status", "fork-since", "-o", "json"))
	require.EqualValues(t, 3, st.RecordsOut)
	c.ok("replay", "run", "fork", "--state", "live", "--as", "fork-now", "--wait")
	rows := map[string]string{`"A"`: `{"n":3}`, `"B"`: `{"n":2}`, `"C"`: `{"n":1}`}
	require.Equal(t, rows, c.counts("fork-now"))

	// Workers give the same over HTTP.
	resp, err := http.Get("http://" + st.Address + "/v1/pipelines/fork-since/snapshot")
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, errors.Join(err, resp.Body.Close()))
	x, err := task.OpenExport(bytes.NewReader(body))
	require.NoError(t, err)
	require.EqualValues(t, 3, x.Rows)
	of, err := runner.Exported(x)
	require.NoError(t, err)
	require.Equal(t, "fork-since", of.Name)
	resp, err = http.Get("http://" + st.Address + "/v1/pipelines/nothing/snapshot")
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, resp.StatusCode)
	require.NoError(t, resp.Body.Close())
}

// TestStateImportBeginsWithASnapshot: into the pipeline it was taken of, and into a new one.
func TestStateImportBeginsWithASnapshot(t *testing.T) {
	c := server(t)
	file := appliedMoved(t, c, "imported")
	snapshot := filepath.Join(t.TempDir(), "imported.state")
	c.ok("pipeline", "state", "snapshot", "imported", snapshot)
	c.feed("b=1\n", "produce", "imported-in", "--key-separator", "=")
	after := map[string]string{`"A"`: `{"n":2}`, `"B"`: `{"n":2}`}
	c.waitCounts("imported", after)

	r := c.run("pipeline", "state", "import", "imported", snapshot)
	require.Equal(t, 2, r.exit)
	require.Contains(t, r.err, "error[NOT_CONFIRMED]")
	r = c.run("pipeline", "state", "import", "imported", snapshot, "--yes")
	require.Zero(t, r.exit, r.err)
	require.Contains(t, r.err, "imported-in-0 is read from 3")
	c.waitCounts("imported", after)
	require.Equal(t, []string{`B {"n":2}`, `B {"n":2}`}, c.values("imported-out", 5)[3:],
		"what is read again is written again")
	topics := c.ok("topic", "ls", "--internal")
	require.Contains(t, topics, "imported.1-in-changelog")
	require.NotContains(t, topics, "imported-in-changelog")

	other := strings.NewReplacer("pipeline: imported", "pipeline: imported-too",
		"imported-out", "imported-too-out").Replace(moved("imported"))
	writeFile(t, file, other)
	c.ok("topic", "create", "imported-too-out", "-p", "1")
	r = c.run("pipeline", "apply", file, "--state", snapshot)
	require.Zero(t, r.exit, r.err)
	c.waitCounts("imported-too", after)
	require.Equal(t, []string{`B {"n":2}`}, c.values("imported-too-out", 1))
	c.ok("pipeline", "stop", "imported-too")
	c.waitState("imported-too", deploy.Stopped)
	c.ok("pipeline", "start", "imported-too")
	c.feed("a=1\n", "produce", "imported-in", "--key-separator", "=")
	c.waitCounts("imported-too", map[string]string{`"A"`: `{"n":3}`, `"B"`: `{"n":2}`})
}

// TestSnapshotsThatDoNotFitAreRefused: what is wrong, and what to do; nothing is changed.
func TestSnapshotsThatDoNotFitAreRefused(t *testing.T) {
	c := server(t)
	file := appliedMoved(t, c, "refused")
	dir := t.TempDir()
	snapshot := filepath.Join(dir, "state")
	c.ok("pipeline", "state", "snapshot", "refused", snapshot)
	data, err := os.ReadFile(snapshot)
	require.NoError(t, err)
	cut := writeFile(t, filepath.Join(dir, "cut"), string(data[:len(data)-20]))
	data[len(data)/2] ^= 1
	flipped := writeFile(t, filepath.Join(dir, "flipped"), string(data))
	fields := writeFile(t, filepath.Join(dir, "fields.yaml"), strings.Replace(moved("refused"),
		"fields: {n: count}", "fields: {m: count}", 1))
	steps := writeFile(t, filepath.Join(dir, "steps.yaml"), strings.Replace(counted("refused-more"),
		"refused-more-", "refused-", 1))
	c.ok("topic", "create", "refused-more-out", "-p", "1")
	for args, want := range map[string]struct {
		exit  int
		texts []string
	}{
		"pipeline state snapshot refused " + snapshot: {5, []string{"error[FILE_EXISTS]"}},
		"pipeline state snapshot refusd x":            {1, []string{`did you mean "refused"?`}},
		"pipeline state import refused " + cut + " --yes": {2, []string{"error[BAD_SNAPSHOT]",
			"it ends within the frame at"}},
		"pipeline state import refused " + flipped + " --yes": {2, []string{"wrong checksum"}},
		"pipeline state import refused " + file + " --yes": {2, []string{
			`it does not begin with "MSSTATE"`}},
		"pipeline state import refused nowhere --yes": {2, []string{"error[CANNOT_READ]"}},
		"pipeline apply " + fields + " --yes --state " + snapshot: {5, []string{"error[OTHER_STATE]",
			"step counts: what is stored depends on the changed keys, window or fields",
			"millstream pipeline reset refused --to start"}},
		"pipeline apply " + steps + " --state " + snapshot: {5, []string{"error[OTHER_STATE]",
			"does not fit refused-more"}},
		"pipeline apply " + file + " --drop-state --state " + snapshot: {2, []string{
			"error[BAD_FLAGS]"}},
		"pipeline apply " + file + " --to start --state " + snapshot: {2, []string{
			"error[BAD_FLAGS]"}},
		"replay run refused --as r --to 1 --state " + snapshot: {2, []string{"error[BAD_FLAGS]",
			"--to 1 is before refused-in-0 3, where the snapshot was taken"}},
		"replay run refused --as r --from 1 --state " + snapshot: {2, []string{"error[BAD_FLAGS]"}},
		"replay run refused --as refused-r --state " + cut:       {2, []string{"error[BAD_SNAPSHOT]"}},
	} {
		r := c.run(strings.Fields(args)...)
		require.Equal(t, want.exit, r.exit, "%s: %s", args, r.err)
		for _, text := range want.texts {
			require.Contains(t, r.err, text, args)
		}
	}
	st := decode[pipelineStatus](t, c.ok("pipeline", "status", "refused", "-o", "json"))
	require.Equal(t, 1, st.Revision)
	require.Equal(t, deploy.Running, st.State)
	require.NotContains(t, c.ok("topic", "ls", "--internal"), "refused-r-")

	waits := startBroker(t, nil)
	writeFile(t, file, moved("waits"))
	waits.ok("topic", "create", "waits-in", "waits-out", "-p", "1")
	waits.ok("pipeline", "apply", file, "--no-wait")
	r := waits.run("pipeline", "state", "snapshot", "waits", filepath.Join(dir, "none"))
	require.Equal(t, 5, r.exit)
	require.Contains(t, r.err, "error[NO_STATE]")
	require.Contains(t, r.err, "topic waits-in-changelog does not exist")
}

// TestImportThatFailsChangesNothing: its topics must not be written. The pipeline is wanted as it
// was, and a replay may be tried again under its name.
func TestImportThatFailsChangesNothing(t *testing.T) {
	c := server(t)
	file := appliedCounts(t, c, "cannot")
	snapshot := filepath.Join(t.TempDir(), "state")
	c.ok("pipeline", "state", "snapshot", "cannot", snapshot)
	guarded := startBroker(t, map[string]string{
		"authorizer.class.name":          "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"allow.everyone.if.no.acl.found": "true"})
	guarded.ok("topic", "create", "cannot-in", "cannot-out", "-p", "1")
	guarded.feed("a=1\nb=1\na=1\n", "produce", "cannot-in", "--key-separator", "=")
	guarded.ok("pipeline", "apply", file, "--no-wait")
	rules := kadm.NewACLs().Topics("cannot.1-in-changelog", "cannot-again-in-changelog").
		ResourcePatternType(kadm.ACLPatternLiteral).Allow("User:ANONYMOUS").AllowHosts("*").
		Operations(kadm.OpRead, kadm.OpDelete)
	_, err := kadm.NewClient(guarded.kafka()).CreateACLs(t.Context(), rules)
	require.NoError(t, err)

	r := guarded.run("pipeline", "state", "import", "cannot", snapshot, "--yes")
	require.NotZero(t, r.exit)
	require.Contains(t, r.err, "import state")
	st := decode[pipelineStatus](t, guarded.ok("pipeline", "status", "cannot", "-o", "json"))
	require.EqualValues(t, deploy.WantRunning, st.Wanted)
	for range 2 {
		r = guarded.run("replay", "run", "cannot", "--state", snapshot, "--as", "cannot-again")
		require.NotZero(t, r.exit)
		require.Contains(t, r.err, "import state")
		require.NotContains(t, r.err, "NAME_TAKEN")
	}
	require.NotContains(t, guarded.ok("topic", "ls", "--internal"), "changelog")
}

// TestSnapshotOlderThanItsInputsIsRefused: where it would go on is gone; nothing is changed.
func TestSnapshotOlderThanItsInputsIsRefused(t *testing.T) {
	c := server(t)
	appliedCounts(t, c, "older")
	snapshot := filepath.Join(t.TempDir(), "state")
	c.ok("pipeline", "state", "snapshot", "older", snapshot)
	c.feed("a=1\na=1\n", "produce", "older-in", "--key-separator", "=")
	rows := map[string]string{`"a"`: `{"n":4}`, `"b"`: `{"n":1}`}
	c.waitCounts("older", rows)
	c.deleteRecords("older-in", 4)
	for _, args := range []string{"pipeline state import older " + snapshot + " --yes",
		"replay run older --as older-again --state " + snapshot} {
		r := c.run(strings.Fields(args)...)
		require.Equal(t, 2, r.exit, r.err)
		require.Contains(t, r.err, "older-in-0 begins at 4, the snapshot needs 3")
	}
	st := decode[pipelineStatus](t, c.ok("pipeline", "status", "older", "-o", "json"))
	require.Equal(t, 1, st.Revision)
	require.Equal(t, rows, c.counts("older"))
}
