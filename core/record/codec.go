package record

import (
	"fmt"
	"io"
	"slices"
)

// Codec is the compression of a batch's records, as in bits 0-2 of its attributes.
type Codec int8

// The codecs of the protocol.
const (
	None   Codec = 0
	Gzip   Codec = 1
	Snappy Codec = 2 // xerial framing is written; raw blocks are read too
	Lz4    Codec = 3 // LZ4 frame
	Zstd   Codec = 4
)

var codecNames = [...]string{"none", "gzip", "snappy", "lz4", "zstd"}

// String returns the name used in configurations.
func (c Codec) String() string {
	if !c.Known() {
		return fmt.Sprintf("codec(%d)", int8(c))
	}
	return codecNames[c]
}

// ParseCodec returns the codec of a name: none, gzip, snappy, lz4 or zstd.
func ParseCodec(name string) (Codec, error) {
	if i := slices.Index(codecNames[:], name); i >= 0 {
		return Codec(i), nil
	}
	return None, fmt.Errorf("%q is not one of none, gzip, snappy, lz4, zstd: %w",
		name, ErrUnsupportedCodec)
}

// Known reports whether c is one of the constants above.
func (c Codec) Known() bool { return c >= None && c <= Zstd }

// Compress appends src, compressed, to dst.
func (c Codec) Compress(dst, src []byte) ([]byte, error) {
	switch c {
	case None:
		return append(dst, src...), nil
	case Gzip:
		return compressGzip(dst, src)
	case Snappy:
		return compressSnappy(dst, src), nil
	case Lz4:
		return compressLz4(dst, src)
	case Zstd:
		return compressZstd(dst, src)
	}
	return dst, fmt.Errorf("compress with %v: %w", c, ErrUnsupportedCodec)
}

// Decompress appends src, decompressed, to dst. At most limit bytes are appended, checked while
// they are made, so that a small src cannot become a large allocation: past it the error is
// ErrTooLarge. Bytes that the codec does not understand are ErrCorrupt. On error dst's content
// after its length is undefined.
func (c Codec) Decompress(dst, src []byte, limit int) ([]byte, error) {
	var err error
	switch c {
	case None:
		if len(src) > limit {
			err = ErrTooLarge
		} else {
			dst = append(dst, src...)
		}
	case Gzip:
		dst, err = decompressGzip(dst, src, limit)
	case Snappy:
		dst, err = decompressSnappy(dst, src, limit)
	case Lz4:
		dst, err = decompressLz4(dst, src, limit)
	case Zstd:
		dst, err = decompressZstd(dst, src, limit)
	default:
		err = ErrUnsupportedCodec
	}
	if err != nil {
		return dst, fmt.Errorf("decompress %d bytes of %v, limit %d: %w", len(src), c, limit, err)
	}
	return dst, nil
}

// sliceWriter appends what is written to it.
type sliceWriter struct{ buf []byte }

func (w *sliceWriter) Write(p []byte) (int, error) {
	w.buf = append(w.buf, p...)
	return len(p), nil
}

// readAll appends all of r to dst, up to limit bytes. The buffer grows with what arrives, never
// ahead of it by more than its own size, from a first guess by the size of the compressed bytes.
func readAll(dst []byte, r io.Reader, limit, guess int) ([]byte, error) {
	start := len(dst)
	dst = slices.Grow(dst, min(max(guess, 512), limit+1))
	for {
		if len(dst) == cap(dst) {
			dst = slices.Grow(dst, len(dst)-start+512)
		}
		room := dst[len(dst):min(cap(dst), start+limit+1)]
		n, err := r.Read(room)
		dst = dst[:len(dst)+n]
		if len(dst)-start > limit {
			return dst, ErrTooLarge
		}
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return dst, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
	}
}
