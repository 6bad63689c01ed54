package ndjson

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The encodings of keys, values and header values.
const (
	encJSON   = "json"
	encUTF8   = "utf8"
	encBase64 = "base64"
	encNull   = "null"
)

// Append adds the record as one line, with its line feed, to dst.
func Append(dst []byte, r *kgo.Record) []byte {
	dst = append(dst, `{"topic":`...)
	dst = appendString(dst, r.Topic)
	dst = append(dst, `,"partition":`...)
	dst = strconv.AppendInt(dst, int64(r.Partition), 10)
	dst = append(dst, `,"offset":`...)
	dst = strconv.AppendInt(dst, r.Offset, 10)
	dst = append(dst, `,"ts":`...)
	dst = strconv.AppendInt(dst, r.Timestamp.UnixMilli(), 10)
	dst = append(dst, `,"tsType":`...)
	dst = appendString(dst, timestampType(r))
	dst = appendField(dst, "key", r.Key)
	dst = appendField(dst, "value", r.Value)
	dst = append(dst, `,"headers":[`...)
	for i, h := range r.Headers {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendHeader(dst, h)
	}
	return append(dst, "]}\n"...)
}

// appendHeader writes [key, value, encoding]; a key that is not text is written as base64, and a
// fourth element says so.
func appendHeader(dst []byte, h kgo.RecordHeader) []byte {
	dst = append(dst, '[')
	keyEnc := textEncoding([]byte(h.Key))
	dst = appendBytes(dst, []byte(h.Key), keyEnc)
	dst = append(dst, ',')
	enc := textEncoding(h.Value)
	dst = appendBytes(dst, h.Value, enc)
	dst = append(dst, `,"`...)
	dst = append(dst, enc...)
	if keyEnc != encUTF8 {
		dst = append(dst, `","`...)
		dst = append(dst, keyEnc...)
	}
	return append(dst, `"]`...)
}

func timestampType(r *kgo.Record) string {
	if r.Attrs.TimestampType() == 1 {
		return "append"
	}
	return "create"
}

func appendField(dst []byte, name string, data []byte) []byte {
	enc := encoding(data)
	dst = append(dst, `,"`...)
	dst = append(dst, name...)
	dst = append(dst, `":`...)
	dst = appendBytes(dst, data, enc)
	dst = append(dst, `,"`...)
	dst = append(dst, name...)
	dst = append(dst, `Enc":"`...)
	dst = append(dst, enc...)
	return append(dst, '"')
}

// encoding picks the most readable form that can be read back exactly.
func encoding(data []byte) string {
	if embeddable(data) {
		return encJSON
	}
	return textEncoding(data)
}

func textEncoding(data []byte) string {
	switch {
	case data == nil:
		return encNull
	case utf8.Valid(data):
		return encUTF8
	default:
		return encBase64
	}
}

// embeddable tells whether data is an object or array on one line, which a reader gets back
// unchanged.
func embeddable(data []byte) bool {
	if len(data) < 2 {
		return false
	}
	first, last := data[0], data[len(data)-1]
	if !(first == '{' && last == '}') && !(first == '[' && last == ']') {
		return false
	}
	for _, c := range data {
		if c == '\n' || c == '\r' {
			return false
		}
	}
	if bytes.Count(data, []byte("["))+bytes.Count(data, []byte("{")) > maxNesting {
		return false
	}
	return utf8.Valid(data) && json.Valid(data)
}

func appendBytes(dst, data []byte, enc string) []byte {
	switch enc {
	case encNull:
		return append(dst, "null"...)
	case encJSON:
		return append(dst, data...)
	case encUTF8:
		return appendString(dst, string(data))
	default:
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, data)
		return append(dst, '"')
	}
}

// maxNesting keeps what is embedded well below the depth at which JSON readers give up, which is
// 10000 in encoding/json and counts the line's own object too.
const maxNesting = 1000

const hexDigits = "0123456789abcdef"

// appendString writes s as a JSON string without the HTML escapes of encoding/json.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c != 0x7f {
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		start = i + 1
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}
