package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	var n node
	flag.StringVar(&n.binary, "binary", "", "the millstream program")
	flag.StringVar(&n.dir, "dir", "", "directory for the data and the log")
	flag.IntVar(&n.port, "port", 21580, "the broker's port")
	flag.Parse()
	check := map[string]func(context.Context, *node) error{"descriptors": descriptors, "memory": memory}[flag.Arg(0)]
	if n.binary == "" || n.dir == "" || check == nil {
		fmt.Fprintln(os.Stderr, "limitcheck: name -binary, -dir, and descriptors or memory")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	err := check(ctx, &n)
	n.kill()
	if err != nil {
		fmt.Fprintf(os.Stderr, "limitcheck: %s: %v (its log: %s)\n", flag.Arg(0), err, n.log())
		os.Exit(1)
	}
}

// node is the broker.
type node struct {
	binary, dir string
	port        int
	process     *exec.Cmd
	// ended is closed when the process has ended.
	ended chan struct{}
}

func (n *node) addr() string { return fmt.Sprintf("127.0.0.1:%d", n.port) }
func (n *node) log() string  { return filepath.Join(n.dir, "broker.log") }

// start runs the broker under the command before, with more environment.
func (n *node) start(ctx context.Context, before []string, env ...string) error {
	out, err := os.Create(n.log())
	if err != nil {
		return err
	}
	ready := filepath.Join(n.dir, "ready.json")
	_ = os.Remove(ready)
	args := append(before, n.binary, "server", "--data-dir", filepath.Join(n.dir, "data"), "--listen", n.addr(),
		"--http", fmt.Sprintf("127.0.0.1:%d", n.port+1), "--ready-file", ready)
	n.process = exec.Command(args[0], args[1:]...)
	n.process.Stdout, n.process.Stderr = out, out
	n.process.Env = append(os.Environ(), env...)
	if err := n.process.Start(); err != nil {
		return err
	}
	n.ended = make(chan struct{})
	go func() { _ = n.process.Wait(); close(n.ended) }()
	return n.until(ctx, "serves", func() bool { _, err := os.Stat(ready); return err == nil })
}

// until waits for a condition, and fails if the broker ends.
func (n *node) until(ctx context.Context, what string, is func() bool) error {
	deadline := time.Now().Add(30 * time.Second)
	for !is() {
		select {
		case <-n.ended:
			return errors.New("the broker has ended: " + n.process.ProcessState.String())
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return errors.New("not for 30 s: " + what)
		}
	}
	return nil
}

func (n *node) kill() {
	if n.process != nil {
		_ = n.process.Process.Signal(syscall.SIGKILL)
		<-n.ended
	}
}

func (n *node) logHas(text string) bool {
	data, _ := os.ReadFile(n.log())
	return strings.Contains(string(data), text)
}

// client gives up after a few seconds.
func (n *node) client(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(n.addr()), kgo.RetryTimeout(20 * time.Second),
		kgo.RecordDeliveryTimeout(30 * time.Second), kgo.AllowAutoTopicCreation(), kgo.UnknownTopicRetries(100)}, opts...)...)
}

// status reads a number of /proc/PID/status, in KiB.
func (n *node) status(name string) int {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.process.Process.Pid))
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kib, _ := strconv.Atoi(strings.Fields(rest)[0])
			return kib
		}
	}
	return -1
}
