package state

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"
)

// rowOverhead is the memory a row costs beside its key and value, for the byte bounds.
const rowOverhead = 96

// Identity says whose rows a file holds. Every field must match when the file is opened again.
type Identity struct {
	// Task is the application, sub-topology and partition.
	Task string
	// Fingerprint changes whenever the topology would read the rows differently.
	Fingerprint string
	// Changelog is the topic id of the changelog, which changes when the topic is recreated.
	Changelog string
}

// Options configure Open. The zero value of every field but Path works.
type Options struct {
	// Path is the bbolt file, with ".lock" and ".boot" beside it; missing folders are made.
	// Empty keeps all rows in memory only.
	Path string
	// Identity must be what it was when the file was made.
	Identity Identity
	// FlushBytes of committed rows not in the file force a flush; 0 is 32 MiB, or half of what the
	// budget has for them where that is more.
	FlushBytes int64
	// FlushInterval is the longest time a committed row waits for the file; 0 is 5 s.
	FlushInterval time.Duration
	// CacheBytes bounds the clean rows kept in memory after a flush; 0 is 64 MiB, or what the budget
	// has for them.
	CacheBytes int64
	// Budget bounds what all states of the process take together; nil bounds each by itself.
	Budget *Budget
	// BootID overrides the machine's boot id, for tests.
	BootID string
	// Logger hears of files that were put aside; nil is silent.
	Logger *slog.Logger

	// flushShare: FlushBytes is no more than a least value.
	flushShare bool
}

