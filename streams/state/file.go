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
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// storeFormat is the layout of the file. A build puts a file of an older one aside and restores
// from the changelog; it refuses one of a newer format.
const storeFormat = "2"

// olderFormats are those of earlier builds: 1 had no checksums.
var olderFormats = []string{"1"}

// metaBucket and its keys.
var (
	metaBucket     = []byte("meta")
	keyNext        = []byte("changelog-next")
	keyCommit      = []byte("commit")
	keyFormat      = []byte("format")
	keyTask        = []byte("task")
	keyFingerprint = []byte("fingerprint")
	keyChangelog   = []byte("changelog")
	keySum         = []byte("sum")
)

// file is the bbolt side of a DB. It keeps one read transaction open between writes, because
// opening one per read costs more than the read; a write closes it first, so that freed pages can
// be used again and the memory map can grow.
type file struct {
	path string
	lock io.Closer
	boot string
	db   *bolt.DB
	tx   *bolt.Tx // current read transaction, nil when none
	meta Meta     // as found at open

	fresh bool // it was made by this open
	// damage is what was found to be wrong with the file: nothing read from it counts any more.
	damage atomic.Pointer[error]
	// views is held for reading by Readers of other goroutines, and for writing to set closed.
	views  sync.RWMutex
	closed bool
	// sizes are what the stores take, for those who ask.
	sizes sizes
}

// openFile opens, checks and locks the file.
func openFile(opts Options) (_ *file, err error) {
	if err := os.MkdirAll(filepath.Dir(opts.Path), 0o755); err != nil {
		return nil, fmt.Errorf("make state folder: %w", err)
	}
	lock, err := takeLock(opts.Path + ".lock")
	if err != nil {
		return nil, err
	}
	f := &file{path: opts.Path, lock: lock, boot: opts.BootID}
	removeCopies(opts.Path)
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close(false))
		}
	}()
	if torn(opts.Path, opts.BootID) {
		opts.Logger.Warn("state file was open when the machine stopped; restoring from changelog",
			"path", opts.Path, "kept as", opts.Path+asideSuffix)
		if err := setAside(opts.Path); err != nil {
			return nil, err
		}
	}
	if err = f.openBolt(); err == nil {
		err = f.identify(opts.Identity)
	}
	if errors.Is(err, ErrDamaged) || errors.Is(err, errOlder) {
		err = f.reopen(opts, err)
	}
	if err != nil {
		return nil, err
	}
	if err := writeBoot(opts.Path, opts.BootID, bootOpen); err != nil {
		return nil, err
	}
	return f, nil
}

// openBolt opens the file. Its list of free pages is written with each flush, a few bytes a page,
// so that an open after a kill need not look at every page.
func (f *file) openBolt() error {
	info, err := os.Stat(f.path)
	f.fresh = errors.Is(err, os.ErrNotExist) || err == nil && info.Size() == 0
	err = f.guard(func() (err error) {
		f.db, err = bolt.Open(f.path, 0o644, &bolt.Options{
			Timeout:         time.Second, // our own lock is held; this only guards against a bug
			NoSync:          true,
			NoGrowSync:      true,
			FreelistType:    bolt.FreelistMapType,
			InitialMmapSize: 64 << 20,
		})
		return err
	})
	if errors.Is(err, bolterrors.ErrInvalid) || errors.Is(err, bolterrors.ErrChecksum) ||
		errors.Is(err, bolterrors.ErrVersionMismatch) {
		return f.damaged(err.Error())
	}
	return err
}

// checkLength refuses a file that is shorter than its pages.
func (f *file) checkLength(tx *bolt.Tx) error {
	info, err := os.Stat(f.path)
	if err != nil {
		return fmt.Errorf("look at state file: %w", err)
	}
	if info.Size() < tx.Size() {
		return f.damaged(fmt.Sprintf("it has %d of its %d bytes", info.Size(), tx.Size()))
	}
	return nil
}

// asideSuffix is in the name of a file that was put aside.
const asideSuffix = ".torn"

// setAside renames a file that must not be used. The last such file is kept for inspection.
func setAside(path string) error {
	err := os.Rename(path, path+asideSuffix)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("set state file aside: %w", err)
	}
	return nil
}

