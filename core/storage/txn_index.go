package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sort"
	"sync/atomic"

	"github.com/millstream-io/millstream/core/vfs"
)

// A .txnindex file has one entry for each transaction whose abort marker is in the segment, in the
// order of the markers. There is no file before the first one. Big-endian:
//
//	offset size field
//	0      2    version (0)
//	2      8    producerId
//	10     8    firstOffset       of the transaction in this partition, maybe in an older segment
//	18     8    lastOffset        of the marker
//	26     8    lastStableOffset  once the marker counts
const (
	txnIndexVersion = 0
	abortedTxnSize  = 34
)

// abortedTxn is an entry of a .txnindex.
type abortedTxn struct {
	producerID       int64
	firstOffset      int64
	lastOffset       int64
	lastStableOffset int64
}

func (a *abortedTxn) appendTo(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, txnIndexVersion)
	b = binary.BigEndian.AppendUint64(b, uint64(a.producerID))
	b = binary.BigEndian.AppendUint64(b, uint64(a.firstOffset))
	b = binary.BigEndian.AppendUint64(b, uint64(a.lastOffset))
	return binary.BigEndian.AppendUint64(b, uint64(a.lastStableOffset))
}

// decodeAbortedTxn reads the abortedTxnSize bytes of an entry; errTorn if the version is unknown.
func decodeAbortedTxn(b []byte) (abortedTxn, error) {
	if v := binary.BigEndian.Uint16(b); v != txnIndexVersion {
		return abortedTxn{}, fmt.Errorf("%w: version %d of an aborted transaction", errTorn, v)
	}
	return abortedTxn{
		producerID:       int64(binary.BigEndian.Uint64(b[2:])),
		firstOffset:      int64(binary.BigEndian.Uint64(b[10:])),
		lastOffset:       int64(binary.BigEndian.Uint64(b[18:])),
		lastStableOffset: int64(binary.BigEndian.Uint64(b[26:])),
	}, nil
}

// txnIndex lists the aborted transactions of a segment. It lives as offsetIndex does, but its file
// is made only when there is something to put into it.
//
// Invariant: lastOffset strictly increases and is in the segment.
type txnIndex struct {
	name    string       // of the file
	file    vfs.File     // nil while there is none
	entries []abortedTxn // all of them while active, nil once sealed and in the file
	written int          // entries that are in the file
	// count is the number of entries. It is atomic so that a read that looks for aborted
	// transactions passes the many segments without any at the price of a load.
	count atomic.Int64
	stale bool // the entries must be read from the log anew, see Log.rebuildProducers
}

