package expression

import (
	"slices"
	"strings"
)

// FunctionDoc is a function for the reference.
type FunctionDoc struct {
	Name, Signature, Doc string
	// Example and Result are an expression and what it gives, as JSON. A test runs them.
	Example, Result string
}

// AllFunctions lists every function there is, by name.
func AllFunctions() []FunctionDoc {
	list := slices.Clone(builtins)
	for _, f := range functions {
		d := FunctionDoc{Name: f.Name, Signature: f.Signature, Doc: f.Doc}
		for _, x := range ownExamples {
			if x.Name == f.Name {
				d.Example, d.Result = x.Example, x.Result
			}
		}
		list = append(list, d)
	}
	slices.SortFunc(list, func(x, y FunctionDoc) int { return strings.Compare(x.Name, y.Name) })
	return list
}

// ownExamples are examples of the functions beyond those of expr.
var ownExamples = []FunctionDoc{
	{Name: "coalesce", Example: `coalesce(nil, "a")`, Result: `"a"`},
	{Name: "format_time", Example: `format_time(timestamp, "rfc3339")`,
		Result: `"1970-01-01T00:00:01Z"`},
	{Name: "hash", Example: `hash("a")`, Result: `"e6c632b61e964e1f"`},
	{Name: "header", Example: `header("h")`, Result: `"v2"`},
	{Name: "ip_in_cidr", Example: `ip_in_cidr("10.1.2.3", "10.0.0.0/8")`, Result: `true`},
	{Name: "json", Example: `json("[1, 2]")`, Result: `[1,2]`},
	{Name: "mask", Example: `mask("4111222", 3)`, Result: `"****222"`},
	{Name: "parse_time", Example: `parse_time("2026-01-02", "date").Year()`, Result: `2026`},
	{Name: "processing_time"},
	{Name: "record_time", Example: `record_time("date")`, Result: `"1970-01-01"`},
	{Name: "redact", Example: `redact("secret")`, Result: `"***"`},
	{Name: "sha256", Example: `sha256("")`,
		Result: `"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"`},
	{Name: "uuid5", Example: `uuid5("dns", "python.org")`,
		Result: `"886313e1-3b8a-5372-9b90-0c9aee199e5d"`},
}