func (o Options) withDefaults() Options {
	o.flushShare = o.Budget != nil && o.FlushBytes == 0
	if o.FlushBytes == 0 {
		o.FlushBytes = 32 << 20
	}
	if o.FlushInterval == 0 {
		o.FlushInterval = 5 * time.Second
	}
	if o.CacheBytes == 0 && o.Budget != nil {
		o.CacheBytes = o.Budget.limit
	} else if o.CacheBytes == 0 {
		o.CacheBytes = 64 << 20
	}
	if o.BootID == "" {
		o.BootID = machineBootID()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func (o Options) validate() error {
	if o.FlushBytes < 0 || o.FlushInterval < 0 || o.CacheBytes < 0 {
		return errors.New("state options: sizes and intervals must not be negative")
	}
	return nil
}

// Meta is what a commit says beside its rows.
type Meta struct {
	// Next is the changelog offset after the last record the rows contain.
	Next int64
	// Commit is the task's own commit record (input offsets, snapshot, output positions). Nil
	// means that a restore has not reached the end of a commit yet.
	Commit []byte
}

// DB is the state of one task. It is used by one goroutine.
type DB struct {
	opts   Options
	file   *file // nil keeps everything in memory
	closed bool

	stores  map[string]*bucket
	windows map[string]*windows

	// pending are the buckets with rows of L0, in the order of their first change.
	pending      []*bucket
	pendingBytes int64
	// dropped are the buckets dropped since the last commit.
	dropped []*bucket
	// dirty are the buckets with rows of L1, dirtyDrops those dropped since the last flush.
	dirty      []*bucket
	dirtyBytes int64
	dirtyDrops []*bucket
	cacheBytes int64
	evicted    int64 // rows that shrink has forgotten
	accounted  int64 // bytes the budget knows of

	meta      Meta
	metaDirty bool
	lastFlush time.Time
	gen       uint32
	keyBuf    []byte
	// lastBucket is the store of the last changelog key, lastPrefix the prefix of its keys.
	lastBucket *bucket
	lastPrefix []byte
}

var _ Stores = (*DB)(nil)

// Open opens or makes the state of a task. It fails with ErrLocked when another process has the
// file and with ErrMismatch when the file belongs to something else. A file that may be torn (power
// loss) or is damaged is renamed to <path>.torn and an empty one takes its place: the caller
// restores from the changelog, as Meta says.
func Open(opts Options) (*DB, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	db := &DB{opts: opts, stores: map[string]*bucket{}, windows: map[string]*windows{}, gen: 1}
	if opts.Path == "" {
		return db, nil
	}
	f, err := openFile(opts)
	if err != nil {
		return nil, err
	}
	db.file, db.meta = f, f.meta
	if opts.Budget != nil {
		opts.Budget.states.Add(1)
	}
	return db, nil
}

// Meta returns what the last commit said; the zero Meta when there has been none.
func (db *DB) Meta() Meta { return db.meta }

// PendingBytes is the size of the uncommitted rows (L0).
func (db *DB) PendingBytes() int64 { return db.pendingBytes }

// DirtyBytes is the size of the committed rows that are not in the file (L1).
func (db *DB) DirtyBytes() int64 { return db.dirtyBytes }

// Store implements Stores.
func (db *DB) Store(name string) Store {
	b := db.stores[name]
	if b == nil {
		b = db.newBucket(bucketID{name: name})
		db.stores[name] = b
	}
	return b
}

// Windows implements Stores.
func (db *DB) Windows(name string) Windows { return db.windowsOf(name) }

func (db *DB) windowsOf(name string) *windows {
	w := db.windows[name]
	if w == nil {
		w = &windows{db: db, name: name, buckets: map[int64]*bucket{}}
		if db.file != nil {
			for _, start := range db.file.windowStarts(name) {
				w.bucket(start)
			}
		}
		db.windows[name] = w
	}
	return w
}

// newBucket returns the memory side of a bucket.
func (db *DB) newBucket(id bucketID) *bucket {
	b := &bucket{db: db, id: id}
	if db.file != nil {
		b.seed, b.onDisk = id.seed(), db.file.exists(id)
	}
	return b
}

// Changes calls fn with each uncommitted row as a changelog record, buckets and their rows by their
// first change: the last value, or nil for a deletion. The slices are valid during fn.
func (db *DB) Changes(fn func(key, value []byte) error) error {
	if err := db.sick(); err != nil {
		return err // what changed may come from what could not be read
	}
	for _, b := range db.pending {
		db.keyBuf = b.id.appendPrefix(db.keyBuf[:0])
		prefix := len(db.keyBuf)
		for _, n := range b.pending {
			r := b.row(n)
			if r.deleted && r.known && r.absent {
				continue // never committed, nothing to take back
			}
			db.keyBuf = append(db.keyBuf[:prefix], b.bytes(r.key)...)
			var value []byte
			if !r.deleted {
				value = b.bytes(r.next)
			}
			if err := fn(db.keyBuf, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// Apply makes one changelog record an uncommitted change: the restore of a task is Apply for each
// record and Commit.
func (db *DB) Apply(key, value []byte) error {
	b, k, err := db.locate(key)
	if err != nil {
		return err
	}
	if value == nil {
		return b.Delete(k)
	}
	return b.Put(k, value)
}

// Lookup returns the visible value of a row by its changelog key.
func (db *DB) Lookup(key []byte) ([]byte, bool, error) {
	b, k, err := db.locate(key)
	if err != nil {
		return nil, false, err
	}
	return b.Get(k)
}

// locate finds the bucket of a changelog key. Keys of a restore come in runs of one bucket, so the
// last one is tried first; its prefix holds the length of the name, so it is no other's prefix.
func (db *DB) locate(key []byte) (*bucket, []byte, error) {
	if db.lastBucket != nil && bytes.HasPrefix(key, db.lastPrefix) {
		return db.lastBucket, key[len(db.lastPrefix):], nil
	}
	id, k, err := parseKey(key)
	if err != nil {
		return nil, nil, err
	}
	if id.windowed { // a window may be retired, so it is looked up each time
		return db.windowsOf(id.name).bucket(id.start), k, nil
	}
	db.lastBucket = db.Store(id.name).(*bucket)
	db.lastPrefix = id.appendPrefix(nil)
	return db.lastBucket, k, nil
}

// Commit makes the uncommitted rows committed: their changelog records and meta are acknowledged.
// It flushes to the file when enough is dirty or now says that it is time. When the flush fails the
// commit stands (the changelog has it) and the error says what the disk said.
func (db *DB) Commit(now time.Time, meta Meta) error {
	if db.closed {
		return ErrClosed
	}
	for _, b := range db.dropped {
		b.dropPending = false
		if !b.dropDirty {
			b.dropDirty = true
			db.dirtyDrops = append(db.dirtyDrops, b)
		}
	}
	for _, b := range db.pending {
		for _, n := range b.pending {
			b.settle(n)
		}
	}
	db.settled()
	db.forgetDropped()
	db.meta, db.metaDirty = Meta{meta.Next, slices.Clone(meta.Commit)}, true
	if db.file == nil {
		db.afterFlush()
		return nil
	}
	if db.lastFlush.IsZero() {
		db.lastFlush = now
	}
	if db.dirtyBytes >= db.flushLimit() || now.Sub(db.lastFlush) >= db.opts.FlushInterval ||
		db.Pressed() {
		db.lastFlush = now
		return db.Flush()
	}
	return nil
}

// FlushDue writes what is committed to the file when it has waited for FlushInterval, also when no
// further commit comes. next is when to ask again; it is 0 when nothing waits.
func (db *DB) FlushDue(now time.Time) (next time.Duration, err error) {
	if db.closed || db.file == nil || !db.metaDirty {
		return 0, nil
	}
	if left := db.opts.FlushInterval - now.Sub(db.lastFlush); left > 0 {
		return left, nil
	}
	db.lastFlush = now
	if err := db.Flush(); err != nil {
		return db.opts.FlushInterval, err
	}
	return 0, nil
}

// settled empties L0, whose rows are committed or given up.
func (db *DB) settled() {
	for _, b := range db.pending {
		b.pending, b.changed = b.pending[:0], false
	}
	clear(db.pending)
	db.pending, db.pendingBytes = db.pending[:0], 0
}

// settle turns the uncommitted value of a row into its committed one.
func (b *bucket) settle(n uint32) {
	db, r := b.db, b.row(n)
	before := r.val.len()
	r.pending, r.known = false, true
	if !r.absent {
		b.size -= r.key.len() + r.val.len()
	}
	if r.deleted {
		r.absent, r.deleted = true, false
		db.cacheBytes -= r.val.len()
		r.val.size = 0
	} else {
		r.absent = false
		db.cacheBytes += r.next.len() - r.val.len()
		r.val, r.next = r.next, r.val
		r.next.size = 0
		b.size += r.key.len() + r.val.len()
	}
	if r.dirty {
		db.dirtyBytes += r.val.len() - before
		return
	}
	r.dirty = true
	b.dirty = append(b.dirty, n)
	if !b.waits {
		b.waits = true
		db.dirty = append(db.dirty, b)
	}
	db.dirtyBytes += r.key.len() + r.val.len() + rowOverhead
}

// Abort forgets the uncommitted rows.
func (db *DB) Abort() {
	for _, b := range db.pending {
		for _, n := range b.pending {
			r := b.row(n)
			r.pending, r.deleted, r.checked = false, false, false
			r.next.size = 0
		}
	}
	db.settled()
	for _, b := range db.dropped {
		b.dropPending = false
	}
	db.dropped = db.dropped[:0]
}

// Flush writes the committed rows and their Meta to the file in one transaction. Uncommitted rows
// stay out of it.
func (db *DB) Flush() error {
	if db.closed {
		return ErrClosed
	}
	if db.file == nil || !db.metaDirty {
		return db.sick()
	}
	if err := db.file.write(db); err != nil {
		return fmt.Errorf("flush state of %s: %w", db.opts.Identity.Task, err)
	}
	db.metaDirty = false
	db.afterFlush()
	db.file.measure(time.Now())
	return nil
}

// afterFlush forgets what L1 held and evicts clean rows that were not used since the last flush,
// or all of them while the cache is over its budget.
func (db *DB) afterFlush() {
	for _, b := range db.dirty {
		b.flushed()
	}
	clear(db.dirty)
	db.dirty, db.dirtyBytes = db.dirty[:0], 0
	for _, b := range db.dirtyDrops {
		b.dropDirty = false
		b.retire()
	}
	clear(db.dirtyDrops)
	db.dirtyDrops = db.dirtyDrops[:0]
	db.account()
	if db.file == nil {
		return
	}
	db.file.release()
	if db.cacheBytes <= db.cacheLimit() {
		return
	}
	db.shrink(db.gen)
	if db.cacheBytes > db.cacheLimit() {
		db.shrink(db.gen + 1)
	}
	db.gen++
}

// Each calls fn with every visible row in changelog form: stores by name, then windows by name and
// start, rows by key. Equal states give equal calls, whatever tier a row is in.
func (db *DB) Each(fn func(key, value []byte) error) error {
	if db.file != nil {
		for _, name := range db.file.names("k/") {
			db.Store(name)
		}
		for _, name := range db.file.names("w/") {
			db.windowsOf(name)
		}
	}
	var buf []byte
	each := func(b *bucket) error {
		return b.Scan(nil, nil, func(k, v []byte) error {
			buf = append(b.id.appendPrefix(buf[:0]), k...)
			return fn(buf, v)
		})
	}
	for _, name := range slices.Sorted(maps.Keys(db.stores)) {
		if err := each(db.stores[name]); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(db.windows)) {
		w := db.windows[name]
		for _, start := range slices.Sorted(maps.Keys(w.buckets)) {
			if err := each(w.buckets[start]); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close forgets what is uncommitted, flushes what is committed, marks the file as clean and lets
// go of it. Closing twice is fine.
func (db *DB) Close() error {
	if db.closed {
		return nil
	}
	db.Abort()
	err := db.Flush()
	if errors.Is(err, ErrDamaged) { // what it should have is in the changelog
		db.opts.Logger.Warn("state file is put aside; the next run restores from the changelog",
			"path", db.opts.Path, "kept as", db.opts.Path+asideSuffix, "error", err)
		return db.Discard()
	}
	db.closed = true
	db.leave()
	if db.file == nil {
		return nil
	}
	return errors.Join(err, db.file.close(err == nil))
}

// Kill lets go of the file as a killed process would: nothing is flushed, nothing marked clean.
// Tests use it, and a task that failed.
func (db *DB) Kill() error {
	if db.closed {
		return nil
	}
	db.closed = true
	db.leave()
	if db.file == nil {
		return nil
	}
	return db.file.close(false)
}

// Discard lets go of the file and puts it aside, for a file that does not fit its changelog any
// more. Open then makes an empty one.
func (db *DB) Discard() error {
	if err := db.Kill(); err != nil || db.file == nil {
		return err
	}
	return setAside(db.opts.Path)
}
