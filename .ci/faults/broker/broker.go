package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// startTime is how long a broker may take until it serves.
const startTime = 30 * time.Second

// Broker is the server. Binary, Dir and Admin are to be set before Start.
type Broker struct {
	Binary, Dir string
	// Admin is where it serves HTTP, host:port.
	Admin string

	process *exec.Cmd
	ended   chan struct{} // closed when the process has
}

// Options are what one check needs of its broker.
type Options struct {
	// Settings are the text of its configuration file; none if empty.
	Settings string
	// Args go behind those of every broker, Env to the environment.
	Args, Env []string
	// Before is a command that runs the broker, such as prlimit with its options.
	Before []string
}

// Log is the file that has what the broker says.
func (b *Broker) Log() string { return filepath.Join(b.Dir, "broker.log") }

// Data is its data directory.
func (b *Broker) Data() string { return filepath.Join(b.Dir, "data") }

// Start starts the process, which dies with this one, and waits until it serves. It may be called again when the
// process has ended.
func (b *Broker) Start(ctx context.Context, o Options) error {
	out, err := os.OpenFile(b.Log(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	ready := filepath.Join(b.Dir, "ready.json")
	_ = os.Remove(ready)
	args := append(o.Before, b.Binary, "server", "--data-dir", b.Data(), "--http", b.Admin, "--ready-file", ready)
	if o.Settings != "" {
		config := filepath.Join(b.Dir, "node.yaml")
		if err := os.WriteFile(config, []byte(o.Settings), 0o600); err != nil {
			return err
		}
		args = append(args, "--config", config)
	}
	args = append(args, o.Args...)
	b.process = exec.Command(args[0], args[1:]...)
	b.process.Env = append(os.Environ(), o.Env...)
	b.process.Stdout, b.process.Stderr = out, out
	b.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := b.process.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	b.ended = ended
	go func() { _ = b.process.Wait(); _ = out.Close(); close(ended) }()
	_, err = b.Until(ctx, startTime, "the broker serves", func() bool { _, err := os.Stat(ready); return err == nil })
	return err
}

// Pid is that of the process.
func (b *Broker) Pid() int { return b.process.Process.Pid }

// Ended is closed when the process has ended; How tells in what way.
func (b *Broker) Ended() <-chan struct{} { return b.ended }

// How tells how the process ended.
func (b *Broker) How() error {
	return errors.New("the broker has ended: " + b.process.ProcessState.String())
}

// Kill ends the process with SIGKILL, if it was started.
func (b *Broker) Kill() {
	if b.process != nil && b.ended != nil {
		_ = b.process.Process.Kill()
		<-b.ended
	}
}

// Stop ends it in order.
func (b *Broker) Stop(ctx context.Context) error {
	_ = b.process.Process.Signal(syscall.SIGTERM)
	select {
	case <-b.ended:
	case <-time.After(30 * time.Second):
		return errors.New("the broker does not end within 30 s of SIGTERM")
	case <-ctx.Done():
		return ctx.Err()
	}
	if !b.process.ProcessState.Success() {
		return b.How()
	}
	return nil
}

// Pause waits, and fails if the broker ends.
func (b *Broker) Pause(ctx context.Context, span time.Duration) error {
	select {
	case <-b.ended:
		return b.How()
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(span):
		return nil
	}
}

// Until waits for a condition and returns when it held. It fails if the broker ends, or after a span.
func (b *Broker) Until(ctx context.Context, most time.Duration, what string, is func() bool) (at time.Time, err error) {
	deadline := time.Now().Add(most)
	for !is() {
		if time.Now().After(deadline) {
			return at, fmt.Errorf("not within %v: %s", most.Round(time.Second), what)
		}
		if err := b.Pause(ctx, 20*time.Millisecond); err != nil {
			return at, err
		}
	}
	return time.Now(), nil
}

// Get reads a page of the admin listener, over a connection of its own.
func (b *Broker) Get(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.Admin+path, nil)
	if err != nil {
		return nil, err
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	return io.ReadAll(resp.Body)
}

var total = regexp.MustCompile(`goroutine profile: total (\d+)`)

// Goroutines counts them.
func (b *Broker) Goroutines(ctx context.Context) (int, error) {
	page, err := b.Get(ctx, "/debug/pprof/goroutine?debug=1")
	if err != nil {
		return 0, err
	}
	m := total.FindSubmatch(page)
	if m == nil {
		return 0, fmt.Errorf("no number of goroutines in %.80q", page)
	}
	return strconv.Atoi(string(m[1]))
}

// Descriptors are what its open descriptors lead to.
func (b *Broker) Descriptors() (list []string, err error) {
	dir := fmt.Sprintf("/proc/%d/fd", b.Pid())
	fds, err := os.ReadDir(dir)
	for _, fd := range fds {
		to, _ := os.Readlink(filepath.Join(dir, fd.Name())) // one that was just closed leads nowhere
		list = append(list, to)
	}
	return list, err
}

// Memory reads a size of /proc/PID/status in bytes, such as VmRSS or VmHWM; 0 if it has ended.
func (b *Broker) Memory(name string) int {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.Pid()))
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kib, _ := strconv.Atoi(strings.Fields(rest)[0])
			return kib << 10
		}
	}
	return 0
}

// Metric sums the samples of a family.
func (b *Broker) Metric(ctx context.Context, name string) (sum float64, err error) {
	page, err := b.Get(ctx, "/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(page)) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		v, _ := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' '):]), 64)
		sum += v
	}
	return sum, nil
}

// Logged tells how many lines the log has, and returns those that have a text.
func (b *Broker) Logged(text string) (lines int, with []string) {
	data, _ := os.ReadFile(b.Log())
	for line := range strings.Lines(string(data)) {
		lines++
		if strings.Contains(line, text) {
			with = append(with, line)
		}
	}
	return lines, with
}
