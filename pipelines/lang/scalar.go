package lang

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The Go types of single values. Each has its own syntax and its own finding.
type (
	// ID names something inside a pipeline: letters, digits, _ and -, at most 64 characters.
	ID string
	// PipelineName is a pipeline's name: lower-case letters, digits and -.
	PipelineName string
	// Topic is a Kafka topic name.
	Topic string
	// Path is a value path as in set:, names joined by dots.
	Path string
	// Bytes is a size in bytes, written as 64KiB or 10MB.
	Bytes int64
	// Schedule is a retry backoff, written as first..longest.
	Schedule struct{ First, Longest time.Duration }
)

// Scalar is one value with its place. Set is false when the key is absent or was not readable.
type Scalar[T any] struct {
	Value T
	Pos   Pos
	Set   bool
}

// The scalar fields of the tree.
type (
	// Text is a plain string, often one of few words.
	Text = Scalar[string]
	// Integer is a whole number.
	Integer = Scalar[int64]
	// Boolean is true or false.
	Boolean = Scalar[bool]
	// Duration is a span of time; days are allowed (1d is 24h).
	Duration = Scalar[time.Duration]
	// Name refers to or declares an ID.
	Name = Scalar[ID]
	// TopicName is a topic.
	TopicName = Scalar[Topic]
	// FieldPath is a path into a value.
	FieldPath = Scalar[Path]
	// Size is a number of bytes.
	Size = Scalar[Bytes]
	// Backoff is a retry schedule.
	Backoff = Scalar[Schedule]
)

// Or is the value, or def when it is not set.
func (s Scalar[T]) Or(def T) T {
	if s.Set {
		return s.Value
	}
	return def
}

