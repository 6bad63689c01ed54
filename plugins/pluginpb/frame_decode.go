package pluginpb

import (
	"encoding/binary"
	"fmt"

	"github.com/millstream-io/millstream/core/record"
)

// maxInterned bounds the header names a Decoder keeps to spare an allocation per header.
const maxInterned = 256

// Decoder walks the records of frames. It may be used for one frame after the other; it keeps topic
// and header names, so a long-lived one allocates little.
type Decoder struct {
	rest       []byte
	left       int // records not read yet
	baseTime   int64
	baseOffset int64
	topics     []string
	names      map[string]string // topics and header names seen before
}

// Reset starts on frame; nil is an empty frame. It returns ErrBadFrame or ErrFrameTooLarge.
func (d *Decoder) Reset(frame []byte) error {
	d.rest, d.left, d.topics = nil, 0, d.topics[:0]
	switch {
	case len(frame) == 0:
		return nil
	case len(frame) > MaxFrameBytes:
		return fmt.Errorf("frame of %d bytes: %w", len(frame), ErrFrameTooLarge)
	case len(frame) < FrameHeaderBytes:
		return fmt.Errorf("%w: %d bytes, the header alone has %d", ErrBadFrame, len(frame),
			FrameHeaderBytes)
	case binary.BigEndian.Uint16(frame) != frameMagic:
		return fmt.Errorf("%w: magic %#x", ErrBadFrame, frame[:2])
	case frame[2] != frameVersion || frame[3] != 0:
		return fmt.Errorf("%w: version %d, flags %#x", ErrBadFrame, frame[2], frame[3])
	}
	count := binary.BigEndian.Uint32(frame[4:])
	rest := frame[FrameHeaderBytes:]
	if count == 0 || uint64(count) > uint64(len(rest)/MinRecordBytes) {
		return fmt.Errorf("%w: %d records in %d bytes", ErrBadFrame, count, len(rest))
	}
	d.rest, d.left = rest, int(count)
	d.baseTime = int64(binary.BigEndian.Uint64(frame[8:]))
	d.baseOffset = int64(binary.BigEndian.Uint64(frame[16:]))
	return nil
}

// Left is the number of records Next has not returned yet.
func (d *Decoder) Left() int { return d.left }

// Next reads the next record into r, reusing r.Headers. Key and values alias the frame. more is
// false after the last record. The error is ErrBadFrame.
func (d *Decoder) Next(r *Record) (more bool, err error) {
	if d.left == 0 {
		if len(d.rest) != 0 {
			return false, fmt.Errorf("%w: %d bytes after the last record", ErrBadFrame, len(d.rest))
		}
		return false, nil
	}
	c := cursor{b: d.rest}
	r.Topic = d.topic(&c)
	partition := c.varint()
	if partition < -1<<31 || partition > 1<<31-1 {
		c.bad = true
	}
	r.Partition = int32(partition)
	r.Timestamp = d.baseTime + c.varint()
	r.Offset = d.baseOffset + c.varint()
	r.Key = c.bytes()
	r.Value = c.bytes()
	r.Headers = d.headers(&c, r.Headers[:0])
	if c.bad {
		at := d.left
		d.left, d.rest = 0, nil
		return false, fmt.Errorf("%w: broken record, %d before the end", ErrBadFrame, at)
	}
	d.rest = c.b
	d.left--
	return true, nil
}

func (d *Decoder) topic(c *cursor) string {
	i := c.uvarint()
	switch {
	case i < uint64(len(d.topics)):
		return d.topics[i]
	case i > uint64(len(d.topics)):
		c.bad = true
		return ""
	}
	n := c.uvarint()
	if n > uint64(len(c.b)) {
		c.bad = true
		return ""
	}
	t := d.intern(c.take(int(n)))
	d.topics = append(d.topics, t)
	return t
}

func (d *Decoder) headers(c *cursor, dst []record.Header) []record.Header {
	n := c.varint()
	if n < 0 || n > int64(len(c.b)/2) { // a header takes two bytes at least
		c.bad = true
		return dst
	}
	for range n {
		k := c.bytes()
		if k == nil {
			c.bad = true
			return dst
		}
		dst = append(dst, record.Header{Key: d.intern(k), Value: c.bytes()})
	}
	return dst
}

func (d *Decoder) intern(b []byte) string {
	if s, ok := d.names[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(d.names) < maxInterned && len(s) <= 256 {
		if d.names == nil {
			d.names = make(map[string]string)
		}
		d.names[s] = s
	}
	return s
}

// Decode reads all records of a frame; they alias it. Memory taken is bounded by the frame's size.
func Decode(frame []byte) ([]Record, error) {
	var d Decoder
	if err := d.Reset(frame); err != nil {
		return nil, err
	}
	return d.All()
}

// All reads the records that are left. They alias the frame.
func (d *Decoder) All() ([]Record, error) {
	records := make([]Record, d.left)
	var arena []record.Header
	for i := range records {
		r := &records[i]
		r.Headers = arena[len(arena):]
		if _, err := d.Next(r); err != nil {
			return nil, err
		}
		if n := len(r.Headers); n == 0 {
			r.Headers = nil
		} else if n <= cap(arena)-len(arena) {
			r.Headers = r.Headers[:n:n]
			arena = arena[:len(arena)+n]
		} else { // moved to a new array: use the room append left there
			arena = r.Headers
			r.Headers = r.Headers[:n:n]
		}
	}
	if _, err := d.Next(&Record{}); err != nil { // nothing may follow
		return nil, err
	}
	return records, nil
}

// cursor reads from the front of b; after the first fault bad is set and all reads return zero
// values.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) uvarint() uint64 {
	v, n := record.ReadUvarint(c.b)
	if n <= 0 {
		c.bad = true
		c.b = nil
		return 0
	}
	c.b = c.b[n:]
	return v
}

func (c *cursor) varint() int64 {
	v, n := record.ReadVarint(c.b)
	if n <= 0 {
		c.bad = true
		c.b = nil
		return 0
	}
	c.b = c.b[n:]
	return v
}

func (c *cursor) take(n int) []byte {
	v := c.b[:n:n]
	c.b = c.b[n:]
	return v
}

func (c *cursor) bytes() []byte {
	n := c.varint()
	if n == -1 {
		return nil
	}
	if n < 0 || n > int64(len(c.b)) {
		c.bad = true
		return nil
	}
	return c.take(int(n))
}
