package fsck

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/vfs"
)

const (
	// chunk is how much of a file is read at once while a batch is not trusted yet.
	chunk = 256 << 10
	// maxRecords bounds the records of one batch, decompressed.
	maxRecords = 1 << 30
	// crcFrom is the first byte under a batch's CRC, magicAt that of the magic.
	crcFrom, magicAt = 21, 16
	// lengthOverhead is what the length field does not count.
	lengthOverhead = 12
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// segment is the check of one .log file.
type segment struct {
	*partition
	path string
	base int64
	file vfs.File
	size int64
	last bool // the partition's last one
	// dirty says that a crash may have left it: its end may be torn and its indexes behind.
	dirty bool

	buf     []byte
	offsets offsetIndex
	times   timeIndex
	aborts  txnIndex
}

// header is what the check needs of a batch's header.
type header struct {
	pos, size  int64
	baseOffset int64
	lastOffset int64
}

func (p *partition) segment(i int) {
	base := p.bases[i]
	s := &segment{
		partition: p, base: base, last: i+1 == len(p.bases),
		path: filepath.Join(p.dir, fmt.Sprintf("%020d%s", base, suffixLog)),
	}
	// One that ends at the recovery point is read again too: its indexes may not have been synced.
	s.dirty = !p.clean && (s.last || p.bases[i+1] >= p.recoveryPoint)
	p.summary.Segments++
	if p.known && base != p.next {
		s.gap(-1, base)
	}
	p.next, p.known = max(p.next, base), true
	var err error
	if s.file, err = p.opts.FS.OpenFile(s.path, vfs.ReadOnly, 0); err != nil {
		p.unreadable(s.path, err)
		return
	}
	defer func() { _ = s.file.Close() }() // nothing was written
	if s.size, err = s.file.Size(); err != nil {
		p.unreadable(s.path, err)
		return
	}
	s.offsets.load(s)
	s.times.load(s)
	s.aborts.load(s)
	s.batches()
	s.offsets.finish(s)
	s.times.finish(s)
	s.aborts.finish(s)
}

// gap reports offsets that are missing before offset at, or that come twice.
func (s *segment) gap(position, at int64) {
	switch {
	case at < s.next:
		s.damage(s.path, position, doRestore, "offset %d comes again, the log is at %d already", at,
			s.next)
	case s.compacted(at):
	case !s.clean && s.next >= s.recoveryPoint:
		s.note(s.path, position, doNothing, "offsets %d to %d are missing before this, and were not "+
			"synced", s.next, at-1)
		s.lost = true
	default:
		s.damage(s.path, position, doRestore+"; nothing is wrong if the topic was compacted once",
			"offsets %d to %d are missing before this", s.next, at-1)
	}
}

// compacted reports whether compaction may have taken offsets away before offset at. It writes its
// checkpoint last: after a crash, segments above that are compacted too, but never the active one.
// Below the first offset of that one all may be gone.
func (s *segment) compacted(at int64) bool {
	return at <= s.cleanedTo || s.cleanedTo >= 0 && (!s.last || at == s.base)
}

// batches reads the batches from the first to the end, or to where there is none.
func (s *segment) batches() {
	s.buf = make([]byte, min(chunk, max(s.size, record.HeaderSize)))
	for pos := int64(0); pos < s.size; {
		if s.ctx.Err() != nil {
			return
		}
		h, err := s.header(pos)
		if err != nil {
			s.torn(pos, err)
			return
		}
		s.batch(h)
		pos += h.size
	}
	s.summary.Bytes += s.size
}

// header reads the header at pos and checks what must be right for the next one to be found.
func (s *segment) header(pos int64) (header, error) {
	if s.size-pos < record.HeaderSize {
		return header{}, fmt.Errorf("%d bytes are no batch", s.size-pos)
	}
	b := record.Batch(s.buf[:record.HeaderSize])
	if err := readFull(s.file, b, pos); err != nil {
		return header{}, err
	}
	h := header{
		pos: pos, baseOffset: b.BaseOffset(), lastOffset: b.LastOffset(),
		size: int64(int32(binary.BigEndian.Uint32(b[8:]))) + lengthOverhead,
	}
	switch {
	case b.Magic() != 2:
		return h, fmt.Errorf("magic is %d, want 2", b.Magic())
	case h.size < record.HeaderSize || h.size > s.size-pos:
		return h, fmt.Errorf("batch of %d bytes, %d are left", h.size, s.size-pos)
	}
	return h, nil
}

func readFull(f io.ReaderAt, b []byte, at int64) error {
	n, err := f.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	return fmt.Errorf("read %d bytes at %d: %w", len(b), at, errors.Join(err, io.ErrUnexpectedEOF))
}

// torn reports that no batch is at pos. A crash leaves such an end of what was not synced.
func (s *segment) torn(pos int64, cause error) {
	s.lost = true
	if s.dirty && s.next >= s.recoveryPoint {
		s.note(s.path, pos, doNothing, "the last %d bytes are no batch: %v", s.size-pos, cause)
		return
	}
	s.damage(s.path, pos, doRestore, "no batch is here, and %d bytes cannot be read: %v", s.size-pos,
		cause)
}

// batch checks one batch and holds everything else against it.
func (s *segment) batch(h header) {
	s.summary.Batches++
	b, ok := s.intact(h)
	if !ok {
		s.next = max(s.next, h.lastOffset+1)
		return
	}
	if h.baseOffset != s.next {
		s.gap(h.pos, h.baseOffset)
	}
	if h.lastOffset < h.baseOffset {
		s.damage(s.path, h.pos, doRestore, "last offset delta is %d", b.LastOffsetDelta())
		return
	}
	for len(s.snapshots) > 0 && s.snapshots[0] <= h.baseOffset {
		at := s.snapshots[0]
		s.snapshots = s.snapshots[1:]
		s.snapshot(at)
	}
	s.next = h.lastOffset + 1
	s.epoch(h, b.LeaderEpoch())
	s.records(h, b)
	s.offsets.batch(h)
	s.times.batch(h, b.MaxTimestamp(), b.Count() == 0)
	if b.ProducerID() >= 0 {
		s.producer(h, b)
	}
	if s.opts.Batch != nil {
		if err := s.opts.Batch(s.name, b); err != nil {
			s.damage(s.path, h.pos, doRestore, "%v", err)
		}
	}
}

// intact reads a batch whose CRC is right. Memory for a large one is taken only once it is.
func (s *segment) intact(h header) (record.Batch, bool) {
	want := record.Batch(s.buf[:record.HeaderSize]).CRC()
	sum, end := uint32(0), h.pos+h.size
	for at := h.pos; at < end; {
		part := s.buf[:min(chunk, end-at)]
		if err := readFull(s.file, part, at); err != nil {
			s.unreadable(s.path, err)
			return nil, false
		}
		if skip := h.pos + crcFrom - at; skip > 0 {
			sum = crc32.Update(sum, castagnoli, part[skip:])
		} else {
			sum = crc32.Update(sum, castagnoli, part)
		}
		at += int64(len(part))
	}
	if sum != want {
		s.crc(h, want, sum)
		return nil, false
	}
	if h.size <= chunk {
		return record.Batch(s.buf[:h.size]), true
	}
	b := make(record.Batch, h.size)
	if err := readFull(s.file, b, h.pos); err != nil {
		s.unreadable(s.path, err)
		return nil, false
	}
	return b, true
}

// crc reports a batch whose bytes have changed: damage, unless it was never synced.
func (s *segment) crc(h header, want, sum uint32) {
	s.lost = true
	if s.dirty && s.next >= s.recoveryPoint {
		s.note(s.path, h.pos, doNothing, "batch at offset %d has CRC %08x, its bytes give %08x, and "+
			"was not synced", h.baseOffset, want, sum)
		return
	}
	s.damage(s.path, h.pos, doRestore, "batch at offset %d has CRC %08x, its bytes give %08x",
		h.baseOffset, want, sum)
}

// epoch checks a batch's leader epoch, which its CRC does not cover.
func (s *segment) epoch(h header, epoch int32) {
	if epoch < s.lastEpoch {
		s.damage(s.path, h.pos, doRestore, "leader epoch %d follows %d", epoch, s.lastEpoch)
	}
	s.lastEpoch = max(s.lastEpoch, epoch)
	want := s.epochAt(h.baseOffset)
	deleted := want < 0 && h.baseOffset < s.start // its epoch is forgotten with its records
	if !s.hasEpochs || epoch < 0 || want == epoch || deleted {
		s.wrongEpoch = epochLine{epoch: -1}
		return
	}
	if wrong := (epochLine{epoch, int64(want)}); wrong != s.wrongEpoch {
		s.wrongEpoch = wrong // reported for the first of a row
		s.afterCrash(s.path, h.pos, "with the broker stopped, remove "+fileEpochs+
			": the next start makes it anew from the log",
			"leader epoch %d at offset %d, %s has %d", epoch, h.baseOffset, fileEpochs, want)
	}
}

// records checks every record of a batch, decompressed.
func (s *segment) records(h header, b record.Batch) {
	count, last := int32(0), h.baseOffset-1
	err := b.Each(maxRecords, func(r *record.Record) error {
		if r.Offset <= last || r.Offset > h.lastOffset {
			return fmt.Errorf("record %d has offset %d, after %d and in a batch up to %d", count,
				r.Offset, last, h.lastOffset)
		}
		last = r.Offset
		count++
		return nil
	})
	s.summary.Records += int64(count)
	if err != nil {
		s.damage(s.path, h.pos, doRestore, "batch at offset %d: %v", h.baseOffset, err)
		return
	}
	if span := h.lastOffset - h.baseOffset + 1; int64(count) != span && !s.compacted(h.lastOffset) {
		s.damage(s.path, h.pos, doRestore+"; nothing is wrong if the topic was compacted once",
			"batch at offset %d has %d records over %d offsets", h.baseOffset, count, span)
	}
}