// identify checks the identity of a file or gives it to a new one, and reads its meta.
func (f *file) identify(want Identity) error {
	return f.update(func(tx *bolt.Tx) error {
		b := tx.Bucket(metaBucket)
		fields := []struct {
			key        []byte
			name, want string
		}{
			{keyFormat, "store format", storeFormat},
			{keyTask, "task", want.Task},
			{keyFingerprint, "topology fingerprint", want.Fingerprint},
			{keyChangelog, "changelog topic id", want.Changelog},
		}
		if b == nil && !f.fresh {
			return f.damaged("it does not say whose it is")
		}
		if b == nil {
			b, err := tx.CreateBucket(metaBucket)
			if err != nil {
				return err
			}
			for _, field := range fields {
				if err := b.Put(field.key, []byte(field.want)); err != nil {
					return err
				}
			}
			return sealMeta(b)
		}
		if slices.Contains(olderFormats, string(b.Get(keyFormat))) {
			return fmt.Errorf("open state file %s: %w", f.path, errOlder)
		}
		if err := f.checkMeta(tx, b); err != nil {
			return err
		}
		for _, field := range fields {
			if have := string(b.Get(field.key)); have != field.want {
				return fmt.Errorf("open state file %s: %s is %q, this run has %q: %w; nothing was"+
					" changed: run the version that wrote it, or remove the file to restore"+
					" from the changelog", f.path, field.name, have, field.want, ErrMismatch)
			}
		}
		if next := b.Get(keyNext); len(next) == 8 {
			f.meta.Next = int64(binary.BigEndian.Uint64(next))
		}
		f.meta.Commit = bytes.Clone(b.Get(keyCommit))
		return nil
	})
}

// close lets go of the file; clean says that all committed rows are in it and that it may be
// trusted after a power loss, for which it is synced.
func (f *file) close(clean bool) error {
	var errs []error
	f.views.Lock()
	f.closed = true
	f.views.Unlock()
	f.sizes.wg.Wait()
	if f.db != nil {
		f.endRead()
		if clean {
			errs = append(errs, f.db.Sync())
		}
		errs = append(errs, f.db.Close())
		if clean && errors.Join(errs...) == nil {
			errs = append(errs, writeBoot(f.path, f.boot, bootClean))
		}
	}
	errs = append(errs, f.lock.Close())
	return errors.Join(errs...)
}

// update is one writing transaction.
func (f *file) update(fn func(tx *bolt.Tx) error) error {
	return f.guard(func() error { return f.db.Update(fn) })
}

// read returns the current read transaction.
func (f *file) read() (*bolt.Tx, error) {
	if f.tx == nil {
		tx, err := f.db.Begin(false)
		if err != nil {
			return nil, fmt.Errorf("read state file %s: %w", f.path, err)
		}
		f.tx = tx
	}
	return f.tx, nil
}

func (f *file) endRead() {
	if f.tx != nil {
		_ = f.tx.Rollback() // a read transaction has nothing to lose
		f.tx = nil
	}
}

// find returns the bucket in tx, nil when it is not there.
func find(tx *bolt.Tx, id bucketID) *bolt.Bucket {
	if !id.windowed {
		return tx.Bucket([]byte("k/" + id.name))
	}
	b := tx.Bucket([]byte("w/" + id.name))
	if b == nil {
		return nil
	}
	return b.Bucket(appendStart(nil, id.start))
}

// exists reports whether the file has the bucket.
func (f *file) exists(id bucketID) bool {
	found := false
	_ = f.guard(func() error { // what is damaged stays so, and the commit tells
		tx, err := f.read()
		found = err == nil && find(tx, id) != nil
		return err
	})
	return found
}

// names lists the buckets that start with prefix, without it.
func (f *file) names(prefix string) []string {
	var names []string
	_ = f.guard(func() error { // as in exists
		tx, err := f.read()
		if err != nil {
			return err
		}
		return tx.ForEach(func(name []byte, _ *bolt.Bucket) error {
			if rest, ok := strings.CutPrefix(string(name), prefix); ok {
				names = append(names, rest)
			}
			return nil
		})
	})
	return names
}

// windowStarts lists the windows of a name that are in the file.
func (f *file) windowStarts(name string) []int64 {
	var starts []int64
	_ = f.guard(func() error { // as in exists
		tx, err := f.read()
		if err != nil {
			return err
		}
		b := tx.Bucket([]byte("w/" + name))
		if b == nil {
			return nil
		}
		return b.ForEachBucket(func(k []byte) error {
			if len(k) == 8 {
				starts = append(starts, parseStart(k))
			}
			return nil
		})
	})
	return starts
}

// fileGet reads one row; the value is valid until the next write.
func (db *DB) fileGet(b *bucket, key []byte) (value []byte, ok bool, err error) {
	if db.file == nil || b.dropDirty {
		return nil, false, nil
	}
	err = db.file.guard(func() error {
		tx, err := db.file.read()
		if err != nil {
			return err
		}
		fb := find(tx, b.id)
		if fb == nil {
			return nil
		}
		db.keyBuf = appendFileKey(db.keyBuf[:0], key)
		if value = fb.Get(db.keyBuf); value != nil {
			ok = true
			value, err = db.file.unseal(b.seed, db.keyBuf[1:], value)
		}
		return err
	})
	return value, ok && err == nil, err
}

