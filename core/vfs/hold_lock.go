package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// lockHolder is a file system on which HoldLock works.
type lockHolder interface {
	holdLock(name string) (io.Closer, error)
}

// HoldLock keeps other processes out as FS.Lock does, but leaves the file as it is: it is for those
// who only read. A lock file that is not there is not made; nobody is kept out then.
func HoldLock(fsys FS, name string) (io.Closer, error) {
	h, ok := fsys.(lockHolder)
	if !ok {
		return nil, fmt.Errorf("hold lock %s: %w", name, errors.ErrUnsupported)
	}
	return h.holdLock(name)
}

// noLock is the lock of a file that is not there.
type noLock struct{}

// Close implements io.Closer.
func (noLock) Close() error { return nil }

func (osFS) holdLock(name string) (io.Closer, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return noLock{}, nil
	}
	if err != nil {
		return nil, err
	}
	held, err := tryLock(f)
	pid := readPID(f)
	if err == nil && held {
		// A Java process locks in another way, and writes no process id.
		if pid, err = posixLockOwner(f); err == nil && pid == 0 {
			return f, nil // closing releases the lock
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", name, err), f.Close())
	}
	return nil, errors.Join(&LockedError{Name: name, PID: pid}, f.Close())
}

func (m *Mem) holdLock(name string) (io.Closer, error) {
	f, err := m.OpenFile(name, ReadOnly, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return noLock{}, nil
	}
	if err != nil {
		return nil, err
	}
	lock, err := m.claim(name, f)
	if err != nil {
		return nil, err
	}
	return lock, f.Close()
}

func (w *wrapFS) holdLock(name string) (io.Closer, error) { return HoldLock(w.FS, name) }
