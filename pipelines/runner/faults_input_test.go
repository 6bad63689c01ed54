package runner_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/pipelines/deploy"
)

// sums adds up what a topic has by key; what it cannot is in the dead letters.
const sums = `version: 1
pipeline: p
on_error: {then: dlq, dlq: dead}
sources: {in: {topic: in, key: string}}
steps:
  - {id: plus, from: in, map: {n: value.n + 1}}
  - {id: agg, aggregate: {by: key, unbounded: true, fields: {s: {sum: value.n}}}}
sinks: {out: {topic: out}}
`

// badInput are records that sums cannot take, with the class of their dead letter. After each of
// them a good one follows.
func badInput() map[string]*kgo.Record {
	key := []byte("k")
	value := func(s string) *kgo.Record { return &kgo.Record{Key: key, Value: []byte(s)} }
	return map[string]*kgo.Record{
		"decode NaN":            value(`{"n":NaN}`),
		"decode cut":            value(`{"n":1`),
		"expr null":             value(`{"n":null}`),
		"expr text":             value(`{"n":"1"}`),
		"expr no object":        value(`7`),
		"overflow beyond int64": value(`{"n":9223372036854775806}`),
		"key null":              {Value: []byte(`{"n":1}`)},
		"key of 64 KiB":         {Key: bytes.Repeat(key, 64<<10), Value: []byte(`{"n":1}`)},
		"event_time negative":   {Key: key, Value: []byte(`{"n":1}`), Timestamp: time.UnixMilli(-5)},
		"event_time in microseconds": {Key: key, Value: []byte(`{"n":1}`),
			Timestamp: time.UnixMilli(1_767_225_600_000_000)},
	}
}

// TestBadInputIsADeadLetterAndNothingElse: each bad record is in the dead letters, with its bytes,
// class, step, topic, partition and offset; all others count, also one with integers beyond 2^53
// and one of 900 KB.
func TestBadInputIsADeadLetterAndNothingElse(t *testing.T) {
	r := newRig(t)
	_, err := kadm.NewClient(r.client).CreateTopic(r.ctx(), 1, 1,
		map[string]*string{"message.timestamp.after.max.ms": kadm.StringPtr("9223372036854775807")},
		"in")
	require.NoError(t, err)
	s := r.start(sums)
	classes, at := map[string]string{}, map[string]*kgo.Record{}
	good := func(n int64, pad string) {
		r.write(&kgo.Record{Topic: "in", Key: []byte("k"), Timestamp: time.UnixMilli(1),
			Value: fmt.Appendf(nil, `{"n":%d,"pad":%q}`, n, pad)})
	}
	good(9007199254740993, "") // 2^53 + 1 is no float64
	sent := 1
	for name, rec := range badInput() {
		rec.Topic = "in"
		if rec.Timestamp.IsZero() {
			rec.Timestamp = time.UnixMilli(1)
		}
		rec.Headers = []kgo.RecordHeader{{Key: "name", Value: []byte(name)}}
		r.write(rec)
		at[name] = rec
		good(0, strings.Repeat("x", 900<<10*(sent%2)))
		sent++
	}
	r.write(&kgo.Record{Topic: "in", Key: []byte("k"), Timestamp: time.UnixMilli(1)}) // a tombstone
	good(1, "")
	last := fmt.Sprintf(`k={"s":%d}`, 9007199254740993+2+1+len(at))
	s.until("the last one counts", func() bool {
		all := r.read("out")
		return len(all) > 0 && show(all[len(all)-1]) == last && len(r.read("dead")) >= len(at)+1
	})
	for _, rec := range r.read("dead") {
		name := header(rec, "name")
		if rec.Value == nil {
			continue // the tombstone: an expression needs a value
		}
		classes[name] = header(rec, "ms-dlq-class")
		require.Equal(t, at[name].Value, rec.Value, name)
		require.Equal(t, at[name].Key, rec.Key, name)
		require.Equal(t, "p/in/0", strings.Join([]string{header(rec, "ms-dlq-pipeline"),
			header(rec, "ms-dlq-topic"), header(rec, "ms-dlq-partition")}, "/"), name)
		require.Equal(t, fmt.Sprint(at[name].Offset), header(rec, "ms-dlq-offset"), name)
		require.NotEmpty(t, header(rec, "ms-dlq-step"), name)
		require.NotEmpty(t, header(rec, "ms-dlq-error"), name)
	}
	want := map[string]string{}
	for name := range at {
		want[name] = strings.Fields(name)[0]
	}
	require.Equal(t, want, classes)
	require.Equal(t, deploy.Running, s.in.Status().State)
}

