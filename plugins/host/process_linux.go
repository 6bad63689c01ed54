package host

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// setParentDeath makes the kernel end the process with its host. It is SIGTERM and not SIGKILL
// because the SDK answers it, as it does the end of the lifeline, by killing its whole process
// group; SIGKILL would win the race against the lifeline and leave behind what the plugin
// started. A process that is stopped is continued by the kernel when its group is orphaned; one
// whose stop is not complete at that moment is not (DESIGN.md).
func setParentDeath(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGTERM }

// waitUnreaped returns when the process has ended, before its pid is free again.
func waitUnreaped(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// pinBinary makes cmd run the very file that was checked, whatever its path leads to by then.
// Scripts run by their path: their interpreter needs one.
func pinBinary(cmd *exec.Cmd, bin *os.File, pin bool) (unpin func(), err error) {
	var magic [2]byte
	if _, err := bin.ReadAt(magic[:], 0); err != nil || !pin || bytes.Equal(magic[:], []byte("#!")) {
		return func() {}, nil
	}
	// High enough not to be overwritten by the descriptors the child gets.
	fd, err := unix.FcntlInt(bin.Fd(), unix.F_DUPFD_CLOEXEC, 64)
	if err != nil {
		return nil, fmt.Errorf("duplicate a descriptor: %w", err)
	}
	cmd.Path = fmt.Sprintf("/proc/self/fd/%d", fd)
	return func() { _ = unix.Close(fd) }, nil
}
