package lang

import (
	"reflect"
	"strings"
)

// KeyDoc is a key of the language for the reference.
type KeyDoc struct {
	Key  string
	Type string // what its value is, with the words it may be
	// Default is empty where leaving the key away means nothing more than that.
	Default  string
	Required bool
	Doc      string
	Example  string
	// NotYet is not empty for a key that is known and not built: what to do instead.
	NotYet string
}

// ObjectDoc is an object of the language with its keys.
type ObjectDoc struct {
	Name, Doc string
	Keys      []KeyDoc
}

// Reference lists all objects of the language, the pipeline first.
func Reference() []ObjectDoc {
	var list []ObjectDoc
	seen := map[reflect.Type]bool{}
	var walk func(t reflect.Type)
	walk = func(t reflect.Type) {
		if t = itemOf(t); t.Kind() != reflect.Struct || seen[t] || len(fieldsOf(t)) == 0 {
			return
		}
		seen[t] = true
		o := ObjectDoc{Name: objectName(t)}
		if d, ok := reflect.New(t).Interface().(described); ok {
			_, o.Doc = d.object()
		}
		fields := fieldsOf(t)
		for i := range fields {
			k := keyDoc(&fields[i])
			if x, ok := keyExamples[o.Name+"."+k.Key]; ok {
				k.Example = x
			}
			o.Keys = append(o.Keys, k)
		}
		list = append(list, o)
		for i := range fields {
			walk(fields[i].typ)
		}
	}
	walk(reflect.TypeFor[Pipeline]())
	walk(reflect.TypeFor[shorthand]())
	return list
}

// itemOf is what a pointer, a list or a mapping of the user's names holds.
func itemOf(t reflect.Type) reflect.Type {
	for {
		switch name := t.Name(); {
		case t.Kind() == reflect.Pointer:
			t = t.Elem()
		case strings.HasPrefix(name, "Map["):
			v, _ := t.Field(0).Type.Elem().FieldByName("Value")
			t = v.Type
		case strings.HasPrefix(name, "List["):
			t = t.Field(0).Type.Elem()
		default:
			return t
		}
	}
}

func keyDoc(f *field) KeyDoc {
	k := KeyDoc{Key: f.key, Default: f.def, Required: f.required, Doc: f.doc, NotYet: f.notYet}
	k.Type, k.Example = typeDoc(f.typ)
	if len(f.enum) > 0 {
		k.Type, k.Example = strings.Join(f.enum, ", "), f.enum[0]
	}
	if x, ok := keyExamples[f.key]; ok {
		k.Example = x
	}
	return k
}

// keyExamples are for keys whose type does not say enough.
var keyExamples = map[string]string{
	"version": "1", "pipeline": "big-orders", "key": "string", "value": "json", "topic": "orders",
	"from": "orders", "to": "big-orders", "connector": "file", "config": "{path: in.jsonl}",
	"event_time": `'parse_time(value.at, "rfc3339")'`, "flat_map": "value.items", "on": "value.user",
	"by": "value.user", "with_on": "value.order", "init": "0", "update": "acc + value.n",
	"merge": "acc + other", "log": "'{{ key }} has {{ value.n }}'", "dlq": "dead-letters",
	"route": "'orders-{{ value.country }}'", "source": "./plugins/fraud", "memory": "128MiB",
	"when": "value.n > 10", "table": "users", "stream": "payments", "as": "user", "use": "scrub",
	"with": "{fields: [email]}", "rate": "100/s", "backoff": "100ms..30s", "vars": "{least: 100}",
	"unset": "[ip, cookies]", "set": "{host: lower(value.host)}", "type": "string",
	"map": "{id: value.id, total: value.n * value.price}", "within": "15m", "emit": "on_close",
	"late": "{topic: late-orders}", "start": "earliest", "by_class": "{decode: drop}",
	"fields":          "{orders: count, total: {sum: value.n}}",
	"a schema.fields": "{id: string, n: int64|null}",
	"include":         "[common.yaml]",
}

