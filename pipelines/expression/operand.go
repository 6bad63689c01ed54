package expression

import (
	"math"
	"strconv"
	"strings"
	"unsafe"
)

// operandKind says what an operand is.
type operandKind uint8

const (
	// opBail: typed code does not know; the VM has to say what comes out, or which error.
	opBail operandKind = iota
	opNull
	opBool
	opInt   // a Go int: literals, and what arithmetic on integers gives
	opInt64 // an integer as it is in a document
	opFloat
	opText
	// opOther is some value that is not null: an object, a list, a time, a Number. Typed code
	// can only tell that it is there.
	opOther
)

// operand is a value on its way through typed code. It fits in registers.
type operand struct {
	kind operandKind
	bits uint64 // of a bool, an integer or a float
	text string // of a text; may be memory of the record
}

// code is a lowered expression: it gives a value or says that it cannot.
type code func(e *Env) operand

var bail, null = operand{}, operand{kind: opNull}

func boolOperand(b bool) operand {
	if b {
		return operand{kind: opBool, bits: 1}
	}
	return operand{kind: opBool}
}

func intOperand(i int) operand       { return operand{kind: opInt, bits: uint64(i)} }
func int64Operand(i int64) operand   { return operand{kind: opInt64, bits: uint64(i)} }
func floatOperand(f float64) operand { return operand{kind: opFloat, bits: math.Float64bits(f)} }
func textOperand(s string) operand   { return operand{kind: opText, text: s} }
func (o operand) isInt() bool        { return o.kind == opInt || o.kind == opInt64 }
func (o operand) isNumber() bool     { return o.kind >= opInt && o.kind <= opFloat }

// truth is a condition.
func (o operand) truth() (value, ok bool) { return o.bits != 0, o.kind == opBool }

// float is a number as float64.
func (o operand) float() float64 {
	if o.kind == opFloat {
		return math.Float64frombits(o.bits)
	}
	return float64(int64(o.bits))
}

// operandOf is a constant as operand, bail when typed code cannot hold it.
func operandOf(v any) operand {
	switch v := v.(type) {
	case nil:
		return null
	case bool:
		return boolOperand(v)
	case int:
		return intOperand(v)
	case int64:
		return int64Operand(v)
	case float64:
		return floatOperand(v)
	case string:
		return textOperand(v)
	}
	return bail
}

// value is the operand as the VM would give it. A text is copied out of the record.
func (o operand) value() any {
	switch o.kind {
	case opBool:
		return o.bits != 0
	case opInt:
		return int(o.bits)
	case opInt64:
		return int64(o.bits)
	case opFloat:
		return math.Float64frombits(o.bits)
	case opText:
		return strings.Clone(o.text)
	}
	return nil
}

// appendKey appends the operand as AppendKey does.
func (o operand) appendKey(dst []byte) (key []byte, isNull bool, err error) {
	switch o.kind {
	case opNull:
		return dst, true, nil
	case opText:
		return append(dst, o.text...), false, nil
	}
	dst, err = o.appendJSON(dst)
	return dst, false, err
}

// appendJSON appends the operand as AppendJSON does.
func (o operand) appendJSON(dst []byte) ([]byte, error) {
	switch o.kind {
	case opBool:
		return strconv.AppendBool(dst, o.bits != 0), nil
	case opInt, opInt64:
		return strconv.AppendInt(dst, int64(o.bits), 10), nil
	case opFloat:
		return AppendFloat(dst, math.Float64frombits(o.bits))
	case opText:
		return appendString(dst, o.text), nil
	}
	return append(dst, "null"...), nil
}

// view is data as text without a copy. It is valid as long as the record is.
func view(data []byte) string { return unsafe.String(unsafe.SliceData(data), len(data)) }

// spanOperand is what a span of a document holds.
func spanOperand(data []byte, at span) operand {
	switch at.kind {
	case '"':
		raw := data[at.start+1 : at.end-1]
		if at.escaped {
			return textOperand(string(unescape(nil, raw)))
		}
		return textOperand(view(raw))
	case '0':
		raw := data[at.start:at.end]
		if i, ok := parseInt(raw); ok {
			return int64Operand(i)
		}
		if f, ok := parseDecimal(raw); ok {
			return floatOperand(f)
		}
		switch v := parseNumber(raw).(type) {
		case int64:
			return int64Operand(v)
		case float64:
			return floatOperand(v)
		}
		return operand{kind: opOther}
	case 't', 'f':
		return boolOperand(at.kind == 't')
	case 0, 'n':
		return null
	}
	return operand{kind: opOther}
}

// tenths are the powers of ten that float64 holds exactly.
var tenths = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13,
	1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22}

// parseDecimal reads digits with one point, as prices are written. With at most 15 digits both
// the digits and the power of ten are exact in float64, so that one division rounds correctly
// (Clinger 1990); what is longer or has an exponent is left to strconv.
func parseDecimal(text []byte) (float64, bool) {
	i, negative := 0, false
	if len(text) > 0 && text[0] == '-' {
		i, negative = 1, true
	}
	if len(text)-i > 16 {
		return 0, false
	}
	var digits uint64
	point := -1
	for ; i < len(text); i++ {
		switch c := text[i]; {
		case c >= '0' && c <= '9':
			digits = digits*10 + uint64(c-'0')
		case c == '.' && point < 0:
			point = i
		default:
			return 0, false
		}
	}
	if point < 0 {
		return 0, false
	}
	f := float64(digits) / tenths[len(text)-1-point]
	if negative {
		f = -f
	}
	return f, true
}
