//go:build unix

package host

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin/runner"
	"golang.org/x/sys/unix"

	"github.com/millstream-io/millstream/plugins/pluginpb"
)

const (
	// handshakeBytes bounds the first line of standard output; a handshake has about 120 bytes.
	handshakeBytes = 4 << 10
	// quitWait is how long a hung process gets to print its stacks after SIGQUIT.
	quitWait = 2 * time.Second
	// outputWait is how long after its end the output of a process is read.
	outputWait = time.Second
)

// process is one child process. It implements go-plugin's Runner, and gives go-plugin only the
// first line of standard output; everything else is read here.
type process struct {
	command Command
	log     *pluginLog

	cmd      *exec.Cmd
	lifeline *os.File // write end; closed when the process is gone
	first    *io.PipeReader
	reaped   chan struct{} // closed when the process is reaped and its group killed
	done     chan struct{} // closed when its output is read, too
	readers  sync.WaitGroup

	mu struct {
		sync.Mutex
		pid    int  // 0 before the start
		exited bool // the pid must not be signalled any more
		killed bool // kill was called, perhaps before the start
	}
	// Written before done closes.
	exit   error  // how it ended, nil = status 0
	reason string // the first line of its panic, or the last it printed
	// Written before the pipe of first closes.
	firstLine string
}

var _ runner.Runner = (*process)(nil)

func newProcess(c Command, log *pluginLog) *process {
	return &process{
		command: c, log: log, reaped: make(chan struct{}), done: make(chan struct{}),
	}
}

// Start starts the process with env, on a thread that lives as long as it.
func (p *process) start(env []string) error {
	bin, err := p.command.open()
	if err != nil {
		return err
	}
	defer bin.Close()
	outR, outW, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("open a pipe: %w", err)
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		return errors.Join(fmt.Errorf("open a pipe: %w", err), outR.Close(), outW.Close())
	}
	lifeR, lifeW, err := os.Pipe()
	if err != nil {
		return errors.Join(fmt.Errorf("open a pipe: %w", err),
			outR.Close(), outW.Close(), errR.Close(), errW.Close())
	}
	p.lifeline = lifeW
	path, err := filepath.Abs(p.command.Path) // Dir may be another one
	if err != nil {
		return errors.Join(err, closeAll(outR, outW, errR, errW, lifeR, lifeW))
	}
	cmd := &exec.Cmd{
		Path: path, Dir: p.command.Dir, Env: env,
		Args:   append([]string{p.command.shown()}, p.command.Args...),
		Stdout: outW, Stderr: errW, ExtraFiles: []*os.File{lifeR}, SysProcAttr: childAttr(),
	}
	unpin, err := pinBinary(cmd, bin, p.command.SHA256 != "")
	if err != nil {
		return errors.Join(err, closeAll(outR, outW, errR, errW, lifeR, lifeW))
	}
	cmd.Env = append(cmd.Env, pluginpb.LifelineEnv+"=3")
	p.cmd = cmd
	first, feed := io.Pipe()
	p.first = first
	p.readers.Go(func() { p.readStdout(outR, feed) })
	p.readers.Go(func() { p.log.consume(errR, "stderr") })
	started := make(chan error, 1)
	go p.run(started, outR, errR)
	err = <-started
	unpin()
	if e := closeAll(outW, errW, lifeR); err != nil {
		err = errors.Join(err, e, lifeW.Close())
	}
	return err
}