// typeDoc says in words what a value of Go type t is, and shows one.
func typeDoc(t reflect.Type) (words, example string) {
	many := strings.HasPrefix(t.Name(), "List[")
	named := strings.HasPrefix(t.Name(), "Map[")
	item := itemOf(t)
	switch {
	case many:
		words, _ = typeDoc(item)
		return "list of " + words, ""
	case named:
		words, _ = typeDoc(item)
		return "mapping of names to " + words, ""
	}
	name := strings.ReplaceAll(item.String(), "github.com/millstream-io/millstream/pipelines/", "")
	if d, ok := leafDocs[strings.ReplaceAll(name, "lang.", "")]; ok {
		return d[0], d[1]
	}
	if item.Kind() == reflect.Struct && len(fieldsOf(item)) > 0 {
		return objectName(item), ""
	}
	return strings.ToLower(item.Name()), ""
}

// leafDocs are the types of single values: in words, and an example.
var leafDocs = map[string][2]string{
	"Expr": {"expression", "value.n > 10"}, "Tree": {"any value", ""},
	"Template":   {"text with {{ expressions }}", "'{{ key }}'"},
	"Projection": {"expression, or mapping of fields to expressions", ""},
	"Output":     {"format, expression, or mapping of fields to expressions", ""},
	"Encoding":   {"json, string, bytes, or {format:, schema:}", "json"},
	"KeyRule":    {"format, or expression behind a connector", "string"},
	"KeyBy":      {"expression, or {key:, null_key: dlq, drop or round_robin}", "value.user"},
	"Start":      {"earliest, latest, or {timestamp: 2026-01-02T15:04:05Z}", "earliest"},
	"Emit":       {"on_update, on_close, or {every: 1m}", "on_close"},
	"Late":       {"dlq, drop, {topic: name}, or {update: 10m, then: dlq or drop}", "dlq"},
	"Span":       {"duration, or {before:, after:, grace:}", "15m"},
	"Within":     {"duration, or {before:, after:, grace:}", "15m"},
	"Fold":       {"an aggregator", "{sum: value.n}"},
	"Type":       {"string, int64, float64, bool, any, [type], or {fields}; |null", "string|null"},

	"Scalar[string]":        {"text", ""},
	"Scalar[int64]":         {"whole number", "3"},
	"Scalar[bool]":          {"true or false", "true"},
	"Scalar[time.Duration]": {"duration", "30s"},

	"Scalar[ID]":           {"id", "totals"},
	"Scalar[PipelineName]": {"name", "orders"},
	"Scalar[Topic]":        {"topic", "orders"},
	"Scalar[Path]":         {"field path", "user.mail"},
	"Scalar[Bytes]":        {"size", "64MiB"},
	"Scalar[Schedule]":     {"first..longest", "1s..30s"},
	"Scalar[Frequency]":    {"count/span", "100/s"},
}

// AggregatorDoc is an aggregator for the reference.
type AggregatorDoc struct{ Name, Doc, Example string }

// Aggregators lists what fields: of an aggregate may be.
func Aggregators() []AggregatorDoc {
	list := make([]AggregatorDoc, 0, len(aggregators))
	for _, name := range aggregators {
		example := foldExample(name)
		if name == "count" {
			example = "count"
		}
		list = append(list, AggregatorDoc{name, aggregatorDocs[name], example})
	}
	return list
}

var aggregatorDocs = map[string]string{
	"count": "how many records", "sum": "of numbers; nulls are left out",
	"min": "the least number or text", "max": "the largest number or text", "avg": "mean of numbers",
	"first":           "the value of the earliest record; by: offset is the first one read",
	"last":            "the value of the latest record; by: offset is the last one read",
	"distinct":        "how many different values, exactly",
	"approx_distinct": "how many different values, within about 2 %, in bounded memory",
	"collect":         "the values as a list, at most limit:",
	"topk":            "the k values with the largest by:; of: is what they show",
	"p50":             "median, within 1 %", "p95": "95th percentile, within 1 %",
	"p99": "99th percentile, within 1 %", "stddev": "standard deviation of the sample",
}
