package vfs

import (
	"errors"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// poolFile is an open file of a Pool. Its users count says whether it has a descriptor.
type poolFile struct {
	pool *Pool
	name string // it was opened by; only shown
	// dir and base are where it is now, tracked whether it can be found there. The pool's lock
	// guards changes, mu too those of a file without a descriptor.
	dir, base string
	tracked   bool
	slot      int // in the pool's ring; its lock guards it

	// users is how many calls use f, noFile without it, leaving while eviction decides. Whoever takes
	// it from 0 to less closes f.
	users atomic.Int32
	// used says that the file was used since eviction last came by.
	used atomic.Bool
	// dirty says that something was written and not synced, or that a sync failed.
	dirty atomic.Bool
	// pinned says that it cannot be opened by its name any more.
	pinned atomic.Bool
	closed atomic.Bool

	mu  sync.Mutex // held while f is opened, and while the file is renamed
	f   File       // the file beneath; not to be used unless counted in users
	raw syscall.RawConn

	offset atomic.Int64 // of Read and Write
}

var (
	_ File         = (*poolFile)(nil)
	_ Preallocator = (*poolFile)(nil)
)

// Values of the users count that are none.
const (
	noFile  = -1 // there is no descriptor
	leaving = -2 // it may be closed; for a moment
)

// set takes an opened file. Nobody uses the last one.
func (f *poolFile) set(file File) {
	f.f, f.raw = file, nil
	if s, ok := file.(interface {
		SyscallConn() (syscall.RawConn, error)
	}); ok {
		f.raw, _ = s.SyscallConn()
	}
}

// acquire makes sure that there is a descriptor until release.
func (f *poolFile) acquire(op string) error {
	if !f.used.Load() {
		f.used.Store(true)
	}
	for {
		if f.closed.Load() {
			return pathError(op, f.name, fs.ErrClosed)
		}
		n := f.users.Load()
		switch n {
		case noFile:
			if err := f.open(); err != nil {
				return err
			}
			continue
		case leaving:
			runtime.Gosched()
			continue
		}
		if f.users.CompareAndSwap(n, n+1) {
			if f.closed.Load() { // Close does not wait for those that come after it
				f.release()
				return pathError(op, f.name, fs.ErrClosed)
			}
			return nil
		}
	}
}

// release ends the use; the last one of a closed file closes it.
func (f *poolFile) release() {
	if f.users.Add(-1) == 0 && f.closed.Load() {
		_ = f.shut() // only read from since Close, which could not tell
	}
}

// open gives the file a descriptor if it has none.
func (f *poolFile) open() error {
	f.pool.makeRoom(evictSteps)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users.Load() != noFile || f.closed.Load() {
		return nil
	}
	var file File
	name := f.path()
	err := f.pool.retry(func() (err error) {
		file, err = f.pool.FS.OpenFile(name, ReadWrite, 0)
		return err
	})
	if err != nil {
		return err
	}
	f.set(file)
	f.pool.mu.Lock()
	f.pool.addLocked(f)
	f.pool.mu.Unlock()
	f.users.Store(0)
	return nil
}

func (f *poolFile) path() string {
	f.pool.mu.Lock()
	defer f.pool.mu.Unlock()
	return filepath.Join(f.dir, f.base)
}

// isBelow reports whether the file is in a directory, or in one in it. The pool's lock is held.
func (f *poolFile) isBelow(dir string) bool {
	return f.tracked && strings.HasPrefix(f.dir+"/", filepath.Clean(dir)+"/")
}

// evict closes the descriptor if nobody uses it, nobody has of late, and nothing is lost with it.
// The pool's lock is held.
func (f *poolFile) evict() bool {
	file := f.f // in the ring, so nobody replaces it
	if f.pinned.Load() || f.used.Swap(false) || !f.users.CompareAndSwap(0, leaving) {
		return false
	}
	if f.dirty.Load() || f.pinned.Load() { // looked at while nobody can write or pin
		f.users.Store(0)
		return false
	}
	f.users.Store(noFile)
	_ = file.Close() // all of it is synced
	return true
}

// pin gives the file a descriptor that is kept until Close.
func (f *poolFile) pin() error {
	f.pinned.Store(true) // before: it must not be evicted in between
	err := f.acquire("open")
	if err != nil {
		if errors.Is(err, fs.ErrClosed) {
			return nil
		}
		f.pinned.Store(false)
		return err
	}
	f.release()
	return nil
}

// Close ends the file. Calls that are on their way are let finish.
func (f *poolFile) Close() error {
	if f.closed.Swap(true) {
		return pathError("close", f.name, fs.ErrClosed)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pool.mu.Lock()
	f.pool.untrackLocked(f)
	f.pool.mu.Unlock()
	return f.shut()
}

// shut closes the descriptor of a closed file if nobody uses it, once.
func (f *poolFile) shut() error {
	for !f.users.CompareAndSwap(0, noFile) {
		if f.users.Load() != leaving {
			return nil // nothing to close, or a user does it
		}
		runtime.Gosched()
	}
	f.pool.mu.Lock()
	f.pool.dropLocked(f)
	f.pool.mu.Unlock()
	return f.f.Close()
}
