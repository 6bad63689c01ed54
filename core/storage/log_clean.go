package storage

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/vfs"
)

// SegmentInfo describes a segment to who decides what to compact.
type SegmentInfo struct {
	Base, End      int64 // offsets [Base, End); End is the next segment's base, or the log's end
	Next           int64 // offset after the last batch, Base if there is none; <= End
	Size           int64 // of the .log file, bytes
	OffsetEntries  int64 // of the .index file, bytes
	TimeEntries    int64 // of the .timeindex file, bytes
	FirstTimestamp int64 // largest one of the first batch, ms; -1 if none
	MaxTimestamp   int64 // ms; -1 if none
}

// CleanState is what decides whether and how far a log is compacted.
//
// Invariant: StartOffset <= LastStableOffset <= EndOffset; the last segment is the active one.
type CleanState struct {
	StartOffset      int64
	LastStableOffset int64
	EndOffset        int64
	CleanedOffset    int64 // up to where it was compacted before, -1 if never
	Segments         []SegmentInfo
}

// CleanState returns the state at one moment.
func (l *Log) CleanState() CleanState {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := *l.segments.Load()
	st := CleanState{StartOffset: l.start.Load(), LastStableOffset: l.cleanBound(),
		EndOffset: l.end.Load(), CleanedOffset: l.cleaned.Load()}
	for i := range list {
		end := st.EndOffset
		if i+1 < len(list) {
			end = list[i+1].base
		}
		st.Segments = append(st.Segments, list[i].info(end))
	}
	return st
}

// cleanBound is the offset that compaction must stay below: what is not decided or not committed
// may yet go away, and then the older values of its keys would be needed.
func (l *Log) cleanBound() int64 { return min(l.LastStableOffset(), l.end.Load()) }

func (s *segment) info(end int64) SegmentInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return SegmentInfo{Base: s.base, End: end, Next: s.mu.next, Size: s.mu.size,
		OffsetEntries:  int64(s.mu.offsets.count) * offsetEntrySize,
		TimeEntries:    int64(s.mu.times.count) * timeEntrySize,
		FirstTimestamp: s.mu.firstTimestamp, MaxTimestamp: s.mu.maxTimestamp}
}

// CleanedOffset returns up to where the log was compacted, -1 if it never was.
func (l *Log) CleanedOffset() int64 { return l.cleaned.Load() }

// SetCleanedOffset remembers, durably, up to where the log was compacted.
func (l *Log) SetCleanedOffset(offset int64) error {
	l.cleaned.Store(offset)
	return l.owner.saveCleanedOffsets()
}

// lowerCleaned makes sure that records which take the place of truncated ones count as dirty.
func (l *Log) lowerCleaned(offset int64) error {
	if l.cleaned.Load() <= offset {
		return nil
	}
	return l.SetCleanedOffset(offset)
}

// claimSegments waits until nobody else renames or removes files of segments, and keeps others from
// it until the returned function is called.
func (l *Log) claimSegments() (release func()) {
	l.segmentsToken <- struct{}{}
	return func() { <-l.segmentsToken }
}

// RollForCompaction begins a new segment if the active one holds records that compaction must reach
// by now, see Config.MaxCompactionLagMS. It reports whether it did.
func (l *Log) RollForCompaction() (bool, error) {
	if err := l.Err(); err != nil {
		return false, err
	}
	now := l.clock()
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.config.Load()
	st := l.active().state()
	if l.closed.Load() || !c.Compact || st.size == 0 || st.firstTimestamp <= 0 ||
		now-st.firstTimestamp <= c.MaxCompactionLagMS {
		return false, nil
	}
	if err := l.rollLocked(l.end.Load(), "max.compaction.lag.ms", now); err != nil {
		return false, fmt.Errorf("roll %s for compaction: %w", l.tp, err)
	}
	return true, nil
}

// LastRecord is what must be kept of a producer so that its next batch is judged right.
type LastRecord struct {
	DataOffset int64 // last offset of its last batch with sequences, -1 if none is known
	Epoch      int16
}

// Cleaning is the rewriting of a log's sealed segments. One at a time is open for each log; what
// else happens to the log goes on. It is for one goroutine.
type Cleaning struct {
	log     *Log
	list    []*segment // the log's at the start, acquired; the active one is left out
	info    []SegmentInfo
	rewinds int64 // of the log at the start
	buf     []byte
}

