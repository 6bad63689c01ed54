package expression

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/expr-lang/expr"
	"github.com/google/uuid"
	"github.com/zeebo/xxh3"
)

// Function is one function of the language beyond those of expr itself.
type Function struct {
	Name string
	// Signature and Doc are for the reference.
	Signature string
	Doc       string

	call  func(args ...any) (any, error)
	types []any
}

// layouts are the names parse_time and format_time know beside Go's own layouts.
var layouts = map[string]string{
	"rfc3339": time.RFC3339Nano, "rfc1123": time.RFC1123, "date": time.DateOnly,
	"datetime": time.DateTime,
}

// Functions lists the functions of the language beyond expr's own, by name. All of them are pure.
func Functions() []Function { return functions }

var functions = []Function{
	{"coalesce", "coalesce(a, b, …) any", "the first argument that is not null", coalesce,
		[]any{new(func(...any) any)}},
	{"format_time", "format_time(t, layout) string",
		"t in UTC by a Go layout or rfc3339, rfc1123, date, datetime", formatTime,
		[]any{new(func(time.Time, string) string)}},
	{"hash", "hash(s) string", "the 64-bit xxh3 of s, 16 hexadecimal digits", hash,
		[]any{new(func(string) string)}},
	{"header", "header(name) string or null", "the last header of that name", nil,
		[]any{new(func(string) any)}},
	{"ip_in_cidr", "ip_in_cidr(ip, cidr) bool", "whether an address is in a network", ipInCIDR,
		[]any{new(func(string, string) bool)}},
	{"json", "json(s) any", "the value of a JSON text", parseJSON, []any{new(func(string) any)}},
	{"mask", "mask(s, keep) string", "s with all but the last characters as *", mask,
		[]any{new(func(string, int) string), new(func(string, int64) string)}},
	{"parse_time", "parse_time(s, layout) time",
		"a time from text by a Go layout or rfc3339, rfc1123, date, datetime, or from a number " +
			"with unix or unix_ms", parseTime,
		[]any{new(func(string, string) time.Time), new(func(int64, string) time.Time),
			new(func(int, string) time.Time)}},
	{"processing_time", "processing_time() time", "the clock; a replay gives another result", nil,
		[]any{new(func() time.Time)}},
	{"record_time", "record_time(layout) string", "the record's timestamp as text", nil,
		[]any{new(func(string) string)}},
	{"redact", "redact(s) string", "*** for anything but null", redact,
		[]any{new(func(any) any)}},
	{"sha256", "sha256(s) string", "the SHA-256 of s in hexadecimal", sha, []any{
		new(func(string) string)}},
	{"uuid5", "uuid5(namespace, s) string", "the name-based UUID of s; namespace is a UUID, dns, " +
		"url or oid", uuid5, []any{new(func(string, string) string)}},
}

// sortedBuiltins replace those of expr whose order follows Go's random map order, whose JSON is not
// ours, or that want a time zone.
var sortedBuiltins = []Function{
	{Name: "keys", call: keys, types: []any{new(func(any) []any)}},
	{Name: "values", call: values, types: []any{new(func(any) []any)}},
	{Name: "toPairs", call: toPairs, types: []any{new(func(any) []any)}},
	{Name: "toJSON", call: toJSON, types: []any{new(func(any) string)}},
	{Name: "fromJSON", call: parseJSON, types: []any{new(func(string) any)}},
	{Name: "date", call: date, types: []any{new(func(string) time.Time),
		new(func(string, string) time.Time)}},
}

// laterFunctions are in the language but not built yet.
var laterFunctions = []string{"decimal", "schema_id"}

