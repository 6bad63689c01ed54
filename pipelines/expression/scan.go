package expression

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf8"
)

// maxJSONDepth bounds nesting, so that a hostile value cannot exhaust the stack.
const maxJSONDepth = 512

// DecodeError says that a key, value or row is not what its format promises. Class "decode".
type DecodeError struct {
	// What is "value", "key" or the name of a joined row.
	What string
	// Offset is the byte at which reading failed.
	Offset int
	Reason string
}

// Error is the reason with its place.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("decode %s: %s at byte %d", e.What, e.Reason, e.Offset)
}

// span is where in the JSON text a value is. kind is 0 when it is missing, else the first byte of
// the value, with '0' for every number.
type span struct {
	start, end int32
	kind       byte
	escaped    bool // a string with at least one backslash
}

// path is one node of the tree of wanted paths. Node 0 is the whole text.
type path struct {
	id     int
	wanted bool // its text is asked for, not only passed through
	keys   []string
	kids   []*path
}

// child finds the node below key, or nil.
func (p *path) child(key []byte) *path {
	for i, k := range p.keys {
		if string(key) == k {
			return p.kids[i]
		}
	}
	return nil
}

// scanner walks one JSON text once. With validate it reads all of it and accepts exactly RFC 8259
// in UTF-8 with unique keys (RFC 7493); without, the text is known to be valid, and the walk ends
// as soon as every wanted path was seen.
type scanner struct {
	data     []byte
	pos      int
	spans    []span // by path id
	left     int    // wanted paths not seen yet
	validate bool
	depth    int
}

// errStop ends a walk early.
var errStop = fmt.Errorf("stop")

func (s *scanner) fail(reason string) error { return &DecodeError{Offset: s.pos, Reason: reason} }

// run scans data for the paths below root. spans must have room for every path id.
func (s *scanner) run(data []byte, root *path, wanted int, validate bool) error {
	s.data, s.pos, s.left, s.validate, s.depth = data, 0, wanted, validate, 0
	clear(s.spans)
	if wanted == 0 && !validate {
		return nil
	}
	switch err := s.value(root); {
	case err == errStop:
		return nil
	case err != nil:
		return err
	}
	if !validate {
		return nil
	}
	s.space()
	if s.pos != len(s.data) {
		return s.fail("text after the end of the value")
	}
	return nil
}

