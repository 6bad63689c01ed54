package storage

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/vfs"
)

// recoveryBuffer is how much a recovery scan reads at once, in bytes. It bounds the memory of a
// scan whatever lengths the file claims.
const recoveryBuffer = 256 << 10

// recovered is what a scan found.
type recovered struct {
	size    int64     // bytes of whole, intact batches
	torn    int64     // bytes behind them
	zero    bool      // those are all zero: preallocated or never written
	cause   error     // why the scan stopped before the end of the file
	epochs  epochList // leader epochs as they changed
	batches int
	// disorder says that the last batch lies beyond a gap, and is followed by an intact one whose
	// offsets are right without it: the last one's offset, which no CRC covers, has changed.
	disorder bool
}

// recover reads the whole file, checks every CRC, rebuilds state and indexes, and cuts what follows
// the last intact batch if mayCut allows it (its error is returned). The index of aborted
// transactions is left to Log.rebuildProducers, since a transaction may begin in an older segment.
// Running it again changes nothing.
func (s *segment) recover(indexInterval int64, progress *progress,
	mayCut func(recovered) error) (recovered, error) {
	fileSize, err := s.log.Size()
	if err != nil {
		return recovered{}, fmt.Errorf("size of %s: %w", s.log.Name(), err)
	}
	scan := batchScan{file: s.log, size: fileSize, buf: make([]byte, recoveryBuffer)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.clearLocked(); err != nil {
		return recovered{}, err
	}
	s.mu.aborts.stale = true
	s.checks.cut(0) // all is looked at here
	var res recovered
	unbroken := s.mu.next // where the next batch would be if the last one had left no gap
	for {
		var h batchHeader
		more, err := scan.next(&h, s.mu.next)
		if err != nil && !errors.Is(err, errTorn) {
			return res, err
		}
		if err != nil || !more {
			res.cause = err
			break
		}
		res.epochs = res.epochs.extend(h.leaderEpoch, h.baseOffset)
		unbroken = s.mu.next + int64(h.lastOffsetDelta) + 1
		s.addLocked(&h, indexInterval)
		res.batches++
		progress.read(h.size)
	}
	res.size, res.torn = s.mu.size, fileSize-s.mu.size
	if res.torn == 0 {
		return res, nil
	}
	if res.zero, err = scan.zeroFrom(res.size); err != nil {
		return res, err
	}
	var h batchHeader
	more, err := scan.next(&h, 0)
	if err != nil && !errors.Is(err, errTorn) {
		return res, err
	}
	res.disorder = more && err == nil && h.baseOffset == unbroken && unbroken < s.mu.next
	if err := mayCut(res); err != nil {
		return res, err
	}
	if err := s.log.Truncate(res.size); err != nil {
		return res, fmt.Errorf("truncate %s to %d: %w", s.log.Name(), res.size, err)
	}
	return res, nil
}

// clearLocked empties state and indexes, but not the log file nor the aborted transactions.
func (s *segment) clearLocked() error {
	s.resetState()
	err := errors.Join(empty(s.mu.offsets.file), empty(s.mu.times.file))
	if err != nil {
		return fmt.Errorf("empty the indexes of segment %d in %s: %w", s.base, s.dir, err)
	}
	return nil
}

// rebuildIndexes sets state and indexes from the headers in the first size bytes of the file.
func (s *segment) rebuildIndexes(size, indexInterval int64) error {
	w := newHeaderWalk(s.log, 0, size, s.base)
	defer w.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.clearLocked(); err != nil {
		return err
	}
	var h batchHeader
	for {
		found, err := w.next(&h)
		if err != nil || !found {
			return err
		}
		s.addLocked(&h, indexInterval)
	}
}

// load sets the state from the indexes and the tail of the file, without reading the rest. errTorn
// says that the files do not fit together: see recover. The segment is active afterwards.
func (s *segment) load() error {
	if err := s.loadState(); err != nil {
		return err
	}
	if err := s.checkLastTime(); err != nil {
		return err
	}
	s.checks.from.Store(s.mu.size)
	err := s.mu.aborts.load(s.base, s.mu.next)
	s.mu.aborts.stale = errors.Is(err, errTorn)
	if s.mu.aborts.stale {
		return nil
	}
	return err
}

// checkLastTime compares the last time index entry, which retention trusts, with its batch.
func (s *segment) checkLastTime() error {
	last := s.mu.times.last
	if last.timestamp < 0 {
		return nil
	}
	w := newHeaderWalk(s.log, 0, s.mu.size, s.base)
	defer w.close()
	var h batchHeader
	found, err := s.seek(&w, &h, s.base+int64(last.rel))
	if err != nil {
		return err
	}
	if !found || h.lastOffset() != s.base+int64(last.rel) || h.maxTimestamp != last.timestamp {
		return fmt.Errorf("%w: the last entry of %s names no batch", errTorn,
			s.mu.times.file.Name())
	}
	return nil
}

func (s *segment) loadState() error {
	size, err := s.log.Size()
	if err != nil {
		return fmt.Errorf("size of %s: %w", s.log.Name(), err)
	}
	w := newHeaderWalk(s.log, 0, size, s.base)
	defer w.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resetState()
	if err := errors.Join(s.mu.offsets.load(), s.mu.times.load()); err != nil {
		return err
	}
	if err := s.checkIndexesLocked(size); err != nil {
		return err
	}
	var h batchHeader
	if found, err := w.next(&h); err != nil || !found {
		return err
	}
	s.mu.firstTimestamp = max(h.maxTimestamp, -1)
	w.pos, w.min = 0, s.base
	if n := s.mu.offsets.count; n > 0 {
		w.pos = int64(s.mu.offsets.entries[n-1].pos)
	}
	s.mu.size = w.pos
	s.mu.maxTimestamp = s.mu.times.last.timestamp
	s.mu.maxTimestampOffset = s.base + int64(s.mu.times.last.rel)
	return s.walkTailLocked(&w)
}

// walkTailLocked walks from the last index entry to the end of the file.
func (s *segment) walkTailLocked(w *headerWalk) error {
	first := w.pos
	for {
		var h batchHeader
		pos := w.pos
		found, err := w.next(&h)
		if err != nil || !found {
			s.mu.sinceIndex = s.mu.size - first
			return err
		}
		if n := s.mu.offsets.count; pos == first && n > 0 &&
			h.lastOffset()-s.base != int64(s.mu.offsets.entries[n-1].rel) {
			return fmt.Errorf("%w: the last entry of %s names offset %d, the log has %d", errTorn,
				s.mu.offsets.file.Name(), s.mu.offsets.entries[n-1].rel, h.lastOffset())
		}
		if h.latest() > s.mu.maxTimestamp {
			s.mu.maxTimestamp, s.mu.maxTimestampOffset = h.latest(), h.lastOffset()
		}
		s.mu.size, s.mu.next = w.pos, h.nextOffset()
	}
}

// checkIndexesLocked checks the invariants of the loaded indexes against a log of size bytes.
func (s *segment) checkIndexesLocked(size int64) error {
	offsetsSize, err1 := s.mu.offsets.file.Size()
	timesSize, err2 := s.mu.times.file.Size()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if offsetsSize%offsetEntrySize != 0 || timesSize%timeEntrySize != 0 {
		return fmt.Errorf("%w: index sizes %d and %d in %s", errTorn, offsetsSize, timesSize, s.dir)
	}
	prev := offsetEntry{}
	for i, e := range s.mu.offsets.entries {
		if int64(e.pos) >= size || e.pos <= prev.pos || i > 0 && e.rel <= prev.rel {
			return fmt.Errorf("%w: entry %d of %s", errTorn, i, s.mu.offsets.file.Name())
		}
		prev = e
	}
	last := timeEntry{timestamp: -1}
	for i, e := range s.mu.times.entries {
		if e.timestamp <= last.timestamp || e.rel < last.rel {
			return fmt.Errorf("%w: entry %d of %s", errTorn, i, s.mu.times.file.Name())
		}
		last = e
	}
	if s.mu.times.count == 0 && size > 0 {
		return fmt.Errorf("%w: %s is empty", errTorn, s.mu.times.file.Name())
	}
	return nil
}

// batchScan reads whole batches and checks their CRC, in bounded memory.
type batchScan struct {
	file   vfs.File
	pos    int64 // of the next batch
	size   int64 // of the file
	buf    []byte
	bufPos int64
	bufLen int64
}

// next checks the batch at pos, whose offsets must be minOffset or more. It returns false at the
// end of the file and errTorn if no intact batch is there.
func (b *batchScan) next(h *batchHeader, minOffset int64) (bool, error) {
	if b.pos == b.size {
		return false, nil
	}
	if b.size-b.pos < record.HeaderSize {
		return false, fmt.Errorf("%w: %d bytes left", errTorn, b.size-b.pos)
	}
	head, err := b.bytes(b.pos, record.HeaderSize)
	if err != nil {
		return false, err
	}
	h.read(record.Batch(head))
	if err := h.check(record.Batch(head).Magic(), b.size-b.pos, minOffset); err != nil {
		return false, err
	}
	want := record.Batch(head).CRC()
	sum := crc32.Update(0, castagnoli, head[crcFrom:])
	for at, end := b.pos+record.HeaderSize, b.pos+h.size; at < end; {
		part, err := b.bytes(at, min(end-at, recoveryBuffer/2))
		if err != nil {
			return false, err
		}
		sum = crc32.Update(sum, castagnoli, part)
		at += int64(len(part))
	}
	if sum != want {
		return false, fmt.Errorf("%w: CRC is %08x, want %08x", errTorn, sum, want)
	}
	b.pos += h.size
	return true, nil
}

// crcFrom is the position of the first byte under a batch's CRC.
const crcFrom = 21

// bytes returns n <= len(buf) bytes at pos, valid until the next call.
func (b *batchScan) bytes(pos, n int64) ([]byte, error) {
	if pos < b.bufPos || pos+n > b.bufPos+b.bufLen {
		got, err := b.file.ReadAt(b.buf[:min(int64(len(b.buf)), b.size-pos)], pos)
		if err != nil && !(err == io.EOF && int64(got) >= n) {
			return nil, fmt.Errorf("read %s at %d: %w", b.file.Name(), pos, err)
		}
		b.bufPos, b.bufLen = pos, int64(got)
	}
	return b.buf[pos-b.bufPos:][:n], nil
}

// zeroFrom reports whether all bytes from pos to the end are zero.
func (b *batchScan) zeroFrom(pos int64) (bool, error) {
	for pos < b.size {
		part, err := b.bytes(pos, min(b.size-pos, recoveryBuffer/2))
		if err != nil {
			return false, err
		}
		for _, c := range part {
			if c != 0 {
				return false, nil
			}
		}
		pos += int64(len(part))
	}
	return true, nil
}
