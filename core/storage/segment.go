package storage

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"sync"
	"sync/atomic"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/vfs"
)

// segment is one .log file with its indexes. The last one of a log is active and appended to; the
// others are sealed and never change but by truncation.
//
// Invariant: every byte of the file before mu.size belongs to a whole batch, offsets rise from
// base.
type segment struct {
	base int64 // offset the files are named after; every batch is at or after it
	fsys vfs.FS
	dir  string // of the partition, when opened
	log  vfs.File
	refs atomic.Int32 // one of the log's list, one for each reader; files close at 0

	// createdMS is the wall clock when the segment was made or opened, ms; for rolling segments
	// whose records have no timestamps. Immutable.
	createdMS int64
	// draw is what segment.jitter.ms is taken from, random over logs and segments. Immutable.
	draw uint64
	// reserved says that disk space behind the end may be reserved, aheadOf is the size from which
	// on more is. The append lock guards both.
	reserved bool
	aheadOf  int64
	// checks says which bytes are known to be right, scrubbedMS when all were looked at last, by the
	// wall clock; 0 if that was never.
	checks     checkedSpans
	scrubbedMS atomic.Int64
	// durable says that a sealed segment and its indexes are synced. The log's sync token guards
	// it.
	durable bool

	mu struct {
		sync.Mutex
		size               int64 // bytes of whole batches
		next               int64 // offset after the last batch, base if none
		firstTimestamp     int64 // largest timestamp of the first batch, ms; -1 if none
		maxTimestamp       int64 // largest timestamp, ms; -1 if none
		maxTimestampOffset int64 // last offset of the first batch that holds it
		sinceIndex         int64 // bytes since the last index entry
		offsets            offsetIndex
		times              timeIndex
		aborts             txnIndex
		sealed             bool
	}
}

// createSegment makes the files of an empty active segment. Left-overs of its name are emptied.
func createSegment(fsys vfs.FS, dir string, base, nowMS int64) (*segment, error) {
	s, err := openSegmentFiles(fsys, dir, base, nowMS)
	if err != nil {
		return nil, err
	}
	err = errors.Join(empty(s.log), empty(s.mu.offsets.file), empty(s.mu.times.file),
		s.mu.aborts.discard(fsys))
	if err != nil {
		err = fmt.Errorf("create segment %d in %s: %w", base, dir, err)
		return nil, errors.Join(err, s.closeFiles())
	}
	return s, nil
}

// empty cuts a file that is not empty: one that was not written to can give up its descriptor.
func empty(f vfs.File) error {
	if size, err := f.Size(); err != nil || size == 0 {
		return err
	}
	return f.Truncate(0)
}

// draw makes a number that differs from segment to segment, but not from run to run.
func draw(dir string, base int64) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, dir, base) // never fails
	return h.Sum64()
}

// jitterMS is what the segment takes off segment.ms, so that those of many partitions that were
// made together do not roll together.
func (s *segment) jitterMS(c *Config) int64 {
	most := min(c.SegmentJitterMS, c.rollMS())
	if most <= 0 {
		return 0
	}
	return int64(s.draw % uint64(most))
}

// openSegmentFiles opens the files, created if missing but for the one of aborted transactions, and
// knows nothing of their content.
func openSegmentFiles(fsys vfs.FS, dir string, base, nowMS int64) (*segment, error) {
	return openNamedSegment(fsys, dir, base, nowMS, "")
}

