package vfs

import (
	"errors"
	"io"
	"io/fs"
)

// Op names an operation of FS or File, as Fault's rules and Trace's lines do.
type Op string

// The operations.
const (
	OpOpen        Op = "open"
	OpCreate      Op = "create" // OpenFile with Create
	OpRemove      Op = "remove"
	OpRemoveAll   Op = "removeall"
	OpRename      Op = "rename"
	OpMkdir       Op = "mkdir"
	OpReadDir     Op = "readdir"
	OpStat        Op = "stat"
	OpSyncDir     Op = "syncdir"
	OpSyncTree    Op = "synctree"
	OpLock        Op = "lock"
	OpRead        Op = "read"
	OpWrite       Op = "write"
	OpSync        Op = "sync" // Sync and Datasync
	OpTruncate    Op = "truncate"
	OpPreallocate Op = "preallocate"
	OpClose       Op = "close"
)

// call is one operation on its way to the file system beneath.
type call struct {
	op     Op
	name   string
	to     string // new name of a rename
	off, n int64  // of a read, write or preallocation; off is -1 where the file knows it;
	// the new size of a truncation is in n
}

// wrapFS calls before ahead of each operation. It may refuse the operation, and lower n of a write
// to let only that many bytes through before it is refused.
type wrapFS struct {
	FS
	before func(*call) error
}

// Unwrap returns the file system beneath.
func (w *wrapFS) Unwrap() FS { return w.FS }

func (w *wrapFS) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	c := call{op: OpOpen, name: name}
	if flag&Create != 0 {
		c.op = OpCreate
	}
	if err := w.before(&c); err != nil {
		return nil, err
	}
	f, err := w.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &wrapFile{File: f, fs: w}, nil
}

func (w *wrapFS) Remove(name string) error {
	if err := w.before(&call{op: OpRemove, name: name}); err != nil {
		return err
	}
	return w.FS.Remove(name)
}

func (w *wrapFS) RemoveAll(name string) error {
	if err := w.before(&call{op: OpRemoveAll, name: name}); err != nil {
		return err
	}
	return w.FS.RemoveAll(name)
}

func (w *wrapFS) Rename(oldname, newname string) error {
	if err := w.before(&call{op: OpRename, name: oldname, to: newname}); err != nil {
		return err
	}
	return w.FS.Rename(oldname, newname)
}

func (w *wrapFS) MkdirAll(name string, perm fs.FileMode) error {
	if err := w.before(&call{op: OpMkdir, name: name}); err != nil {
		return err
	}
	return w.FS.MkdirAll(name, perm)
}

func (w *wrapFS) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := w.before(&call{op: OpReadDir, name: name}); err != nil {
		return nil, err
	}
	return w.FS.ReadDir(name)
}

func (w *wrapFS) Stat(name string) (fs.FileInfo, error) {
	if err := w.before(&call{op: OpStat, name: name}); err != nil {
		return nil, err
	}
	return w.FS.Stat(name)
}

func (w *wrapFS) SyncDir(name string) error {
	if err := w.before(&call{op: OpSyncDir, name: name}); err != nil {
		return err
	}
	return w.FS.SyncDir(name)
}

// SyncTree implements TreeSyncer as the file system beneath does.
func (w *wrapFS) SyncTree(name string) error {
	if err := w.before(&call{op: OpSyncTree, name: name}); err != nil {
		return err
	}
	return SyncTree(w.FS, name)
}

func (w *wrapFS) Lock(name string) (io.Closer, error) {
	if err := w.before(&call{op: OpLock, name: name}); err != nil {
		return nil, err
	}
	return w.FS.Lock(name)
}

// wrapFile does for a file what wrapFS does. It has no SyscallConn on purpose: reads and writes
// behind its back would not be seen.
type wrapFile struct {
	File
	fs *wrapFS
}

func (f *wrapFile) Read(p []byte) (int, error) {
	c := call{op: OpRead, name: f.Name(), off: -1, n: int64(len(p))}
	if err := f.fs.before(&c); err != nil {
		return 0, err
	}
	return f.File.Read(p)
}

func (f *wrapFile) ReadAt(p []byte, off int64) (int, error) {
	c := call{op: OpRead, name: f.Name(), off: off, n: int64(len(p))}
	if err := f.fs.before(&c); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

func (f *wrapFile) Write(p []byte) (int, error) {
	c := call{op: OpWrite, name: f.Name(), off: -1, n: int64(len(p))}
	if err := f.fs.before(&c); err != nil {
		if c.n == 0 {
			return 0, err
		}
		n, werr := f.File.Write(p[:c.n])
		return n, errors.Join(err, werr)
	}
	return f.File.Write(p)
}

func (f *wrapFile) WriteAt(p []byte, off int64) (int, error) {
	c := call{op: OpWrite, name: f.Name(), off: off, n: int64(len(p))}
	if err := f.fs.before(&c); err != nil {
		if c.n == 0 {
			return 0, err
		}
		n, werr := f.File.WriteAt(p[:c.n], off)
		return n, errors.Join(err, werr)
	}
	return f.File.WriteAt(p, off)
}

func (f *wrapFile) Close() error {
	err := f.fs.before(&call{op: OpClose, name: f.Name()})
	return errors.Join(err, f.File.Close())
}

func (f *wrapFile) Sync() error {
	if err := f.fs.before(&call{op: OpSync, name: f.Name()}); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *wrapFile) Datasync() error {
	if err := f.fs.before(&call{op: OpSync, name: f.Name()}); err != nil {
		return err
	}
	return f.File.Datasync()
}

func (f *wrapFile) Truncate(size int64) error {
	if err := f.fs.before(&call{op: OpTruncate, name: f.Name(), n: size}); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

// Preallocate asks the file beneath, if it can.
func (f *wrapFile) Preallocate(off, n int64) error {
	p, ok := f.File.(Preallocator)
	if !ok {
		return errors.ErrUnsupported
	}
	c := call{op: OpPreallocate, name: f.Name(), off: off, n: n}
	if err := f.fs.before(&c); err != nil {
		return err
	}
	return p.Preallocate(off, n)
}
