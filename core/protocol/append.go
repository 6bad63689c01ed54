package protocol

import "encoding/binary"

func appendInt16(dst []byte, v int16) []byte {
	return binary.BigEndian.AppendUint16(dst, uint16(v))
}

func appendInt32(dst []byte, v int32) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(v))
}

func appendInt64(dst []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(v))
}

// appendArrayLen appends the length of an array that is not null.
func appendArrayLen(dst []byte, n int, flexible bool) []byte {
	if flexible {
		return binary.AppendUvarint(dst, uint64(n)+1)
	}
	return appendInt32(dst, int32(n))
}

// appendNullArray appends an array that is null.
func appendNullArray(dst []byte, flexible bool) []byte {
	if flexible {
		return append(dst, 0)
	}
	return appendInt32(dst, -1)
}

func appendString(dst []byte, s string, flexible bool) []byte {
	if flexible {
		dst = binary.AppendUvarint(dst, uint64(len(s))+1)
	} else {
		dst = appendInt16(dst, int16(len(s)))
	}
	return append(dst, s...)
}

// appendNullableString appends s, or null when s is empty.
func appendNullableString(dst []byte, s string, flexible bool) []byte {
	if s != "" {
		return appendString(dst, s, flexible)
	}
	if flexible {
		return append(dst, 0)
	}
	return appendInt16(dst, -1)
}
