package record

import (
	"fmt"
	"slices"
)

// maxInterned bounds the header names an Iterator remembers, so that a producer of ever new names
// cannot make it grow.
const maxInterned = 64

// Iterator walks the records of one batch after another and reuses its buffers. The zero value is
// ready. What Next hands out is valid until the next Next (Headers) or Reset (Key, Value and header
// values); Record.Clone keeps one for longer.
type Iterator struct {
	left       []byte // bytes not yet walked
	buf        []byte // decompressed records, reused
	headers    []Header
	names      map[string]string // header names seen, so that each is allocated once
	baseOffset int64
	baseTime   int64
	appendTime int64 // time of all records if useAppend
	lastDelta  int32
	index      int32 // records handed out
	count      int32 // records in the batch
	useAppend  bool
}

// Reset starts on batch b. The records are decompressed at once if need be; limit bounds their size
// in bytes (ErrTooLarge).
func (it *Iterator) Reset(b Batch, limit int) error {
	if len(b) < HeaderSize {
		return ErrShort
	}
	it.left = b[HeaderSize:]
	it.baseOffset = b.BaseOffset()
	it.baseTime = b.BaseTimestamp()
	it.appendTime = b.MaxTimestamp()
	it.useAppend = b.TimestampType() == LogAppendTime
	it.lastDelta = b.LastOffsetDelta()
	it.index = 0
	it.count = 0
	if codec := b.Codec(); codec != None {
		buf, err := codec.Decompress(it.buf[:0], it.left, limit)
		if err != nil {
			return fmt.Errorf("batch at offset %d: %w", it.baseOffset, err)
		}
		it.buf, it.left = buf, buf
	} else if len(it.left) > limit {
		return fmt.Errorf("batch at offset %d has %d bytes of records, limit %d: %w",
			it.baseOffset, len(it.left), limit, ErrTooLarge)
	}
	if it.count = b.Count(); it.count < 0 {
		return fmt.Errorf("batch at offset %d has record count %d: %w",
			it.baseOffset, it.count, ErrCorrupt)
	}
	return nil
}

// Keep makes keys, values and header values that were handed out valid for good: the next Reset
// decompresses into a new buffer.
func (it *Iterator) Keep() { it.buf = nil }

// Swap is Keep with memory from outside: the next Reset decompresses into buf, which it may
// replace by a larger one, and what the last one decompressed into is the caller's.
func (it *Iterator) Swap(buf []byte) (last []byte) {
	last, it.buf = it.buf, buf
	return last
}

// Next reads the next record into r and returns false after the last one. An error (ErrCorrupt)
// says that the bytes do not hold what the header claims.
func (it *Iterator) Next(r *Record) (bool, error) {
	if it.index == it.count {
		if len(it.left) != 0 {
			return false, it.corrupt("%d bytes follow the last record", len(it.left))
		}
		return false, nil
	}
	length, n := ReadVarint(it.left)
	if n == 0 || length < 0 || length > int64(len(it.left)-n) {
		return false, it.corrupt("its length %d passes the end", length)
	}
	body := it.left[n : n+int(length) : n+int(length)]
	if err := it.decode(body, r); err != nil {
		return false, err
	}
	it.left = it.left[n+int(length):]
	it.index++
	return true, nil
}

// decode reads one record's fields from exactly its bytes.
func (it *Iterator) decode(b []byte, r *Record) error {
	if len(b) == 0 {
		return it.corrupt("it is empty")
	}
	b = b[1:] // attributes, unused in version 2
	timeDelta, n := ReadVarint(b)
	if n == 0 {
		return it.corrupt("bad timestamp")
	}
	b = b[n:]
	offsetDelta, n := ReadVarint(b)
	if n == 0 || offsetDelta < 0 || offsetDelta > int64(it.lastDelta) {
		return it.corrupt("offset delta %d is outside [0, %d]", offsetDelta, it.lastDelta)
	}
	b = b[n:]
	var ok bool
	if r.Key, b, ok = readBytes(b); !ok {
		return it.corrupt("bad key length")
	}
	if r.Value, b, ok = readBytes(b); !ok {
		return it.corrupt("bad value length")
	}
	if b, ok = it.readHeaders(b, r); !ok {
		return it.corrupt("bad headers")
	}
	if len(b) != 0 {
		return it.corrupt("%d bytes follow its headers", len(b))
	}
	r.Offset = it.baseOffset + offsetDelta
	r.Timestamp = it.baseTime + timeDelta
	if it.useAppend {
		r.Timestamp = it.appendTime
	}
	return nil
}

// readHeaders reads the header array. Its count is believed only as far as bytes can hold it.
func (it *Iterator) readHeaders(b []byte, r *Record) (rest []byte, ok bool) {
	count, n := ReadVarint(b)
	if n == 0 || count < 0 || count > int64(len(b)-n)/2 {
		return b, false
	}
	b = b[n:]
	r.Headers = nil
	if count == 0 {
		return b, true
	}
	it.headers = it.headers[:0]
	for range count {
		var h Header
		var key []byte
		if key, b, ok = readBytes(b); !ok || key == nil {
			return b, false
		}
		if h.Value, b, ok = readBytes(b); !ok {
			return b, false
		}
		h.Key = it.intern(key)
		it.headers = append(it.headers, h)
	}
	r.Headers = it.headers
	return b, true
}

func (it *Iterator) intern(name []byte) string {
	if s, ok := it.names[string(name)]; ok {
		return s
	}
	s := string(name)
	if it.names == nil {
		it.names = make(map[string]string)
	}
	if len(it.names) < maxInterned {
		it.names[s] = s
	}
	return s
}

// readBytes reads a varint length, -1 for null, and as many bytes.
func readBytes(b []byte) (v, rest []byte, ok bool) {
	length, n := ReadVarint(b)
	if n == 0 || length < -1 || length > int64(len(b)-n) {
		return nil, b, false
	}
	b = b[n:]
	if length == -1 {
		return nil, b, true
	}
	return b[:length:length], b[length:], true
}

func (it *Iterator) corrupt(format string, args ...any) error {
	return fmt.Errorf("record %d of the batch at offset %d: %s: %w",
		it.index, it.baseOffset, fmt.Sprintf(format, args...), ErrCorrupt)
}

// Each calls fn for every record. The record is reused between calls; its bytes alias the batch, or
// a buffer made for this call if the batch is compressed. limit bounds the size in bytes of the
// decompressed records (ErrTooLarge). An error of fn ends the walk and is returned as it is.
func (b Batch) Each(limit int, fn func(*Record) error) error {
	var it Iterator
	if err := it.Reset(b, limit); err != nil {
		return err
	}
	var r Record
	for {
		ok, err := it.Next(&r)
		if err != nil || !ok {
			return err
		}
		if err := fn(&r); err != nil {
			return err
		}
	}
}

// Records returns all records. Their bytes alias the batch, or one new buffer if it is compressed.
// limit as for Each.
func (b Batch) Records(limit int) ([]Record, error) {
	var records []Record
	err := b.Each(limit, func(r *Record) error {
		c := *r
		c.Headers = slices.Clone(r.Headers)
		records = append(records, c)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return records, nil
}