// TestSchemaChangesWhileItRuns: from some record on a field is text. Those are dead letters with
// their place, those before and after count.
func TestSchemaChangesWhileItRuns(t *testing.T) {
	r := newRig(t)
	r.topic("in", 1)
	s := r.start(sums)
	r.produce("in", `k={"n":1}`)
	s.await("out", `k={"s":2}`)
	r.produce("in", `k={"n":"1"}`, `k={"m":{"n":1}}`, `k={"n":5}`)
	s.await("out", `k={"s":2}`, `k={"s":8}`)
	dead := r.read("dead")
	require.Len(t, dead, 2)
	for i, rec := range dead {
		require.Equal(t, "expr", header(rec, "ms-dlq-class"))
		require.Equal(t, "plus", header(rec, "ms-dlq-step"))
		require.Equal(t, fmt.Sprint(i+1), header(rec, "ms-dlq-offset"))
	}
}

// TestHotKey: all records have one key. The task that has it is behind and says so; nothing is
// lost, and those of other keys are not behind.
func TestHotKey(t *testing.T) {
	r := newRig(t)
	r.topic("in", 3)
	const n = 50_000
	recs := make([]*kgo.Record, n)
	for i := range recs {
		recs[i] = &kgo.Record{Topic: "in", Key: []byte("hot"), Value: []byte(`{"n":0}`),
			Timestamp: time.UnixMilli(1)}
	}
	r.write(recs...)
	for i := range 20 {
		r.produce("in", fmt.Sprintf(`cold-%d={"n":0}`, i))
	}
	s := r.start(sums)
	s.until("all is processed", func() bool {
		st := s.in.Status()
		return st.RecordsIn == n+20 && st.Lag == 0
	})
	last := map[string]string{}
	for _, rec := range r.read("out") {
		last[string(rec.Key)] = string(rec.Value)
	}
	require.Equal(t, fmt.Sprintf(`{"s":%d}`, n), last["hot"])
	require.Len(t, last, 21)
}

// TestManyWindowsOfAPipelineCloseAtOnce: 100,000 windows close with one record, each gives its
// result once.
func TestManyWindowsOfAPipelineCloseAtOnce(t *testing.T) {
	const n = 100_000
	r := newRig(t)
	r.topic("in", 1)
	recs := make([]*kgo.Record, n)
	for i := range recs {
		recs[i] = &kgo.Record{Topic: "in", Key: fmt.Append(nil, i), Value: []byte(`{}`),
			Timestamp: time.UnixMilli(1)}
	}
	r.write(recs...)
	r.write(&kgo.Record{Topic: "in", Key: []byte("next"), Value: []byte(`{}`),
		Timestamp: time.UnixMilli(60_000)})
	s := r.start(`version: 1
pipeline: p
sources: {in: {topic: in, key: string}}
steps: [{id: agg, from: in, aggregate: {by: key, window: {tumbling: 1m}, emit: on_close,
  late: drop, fields: {n: count}}}]
sinks: {out: {topic: out}}
`)
	s.until("they are closed", func() bool { return s.in.Status().RecordsOut >= n })
	s.halt()
	seen := map[string]bool{}
	for _, rec := range r.read("out") {
		require.False(t, seen[string(rec.Key)], "%s came twice", rec.Key)
		seen[string(rec.Key)] = true
	}
	require.Len(t, seen, n)
}

// TestTornStateOfAPipeline: pages of a state file are zeroed while the pipeline is stopped. It is
// put aside, the log says so with its path, and the counts go on.
func TestTornStateOfAPipeline(t *testing.T) {
	r := newRig(t)
	r.topic("in", 1)
	s := r.start(sums)
	r.produce("in", `a={"n":1}`, `b={"n":2}`)
	s.await("out", `a={"s":2}`, `b={"s":3}`)
	s.halt()
	files, err := filepath.Glob(filepath.Join(r.state, "p", "*.db"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, path := range files {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		clear(data[2*4096:])
		require.NoError(t, os.WriteFile(path, data, 0o600))
	}
	s = r.start(sums)
	r.produce("in", `a={"n":10}`)
	s.await("out", `a={"s":2}`, `b={"s":3}`, `a={"s":13}`)
	require.Contains(t, r.log.String(), "restoring from changelog")
	require.FileExists(t, files[0]+".torn")
}
