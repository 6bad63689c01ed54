package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
)

const (
	user, password = "admin", "the secret of the checker"
	files          = 9000
)

const settings = `broker:
  listeners: "STRANGERS://127.0.0.1:%[1]d,USERS://127.0.0.1:%[2]d"
  listener.security.protocol.map: "STRANGERS:PLAINTEXT,USERS:SASL_PLAINTEXT"
  sasl.enabled.mechanisms: "PLAIN,SCRAM-SHA-256"
  authorizer.class.name: "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
  super.users: "User:admin"
  listener.name.users.plain.sasl.jaas.config: 'org.apache.kafka.common.security.plain.PlainLoginModule required user_admin="%[3]s";'
  max.connections: "6000"
  millstream.groups.max: "2000"
  millstream.transactional.ids.max: "2000"
  millstream.partitions.max: "400"
  group.initial.rebalance.delay.ms: "0"
`

// node is the broker.
type node struct {
	binary, dir string
	port        int
	process     *exec.Cmd
	ended       chan struct{} // closed when the process has
	endCgroup   func()
	// clientLog is what the user's clients log, once there is one.
	clientLog *os.File
	// hard is what memory the process may have, peak the most it had.
	hard, peak int
}

func (n *node) strangers() string { return fmt.Sprintf("127.0.0.1:%d", n.port) }
func (n *node) users() string     { return fmt.Sprintf("127.0.0.1:%d", n.port+1) }
func (n *node) http() string      { return fmt.Sprintf("127.0.0.1:%d", n.port+2) }
func (n *node) log() string       { return filepath.Join(n.dir, "broker.log") }
func (n *node) data() string      { return filepath.Join(n.dir, "data") }

func (n *node) start(ctx context.Context) error {
	out, err := os.Create(n.log())
	if err != nil {
		return err
	}
	ready, config := filepath.Join(n.dir, "ready.json"), filepath.Join(n.dir, "node.yaml")
	_ = os.Remove(ready)
	text := fmt.Sprintf(settings, n.port, n.port+1, password)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	n.process = exec.Command("prlimit", fmt.Sprintf("--nofile=%d", files), "--", n.binary, "server", "--data-dir", n.data(),
		"--http", n.http(), "--config", config, "--ready-file", ready)
	n.process.Env = append(os.Environ(), "GOMEMLIMIT=400MiB")
	n.process.Stdout, n.process.Stderr = out, out
	n.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := n.process.Start(); err != nil {
		return err
	}
	n.ended = make(chan struct{})
	go func() { _ = n.process.Wait(); close(n.ended) }()
	for {
		if _, err := os.Stat(ready); err == nil {
			break
		}
		if err := n.pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	fmt.Printf("hard limit of memory (%d MiB): %v\n", n.hard, n.limitMemory())
	return nil
}

// pause waits, and fails if the broker ends.
func (n *node) pause(ctx context.Context, span time.Duration) error {
	select {
	case <-n.ended:
		return errors.New("the broker has ended: " + n.process.ProcessState.String())
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(span):
		return nil
	}
}

func (n *node) kill() {
	if n.process == nil {
		return
	}
	_ = n.process.Process.Signal(syscall.SIGKILL)
	<-n.ended
	if n.endCgroup != nil {
		n.endCgroup()
	}
}

// limitMemory puts the process under a hard limit, if the machine lets it.
func (n *node) limitMemory() bool {
	dir := filepath.Join("/sys/fs/cgroup/memory", fmt.Sprint("attack-", os.Getpid()))
	limit := "memory.limit_in_bytes"
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		dir, limit = filepath.Join("/sys/fs/cgroup", filepath.Base(dir)), "memory.max"
	}
	if os.Mkdir(dir, 0o755) != nil {
		return false
	}
	n.endCgroup = func() { _ = os.Remove(dir) }
	if os.WriteFile(filepath.Join(dir, limit), []byte(strconv.Itoa(n.hard<<20)), 0) != nil {
		return false
	}
	pid := []byte(strconv.Itoa(n.process.Process.Pid))
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), pid, 0) == nil
}

// client is one of the user's. It comes from an address that attackers do not use: who guesses passwords makes logins
// slow, and at last impossible, for all of his address (S2), so that nobody there could log in again after a broken
// connection. What the client does is in a file beside the broker's log.
func (n *node) client(opts ...kgo.Opt) (*kgo.Client, error) {
	if n.clientLog == nil {
		f, err := os.Create(filepath.Join(n.dir, "clients.log"))
		if err != nil {
			return nil, err
		}
		n.clientLog = f
	}
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, Timeout: 10 * time.Second}
	logger := kgo.BasicLogger(n.clientLog, kgo.LogLevelInfo, func() string { return time.Now().Format(time.TimeOnly) + " " })
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(n.users()), kgo.Dialer(dialer.DialContext), kgo.WithLogger(logger),
		kgo.SASL(plain.Auth{User: user, Pass: password}.AsMechanism())}, opts...)...)
}

