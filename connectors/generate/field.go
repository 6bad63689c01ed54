package generate

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"time"
)

const letters = "abcdefghijklmnopqrstuvwxyz"

// appendRecord appends the value of record n at time at. random is seeded for n.
func appendRecord(dst []byte, fields []Field, n int64, at time.Time, random *rand.Rand) []byte {
	dst = append(dst, '{')
	for i := range fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendJSON(dst, fields[i].Name), ':')
		dst = appendField(dst, &fields[i], n, at, random)
	}
	return append(dst, '}')
}

func appendField(dst []byte, f *Field, n int64, at time.Time, random *rand.Rand) []byte {
	switch f.Type {
	case "sequence":
		return strconv.AppendInt(dst, n, 10)
	case "int":
		low, high := int64(math.Ceil(f.Min)), int64(math.Floor(f.Max))
		if high <= low {
			return strconv.AppendInt(dst, low, 10)
		}
		return strconv.AppendInt(dst, low+random.Int64N(high-low+1), 10)
	case "float":
		v := f.Min + random.Float64()*(f.Max-f.Min)
		return strconv.AppendFloat(dst, math.Round(v*1e4)/1e4, 'f', -1, 64)
	case "bool":
		return strconv.AppendBool(dst, random.Uint64()&1 == 1)
	case "string":
		dst = append(dst, '"')
		for range f.Length {
			dst = append(dst, letters[random.IntN(len(letters))])
		}
		return append(dst, '"')
	case "uuid": // version 4 of RFC 9562, but of seeded bytes
		a, b := random.Uint64(), random.Uint64()
		a = a&^0xf000 | 0x4000
		b = b&^(3<<62) | 2<<62
		return fmt.Appendf(dst, `"%08x-%04x-%04x-%04x-%012x"`,
			a>>32, a>>16&0xffff, a&0xffff, b>>48, b&0xffffffffffff)
	case "time":
		dst = append(dst, '"')
		dst = at.UTC().AppendFormat(dst, time.RFC3339Nano)
		return append(dst, '"')
	case "choice":
		return appendJSON(dst, f.Values[random.IntN(len(f.Values))])
	}
	return appendJSON(dst, f.Values[0])
}

func appendJSON(dst []byte, s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		return append(dst, `""`...) // a string always marshals
	}
	return append(dst, b...)
}
