package state

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The first byte of a changelog key.
const (
	kindStore  = 'k'
	kindWindow = 'w'
	kindMeta   = 'm'
)

// errKey reports a changelog key no version of this package writes.
var errKey = errors.New("malformed changelog key")

// MetaKey is the changelog key of the record that ends a commit.
func MetaKey() []byte { return []byte{kindMeta} }

// IsMetaKey reports whether a changelog record ends a commit.
func IsMetaKey(key []byte) bool { return len(key) == 1 && key[0] == kindMeta }

// appendStart appends a window start so that byte order is number order.
func appendStart(dst []byte, start int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(start)^1<<63)
}

// parseStart is the inverse of appendStart; b holds at least 8 bytes.
func parseStart(b []byte) int64 {
	return int64(binary.BigEndian.Uint64(b) ^ 1<<63)
}

// bucketID names one bucket of rows.
type bucketID struct {
	name     string
	windowed bool
	start    int64 // 0 unless windowed
}

// appendPrefix appends the changelog key prefix of all rows of the bucket.
func (id bucketID) appendPrefix(dst []byte) []byte {
	kind := byte(kindStore)
	if id.windowed {
		kind = kindWindow
	}
	dst = append(dst, kind)
	dst = binary.AppendUvarint(dst, uint64(len(id.name)))
	dst = append(dst, id.name...)
	if id.windowed {
		dst = appendStart(dst, id.start)
	}
	return dst
}

// parseKey splits a changelog key into its bucket and the row's key, which aliases b.
func parseKey(b []byte) (bucketID, []byte, error) {
	if len(b) == 0 || (b[0] != kindStore && b[0] != kindWindow) {
		return bucketID{}, nil, fmt.Errorf("parse %d-byte key: %w", len(b), errKey)
	}
	size, n := binary.Uvarint(b[1:])
	if n <= 0 || size > uint64(len(b)-1-n) {
		return bucketID{}, nil, fmt.Errorf("parse store name of %d-byte key: %w", len(b), errKey)
	}
	rest := b[1+n:]
	id := bucketID{name: string(rest[:size]), windowed: b[0] == kindWindow}
	rest = rest[size:]
	if id.windowed {
		if len(rest) < 8 {
			return bucketID{}, nil, fmt.Errorf("parse window of %d-byte key: %w", len(b), errKey)
		}
		id.start, rest = parseStart(rest), rest[8:]
	}
	return id, rest, nil
}