func (s *scanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// next goes to the next byte that is no white space and returns it, 0 at the end of the text.
func (s *scanner) next() byte {
	if s.pos < len(s.data) && s.data[s.pos] > ' ' {
		return s.data[s.pos]
	}
	return s.nextSpaced()
}

func (s *scanner) nextSpaced() byte {
	if s.space(); s.pos < len(s.data) {
		return s.data[s.pos]
	}
	return 0
}

// skip reads one value in which nothing is wanted.
func (s *scanner) skip() (err error) {
	switch s.next() {
	case '"':
		_, err = s.str()
	case '{':
		err = s.object(nil)
	case '[':
		err = s.array()
	case 't':
		err = s.word("true")
	case 'f':
		err = s.word("false")
	case 'n':
		err = s.word("null")
	default:
		if s.pos >= len(s.data) {
			return s.fail("unexpected end")
		}
		err = s.number()
	}
	return err
}

// value reads one value; p is nil when nothing in it is wanted.
func (s *scanner) value(p *path) error {
	if p == nil {
		return s.skip()
	}
	c := s.next()
	if s.pos >= len(s.data) {
		return s.fail("unexpected end")
	}
	at := span{start: int32(s.pos), kind: c}
	var err error
	switch c {
	case '{':
		s.spans[p.id].kind = c // children look at it before the end is known
		err = s.object(p)
	case '[':
		err = s.array()
	case '"':
		at.escaped, err = s.str()
	case 't':
		err = s.word("true")
	case 'f':
		err = s.word("false")
	case 'n':
		err = s.word("null")
	default:
		at.kind = '0'
		err = s.number()
	}
	if err != nil {
		return err
	}
	at.end = int32(s.pos)
	s.spans[p.id] = at
	if p.wanted {
		if s.left--; s.left == 0 && !s.validate {
			return errStop
		}
	}
	return nil
}

func (s *scanner) word(w string) error {
	if len(s.data)-s.pos < len(w) || string(s.data[s.pos:s.pos+len(w)]) != w {
		return s.fail("unexpected text")
	}
	s.pos += len(w)
	return nil
}

func (s *scanner) array() error {
	if s.depth++; s.depth > maxJSONDepth {
		return s.fail("nested too deep")
	}
	s.pos++
	if s.next() == ']' {
		s.pos++
		s.depth--
		return nil
	}
	for {
		if err := s.skip(); err != nil {
			return err
		}
		switch s.next() {
		case ',':
			s.pos++
		case ']':
			s.pos++
			s.depth--
			return nil
		default:
			return s.failAt("',' or ']' expected")
		}
	}
}

// failAt says what was expected, unless the text just ended.
func (s *scanner) failAt(reason string) error {
	if s.pos >= len(s.data) {
		reason = "unexpected end"
	}
	return s.fail(reason)
}

func (s *scanner) object(p *path) error {
	if s.depth++; s.depth > maxJSONDepth {
		return s.fail("nested too deep")
	}
	s.pos++
	if s.next() == '}' {
		s.pos++
		s.depth--
		return nil
	}
	var seen keySet
	for {
		kid, err := s.key(p, &seen)
		if err != nil {
			return err
		}
		if s.next() != ':' {
			return s.fail("':' expected")
		}
		s.pos++
		if kid == nil {
			err = s.skip()
		} else {
			err = s.value(kid)
		}
		if err != nil {
			return err
		}
		switch s.next() {
		case ',':
			s.pos++
		case '}':
			s.pos++
			s.depth--
			return nil
		default:
			return s.failAt("',' or '}' expected")
		}
	}
}

// key reads the name of a member and finds the path below p that it leads to, nil for none.
func (s *scanner) key(p *path, seen *keySet) (kid *path, err error) {
	if s.next() != '"' {
		return nil, s.fail("'\"' expected")
	}
	start := s.pos
	escaped, err := s.str()
	if err != nil {
		return nil, err
	}
	key := s.data[start+1 : s.pos-1]
	if escaped {
		key = unescape(nil, key)
	}
	if s.validate && seen.add(s.data, key, start+1, escaped) {
		s.pos = start
		return nil, s.fail(fmt.Sprintf("key %q is here twice", key))
	}
	if p != nil {
		kid = p.child(key)
	}
	return kid, nil
}

// number reads by the grammar of RFC 8259 §6.
func (s *scanner) number() error {
	d, i := s.data, s.pos
	if i < len(d) && d[i] == '-' {
		i++
	}
	switch {
	case i < len(d) && d[i] == '0':
		i++
	case i < len(d) && d[i] >= '1' && d[i] <= '9':
		i = digits(d, i)
	default:
		return s.fail("a value expected")
	}
	if i < len(d) && d[i] == '.' {
		if j := digits(d, i+1); j > i+1 {
			i = j
		} else {
			return s.fail("a digit expected after '.'")
		}
	}
	if i < len(d) && (d[i] == 'e' || d[i] == 'E') {
		i++
		if i < len(d) && (d[i] == '+' || d[i] == '-') {
			i++
		}
		j := digits(d, i)
		if j == i {
			return s.fail("a digit expected in the exponent")
		}
		i = j
	}
	s.pos = i
	return nil
}

func digits(d []byte, i int) int {
	for i < len(d) && d[i] >= '0' && d[i] <= '9' {
		i++
	}
	return i
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special finds the first byte in 8 that is a quote, a backslash, a control character or not
// ASCII; 8 when there is none. A subtraction sets the high bit of a byte that matches, and of some
// that are not ASCII, which match anyway; borrows can only spoil bytes above a match, and the
// lowest one is taken.
func special(x uint64) int {
	quote, slash := x^(ones*'"'), x^(ones*'\\')
	m := (quote - ones) | (slash - ones) | (x - ones*0x20) | x
	return bits.TrailingZeros64(m&highs) / 8
}

// str reads a string, from its opening to behind its closing quote.
func (s *scanner) str() (escaped bool, err error) {
	d, i := s.data, s.pos+1
	ascii := true
	for {
		for i+8 <= len(d) {
			n := special(binary.LittleEndian.Uint64(d[i:]))
			i += n
			if n < 8 {
				break
			}
		}
		if i >= len(d) {
			s.pos = len(d)
			return false, s.fail("unexpected end of a string")
		}
		switch c := d[i]; {
		case c == '"':
			if s.validate && !ascii && !utf8.Valid(d[s.pos+1:i]) {
				return false, s.fail("invalid UTF-8 in a string")
			}
			s.pos = i + 1
			return escaped, nil
		case c == '\\':
			escaped = true
			n := escapeLength(d[i:])
			if n == 0 {
				s.pos = i
				return false, s.fail("invalid escape in a string")
			}
			i += n
		case c < 0x20:
			s.pos = i
			return false, s.fail("control character in a string")
		default:
			ascii = ascii && c < utf8.RuneSelf
			i++
		}
	}
}

// escapeLength is the length of the escape at the start of d, 0 when it is none.
func escapeLength(d []byte) int {
	if len(d) < 2 {
		return 0
	}
	switch d[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(d) < 6 {
			return 0
		}
		for _, c := range d[2:6] {
			if hexDigit(c) < 0 {
				return 0
			}
		}
		return 6
	}
	return 0
}

func hexDigit(c byte) rune {
	switch {
	case c >= '0' && c <= '9':
		return rune(c - '0')
	case c >= 'a' && c <= 'f':
		return rune(c - 'a' + 10)
	case c >= 'A' && c <= 'F':
		return rune(c - 'A' + 10)
	}
	return -1
}

// keySet remembers the keys of one object. Up to some keys a list of places and a bit per hash are
// faster than a map, and cost no allocation.
type keySet struct {
	bits  uint64
	count int
	few   [12]struct{ at, size int32 } // places of keys in the text
	many  map[string]struct{}
}

// add reports whether the key was there already. A key with escapes is not as it is in the text.
func (k *keySet) add(data, key []byte, at int, escaped bool) bool {
	if k.many != nil || escaped || k.count == len(k.few) {
		return k.addMany(data, key)
	}
	h := uint(len(key))
	if len(key) > 0 {
		h = h*31 + uint(key[0])*7 + uint(key[len(key)-1])*3 + uint(key[len(key)/2])
	}
	bit := uint64(1) << (h & 63)
	if k.bits&bit != 0 {
		for _, have := range k.few[:k.count] {
			if int(have.size) == len(key) && string(data[have.at:have.at+have.size]) == string(key) {
				return true
			}
		}
	}
	k.bits |= bit
	k.few[k.count].at, k.few[k.count].size = int32(at), int32(len(key))
	k.count++
	return false
}

// addMany is add with a map, which takes over the keys so far.
func (k *keySet) addMany(data, key []byte) bool {
	if k.many == nil {
		k.many = make(map[string]struct{}, 2*len(k.few))
		for _, have := range k.few[:k.count] {
			k.many[string(data[have.at:have.at+have.size])] = struct{}{}
		}
	}
	if _, ok := k.many[string(key)]; ok {
		return true
	}
	k.many[string(key)] = struct{}{}
	return false
}
