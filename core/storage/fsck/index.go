package fsck

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/millstream-io/millstream/core/vfs"
)

// Sizes of the entries of the index files.
const (
	offsetEntrySize = 8
	timeEntrySize   = 12
	txnEntrySize    = 34
)

// index is the file of one index.
type index struct {
	path string
	data []byte // what has not been held against the log yet
	size int64  // of the file
	// dirty says that the file may be behind the log, or ahead of it.
	dirty bool
	// do says what to do about a wrong entry; "": remove the file.
	do string
}

// load reads the file and reports if it is not there or not a whole number of entries.
func (x *index) load(s *segment, suffix string, entry int, needed bool) {
	x.path = filepath.Join(s.dir, fmt.Sprintf("%020d%s", s.base, suffix))
	x.dirty = s.dirty
	data, err := vfs.ReadFile(s.opts.FS, x.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if needed {
			x.wrong(s, -1, "is missing")
		}
		return
	case err != nil:
		s.unreadable(x.path, err)
		return
	}
	x.size = int64(len(data))
	if s.last {
		data = data[:len(data)-preallocated(data, entry)]
	}
	if rest := len(data) % entry; rest != 0 {
		x.wrong(s, int64(len(data)-rest), "ends with %d bytes that are no entry", rest)
		data = data[:len(data)-rest]
	}
	x.data = data
}

// preallocated is how many bytes at the end are zeros that Kafka has put there for entries to come.
func preallocated(data []byte, entry int) int {
	n := len(data)
	for n > 0 && data[n-1] == 0 {
		n--
	}
	n = (n + entry - 1) / entry * entry
	if n >= len(data) {
		return 0
	}
	return len(data) - n
}

// wrong reports an entry, or the whole file.
func (x *index) wrong(s *segment, position int64, format string, args ...any) {
	if x.dirty {
		s.note(x.path, position, doNothing, format, args...)
		return
	}
	s.damage(x.path, position, cmp.Or(x.do, doRebuild), format, args...)
}

// position is that of the entry at the front of data.
func (x *index) position() int64 { return x.size - int64(len(x.data)) }

// offsetIndex is a .index: entries of a batch's last offset, less the base, and its position.
type offsetIndex struct {
	index
	any bool
	rel uint32 // of the entry before
	s   *segment
}

func (x *offsetIndex) load(s *segment) {
	x.s = s
	x.index.load(s, suffixIndex, offsetEntrySize, s.size > 0)
	x.size = int64(len(x.data))
}

// batch holds the entries up to a batch's position against it.
func (x *offsetIndex) batch(h header) {
	for len(x.data) > 0 {
		rel, pos := binary.BigEndian.Uint32(x.data), binary.BigEndian.Uint32(x.data[4:])
		at := x.position()
		switch {
		case int64(pos) > h.pos:
			return
		case int64(pos) < h.pos:
			x.wrong(x.s, at, "entry of offset %d names position %d, where no batch begins, or one "+
				"before", x.s.base+int64(rel), pos)
		case x.s.base+int64(rel) != h.lastOffset:
			x.wrong(x.s, at, "entry of offset %d names position %d, whose batch ends with offset %d",
				x.s.base+int64(rel), pos, h.lastOffset)
		case x.any && rel <= x.rel:
			x.wrong(x.s, at, "entry of offset %d follows one of %d", x.s.base+int64(rel),
				x.s.base+int64(x.rel))
		}
		x.any, x.rel = true, rel
		x.data = x.data[offsetEntrySize:]
	}
}

func (x *offsetIndex) finish(s *segment) {
	for ; len(x.data) > 0; x.data = x.data[offsetEntrySize:] {
		x.wrong(s, x.position(), "entry of offset %d names position %d, where no batch begins",
			s.base+int64(binary.BigEndian.Uint32(x.data)), binary.BigEndian.Uint32(x.data[4:]))
	}
}

// timeIndex is a .timeindex: entries of the largest timestamp so far and, less the base, the last
// offset of the first batch that has it.
type timeIndex struct {
	index
	any          bool
	last         int64 // timestamp of the entry before
	maxTimestamp int64 // of the segment so far
	maxOffset    int64 // last offset of the first batch that has it
	// recordsMax and recordsOffset are the same without batches that compaction emptied: Kafka
	// counts those, this broker does not. Both are sound.
	recordsMax, recordsOffset int64
	s                         *segment
}

func (x *timeIndex) load(s *segment) {
	x.s, x.maxTimestamp, x.maxOffset, x.recordsMax, x.recordsOffset = s, -1, -1, -1, -1
	x.index.load(s, suffixTimeIndex, timeEntrySize, s.size > 0)
	x.size = int64(len(x.data))
}

func (x *timeIndex) entry() (timestamp, offset int64) {
	return int64(binary.BigEndian.Uint64(x.data)),
		x.s.base + int64(binary.BigEndian.Uint32(x.data[8:]))
}

func (x *timeIndex) batch(h header, maxTimestamp int64, empty bool) {
	if !empty && maxTimestamp > x.recordsMax {
		x.recordsMax, x.recordsOffset = maxTimestamp, h.lastOffset
	}
	if maxTimestamp > x.maxTimestamp {
		x.maxTimestamp, x.maxOffset = maxTimestamp, h.lastOffset
	}
	for len(x.data) > 0 {
		timestamp, offset := x.entry()
		at := x.position()
		switch {
		case offset > h.lastOffset:
			return
		case offset < h.lastOffset:
			x.wrong(x.s, at, "entry of timestamp %d names offset %d, with which no batch ends, or "+
				"one before", timestamp, offset)
		case timestamp != maxTimestamp:
			x.wrong(x.s, at, "entry of timestamp %d names offset %d, whose batch has %d", timestamp,
				offset, maxTimestamp)
		case offset != x.maxOffset && offset != x.recordsOffset:
			x.wrong(x.s, at, "entry of timestamp %d names offset %d, but %d at offset %d is later",
				timestamp, offset, x.maxTimestamp, x.maxOffset)
		case x.any && timestamp <= x.last:
			x.wrong(x.s, at, "entry of timestamp %d follows one of %d", timestamp, x.last)
		}
		x.any, x.last = true, timestamp
		x.data = x.data[timeEntrySize:]
	}
}

func (x *timeIndex) finish(s *segment) {
	for ; len(x.data) > 0; x.data = x.data[timeEntrySize:] {
		timestamp, offset := x.entry()
		x.wrong(s, x.position(), "entry of timestamp %d names offset %d, with which no batch ends",
			timestamp, offset)
		x.any, x.last = true, timestamp
	}
	// An entry of time 0 at offset 0 looks as if it were preallocated.
	sound := x.any && x.last == x.maxTimestamp || !x.any && x.recordsMax <= 0 ||
		x.any && x.last == x.recordsMax
	if x.maxTimestamp > 0 && !sound && s.reports[x.path] == 0 {
		x.wrong(s, -1, "its last timestamp is not %d, that of offset %d", x.maxTimestamp, x.maxOffset)
	}
}
