package command

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// values reads the value of each line of ndjson, in order.
func values(t *testing.T, out string) []string {
	t.Helper()
	all := []string{}
	for line := range strings.Lines(out) {
		all = append(all, decode[struct{ Value string }](t, line).Value)
	}
	return all
}

// TestConsumeReadsEveryFormOfRange reads a topic of one partition with the values v0 to v9 at
// offsets 0 to 9 and the times 1000, 2000, …; offsets 0 to 2 are deleted.
func TestConsumeReadsEveryFormOfRange(t *testing.T) {
	broker := startBroker(t, nil)
	var lines strings.Builder
	for i := range 10 {
		fmt.Fprintf(&lines, `{"value":"v%d","ts":%d}`+"\n", i, (i+1)*1000)
	}
	broker.ok("topic", "create", "ten", "-p", "1")
	broker.feed(lines.String(), "produce", "ten", "--format", "ndjson")
	adm := kadm.NewClient(broker.kafka())
	del := kadm.Offsets{}
	del.Add(kadm.Offset{Topic: "ten", Partition: 0, At: 3})
	_, err := adm.DeleteRecords(t.Context(), del)
	require.NoError(t, err)
	at := kadm.Offsets{}
	at.Add(kadm.Offset{Topic: "ten", Partition: 0, At: 7, LeaderEpoch: -1})
	require.NoError(t, adm.CommitAllOffsets(t.Context(), "readers", at))

	for _, c := range []struct {
		from, to string
		want     string // first and last value; "" = nothing
	}{
		{"start", "end", "v3 v9"},
		{"0", "end", "v3 v9"},
		{"5", "7", "v5 v6"},
		{"5", "5", ""},
		{"7", "5", ""},
		{"+2", "end", "v5 v9"},
		{"+2", "+3", "v5 v7"},
		{"-3", "end", "v7 v9"},
		{"-99", "-3", "v3 v6"},
		{"@1970-01-01T00:00:06Z", "end", "v5 v9"},
		{"@1970-01-01T00:00:05.500Z", "@1970-01-01T00:00:08Z", "v5 v6"},
		{"@-1h", "end", ""},
		{"committed(readers)", "end", "v7 v9"},
		{"start", "committed(readers)", "v3 v6"},
		{"committed(nobody)", "end", "v3 v9"},
		{"10", "end", ""},
		{"9223372036854775807", "end", ""},
		{"+9223372036854775807", "end", ""},
		{"start", "9223372036854775807", "v3 v9"},
	} {
		got := values(t, broker.ok("consume", "ten", "--from", c.from, "--to", c.to, "-o", "ndjson"))
		ends := ""
		if len(got) > 0 {
			ends = got[0] + " " + got[len(got)-1]
		}
		require.Equal(t, c.want, ends, "--from %s --to %s", c.from, c.to)
	}
	require.Contains(t, broker.run("consume", "ten", "--from", "1").err,
		"offsets below 3 are deleted")
	require.Contains(t, broker.run("consume", "ten", "--from", "@-1h").err, "@-1h is 20")
}

func TestConsumeOfAnEmptyTopicEnds(t *testing.T) {
	broker := startBroker(t, nil)
	broker.ok("topic", "create", "none", "-p", "3")
	r := broker.run("consume", "none")
	require.Zero(t, r.exit)
	require.Contains(t, r.err, "no records")
	require.Equal(t, "[]\n", broker.ok("consume", "none", "-o", "json"))
}

// TestConsumeFollowEndsWithItsContext follows an empty topic, sees what is appended at once, and
// ends with 0 at Ctrl-C; a list is closed.
func TestConsumeFollowEndsWithItsContext(t *testing.T) {
	broker := startBroker(t, nil)
	broker.ok("topic", "create", "live", "-p", "2")
	for _, format := range []string{"table", "json", "ndjson"} {
		ctx, cancel := context.WithCancel(t.Context())
		p := &process{out: &lockedBuffer{}, err: &lockedBuffer{}, cancel: cancel, exit: make(chan int, 1)}
		go func() {
			p.exit <- Run(ctx, []string{"consume", "live", "-F", "--from", "end", "-o", format,
				"--bootstrap", broker.address}, Streams{In: strings.NewReader(""), Out: p.out, Err: p.err})
		}()
		// The end is looked up when the command starts, so what is written before is not shown.
		eventually(t, func() bool {
			broker.feed("hello\n", "produce", "live")
			return strings.Contains(p.out.String(), "hello")
		}, func() string { return p.err.String() })
		require.Zero(t, p.stop(), "%s", p.err)
		require.Empty(t, p.err.String())
		if format == "json" {
			require.NotEmpty(t, decode[[]map[string]any](t, p.out.String()))
		}
	}
}

