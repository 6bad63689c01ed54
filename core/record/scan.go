package record

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"runtime"
	"slices"

	"github.com/klauspost/compress/zstd"
)

const (
	// scanWindow is the largest zstd window that Scan gives a frame, in bytes; what a decoder of
	// Kafka's Java client allows (ZSTD_WINDOWLOG_LIMIT_DEFAULT is 27).
	scanWindow = 128 << 20
	// scanBlock is the largest snappy block that Scan decodes, which is memory too.
	scanBlock = 128 << 20
)

// scans bounds how many batches are decompressed by Scan at a time. It is bound by the CPU, so that
// more at a time would only need more memory.
var scans = make(chan struct{}, runtime.GOMAXPROCS(0))

// Meta is what Scan tells about a record.
type Meta struct {
	Offset    int64
	Timestamp int64 // milliseconds since 1970
	HasKey    bool  // false: the key is null
}

// Scan walks the records of b without their contents, until fn returns false. What compressed
// records claim and hold is checked as Each does, but only a window of them is in memory at a time,
// whatever their size; limit bounds that size in bytes (ErrTooLarge), and so the time it takes.
func (b Batch) Scan(limit int, fn func(Meta) bool) error {
	if len(b) < HeaderSize {
		return ErrShort
	}
	if b.Codec() == None {
		return b.scanPlain(limit, fn)
	}
	count := b.Count()
	if count < 0 {
		return fmt.Errorf("batch at offset %d has record count %d: %w",
			b.BaseOffset(), count, ErrCorrupt)
	}
	scans <- struct{}{}
	defer func() { <-scans }()
	r, done, err := b.Codec().open(b[HeaderSize:], limit)
	if err != nil {
		return fmt.Errorf("batch at offset %d: %w", b.BaseOffset(), err)
	}
	defer done()
	s := scanner{in: bufio.NewReader(&meter{r: r, left: limit})}
	for i := range count {
		m, err := s.record(b)
		if err != nil {
			return fmt.Errorf("record %d of the batch at offset %d: %w", i, b.BaseOffset(), err)
		}
		if !fn(m) {
			return nil
		}
	}
	switch _, err := s.in.ReadByte(); {
	case err == nil:
		return fmt.Errorf("batch at offset %d: bytes follow the last record: %w",
			b.BaseOffset(), ErrCorrupt)
	case err != io.EOF:
		return fmt.Errorf("batch at offset %d: %w", b.BaseOffset(), err)
	}
	return nil
}

// scanPlain is Scan of records that are not compressed, and so in memory.
func (b Batch) scanPlain(limit int, fn func(Meta) bool) error {
	var it Iterator
	if err := it.Reset(b, limit); err != nil {
		return err
	}
	var r Record
	for {
		more, err := it.Next(&r)
		if err != nil || !more {
			return err
		}
		if !fn(Meta{Offset: r.Offset, Timestamp: r.Timestamp, HasKey: r.Key != nil}) {
			return nil
		}
	}
}

// scanner reads records from a stream.
type scanner struct {
	in   *bufio.Reader
	left int64 // bytes of the record that are not read yet
}

// record reads one record, as Iterator.decode does.
func (s *scanner) record(b Batch) (Meta, error) {
	s.left = binary.MaxVarintLen64
	length, err := s.varint("length")
	if err != nil {
		return Meta{}, err
	}
	if s.left = length; length < 1 {
		return Meta{}, fmt.Errorf("its length is %d: %w", length, ErrCorrupt)
	}
	if err := s.skip(1); err != nil { // attributes, unused in version 2
		return Meta{}, err
	}
	timeDelta, err := s.varint("timestamp")
	if err != nil {
		return Meta{}, err
	}
	offsetDelta, err := s.varint("offset delta")
	if err != nil {
		return Meta{}, err
	}
	if last := int64(b.LastOffsetDelta()); offsetDelta < 0 || offsetDelta > last {
		return Meta{}, fmt.Errorf("offset delta %d is outside [0, %d]: %w",
			offsetDelta, last, ErrCorrupt)
	}
	m := Meta{Offset: b.BaseOffset() + offsetDelta, Timestamp: b.BaseTimestamp() + timeDelta}
	if b.TimestampType() == LogAppendTime {
		m.Timestamp = b.MaxTimestamp()
	}
	if m.HasKey, err = s.bytes("key"); err != nil {
		return Meta{}, err
	}
	if _, err = s.bytes("value"); err != nil {
		return Meta{}, err
	}
	if err := s.headers(); err != nil {
		return Meta{}, err
	}
	if s.left != 0 {
		return Meta{}, fmt.Errorf("%d bytes follow its headers: %w", s.left, ErrCorrupt)
	}
	return m, nil
}

func (s *scanner) headers() error {
	count, err := s.varint("header count")
	if err != nil {
		return err
	}
	if count < 0 || count > s.left/2 {
		return fmt.Errorf("%d headers in %d bytes: %w", count, s.left, ErrCorrupt)
	}
	for range count {
		named, err := s.bytes("header name")
		if err != nil {
			return err
		}
		if !named {
			return fmt.Errorf("header without a name: %w", ErrCorrupt)
		}
		if _, err := s.bytes("header value"); err != nil {
			return err
		}
	}
	return nil
}

