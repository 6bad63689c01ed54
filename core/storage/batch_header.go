package storage

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/vfs"
)

// walkBuffer is how much of a file a header walk reads at once, in bytes: index entries are 4 KiB
// apart, so that one read usually finds what a lookup wants.
const walkBuffer = 8 << 10

// walkBuffers lends the buffers; without it each lookup would allocate one.
var walkBuffers = sync.Pool{New: func() any { return new([walkBuffer]byte) }}

// Bits of a batch's attributes.
const (
	attrTransactional = 1 << 4
	attrControl       = 1 << 5
)

// batchHeader is a batch's header as this package needs it.
type batchHeader struct {
	baseOffset      int64
	size            int64 // whole batch, bytes
	maxTimestamp    int64
	producerID      int64
	leaderEpoch     int32
	lastOffsetDelta int32
	baseSequence    int32
	count           int32 // records; 0 in a batch that compaction emptied
	attributes      int16
	producerEpoch   int16
}

func (h *batchHeader) lastOffset() int64     { return h.baseOffset + int64(h.lastOffsetDelta) }
func (h *batchHeader) nextOffset() int64     { return h.lastOffset() + 1 }
func (h *batchHeader) isControl() bool       { return h.attributes&attrControl != 0 }
func (h *batchHeader) isTransactional() bool { return h.attributes&attrTransactional != 0 }

// latest returns the time of the batch's latest record, -1 if there is none: an emptied batch keeps
// the time of what it had.
func (h *batchHeader) latest() int64 {
	if h.count == 0 {
		return -1
	}
	return h.maxTimestamp
}

// read fills h from the first record.HeaderSize bytes of a batch.
func (h *batchHeader) read(b record.Batch) {
	h.baseOffset = b.BaseOffset()
	h.size = int64(b.Len())
	h.maxTimestamp = b.MaxTimestamp()
	h.producerID = b.ProducerID()
	h.leaderEpoch = b.LeaderEpoch()
	h.lastOffsetDelta = b.LastOffsetDelta()
	h.baseSequence = b.BaseSequence()
	h.count = b.Count()
	h.attributes = b.Attributes()
	h.producerEpoch = b.ProducerEpoch()
}

// errTorn is why the bytes at a position are not a batch. Recovery truncates there.
var errTorn = errors.New("no whole batch")

// check says whether the fields can be those of a batch with left bytes up to the end of the file,
// at or after offset min.
func (h *batchHeader) check(magic int8, left, min int64) error {
	switch {
	case h.size < record.HeaderSize || magic != 2:
		return fmt.Errorf("%w: length %d, magic %d", errTorn, h.size, magic)
	case h.size > left:
		return fmt.Errorf("%w: length %d, but %d bytes left", errTorn, h.size, left)
	case h.lastOffsetDelta < 0 || h.baseOffset < min || h.nextOffset() <= h.baseOffset:
		return fmt.Errorf("%w: offsets %d to %d, want %d or more", errTorn, h.baseOffset,
			h.lastOffset(), min)
	}
	return nil
}

// headerWalk reads batch headers one after another from a segment's file, hopping over records.
type headerWalk struct {
	file    vfs.File
	pos     int64 // of the next header
	limit   int64 // end of the file's whole batches
	min     int64 // smallest offset the next batch may have
	buf     *[walkBuffer]byte
	bufPos  int64 // file position of buf[0]
	bufSize int64 // valid bytes in buf
}

func newHeaderWalk(file vfs.File, pos, limit, min int64) headerWalk {
	return headerWalk{file: file, pos: pos, limit: limit, min: min,
		buf: walkBuffers.Get().(*[walkBuffer]byte)}
}

// close gives the buffer back.
func (w *headerWalk) close() { walkBuffers.Put(w.buf) }

// controlBatch reads the whole control batch whose header next has put into h.
func (w *headerWalk) controlBatch(h *batchHeader) (record.Batch, error) {
	if h.size > maxMarkerSize {
		return nil, fmt.Errorf("%w: control batch of %d bytes at %d of %s", ErrCorrupt, h.size,
			w.pos-h.size, w.file.Name())
	}
	b := make(record.Batch, h.size)
	if n, err := w.file.ReadAt(b, w.pos-h.size); n < len(b) {
		return nil, fmt.Errorf("read %s at %d: %w", w.file.Name(), w.pos-h.size, err)
	}
	return b, nil
}

// next reads the header at pos into h and moves behind its batch. It returns false at limit.
// errTorn says that no batch is there.
func (w *headerWalk) next(h *batchHeader) (bool, error) {
	if w.pos == w.limit {
		return false, nil
	}
	if w.limit-w.pos < record.HeaderSize {
		return false, fmt.Errorf("%w: %d bytes left at %d of %s", errTorn, w.limit-w.pos, w.pos,
			w.file.Name())
	}
	if w.pos < w.bufPos || w.pos+record.HeaderSize > w.bufPos+w.bufSize {
		n, err := w.file.ReadAt(w.buf[:min(walkBuffer, w.limit-w.pos)], w.pos)
		if err != nil && !(err == io.EOF && n >= record.HeaderSize) {
			return false, fmt.Errorf("read %s at %d: %w", w.file.Name(), w.pos, err)
		}
		w.bufPos, w.bufSize = w.pos, int64(n)
	}
	b := record.Batch(w.buf[w.pos-w.bufPos:][:record.HeaderSize])
	h.read(b)
	if err := h.check(b.Magic(), w.limit-w.pos, w.min); err != nil {
		return false, fmt.Errorf("%s at %d: %w", w.file.Name(), w.pos, err)
	}
	w.pos += h.size
	w.min = h.nextOffset()
	return true, nil
}