// functionOptions registers everything; what has no call is replaced before it could run.
func functionOptions() []expr.Option {
	options := []expr.Option{expr.DisableBuiltin("now"),
		expr.DisableBuiltin("timezone"), expr.Timezone("UTC")}
	for _, f := range sortedBuiltins {
		options = append(options, expr.DisableBuiltin(f.Name),
			expr.Function(f.Name, f.call, f.types...))
	}
	for _, f := range functions {
		call := f.call
		if call == nil {
			call = func(...any) (any, error) {
				return nil, fmt.Errorf("%s cannot be called here", f.Name)
			}
		}
		options = append(options, expr.Function(f.Name, call, f.types...))
	}
	return options
}

var errNotText = errors.New("a text is needed")

func texts(args []any) ([]string, error) {
	out := make([]string, len(args))
	for i, a := range args {
		s, ok := a.(string)
		if !ok {
			return nil, fmt.Errorf("%w, not %s", errNotText, describe(a))
		}
		out[i] = s
	}
	return out, nil
}

// describe names the type of a value as users know it.
func describe(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return "true or false"
	case int, int64, float64, Number:
		return "a number"
	case time.Time:
		return "a time"
	case map[string]any:
		return "an object"
	case []byte:
		return "bytes"
	}
	if reflect.TypeOf(v).Kind() == reflect.Slice {
		return "a list"
	}
	return fmt.Sprintf("a %T", v)
}

func coalesce(args ...any) (any, error) {
	for _, a := range args {
		if a != nil {
			return a, nil
		}
	}
	return nil, nil
}

func parseTime(args ...any) (any, error) {
	layout, ok := args[1].(string)
	if !ok {
		return nil, errNotText
	}
	switch n := args[0].(type) {
	case int64:
		return unixTime(n, layout)
	case int:
		return unixTime(int64(n), layout)
	case string:
		if name, ok := layouts[layout]; ok {
			layout = name
		}
		t, err := time.Parse(layout, n)
		if err != nil {
			return nil, fmt.Errorf("%q is not a time: %w", n, err)
		}
		return t.UTC(), nil
	}
	return nil, fmt.Errorf("parse_time needs a text or a whole number, not %s", describe(args[0]))
}

// date reads a time without a layout, too.
func date(args ...any) (any, error) {
	if len(args) == 2 {
		return parseTime(args...)
	}
	s, err := texts(args)
	if err != nil {
		return nil, err
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339Nano, time.DateTime, time.RFC1123} {
		if t, err := time.Parse(layout, s[0]); err == nil {
			return t.UTC(), nil
		}
	}
	return nil, fmt.Errorf("%q is not a time; parse_time takes a layout", s[0])
}

func unixTime(n int64, layout string) (any, error) {
	switch layout {
	case "unix":
		return time.Unix(n, 0).UTC(), nil
	case "unix_ms":
		return time.UnixMilli(n).UTC(), nil
	}
	return nil, fmt.Errorf(`a number needs the layout "unix" or "unix_ms", not %q`, layout)
}

func formatTime(args ...any) (any, error) {
	t, isTime := args[0].(time.Time)
	layout, isText := args[1].(string)
	if !isTime || !isText {
		return nil, fmt.Errorf("format_time needs a time and a layout, not %s and %s",
			describe(args[0]), describe(args[1]))
	}
	if name, ok := layouts[layout]; ok {
		layout = name
	}
	return t.UTC().Format(layout), nil
}

func hash(args ...any) (any, error) {
	s, err := texts(args)
	if err != nil {
		return nil, err
	}
	return fmt.Sprintf("%016x", xxh3.HashString(s[0])), nil
}

func sha(args ...any) (any, error) {
	s, err := texts(args)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(s[0]))
	return hex.EncodeToString(sum[:]), nil
}

func uuid5(args ...any) (any, error) {
	s, err := texts(args)
	if err != nil {
		return nil, err
	}
	named := map[string]uuid.UUID{"dns": uuid.NameSpaceDNS, "url": uuid.NameSpaceURL,
		"oid": uuid.NameSpaceOID}
	space, ok := named[s[0]]
	if !ok {
		if space, err = uuid.Parse(s[0]); err != nil {
			return nil, fmt.Errorf("%q is not a UUID, dns, url or oid", s[0])
		}
	}
	return uuid.NewSHA1(space, []byte(s[1])).String(), nil
}