// bytes skips a varint length, -1 for null, and as many bytes.
func (s *scanner) bytes(what string) (present bool, err error) {
	n, err := s.varint(what)
	if err != nil {
		return false, err
	}
	if n < -1 || n > s.left {
		return false, fmt.Errorf("%s of %d bytes, %d are left: %w", what, n, s.left, ErrCorrupt)
	}
	return n >= 0, s.skip(max(n, 0))
}

func (s *scanner) varint(what string) (int64, error) {
	at := s.left
	u, err := binary.ReadUvarint(s)
	if err != nil {
		return 0, fmt.Errorf("%s in %d bytes: %w", what, at, s.broken(err))
	}
	return int64(u>>1) ^ -int64(u&1), nil
}

// ReadByte reads one byte of the record.
func (s *scanner) ReadByte() (byte, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	s.left--
	return s.in.ReadByte()
}

func (s *scanner) skip(n int64) error {
	s.left -= n
	for n > 0 {
		m, err := s.in.Discard(int(min(n, 1<<30)))
		if n -= int64(m); err != nil {
			return s.broken(err)
		}
	}
	return nil
}

// broken makes an early end, or a number over 64 bits, ErrCorrupt.
func (s *scanner) broken(err error) error {
	if errors.Is(err, ErrTooLarge) || errors.Is(err, ErrCorrupt) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrCorrupt, err)
}

// meter passes left bytes on and makes the next one ErrTooLarge, and what is wrong with the
// compressed bytes ErrCorrupt.
type meter struct {
	r    io.Reader
	left int
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	if n > m.left {
		return m.left, ErrTooLarge
	}
	m.left -= n
	if err != nil && err != io.EOF && !errors.Is(err, ErrTooLarge) {
		err = fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return n, err
}

// open returns a reader of src decompressed. done ends its use.
func (c Codec) open(src []byte, limit int) (r io.Reader, done func(), err error) {
	switch c {
	case Gzip:
		g := takeGzip()
		if err := g.reset(src); err != nil {
			gzipReaders.Put(g)
			return nil, nil, err
		}
		return &g.r, func() { gzipReaders.Put(g) }, nil
	case Lz4:
		if len(src) == 0 {
			return nil, nil, ErrCorrupt
		}
		l := takeLz4()
		l.reset(src)
		return l.r, func() { lz4Readers.Put(l) }, nil
	case Snappy:
		r, err := newSnappyReader(src)
		return r, func() {}, err
	case Zstd:
		return openZstd(src, limit)
	}
	return nil, nil, fmt.Errorf("decompress with %v: %w", c, ErrUnsupportedCodec)
}

func openZstd(src []byte, limit int) (r io.Reader, done func(), err error) {
	if len(src) == 0 {
		return nil, nil, ErrCorrupt
	}
	var h zstd.Header
	if h.Decode(src) != nil || h.WindowSize <= streamedZstdWindow {
		z, err := takeZstd()
		if err != nil {
			return nil, nil, err
		}
		if err := z.reset(src); err != nil {
			zstdReaders.Put(z)
			return nil, nil, err
		}
		return z.r, func() { zstdReaders.Put(z) }, nil
	}
	// As for decompressWideZstd: no back-reference reaches further than the content.
	window := min(1<<bits.Len(uint(max(limit, 1<<zstdMinWindowLog)-1)), scanWindow)
	if h.WindowSize > uint64(window) {
		if h.SingleSegment || h.Skippable {
			return nil, nil, fmt.Errorf("zstd window of %d bytes: %w", h.WindowSize, ErrTooLarge)
		}
		src = slices.Clone(src)
		src[zstdWindowByte] = byte(bits.Len(uint(window))-1-zstdMinWindowLog) << 3
	}
	wide, err := zstd.NewReader(bytes.NewReader(src), zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(uint64(window)))
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return wide, wide.Close, nil
}

// snappyReader reads xerial frames, or a raw block, a block at a time.
type snappyReader struct {
	left  []byte // compressed, not read yet
	raw   bool
	block []byte // decompressed, reused
	at    int    // bytes of block that were read
}

func newSnappyReader(src []byte) (*snappyReader, error) {
	if !bytes.HasPrefix(src, xerialMagic) {
		return &snappyReader{left: src, raw: true}, nil
	}
	if len(src) < xerialHeaderSize {
		return nil, ErrCorrupt
	}
	return &snappyReader{left: src[xerialHeaderSize:]}, nil
}

func (s *snappyReader) Read(p []byte) (int, error) {
	for s.at == len(s.block) {
		block := s.left
		if s.left = nil; !s.raw {
			var err error
			if block, s.left, err = cutXerial(block); err != nil {
				return 0, err
			}
		} else if block == nil {
			return 0, io.EOF
		}
		var err error
		if s.block, err = decodeSnappyBlock(s.block[:0], block, scanBlock); err != nil {
			return 0, err
		}
		s.at = 0
	}
	n := copy(p, s.block[s.at:])
	s.at += n
	return n, nil
}
