package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"syscall"
)

// Flags of FS.OpenFile, with the meaning and values of package os.
const (
	ReadOnly  = flagReadOnly
	WriteOnly = flagWriteOnly
	ReadWrite = flagReadWrite
	Append    = flagAppend
	Create    = flagCreate
	Exclusive = flagExclusive
	Truncate  = flagTruncate
)

// FS is a file system. Names are paths of the host's form. Errors are *fs.PathError or
// *os.LinkError and answer errors.Is for fs.ErrNotExist, fs.ErrExist and the like.
type FS interface {
	// OpenFile opens a file as os.OpenFile does.
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	// Remove removes a file or an empty directory.
	Remove(name string) error
	// RemoveAll removes name and what is below it; a name that is not there is no error.
	RemoveAll(name string) error
	// Rename atomically gives a file or directory a new name, replacing a file of that name.
	Rename(oldname, newname string) error
	// MkdirAll makes a directory and its missing parents.
	MkdirAll(name string, perm fs.FileMode) error
	// ReadDir lists a directory in name order.
	ReadDir(name string) ([]fs.DirEntry, error)
	// Stat describes a file or directory.
	Stat(name string) (fs.FileInfo, error)
	// SyncDir makes the names in a directory durable: creations, renames and removals.
	SyncDir(name string) error
	// Lock takes the file as an exclusive lock of this process and writes the process id into it.
	// If another holder has it, also one in this process, the error is a *LockedError.
	Lock(name string) (io.Closer, error)
	// Free returns the bytes that can still be written on the file system of name.
	Free(name string) (uint64, error)
}

// File is an open file. On OS files, SyscallConn (for sendfile) and Preallocate are there too.
type File interface {
	io.Reader
	io.ReaderAt
	io.Writer
	io.WriterAt
	io.Closer
	// Sync makes bytes and metadata durable. After an error the state of the bytes is unknown and
	// a second call proves nothing: the caller must give the file up.
	Sync() error
	// Datasync is Sync without the metadata that reading back does not need, such as times.
	Datasync() error
	// Truncate changes the size in bytes; growing adds zeros.
	Truncate(size int64) error
	// Size returns the size in bytes.
	Size() (int64, error)
	// Name returns the name the file was opened by.
	Name() string
}

// Preallocator is implemented by files that can reserve space.
type Preallocator interface {
	// Preallocate reserves disk space for bytes [off, off+n) without changing the file's size. The
	// error answers errors.Is(err, errors.ErrUnsupported) where that cannot be done.
	Preallocate(off, n int64) error
}

// Sizer is implemented by file systems that know how large they are.
type Sizer interface {
	// Total returns the size in bytes of the file system of name.
	Total(name string) (uint64, error)
}

// Total returns the size in bytes of the file system of name. The error answers errors.Is(err,
// errors.ErrUnsupported) where that is not known.
func Total(fsys FS, name string) (uint64, error) {
	if s, ok := fsys.(Sizer); ok {
		return s.Total(name)
	}
	return 0, fmt.Errorf("size of the file system of %s: %w", name, errors.ErrUnsupported)
}

// ErrUnsynced is in the errors of WriteFileAtomic that came from a sync, whatever that failed of:
// what is on the disk is not known, and the disk should not be trusted with more.
var ErrUnsynced = errors.New("sync failed")

// ErrLocked is what every *LockedError is.
var ErrLocked = errors.New("locked by another process")

// LockedError says that a lock file is held.
type LockedError struct {
	Name string // the lock file
	PID  int    // process id of the holder, 0 if it cannot be read
}

// Error names the file and the holder.
func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("lock %s: in use by another process", e.Name)
	}
	return fmt.Sprintf("lock %s: in use by process %d", e.Name, e.PID)
}

// Is makes errors.Is(err, ErrLocked) true.
func (e *LockedError) Is(target error) bool { return target == ErrLocked }

// ReadFile returns the content of a file.
func ReadFile(fsys FS, name string) (data []byte, err error) {
	f, err := fsys.OpenFile(name, ReadOnly, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	data = make([]byte, size)
	n, err := io.ReadFull(f, data)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = nil // it shrank meanwhile
	}
	return data[:n], err
}

// WriteFileAtomic replaces the content of a file so that a crash leaves the old or the new content,
// whole: it writes name.tmp, syncs it, renames it and syncs the directory.
func WriteFileAtomic(fsys FS, name string, data []byte, perm fs.FileMode) error {
	tmp := name + ".tmp"
	if err := writeSynced(fsys, tmp, data, perm); err != nil {
		_ = fsys.Remove(tmp) // of no use to anyone; the next call truncates it anyway
		return err
	}
	if err := fsys.Rename(tmp, name); err != nil {
		return err
	}
	err := fsys.SyncDir(filepath.Dir(name))
	if err != nil && !FileLimit(err) {
		err = fmt.Errorf("%w: %w", ErrUnsynced, err)
	}
	return err
}

func writeSynced(fsys FS, name string, data []byte, perm fs.FileMode) error {
	f, err := fsys.OpenFile(name, WriteOnly|Create|Truncate, perm)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Sync(); err != nil {
		return errors.Join(fmt.Errorf("%w: %w", ErrUnsynced, err), f.Close())
	}
	return f.Close()
}

// FileLimit reports whether err says that the process or the machine has no descriptor left for
// another open file. Nothing has happened to any file then.
func FileLimit(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// TreeSyncer is implemented by file systems that can sync all that is below a directory at once,
// which for many files costs far less than a sync of each.
type TreeSyncer interface {
	// SyncTree makes all bytes and names below the directory durable. The error answers
	// errors.Is(err, errors.ErrUnsupported) where that cannot be done; nothing has happened then.
	SyncTree(name string) error
}

// SyncTree is fsys.SyncTree, where fsys can do that.
func SyncTree(fsys FS, name string) error {
	if s, ok := fsys.(TreeSyncer); ok {
		return s.SyncTree(name)
	}
	return fmt.Errorf("sync everything below %s: %w", name, errors.ErrUnsupported)
}
