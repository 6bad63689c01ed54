package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

const (
	flagReadOnly  = os.O_RDONLY
	flagWriteOnly = os.O_WRONLY
	flagReadWrite = os.O_RDWR
	flagAppend    = os.O_APPEND
	flagCreate    = os.O_CREATE
	flagExclusive = os.O_EXCL
	flagTruncate  = os.O_TRUNC
)

// OS returns the file system of the machine.
func OS() FS { return osFS{} }

type osFS struct{}

var (
	_ FS           = osFS{}
	_ Preallocator = osFile{}
)

// osFile adds to an os.File what File needs beyond it; SyscallConn comes with the embedding.
type osFile struct{ *os.File }

func (osFS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	f, err := os.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (osFS) Remove(name string) error    { return os.Remove(name) }
func (osFS) RemoveAll(name string) error { return os.RemoveAll(name) }

func (osFS) Rename(oldname, newname string) error { return os.Rename(oldname, newname) }

func (osFS) MkdirAll(name string, perm fs.FileMode) error { return os.MkdirAll(name, perm) }

func (osFS) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }
func (osFS) Stat(name string) (fs.FileInfo, error)      { return os.Stat(name) }

func (osFS) Free(name string) (uint64, error) { return freeBytes(name) }

// Total implements Sizer.
func (osFS) Total(name string) (uint64, error) { return totalBytes(name) }

func (osFS) SyncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	err = syncDir(d)
	return errors.Join(err, d.Close())
}

// SyncTree implements TreeSyncer. It syncs the whole file system that the directory is on.
func (osFS) SyncTree(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	if err = syncFS(d); err != nil {
		err = &fs.PathError{Op: "syncfs", Path: name, Err: err}
	}
	return errors.Join(err, d.Close())
}

func (osFS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	held, err := tryLock(f)
	switch {
	case err != nil:
		return nil, errors.Join(fmt.Errorf("lock %s: %w", name, err), f.Close())
	case !held:
		return nil, errors.Join(&LockedError{Name: name, PID: readPID(f)}, f.Close())
	}
	if err := writePID(osFile{f}); err != nil {
		return nil, errors.Join(fmt.Errorf("write process id to %s: %w", name, err), f.Close())
	}
	return f, nil // closing releases the lock
}

// readPID returns the process id in a lock file, 0 if there is none.
func readPID(f io.ReaderAt) int {
	buf := make([]byte, 32)
	n, err := f.ReadAt(buf, 0)
	if err != nil && err != io.EOF {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	if err != nil {
		return 0
	}
	return pid
}

func writePID(f File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// Size returns the size in bytes.
func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Datasync makes the bytes durable, and the size; not the times.
func (f osFile) Datasync() error {
	if err := datasync(f.File); err != nil {
		return &fs.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
	}
	return nil
}

// Preallocate reserves disk blocks; the size stays.
func (f osFile) Preallocate(off, n int64) error {
	if err := preallocate(f.File, off, n); err != nil {
		return &fs.PathError{Op: "fallocate", Path: f.Name(), Err: err}
	}
	return nil
}
