package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sort"

	"github.com/millstream-io/millstream/core/vfs"
)

// timeEntrySize is the size of an entry of .timeindex, in bytes:
//
//	0 8 timestamp        largest one in the segment up to here, ms
//	8 4 relativeOffset   lastOffset of the first batch that holds it, minus the base offset
const timeEntrySize = 12

// timeEntry says that no record before the batch ending with base+rel is later than timestamp.
type timeEntry struct {
	timestamp int64
	rel       uint32
}

// timeIndex finds where to look for a timestamp. It lives and is guarded like offsetIndex.
//
// Invariant: timestamp strictly increases, rel does not decrease.
type timeIndex struct {
	file    vfs.File
	entries []timeEntry // all entries while active, nil once sealed
	count   int         // entries
	written int         // entries that are in the file
	last    timeEntry   // the last entry, {-1, 0} if none
}

// add appends the entry if its timestamp is larger than the last one.
func (x *timeIndex) add(e timeEntry) {
	if e.timestamp <= x.last.timestamp {
		return
	}
	x.entries = append(x.entries, e)
	x.count++
	x.last = e
}

func (x *timeIndex) at(i int, buf []byte) (timeEntry, error) {
	if x.entries != nil {
		return x.entries[i], nil
	}
	b := buf[:timeEntrySize]
	if n, err := x.file.ReadAt(b, int64(i)*timeEntrySize); n < len(b) {
		return timeEntry{}, fmt.Errorf("read %s entry %d: %w", x.file.Name(), i, err)
	}
	return decodeTimeEntry(b), nil
}

func decodeTimeEntry(b []byte) timeEntry {
	return timeEntry{int64(binary.BigEndian.Uint64(b)), binary.BigEndian.Uint32(b[8:])}
}

// before returns the last entry with a timestamp smaller than ts; false if there is none. Records
// of ts or later are not in front of the batch it names.
func (x *timeIndex) before(ts int64, buf []byte) (timeEntry, bool, error) {
	var failed error
	n := sort.Search(x.count, func(i int) bool {
		e, err := x.at(i, buf)
		failed = errors.Join(failed, err)
		return e.timestamp >= ts
	})
	if failed != nil || n == 0 {
		return timeEntry{}, false, failed
	}
	e, err := x.at(n-1, buf)
	return e, err == nil, err
}

// flush writes the entries the file does not have yet.
func (x *timeIndex) flush() error {
	if x.written == x.count {
		return nil
	}
	b := make([]byte, 0, (x.count-x.written)*timeEntrySize)
	for _, e := range x.entries[x.written:] {
		b = binary.BigEndian.AppendUint64(b, uint64(e.timestamp))
		b = binary.BigEndian.AppendUint32(b, e.rel)
	}
	if _, err := x.file.WriteAt(b, int64(x.written)*timeEntrySize); err != nil {
		return fmt.Errorf("write %s: %w", x.file.Name(), err)
	}
	x.written = x.count
	return nil
}

// seal drops the entries from memory. The file must have them all.
func (x *timeIndex) seal() { x.entries = nil }

// load reads all entries into memory, to append to them again.
func (x *timeIndex) load() error {
	data, err := vfsReadAll(x.file)
	if err != nil {
		return err
	}
	x.entries = make([]timeEntry, 0, len(data)/timeEntrySize+64)
	for ; len(data) >= timeEntrySize; data = data[timeEntrySize:] {
		x.entries = append(x.entries, decodeTimeEntry(data))
	}
	x.count, x.written = len(x.entries), len(x.entries)
	x.last = timeEntry{timestamp: -1}
	if x.count > 0 {
		x.last = x.entries[x.count-1]
	}
	return nil
}
