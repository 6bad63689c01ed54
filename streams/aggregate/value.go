package aggregate

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"

	"github.com/millstream-io/millstream/streams/internal/fields"
)

// Kind is the type of a Value.
type Kind int8

// Kinds of values.
const (
	Null Kind = iota
	Int
	Float
	String
	// JSON is any other JSON value, as text: true, a list, an object.
	JSON
)

// Value is what a field takes from a record and what it results in.
type Value struct {
	Kind  Kind
	Int   int64
	Float float64
	Text  string
}

// IntValue returns an integer.
func IntValue(i int64) Value { return Value{Kind: Int, Int: i} }

// FloatValue returns a floating point number.
func FloatValue(f float64) Value { return Value{Kind: Float, Float: f} }

// StringValue returns a string, which min and max compare as bytes.
func StringValue(s string) Value { return Value{Kind: String, Text: s} }

// JSONValue returns a JSON text as a value: a number, a string and null become what they are.
func JSONValue(text []byte) (Value, error) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return Value{}, ErrNotJSON
	}
	switch c := text[0]; {
	case c == 'n':
		return Value{}, nil
	case c == '"':
		var s string
		if err := json.Unmarshal(text, &s); err != nil {
			return Value{}, fmt.Errorf("%w: %w", ErrNotJSON, err)
		}
		return StringValue(s), nil
	case c == '-' || c >= '0' && c <= '9':
		if i, err := strconv.ParseInt(string(text), 10, 64); err == nil {
			return IntValue(i), nil
		} else if errors.Is(err, strconv.ErrRange) {
			break // a whole number beyond 64 bits keeps its digits
		}
		f, err := strconv.ParseFloat(string(text), 64)
		if err != nil {
			return Value{}, fmt.Errorf("%w: %w", ErrNotJSON, err)
		}
		return FloatValue(f), nil
	}
	return Value{Kind: JSON, Text: string(text)}, nil
}

// Any returns v as int64, float64, string or nil; other JSON as json.RawMessage.
func (v Value) Any() any {
	switch v.Kind {
	case Int:
		return v.Int
	case Float:
		return v.Float
	case String:
		return v.Text
	case JSON:
		return json.RawMessage(v.Text)
	}
	return nil
}

// appendBytes appends v as it is kept in rows.
func (v Value) appendBytes(dst []byte) []byte {
	dst = append(dst, byte(v.Kind))
	switch v.Kind {
	case Int:
		return binary.AppendVarint(dst, v.Int)
	case Float:
		return binary.BigEndian.AppendUint64(dst, math.Float64bits(v.Float))
	case String, JSON:
		return append(binary.AppendUvarint(dst, uint64(len(v.Text))), v.Text...)
	}
	return dst
}

// readValue is the inverse of appendBytes. A kind that is not known fails r.
func readValue(r *fields.Reader) (v Value) {
	switch v.Kind = Kind(r.Byte()); v.Kind {
	case Null:
	case Int:
		v.Int = r.Varint()
	case Float:
		v.Float = math.Float64frombits(r.Fixed64())
	case String, JSON:
		v.Text = string(r.Bytes())
	default:
		r.Fail()
	}
	return v
}

// appendIdentity appends bytes that are equal for equal values, of whatever kind of number.
func (v Value) appendIdentity(dst []byte) []byte {
	const limit = 1 << 53
	if v.Kind == Float && v.Float == math.Trunc(v.Float) && math.Abs(v.Float) <= limit {
		v = IntValue(int64(v.Float))
	}
	switch v.Kind {
	case Int:
		return binary.BigEndian.AppendUint64(append(dst, 'i'), uint64(v.Int))
	case Float:
		return binary.BigEndian.AppendUint64(append(dst, 'f'), math.Float64bits(v.Float))
	case JSON:
		return append(append(dst, 'j'), v.Text...)
	}
	return append(append(dst, 's'), v.Text...)
}

// AppendJSON appends v as JSON. Floats are written as JavaScript does, so a whole one has no
// fraction: 3, not 3.0.
func (v Value) AppendJSON(dst []byte) []byte {
	switch v.Kind {
	case Int:
		return strconv.AppendInt(dst, v.Int, 10)
	case Float:
		return appendFloat(dst, v.Float)
	case String:
		b, err := json.Marshal(v.Text)
		if err != nil { // any string can be marshalled
			panic("invariant: a string can be marshalled: " + err.Error())
		}
		return append(dst, b...)
	case JSON:
		return append(dst, v.Text...)
	}
	return append(dst, "null"...)
}

// appendFloat follows ECMA-262 Number::toString: exponents below 1e-6 and from 1e21 on.
func appendFloat(dst []byte, f float64) []byte {
	if f == 0 {
		return append(dst, '0') // also for -0
	}
	abs := math.Abs(f)
	if abs >= 1e-6 && abs < 1e21 {
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	at := len(dst)
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	// e-09 becomes e-9.
	if n := len(dst); n-at >= 4 && dst[n-4] == 'e' && dst[n-2] == '0' {
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}

// compare orders two numbers or two strings.
func compare(a, b Value) (int, error) {
	if a.Kind == JSON || b.Kind == JSON {
		return 0, ErrNoOrder
	}
	if (a.Kind == String) != (b.Kind == String) {
		return 0, ErrMixed
	}
	switch {
	case a.Kind == String:
		return cmp.Compare(a.Text, b.Text), nil
	case a.Kind == Int && b.Kind == Int:
		return cmp.Compare(a.Int, b.Int), nil
	case a.Kind == Float && b.Kind == Float:
		return cmp.Compare(a.Float, b.Float), nil
	case a.Kind == Int:
		return compareIntFloat(a.Int, b.Float), nil
	}
	return -compareIntFloat(b.Int, a.Float), nil
}

// compareIntFloat compares exactly, also where float64 cannot hold the integer.
func compareIntFloat(i int64, f float64) int {
	const limit = 1 << 53
	if i >= -limit && i <= limit {
		return cmp.Compare(float64(i), f)
	}
	return new(big.Float).SetInt64(i).Cmp(big.NewFloat(f))
}

// quotient returns sum/count, rounded once; whole quotients are integers. count > 0.
func quotient(sum, count int64) Value {
	if sum%count == 0 {
		return IntValue(sum / count)
	}
	const limit = 1 << 53
	if sum >= -limit && sum <= limit && count <= limit {
		return FloatValue(float64(sum) / float64(count)) // both exact, so rounded once
	}
	f, _ := new(big.Rat).SetFrac64(sum, count).Float64()
	return FloatValue(f)
}
