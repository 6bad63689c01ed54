package vfs

import (
	"io"
	"io/fs"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// memData is the content of a file and how to get back to its last synced state.
type memData struct {
	mu struct {
		sync.RWMutex
		bytes    []byte
		pending  []memWrite // since the last sync, in order
		modified time.Time
	}
}

// memWrite is one change of a file's content that is not synced.
type memWrite struct {
	off, n  int64 // bytes written; a truncation to off if n is -1
	oldSize int64
	old     []byte // what was at off, up to oldSize
}

func (d *memData) size() int64 {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return int64(len(d.mu.bytes))
}

func (d *memData) readAt(p []byte, off int64) (int, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if off >= int64(len(d.mu.bytes)) {
		return 0, io.EOF
	}
	n := copy(p, d.mu.bytes[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// write writes p at off, or at the end if off is -1, and returns where that was.
func (d *memData) write(p []byte, off int64) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	size := int64(len(d.mu.bytes))
	if off < 0 {
		off = size
	}
	if len(p) == 0 {
		return off
	}
	end := off + int64(len(p))
	w := memWrite{off: off, n: int64(len(p)), oldSize: size}
	if off < size {
		w.old = append(w.old, d.mu.bytes[off:min(end, size)]...)
	}
	d.mu.pending = append(d.mu.pending, w)
	d.mu.bytes = resized(d.mu.bytes, max(end, size))
	copy(d.mu.bytes[off:], p)
	d.mu.modified = time.Now()
	return off
}

func (d *memData) truncate(size int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := int64(len(d.mu.bytes))
	w := memWrite{off: size, n: -1, oldSize: old}
	if size < old {
		w.old = append(w.old, d.mu.bytes[size:]...)
	}
	d.mu.pending = append(d.mu.pending, w)
	d.mu.bytes = resized(d.mu.bytes, size)
	d.mu.modified = time.Now()
}

func (d *memData) sync() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.pending = nil
}

// resized returns b with the given length; new bytes are zero.
func resized(b []byte, size int64) []byte {
	if old := int64(len(b)); size > old {
		if size <= int64(cap(b)) {
			b = b[:size]
			clear(b[old:])
			return b
		}
		return append(b, make([]byte, size-old)...)
	}
	return b[:size]
}

// memFile is an open file of Mem.
type memFile struct {
	name   string
	flag   int
	data   *memData
	offset atomic.Int64 // of Read and Write
	closed atomic.Bool
}

var (
	_ File         = (*memFile)(nil)
	_ Preallocator = (*memFile)(nil)
)

// check returns why the operation cannot run on this handle.
func (f *memFile) check(op string, write bool) error {
	mode := f.flag & (ReadOnly | WriteOnly | ReadWrite)
	switch {
	case f.closed.Load():
		return pathError(op, f.name, fs.ErrClosed)
	case write && mode == ReadOnly, !write && mode == WriteOnly:
		return pathError(op, f.name, syscall.EBADF)
	}
	return nil
}

// Read reads at the handle's offset.
func (f *memFile) Read(p []byte) (int, error) {
	if err := f.check("read", false); err != nil {
		return 0, err
	}
	n, err := f.data.readAt(p, f.offset.Load())
	f.offset.Add(int64(n))
	if n > 0 || len(p) == 0 {
		err = nil
	}
	return n, err
}

// ReadAt reads at off.
func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.check("read", false); err != nil {
		return 0, err
	}
	if off < 0 {
		return 0, pathError("read", f.name, fs.ErrInvalid)
	}
	return f.data.readAt(p, off)
}

// Write writes at the handle's offset, or at the end if opened with Append.
func (f *memFile) Write(p []byte) (int, error) {
	if err := f.check("write", true); err != nil {
		return 0, err
	}
	off := f.offset.Load()
	if f.flag&Append != 0 {
		off = -1
	}
	off = f.data.write(p, off)
	f.offset.Store(off + int64(len(p)))
	return len(p), nil
}

// WriteAt writes at off.
func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.check("write", true); err != nil {
		return 0, err
	}
	if off < 0 || f.flag&Append != 0 {
		return 0, pathError("write", f.name, fs.ErrInvalid)
	}
	f.data.write(p, off)
	return len(p), nil
}

// Close ends the handle.
func (f *memFile) Close() error {
	if f.closed.Swap(true) {
		return pathError("close", f.name, fs.ErrClosed)
	}
	return nil
}

// Sync makes the content survive CrashClone.
func (f *memFile) Sync() error {
	if f.closed.Load() {
		return pathError("sync", f.name, fs.ErrClosed)
	}
	f.data.sync()
	return nil
}

// Datasync is Sync.
func (f *memFile) Datasync() error { return f.Sync() }

// Truncate changes the size.
func (f *memFile) Truncate(size int64) error {
	if err := f.check("truncate", true); err != nil {
		return err
	}
	if size < 0 {
		return pathError("truncate", f.name, fs.ErrInvalid)
	}
	f.data.truncate(size)
	return nil
}

// Size returns the size in bytes.
func (f *memFile) Size() (int64, error) {
	if f.closed.Load() {
		return 0, pathError("size", f.name, fs.ErrClosed)
	}
	return f.data.size(), nil
}

// Name returns the name the file was opened by.
func (f *memFile) Name() string { return f.name }

// Preallocate has nothing to reserve in memory.
func (f *memFile) Preallocate(_, _ int64) error { return f.check("fallocate", true) }

// memInfo is the fs.FileInfo of a node at one moment.
type memInfo struct {
	name     string
	size     int64
	mode     fs.FileMode
	modified time.Time
}

func (n *memNode) info(name string) fs.FileInfo {
	n.file.mu.RLock()
	defer n.file.mu.RUnlock()
	return memInfo{name, int64(len(n.file.mu.bytes)), n.mode, n.file.mu.modified}
}

func (i memInfo) Name() string       { return i.name }
func (i memInfo) Size() int64        { return i.size }
func (i memInfo) Mode() fs.FileMode  { return i.mode }
func (i memInfo) ModTime() time.Time { return i.modified }
func (i memInfo) IsDir() bool        { return i.mode.IsDir() }
func (i memInfo) Sys() any           { return nil }