func ipInCIDR(args ...any) (any, error) {
	s, err := texts(args)
	if err != nil {
		return nil, err
	}
	ip, err := netip.ParseAddr(s[0])
	if err != nil {
		return nil, fmt.Errorf("%q is not an IP address", s[0])
	}
	network, err := netip.ParsePrefix(s[1])
	if err != nil {
		return nil, fmt.Errorf("%q is not a network like 10.0.0.0/8", s[1])
	}
	return network.Contains(ip.Unmap()), nil
}

func mask(args ...any) (any, error) {
	s, ok := args[0].(string)
	if !ok {
		return nil, errNotText
	}
	keep := 0
	switch n := args[1].(type) {
	case int:
		keep = n
	case int64:
		keep = int(min(n, int64(len(s))))
	default:
		return nil, fmt.Errorf("mask needs a whole number, not %s", describe(args[1]))
	}
	runes := []rune(s)
	for i := range max(len(runes)-max(keep, 0), 0) {
		runes[i] = '*'
	}
	return string(runes), nil
}

func redact(args ...any) (any, error) {
	if args[0] == nil {
		return nil, nil
	}
	return "***", nil
}

func parseJSON(args ...any) (any, error) {
	s, err := texts(args)
	if err != nil {
		return nil, err
	}
	v, err := DecodeJSON([]byte(s[0]))
	if e, ok := errors.AsType[*DecodeError](err); ok {
		return nil, fmt.Errorf("not JSON: %s at byte %d", e.Reason, e.Offset)
	}
	return v, err
}

func toJSON(args ...any) (any, error) {
	text, err := AppendJSON(nil, args[0])
	return string(text), err
}

func sortedKeys(v any) ([]string, map[string]any, error) {
	m, ok := v.(map[string]any)
	if rv := reflect.ValueOf(v); !ok && rv.Kind() == reflect.Map { // of groupBy
		m, ok = make(map[string]any, rv.Len()), true
		for it := rv.MapRange(); it.Next(); {
			name, err := keyText(reflect.ValueOf(it.Key().Interface()))
			if err != nil {
				return nil, nil, err
			}
			m[name] = it.Value().Interface()
		}
	}
	if !ok {
		return nil, nil, fmt.Errorf("an object is needed, not %s", describe(v))
	}
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.SortFunc(out, cmp.Compare)
	return out, m, nil
}

func keys(args ...any) (any, error) {
	names, _, err := sortedKeys(args[0])
	out := make([]any, len(names))
	for i, n := range names {
		out[i] = n
	}
	return out, err
}

func values(args ...any) (any, error) {
	names, m, err := sortedKeys(args[0])
	out := make([]any, len(names))
	for i, n := range names {
		out[i] = m[n]
	}
	return out, err
}

func toPairs(args ...any) (any, error) {
	names, m, err := sortedKeys(args[0])
	out := make([]any, len(names))
	for i, n := range names {
		out[i] = []any{n, m[n]}
	}
	return out, err
}

// functionNames are expr's functions and ours, for a did-you-mean.
func functionNames() []string {
	out := strings.Fields(`all none any one filter map find findIndex findLast findLastIndex count
		sum groupBy sortBy reduce len type abs ceil floor round int float string trim
		trimPrefix trimSuffix upper lower split splitAfter replace repeat join indexOf lastIndexOf
		hasPrefix hasSuffix max min mean median toBase64 fromBase64 duration first
		last get take reverse flatten uniq sort concat fromPairs bitand bitor bitxor bitnand
		bitnot bitshl bitshr bitushr`)
	for _, f := range functions {
		out = append(out, f.Name)
	}
	for _, f := range sortedBuiltins {
		out = append(out, f.Name)
	}
	return out
}