// openNamedSegment is openSegmentFiles of files whose names end with a transient suffix.
func openNamedSegment(fsys vfs.FS, dir string, base, nowMS int64, end string) (*segment, error) {
	s := &segment{base: base, fsys: fsys, dir: dir, createdMS: nowMS, draw: draw(dir, base)}
	s.refs.Store(1)
	s.resetState()
	s.aheadOf = aheadLeast
	name := segmentFile(dir, base, suffixLog+end)
	var err error
	if s.log, err = fsys.OpenFile(name, vfs.ReadWrite|vfs.Create, 0o644); err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	s.mu.offsets.file, _, err = openIndexFile(fsys, segmentFile(dir, base, suffixIndex+end))
	if err == nil {
		s.mu.times.file, _, err = openIndexFile(fsys, segmentFile(dir, base, suffixTimeIndex+end))
	}
	if err == nil {
		err = s.mu.aborts.open(fsys, segmentFile(dir, base, suffixTxnIndex+end))
	}
	if err != nil {
		return nil, errors.Join(err, s.closeFiles())
	}
	return s, nil
}

// resetState sets the state of an empty active segment, without its aborted transactions; the files
// are not touched.
func (s *segment) resetState() {
	s.mu.size, s.mu.next = 0, s.base
	s.mu.firstTimestamp, s.mu.maxTimestamp, s.mu.maxTimestampOffset = -1, -1, -1
	s.mu.sinceIndex = 0
	s.mu.sealed = false
	s.mu.offsets.entries, s.mu.offsets.count, s.mu.offsets.written = nil, 0, 0
	s.mu.times.entries, s.mu.times.count, s.mu.times.written = nil, 0, 0
	s.mu.times.last = timeEntry{timestamp: -1}
}

// acquire takes a reference for reading; false if the segment is gone.
func (s *segment) acquire() bool {
	for {
		n := s.refs.Load()
		if n == 0 {
			return false
		}
		if s.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// release gives a reference back; the last one closes the files, which may have been unlinked
// before.
func (s *segment) release() {
	if s.refs.Add(-1) == 0 {
		_ = s.closeFiles() // only read from, or synced before
	}
}

func (s *segment) closeFiles() error {
	var errs []error
	for _, f := range []vfs.File{s.log, s.mu.offsets.file, s.mu.times.file, s.mu.aborts.file} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// segmentState is what readers and decisions need of the state, at one moment.
type segmentState struct {
	size, next, firstTimestamp, maxTimestamp int64
	sealed                                   bool
}

func (s *segment) state() segmentState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return segmentState{s.mu.size, s.mu.next, s.mu.firstTimestamp, s.mu.maxTimestamp, s.mu.sealed}
}

// rollReason says why the segment cannot take n more bytes up to lastOffset; "" if it can. It is
// Kafka's rule: size, span of record time (or age, without timestamps), full index, relative offset
// beyond 31 bits. An empty segment rolls only for its offset.
func (s *segment) rollReason(c *Config, n, lastOffset, maxTimestamp, nowMS int64) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if lastOffset-s.base > math.MaxInt32 {
		return "offset"
	}
	if s.mu.size == 0 {
		return ""
	}
	waited := nowMS - s.createdMS
	if s.mu.firstTimestamp >= 0 {
		waited = maxTimestamp - s.mu.firstTimestamp
	}
	limit := c.SegmentIndexBytes
	switch {
	case s.mu.size+n > c.SegmentBytes:
		return "size"
	case waited > c.rollMS()-s.jitterMS(c):
		return "time"
	case (s.mu.offsets.count+1)*offsetEntrySize > limit:
		return "index"
	case (s.mu.times.count+2)*timeEntrySize > limit: // room for the final entry
		return "index"
	}
	return ""
}

// write puts batches b at the end of the file. The state does not change: see added. Only the
// appender may call it. On an error, bytes may be in the file behind size.
func (s *segment) write(b []byte) error {
	if s.mu.size >= s.aheadOf {
		s.reserveAhead()
	}
	n, err := s.log.WriteAt(b, s.mu.size)
	if err == nil && n < len(b) {
		err = fmt.Errorf("short write of %d of %d bytes", n, len(b))
	}
	if err != nil {
		return fmt.Errorf("write %s at %d: %w", s.log.Name(), s.mu.size, err)
	}
	return nil
}

// added publishes the batches of b, which write put into the file.
func (s *segment) added(b []byte, indexInterval int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var h batchHeader
	for len(b) > 0 {
		h.read(record.Batch(b))
		s.addLocked(&h, indexInterval)
		b = b[h.size:]
	}
}

// addLocked moves size and next behind one batch and indexes it if due. The index names the batch
// by its last offset, and never a batch that came less than the interval after the last entry.
func (s *segment) addLocked(h *batchHeader, indexInterval int64) {
	if s.mu.size == 0 {
		s.mu.firstTimestamp = max(h.maxTimestamp, -1)
	}
	if h.latest() > s.mu.maxTimestamp {
		s.mu.maxTimestamp, s.mu.maxTimestampOffset = h.latest(), h.lastOffset()
	}
	if s.mu.sinceIndex > indexInterval {
		rel := uint32(h.lastOffset() - s.base)
		s.mu.offsets.add(offsetEntry{rel: rel, pos: uint32(s.mu.size)})
		s.addTimeLocked()
		s.mu.sinceIndex = 0
	}
	s.mu.size += h.size
	s.mu.sinceIndex += h.size
	s.mu.next = h.nextOffset()
}

func (s *segment) addTimeLocked() {
	if s.mu.maxTimestamp >= 0 {
		s.mu.times.add(timeEntry{s.mu.maxTimestamp, uint32(s.mu.maxTimestampOffset - s.base)})
	}
}

// flushIndexes writes the index entries that are only in memory. With final, the time index gets
// its last entry first.
func (s *segment) flushIndexes(final bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.sealed {
		return nil
	}
	if final {
		s.addTimeLocked()
	}
	return errors.Join(s.mu.offsets.flush(), s.mu.times.flush(), s.mu.aborts.flush(s.fsys))
}

// indexFlushBytes is how many bytes of index entries are kept back from the files of an active
// segment: nobody needs them there, but a roll should not have to write all of a large segment's.
const indexFlushBytes = 64 << 10

// indexBacklog returns the bytes of index entries that are only in memory.
func (s *segment) indexBacklog() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return (s.mu.offsets.count-s.mu.offsets.written)*offsetEntrySize +
		(s.mu.times.count-s.mu.times.written)*timeEntrySize +
		(len(s.mu.aborts.entries)-s.mu.aborts.written)*abortedTxnSize
}

