package record

import (
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Levels of Compress, which are those of Kafka's codecs when nobody says another.
const (
	gzipDefaultLevel = -1
	lz4DefaultLevel  = 9 // the fast compressor, in Kafka; any other number is one of the high ones
	zstdDefaultLevel = 3
)

// plainBuffers hold decompressed records. Those of unusual batches are not kept.
var plainBuffers sync.Pool // *[]byte

// maxPlainBuffer bounds what the pool keeps, in bytes.
const maxPlainBuffer = 4 << 20

func takePlain() *[]byte {
	if b, ok := plainBuffers.Get().(*[]byte); ok && cap(*b) <= maxPlainBuffer {
		return b
	}
	return new([]byte)
}

// levelWriters are pools of compressors at other levels than the usual one, by codec and level.
var levelWriters sync.Map // levelKey -> *sync.Pool

type levelKey struct {
	codec Codec
	level int // of zstd, the encoder's
}

// CompressLevel is Compress at a level: gzip -1 and 1 to 9, lz4 1 to 17, zstd -131072 to 22, of
// which lz4 and zstd tell fewer apart. Snappy and None have no levels.
func (c Codec) CompressLevel(dst, src []byte, level int) ([]byte, error) {
	switch {
	case c == Gzip && level != gzipDefaultLevel:
	case c == Lz4 && level != lz4DefaultLevel:
	case c == Zstd && level != zstdDefaultLevel:
	default:
		return c.Compress(dst, src)
	}
	key := levelKey{c, level}
	if c == Zstd { // most levels are the same, so that there are few pools
		key.level = int(zstd.EncoderLevelFromZstd(level))
	}
	pool, _ := levelWriters.LoadOrStore(key, new(sync.Pool))
	writers := pool.(*sync.Pool)
	w := writers.Get()
	if w == nil {
		var err error
		if w, err = newLevelWriter(c, level); err != nil {
			return dst, fmt.Errorf("compress with %v at level %d: %w", c, level, err)
		}
	}
	defer writers.Put(w)
	if encoder, ok := w.(*zstd.Encoder); ok {
		return encoder.EncodeAll(src, dst), nil
	}
	out := &sliceWriter{buf: dst}
	stream := w.(resettable)
	stream.Reset(out)
	if _, err := stream.Write(src); err != nil {
		return dst, err
	}
	if err := stream.Close(); err != nil {
		return dst, err
	}
	return out.buf, nil
}

// resettable is a stream compressor.
type resettable interface {
	io.WriteCloser
	Reset(w io.Writer)
}

func newLevelWriter(c Codec, level int) (any, error) {
	switch c {
	case Gzip:
		return gzip.NewWriterLevel(nil, level)
	case Lz4:
		// Both begin to search for longer matches at 1; 9 is the most this library does.
		levels := [...]lz4.CompressionLevel{lz4.Level1, lz4.Level2, lz4.Level3, lz4.Level4, lz4.Level5,
			lz4.Level6, lz4.Level7, lz4.Level8, lz4.Level9}
		w := lz4.NewWriter(nil)
		return w, w.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false),
			lz4.CompressionLevelOption(levels[max(1, min(level, len(levels)))-1]))
	}
	return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(level)), zstd.WithWindowSize(1<<20),
		zstd.WithLowerEncoderMem(true), zstd.WithZeroFrames(true))
}
