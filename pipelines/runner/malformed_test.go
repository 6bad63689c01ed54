package runner_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// malformed has one good line before, between and behind lines that are not. The file begins with a
// byte order mark, and line 2 ends with CR LF; both belong to good lines.
func malformed() (text string, bad map[int]string) {
	lines := []string{
		"\uFEFF" + `{"id":"good1","n":1,"at":"2026-01-01T00:00:00Z"}`,
		`{"id":"good2","n":2,"at":"2026-01-01T00:00:01Z"}` + "\r",
		`{"id":"cut","n":3,"at":"2026-01-0`,
		``,
		`{"id":"bytes` + "\xff\xfe" + `","n":4,"at":"2026-01-01T00:00:02Z"}`,
		`{"id":"no time","n":5}`,
		`{"id":"time is a number","n":6,"at":17}`,
		`{"id":"wrong type","n":"many","at":"2026-01-01T00:00:03Z"}`,
		`{"id":"huge","n":7,"pad":"` + strings.Repeat("x", 1<<20) + `","at":"2026-01-01T00:00:04Z"}`,
		`not json at all`,
		`{"id":"good3","n":8,"at":"2026-01-01T00:00:05Z"}`,
	}
	return strings.Join(lines, "\n") + "\n", map[int]string{3: "decode", 4: "decode", 5: "decode",
		6: "event_time", 7: "event_time", 8: "expr", 10: "decode"}
}

const malformedPipeline = `version: 1
pipeline: p
on_error: %s
sources:
  in: {connector: file, config: {path: DIR/in.jsonl}, partitions: 1,
    event_time: 'parse_time(value.at, "rfc3339")'}
steps:
  - {id: twice, map: {id: value.id, twice: 2 * value.n}}
sinks: {out: {topic: out}}
`

// TestMalformedLinesGoToTheDeadLetters: each bad line arrives there with its bytes, file and line;
// all others are processed, and nothing is counted twice or not at all.
func TestMalformedLinesGoToTheDeadLetters(t *testing.T) {
	text, bad := malformed()
	r := newRig(t)
	r.file("in.jsonl", text)
	st := r.run(fmt.Sprintf(malformedPipeline, "{then: dlq, dlq: dead}"))
	require.Equal(t, []string{`{"id":"good1","twice":2}`, `{"id":"good2","twice":4}`,
		`{"id":"good3","twice":16}`, `{"id":"huge","twice":14}`}, r.values("out"))
	lines := strings.Split(text, "\n")
	classes := map[string]string{}
	for _, rec := range r.read("dead") {
		classes[string(rec.Value)] = header(rec, "ms-dlq-class")
		require.NotEmpty(t, header(rec, "ms-dlq-error"))
		require.Equal(t, "p", header(rec, "ms-dlq-pipeline"))
		if header(rec, "ms-dlq-class") == "decode" {
			require.Equal(t, "in", header(rec, "ms-dlq-step"))
			require.Equal(t, r.dir+"/in.jsonl", header(rec, "ms-dlq-topic"))
			n := header(rec, "ms-dlq-offset")
			require.Contains(t, header(rec, "ms-dlq-error"), "in.jsonl:"+n+":")
			require.Equal(t, lines[mustInt(t, n)-1], string(rec.Value), "line %s", n)
		}
	}
	want := map[string]string{}
	for n, class := range bad {
		want[lines[n-1]] = class
	}
	require.Equal(t, want, classes)
	require.EqualValues(t, 11, st.Sources[0].Records, "lines read")
	require.EqualValues(t, 7, st.RecordsIn, "lines that are JSON")
	require.EqualValues(t, 4, st.RecordsOut)
	require.EqualValues(t, 7, st.DeadLettered)
	require.Equal(t, st.Sources[0].Records, st.RecordsOut+st.DeadLettered+st.Late)

	again := r.run(fmt.Sprintf(malformedPipeline, "{then: dlq, dlq: dead}"))
	require.Equal(t, counters(st), counters(again), "a restart neither loses nor doubles a count")
	require.Len(t, r.read("dead"), 7)
	require.Len(t, r.read("out"), 4)
}

func TestMalformedLinesAreDroppedIfThatIsTheWish(t *testing.T) {
	text, _ := malformed()
	r := newRig(t)
	r.file("in.jsonl", text)
	st := r.run(fmt.Sprintf(malformedPipeline, "{then: drop}"))
	require.Len(t, r.read("out"), 4)
	require.Zero(t, st.DeadLettered)
	require.EqualValues(t, 11, st.Sources[0].Records)
	require.Contains(t, r.log.String(), "record dropped")
	require.Contains(t, r.log.String(), "in.jsonl:3")
}

// TestMalformedLineStopsThePipeline: it says where, keeps its position, and goes on when the line
// is mended without reading anything twice.
func TestMalformedLineStopsThePipeline(t *testing.T) {
	text, _ := malformed()
	r := newRig(t)
	r.file("in.jsonl", text)
	yaml := fmt.Sprintf(malformedPipeline, "{then: stop}")
	for range 2 {
		s := r.start(yaml)
		err := s.wait()
		require.ErrorContains(t, err, "in.jsonl:3")
		require.ErrorContains(t, err, "class decode")
	}
	lines := strings.Split(text, "\n")
	lines[2] = `{"id":"mended","n":3,"at":"2026-01-01T00:00:01Z"}`
	r.file("in.jsonl", strings.Join(append(lines[:3], ""), "\n"))
	st := r.run(yaml)
	require.Equal(t, []string{`{"id":"good1","twice":2}`, `{"id":"good2","twice":4}`,
		`{"id":"mended","twice":6}`}, r.values("out"))
	require.EqualValues(t, 3, st.RecordsIn)
}

// TestErrorsByClass: the policy of a class wins over the general one.
func TestErrorsByClass(t *testing.T) {
	text, _ := malformed()
	r := newRig(t)
	r.file("in.jsonl", text)
	st := r.run(fmt.Sprintf(malformedPipeline,
		"{then: dlq, dlq: dead, by_class: {decode: drop, expr: drop}}"))
	require.EqualValues(t, 2, st.DeadLettered)
	for _, rec := range r.read("dead") {
		require.Equal(t, "event_time", header(rec, "ms-dlq-class"))
	}
	s := r.start(strings.Replace(fmt.Sprintf(malformedPipeline,
		"{then: drop, by_class: {expr: stop}}"), "pipeline: p", "pipeline: q", 1))
	require.ErrorContains(t, s.wait(), "twice")
}
