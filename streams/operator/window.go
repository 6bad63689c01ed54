package operator

import "encoding/binary"

// WindowSize is the length of an encoded window in bytes.
const WindowSize = 17

// Layout of a window in a header, integers big endian:
//
//	0        8      16
//	+--------+------+-----------+
//	| start  | end  | inclusive |
//	+--------+------+-----------+

// PutWindow encodes w into the first WindowSize bytes of b.
func PutWindow(b []byte, w Window) {
	binary.BigEndian.PutUint64(b, uint64(w.Start))
	binary.BigEndian.PutUint64(b[8:], uint64(w.End))
	b[16] = 0
	if w.Inclusive {
		b[16] = 1
	}
}

// ParseWindow is the inverse of PutWindow; 16 bytes are a window that is not inclusive. What is no
// window gives none.
func ParseWindow(b []byte) Window {
	if len(b) != WindowSize && len(b) != WindowSize-1 {
		return Window{}
	}
	w := Window{Start: int64(binary.BigEndian.Uint64(b)), End: int64(binary.BigEndian.Uint64(b[8:]))}
	w.Inclusive = len(b) == WindowSize && b[16] == 1
	return w
}
