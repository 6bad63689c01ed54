package record

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/s2"
)

// Xerial framing, what snappy-java and so every Kafka client writes:
//
//	magic 82 'SNAPPY' 00 | version int32 | lowest compatible version int32 | { length int32 block }*
const (
	xerialHeaderSize = 16
	xerialChunk      = 32 << 10 // bytes of input per block, as snappy-java's default
	// snappyMaxRatio bounds what a block can claim: its densest element is 3 bytes for 64.
	snappyMaxRatio = 22
)

var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

func compressSnappy(dst, src []byte) []byte {
	dst = append(dst, xerialMagic...)
	dst = binary.BigEndian.AppendUint32(dst, 1)
	dst = binary.BigEndian.AppendUint32(dst, 1)
	for len(src) > 0 {
		chunk := src[:min(len(src), xerialChunk)]
		src = src[len(chunk):]
		at := len(dst)
		dst = slices.Grow(dst, 4+s2.MaxEncodedLen(len(chunk)))
		block := s2.EncodeSnappy(dst[at+4:cap(dst)], chunk)
		dst = dst[:at+4+len(block)]
		binary.BigEndian.PutUint32(dst[at:], uint32(len(block)))
	}
	return dst
}

func decompressSnappy(dst, src []byte, limit int) ([]byte, error) {
	if !bytes.HasPrefix(src, xerialMagic) {
		return decodeSnappyBlock(dst, src, limit)
	}
	if len(src) < xerialHeaderSize {
		return dst, ErrCorrupt
	}
	start := len(dst)
	src = src[xerialHeaderSize:]
	dst = slices.Grow(dst, xerialPlain(src, limit))
	for len(src) > 0 {
		block, rest, err := cutXerial(src)
		if err != nil {
			return dst, err
		}
		dst, err = decodeSnappyBlock(dst, block, limit-(len(dst)-start))
		if err != nil {
			return dst, err
		}
		src = rest
	}
	return dst, nil
}

// xerialPlain is what blocks say they decode to, as far as that can be: room to make at once, so
// that the blocks need not be moved as they come.
func xerialPlain(src []byte, limit int) (size int) {
	for {
		block, rest, err := cutXerial(src)
		if err != nil {
			return size // the blocks before; the walk tells what is wrong
		}
		n, err := s2.DecodedLen(block)
		if err != nil || n > snappyMaxRatio*len(block) || n > limit-size {
			return size
		}
		size, src = size+n, rest
	}
}

// cutXerial cuts the first block off the blocks of xerial framing; io.EOF after the last one.
func cutXerial(src []byte) (block, rest []byte, err error) {
	if len(src) == 0 {
		return nil, nil, io.EOF
	}
	if len(src) < 4 {
		return nil, nil, ErrCorrupt
	}
	size := int64(binary.BigEndian.Uint32(src))
	src = src[4:]
	if size > int64(len(src)) {
		return nil, nil, fmt.Errorf("snappy block of %d bytes, %d are left: %w",
			size, len(src), ErrCorrupt)
	}
	return src[:size], src[size:], nil
}

// decodeSnappyBlock appends one block. The block says its decoded length first, so the limit holds
// before anything is allocated.
func decodeSnappyBlock(dst, block []byte, limit int) ([]byte, error) {
	size, err := s2.DecodedLen(block)
	if err != nil {
		return dst, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if size > limit {
		return dst, ErrTooLarge
	}
	if size > snappyMaxRatio*len(block) {
		return dst, fmt.Errorf("snappy block of %d bytes claims %d: %w", len(block), size, ErrCorrupt)
	}
	at := len(dst)
	dst = slices.Grow(dst, size)
	out, err := s2.Decode(dst[at:at+size:at+size], block)
	if err != nil {
		return dst, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if size > 0 && &out[0] != &dst[:at+1][at] {
		return append(dst, out...), nil
	}
	return dst[:at+size], nil
}
