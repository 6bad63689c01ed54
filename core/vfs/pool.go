package vfs

import (
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
)

// Pool is a file system whose open files need not have a descriptor each: beyond a limit, those
// that were not used of late are closed and opened again when they are needed. To who uses them
// nothing changes: they follow renames, and a file that is removed or replaced stays readable.
//
// What was written to a file and not synced keeps its descriptor, also above the limit: the kernel
// tells of a failed write-back through descriptors that were open at that time.
//
// A file is opened for reading and writing whatever flags it was opened with, so that it must be
// there for both. Renames are followed for files and for the directory they are in, not further up.
type Pool struct {
	FS
	// renaming is held while the files of a rename are locked, so that two never wait for each other.
	renaming sync.Mutex
	mu       struct {
		sync.Mutex
		limit int
		// dirs has all files that can be found by a name: directory, then the name in it.
		dirs map[string]map[string][]*poolFile
		// ring are the files with a descriptor; hand is where eviction goes on.
		ring []*poolFile
		hand int
	}
}

var _ FS = (*Pool)(nil)

// NewPool returns fsys with at most so many descriptors for its files.
func NewPool(fsys FS, limit int) *Pool {
	p := &Pool{FS: fsys}
	p.mu.limit = max(limit, 1)
	p.mu.dirs = make(map[string]map[string][]*poolFile)
	return p
}

// Unwrap returns the file system beneath.
func (p *Pool) Unwrap() FS { return p.FS }

// Open returns how many descriptors there are.
func (p *Pool) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.mu.ring)
}

// OpenFile opens a file. With Append it is not pooled, since its position is the file's end.
func (p *Pool) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	pooled := flag&(ReadOnly|WriteOnly|ReadWrite) == ReadWrite && flag&Append == 0
	if pooled {
		p.makeRoom(evictSteps)
	}
	var f File
	err := p.retry(func() (err error) {
		f, err = p.FS.OpenFile(name, flag, perm)
		return err
	})
	if err != nil || !pooled {
		return f, err
	}
	file := &poolFile{pool: p, name: name, dir: filepath.Dir(name), base: filepath.Base(name)}
	file.set(f)
	file.used.Store(true)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trackLocked(file)
	p.addLocked(file)
	if file.raw != nil {
		return &systemPoolFile{poolFile: file}, nil
	}
	return file, nil
}

func (p *Pool) trackLocked(f *poolFile) {
	names := p.mu.dirs[f.dir]
	if names == nil {
		names = make(map[string][]*poolFile)
		p.mu.dirs[f.dir] = names
	}
	names[f.base] = append(names[f.base], f)
	f.tracked = true
}

func (p *Pool) untrackLocked(f *poolFile) {
	if !f.tracked {
		return
	}
	f.tracked = false
	names := p.mu.dirs[f.dir]
	left := slices.DeleteFunc(names[f.base], func(o *poolFile) bool { return o == f })
	if len(left) > 0 {
		names[f.base] = left
		return
	}
	delete(names, f.base)
	if len(names) == 0 {
		delete(p.mu.dirs, f.dir)
	}
}

// evictSteps bounds how many files are looked at when one more is opened: where all are in use or
// written to, the limit is passed rather than each opening made slow.
const evictSteps = 64

// makeRoom closes idle files until one more may be opened, looking at so many, or at all twice if
// steps is negative; then it closes one even below the limit. It reports whether it closed any.
func (p *Pool) makeRoom(steps int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	closed, forced := false, steps < 0
	if forced {
		steps = 2 * len(p.mu.ring)
	}
	for ; steps > 0 && len(p.mu.ring) > 0; steps-- {
		if !forced && len(p.mu.ring) < p.mu.limit || forced && closed {
			break
		}
		if p.mu.hand >= len(p.mu.ring) {
			p.mu.hand = 0
		}
		if f := p.mu.ring[p.mu.hand]; f.evict() {
			p.dropLocked(f)
			closed = true
		} else {
			p.mu.hand++
		}
	}
	return closed
}