// open opens the file if there is one.
func (x *txnIndex) open(fsys vfs.FS, name string) error {
	x.name = name
	file, err := fsys.OpenFile(name, vfs.ReadWrite, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	x.file = file
	return nil
}

// create makes the file.
func (x *txnIndex) create(fsys vfs.FS) error {
	file, err := fsys.OpenFile(x.name, vfs.ReadWrite|vfs.Create, 0o644)
	if err != nil {
		return fmt.Errorf("create %s: %w", x.name, err)
	}
	x.file = file
	return nil
}

// discard removes the file and all entries.
func (x *txnIndex) discard(fsys vfs.FS) error {
	x.reset()
	if x.file == nil {
		return nil
	}
	err := errors.Join(x.file.Close(), removeIfExists(fsys, x.name))
	x.file = nil
	return err
}

// reset empties the index in memory, the file stays as it is until the next flush or rewrite.
func (x *txnIndex) reset() {
	x.entries, x.written = nil, 0
	x.count.Store(0)
}

func (x *txnIndex) add(a abortedTxn) {
	x.entries = append(x.entries, a)
	x.count.Add(1)
}

// load reads all entries into memory. errTorn says that they cannot be those of a segment with
// offsets [base, next).
func (x *txnIndex) load(base, next int64) error {
	x.reset()
	if x.file == nil {
		return nil
	}
	data, err := vfsReadAll(x.file)
	if err != nil {
		return err
	}
	if len(data)%abortedTxnSize != 0 {
		return fmt.Errorf("%w: %s has %d bytes", errTorn, x.name, len(data))
	}
	last := base - 1
	for ; len(data) > 0; data = data[abortedTxnSize:] {
		a, err := decodeAbortedTxn(data)
		if err == nil && (a.lastOffset <= last || a.lastOffset >= next ||
			a.firstOffset < 0 || a.firstOffset >= a.lastOffset) {
			err = fmt.Errorf("%w: aborted transaction at %d to %d", errTorn, a.firstOffset,
				a.lastOffset)
		}
		if err != nil {
			x.reset()
			return fmt.Errorf("entry of %s: %w", x.name, err)
		}
		last = a.lastOffset
		x.add(a)
	}
	x.written = len(x.entries)
	return nil
}

// flush writes the entries the file does not have yet.
func (x *txnIndex) flush(fsys vfs.FS) error {
	if x.written == len(x.entries) || x.entries == nil {
		return nil
	}
	if x.file == nil {
		if err := x.create(fsys); err != nil {
			return err
		}
	}
	b := make([]byte, 0, (len(x.entries)-x.written)*abortedTxnSize)
	for i := range x.entries[x.written:] {
		b = x.entries[x.written+i].appendTo(b)
	}
	if _, err := x.file.WriteAt(b, int64(x.written)*abortedTxnSize); err != nil {
		return fmt.Errorf("write %s: %w", x.name, err)
	}
	x.written = len(x.entries)
	return nil
}

// seal drops the entries from memory once the file has them all.
func (x *txnIndex) seal() {
	if x.written == len(x.entries) {
		x.entries = nil
	}
}

// truncate removes the transactions whose marker is at offset or later. All entries must be in
// memory.
func (x *txnIndex) truncate(offset int64) error {
	n := sort.Search(len(x.entries), func(i int) bool { return x.entries[i].lastOffset >= offset })
	x.entries = x.entries[:n]
	x.count.Store(int64(n))
	if x.written <= n {
		return nil
	}
	x.written = n
	if err := x.file.Truncate(int64(n) * abortedTxnSize); err != nil {
		return fmt.Errorf("truncate %s: %w", x.name, err)
	}
	return nil
}

// rewrite replaces the content of the file by the entries, at once, and keeps those in memory only
// if that fails. It is for sealed segments; nothing happens if the file is right already.
func (x *txnIndex) rewrite(fsys vfs.FS) error {
	data := make([]byte, 0, len(x.entries)*abortedTxnSize)
	for i := range x.entries {
		data = x.entries[i].appendTo(data)
	}
	if x.file == nil && len(data) == 0 {
		return nil
	}
	if x.file != nil {
		old, err := vfsReadAll(x.file)
		if err != nil {
			return err
		}
		if slices.Equal(old, data) {
			x.written = len(x.entries)
			return nil
		}
	}
	if err := vfs.WriteFileAtomic(fsys, x.name, data, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", x.name, err)
	}
	file, err := fsys.OpenFile(x.name, vfs.ReadWrite, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", x.name, err)
	}
	if x.file != nil {
		err = x.file.Close()
	}
	x.file, x.written = file, len(x.entries)
	return err
}

// overwrite replaces the entries of a sealed segment in the file that is open: readers need no lock
// for that one. Readers that begin meanwhile have the entries from memory. What a crash leaves of
// it is found wrong by the next start, as what was there before is.
func (x *txnIndex) overwrite(entries []abortedTxn) error {
	x.entries, x.written = entries, 0
	x.count.Store(int64(len(entries)))
	data := make([]byte, 0, len(entries)*abortedTxnSize)
	for i := range entries {
		data = entries[i].appendTo(data)
	}
	if _, err := x.file.WriteAt(data, 0); err != nil {
		return fmt.Errorf("write %s: %w", x.name, err)
	}
	if err := x.file.Truncate(int64(len(data))); err != nil {
		return fmt.Errorf("truncate %s: %w", x.name, err)
	}
	if err := x.file.Sync(); err != nil {
		return syncFileError(x.name, err)
	}
	x.written = len(entries)
	x.seal()
	return nil
}

// read fills b with entries from the i-th on and returns how many bytes those have.
func (x *txnIndex) read(b []byte, i int64) (int, error) {
	left := max(x.count.Load()-i, 0) * abortedTxnSize // there may be fewer by now, see overwrite
	n := int(min(left, int64(len(b)/abortedTxnSize*abortedTxnSize)))
	if got, err := x.file.ReadAt(b[:n], i*abortedTxnSize); got < n {
		return 0, fmt.Errorf("read %s entry %d: %w", x.name, i, err)
	}
	return n, nil
}

// eachInMemory calls fn with the transactions whose marker is at offset from or later, in order,
// until it returns false.
func (x *txnIndex) eachInMemory(from int64, fn func(*abortedTxn) bool) {
	i := sort.Search(len(x.entries), func(i int) bool { return x.entries[i].lastOffset >= from })
	for ; i < len(x.entries) && fn(&x.entries[i]); i++ {
	}
}

// eachInFile is eachInMemory for a sealed segment. It needs no lock.
func (x *txnIndex) eachInFile(from int64, fn func(*abortedTxn) bool) error {
	buf := walkBuffers.Get().(*[walkBuffer]byte)
	defer walkBuffers.Put(buf)
	var failed error
	at := int64(sort.Search(int(x.count.Load()), func(i int) bool {
		_, err := x.read(buf[:abortedTxnSize], int64(i))
		failed = errors.Join(failed, err)
		return int64(binary.BigEndian.Uint64(buf[18:])) >= from
	}))
	if failed != nil {
		return failed
	}
	for at < x.count.Load() {
		n, err := x.read(buf[:], at)
		for b := buf[:n]; err == nil && len(b) > 0; b = b[abortedTxnSize:] {
			var a abortedTxn
			if a, err = decodeAbortedTxn(b); err == nil && !fn(&a) {
				return nil
			}
			at++
		}
		if err != nil {
			return err
		}
	}
	return nil
}
