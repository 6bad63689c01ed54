package record

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Recode appends b with its records compressed by another codec to dst and returns the batch.
// Everything else, the records' encoding too, stays as it is. What compressed records claim and
// hold is checked as Scan does; limit bounds their size in bytes (ErrTooLarge). Like Scan it waits
// while GOMAXPROCS others decompress.
func (b Batch) Recode(dst []byte, c Codec, level int, limit int) (Batch, error) {
	if len(b) < HeaderSize {
		return nil, ErrShort
	}
	scans <- struct{}{}
	defer func() { <-scans }()
	plain, buf := b, (*[]byte)(nil)
	if b.Codec() != None {
		buf = takePlain()
		defer plainBuffers.Put(buf)
		*buf = append((*buf)[:0], b[:HeaderSize]...)
		var err error
		if *buf, err = b.Codec().Decompress(*buf, b[HeaderSize:], limit); err != nil {
			return nil, fmt.Errorf("batch at offset %d: %w", b.BaseOffset(), err)
		}
		plain = Batch(*buf)
		plain.setCodec(None)
	}
	if err := plain.scanPlain(limit, func(Meta) bool { return true }); err != nil {
		return nil, err
	}
	start := len(dst)
	dst = append(dst, plain[:HeaderSize]...)
	dst, err := c.CompressLevel(dst, plain[HeaderSize:], level)
	if err != nil {
		return nil, fmt.Errorf("compress the batch at offset %d: %w", b.BaseOffset(), err)
	}
	if len(dst)-start > math.MaxInt32 {
		return nil, fmt.Errorf("batch of %d bytes: %w", len(dst)-start, ErrTooLarge)
	}
	out := Batch(dst[start:])
	out.setCodec(c)
	out.UpdateCRC()
	return out, nil
}

// setCodec notes the codec and the length of b in its header. The CRC is not renewed.
func (b Batch) setCodec(c Codec) {
	attrs := uint16(b.Attributes())&^attrCodec | uint16(c)
	binary.BigEndian.PutUint16(b[posAttributes:], attrs)
	binary.BigEndian.PutUint32(b[posLength:], uint32(len(b)-lengthOverhead))
}
