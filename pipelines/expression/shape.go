package expression

import (
	"encoding/binary"
	"math/bits"
)

// shape is the skeleton of a valid JSON object: the text between its scalar values and lists. The
// records of a topic mostly have the same keys in the same order, so what was found of one holds
// for the next: where the text between is the same and what lies between is a scalar or a list, the
// whole is valid, its keys are unique and its paths are where they were. Comparing that costs a few
// instructions per member. A text of another shape is read by the scanner, which alone says what
// is wrong with one.
//
//	{"id": 7 ,"to":{"city": "Berlin" }}      pieces with a value behind each but the last
//	|----|   |------------|          ||
type shape struct {
	pieces []piece
	// enough is the piece behind whose value every wanted path was seen.
	enough int
}

// piece is text that must be as it is, and then a value.
type piece struct {
	// words are the first 16 bytes of text; masks leave out what is not text.
	words, masks [2]uint64
	text         string
	id           int32 // path id of the value, -1 for none
	depth        int   // of the value
	marks        []mark
}

// mark is where an object with a path begins or ends.
type mark struct {
	id   int32
	at   int32 // behind the start of the piece's text
	ends bool
}

const (
	// maxShapes of one document are remembered: a topic with kinds of records, or optional members.
	maxShapes = 4
	// maxShapeText and maxPieces bound what is learned from one record.
	maxShapeText = 4 << 10
	maxPieces    = 128
	// learnSeldom: of texts that fit no shape, at least one in so many is learned from.
	learnSeldom = 1024
	// coldAfter so many texts in a row that fit no shape only one in coldSample is tried.
	coldAfter, coldSample = 64, 16
)

// shapes are those of one document of an Env.
type shapes struct {
	list []shape
	last int // the one that fit last
	// missed texts fit none; the next one to learn from is the one after learn of them.
	missed, learn int
	victim        int // replaced next
	cold          int // texts in a row that fit none
}

// fits scans data by a shape it fits; false leaves it to the scanner. Without validate data is
// known to be valid, and the walk may end early.
func (k *shapes) fits(s *scanner, data []byte, validate bool) bool {
	if k.cold > coldAfter && k.cold%coldSample != 0 {
		k.cold++
		return false
	}
	s.data, s.validate = data, validate
	for j := range k.list {
		i := k.last + j
		if i >= len(k.list) {
			i -= len(k.list)
		}
		if k.list[i].walk(s) {
			k.last, k.cold = i, 0
			return true
		}
	}
	k.cold++
	return false
}

// miss learns from a text that fit no shape, now and then. It must be valid unless trusted, which
// is not taken on trust here.
func (k *shapes) miss(data []byte, root *path, wanted int, trusted bool) {
	if k.missed++; k.missed < k.learn || len(data) > maxShapeText {
		return
	}
	k.learn = k.missed + min(k.missed, learnSeldom)
	if trusted && Valid(data) != nil {
		return
	}
	l := learner{s: scanner{data: data}, left: wanted}
	l.shape.enough = -1
	l.s.space()
	if l.s.next() != '{' || !l.object(root) || len(l.shape.pieces) >= maxPieces {
		return
	}
	l.s.pos = len(data)
	l.cut(-1)
	if l.shape.enough < 0 { // some wanted path is not here
		l.shape.enough = len(l.shape.pieces)
	}
	k.cold = 0
	if len(k.list) < maxShapes {
		k.list = append(k.list, l.shape)
		return
	}
	if k.victim == k.last {
		k.victim = (k.victim + 1) % maxShapes
	}
	k.list[k.victim] = l.shape
	k.victim = (k.victim + 1) % maxShapes
}

// walk reads s.data by the shape into s.spans, false if it does not fit.
func (sh *shape) walk(s *scanner) bool {
	clear(s.spans)
	data, pos := s.data, 0
	for i := range sh.pieces {
		p := &sh.pieces[i]
		if !p.is(data, pos) {
			return false
		}
		for _, m := range p.marks {
			at := &s.spans[m.id]
			if m.ends {
				at.end = int32(pos) + m.at
			} else {
				*at = span{start: int32(pos) + m.at, kind: '{'}
			}
		}
		pos += len(p.text)
		if i == len(sh.pieces)-1 {
			break
		}
		if pos >= len(data) {
			return false
		}
		kind, end, escaped := data[pos], 0, false
		switch {
		case kind == '"':
			end, escaped = s.text(pos)
		case kind == '-' || kind >= '0' && kind <= '9':
			kind, end = '0', s.digits(pos)
		default:
			end = s.other(pos, p.depth)
		}
		if end == 0 {
			return false
		}
		if p.id >= 0 {
			s.spans[p.id] = span{start: int32(pos), end: int32(end), kind: kind, escaped: escaped}
		}
		pos = end
		if i == sh.enough && !s.validate {
			return true
		}
	}
	return pos == len(data)
}

