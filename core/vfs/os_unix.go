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
	err := retryEINTR(func() error {
		return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	})
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

func syncDir(d *os.File) error { return d.Sync() }

func freeBytes(name string) (uint64, error) {
	var st unix.Statfs_t
	if err := retryEINTR(func() error { return unix.Statfs(name, &st) }); err != nil {
		return 0, &fs.PathError{Op: "statfs", Path: name, Err: err}
	}
	return uint64(st.Bavail) * uint64(st.Bsize), nil
}

func retryEINTR(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
