package flights_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/cli/command"
)

// readmeCommands are the lines of the README that call the binary, in their order.
func readmeCommands(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	var commands []string
	shell := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			shell = line == "```sh"
		}
		if args, ok := strings.CutPrefix(line, "millstream "); ok && shell {
			commands = append(commands, args)
		}
	}
	return commands
}

// TestTourOfTheREADMERuns runs every command of the README's tour, as it is written there, while
// `dev` runs this example. The one that runs until Ctrl-C is ended once it serves.
func TestTourOfTheREADMERuns(t *testing.T) {
	commands := readmeCommands(t)
	require.GreaterOrEqual(t, len(commands), 9, "the tour was found")
	example, err := filepath.Abs(".")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll("out", 0o755))
	here, err := os.MkdirTemp("out", "readme-*") // inside the module, as a reader of the README is
	require.NoError(t, err)
	here, err = filepath.Abs(here)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(here)) })
	t.Chdir(here)

	dev := startDev(t, example, "--data-dir", filepath.Join(here, "data"),
		"--listen", "127.0.0.1:0", "--var", "out="+filepath.Join(here, "delays.ndjson"))
	t.Setenv("MILLSTREAM_BOOTSTRAP", dev.bootstrap)
	dev.waitDone(t)
	for _, line := range commands {
		args := strings.Fields(line)
		if args[0] == "dev" {
			startDev(t, args[1]).stop(t)
			continue
		}
		var out, notes bytes.Buffer
		exit := command.Run(t.Context(), args,
			command.Streams{In: strings.NewReader(""), Out: &out, Err: &notes})
		require.Zero(t, exit, "millstream %s\n%s", line, notes.String())
		require.NotZero(t, out.Len()+notes.Len(), "millstream %s says nothing", line)
	}
	dev.stop(t)
}

// devRun is a `dev` in this process.
type devRun struct {
	bootstrap string
	cancel    context.CancelFunc
	exit      chan int
	notes     *lockedBuffer
}

// lockedBuffer may be read while it is written.
type lockedBuffer struct {
	mu struct {
		sync.Mutex
		b bytes.Buffer
	}
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.b.String()
}

// startDev starts `dev` and waits until it serves.
func startDev(t *testing.T, args ...string) *devRun {
	t.Helper()
	ready := filepath.Join(t.TempDir(), "ready.json")
	ctx, cancel := context.WithCancel(context.Background())
	d := &devRun{cancel: cancel, exit: make(chan int, 1), notes: &lockedBuffer{}}
	t.Cleanup(cancel)
	all := append([]string{"dev"}, args...)
	all = append(all, "--ready-file", ready, "--http", "127.0.0.1:0")
	go func() {
		d.exit <- command.Run(ctx, all, command.Streams{
			In: strings.NewReader(""), Out: &lockedBuffer{}, Err: d.notes})
	}()
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(ready)
		var info struct{ Bootstrap string }
		if err != nil || json.Unmarshal(text, &info) != nil {
			return false
		}
		d.bootstrap = info.Bootstrap
		return true
	}, time.Minute, 10*time.Millisecond, "dev %v serves: %s", args, d.notes)
	return d
}

// waitDone waits until dev says that the pipeline is done.
func (d *devRun) waitDone(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(d.notes.String(), "20000 records in") },
		time.Minute, 20*time.Millisecond, "%s", d.notes)
}

// stop is Ctrl-C.
func (d *devRun) stop(t *testing.T) {
	t.Helper()
	d.cancel()
	select {
	case exit := <-d.exit:
		require.Zero(t, exit, "%s", d.notes)
	case <-time.After(time.Minute):
		require.Fail(t, "dev did not end after Ctrl-C", "%s", d.notes)
	}
}