var (
	idPattern       = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,63}$`)
	pipelinePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	topicPattern    = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)
	pathPattern     = regexp.MustCompile(`^[A-Za-z_$][\w$-]*(\.[A-Za-z_$][\w$-]*)*$`)
)

func (s *Scalar[T]) decode(d *decoder, n *node, f *field) {
	if n.kind != kindScalar || n.isNull() {
		d.wrongKind(n, "a single value")
		return
	}
	text, secret, ok := d.refs.resolve(d, n)
	if !ok {
		return
	}
	if secret {
		d.reportAt(n, CodeReference, "a secret may only be used under config:", "")
		return
	}
	s.Pos = n.pos
	switch v := any(&s.Value).(type) {
	case *string:
		s.Set = d.text(v, n, text, f)
	case *int64:
		s.Set = d.integer(v, n, text, f)
	case *bool:
		s.Set = d.boolean(v, n, text)
	case *time.Duration:
		s.Set = d.duration(v, n, text)
	case *Bytes:
		s.Set = d.size(v, n, text)
	case *Schedule:
		s.Set = d.schedule(v, n, text)
	case *Frequency:
		s.Set = d.rate(v, n, text)
	case *ID:
		*v, s.Set = ID(text), d.match(n, text, idPattern, "an id",
			"letters, digits, _ and -, starting with a letter, at most 64 characters")
	case *PipelineName:
		*v, s.Set = PipelineName(text), d.match(n, text, pipelinePattern, "a pipeline name",
			"lower-case letters, digits and -, at most 63 characters")
	case *Topic:
		*v, s.Set = Topic(text), d.topic(n, text)
	case *Path:
		*v, s.Set = Path(text), d.match(n, text, pathPattern, "a field path",
			"names joined by dots, as customer.address.city")
	}
}

func (d *decoder) match(n *node, text string, p *regexp.Regexp, what, rule string) bool {
	if p.MatchString(text) {
		return true
	}
	d.reportAt(n, CodeBadName, fmt.Sprintf("%q is not %s", text, what), rule)
	return false
}

func (d *decoder) topic(n *node, text string) bool {
	if strings.Contains(text, "{{") {
		d.reportAt(n, CodeNotYetValue, "a topic name with {{ … }} in it is not supported yet",
			"name one topic; use branch: to split a stream")
		return false
	}
	if text == "." || text == ".." {
		d.reportAt(n, CodeBadName, fmt.Sprintf("%q is not a topic name", text), "")
		return false
	}
	return d.match(n, text, topicPattern, "a topic name",
		"letters, digits, . _ and -, at most 249 characters")
}

func (d *decoder) text(v *string, n *node, text string, f *field) bool {
	*v = text
	if len(f.enum) == 0 || slices.Contains(f.enum, text) {
		return true
	}
	if slices.Contains(f.later, text) {
		d.reportAt(n, CodeNotYetValue, fmt.Sprintf("%s: %s is not supported yet", f.key, text),
			"use "+strings.Join(f.enum, ", "))
		return false
	}
	hint := "one of " + strings.Join(f.enum, ", ")
	if near := Nearest(text, f.enum); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	d.reportAt(n, CodeBadValue, fmt.Sprintf("%s: cannot be %q", f.key, text), hint)
	return false
}

func (d *decoder) integer(v *int64, n *node, text string, f *field) bool {
	i, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		d.reportAt(n, CodeBadValue, fmt.Sprintf("%s: needs a whole number, not %q", f.key, text),
			"")
		return false
	}
	if low, err := strconv.ParseInt(f.min, 10, 64); err == nil && i < low {
		d.reportAt(n, CodeBadValue, fmt.Sprintf("%s: must be at least %d, not %d", f.key, low, i),
			"")
		return false
	}
	*v = i
	return true
}

func (d *decoder) boolean(v *bool, n *node, text string) bool {
	switch text {
	case "true":
		*v = true
	case "false":
	default:
		d.reportAt(n, CodeBadValue, fmt.Sprintf("true or false is needed, not %q", text), "")
		return false
	}
	return true
}

func (d *decoder) duration(v *time.Duration, n *node, text string) bool {
	span, err := ParseDuration(text)
	if err != nil {
		d.reportAt(n, CodeBadDuration, err.Error(), "write it as 250ms, 30s, 5m, 1h or 1d")
		return false
	}
	*v = span
	return true
}

func (d *decoder) schedule(v *Schedule, n *node, text string) bool {
	first, longest, ok := strings.Cut(text, "..")
	if !ok {
		longest = first
	}
	var err1, err2 error
	v.First, err1 = ParseDuration(first)
	v.Longest, err2 = ParseDuration(longest)
	if err1 != nil || err2 != nil || v.First > v.Longest {
		d.reportAt(n, CodeBadDuration, fmt.Sprintf("%q is not a backoff", text),
			"write the first and the longest wait, as 100ms..30s")
		return false
	}
	return true
}

// ParseDuration reads a span such as 250ms, 30s, 5m, 1h30m or 2d. It is never negative.
func ParseDuration(text string) (time.Duration, error) {
	bad := fmt.Errorf("%q is not a duration", text)
	whole, rest := time.Duration(0), text
	if days, after, ok := strings.Cut(text, "d"); ok {
		n, err := strconv.ParseInt(days, 10, 32)
		if err != nil || n < 0 || n > 36500 {
			return 0, bad
		}
		whole, rest = time.Duration(n)*24*time.Hour, after
	}
	if rest == "" && rest != text {
		return whole, nil
	}
	span, err := time.ParseDuration(rest)
	if err != nil || span < 0 || strings.HasPrefix(rest, "+") {
		return 0, bad
	}
	if rest == "0" && text != "0" {
		return 0, bad
	}
	return whole + span, nil
}

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}, {"", 1},
}

// ParseBytes reads a size such as 512, 64KiB or 10MB. It is never negative.
func ParseBytes(text string) (Bytes, error) {
	for _, u := range sizeUnits {
		digits, ok := strings.CutSuffix(text, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n < 0 || n > (1<<62)/u.bytes {
			break
		}
		return Bytes(n * u.bytes), nil
	}
	return 0, fmt.Errorf("%q is not a size", text)
}

func (d *decoder) size(v *Bytes, n *node, text string) bool {
	size, err := ParseBytes(text)
	if err != nil {
		d.reportAt(n, CodeBadSize, err.Error(), "write it as 512, 64KiB, 10MB or 1GiB")
		return false
	}
	*v = size
	return true
}

// schema is the JSON Schema of the syntax; ${…} may stand for any of them.
func (s *Scalar[T]) schema(_ *schemaGen, f *field) map[string]any {
	pattern := func(p string) map[string]any {
		return map[string]any{"type": "string", "pattern": p}
	}
	const reference = `^\$\{.*\}$`
	switch any(&s.Value).(type) {
	case *int64:
		i := map[string]any{"type": "integer"}
		if low, err := strconv.ParseInt(f.min, 10, 64); err == nil {
			i["minimum"] = low
		}
		return map[string]any{"anyOf": []any{i, pattern(reference)}}
	case *bool:
		return map[string]any{"anyOf": []any{map[string]any{"type": "boolean"},
			pattern(reference)}}
	case *time.Duration:
		return map[string]any{"anyOf": []any{
			pattern(`^([0-9]+d)?([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))*$|` + reference),
			map[string]any{"const": 0},
		}}
	case *Bytes:
		return map[string]any{"anyOf": []any{map[string]any{"type": "integer", "minimum": 0},
			pattern(`^[0-9]+([KMG]iB|[kKMG]B|B)?$|` + reference)}}
	case *ID:
		return pattern(idPattern.String() + `|` + reference)
	case *PipelineName:
		return pattern(pipelinePattern.String() + `|` + reference)
	case *Topic:
		return pattern(topicPattern.String() + `|\$\{`)
	case *Path:
		return pattern(pathPattern.String())
	case *Frequency:
		return pattern(`^[0-9]+ */ *[0-9]*(ms|s|m|h|d)$|` + reference)
	}
	if len(f.enum) > 0 {
		return map[string]any{"type": "string", "enum": toAny(f.enum)}
	}
	return map[string]any{"type": "string"}
}

func toAny(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}

// IsID reports whether s has the form of an id.
func IsID(s string) bool { return idPattern.MatchString(s) }
