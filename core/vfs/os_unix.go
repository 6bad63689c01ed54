//go:build unix

package vfs

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// tryLock takes a BSD lock on the open file; it ends with the file or the process.
func tryLock(f *os.File) (bool, error) {
	err := withFD(f, func(fd int) error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

func syncDir(d *os.File) error { return d.Sync() }

func freeBytes(name string) (uint64, error) {
	st, err := statfs(name)
	return uint64(st.Bavail) * uint64(st.Bsize), err
}

func totalBytes(name string) (uint64, error) {
	st, err := statfs(name)
	return uint64(st.Blocks) * uint64(st.Bsize), err
}

func statfs(name string) (st unix.Statfs_t, err error) {
	if err := retryEINTR(func() error { return unix.Statfs(name, &st) }); err != nil {
		return st, &fs.PathError{Op: "statfs", Path: name, Err: err}
	}
	return st, nil
}

// withFD runs a call on the file's descriptor, which a concurrent Close then waits for.
func withFD(f *os.File, call func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var callErr error
	if err := conn.Control(func(fd uintptr) {
		callErr = retryEINTR(func() error { return call(int(fd)) })
	}); err != nil {
		return fs.ErrClosed // its only cause
	}
	return callErr
}

func retryEINTR(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// posixLockOwner returns the process that has a POSIX lock on the open file, 0 if there is none.
func posixLockOwner(f *os.File) (pid int, err error) {
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	err = withFD(f, func(fd int) error {
		return unix.FcntlFlock(uintptr(fd), unix.F_GETLK, &lock)
	})
	if err != nil || lock.Type == unix.F_UNLCK {
		return 0, err
	}
	return int(lock.Pid), nil
}

// MaxOpenFiles returns how many descriptors the process may have, 0 if that is not known.
func MaxOpenFiles() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return int(min(limit.Cur, 1<<30))
}
