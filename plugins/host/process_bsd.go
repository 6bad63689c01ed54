//go:build unix && !linux

package host

import (
	"os"
	"os/exec"
	"syscall"
)

func setParentDeath(*syscall.SysProcAttr) {} // the lifeline alone

func waitUnreaped(int) {}

func pinBinary(*exec.Cmd, *os.File, bool) (unpin func(), err error) { return func() {}, nil }