// StartCleaning makes sure that everything below upTo is on the disk, since what is removed must
// have its replacement there, and opens a Cleaning of the segments that begin below upTo.
func (l *Log) StartCleaning(ctx context.Context, upTo int64) (*Cleaning, error) {
	if err := l.Err(); err != nil {
		return nil, err
	}
	if !l.cleaning.CompareAndSwap(false, true) {
		return nil, fmt.Errorf("compact %s: %w", l.tp, ErrCleaningBusy)
	}
	c := &Cleaning{log: l, rewinds: l.rewinds.Load()}
	if err := l.syncTo(ctx, min(upTo, l.end.Load())); err != nil {
		c.Close()
		return nil, err
	}
	list := *l.segments.Load()
	for i, s := range list[:max(0, len(list)-1)] {
		if s.base >= upTo {
			break
		}
		if !s.acquire() {
			c.Close()
			return nil, c.void()
		}
		c.list = append(c.list, s)
		c.info = append(c.info, s.info(list[i+1].base))
	}
	return c, nil
}

// Close ends the cleaning. Files that replaced nothing are gone already.
func (c *Cleaning) Close() {
	for _, s := range c.list {
		s.release()
	}
	c.list = nil
	c.log.cleaning.Store(false)
}

// Segments describes the sealed segments, in order. They are named by their index here.
func (c *Cleaning) Segments() []SegmentInfo { return c.info }

func (c *Cleaning) void() error {
	return fmt.Errorf("compact %s: %w", c.log.tp, ErrCleaningVoid)
}

// check returns why going on is of no use, or nil.
func (c *Cleaning) check() error {
	if c.log.rewinds.Load() != c.rewinds || c.log.closed.Load() {
		return c.void()
	}
	return c.log.owner.failure()
}

// LastRecords returns what the producers known now wrote last.
func (c *Cleaning) LastRecords() map[int64]LastRecord {
	l := c.log
	l.mu.Lock()
	defer l.mu.Unlock()
	last := make(map[int64]LastRecord, len(l.mu.producers))
	for id, p := range l.mu.producers {
		r := LastRecord{DataOffset: -1, Epoch: p.epoch}
		if p.n > 0 {
			r.DataOffset = p.marks[p.n-1].lastOffset
		}
		last[id] = r
	}
	return last
}

// EachBatch calls fn for the batches of segment i from the one that holds offset from on. The CRC
// of each was checked; the bytes are valid until fn returns. pace is told how many bytes were read.
func (c *Cleaning) EachBatch(i int, from int64, bufferSize int, pace func(int) error,
	fn func(record.Batch) error) error {
	err := c.eachBatch(c.list[i], from, bufferSize, pace, fn)
	if err == nil {
		return nil
	}
	if void := c.check(); void != nil {
		return void
	}
	return fmt.Errorf("compact %s: %w", c.log.tp, err)
}

func (c *Cleaning) eachBatch(s *segment, from int64, bufferSize int, pace func(int) error,
	fn func(record.Batch) error) error {
	size := s.state().size
	pos, err := s.positionOf(from, size)
	if err != nil {
		return err
	}
	if len(c.buf) < bufferSize {
		c.buf = make([]byte, bufferSize)
	}
	minOffset := s.base
	for pos < size {
		if err := c.check(); err != nil {
			return err
		}
		n, err := s.log.ReadAt(c.buf[:min(int64(len(c.buf)), size-pos)], pos)
		if err != nil && err != io.EOF {
			return fmt.Errorf("read %s at %d: %w", s.log.Name(), pos, err)
		}
		if err := pace(n); err != nil {
			return err
		}
		used, err := splitBatches(c.buf[:n], pos, size, &minOffset, fn)
		if err != nil {
			return fmt.Errorf("%s: %w", s.log.Name(), err)
		}
		pos += int64(used)
		if used == 0 { // a batch larger than the buffer: its length was compared with the file
			c.buf = make([]byte, record.Batch(c.buf).Len())
		}
	}
	return nil
}

// positionOf returns where the first batch that reaches offset begins, size if none does.
func (s *segment) positionOf(offset, size int64) (int64, error) {
	if offset <= s.base {
		return 0, nil
	}
	w := newHeaderWalk(s.log, 0, size, s.base)
	defer w.close()
	var h batchHeader
	found, err := s.seek(&w, &h, offset)
	if err != nil || !found {
		return size, s.readError(err)
	}
	return w.pos - h.size, nil
}

