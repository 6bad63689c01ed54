package storage

import (
	"fmt"
	"slices"

	"github.com/millstream-io/millstream/core/vfs"
)

// Chunk is a run of whole batches in one segment file, found by Log.Read. The bytes stay in the
// file until AppendTo or sendfile takes them; Release must be called once, and keeps the file open
// until then also if the segment is deleted. The zero Chunk is empty and needs no Release.
type Chunk struct {
	segment *segment
	span    span
}

// Len returns the size in bytes; 0 if there is nothing to read yet.
func (c *Chunk) Len() int { return int(c.span.size) }

// FirstOffset returns the base offset of the first batch, which may be smaller than the offset
// asked for, since batches are whole.
func (c *Chunk) FirstOffset() int64 { return c.span.first }

// NextOffset returns the offset to read next.
func (c *Chunk) NextOffset() int64 { return c.span.next }

// AppendTo appends the bytes to dst.
func (c *Chunk) AppendTo(dst []byte) ([]byte, error) {
	if c.segment == nil {
		return dst, nil
	}
	n := len(dst)
	dst = slices.Grow(dst, c.Len())[:n+c.Len()]
	if got, err := c.segment.log.ReadAt(dst[n:], c.span.pos); got < c.Len() {
		return dst[:n], fmt.Errorf("read %s at %d: %w", c.segment.log.Name(), c.span.pos, err)
	}
	return dst, nil
}

// File returns the file and the position of the first byte, for sendfile; nil if the chunk is
// empty. The file's own offset must not be used: other readers share it.
func (c *Chunk) File() (vfs.File, int64) {
	if c.segment == nil {
		return nil, 0
	}
	return c.segment.log, c.span.pos
}

// Release gives the file back. The chunk must not be used afterwards.
func (c *Chunk) Release() {
	if c.segment != nil {
		c.segment.release()
		c.segment = nil
	}
}
