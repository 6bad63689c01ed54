package command

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// maxShown is how many bytes of a key or value a table shows; -o ndjson shows all.
const maxShown = 16 << 10

// readable shows bytes on one line of a terminal without letting them move the cursor.
func readable(data []byte) string {
	switch {
	case data == nil:
		return "(null)"
	case !utf8.Valid(data):
		return fmt.Sprintf("(%d bytes) %x", len(data), data[:min(len(data), 32)])
	}
	text := string(data[:min(len(data), maxShown)])
	for _, r := range text {
		if !strconv.IsPrint(r) {
			quoted := strconv.Quote(text)
			text = quoted[1 : len(quoted)-1]
			break
		}
	}
	if len(data) > maxShown {
		text += fmt.Sprintf(" … (%d bytes)", len(data))
	}
	return text
}

// plural counts things in words: 1 record, 2 records.
func plural(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
