package file

import (
	"bytes"
	"encoding/json"
)

// appendJSONString appends s as a JSON string, <, > and & as they are.
func appendJSONString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			b := bytes.NewBuffer(dst)
			e := json.NewEncoder(b)
			e.SetEscapeHTML(false)
			_ = e.Encode(s) // a string always encodes
			return bytes.TrimSuffix(b.Bytes(), []byte{'\n'})
		}
	}
	dst = append(append(dst, '"'), s...)
	return append(dst, '"')
}

// isJSONNumber says whether s can stand in JSON as it is.
func isJSONNumber(s string) bool {
	return s != "" && (s[0] == '-' || s[0] >= '0' && s[0] <= '9') && json.Valid([]byte(s))
}
