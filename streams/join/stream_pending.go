package join

import (
	"encoding/binary"
	"fmt"
)

// unmatched is a kept record that comes out alone when its window closes, unless it is matched.
type unmatched struct {
	entry
	// dueAt is the stream time from which on it is closed.
	dueAt int64
}

// appendUnmatched appends due time, timestamp, side, key and number: the order in which unmatched
// records come out.
func appendUnmatched(dst []byte, u unmatched) []byte {
	dst = appendTime(dst, u.dueAt)
	dst = appendTime(dst, u.ts)
	dst = append(dst, byte(u.side))
	dst = appendKey(dst, u.entry.key)
	return binary.BigEndian.AppendUint32(dst, u.n)
}

// parseUnmatched is the inverse of appendUnmatched.
func parseUnmatched(row string) (u unmatched, err error) {
	const fixed = 17
	if len(row) < fixed {
		return u, fmt.Errorf("read %d bytes: %w", len(row), errRow)
	}
	b := []byte(row)
	u.dueAt, u.ts, u.side = timeAt(b), timeAt(b[8:]), int(b[16])
	key, rest, err := cutKey(b[fixed:])
	if err != nil {
		return u, err
	}
	if len(rest) != 4 || u.side > right {
		return u, fmt.Errorf("read %d bytes: %w", len(row), errRow)
	}
	u.entry.key, u.n = key, binary.BigEndian.Uint32(rest)
	return u, nil
}