func closeAll(files ...*os.File) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// run starts the process and waits for its end, on one thread: the parent-death signal is bound
// to it.
func (p *process) run(started chan<- error, outputs ...*os.File) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.done)
	err := p.cmd.Start()
	if err != nil {
		started <- err
		close(p.reaped)
		_ = closeAll(outputs...)
		return
	}
	pid := p.cmd.Process.Pid
	p.mu.Lock()
	p.mu.pid = pid
	killed := p.mu.killed
	p.mu.Unlock()
	if killed {
		p.kill()
	}
	started <- nil
	waitUnreaped(pid)
	p.mu.Lock()
	p.mu.exited = true
	_ = unix.Kill(-pid, unix.SIGKILL) // what it started
	p.mu.Unlock()
	p.exit = p.cmd.Wait()
	close(p.reaped)
	_ = p.lifeline.Close()
	// What left the group may hold the pipes open for ever.
	cut := time.AfterFunc(outputWait, func() { _ = closeAll(outputs...) })
	p.readers.Wait()
	if cut.Stop() {
		_ = closeAll(outputs...)
	}
	p.reason = p.log.reason()
}

// readStdout hands the first line to go-plugin and logs the rest.
func (p *process) readStdout(r *os.File, feed *io.PipeWriter) {
	b := bufio.NewReaderSize(r, handshakeBytes)
	line, err := b.ReadSlice('\n')
	p.firstLine = strings.TrimSpace(string(line))
	if len(line) == 0 && err != nil { // it closed its output: wait for how it ends
		select {
		case <-p.reaped:
		case <-time.After(time.Second):
		}
	} else {
		_, _ = feed.Write(append(line, '\n'))
	}
	_ = feed.Close()
	if err == nil || errors.Is(err, bufio.ErrBufferFull) {
		p.log.consume(b, "stdout")
	}
}

// pid is 0 before the start.
func (p *process) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.pid
}

// kill ends the process and its group.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.exited {
		return
	}
	p.mu.killed = true
	if p.mu.pid != 0 {
		_ = unix.Kill(-p.mu.pid, unix.SIGKILL)
	}
}

// endedItself waits for the end of a process that is ended or was killed, and says which of the
// two.
func (p *process) endedItself() bool {
	select {
	case <-p.done:
	case <-time.After(quitWait):
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.mu.killed
}

// quit makes a Go process print its stacks and end.
func (p *process) quit() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.pid != 0 && !p.mu.exited {
		_ = unix.Kill(p.mu.pid, unix.SIGQUIT)
	}
}

// abort lets the process print its stacks, then kills it.
func (p *process) abort() {
	p.quit()
	select {
	case <-p.done:
	case <-time.After(quitWait):
		p.kill()
	}
}

// exitText says how the process ended; call it after done.
func (p *process) exitText() string {
	text := "exit status 0"
	if p.exit != nil {
		text = p.exit.Error()
	}
	if p.reason != "" {
		text += ": " + p.reason
	}
	return text
}

// runnerFunc starts the process for go-plugin.
func runnerFunc(p *process) func(hclog.Logger, *exec.Cmd, string) (runner.Runner, error) {
	return func(_ hclog.Logger, cmd *exec.Cmd, _ string) (runner.Runner, error) {
		if err := p.start(append(p.command.environ(), cmd.Env...)); err != nil {
			return nil, err
		}
		return p, nil
	}
}

// childAttr puts the child into its own process group, so that Ctrl-C at the terminal does not
// reach it and it can be killed with all it started.
func childAttr() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true}
	setParentDeath(a)
	return a
}

// The methods below are go-plugin's Runner.

func (p *process) Start(context.Context) error     { return nil } // started by RunnerFunc
func (p *process) Diagnose(context.Context) string { return "" }
func (p *process) Stdout() io.ReadCloser           { return p.first }
func (p *process) Stderr() io.ReadCloser           { return io.NopCloser(strings.NewReader("")) }
func (p *process) Name() string                    { return p.command.Path }
func (p *process) ID() string                      { return strconv.Itoa(p.pid()) }

func (p *process) Wait(context.Context) error {
	<-p.done
	return p.exit
}

func (p *process) Kill(context.Context) error {
	p.kill()
	return nil
}

func (p *process) PluginToHost(network, addr string) (string, string, error) {
	return network, addr, nil
}

func (p *process) HostToPlugin(network, addr string) (string, string, error) {
	return network, addr, nil
}
