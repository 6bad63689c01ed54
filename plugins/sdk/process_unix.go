//go:build unix

package sdk

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/millstream-io/millstream/plugins/pluginpb"
)

// startedByHost says that the host's cookie was in the environment.
var startedByHost bool

// handshake is the standard output the host reads the handshake from.
var handshake *os.File

// init runs before the author's code: it takes standard output away from it and ties the process to
// its host.
func init() {
	if os.Getenv(pluginpb.CookieKey) != pluginpb.CookieValue {
		return
	}
	startedByHost = true
	_ = os.Unsetenv(pluginpb.CookieKey)
	fd, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 10)
	if err == nil {
		err = dup2(2, 1)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "millstream plugin: redirect standard output:", err)
		os.Exit(1)
	}
	handshake = os.NewFile(uintptr(fd), "handshake")
	term := make(chan os.Signal, 1)
	signal.Notify(term, unix.SIGTERM)
	go func() {
		<-term
		endGroup()
	}()
	if n, err := strconv.Atoi(os.Getenv(pluginpb.LifelineEnv)); err == nil && n > 2 {
		unix.CloseOnExec(n)
		go watchLifeline(os.NewFile(uintptr(n), "lifeline"))
	}
	_ = os.Unsetenv(pluginpb.LifelineEnv)
}

// watchLifeline ends the process, and what it started, when the host is gone. The host never
// writes, so a read returns only at the end of file.
func watchLifeline(f *os.File) {
	var b [1]byte
	_, _ = f.Read(b[:])
	endGroup()
}

// endGroup removes the socket and ends the process and all it started.
func endGroup() {
	if dir := os.Getenv(pluginpb.SocketDirEnv); dir != "" {
		_ = os.RemoveAll(dir)
	}
	if pid := os.Getpid(); unix.Getpgrp() == pid {
		_ = unix.Kill(-pid, unix.SIGKILL)
	}
	os.Exit(3)
}

// openHandshake lets exactly the handshake line that go-plugin prints through to the host. What the
// author's goroutines print meanwhile goes to standard error.
func openHandshake() {
	r, w, err := os.Pipe()
	if err != nil {
		fmt.Fprintln(os.Stderr, "millstream plugin: open a pipe:", err)
		os.Exit(1)
	}
	os.Stdout = w
	go passHandshake(r, os.Stderr)
}

func passHandshake(r, noise *os.File) {
	prefix := fmt.Appendf(nil, "1|%d|unix|%s", pluginpb.ProtocolVersion,
		os.Getenv(pluginpb.SocketDirEnv))
	var seen []byte
	buf := make([]byte, 4<<10)
	passed := false
	for {
		n, err := r.Read(buf)
		if passed {
			_, _ = noise.Write(buf[:n])
		} else {
			seen = append(seen, buf[:n]...)
			if i := bytes.Index(seen, prefix); i >= 0 {
				if j := bytes.IndexByte(seen[i:], '\n'); j >= 0 {
					_, _ = noise.Write(seen[:i])
					_, _ = handshake.Write(seen[i : i+j+1])
					_, _ = noise.Write(seen[i+j+1:])
					_ = handshake.Close()
					passed, seen = true, nil
				}
			}
		}
		if err != nil {
			return
		}
	}
}
