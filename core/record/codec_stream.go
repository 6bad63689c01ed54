package record

import (
	"bytes"
	"fmt"
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

// maxZstdWindow is the largest back-reference distance accepted, in bytes: that of the highest
// level a Java producer can ask for without long mode.
const maxZstdWindow = 1 << 27

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

func decompressGzip(dst, src []byte, limit int) ([]byte, error) {
	g, _ := gzipReaders.Get().(*gzipReader)
	if g == nil {
		g = &gzipReader{}
	}
	defer gzipReaders.Put(g)
	g.src.Reset(src)
	if err := g.r.Reset(&g.src); err != nil {
		return dst, fmt.Errorf("%w: %w", ErrCorrupt, err)
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

func decompressLz4(dst, src []byte, limit int) ([]byte, error) {
	if len(src) == 0 {
		return dst, ErrCorrupt
	}
	l, _ := lz4Readers.Get().(*lz4Reader)
	if l == nil {
		l = &lz4Reader{r: lz4.NewReader(nil)}
	}
	defer lz4Readers.Put(l)
	l.src.Reset(src)
	l.r.Reset(&l.src)
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

func decompressZstd(dst, src []byte, limit int) ([]byte, error) {
	if len(src) == 0 {
		return dst, ErrCorrupt
	}
	z, _ := zstdReaders.Get().(*zstdReader)
	if z == nil {
		r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return dst, err
		}
		z = &zstdReader{r: r}
	}
	defer zstdReaders.Put(z)
	z.src.Reset(src)
	if err := z.r.Reset(&z.src); err != nil {
		return dst, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return readAll(dst, z.r, limit, expectedRatio*len(src))
}