// splitBatches calls fn for the whole batches at the head of b, which is at pos of a file of size
// bytes, and returns how many bytes they take.
func splitBatches(b []byte, pos, size int64, minOffset *int64, fn func(record.Batch) error,
) (int, error) {
	used := 0
	for len(b)-used >= record.HeaderSize {
		batch := record.Batch(b[used:])
		var h batchHeader
		h.read(batch)
		at := pos + int64(used)
		if err := h.check(batch.Magic(), size-at, *minOffset); err != nil {
			return used, fmt.Errorf("%w: at %d: %w", ErrCorrupt, at, err)
		}
		if h.size > int64(len(b)-used) {
			return used, nil
		}
		batch = batch[:h.size:h.size]
		if err := batch.CheckCRC(); err != nil {
			return used, fmt.Errorf("%w: at %d: %w", ErrCorrupt, at, err)
		}
		if err := fn(batch); err != nil {
			return used, err
		}
		*minOffset = h.nextOffset()
		used += int(h.size)
	}
	if used == 0 && int64(len(b)) == size-pos {
		return 0, fmt.Errorf("%w: %d bytes left at %d", ErrCorrupt, len(b), pos)
	}
	return used, nil
}

// CleanWriter takes the batches of a segment that is to replace others.
type CleanWriter struct {
	cleaning *Cleaning
	segment  *segment
	interval int64
	buf      []byte
}

// Append adds whole batches; they are copied.
func (w *CleanWriter) Append(b []byte) error {
	w.buf = append(w.buf, b...)
	if len(w.buf) < cleanWriteBytes {
		return nil
	}
	return w.flush()
}

// cleanWriteBytes is how much a CleanWriter collects before it writes, in bytes.
const cleanWriteBytes = 256 << 10

func (w *CleanWriter) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	if err := w.cleaning.log.owner.room(len(w.buf)); err != nil {
		return err
	}
	if err := w.segment.write(w.buf); err != nil {
		return err
	}
	w.segment.added(w.buf, w.interval)
	w.buf = w.buf[:0]
	return nil
}

// Replace puts one segment with what fill appends in the place of the segments [first, first+n). A
// crash leaves the log with all of those or with the new one. Nothing is changed after an error,
// unless it is ErrDirFailed.
func (c *Cleaning) Replace(first, n int, fill func(w *CleanWriter) error) error {
	err := c.replace(c.list[first:first+n], fill)
	if err == nil {
		return nil
	}
	if isRefused(err) {
		err = refused(err)
	}
	return fmt.Errorf("replace %d segments of %s from %d: %w", n, c.log.tp, c.info[first].Base, err)
}

func (c *Cleaning) replace(old []*segment, fill func(w *CleanWriter) error) error {
	l := c.log
	s, err := openNamedSegment(l.fsys, l.dir(), old[0].base, l.clock(), suffixCleaned)
	if err != nil {
		return err
	}
	if err := s.mu.aborts.create(l.fsys); err != nil {
		return errors.Join(err, s.removeNamed(suffixCleaned))
	}
	w := &CleanWriter{cleaning: c, segment: s, interval: int64(l.config.Load().IndexIntervalBytes)}
	err = fill(w)
	if err == nil {
		err = w.flush()
	}
	if err == nil {
		err = s.seal()
	}
	if err == nil {
		if err = s.sync(); errors.Is(err, vfs.ErrUnsynced) {
			l.owner.fail(err)
			return l.owner.failure()
		}
	}
	if err == nil {
		err = l.owner.voidJournal() // a start must not write old bytes into the new file
	}
	if err == nil {
		err = c.swapIn(old, s)
	}
	if err != nil && !errors.Is(err, ErrDirFailed) {
		err = errors.Join(err, s.removeNamed(suffixCleaned))
	}
	return err
}

// AbortedRange is an aborted transaction as the transaction index keeps it.
type AbortedRange struct {
	ProducerID       int64
	FirstOffset      int64 // of the transaction
	LastOffset       int64 // of its marker
	LastStableOffset int64 // when the marker was written
}

// Aborted returns the aborted transactions that have records in [from, upTo).
func (c *Cleaning) Aborted(from, upTo int64) ([]AbortedRange, error) {
	entries, err := c.log.abortedEntries(from, upTo)
	if errors.Is(err, ErrOffsetOutOfRange) {
		return nil, c.void()
	}
	var found []AbortedRange
	for _, a := range entries {
		found = append(found, AbortedRange{ProducerID: a.producerID, FirstOffset: a.firstOffset,
			LastOffset: a.lastOffset, LastStableOffset: a.lastStableOffset})
	}
	return found, err
}

// AppendAborted adds a transaction, whose marker was appended last, to the index of the segment.
func (w *CleanWriter) AppendAborted(a AbortedRange) {
	w.segment.addAborted(abortedTxn{producerID: a.ProducerID, firstOffset: a.FirstOffset,
		lastOffset: a.LastOffset, lastStableOffset: a.LastStableOffset})
}
