package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestServerTakesItsConfigFile: settings and broker configs from the file, a flag wins over it.
func TestServerTakesItsConfigFile(t *testing.T) {
	dir := t.TempDir()
	file := writeFile(t, filepath.Join(dir, "node.yaml"), fmt.Sprintf(`
data-dir: %s/fromfile
log-level: error
listen: 127.0.0.1:1
broker:
  num.partitions: 7
  log.retention.hours: 2
broker.auto.create.topics.enable: false
`, dir))
	p := started(t, "server", "--config", file, "--listen", "127.0.0.1:0")
	require.DirExists(t, filepath.Join(dir, "fromfile"))
	c := p.client(t)
	c.ok("topic", "create", "seven")
	require.Contains(t, c.ok("topic", "ls"), "seven  7")
	require.Contains(t, c.run("produce", "new").err+c.run("produce", "new").out, "0 records")
	r := runWith(t.Context(), strings.NewReader("x\n"), "produce", "new", "--bootstrap", c.address)
	require.Equal(t, 1, r.exit)
	require.Contains(t, r.err, "error[UNKNOWN_TOPIC]")

	for _, path := range []string{"healthz", "readyz", "metrics"} {
		response, err := http.Get("http://" + p.ready.HTTP + "/" + path)
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusOK, response.StatusCode, "%s: %s", path, body)
	}
	require.Zero(t, p.stop(), "%s", p.err)
	require.Contains(t, p.err.String(), "draining")
	require.Empty(t, p.out.String())
}

func TestServerRefusesAFaultyConfig(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		"lisen: x\n":                       `did you mean "listen"?`,
		"broker: {num.partitions: many}\n": "num.partitions",
		"broker: {no.such.config: 1}\n":    "no.such.config",
		"log-level: loud\n":                "unknown log level",
	} {
		file := writeFile(t, filepath.Join(dir, "node.yaml"), text)
		if strings.HasPrefix(text, "log") {
			file = writeFile(t, filepath.Join(dir, "level.yaml"), text)
		}
		r := run(t, "server", "--config", file, "--data-dir", filepath.Join(dir, "data"),
			"--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
		require.NotZero(t, r.exit, text)
		require.Contains(t, r.err, want, text)
	}
	r := run(t, "server", "--config", filepath.Join(dir, "none.yaml"))
	require.Equal(t, 2, r.exit)
	require.Contains(t, r.err, "error[BAD_CONFIG]")
}

// TestSecondProcessOnADataDirectoryIsRefused names the process that has it.
func TestSecondProcessOnADataDirectoryIsRefused(t *testing.T) {
	c := server(t)
	data := filepath.Join(shared.dir, "data")
	for _, verb := range []string{"server", "dev"} {
		r := run(t, verb, "--data-dir", data, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
		require.Equal(t, 3, r.exit)
		require.Contains(t, r.err, "error[DATA_DIR_LOCKED]: "+data+
			fmt.Sprintf(" is in use by process %d", os.Getpid()))
	}
	c.ok("topic", "ls")
}

func TestDoctorAnswersWithAnExitCode(t *testing.T) {
	c := server(t)
	type verdict struct {
		Command string
		OK      bool
		Result  []finding
	}
	r := c.run("doctor", "-o", "json", "--data-dir", t.TempDir())
	v := decode[verdict](t, r.out)
	require.Equal(t, "doctor", v.Command)
	require.Len(t, v.Result, len(doctorChecks)-1, "all but the one that wants a stopped broker")
	for _, f := range v.Result {
		require.NotEqual(t, "fail", f.Status, f.Name+": "+f.Detail)
	}
	require.True(t, v.OK)
	require.Zero(t, r.exit)
	require.Contains(t, c.ok("doctor", "--check", "broker.reachable"), "broker.reachable")

	r = run(t, "doctor", "--bootstrap", "127.0.0.1:1", "--check", "broker.reachable")
	require.Equal(t, 4, r.exit)
	require.Contains(t, r.out, "fail")
	require.Contains(t, r.err, "1 failed")
}

func TestVersionInEveryFormat(t *testing.T) {
	for _, format := range []string{"json", "ndjson"} {
		var info versionInfo
		require.NoError(t, json.Unmarshal([]byte(run(t, "version", "-o", format).out), &info))
		require.NotEmpty(t, info.Go)
	}
	require.Contains(t, run(t, "version", "-o", "yaml").out, "platform: ")
	require.Contains(t, run(t, "version").out, "millstream dev (go")
}

// TestStoppedWhileStarting: Ctrl-C at any moment of a start ends well, and without an error.
func TestStoppedWhileStarting(t *testing.T) {
	dir := t.TempDir()
	pipeline := writeFile(t, filepath.Join(dir, "pipeline.yaml"), ticking("ticks", 5, "x"))
	for _, command := range [][]string{{"server"}, {"dev", pipeline}} {
		for _, after := range []time.Duration{0, 2, 5, 10, 20, 40, 80, 160} {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(after*time.Millisecond, cancel)
			args := append(slices.Clone(command), "--data-dir", filepath.Join(dir, command[0]),
				"--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
			r := runWith(ctx, strings.NewReader(""), args...)
			cancel()
			require.Zero(t, r.exit, "%v after %d ms: %s", command, after, r.err)
			require.NotContains(t, r.err, "error[")
		}
	}
}
