package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sort"

	"github.com/millstream-io/millstream/core/vfs"
)

// offsetEntrySize is the size of an entry of .index, in bytes:
//
//	0 4 relativeOffset   lastOffset of a batch, minus the segment's base offset
//	4 4 position         of that batch in the .log file
const offsetEntrySize = 8

// offsetEntry says where the batch that ends with base+rel begins.
type offsetEntry struct{ rel, pos uint32 }

// offsetIndex finds batches by offset or position. While its segment is active it lives in entries,
// and the file follows when the segment is synced, rolled or closed. Once sealed it is only read
// from the file, so that old segments cost no memory.
//
// Invariant: rel and pos strictly increase. Guarded by the segment's mutex until sealed, immutable
// then.
type offsetIndex struct {
	file    vfs.File
	entries []offsetEntry // all entries while active, nil once sealed
	count   int           // entries
	written int           // entries that are in the file
}

func (x *offsetIndex) add(e offsetEntry) {
	x.entries = append(x.entries, e)
	x.count++
}

// at returns entry i, 0 <= i < count. buf is scratch space for the file's bytes.
func (x *offsetIndex) at(i int, buf []byte) (offsetEntry, error) {
	if x.entries != nil {
		return x.entries[i], nil
	}
	b := buf[:offsetEntrySize]
	if n, err := x.file.ReadAt(b, int64(i)*offsetEntrySize); n < len(b) {
		return offsetEntry{}, fmt.Errorf("read %s entry %d: %w", x.file.Name(), i, err)
	}
	return decodeOffsetEntry(b), nil
}

func decodeOffsetEntry(b []byte) offsetEntry {
	return offsetEntry{binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])}
}

// floorOffset returns the last entry with rel <= the argument; false if there is none.
func (x *offsetIndex) floorOffset(rel uint32, buf []byte) (offsetEntry, bool, error) {
	return x.floor(buf, func(e offsetEntry) bool { return e.rel <= rel })
}

// floorPosition returns the last entry with pos <= the argument; false if there is none.
func (x *offsetIndex) floorPosition(pos uint32, buf []byte) (offsetEntry, bool, error) {
	return x.floor(buf, func(e offsetEntry) bool { return e.pos <= pos })
}

// floor returns the last entry that holds, where those that hold come first.
func (x *offsetIndex) floor(buf []byte, holds func(offsetEntry) bool) (offsetEntry, bool, error) {
	var failed error
	n := sort.Search(x.count, func(i int) bool {
		e, err := x.at(i, buf)
		failed = errors.Join(failed, err)
		return !holds(e)
	})
	if failed != nil || n == 0 {
		return offsetEntry{}, false, failed
	}
	e, err := x.at(n-1, buf)
	return e, err == nil, err
}

// flush writes the entries the file does not have yet.
func (x *offsetIndex) flush() error {
	if x.written == x.count {
		return nil
	}
	b := make([]byte, 0, (x.count-x.written)*offsetEntrySize)
	for _, e := range x.entries[x.written:] {
		b = binary.BigEndian.AppendUint32(b, e.rel)
		b = binary.BigEndian.AppendUint32(b, e.pos)
	}
	if _, err := x.file.WriteAt(b, int64(x.written)*offsetEntrySize); err != nil {
		return fmt.Errorf("write %s: %w", x.file.Name(), err)
	}
	x.written = x.count
	return nil
}

// seal drops the entries from memory. The file must have them all.
func (x *offsetIndex) seal() { x.entries = nil }

// load reads all entries into memory, to append to them again.
func (x *offsetIndex) load() error {
	data, err := vfsReadAll(x.file)
	if err != nil {
		return err
	}
	x.entries = make([]offsetEntry, 0, len(data)/offsetEntrySize+64)
	for ; len(data) >= offsetEntrySize; data = data[offsetEntrySize:] {
		x.entries = append(x.entries, decodeOffsetEntry(data))
	}
	x.count, x.written = len(x.entries), len(x.entries)
	return nil
}

// openIndexFile opens an index file, created if missing, and returns its size in bytes.
func openIndexFile(fsys vfs.FS, name string) (vfs.File, int64, error) {
	f, err := fsys.OpenFile(name, vfs.ReadWrite|vfs.Create, 0o644)
	if err != nil {
		return nil, 0, fmt.Errorf("open %s: %w", name, err)
	}
	size, err := f.Size()
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("size of %s: %w", name, err), f.Close())
	}
	return f, size, nil
}

// vfsReadAll reads a whole open file.
func vfsReadAll(f vfs.File) ([]byte, error) {
	size, err := f.Size()
	if err != nil {
		return nil, fmt.Errorf("size of %s: %w", f.Name(), err)
	}
	data := make([]byte, size)
	if n, err := f.ReadAt(data, 0); int64(n) < size {
		return nil, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	return data, nil
}
