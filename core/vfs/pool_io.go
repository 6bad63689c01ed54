package vfs

import (
	"errors"
	"syscall"
)

// Name returns the name the file was opened by.
func (f *poolFile) Name() string { return f.name }

// ReadAt reads at off.
func (f *poolFile) ReadAt(b []byte, off int64) (int, error) {
	if err := f.acquire("read"); err != nil {
		return 0, err
	}
	defer f.release()
	return f.f.ReadAt(b, off)
}

// Read reads at the handle's offset.
func (f *poolFile) Read(b []byte) (int, error) {
	n, err := f.ReadAt(b, f.offset.Load())
	f.offset.Add(int64(n))
	if n > 0 || len(b) == 0 {
		err = nil
	}
	return n, err
}

// WriteAt writes at off.
func (f *poolFile) WriteAt(b []byte, off int64) (int, error) {
	if err := f.acquire("write"); err != nil {
		return 0, err
	}
	defer f.release()
	n, err := f.f.WriteAt(b, off)
	f.dirty.Store(true) // after it, so that a sync meanwhile does not take it for its own
	return n, err
}

// Write writes at the handle's offset.
func (f *poolFile) Write(b []byte) (int, error) {
	n, err := f.WriteAt(b, f.offset.Load())
	f.offset.Add(int64(n))
	return n, err
}

// Sync makes bytes and metadata durable.
func (f *poolFile) Sync() error { return f.sync(File.Sync) }

// Datasync makes bytes and size durable.
func (f *poolFile) Datasync() error { return f.sync(File.Datasync) }

func (f *poolFile) sync(call func(File) error) error {
	if err := f.acquire("sync"); err != nil {
		return err
	}
	defer f.release()
	was := f.dirty.Swap(false)
	err := call(f.f)
	if err != nil && was {
		f.dirty.Store(true)
	}
	return err
}

// Truncate changes the size.
func (f *poolFile) Truncate(size int64) error {
	if err := f.acquire("truncate"); err != nil {
		return err
	}
	defer f.release()
	err := f.f.Truncate(size)
	f.dirty.Store(true)
	return err
}

// Size returns the size in bytes.
func (f *poolFile) Size() (int64, error) {
	if err := f.acquire("size"); err != nil {
		return 0, err
	}
	defer f.release()
	return f.f.Size()
}

// Preallocate asks the file beneath, if it can.
func (f *poolFile) Preallocate(off, n int64) error {
	if err := f.acquire("fallocate"); err != nil {
		return err
	}
	defer f.release()
	p, ok := f.f.(Preallocator)
	if !ok {
		return errors.ErrUnsupported
	}
	return p.Preallocate(off, n)
}

// systemPoolFile is the poolFile of a file system whose files have descriptors.
type systemPoolFile struct{ *poolFile }

// SyscallConn gives the descriptor as package os does. It may be another one at each call of
// Control, and is not closed during one.
func (f *systemPoolFile) SyscallConn() (syscall.RawConn, error) { return poolConn{f.poolFile}, nil }

// poolConn is the syscall.RawConn of a poolFile. It is one pointer, so that it costs no allocation.
type poolConn struct{ file *poolFile }

// Control calls fn with the descriptor.
func (c poolConn) Control(fn func(fd uintptr)) error {
	if err := c.file.acquire("control"); err != nil {
		return err
	}
	defer c.file.release()
	return c.file.raw.Control(fn)
}

// Read is as that of a file of package os.
func (c poolConn) Read(fn func(fd uintptr) bool) error {
	if err := c.file.acquire("read"); err != nil {
		return err
	}
	defer c.file.release()
	return c.file.raw.Read(fn)
}

// Write is as that of a file of package os. What fn writes counts as written.
func (c poolConn) Write(fn func(fd uintptr) bool) error {
	if err := c.file.acquire("write"); err != nil {
		return err
	}
	defer c.file.release()
	err := c.file.raw.Write(fn)
	c.file.dirty.Store(true)
	return err
}
