package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/millstream-io/millstream/.ci/faults/broker"
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
	broker.Broker
	port      int
	endCgroup func()
	// clientLog is what the user's clients log, once there is one.
	clientLog *os.File
	// hard is what memory the process may have, peak the most it had.
	hard, peak int
}

func (n *node) strangers() string { return fmt.Sprintf("127.0.0.1:%d", n.port) }
func (n *node) users() string     { return fmt.Sprintf("127.0.0.1:%d", n.port+1) }
func (n *node) http() string      { return fmt.Sprintf("127.0.0.1:%d", n.port+2) }

func (n *node) start(ctx context.Context) error {
	n.Admin = n.http()
	err := n.Start(ctx, broker.Options{Settings: fmt.Sprintf(settings, n.port, n.port+1, password),
		Before: []string{"prlimit", fmt.Sprintf("--nofile=%d", files), "--"}, Env: []string{"GOMEMLIMIT=400MiB"}})
	if err != nil {
		return err
	}
	fmt.Printf("hard limit of memory (%d MiB): %v\n", n.hard, n.limitMemory())
	return nil
}

func (n *node) kill() {
	n.Kill()
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
	pid := []byte(strconv.Itoa(n.Pid()))
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), pid, 0) == nil
}

// client is one of the user's. It comes from an address that attackers do not use: who guesses passwords makes logins
// slow, and at last impossible, for all of his address (S2), so that nobody there could log in again after a broken
// connection. What the client does is in a file beside the broker's log.
func (n *node) client(opts ...kgo.Opt) (*kgo.Client, error) {
	if n.clientLog == nil {
		f, err := os.Create(filepath.Join(n.Dir, "clients.log"))
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

func (n *node) state(ctx context.Context) (s state, err error) {
	if s.goroutines, err = n.Goroutines(ctx); err != nil {
		return s, err
	}
	descriptors, err := n.Descriptors()
	for _, to := range descriptors {
		if strings.HasPrefix(to, "socket:") {
			s.sockets++
		}
	}
	return s, err
}

// watchMemory keeps the most resident memory, and a profile of the heap from when it first was more
// than the bound.
func (n *node) watchMemory(ctx context.Context) {
	profiled := false
	for ctx.Err() == nil {
		n.peak = max(n.peak, n.Memory("VmHWM"))
		if n.peak > memoryLimit && !profiled {
			profiled = true
			for path, file := range map[string]string{"/debug/pprof/heap": "heap.pprof",
				"/debug/pprof/goroutine?debug=1": "goroutines.txt", "/metrics": "metrics.txt"} {
				if page, err := n.Get(ctx, path); err == nil {
					_ = os.WriteFile(filepath.Join(n.Dir, file), page, 0o600)
				}
			}
		}
		if n.Pause(ctx, 50*time.Millisecond) != nil {
			return
		}
	}
}

// finish stops the broker in order and looks at its files.
func (n *node) finish(ctx context.Context) error {
	if err := n.Stop(ctx); err != nil {
		return err
	}
	// What is inside of a batch is between its producer and its readers, where the topic stores its
	// codec: strangers may have written anything into their own.
	out, _ := exec.Command(n.Binary, "doctor", "--check", "log", "--data-dir", n.Data()).CombinedOutput()
	var damages []string
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "damage") && !strings.Contains(line, "/attack-") {
			damages = append(damages, line)
		}
	}
	if len(damages) > 0 || !bytes.Contains(out, []byte("segments")) {
		return fmt.Errorf("doctor: %.200q of %.200q", damages, out)
	}
	return nil
}
