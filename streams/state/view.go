package state

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	bolt "go.etcd.io/bbolt"
)

// Reader lets other goroutines than that of the task look at the committed rows in its file. What a
// task has changed and not committed is in no file, so nobody can see it here.
type Reader struct{ f *file }

// Reader returns the reader of the file; nil for a state that is kept in memory only.
func (db *DB) Reader() *Reader {
	if db.file == nil {
		return nil
	}
	return &Reader{db.file}
}

// OpenClosed opens the file of a task that does not run, for looking at it only. It fails with
// ErrLocked when somebody has it, and with ErrClosed when there is none that was closed in order.
// The caller calls end, without which the task cannot run.
func OpenClosed(path string) (r *Reader, end func() error, err error) {
	if _, err := os.Stat(path); err != nil || torn(path, "") {
		return nil, nil, fmt.Errorf("look at state file %s: %w", path, ErrClosed)
	}
	lock, err := takeLock(path + ".lock")
	if err != nil {
		return nil, nil, err
	}
	f := &file{path: path, lock: lock}
	err = f.guard(func() (err error) {
		f.db, err = bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
		return err
	})
	if err != nil {
		err = errors.Join(fmt.Errorf("look at state file %s: %w", path, err), lock.Close())
		return nil, nil, err
	}
	return &Reader{f}, func() error { return f.close(false) }, nil
}

// View is the file at one commit: rows and Meta belong together. Slices are valid as long as it is.
type View struct {
	// Meta is what the rows are a prefix of: of the changelog, up to Meta.Next.
	Meta Meta
	tx   *bolt.Tx
	f    *file
}

// View calls fn with what is in the file now. The task goes on meanwhile, but cannot close the file
// nor make it longer, so fn must be short. It fails with ErrClosed when the task has let go of the
// file.
func (r *Reader) View(fn func(*View) error) error {
	r.f.views.RLock()
	defer r.f.views.RUnlock()
	if r.f.closed {
		return ErrClosed
	}
	return r.f.db.View(func(tx *bolt.Tx) error {
		v, err := viewOf(r.f, tx)
		if err != nil {
			return err
		}
		return cmp.Or(fn(v), r.f.sick())
	})
}

func viewOf(f *file, tx *bolt.Tx) (*View, error) {
	v := &View{tx: tx, f: f}
	err := f.guard(func() error {
		b := tx.Bucket(metaBucket)
		if b == nil {
			return nil
		}
		if next := b.Get(keyNext); len(next) == 8 {
			v.Meta.Next = int64(binary.BigEndian.Uint64(next))
		}
		v.Meta.Commit = bytes.Clone(b.Get(keyCommit))
		return f.checkMeta(tx, b)
	})
	return v, err
}

// Bucket names rows: those of a store, or of one window.
type Bucket struct {
	Name     string
	Windowed bool
	// Start of the window.
	Start int64
}

func (b Bucket) id() bucketID {
	return bucketID{name: b.Name, windowed: b.Windowed, start: b.Start}
}

// Get returns the value of a row.
func (v *View) Get(b Bucket, key []byte) (value []byte, ok bool) {
	err := v.f.guard(func() (err error) {
		fb := find(v.tx, b.id())
		if fb == nil {
			return nil
		}
		if value = fb.Get(appendFileKey(nil, key)); value != nil {
			ok = true
			value, err = v.f.unseal(b.id().seed(), key, value)
		}
		return err
	})
	return value, ok && err == nil // Reader.View tells of damage
}

// Scan calls fn for every row with a key of at least from, in key order, until fn gives an error;
// ErrStop ends it without one.
func (v *View) Scan(b Bucket, from []byte, fn func(key, value []byte) error) error {
	c := cursor{f: v.f, seed: b.id().seed()}
	err := v.f.guard(func() error {
		if fb := find(v.tx, b.id()); fb != nil {
			c.c = fb.Cursor()
		}
		return nil
	})
	if err != nil {
		return err
	}
	for key, value := c.seek(from); key != nil; key, value = c.next() {
		if err := fn(key, value); err != nil {
			if errors.Is(err, ErrStop) {
				return nil
			}
			return err
		}
	}
	return v.f.sick()
}

