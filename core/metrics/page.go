package metrics

import (
	"io"
	"strconv"
	"strings"
	"time"
)

// ContentType is that of a Page.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// pageBytes is the size from which a Page's buffer is written, in bytes.
const pageBytes = 32 << 10

// Page writes samples in Prometheus's text format. It belongs to one goroutine.
type Page struct {
	w   io.Writer
	buf []byte
	// err is the first error of w; nothing is written after it.
	err error
	// family is the one that samples belong to.
	family *Family
}

// NewPage returns an empty page; Flush ends it.
func NewPage(w io.Writer) *Page {
	return &Page{w: w, buf: make([]byte, 0, pageBytes+4<<10)}
}

// Begin starts a family, with or without samples.
func (p *Page) Begin(f *Family) {
	p.family = f
	p.buf = append(p.buf, "# HELP "...)
	p.buf = append(p.buf, f.Name...)
	p.buf = append(p.buf, ' ')
	p.buf = appendEscaped(p.buf, f.Help, false)
	p.buf = append(p.buf, "\n# TYPE "...)
	p.buf = append(p.buf, f.Name...)
	p.buf = append(p.buf, ' ')
	p.buf = append(p.buf, f.Kind.String()...)
	p.buf = append(p.buf, '\n')
}

// Int writes a sample of the family that was begun; values are its labels', in their order.
func (p *Page) Int(n int64, values ...string) {
	p.name("", values, "")
	p.buf = strconv.AppendInt(p.buf, n, 10)
	p.end()
}

// Float is Int for a number that is not whole.
func (p *Page) Float(x float64, values ...string) {
	p.name("", values, "")
	p.buf = strconv.AppendFloat(p.buf, x, 'g', -1, 64)
	p.end()
}

// Seconds is Float for a duration.
func (p *Page) Seconds(d time.Duration, values ...string) { p.Float(d.Seconds(), values...) }

// Bool is 1 or 0.
func (p *Page) Bool(is bool, values ...string) {
	n := int64(0)
	if is {
		n = 1
	}
	p.Int(n, values...)
}

// One writes a family of one sample without labels.
func (p *Page) One(f *Family, n int64) {
	p.Begin(f)
	p.Int(n)
}

// Histogram writes the samples of h.
func (p *Page) Histogram(h *Histogram, values ...string) {
	sum := int64(0)
	for i := range h.buckets {
		sum += h.buckets[i].Load()
		le := "+Inf"
		if i < len(bounds) {
			le = boundTexts[i]
		}
		p.name("_bucket", values, le)
		p.buf = strconv.AppendInt(p.buf, sum, 10)
		p.end()
	}
	p.name("_sum", values, "")
	p.buf = strconv.AppendFloat(p.buf, h.Sum().Seconds(), 'g', -1, 64)
	p.end()
	p.name("_count", values, "")
	p.buf = strconv.AppendInt(p.buf, sum, 10)
	p.end()
}

// boundTexts are bounds as label values, in seconds.
var boundTexts = func() (texts [len(bounds)]string) {
	for i, b := range bounds {
		texts[i] = strconv.FormatFloat(b.Seconds(), 'g', -1, 64)
	}
	return texts
}()

// name writes what stands before a number. le, if not empty, is one more label.
func (p *Page) name(suffix string, values []string, le string) {
	p.buf = append(p.buf, p.family.Name...)
	p.buf = append(p.buf, suffix...)
	if len(values) != len(p.family.Labels) {
		panic("invariant: " + p.family.Name + " has labels " + strings.Join(p.family.Labels, ", "))
	}
	sep := byte('{')
	for i, label := range p.family.Labels {
		p.buf = append(p.buf, sep)
		p.buf = append(p.buf, label...)
		p.buf = append(p.buf, `="`...)
		p.buf = appendEscaped(p.buf, values[i], true)
		p.buf = append(p.buf, '"')
		sep = ','
	}
	if le != "" {
		p.buf = append(p.buf, sep)
		p.buf = append(p.buf, `le="`...)
		p.buf = append(p.buf, le...)
		p.buf = append(p.buf, '"')
		sep = ','
	}
	if sep == ',' {
		p.buf = append(p.buf, '}')
	}
	p.buf = append(p.buf, ' ')
}

// end ends a sample.
func (p *Page) end() {
	p.buf = append(p.buf, '\n')
	if len(p.buf) >= pageBytes {
		_ = p.Flush() // Flush of the last part tells
	}
}

// Flush writes what is buffered and returns the first error there was.
func (p *Page) Flush() error {
	if p.err == nil && len(p.buf) > 0 {
		_, p.err = p.w.Write(p.buf)
	}
	p.buf = p.buf[:0]
	return p.err
}

// appendEscaped appends text as a help or, with quotes escaped, as a label value: names of groups
// are any bytes that a client likes. What is no UTF-8 is replaced, since the format has no other.
func appendEscaped(b []byte, text string, quoted bool) []byte {
	for i := 0; i < len(text); i++ {
		if c := text[i]; c >= 0x80 || c == '\\' || c == '\n' || c == '"' && quoted {
			return appendEscapedSlowly(b, text, quoted)
		}
	}
	return append(b, text...)
}

func appendEscapedSlowly(b []byte, text string, quoted bool) []byte {
	for _, r := range strings.ToValidUTF8(text, "\uFFFD") {
		switch {
		case r == '\\':
			b = append(b, `\\`...)
		case r == '\n':
			b = append(b, `\n`...)
		case r == '"' && quoted:
			b = append(b, `\"`...)
		default:
			b = append(b, string(r)...)
		}
	}
	return b
}