// is compares the text at pos.
func (p *piece) is(data []byte, pos int) bool {
	n := len(p.text)
	if pos+16 > len(data) || n > 16 {
		return len(data)-pos >= n && string(data[pos:pos+n]) == p.text
	}
	here := data[pos : pos+16]
	return (binary.LittleEndian.Uint64(here)^p.words[0])&p.masks[0]|
		(binary.LittleEndian.Uint64(here[8:])^p.words[1])&p.masks[1] == 0
}

// text reads the string at pos and returns its end, 0 if it is none.
func (s *scanner) text(pos int) (end int, escaped bool) {
	d, i := s.data, pos+1
	for i+8 <= len(d) {
		n := special(binary.LittleEndian.Uint64(d[i:]))
		i += n
		if n < 8 {
			if d[i] == '"' {
				return i + 1, false
			}
			break
		}
	}
	s.pos = pos
	escaped, err := s.str()
	if err != nil {
		return 0, false
	}
	return s.pos, escaped
}

// digits reads the number at pos and returns its end, 0 if it is none.
func (s *scanner) digits(pos int) (end int) {
	d, i := s.data, pos
	if d[i] == '-' {
		i++
	}
	start := i
	if i = digitsEnd(d, i); i == start || d[start] == '0' && i > start+1 {
		return 0
	}
	if i < len(d) && d[i] == '.' {
		dot := i
		if i = digitsEnd(d, dot+1); i == dot+1 {
			return 0
		}
	}
	if i < len(d) && d[i]|0x20 == 'e' {
		s.pos = pos
		if s.number() != nil {
			return 0
		}
		return s.pos
	}
	return i
}

// digitsEnd is digits, eight at a time: 0x76 takes all but '0' to '9' of ASCII to the high bit.
func digitsEnd(d []byte, i int) int {
	for i+8 <= len(d) {
		x := binary.LittleEndian.Uint64(d[i:]) ^ ones*'0'
		m := ((x &^ highs) + ones*0x76) | x
		n := bits.TrailingZeros64(m&highs) / 8
		i += n
		if n < 8 {
			return i
		}
	}
	return digits(d, i)
}

// other reads a literal or a list at pos and returns its end, 0 for anything else.
func (s *scanner) other(pos, depth int) (end int) {
	s.pos, s.depth = pos, depth
	switch s.data[pos] {
	case 't', 'f', 'n', '[':
		if s.skip() != nil {
			return 0
		}
	default:
		return 0
	}
	return s.pos
}

// learner makes a shape of a valid text.
type learner struct {
	s     scanner
	shape shape
	start int // of the piece
	marks []mark
	depth int
	left  int // wanted paths not seen yet
}

// cut ends the piece in front of a value.
func (l *learner) cut(id int32) {
	p := piece{text: string(l.s.data[l.start:l.s.pos]), id: id, depth: l.depth, marks: l.marks}
	var text, mask [16]byte
	for i := range copy(text[:], p.text) {
		mask[i] = 0xff
	}
	for i := range p.words {
		p.words[i] = binary.LittleEndian.Uint64(text[8*i:])
		p.masks[i] = binary.LittleEndian.Uint64(mask[8*i:])
	}
	l.shape.pieces, l.marks = append(l.shape.pieces, p), nil
}

// saw counts a wanted path whose value ends here.
func (l *learner) saw(p *path) {
	if p != nil && p.wanted {
		if l.left--; l.left == 0 {
			l.shape.enough = len(l.shape.pieces) - 1
		}
	}
}

// mark notes the begin or end of an object here.
func (l *learner) mark(p *path, ends bool) {
	if p != nil {
		l.marks = append(l.marks, mark{id: int32(p.id), at: int32(l.s.pos - l.start), ends: ends})
	}
}

// object takes an object in; false when there are too many pieces.
func (l *learner) object(p *path) bool {
	l.mark(p, false)
	l.depth++
	for l.s.pos++; l.s.next() != '}'; {
		if l.s.next() == ',' {
			l.s.pos++
		}
		kid, _ := l.s.key(p, nil)
		l.s.next()
		l.s.pos++ // ':'
		if l.s.next() == '{' {
			if !l.object(kid) {
				return false
			}
			continue
		}
		id := int32(-1)
		if kid != nil {
			id = int32(kid.id)
		}
		l.cut(id)
		_ = l.s.skip() // valid
		l.start = l.s.pos
		if l.saw(kid); len(l.shape.pieces) >= maxPieces {
			return false
		}
	}
	l.depth--
	l.s.pos++
	l.mark(p, true)
	l.sawObject(p)
	return true
}

// sawObject is saw for an object, which ends in the text of the piece that is not cut yet.
func (l *learner) sawObject(p *path) {
	if p != nil && p.wanted {
		if l.left--; l.left == 0 {
			l.shape.enough = len(l.shape.pieces)
		}
	}
}