// builtins are the functions of expr, and those of ours with their names.
var builtins = []FunctionDoc{
	{"abs", "abs(n) number", "n without its sign", `abs(-2)`, `2`},
	{"all", "all(list, condition) bool", "whether it holds for every item",
		`all([1, 2], # > 0)`, `true`},
	{"any", "any(list, condition) bool", "whether it holds for some item",
		`any([1, 2], # > 1)`, `true`},
	{"bitand", "bitand(a, b) int", "bits in both", `bitand(6, 3)`, `2`},
	{"bitnand", "bitnand(a, b) int", "bits of a that b has not", `bitnand(6, 3)`, `4`},
	{"bitnot", "bitnot(a) int", "all bits turned over", `bitnot(0)`, `-1`},
	{"bitor", "bitor(a, b) int", "bits in either", `bitor(6, 3)`, `7`},
	{"bitshl", "bitshl(a, n) int", "bits moved up", `bitshl(1, 4)`, `16`},
	{"bitshr", "bitshr(a, n) int", "bits moved down", `bitshr(16, 4)`, `1`},
	{"bitushr", "bitushr(a, n) int", "bits moved down, zeros from above", `bitushr(16, 4)`, `1`},
	{"bitxor", "bitxor(a, b) int", "bits in one of both", `bitxor(6, 3)`, `5`},
	{"ceil", "ceil(n) number", "the next whole number up", `ceil(1.2)`, `2`},
	{"concat", "concat(list, …) list", "lists behind each other", `concat([1], [2])`, `[1,2]`},
	{"count", "count(list, condition) int", "for how many items it holds",
		`count([1, 2, 3], # > 1)`, `2`},
	{"date", "date(s) time", "a time from text, as 2026-01-02 or in RFC 3339",
		`date("2026-01-02").Year()`, `2026`},
	{"duration", "duration(s) duration", "a span of time, as 1h30m",
		`duration("90s").Minutes()`, `1.5`},
	{"filter", "filter(list, condition) list", "the items for which it holds",
		`filter([1, 2], # > 1)`,
		`[2]`},
	{"find", "find(list, condition) any", "the first item for which it holds",
		`find([1, 2], # > 1)`, `2`},
	{"findIndex", "findIndex(list, condition) int", "its place", `findIndex([1, 2], # > 1)`, `1`},
	{"findLast", "findLast(list, condition) any", "the last item for which it holds",
		`findLast([1, 2], # > 0)`, `2`},
	{"findLastIndex", "findLastIndex(list, condition) int", "its place",
		`findLastIndex([1, 2], # > 0)`,
		`1`},
	{"first", "first(list) any", "the first item, or null", `first([1, 2])`, `1`},
	{"flatten", "flatten(list) list", "lists in lists as one", `flatten([1, [2, [3]]])`, `[1,2,3]`},
	{"float", "float(v) number", "a number from text or a whole number", `float("1.5")`, `1.5`},
	{"floor", "floor(n) number", "the next whole number down", `floor(1.8)`, `1`},
	{"fromBase64", "fromBase64(s) string", "text from base64", `fromBase64("aGk=")`, `"hi"`},
	{"fromJSON", "fromJSON(s) any", "as json(s)", `fromJSON("{\"a\": 1}").a`, `1`},
	{"fromPairs", "fromPairs(list) object", "an object from pairs",
		`fromPairs([["a", 1]])`, `{"a":1}`},
	{"get", "get(v, key) any", "a field or item, or null", `get([1, 2], 1)`, `2`},
	{"groupBy", "groupBy(list, key) object", "the items of each key",
		`groupBy(["a", "b", "a"], #)`, `{"a":["a","a"],"b":["b"]}`},
	{"hasPrefix", "hasPrefix(s, t) bool", "whether s begins with t",
		`hasPrefix("abc", "ab")`, `true`},
	{"hasSuffix", "hasSuffix(s, t) bool", "whether s ends with t",
		`hasSuffix("abc", "bc")`, `true`},
	{"indexOf", "indexOf(s, t) int", "where t is in s, or -1", `indexOf("abc", "c")`, `2`},
	{"int", "int(v) int", "a whole number from text or a number", `int("7")`, `7`},
	{"join", "join(list, sep) string", "texts as one", `join(["a", "b"], "-")`, `"a-b"`},
	{"keys", "keys(object) list", "the names of the fields, sorted",
		`keys({"b": 1, "a": 2})`, `["a","b"]`},
	{"last", "last(list) any", "the last item, or null", `last([1, 2])`, `2`},
	{"lastIndexOf", "lastIndexOf(s, t) int", "where t is in s for the last time",
		`lastIndexOf("aba", "a")`,
		`2`},
	{"len", "len(v) int", "of a text, list or object", `len("abc")`, `3`},
	{"lower", "lower(s) string", "in lower case", `lower("AbC")`, `"abc"`},
	{"map", "map(list, expression) list", "what it gives for each item, which is #",
		`map([1, 2], # * 2)`,
		`[2,4]`},
	{"max", "max(n, …) number", "the largest", `max(1, 3, 2)`, `3`},
	{"mean", "mean(list) number", "the mean", `mean([1, 2])`, `1.5`},
	{"median", "median(list) number", "the one in the middle", `median([1, 5, 2])`, `2`},
	{"min", "min(n, …) number", "the least", `min(3, 1, 2)`, `1`},
	{"none", "none(list, condition) bool", "whether it holds for no item",
		`none([1, 2], # > 2)`, `true`},
	{"one", "one(list, condition) bool", "whether it holds for one item alone",
		`one([1, 2], # > 1)`,
		`true`},
	{"reduce", "reduce(list, expression, first) any", "the items as one, which is #acc",
		`reduce([1, 2, 3], #acc + #, 0)`, `6`},
	{"repeat", "repeat(s, n) string", "s n times", `repeat("ab", 2)`, `"abab"`},
	{"replace", "replace(s, old, new) string", "every old as new",
		`replace("aba", "a", "c")`, `"cbc"`},
	{"reverse", "reverse(list) list", "from the end", `reverse([1, 2])`, `[2,1]`},
	{"round", "round(n) number", "the nearest whole number", `round(1.5)`, `2`},
	{"sort", "sort(list, order) list", `by rising value, or "desc"`, `sort([2, 1])`, `[1,2]`},
	{"sortBy", "sortBy(list, key, order) list", "by what the key gives",
		`sortBy([2, 1], -#)`, `[2,1]`},
	{"split", "split(s, sep) list", "parts of a text", `split("a,b", ",")`, `["a","b"]`},
	{"splitAfter", "splitAfter(s, sep) list", "parts with what ends them", `splitAfter("a,b", ",")`,
		`["a,","b"]`},
	{"string", "string(v) string", "v as text", `string(7)`, `"7"`},
	{"sum", "sum(list) number", "all added", `sum([1, 2])`, `3`},
	{"take", "take(list, n) list", "the first n items", `take([1, 2, 3], 2)`, `[1,2]`},
	{"toBase64", "toBase64(s) string", "text as base64", `toBase64("hi")`, `"aGk="`},
	{"toJSON", "toJSON(v) string", "v as JSON", `toJSON([1, "a"])`, `"[1,\"a\"]"`},
	{"toPairs", "toPairs(object) list", "fields as pairs, sorted",
		`toPairs({"a": 1})`, `[["a",1]]`},
	{"trim", "trim(s, cut) string", "without space, or what is in cut, at both ends",
		`trim(" a ")`, `"a"`},
	{"trimPrefix", "trimPrefix(s, t) string", "without t before it",
		`trimPrefix("abc", "ab")`, `"c"`},
	{"trimSuffix", "trimSuffix(s, t) string", "without t behind it",
		`trimSuffix("abc", "bc")`, `"a"`},
	{"type", "type(v) string", "what v is", `type("a")`, `"string"`},
	{"uniq", "uniq(list) list", "each item once", `uniq([1, 2, 1])`, `[1,2]`},
	{"upper", "upper(s) string", "in upper case", `upper("AbC")`, `"ABC"`},
	{"values", "values(object) list", "of the fields, by their names",
		`values({"b": 1, "a": 2})`, `[2,1]`},
}
