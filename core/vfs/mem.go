package vfs

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// memFree is what Mem.Free answers: a disk nobody fills in a test. Fault models a full one.
const memFree = 1 << 40

// Mem is a file system in memory that remembers what was synced, so that CrashClone can lose the
// rest. Its root exists and is durable.
type Mem struct {
	mu struct {
		sync.Mutex
		root  *memNode
		locks map[string]bool // lock files held
	}
}

var _ FS = (*Mem)(nil)

// memNode is a file or a directory. Directories are guarded by Mem.mu, files by their own lock.
type memNode struct {
	mode    fs.FileMode // with fs.ModeDir for a directory
	entries map[string]*memNode
	changes []memChange // of entries, since the last SyncDir
	file    memData
}

// memChange is one change of a directory: names unlinked and linked at once.
type memChange struct {
	unlink string // "" = none
	link   string // "" = none
	node   *memNode
	// undo: what the names meant before, nil = not there
	unlinked, replaced *memNode
}

// NewMem returns an empty file system.
func NewMem() *Mem {
	m := &Mem{}
	m.mu.root = newMemDir(0o755)
	m.mu.locks = make(map[string]bool)
	return m
}

func newMemDir(perm fs.FileMode) *memNode {
	return &memNode{mode: perm.Perm() | fs.ModeDir, entries: make(map[string]*memNode)}
}

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// split returns the path's elements below the root; none for the root itself.
func split(name string) []string {
	clean := strings.Trim(filepath.ToSlash(filepath.Clean("/"+name)), "/")
	if clean == "" {
		return nil
	}
	return strings.Split(clean, "/")
}

// findLocked returns the node of a path.
func (m *Mem) findLocked(name string) (*memNode, error) {
	node := m.mu.root
	for _, element := range split(name) {
		if !node.mode.IsDir() {
			return nil, syscall.ENOTDIR
		}
		if node = node.entries[element]; node == nil {
			return nil, fs.ErrNotExist
		}
	}
	return node, nil
}

// parentLocked returns the directory that holds name, and the last element of name.
func (m *Mem) parentLocked(name string) (*memNode, string, error) {
	elements := split(name)
	if len(elements) == 0 {
		return nil, "", fs.ErrInvalid
	}
	last := len(elements) - 1
	dir, err := m.findLocked(strings.Join(elements[:last], "/"))
	if err == nil && !dir.mode.IsDir() {
		err = syscall.ENOTDIR
	}
	return dir, elements[last], err
}

// change applies c to the directory and remembers it until SyncDir.
func (n *memNode) change(c memChange) {
	if c.unlink != "" {
		c.unlinked = n.entries[c.unlink]
		delete(n.entries, c.unlink)
	}
	if c.link != "" {
		c.replaced = n.entries[c.link]
		n.entries[c.link] = c.node
	}
	n.changes = append(n.changes, c)
}

// OpenFile opens or creates a file.
func (m *Mem) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parentLocked(name)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	node := dir.entries[base]
	switch {
	case node == nil && flag&Create == 0:
		return nil, pathError("open", name, fs.ErrNotExist)
	case node == nil:
		node = &memNode{mode: perm.Perm()}
		node.file.mu.modified = time.Now()
		dir.change(memChange{link: base, node: node})
	case flag&(Create|Exclusive) == Create|Exclusive:
		return nil, pathError("open", name, fs.ErrExist)
	case node.mode.IsDir():
		return nil, pathError("open", name, syscall.EISDIR)
	case flag&Truncate != 0:
		node.file.truncate(0)
	}
	return &memFile{name: name, flag: flag, data: &node.file}, nil
}

// Remove removes a file or an empty directory.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parentLocked(name)
	if err != nil {
		return pathError("remove", name, err)
	}
	node := dir.entries[base]
	if node == nil {
		return pathError("remove", name, fs.ErrNotExist)
	}
	if len(node.entries) > 0 {
		return pathError("remove", name, syscall.ENOTEMPTY)
	}
	dir.change(memChange{unlink: base})
	return nil
}

// RemoveAll removes name and everything below.
func (m *Mem) RemoveAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parentLocked(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return pathError("removeall", name, err)
	}
	if node := dir.entries[base]; node != nil {
		node.removeChildren()
		dir.change(memChange{unlink: base})
	}
	return nil
}

// removeChildren empties a directory, so that a crash that keeps the directory may still have lost
// some of its files, as a real one may.
func (n *memNode) removeChildren() {
	for _, name := range sortedNames(n.entries) {
		n.entries[name].removeChildren()
		n.change(memChange{unlink: name})
	}
}

