package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func datasync(f *os.File) error { return withFD(f, unix.Fdatasync) }

func preallocate(f *os.File, off, n int64) error {
	err := withFD(f, func(fd int) error {
		return unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, off, n)
	})
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return errors.ErrUnsupported
	}
	return err
}

func syncFS(d *os.File) error {
	err := withFD(d, unix.Syncfs)
	if errors.Is(err, unix.ENOSYS) {
		return errors.ErrUnsupported
	}
	return err
}