// fileKeyMark starts each row key in the file, because bbolt has no empty keys.
const fileKeyMark = 'r'

func appendFileKey[K []byte | string](dst []byte, key K) []byte {
	return append(append(dst, fileKeyMark), key...)
}

// cursor walks one bucket of the file; a zero cursor is at its end. Where the file is damaged a
// walk ends too: its caller asks file.sick.
type cursor struct {
	c    *bolt.Cursor
	f    *file
	seed uint32 // of the bucket's checksums
}

// seek goes to the first key >= from; a nil key says that there is none.
func (c cursor) seek(from []byte) (key, value []byte) {
	if c.c == nil {
		return nil, nil
	}
	return c.move(func() ([]byte, []byte) { return c.c.Seek(appendFileKey(nil, from)) })
}

func (c cursor) next() (key, value []byte) { return c.move(c.c.Next) }

func (c cursor) move(to func() (key, value []byte)) (key, value []byte) {
	err := c.f.guard(func() (err error) {
		if key, value = to(); key != nil {
			key = key[1:]
			value, err = c.f.unseal(c.seed, key, value)
		}
		return err
	})
	if err != nil {
		return nil, nil
	}
	return key, value
}

// fileCursor returns a cursor over the bucket's rows in the file.
func (db *DB) fileCursor(b *bucket) (cursor, error) {
	if db.file == nil || !b.onDisk || b.dropDirty {
		return cursor{}, nil
	}
	c := cursor{f: db.file, seed: b.seed}
	err := db.file.guard(func() error {
		tx, err := db.file.read()
		if err != nil {
			return err
		}
		if fb := find(tx, b.id); fb != nil {
			c.c = fb.Cursor()
		}
		return nil
	})
	return c, err
}

// write puts all of L1 and the meta into one transaction.
func (f *file) write(db *DB) error {
	f.endRead()
	slices.SortFunc(db.dirty, func(x, y *bucket) int { return compareBuckets(x.id, y.id) })
	return f.update(func(tx *bolt.Tx) error {
		var sealed sealer
		for _, b := range db.dirtyDrops {
			if err := dropBucket(tx, b.id); err != nil {
				return err
			}
		}
		for _, b := range db.dirty {
			slices.SortFunc(b.dirty, b.byKey)
			if err := b.write(tx, &sealed); err != nil {
				return err
			}
		}
		return writeMeta(tx, db.meta)
	})
}

func compareBuckets(x, y bucketID) int {
	return cmp.Or(strings.Compare(x.name, y.name), cmp.Compare(b2i(x.windowed), b2i(y.windowed)),
		cmp.Compare(x.start, y.start))
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// write writes the dirty rows of a bucket, which are sorted.
func (b *bucket) write(tx *bolt.Tx, sealed *sealer) error {
	fb := find(tx, b.id)
	var key []byte // bbolt copies keys
	for _, n := range b.dirty {
		r := b.row(n)
		key = appendFileKey(key[:0], b.bytes(r.key))
		if r.absent {
			if fb != nil {
				if err := fb.Delete(key); err != nil {
					return err
				}
			}
			continue
		}
		if fb == nil {
			var err error
			if fb, err = makeBucket(tx, b.id); err != nil {
				return err
			}
		}
		fb.FillPercent = 0.9 // rows come sorted
		if err := fb.Put(key, sealed.seal(b.seed, key[1:], b.bytes(r.val))); err != nil {
			return fmt.Errorf("write row of %d-byte key to %s: %w", len(key)-1, b.id.name, err)
		}
	}
	return nil
}

func makeBucket(tx *bolt.Tx, id bucketID) (*bolt.Bucket, error) {
	if !id.windowed {
		return tx.CreateBucketIfNotExists([]byte("k/" + id.name))
	}
	parent, err := tx.CreateBucketIfNotExists([]byte("w/" + id.name))
	if err != nil {
		return nil, err
	}
	return parent.CreateBucketIfNotExists(appendStart(nil, id.start))
}

func dropBucket(tx *bolt.Tx, id bucketID) error {
	parent := tx.Bucket([]byte("w/" + id.name))
	if parent == nil || parent.Bucket(appendStart(nil, id.start)) == nil {
		return nil
	}
	return parent.DeleteBucket(appendStart(nil, id.start))
}

// writeMeta writes what the rows of this transaction are a prefix of.
func writeMeta(tx *bolt.Tx, meta Meta) error {
	b := tx.Bucket(metaBucket)
	if err := b.Put(keyNext, binary.BigEndian.AppendUint64(nil, uint64(meta.Next))); err != nil {
		return err
	}
	err := b.Delete(keyCommit)
	if meta.Commit != nil {
		err = b.Put(keyCommit, meta.Commit)
	}
	return errors.Join(err, sealMeta(b))
}