// Buckets calls fn with every bucket of a name, windows by their start, from the given start on.
func (v *View) Buckets(name string, from int64, fn func(Bucket) error) error {
	var starts []int64
	plain := false
	err := v.f.guard(func() error {
		if plain = v.tx.Bucket([]byte("k/"+name)) != nil; plain {
			return nil
		}
		parent := v.tx.Bucket([]byte("w/" + name))
		if parent == nil {
			return nil
		}
		c := parent.Cursor()
		for key, _ := c.Seek(appendStart(nil, from)); len(key) == 8; key, _ = c.Next() {
			starts = append(starts, parseStart(key))
		}
		return nil
	})
	if err == nil && plain {
		return stopped(fn(Bucket{Name: name}))
	}
	for _, start := range starts {
		if err != nil {
			break
		}
		err = fn(Bucket{Name: name, Windowed: true, Start: start})
	}
	return stopped(err)
}

func stopped(err error) error {
	if errors.Is(err, ErrStop) {
		return nil
	}
	return err
}

// Rows calls fn with every row, as the changelog has it: in the order of stores, windows and keys.
func (v *View) Rows(fn func(key, value []byte) error) error {
	var names []string
	err := v.f.guard(func() error {
		return v.tx.ForEach(func(name []byte, _ *bolt.Bucket) error {
			if kind, store, ok := strings.Cut(string(name), "/"); ok && (kind == "k" || kind == "w") {
				names = append(names, store)
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	for _, name := range names {
		err := v.Buckets(name, -1<<63, func(b Bucket) error {
			prefix := b.id().appendPrefix(nil)
			return v.Scan(b, nil, func(key, value []byte) error {
				return fn(append(prefix[:len(prefix):len(prefix)], key...), value)
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Size is the bytes of the file that rows take, beside pages that are free.
func (v *View) Size() int64 { return v.tx.Size() }

// Snapshot is a copy of a file at one commit.
type Snapshot struct {
	*View
	db   *bolt.DB
	path string
}

// Snapshot copies the file, as it is at one commit, to a file of its own beside it, for what takes
// longer than a View may. Close removes it.
func (r *Reader) Snapshot() (_ *Snapshot, err error) {
	s := &Snapshot{}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("copy state: %w", err), s.Close())
		}
	}()
	to, err := os.CreateTemp(filepath.Dir(r.f.path), filepath.Base(r.f.path)+copySuffix+"*")
	if err != nil {
		return s, err
	}
	s.path = to.Name()
	err = r.copyTo(to)
	if err = errors.Join(err, to.Close()); err != nil {
		return s, err
	}
	f := &file{path: s.path}
	if err = f.guard(func() (err error) {
		s.db, err = bolt.Open(s.path, 0o600, &bolt.Options{ReadOnly: true})
		return err
	}); err != nil {
		return s, err
	}
	tx, err := s.db.Begin(false)
	if err != nil {
		return s, err
	}
	s.View, err = viewOf(f, tx)
	return s, err
}

// copySuffix is in the names of copies; those a dead process left are removed at open.
const copySuffix = ".copy-"

func (r *Reader) copyTo(w io.Writer) error {
	r.f.views.RLock()
	defer r.f.views.RUnlock()
	if r.f.closed {
		return ErrClosed
	}
	return r.f.db.View(func(tx *bolt.Tx) error {
		_, err := tx.WriteTo(w)
		return err
	})
}

// Close removes the copy.
func (s *Snapshot) Close() error {
	var errs []error
	if s.View != nil {
		errs = append(errs, s.tx.Rollback())
	}
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	if s.path != "" {
		errs = append(errs, os.Remove(s.path))
	}
	return errors.Join(errs...)
}

// removeCopies removes what a process that died while it copied has left.
func removeCopies(path string) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return // openFile tells what is wrong with the folder
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), filepath.Base(path)+copySuffix) {
			_ = os.Remove(filepath.Join(filepath.Dir(path), e.Name())) // only room is lost
		}
	}
}
