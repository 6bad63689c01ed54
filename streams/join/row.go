package join

import (
	"encoding/binary"
	"fmt"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/internal/fields"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/state"
)

// Bits of a stored record.
const (
	rowMatched  = 1 << iota // it was joined, so it never comes out alone
	rowWindowed             // it has a window
	// rowDeleted is 1 << 2, see changes.go
	rowOrigin = 1 << 3 // it says where it comes from
)

// stored is a record as a join keeps it.
type stored struct {
	bits    byte
	ts      int64
	window  operator.Window
	headers []record.Header
	value   []byte
	// topic, partition and offset are where it comes from; topic is nil where that is not known.
	topic             []byte
	partition, offset uint64
}

// appendRow appends the bytes of a record: see the tables in doc.go. With rowOrigin among the bits
// it says where the record comes from, if that is known.
func appendRow(dst []byte, bits byte, rec *operator.Record, value []byte) []byte {
	if rec.Windowed() {
		bits |= rowWindowed
	}
	origin := operator.Origin{Offset: -1}
	if bits&rowOrigin != 0 {
		if origin = operator.OriginOf(rec); origin.Topic == "" {
			bits &^= rowOrigin
		}
	}
	dst = append(dst, bits)
	dst = binary.AppendVarint(dst, rec.Timestamp)
	if bits&rowOrigin != 0 {
		dst = binary.AppendUvarint(dst, uint64(len(origin.Topic)))
		dst = append(dst, origin.Topic...)
		dst = binary.AppendUvarint(dst, uint64(origin.Partition))
		dst = binary.AppendUvarint(dst, uint64(origin.Offset))
	}
	if rec.Windowed() {
		var w [operator.WindowSize]byte
		operator.PutWindow(w[:], rec.Window)
		dst = append(dst, w[:]...)
	}
	dst = binary.AppendUvarint(dst, uint64(len(rec.Headers)))
	for _, h := range rec.Headers {
		dst = binary.AppendUvarint(dst, uint64(len(h.Key)))
		dst = append(dst, h.Key...)
		if h.Value == nil {
			dst = binary.AppendVarint(dst, -1)
			continue
		}
		dst = binary.AppendVarint(dst, int64(len(h.Value)))
		dst = append(dst, h.Value...)
	}
	return append(dst, value...)
}

// rowTime reads the bits and the timestamp of a row.
func rowTime(b []byte) (bits byte, ts int64, err error) {
	r := fields.Reader{Left: b}
	bits, ts = r.Byte(), r.Varint()
	if r.Failed() {
		return 0, 0, fmt.Errorf("read %d bytes: %w", len(b), errRow)
	}
	return bits, ts, nil
}

// parseRow reads a row; headers and value alias b.
func parseRow(b []byte) (stored, error) {
	r := fields.Reader{Left: b}
	s := stored{bits: r.Byte(), ts: r.Varint()}
	if s.bits&rowOrigin != 0 {
		s.topic, s.partition, s.offset = r.Bytes(), r.Uvarint(), r.Uvarint()
	}
	if s.bits&rowWindowed != 0 {
		s.window = operator.ParseWindow(r.Take(operator.WindowSize))
	}
	if n := r.Count(2); n > 0 {
		s.headers = make([]record.Header, 0, n)
		for range n {
			s.headers = append(s.headers,
				record.Header{Key: string(r.Bytes()), Value: r.NullableBytes()})
		}
	}
	if r.Failed() {
		return stored{}, fmt.Errorf("read %d bytes: %w", len(b), errRow)
	}
	s.value = r.Left
	return s, nil
}

// load makes rec the record that b was made of. b is copied, so rec may be kept.
func load(rec *operator.Record, key, b []byte, arena *operator.Arena) error {
	s, err := parseRow(arena.Copy(b))
	if err != nil {
		return err
	}
	*rec = operator.Record{Key: key, Value: s.value, Headers: s.headers, Timestamp: s.ts,
		Window: s.window}
	return nil
}

// loadAlone is load for a record that goes on without another one that caused it. Of what was read
// nothing is left but the place it was read at.
func loadAlone(rec *operator.Record, key, b []byte, arena *operator.Arena) error {
	if err := load(rec, key, b, arena); err != nil {
		return err
	}
	s, err := parseRow(b)
	if err != nil || s.topic == nil {
		return err
	}
	rec.From = &operator.Input{Topic: string(s.topic), Partition: int32(s.partition)}
	rec.Raw = &record.Record{Key: key, Value: rec.Value, Headers: rec.Headers,
		Timestamp: rec.Timestamp, Offset: int64(s.offset)}
	rec.Made = true
	return nil
}

// appendTime appends ms so that the order of bytes is that of the numbers.
func appendTime(dst []byte, ms int64) []byte { return state.AppendTime(dst, ms) }

// timeAt is the inverse of appendTime.
func timeAt(b []byte) int64 { return int64(binary.BigEndian.Uint64(b) ^ 1<<63) }

// appendKey appends key so that the order of bytes is that of the keys whatever follows.
func appendKey(dst, key []byte) []byte { return state.AppendEscaped(dst, key) }

// cutKey is the inverse of appendKey: it returns the key at the front of b and what follows it.
func cutKey(b []byte) (key, rest []byte, err error) {
	key, rest, ok := state.CutEscaped(b)
	if !ok {
		return nil, nil, fmt.Errorf("read key of %d bytes: %w", len(b), errRow)
	}
	return key, rest, nil
}

// floorTo rounds ms down to a multiple of size.
func floorTo(ms, size int64) int64 {
	r := ms % size
	if r < 0 {
		r += size
	}
	return ms - r
}

// later is ms + d, or the end of time when that is too large.
func later(ms, d int64) int64 {
	if ms > operator.EndOfTime-d {
		return operator.EndOfTime
	}
	return ms + d
}

// content is a row without its timestamp: rows with the same one make the same result.
func content(row []byte) []byte {
	if len(row) == 0 {
		return nil
	}
	_, n := binary.Varint(row[1:])
	return row[1+max(0, n):]
}
