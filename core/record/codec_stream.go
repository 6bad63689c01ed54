package record

import (
	"bytes"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Compressors hold large tables, so each kind has a pool: making one per batch would cost more than
// the compression.
var (
	gzipWriters sync.Pool // *gzip.Writer
	gzipReaders sync.Pool // *gzipReader
	lz4Writers  sync.Pool // *lz4.Writer
	lz4Readers  sync.Pool // *lz4Reader
	zstdWriters sync.Pool // *zstd.Encoder
	zstdReaders sync.Pool // *zstdReader
)

// expectedRatio is how much larger than its compressed form a batch is guessed to be. A wrong guess
// costs a growth of the buffer, nothing else.
const expectedRatio = 4

// streamedZstdWindow is what a decoder should support at least (RFC 8878, 3.1.1.1.2), and what one
// that is kept in the pool may hold, in bytes.
const streamedZstdWindow = 8 << 20

const (
	zstdMinWindowLog = 10 // of the smallest window there is
	zstdWindowByte   = 5  // position of the window descriptor: after magic and frame descriptor
)

func compressGzip(dst, src []byte) ([]byte, error) {
	w, _ := gzipWriters.Get().(*gzip.Writer)
	if w == nil {
		w = gzip.NewWriter(nil)
	}
	defer gzipWriters.Put(w)
	out := &sliceWriter{buf: dst}
	w.Reset(out)
	if _, err := w.Write(src); err != nil {
		return dst, err
	}
	if err := w.Close(); err != nil {
		return dst, err
	}
	return out.buf, nil
}

type gzipReader struct {
	src bytes.Reader
	r   gzip.Reader
}

func takeGzip() *gzipReader {
	if g, ok := gzipReaders.Get().(*gzipReader); ok {
		return g
	}
	return &gzipReader{}
}

func (g *gzipReader) reset(src []byte) error {
	g.src.Reset(src)
	if err := g.r.Reset(&g.src); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return nil
}

func decompressGzip(dst, src []byte, limit int) ([]byte, error) {
	g := takeGzip()
	defer gzipReaders.Put(g)
	if err := g.reset(src); err != nil {
		return dst, err
	}
	return readAll(dst, &g.r, limit, expectedRatio*len(src))
}

func compressLz4(dst, src []byte) ([]byte, error) {
	w, _ := lz4Writers.Get().(*lz4.Writer)
	if w == nil {
		w = lz4.NewWriter(nil)
		// 64 KiB independent blocks without content checksum: what Kafka's Java client writes.
		err := w.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false))
		if err != nil {
			return dst, err
		}
	}
	defer lz4Writers.Put(w)
	out := &sliceWriter{buf: dst}
	w.Reset(out)
	if _, err := w.Write(src); err != nil {
		return dst, err
	}
	if err := w.Close(); err != nil {
		return dst, err
	}
	return out.buf, nil
}

type lz4Reader struct {
	src bytes.Reader
	r   *lz4.Reader
}

func takeLz4() *lz4Reader {
	if l, ok := lz4Readers.Get().(*lz4Reader); ok {
		return l
	}
	return &lz4Reader{r: lz4.NewReader(nil)}
}

func (l *lz4Reader) reset(src []byte) {
	l.src.Reset(src)
	l.r.Reset(&l.src)
}

func decompressLz4(dst, src []byte, limit int) ([]byte, error) {
	if len(src) == 0 {
		return dst, ErrCorrupt
	}
	l := takeLz4()
	defer lz4Readers.Put(l)
	l.reset(src)
	return readAll(dst, l.r, limit, expectedRatio*len(src))
}

func compressZstd(dst, src []byte) ([]byte, error) {
	w, _ := zstdWriters.Get().(*zstd.Encoder)
	if w == nil {
		var err error
		w, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1),
			zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithWindowSize(1<<20),
			zstd.WithLowerEncoderMem(true), zstd.WithZeroFrames(true))
		if err != nil {
			return dst, err
		}
	}
	defer zstdWriters.Put(w)
	return w.EncodeAll(src, dst), nil
}

type zstdReader struct {
	src bytes.Reader
	r   *zstd.Decoder
}

// takeZstd returns a decoder for windows up to streamedZstdWindow.
func takeZstd() (*zstdReader, error) {
	if z, ok := zstdReaders.Get().(*zstdReader); ok {
		return z, nil
	}
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(streamedZstdWindow))
	return &zstdReader{r: r}, err
}

func (z *zstdReader) reset(src []byte) error {
	z.src.Reset(src)
	if err := z.r.Reset(&z.src); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return nil
}

func decompressZstd(dst, src []byte, limit int) ([]byte, error) {
	if len(src) == 0 {
		return dst, ErrCorrupt
	}
	out, err := streamZstd(dst, src, limit)
	if errors.Is(err, zstd.ErrWindowSizeExceeded) {
		return decompressWideZstd(dst, src, limit)
	}
	return out, err
}

// streamZstd decodes frames whose window is at most streamedZstdWindow, the memory it costs.
func streamZstd(dst, src []byte, limit int) ([]byte, error) {
	z, err := takeZstd()
	if err != nil {
		return dst, err
	}
	defer zstdReaders.Put(z)
	if err := z.reset(src); err != nil {
		return dst, err
	}
	return readAll(dst, z.r, limit, expectedRatio*len(src))
}

// decompressWideZstd decodes frames with a larger window, which producers at the highest levels
// write. A few bytes can ask for any window, so the frame is told to do with one that just holds
// the limit: no back-reference can reach further than the content. The decoded bytes themselves are
// the window here. That needs a decoder of its own for the limit.
func decompressWideZstd(dst, src []byte, limit int) ([]byte, error) {
	window := 1 << bits.Len(uint(max(limit, 1<<zstdMinWindowLog)-1))
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(uint64(window)))
	if err != nil {
		return dst, err
	}
	defer r.Close()
	var h zstd.Header
	if h.Decode(src) == nil && !h.Skippable && !h.SingleSegment && h.WindowSize > uint64(window) {
		src = slices.Clone(src)
		// Window_Descriptor (RFC 8878, 3.1.1.1.2): exponent in the upper 5 bits, mantissa 0.
		src[zstdWindowByte] = byte(bits.Len(uint(window))-1-zstdMinWindowLog) << 3
	}
	out, err := r.DecodeAll(src, nil)
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded), err == nil && len(out) > limit:
		return dst, ErrTooLarge
	case err != nil:
		return dst, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return append(dst, out...), nil
}