func (p *Pool) addLocked(f *poolFile) {
	f.slot = len(p.mu.ring)
	p.mu.ring = append(p.mu.ring, f)
}

func (p *Pool) dropLocked(f *poolFile) {
	last := len(p.mu.ring) - 1
	p.mu.ring[f.slot] = p.mu.ring[last]
	p.mu.ring[f.slot].slot = f.slot
	p.mu.ring[last] = nil
	p.mu.ring = p.mu.ring[:last]
}

// retry runs an opening again, where the process has no descriptor left but one of an idle file.
func (p *Pool) retry(open func() error) error {
	for {
		err := open()
		if !FileLimit(err) || !p.makeRoom(-1) {
			return err
		}
	}
}

// named returns the files of that name, or in the directory of that name.
func (p *Pool) named(name string) []*poolFile {
	p.mu.Lock()
	defer p.mu.Unlock()
	files := slices.Clone(p.mu.dirs[filepath.Dir(name)][filepath.Base(name)])
	for _, in := range p.mu.dirs[filepath.Clean(name)] {
		files = append(files, in...)
	}
	return files
}

// Rename renames what is on the disk and the open files with it. Those that the new name takes the
// place of keep what they have.
func (p *Pool) Rename(oldname, newname string) error {
	if err := p.keep(newname); err != nil {
		return err
	}
	moved := p.named(oldname)
	p.renaming.Lock()
	for _, f := range moved {
		f.mu.Lock() // nobody opens it by the old name from here on
	}
	p.renaming.Unlock()
	err := p.FS.Rename(oldname, newname)
	p.mu.Lock()
	for _, f := range moved {
		if err == nil && f.tracked {
			p.untrackLocked(f)
			if filepath.Clean(oldname) == f.dir {
				f.dir = filepath.Clean(newname)
			} else {
				f.dir, f.base = filepath.Dir(newname), filepath.Base(newname)
			}
			p.trackLocked(f)
		}
	}
	p.mu.Unlock()
	for _, f := range moved {
		f.mu.Unlock()
	}
	return err
}

// Remove removes a file; who has it open keeps it.
func (p *Pool) Remove(name string) error {
	if err := p.keep(name); err != nil {
		return err
	}
	return p.FS.Remove(name)
}

// RemoveAll removes name and what is below; who has a file open keeps it.
func (p *Pool) RemoveAll(name string) error {
	if err := p.keep(name); err != nil {
		return err
	}
	return p.FS.RemoveAll(name)
}

// keep makes the files of a name independent of it: they get a descriptor until they are closed.
func (p *Pool) keep(name string) error {
	for _, f := range p.named(name) {
		if err := f.pin(); err != nil {
			return err
		}
		p.mu.Lock()
		p.untrackLocked(f)
		p.mu.Unlock()
	}
	return nil
}

// ReadDir lists a directory.
func (p *Pool) ReadDir(name string) (list []fs.DirEntry, err error) {
	err = p.retry(func() error {
		list, err = p.FS.ReadDir(name)
		return err
	})
	return list, err
}

// SyncDir makes the names in a directory durable. Its descriptor is new, so that a failed sync is
// not tried again: only one that could not be begun is.
func (p *Pool) SyncDir(name string) error {
	return p.retry(func() error { return p.FS.SyncDir(name) })
}

// SyncTree syncs as the file system beneath does.
func (p *Pool) SyncTree(name string) error {
	p.mu.Lock()
	var dirty []*poolFile
	for _, f := range p.mu.ring {
		if f.isBelow(name) && f.dirty.Swap(false) {
			dirty = append(dirty, f)
		}
	}
	p.mu.Unlock()
	err := p.retry(func() error { return SyncTree(p.FS, name) })
	if err != nil {
		for _, f := range dirty {
			f.dirty.Store(true)
		}
	}
	return err
}

// holdLock is HoldLock on the file system beneath.
func (p *Pool) holdLock(name string) (io.Closer, error) { return HoldLock(p.FS, name) }

// Total implements Sizer as the file system beneath does.
func (p *Pool) Total(name string) (uint64, error) { return Total(p.FS, name) }
