//go:build !unix

package host

import (
	"errors"
	"os/exec"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin/runner"
)

const (
	quitWait   = 2 * time.Second
	outputWait = time.Second
)

// process stands for what this system does not have yet: starting it fails.
type process struct {
	done      chan struct{}
	firstLine string
}

func newProcess(Command, *pluginLog) *process { return &process{done: make(chan struct{})} }

func (p *process) pid() int          { return 0 }
func (p *process) kill()             {}
func (p *process) abort()            {}
func (p *process) exitText() string  { return "" }
func (p *process) endedItself() bool { return false }

func runnerFunc(*process) func(hclog.Logger, *exec.Cmd, string) (runner.Runner, error) {
	return func(hclog.Logger, *exec.Cmd, string) (runner.Runner, error) {
		return nil, errors.New("plugin processes run on Unix systems only")
	}
}

// socketDir is not needed here.
type socketDir struct{ path string }

func newSocketDir() (*socketDir, error) { return &socketDir{}, nil }

func (d *socketDir) remove() {}
