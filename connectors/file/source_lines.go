package file

import (
	"bytes"
	"errors"
	"io"
)

// readBytes is how much is read from a file at once.
const readBytes = 256 << 10

// line is one line without its end.
type line struct {
	text   []byte // at most the limit; valid until the next call
	size   int64  // in the file, with its end
	length int64  // without its end; more than len(text) when the line was cut
}

func (l line) cut() bool { return l.length > int64(len(l.text)) }

// lineReader splits a stream into lines.
type lineReader struct {
	r     io.Reader
	limit int    // bytes of a line that are kept
	buf   []byte // read and not handed out, from start on
	start int
	err   error // of the last read
	// Of a line longer than the limit, while its end is looked for:
	head []byte // the bytes that are kept; nil = no such line
	size int64  // bytes of it that left the buffer
	last byte   // the last one of them
}

func newLineReader(r io.Reader, limit int) *lineReader { return &lineReader{r: r, limit: limit} }

// next returns the next line that has an end. At the end of the stream it returns io.EOF; more may
// come after again, or rest takes what is left.
func (l *lineReader) next() (line, error) {
	seen := 0
	for {
		rest := l.buf[l.start:]
		if i := bytes.IndexByte(rest[seen:], '\n'); i >= 0 {
			l.start += seen + i + 1
			return l.finish(rest[:seen+i], 1), nil
		}
		seen = len(rest)
		if seen > l.limit+1 { // one more for a CR
			l.shed(rest)
			seen = 0
		}
		if l.err != nil {
			return line{}, l.err
		}
		l.fill()
	}
}

// rest returns what the stream ended with, without a line end. ok is false when that is nothing.
func (l *lineReader) rest() (x line, ok bool) {
	rest := l.buf[l.start:]
	if len(rest) == 0 && l.head == nil {
		return line{}, false
	}
	l.start = len(l.buf)
	return l.finish(rest, 0), true
}

// finish makes a line of its last bytes; end is the size of the line end behind them.
func (l *lineReader) finish(text []byte, end int64) line {
	x := line{text: text, size: l.size + int64(len(text)) + end}
	last := l.last
	if len(text) > 0 {
		last = text[len(text)-1]
	}
	x.length = x.size - end
	if last == '\r' && x.length > 0 && end > 0 {
		x.length--
	}
	if l.head != nil {
		x.text = append(l.head, text[:min(len(text), l.limit-len(l.head))]...)
	}
	x.text = x.text[:min(int64(len(x.text)), x.length, int64(l.limit))]
	l.head, l.size, l.last = nil, 0, 0
	return x
}

// shed drops all but the head of a line above the limit.
func (l *lineReader) shed(rest []byte) {
	if l.head == nil {
		l.head = bytes.Clone(rest[:l.limit])
	}
	l.size += int64(len(rest))
	l.last = rest[len(rest)-1]
	l.buf, l.start = l.buf[:0], 0
}

// fill reads more.
func (l *lineReader) fill() {
	if l.start > 0 {
		l.buf = append(l.buf[:0], l.buf[l.start:]...)
		l.start = 0
	}
	n := len(l.buf)
	if cap(l.buf)-n < readBytes {
		grown := make([]byte, n, 2*cap(l.buf)+readBytes)
		copy(grown, l.buf)
		l.buf = grown
	}
	k, err := l.r.Read(l.buf[n : n+readBytes])
	l.buf = l.buf[:n+k]
	l.err = err
}

// again lets next read on after the end of the stream.
func (l *lineReader) again() {
	if errors.Is(l.err, io.EOF) {
		l.err = nil
	}
}