// prepare makes the topics, and gives strangers what is below "attack".
func (n *node) prepare(ctx context.Context) error {
	cl, err := n.client()
	if err != nil {
		return err
	}
	defer cl.Close()
	admin := kadm.NewClient(cl)
	acls := kadm.NewACLs().Allow("User:ANONYMOUS").AllowHosts("*").Topics("attack").Groups("attack").
		TransactionalIDs("attack").ResourcePatternType(kadm.ACLPatternPrefixed).Operations(kadm.OpAll)
	if _, err := admin.CreateACLs(ctx, acls); err != nil {
		return err
	}
	compact, gzip := "compact", "gzip"
	for topic, configs := range map[string]map[string]*string{
		"checked": nil, "attack-plain": nil, "attack-compacted": {"cleanup.policy": &compact},
		"attack-gzip": {"compression.type": &gzip},
	} {
		if _, err := admin.CreateTopic(ctx, 3, 1, configs, topic); err != nil {
			return fmt.Errorf("create %s: %w", topic, err)
		}
	}
	return nil
}

// state is what attacks must leave as it was.
type state struct{ goroutines, sockets int }

var total = regexp.MustCompile(`goroutine profile: total (\d+)`)

func (n *node) state(ctx context.Context) (s state, err error) {
	page, err := n.get(ctx, "/debug/pprof/goroutine?debug=1")
	if err != nil {
		return s, err
	}
	m := total.FindSubmatch(page)
	if m == nil {
		return s, fmt.Errorf("no number of goroutines in %.80q", page)
	}
	s.goroutines, _ = strconv.Atoi(string(m[1]))
	dir := fmt.Sprintf("/proc/%d/fd", n.process.Process.Pid)
	fds, err := os.ReadDir(dir)
	for _, fd := range fds {
		if to, _ := os.Readlink(filepath.Join(dir, fd.Name())); strings.HasPrefix(to, "socket:") {
			s.sockets++
		}
	}
	return s, err
}

func (n *node) get(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.http()+path, nil)
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

// metric sums the samples of a family.
func (n *node) metric(ctx context.Context, name string) (sum float64, err error) {
	page, err := n.get(ctx, "/metrics")
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

// watchMemory keeps the most resident memory, and a profile of the heap from when it first was more
// than the bound.
func (n *node) watchMemory(ctx context.Context) {
	profiled := false
	for ctx.Err() == nil {
		n.peak = max(n.peak, n.resident())
		if n.peak > memoryLimit && !profiled {
			profiled = true
			if page, err := n.get(ctx, "/debug/pprof/heap"); err == nil {
				_ = os.WriteFile(filepath.Join(n.dir, "heap.pprof"), page, 0o600)
			}
			if page, err := n.get(ctx, "/debug/pprof/goroutine?debug=1"); err == nil {
				_ = os.WriteFile(filepath.Join(n.dir, "goroutines.txt"), page, 0o600)
			}
			if page, err := n.get(ctx, "/metrics"); err == nil {
				_ = os.WriteFile(filepath.Join(n.dir, "metrics.txt"), page, 0o600)
			}
		}
		if n.pause(ctx, 50*time.Millisecond) != nil {
			return
		}
	}
}

// resident is the process's memory, in bytes.
func (n *node) resident() int {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.process.Process.Pid))
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, _ := strconv.Atoi(strings.Fields(rest)[0])
			return kib << 10
		}
	}
	return 0
}

// logged tells how many lines the log has, and returns those that have a text.
func (n *node) logged(text string) (lines int, with []string) {
	data, _ := os.ReadFile(n.log())
	for line := range strings.Lines(string(data)) {
		lines++
		if strings.Contains(line, text) {
			with = append(with, line)
		}
	}
	return lines, with
}

// finish stops the broker in order and looks at its files.
func (n *node) finish(ctx context.Context) error {
	_ = n.process.Process.Signal(syscall.SIGTERM)
	select {
	case <-n.ended:
	case <-time.After(30 * time.Second):
		return errors.New("the broker does not end within 30 s of SIGTERM")
	case <-ctx.Done():
		return ctx.Err()
	}
	if !n.process.ProcessState.Success() {
		return errors.New("the broker ended with " + n.process.ProcessState.String())
	}
	// What is inside of a batch is between its producer and its readers, where the topic stores its
	// codec: strangers may have written anything into their own.
	out, _ := exec.Command(n.binary, "doctor", "--check", "log", "--data-dir", n.data()).CombinedOutput()
	var damages []string
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "damage") && !strings.Contains(line, "/attack-") {
			damages = append(damages, line)
		}
	}
	if len(damages) > 0 || !bytes.Contains(out, []byte("segments")) {
		return fmt.Errorf("doctor: %.5q of %.200q", damages, out)
	}
	return nil
}
