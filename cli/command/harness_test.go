package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/core"
)

// TestMain serves connectors when a pipeline under test starts this binary again as their process,
// and keeps the settings of whoever runs the tests out of them.
func TestMain(m *testing.M) {
	if IsConnectorProcess(os.Args) {
		os.Exit(Main(os.Args[1:]))
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "millstream-command")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if config, err := os.UserConfigDir(); err == nil && os.Getenv("GOENV") == "" {
		_ = os.Setenv("GOENV", filepath.Join(config, "go", "env")) // the go command keeps its own
	}
	_ = os.Setenv("XDG_CONFIG_HOME", filepath.Join(dir, "config"))
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, "MILLSTREAM_") || name == "KAFKA_BROKERS" {
			_ = os.Unsetenv(name)
		}
	}
	shared.dir = filepath.Join(dir, "shared")
	defer shared.stop()
	return m.Run()
}

// result is what a command line did.
type result struct {
	out, err string
	exit     int
}

// run runs a command line with nothing on its standard input.
func run(t testing.TB, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience) // a command may serve by mistake
	defer cancel()
	return runWith(ctx, strings.NewReader(""), args...)
}

func runWith(ctx context.Context, in io.Reader, args ...string) result {
	var stdout, stderr bytes.Buffer
	exit := Run(ctx, args, Streams{In: in, Out: &stdout, Err: &stderr})
	return result{stdout.String(), stderr.String(), exit}
}

// cli is a command line against one broker.
type cli struct {
	t       testing.TB
	address string
}

func (c cli) run(args ...string) result {
	c.t.Helper()
	return run(c.t, append(args, "--bootstrap", c.address)...)
}

// ok runs a command line that must succeed and gives what it printed.
func (c cli) ok(args ...string) string {
	c.t.Helper()
	r := c.run(args...)
	require.Zero(c.t, r.exit, "%v: %s", args, r.err)
	return r.out
}

// feed runs a command line that must succeed with a standard input.
func (c cli) feed(in string, args ...string) {
	c.t.Helper()
	r := runWith(c.t.Context(), strings.NewReader(in), append(args, "--bootstrap", c.address)...)
	require.Zero(c.t, r.exit, "%v: %s", args, r.err)
}

// kafka is a plain client of the same broker.
func (c cli) kafka(opts ...kgo.Opt) *kgo.Client {
	c.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.address)}, opts...)...)
	require.NoError(c.t, err)
	c.t.Cleanup(cl.Close)
	return cl
}

// startBroker starts a log without workers.
func startBroker(t testing.TB, config map[string]string) cli {
	t.Helper()
	broker, err := core.Open(t.Context(), core.Options{DataDir: t.TempDir(), Listen: "127.0.0.1:0",
		Config: config})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(t, broker.Close(ctx))
	})
	return cli{t, broker.Addr()}
}

// patience bounds every wait of the tests; nothing takes that long on a machine that is not stuck.
const patience = 2 * time.Minute

// process is a command that runs until it is told to end.
type process struct {
	out, err *lockedBuffer
	ready    readyInfo
	cancel   context.CancelFunc
	exit     chan int
}

// start runs a serving command (dev or server) and waits until it serves. Ports are free ones.
func start(dir string, args ...string) (*process, error) {
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{out: &lockedBuffer{}, err: &lockedBuffer{}, cancel: cancel,
		exit: make(chan int, 1)}
	ready := filepath.Join(dir, "ready.json")
	args = append(args, "--ready-file", ready)
	for _, flag := range []string{"--listen", "--http"} {
		if !strings.Contains(strings.Join(args, " "), flag+" ") {
			args = append(args, flag, "127.0.0.1:0")
		}
	}
	go func() {
		p.exit <- Run(ctx, args, Streams{In: strings.NewReader(""), Out: p.out, Err: p.err})
	}()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for {
		if text, err := os.ReadFile(ready); err == nil {
			return p, json.Unmarshal(text, &p.ready)
		}
		select {
		case <-tick.C:
		case exit := <-p.exit:
			cancel()
			return nil, fmt.Errorf("%v ended with %d: %s", args, exit, p.err)
		case <-deadline:
			cancel()
			return nil, fmt.Errorf("%v does not serve: %s", args, p.err)
		}
	}
}

// started is start for one test, at whose end the process must have ended well.
func started(t testing.TB, args ...string) *process {
	t.Helper()
	p, err := start(t.TempDir(), args...)
	require.NoError(t, err)
	t.Cleanup(func() { require.Zero(t, p.stop(), "%s", p.err) })
	return p
}

func (p *process) client(t testing.TB) cli { return cli{t, p.ready.Bootstrap} }

// stop is Ctrl-C; it gives the exit code.
func (p *process) stop() int {
	p.cancel()
	exit := <-p.exit
	p.exit <- exit // for whoever asks again
	return exit
}

// says waits until standard error has a text.
func (p *process) says(t testing.TB, text string) {
	t.Helper()
	eventually(t, func() bool { return strings.Contains(p.err.String(), text) },
		func() string { return fmt.Sprintf("%q in:\n%s", text, p.err) })
}

// prints waits until standard output has a text.
func (p *process) prints(t testing.TB, text string) {
	t.Helper()
	eventually(t, func() bool { return strings.Contains(p.out.String(), text) },
		func() string { return fmt.Sprintf("%q in:\n%s\n%s", text, p.out, p.err) })
}

func eventually(t testing.TB, true func() bool, what func() string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !true() {
		select {
		case <-tick.C:
		case <-deadline:
			require.FailNow(t, "waited in vain for "+what())
		}
	}
}

// lockedBuffer is a bytes.Buffer that is written while it is read.
type lockedBuffer struct {
	mu struct {
		sync.Mutex
		data bytes.Buffer
	}
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.data.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.data.String()
}

// shared is a server that tests of pipelines use together, each with names of its own.
var shared sharedServer

type sharedServer struct {
	dir     string
	once    sync.Once
	process *process
	err     error
}

func (s *sharedServer) stop() {
	if s.process != nil {
		s.process.stop()
	}
}

// server gives the command line of the shared server, which is started by the first to ask.
func server(t testing.TB) cli {
	t.Helper()
	shared.once.Do(func() {
		if shared.err = os.MkdirAll(shared.dir, 0o755); shared.err != nil {
			return
		}
		shared.process, shared.err = start(shared.dir, "server", "--data-dir",
			filepath.Join(shared.dir, "data"))
	})
	require.NoError(t, shared.err)
	return shared.process.client(t)
}

// writeFile writes a file of a test, with its folders.
func writeFile(t testing.TB, path, text string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// decode reads a JSON output.
func decode[T any](t testing.TB, text string) T {
	t.Helper()
	var v T
	require.NoError(t, json.Unmarshal([]byte(text), &v), "%s", text)
	return v
}
