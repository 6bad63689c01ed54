package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// settings make everything happen often: rolls, retention, compaction, checkpoints.
const settings = `broker:
  log.cleaner.backoff.ms: "100"
  log.retention.check.interval.ms: "250"
  log.segment.delete.delay.ms: "50"
  log.flush.offset.checkpoint.interval.ms: "150"
  log.flush.start.offset.checkpoint.interval.ms: "150"
  group.initial.rebalance.delay.ms: "0"
  group.consumer.min.session.timeout.ms: "3000"
  group.consumer.session.timeout.ms: "3000"
  group.consumer.min.heartbeat.interval.ms: "300"
  group.consumer.heartbeat.interval.ms: "300"
  offsets.topic.num.partitions: "3"
  offsets.topic.segment.bytes: "1048576"
  transaction.state.log.num.partitions: "3"
  transaction.state.log.segment.bytes: "1048576"
`

// broker is the process under test.
type broker struct {
	binary, dir string
	port        int
	// process is the one that runs, nil if none does.
	process *exec.Cmd
	// output takes what all of them say.
	output *os.File
}

func (b *broker) addr() string { return fmt.Sprintf("127.0.0.1:%d", b.port) }
func (b *broker) data() string { return filepath.Join(b.dir, "data") }

// launch starts the process and does not wait until it serves.
func (b *broker) launch() error {
	config := filepath.Join(b.dir, "node.yaml")
	if b.output == nil {
		if err := os.MkdirAll(b.dir, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(config, []byte(settings), 0o600); err != nil {
			return err
		}
		var err error
		b.output, err = os.Create(filepath.Join(b.dir, "broker.log"))
		if err != nil {
			return err
		}
	}
	_ = os.Remove(b.ready())
	cmd := exec.Command(b.binary, "server", "--data-dir", b.data(), "--listen", b.addr(),
		"--http", fmt.Sprintf("127.0.0.1:%d", b.port+1), "--config", config, "--ready-file", b.ready())
	cmd.Stdout, cmd.Stderr = b.output, b.output
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", b.binary, err)
	}
	b.process = cmd
	return nil
}

func (b *broker) ready() string { return filepath.Join(b.dir, "ready.json") }

// start starts the process and tells how long it took to serve.
func (b *broker) start(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	if err := b.launch(); err != nil {
		return 0, err
	}
	const limit = 30 * time.Second
	for time.Since(began) < limit {
		if _, err := os.Stat(b.ready()); err == nil {
			return time.Since(began), nil
		}
		var status syscall.WaitStatus
		if pid, _ := syscall.Wait4(b.process.Process.Pid, &status, syscall.WNOHANG, nil); pid > 0 {
			b.process = nil
			return 0, fmt.Errorf("the broker ended while starting, status %d; its log is %s", status, b.output.Name())
		}
		if err := pause(ctx, 2*time.Millisecond); err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("the broker does not serve after %v; its log is %s", limit, b.output.Name())
}

// kill ends the process with SIGKILL.
func (b *broker) kill() {
	if b.process == nil {
		return
	}
	_ = b.process.Process.Kill()
	_ = b.process.Wait()
	b.process = nil
}

// stop ends it in order.
func (b *broker) stop() error {
	_ = b.process.Process.Signal(syscall.SIGTERM)
	err := b.process.Wait()
	b.process = nil
	if err != nil {
		return fmt.Errorf("stop the broker in order: %w; its log is %s", err, b.output.Name())
	}
	return nil
}

// checked is what doctor finds.
type checked struct {
	Damages, Notes int
	// leftovers are the notes about files whose file.delete.delay.ms is not over, which is no work for a recovery.
	leftovers int
	text      string
}

// doctor checks the files.
func (b *broker) doctor() (checked, error) {
	out, err := exec.Command(b.binary, "doctor", "--check", "log", "--data-dir", b.data(), "-o", "json").Output()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		return checked{}, fmt.Errorf("run doctor: %w", err)
	}
	var verdict struct {
		Result struct {
			Read struct {
				Damages int `json:"damages"`
				Notes   int `json:"notes"`
			} `json:"read"`
			Findings []struct {
				Note bool   `json:"note"`
				What string `json:"what"`
			} `json:"findings"`
		} `json:"result"`
	}
	if err := json.Unmarshal(out, &verdict); err != nil {
		return checked{}, fmt.Errorf("read what doctor says: %w\n%s", err, out)
	}
	found := checked{verdict.Result.Read.Damages, verdict.Result.Read.Notes, 0, string(out)}
	for _, f := range verdict.Result.Findings {
		if f.Note && f.What == "is a file to be removed" {
			found.leftovers++
		}
	}
	return found, nil
}
