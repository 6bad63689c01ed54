package runner_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// joinSources are two files of orders and payments, by event time in seconds.
const joinSources = `version: 1
pipeline: p
on_end: close
on_error: {then: dlq, dlq: dead}
sources:
  orders: {connector: file, config: {path: DIR/orders.jsonl}, partitions: 3,
    key: value.id, event_time: 'parse_time(value.at, "rfc3339")'}
  payments: {connector: file, config: {path: DIR/payments.jsonl}, partitions: 3,
    event_time: 'parse_time(value.at, "rfc3339")'}
`

const (
	orderLines = `{"id":"a","at":"2026-01-01T00:00:10Z","n":1}
{"id":"b","at":"2026-01-01T00:00:20Z","n":2}
{"id":"c","at":"2026-01-01T00:01:30Z","n":3}
`
	paymentLines = `{"order":"a","at":"2026-01-01T00:00:12Z","eur":5}
{"order":"a","at":"2026-01-01T00:00:15Z","eur":6}
{"order":"b","at":"2026-01-01T00:01:20Z","eur":7}
{"order":"c","at":"2026-01-01T00:01:25Z","eur":8}
`
)

// The expected pairs follow from the timestamps: a payment up to 30 s after its order, or 5 s
// before it.
var streamJoinCases = map[string]struct {
	join string
	want []string
}{
	"inner": {join: `type: inner`, want: []string{
		`a={"id":"a","eur":5}`, `a={"id":"a","eur":6}`, `c={"id":"c","eur":8}`}},
	"left": {join: `type: left`, want: []string{`a={"id":"a","eur":5}`, `a={"id":"a","eur":6}`,
		`b={"id":"b","eur":null}`, `c={"id":"c","eur":8}`}},
	"outer": {join: `type: outer`, want: []string{`a={"id":"a","eur":5}`, `a={"id":"a","eur":6}`,
		`b={"id":"b","eur":null}`, `b={"id":null,"eur":7}`, `c={"id":"c","eur":8}`}},
}

func TestJoinStreams(t *testing.T) {
	for name, tc := range streamJoinCases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.file("orders.jsonl", orderLines)
			r.file("payments.jsonl", paymentLines)
			r.run(joinSources + `steps:
  - id: paid
    from: orders
    join: {stream: payments, on: value.id, with_on: value.order, as: payment, ` + tc.join + `,
      within: {before: 5s, after: 30s}}
  - map: {id: 'value?.id', eur: 'payment?.eur'}
sinks: {out: {topic: out}}
`)
			require.Empty(t, r.values("dead"))
			require.Equal(t, tc.want, r.values("out"))

		})
	}
}

// The rates of a currency change; a payment meets the rate of its own time although the later rates
// are in the log before it is read.
func TestJoinAsOfEventTime(t *testing.T) {
	const head = `version: 1
pipeline: p
on_end: close
on_error: {then: dlq, dlq: dead}
sources:
  payments: {connector: file, config: {path: DIR/payments.jsonl}, partitions: 3,
    event_time: 'parse_time(value.at, "rfc3339")'}
  rates: {connector: file, config: {path: DIR/rates.jsonl}, partitions: 3, key: value.cur,
    event_time: 'parse_time(value.at, "rfc3339")'}
`
	const foot = `
  - map: {id: value.id, rate: 'rate?.n'}
sinks: {out: {topic: out}}
`
	for name, tc := range map[string]struct {
		steps string
		want  []string
	}{
		"versioned": {steps: `tables: {rate: {from: rates, history: 1h}}
steps:
  - {id: j, from: payments, join: {table: rate, on: value.cur, as_of: event_time, type: left}}`,
			want: []string{`eur={"id":1,"rate":null}`, `eur={"id":2,"rate":10}`,
				`eur={"id":3,"rate":20}`}},
		"grace": {steps: `tables: {rate: {from: rates, history: 1h}}
steps:
  - {id: j, from: payments, join: {table: rate, on: value.cur, as_of: event_time, grace: 1m}}`,
			want: []string{`eur={"id":2,"rate":10}`, `eur={"id":3,"rate":20}`}},
		"latest": {steps: `tables: {rate: {from: rates}}
steps:
  - {id: j, from: payments, join: {table: rate, on: value.cur, as_of: event_time}}`,
			want: []string{`eur={"id":2,"rate":10}`, `eur={"id":3,"rate":20}`}},
		"of a step": {steps: `tables: {rate: {from: good, history: 1h}}
steps:
  - {id: good, from: rates, filter: value.n < 20}
  - {id: j, from: payments, join: {table: rate, on: value.cur, as_of: event_time, type: left}}`,
			want: []string{`eur={"id":1,"rate":null}`, `eur={"id":2,"rate":10}`,
				`eur={"id":3,"rate":10}`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.file("rates.jsonl", `{"cur":"eur","at":"2026-01-01T00:01:00Z","n":10}
{"cur":"eur","at":"2026-01-01T00:03:00Z","n":20}
`)
			r.file("payments.jsonl", `{"id":1,"cur":"eur","at":"2026-01-01T00:00:30Z"}
{"id":2,"cur":"eur","at":"2026-01-01T00:02:00Z"}
{"id":3,"cur":"eur","at":"2026-01-01T00:04:00Z"}
`)
			r.run(head + tc.steps + foot)
			require.Empty(t, r.values("dead"))
			require.Equal(t, tc.want, r.values("out"))
		})
	}
}

// The rows of a table may come from a topic that somebody else fills, beside a stream from another.
// A record waits until the topic of the table has come to its time too.
func TestJoinAsOfTopicTable(t *testing.T) {
	r := newRig(t)
	r.topic("rates", 1)
	r.topic("payments", 1)
	at := func(second int64) time.Time { return time.UnixMilli(second * 1000) }
	row := func(topic, value string, second int64) *kgo.Record {
		return &kgo.Record{Topic: topic, Key: []byte("eur"), Value: []byte(value),
			Timestamp: at(second)}
	}
	s := r.start(`version: 1
pipeline: p
sources: {payments: {topic: payments, key: string}}
tables: {rate: {topic: rates, history: 1h}}
steps:
  - {id: j, from: payments, join: {table: rate, on: key, as_of: event_time, late: drop}}
  - map: {id: value.id, rate: rate.n}
sinks: {out: {topic: out}}
`)
	r.write(row("rates", `{"n":10}`, 1), row("rates", `{"n":20}`, 5))
	r.write(row("payments", `{"id":1}`, 2), row("payments", `{"id":2}`, 6),
		row("payments", `{"id":3}`, 9))
	s.await("out", `eur={"id":1,"rate":10}`) // the rate of second 6 is not known yet
	r.write(row("rates", `{"n":30}`, 8))
	s.await("out", `eur={"id":1,"rate":10}`, `eur={"id":2,"rate":20}`)
	r.write(row("rates", `{"n":40}`, 10))
	s.await("out", `eur={"id":1,"rate":10}`, `eur={"id":2,"rate":20}`, `eur={"id":3,"rate":30}`)
	s.halt()
}
