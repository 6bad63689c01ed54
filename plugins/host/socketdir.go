//go:build unix

package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	socketDirPattern = "ms-plugin-*"
	// maxSocketBase keeps the whole socket path below the 104 bytes some systems allow.
	maxSocketBase = 40
	// sweepAge spares directories whose host has not locked them yet.
	sweepAge = time.Minute
)

// socketDir is the private directory of one process's socket.
type socketDir struct {
	path string
	lock *os.File
}

// sweepOnce removes once per host what killed hosts left.
var sweepOnce sync.Once

func newSocketDir() (*socketDir, error) {
	base := os.TempDir()
	if len(base) > maxSocketBase {
		base = "/tmp"
	}
	sweepOnce.Do(func() { sweepSockets(base) })
	path, err := os.MkdirTemp(base, socketDirPattern) // mode 0700
	if err != nil {
		return nil, fmt.Errorf("create a directory for the plugin's socket: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = flock(lock)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), os.RemoveAll(path))
	}
	return &socketDir{path, lock}, nil
}

// flock locks f for this host; it fails when another has it.
func flock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

func (d *socketDir) remove() {
	_ = os.RemoveAll(d.path)
	_ = d.lock.Close()
}

// sweepSockets removes the directories below base that no living host holds.
func sweepSockets(base string) {
	dirs, err := filepath.Glob(filepath.Join(base, socketDirPattern))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || time.Since(info.ModTime()) < sweepAge {
			continue
		}
		lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0)
		if err != nil {
			continue // another user's, or not ours at all
		}
		if flock(lock) == nil {
			_ = os.RemoveAll(dir)
		}
		_ = lock.Close()
	}
}
