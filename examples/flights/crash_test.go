package flights_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// kills is how often the whole process is killed in all.
const kills = 20

// TestKilledAtAnyMomentTheResultsAreTheSame kills the process with SIGKILL at random moments of
// the ingest, the processing and the writing of the sink file, and starts it again on what is
// left, until it comes to its end by itself. Then everything must be there once. The moments
// differ from run to run; the seed is printed.
func TestKilledAtAnyMomentTheResultsAreTheSame(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	want := expect(readFlights(t, "data/flights.jsonl"), readStates(t, "data/airports.csv"),
		partitions, 0)
	killed := 0
	for killed < kills {
		dir := t.TempDir()
		r := &run{t: t, dataDir: filepath.Join(dir, "data"), out: filepath.Join(dir, "delays.ndjson")}
		here := 0
		for !r.runOrKill(time.Duration(100+random.IntN(1500)) * time.Millisecond) {
			killed++
			if here++; here == 6 { // let it come to its end sometimes
				require.True(t, r.runOrKill(2*time.Minute))
				break
			}
		}
		require.Equal(t, want.days, r.rows(), "after %d kills", here)
		topics := r.topics("delays-by-state", "very-late", "flights.dlq", "flights", "airports")
		rows := map[string]dayRow{}
		for _, rec := range topics["delays-by-state"] {
			addRow(t, rows, rec.Value)
		}
		require.Equal(t, want.days, rows)
		require.Equal(t, want.veryLate, ids(t, topics["very-late"]))
		require.Empty(t, topics["flights.dlq"])
		require.Len(t, ids(t, topics["flights"]), 20000)
		require.Len(t, topics["airports"], 3376)
	}
}

// runOrKill runs the example as a process of its own and kills it after a while. It reports
// whether the process came to its end before that.
func (r *run) runOrKill(after time.Duration) bool {
	r.t.Helper()
	cmd := exec.Command(os.Args[0], "dev", ".", "--until-done", "--data-dir", r.dataDir,
		"--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--var", "out="+r.out)
	cmd.Env = append(os.Environ(), asProcess+"=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	require.NoError(r.t, cmd.Start())
	killer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	err := cmd.Wait()
	if killer.Stop() {
		require.NoError(r.t, err, "%s", stderr.String())
		return true
	}
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return false
	}
	require.NoError(r.t, err, "%s", stderr.String())
	return true
}
