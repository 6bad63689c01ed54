package state

import "bytes"

// AppendEscaped appends key so that escaped keys compare as the keys do and none is the beginning
// of another one: a 0 byte becomes 0 0xff, and 0 0 ends the key. What follows it sorts behind.
func AppendEscaped(dst, key []byte) []byte {
	for {
		i := bytes.IndexByte(key, 0)
		if i < 0 {
			return append(append(dst, key...), 0, 0)
		}
		dst = append(append(dst, key[:i]...), 0, 0xff)
		key = key[i+1:]
	}
}

// CutEscaped splits what AppendEscaped made from what follows it; ok is false when b does not
// begin with an escaped key.
func CutEscaped(b []byte) (key, rest []byte, ok bool) {
	for {
		i := bytes.IndexByte(b, 0)
		if i < 0 || i+1 == len(b) {
			return nil, nil, false
		}
		key = append(key, b[:i]...)
		switch b[i+1] {
		case 0:
			return key, b[i+2:], true
		case 0xff:
			key, b = append(key, 0), b[i+2:]
		default:
			return nil, nil, false
		}
	}
}

// AppendTime appends a time so that byte order is number order.
func AppendTime(dst []byte, ms int64) []byte { return appendStart(dst, ms) }

// CutTime splits what AppendTime made from what follows it; ok is false when b is too short.
func CutTime(b []byte) (ms int64, rest []byte, ok bool) {
	if len(b) < 8 {
		return 0, nil, false
	}
	return parseStart(b), b[8:], true
}