// Rename moves a file or directory.
func (m *Mem) Rename(oldname, newname string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	from, oldBase, err := m.parentLocked(oldname)
	if err != nil {
		return pathError("rename", oldname, err)
	}
	to, newBase, err := m.parentLocked(newname)
	if err != nil {
		return pathError("rename", newname, err)
	}
	node := from.entries[oldBase]
	if node == nil {
		return pathError("rename", oldname, fs.ErrNotExist)
	}
	target := to.entries[newBase]
	switch {
	case target == node:
		return nil
	case target == nil:
	case target.mode.IsDir(), node.mode.IsDir(): // package os refuses an empty one too
		return pathError("rename", newname, fs.ErrExist)
	}
	if from == to {
		from.change(memChange{unlink: oldBase, link: newBase, node: node})
		return nil
	}
	from.change(memChange{unlink: oldBase})
	to.change(memChange{link: newBase, node: node})
	return nil
}

// MkdirAll makes a directory and its parents.
func (m *Mem) MkdirAll(name string, perm fs.FileMode) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	node := m.mu.root
	for _, element := range split(name) {
		next := node.entries[element]
		if next == nil {
			next = newMemDir(perm)
			node.change(memChange{link: element, node: next})
		}
		if node = next; !node.mode.IsDir() {
			return pathError("mkdir", name, syscall.ENOTDIR)
		}
	}
	return nil
}

// ReadDir lists a directory in name order.
func (m *Mem) ReadDir(name string) ([]fs.DirEntry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.findLocked(name)
	if err == nil && !node.mode.IsDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, pathError("readdir", name, err)
	}
	list := make([]fs.DirEntry, 0, len(node.entries))
	for _, base := range sortedNames(node.entries) {
		list = append(list, fs.FileInfoToDirEntry(node.entries[base].info(base)))
	}
	return list, nil
}

// Stat describes a file or directory.
func (m *Mem) Stat(name string) (fs.FileInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.findLocked(name)
	if err != nil {
		return nil, pathError("stat", name, err)
	}
	return node.info(filepath.Base(filepath.Clean(name))), nil
}

// SyncDir makes the directory's names survive CrashClone.
func (m *Mem) SyncDir(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.findLocked(name)
	if err == nil && !node.mode.IsDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return pathError("syncdir", name, err)
	}
	node.changes = nil
	return nil
}

// SyncTree implements TreeSyncer.
func (m *Mem) SyncTree(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	node, err := m.findLocked(name)
	if err != nil {
		return pathError("synctree", name, err)
	}
	node.syncTree()
	return nil
}

func (n *memNode) syncTree() {
	if !n.mode.IsDir() {
		n.file.sync()
		return
	}
	n.changes = nil
	for _, entry := range n.entries {
		entry.syncTree()
	}
}

// Free always answers 1 TiB.
func (m *Mem) Free(string) (uint64, error) { return memFree, nil }

// Total always answers 2 TiB.
func (m *Mem) Total(string) (uint64, error) { return 2 * memFree, nil }

// Lock takes a lock that a CrashClone does not inherit.
func (m *Mem) Lock(name string) (io.Closer, error) {
	f, err := m.OpenFile(name, ReadWrite|Create, 0o644)
	if err != nil {
		return nil, err
	}
	lock, err := m.claim(name, f)
	if err != nil {
		return nil, err
	}
	if err := writePID(f); err != nil {
		return nil, errors.Join(err, lock.Close(), f.Close())
	}
	return lock, nil
}

// claim takes the lock of an open file; if somebody has it, it says who and closes the file.
func (m *Mem) claim(name string, f File) (*memLock, error) {
	key := strings.Join(split(name), "/")
	m.mu.Lock()
	held := m.mu.locks[key]
	m.mu.locks[key] = true
	m.mu.Unlock()
	if held {
		return nil, errors.Join(&LockedError{Name: name, PID: readPID(f)}, f.Close())
	}
	return &memLock{mem: m, key: key}, nil
}

type memLock struct {
	mem *Mem
	key string
}

// Close releases the lock; a second call does nothing.
func (l *memLock) Close() error {
	if l.mem == nil {
		return nil
	}
	l.mem.mu.Lock()
	defer l.mem.mu.Unlock()
	delete(l.mem.mu.locks, l.key)
	l.mem = nil
	return nil
}

func sortedNames(entries map[string]*memNode) []string {
	names := make([]string, 0, len(entries))
	for name := range entries {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