// TestInterruptedScanSaysSo cancels a command before its answer: 130, and no blame on the broker.
func TestInterruptedScanSaysSo(t *testing.T) {
	broker := startBroker(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := runWith(ctx, strings.NewReader(""), "topic", "ls", "--bootstrap", broker.address)
	require.Equal(t, 130, r.exit)
	require.Contains(t, r.err, "error[INTERRUPTED]")
}

// hostile are records that trip up encoders: bytes that are no text, JSON that must stay as it is,
// line ends, nulls against empty values, keys of headers that are no text, extreme times.
func hostile() []*kgo.Record {
	bytes := make([]byte, 256)
	for i := range bytes {
		bytes[i] = byte(i)
	}
	deep := []byte(strings.Repeat("[", 10000) + strings.Repeat("]", 10000))
	var all []*kgo.Record
	for i, value := range [][]byte{
		nil, {}, bytes, []byte("\r\n"), []byte("a\nb\r"), []byte(`{"a": 1.0, "a": 2}`),
		[]byte("{\n}"), []byte(` {"a":1}`), []byte(`[1e400]`), []byte(`{"n":12345678901234567890}`),
		[]byte(`"text"`), []byte(`null`), []byte("\u2028\u2029\u202e\x00\x7f"), []byte("\xff\xfe"),
		[]byte(`{"bad": "` + "\xff" + `"}`), deep, []byte("\xef\xbb\xbfbom"), []byte("<script>&'\"\\"),
	} {
		all = append(all, &kgo.Record{Key: value, Value: value, Timestamp: time.UnixMilli(int64(i)),
			Headers: []kgo.RecordHeader{{Key: "same", Value: value}, {Key: "same", Value: nil},
				{Key: string(value), Value: []byte{}}}})
	}
	all = append(all,
		&kgo.Record{Value: []byte("old"), Timestamp: time.UnixMilli(0)},
		&kgo.Record{Value: []byte("far"), Timestamp: time.UnixMilli(1 << 40)})
	return all
}

// TestConsumeAndProduceAreInverses copies a topic of hostile records through ndjson and compares
// what both print, byte for byte but for the name of the topic.
func TestConsumeAndProduceAreInverses(t *testing.T) {
	broker := startBroker(t, nil)
	for _, topic := range []string{"original", "copied"} {
		broker.ok("topic", "create", topic, "-p", "2", "-c",
			"message.timestamp.after.max.ms=9223372036854775807")
	}
	cl := broker.kafka(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for i, r := range hostile() {
		r.Topic, r.Partition = "original", int32(i%2)
		require.NoError(t, cl.ProduceSync(t.Context(), r).FirstErr())
	}
	for _, partition := range []string{"0", "1"} {
		first := broker.ok("consume", "original", "--partition", partition, "-o", "ndjson")
		broker.feed(first, "produce", "copied", "--format", "ndjson")
		second := broker.ok("consume", "copied", "--partition", partition, "-o", "ndjson")
		require.Equal(t, strings.ReplaceAll(first, `"topic":"original"`, `"topic":"copied"`), second)
		list := broker.ok("consume", "copied", "--partition", partition, "-o", "json")
		require.True(t, json.Valid([]byte(list)), "one list: %s", list)
	}
	// And the records themselves are the same, not only what is printed of them.
	reader := broker.kafka(kgo.ConsumeTopics("copied"))
	got := map[int64]*kgo.Record{}
	for len(got) < len(hostile()) {
		reader.PollFetches(t.Context()).EachRecord(func(r *kgo.Record) {
			got[r.Offset*2+int64(r.Partition)] = r
		})
	}
	for i, want := range hostile() {
		r := got[int64(i)]
		require.Equal(t, want.Key, r.Key, i)
		require.Equal(t, want.Value, r.Value, i)
		require.Equal(t, want.Timestamp.UnixMilli(), r.Timestamp.UnixMilli(), i)
		require.Equal(t, want.Headers, r.Headers, i)
	}
}

// TestTableShowsHostileBytesOnOneLine: nothing a record holds may move the cursor.
func TestTableShowsHostileBytesOnOneLine(t *testing.T) {
	broker := startBroker(t, nil)
	broker.ok("topic", "create", "evil", "-p", "1")
	broker.feed(`{"key":"\u001b[2J","value":"a\r\nb\u202ec"}`+"\n",
		"produce", "evil", "--format", "ndjson")
	out := broker.ok("consume", "evil", "--no-headers")
	require.Equal(t, 1, strings.Count(out, "\n"))
	for _, bad := range []string{"\x1b", "\r", "\u202e"} {
		require.NotContains(t, out, bad)
	}
}

// TestProduceTellsOfATopicItMade: a misspelt name makes a topic, which is not passed over.
func TestProduceTellsOfATopicItMade(t *testing.T) {
	c := startBroker(t, nil)
	c.ok("topic", "create", "orders", "-p", "1")
	produce := func(args ...string) string {
		args = append([]string{"produce", "--bootstrap", c.address}, args...)
		r := runWith(t.Context(), strings.NewReader("a\n"), args...)
		require.Zero(t, r.exit, r.err)
		return r.err
	}
	require.Contains(t, produce("ordres"), `there was no topic "ordres": it was created; `+
		`did you mean "orders"? millstream topic delete ordres removes the new one`)
	require.NotContains(t, produce("ordres"), "created")
	require.NotContains(t, produce("another-one", "--quiet"), "created")
}
