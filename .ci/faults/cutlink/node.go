package main

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

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	serverIP, clientsIP = "10.99.0.1", "10.99.0.2"
	addr                = serverIP + ":9092"
	admin               = "127.0.0.1:9780"
)

const settings = `broker:
  connections.max.idle.ms: "%d"
  group.min.session.timeout.ms: "%[2]d"
  group.consumer.session.timeout.ms: "%[2]d"
  group.consumer.min.session.timeout.ms: "%[2]d"
  group.consumer.heartbeat.interval.ms: "1000"
  group.consumer.min.heartbeat.interval.ms: "1000"
  transaction.abort.timed.out.transaction.cleanup.interval.ms: "500"
  group.initial.rebalance.delay.ms: "0"
`

// node is the broker.
type node struct {
	binary, dir string
	keepalive   bool
	process     *exec.Cmd
	ended       chan struct{} // closed when the process has
}

func (n *node) log() string { return filepath.Join(n.dir, "broker.log") }

func (n *node) start(ctx context.Context) error {
	out, err := os.Create(n.log())
	if err != nil {
		return err
	}
	idle := idleTimeout.Milliseconds()
	if n.keepalive {
		idle = -1
		// Some 13 s of retries instead of a quarter of an hour.
		if err := os.WriteFile("/proc/sys/net/ipv4/tcp_retries2", []byte("5"), 0); err != nil {
			return err
		}
	}
	ready, config := filepath.Join(n.dir, "ready.json"), filepath.Join(n.dir, "node.yaml")
	_ = os.Remove(ready)
	text := fmt.Sprintf(settings, idle, sessionTimeout.Milliseconds())
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	n.process = exec.Command(n.binary, "server", "--data-dir", filepath.Join(n.dir, "data"), "--listen", addr, "--insecure",
		"--http", admin, "--config", config, "--ready-file", ready)
	n.process.Stdout, n.process.Stderr = out, out
	n.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := n.process.Start(); err != nil {
		return err
	}
	n.ended = make(chan struct{})
	go func() { _ = n.process.Wait(); close(n.ended) }()
	serves := func() bool { _, err := os.Stat(ready); return err == nil }
	_, err = n.until(ctx, 20*time.Second, "the broker serves", serves)
	return err
}

// until waits for a condition and returns when it held. It fails if the broker ends, or after a span.
func (n *node) until(ctx context.Context, most time.Duration, what string, is func() bool) (at time.Time, err error) {
	deadline := time.After(most)
	for !is() {
		select {
		case <-n.ended:
			return at, errors.New("the broker has ended: " + n.process.ProcessState.String())
		case <-ctx.Done():
			return at, ctx.Err()
		case <-deadline:
			return at, fmt.Errorf("not within %v: %s", most.Round(time.Second), what)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return time.Now(), nil
}

func (n *node) kill() {
	if n.process != nil && n.ended != nil {
		_ = n.process.Process.Kill()
		<-n.ended
	}
}

// client is a franz-go client of the broker.
func client(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(addr)}, opts...)...)
}

// established counts the broker's connections over the link, and those of them whose bytes are not all
// acknowledged.
func (n *node) established() (all, unacked int) { return established(n.process.Process.Pid, clientsIP) }

// established counts the connections with a peer in the network namespace of a process.
func established(pid int, peer string) (all, unacked int) {
	const state = "01"
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/tcp", pid))
	for line := range strings.Lines(string(data)) {
		// sl, local, remote, state, bytes to send:bytes to read.
		fields := strings.Fields(line)
		if len(fields) < 5 || fields[3] != state || !strings.HasPrefix(fields[2], hexIP(peer)) {
			continue
		}
		all++
		if !strings.HasPrefix(fields[4], "00000000:") {
			unacked++
		}
	}
	return all, unacked
}

// hexIP is how the kernel writes an address: the bytes from the last to the first.
func hexIP(ip string) (hex string) {
	for part := range strings.SplitSeq(ip, ".") {
		b, _ := strconv.Atoi(part)
		hex = fmt.Sprintf("%02X", b) + hex
	}
	return hex + ":"
}

// state is what dead connections must leave as it was; memory is in bytes.
type state struct{ descriptors, goroutines, memory int }

var total = regexp.MustCompile(`goroutine profile: total (\d+)`)

func (n *node) state() (s state, err error) {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + admin + "/debug/pprof/goroutine?debug=1")
	if err != nil {
		return s, err
	}
	page, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		return s, err
	}
	m := total.FindSubmatch(page)
	if m == nil {
		return s, fmt.Errorf("no number of goroutines in %.80q", page)
	}
	s.goroutines, _ = strconv.Atoi(string(m[1]))
	proc := fmt.Sprintf("/proc/%d", n.process.Process.Pid)
	fds, err := os.ReadDir(proc + "/fd")
	if err != nil {
		return s, err
	}
	s.descriptors = len(fds)
	status, err := os.ReadFile(proc + "/status")
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, _ := strconv.Atoi(strings.Fields(rest)[0])
			s.memory = kib << 10
		}
	}
	return s, err
}