// seal ends the active life: indexes complete in their files and out of memory.
func (s *segment) seal() error {
	if err := s.flushIndexes(true); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.offsets.seal()
	s.mu.times.seal()
	s.mu.aborts.seal()
	s.mu.sealed = true
	return s.unreserveLocked()
}

// sealLate is seal if that could not be done when the log was opened, on a full disk.
func (s *segment) sealLate() error {
	s.mu.Lock()
	sealed := s.mu.sealed
	s.mu.Unlock()
	if sealed {
		return nil
	}
	return s.seal()
}

// sync makes the log bytes durable, and the indexes too if the segment is sealed. The caller has
// the log's sync token.
func (s *segment) sync() error {
	if s.durable {
		return nil
	}
	sealed := s.state().sealed
	if err := s.log.Datasync(); err != nil {
		return syncFileError(s.log.Name(), err)
	}
	if !sealed {
		return nil
	}
	if err := s.syncIndexes(); err != nil {
		return err
	}
	s.durable = true
	return nil
}

// syncIndexes makes the indexes' bytes durable as far as they are in the files.
func (s *segment) syncIndexes() error {
	for _, f := range []vfs.File{s.mu.offsets.file, s.mu.times.file, s.mu.aborts.file} {
		if f == nil {
			continue
		}
		if err := f.Datasync(); err != nil {
			return syncFileError(f.Name(), err)
		}
	}
	return nil
}

// trim cuts bytes behind the last whole batch off the file, left by a failed write.
func (s *segment) trim() error {
	if err := s.log.Truncate(s.state().size); err != nil {
		return fmt.Errorf("truncate %s to %d: %w", s.log.Name(), s.state().size, err)
	}
	return nil
}
