package runner_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// originSources are two topics of one partition each, written before the pipeline starts.
const originSources = `version: 1
pipeline: p
on_error: {then: dlq, dlq: dead}
sources:
  orders: {topic: orders, key: string, idle_after: 100ms}
  people: {topic: people, key: string, idle_after: 100ms}
`

const twoTables = "tables: {order: {from: orders}, person: {from: people}}\n"

// What fails is `value.n + other.n`, as one of both is a text. The cause is the later one.
var originCases = map[string]struct {
	pipeline           string
	origin, step, at   string
	cause              string
	orders, people     string
	ordersAt, peopleAt int64
}{
	"join of streams, by the right one": {pipeline: `steps:
  - {id: j, from: orders, join: {stream: people, on: value.k, within: 10s, as: other}}
  - {id: m, map: value.n + other.n}
sinks: {out: {topic: out}}`, step: "m", origin: "people-0@0",
		cause: "o=" + `{"k":"x","n":"text"}`},
	"join of streams, by the left one": {pipeline: `steps:
  - {id: j, from: orders, join: {stream: people, on: value.k, within: 10s, as: other}}
  - {id: m, map: value.n + other.n}
sinks: {out: {topic: out}}`, ordersAt: 3000, step: "m", origin: "orders-0@0",
		cause: "o=" + `{"k":"x","n":1}`},
	"record alone, when its time is over": {pipeline: `steps:
  - {id: j, from: orders, join: {stream: people, on: value.k, within: 10s, as: other, type: left}}
  - {id: m, map: value.n + other.n}
sinks: {out: {topic: out}}`, people: `{"k":"y","n":1}`, peopleAt: 90_000, step: "m",
		origin: "orders-0@0", cause: "x=" + `{"k":"x","n":1}`},
	"join by foreign key, by the right row": {pipeline: twoTables + `steps:
  - {id: j, from: order, join: {table: person, on: value.k, as: other}}
  - {id: m, map: value.n + other.n}
sinks: {out: {topic: out}}`, step: "m", origin: "people-0@0",
		cause: "x=" + `{"k":"x","n":"text"}`},
	"join by foreign key, by the left row": {pipeline: twoTables + `steps:
  - {id: j, from: order, join: {table: person, on: value.k, as: other}}
  - {id: m, map: value.n + other.n}
sinks: {out: {topic: out}}`, ordersAt: 3000, step: "m", origin: "orders-0@0",
		cause: "o=" + `{"k":"x","n":1}`},
	"join by key": {pipeline: twoTables + `steps:
  - {id: j, from: order, join: {table: person, on: key, as: other}}
  - {id: m, map: value.n + other.n}
sinks: {out: {topic: out}}`, step: "m", origin: "people-0@0",
		cause: "o=" + `{"k":"x","n":"text"}`},
	"group of a table": {pipeline: `tables: {order: {from: orders}}
steps:
  - {id: g, from: order, aggregate: {by: value.k, fields: {n: {last: value.n}}}}
  - {id: m, map: value.n + "text"}
sinks: {out: {topic: out}}`, step: "m", origin: "orders-0@0", cause: "o=" + `{"k":"x","n":1}`},
	"aggregate behind another key": {pipeline: `steps:
  - id: g
    from: orders
    aggregate: {by: value.k, window: {tumbling: 1m}, fields: {n: {last: value.n}}}
  - {id: m, map: value.n + "text"}
sinks: {out: {topic: out}}`, step: "m", origin: "orders-0@0", cause: "o=" + `{"k":"x","n":1}`},
	"result that failed behind another topic": {pipeline: `steps:
  - id: g
    from: orders
    aggregate: {by: value.k, window: {tumbling: 1m}, fields: {n: {last: value.n}}}
  - {id: k, key_by: string(value.n)}
  - {id: m, map: value.n + "text"}
sinks: {out: {topic: out}}`, step: "m", origin: "orders-0@0", cause: "o=" + `{"k":"x","n":1}`},
	"table that is looked into": {pipeline: `tables: {person: {from: people}}
steps:
  - {id: j, from: orders, join: {table: person, on: value.k, as: other}}
  - {id: m, map: value.n + other.n}
sinks: {out: {topic: out}}`, step: "m", origin: "orders-0@0", cause: "o=" + `{"k":"x","n":1}`},
	"rows of a table": {pipeline: `tables: {order: {from: orders}}
steps:
  - {id: j, from: order, filter: value.n > "text"}
sinks: {out: {topic: out}}`, step: "j", origin: "orders-0@0", cause: "o=" + `{"k":"x","n":1}`},
}

// TestDeadLettersNameTheRecordThatCausedThem: whatever was made of a record on its way, its dead
// letter says where it was read, and has its key and value as they were.
func TestDeadLettersNameTheRecordThatCausedThem(t *testing.T) {
	for name, c := range originCases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.topic("orders", 1)
			r.topic("people", 1)
			keys := [2]string{"o", "o"}
			if strings.Contains(name, "foreign") || strings.Contains(name, "looked") {
				keys[1] = "x"
			}
			if strings.Contains(name, "alone") {
				keys[0] = "x" // when the record itself is gone its key is the one it was joined by
			}
			at := func(ms int64) time.Time { return time.UnixMilli(ms) }
			left, right := or(c.orders, `{"k":"x","n":1}`), or(c.people, `{"k":"x","n":"text"}`)
			r.write(&kgo.Record{Topic: "orders", Key: []byte(keys[0]), Value: []byte(left),
				Timestamp: at(max(c.ordersAt, 1000)), Headers: []kgo.RecordHeader{{Key: "mine"}}})
			r.write(&kgo.Record{Topic: "people", Key: []byte(keys[1]), Value: []byte(right),
				Timestamp: at(max(c.peopleAt, 2000)), Headers: []kgo.RecordHeader{{Key: "mine"}}})
			s := r.start(originSources + c.pipeline + "\n")
			s.until("the record is dead", func() bool { return s.in.Status().DeadLettered > 0 })
			s.halt()
			letters := r.read("dead")
			require.Len(t, letters, 1)
			l := letters[0]
			require.Equal(t, c.cause, fmt.Sprintf("%s=%s", l.Key, l.Value))
			require.Equal(t, c.origin, fmt.Sprintf("%s-%s@%s", header(l, "ms-dlq-topic"),
				header(l, "ms-dlq-partition"), header(l, "ms-dlq-offset")))
			require.Equal(t, c.step, header(l, "ms-dlq-step"))
			for _, h := range l.Headers {
				require.True(t, h.Key == "mine" || strings.HasPrefix(h.Key, "ms-dlq-"), h.Key)
			}
		})
	}
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// TestABadRowIsDeadOnce: though two steps read the table; and the letter names the table as the
// status does.
func TestABadRowIsDeadOnce(t *testing.T) {
	r := newRig(t)
	r.topic("orders", 1)
	r.topic("people", 1)
	for _, value := range []string{"{broken", `{"n":1,"k":"a"}`} {
		r.write(&kgo.Record{Topic: "orders", Key: []byte("a"), Value: []byte(value),
			Timestamp: time.UnixMilli(1000)})
	}
	r.write(&kgo.Record{Topic: "orders", Value: []byte("{}"), Timestamp: time.UnixMilli(1000)},
		&kgo.Record{Topic: "people", Key: []byte("a"), Value: []byte(`{"n":1}`),
			Timestamp: time.UnixMilli(1000)})
	s := r.start(`version: 1
pipeline: p
on_error: {then: dlq, dlq: dead}
tables:
  order: {topic: orders, key: string, idle_after: 100ms}
  person: {topic: people, key: string, idle_after: 100ms}
steps:
  - {id: f, from: order, filter: value.n > 0}
  - {id: j, from: order, join: {table: person, on: key}}
  - {id: b, from: order, join: {table: person, on: key, as: same, type: left}}
sinks:
  out: {from: f, topic: out}
  joined: {from: j, topic: joined}
  both: {from: b, topic: both}
`)
	s.until("all have their row", func() bool {
		return len(r.values("out")) > 0 && len(r.values("joined")) > 0 && len(r.values("both")) > 0
	})
	s.halt()
	letters := r.read("dead")
	require.Len(t, letters, 2, "the broken one, and the one without a key")
	for _, l := range letters {
		require.Equal(t, "order", header(l, "ms-dlq-step"))
		require.Equal(t, "orders", header(l, "ms-dlq-topic"))
	}
	for _, topic := range []string{"out", "joined", "both"} {
		for _, rec := range r.read(topic) {
			require.Empty(t, rec.Headers, "nothing of the inside of a pipeline leaves it")
		}
	}
	for _, row := range s.in.Status().Steps {
		require.Zero(t, row.DeadLettered, "it failed at the table, not at %s", row.ID)
	}
}

// TestDeadLettersOfRenamedStepsCarryTheIdOfTheFile: topics and stores go on under the first id, so
// that nothing is lost; what people read has the one that is in the file now, also where the record
// failed in a part of the step, and for one that was renamed twice.
func TestDeadLettersOfRenamedStepsCarryTheIdOfTheFile(t *testing.T) {
	r := newRig(t)
	for _, topic := range []string{"in", "rows"} {
		r.topic(topic, 1)
	}
	r.produce("in", `{"k":null,"n":1}`, `{"k":"x","n":"text"}`, `{"k":"x","n":1}`)
	r.produce("rows", `a={"who":[1],"n":1}`, `b={"who":"a","n":"text"}`, `c={"who":"a","n":1}`)
	s := r.start(`version: 1
pipeline: p
on_error: {then: dlq, dlq: dead}
sources: {in: {topic: in}, rows: {topic: rows, key: string}}
tables: {row: {from: rows}}
steps:
  - {id: total, renamed_from: counts, from: in,
     aggregate: {by: value.k, unbounded: true, fields: {s: {sum: value.n}}}}
  - {id: shown, renamed_from: [told, said], map: value.s + "text"}
  - {id: pairs, renamed_from: named, from: row, join: {table: row, on: value.who.x, as: other}}
  - {id: groups, renamed_from: sorted, from: row,
     aggregate: {by: value.who, fields: {s: {sum: value.n}}}}
sinks: {out: {from: shown, topic: out}, other: {from: pairs, topic: out},
  more: {from: groups, topic: out}}
`)
	var got []string
	want := []string{"total key", "total expr", "shown expr", "pairs expr", "groups expr"}
	has := func() bool {
		got = nil
		for _, rec := range r.read("dead") {
			got = append(got, header(rec, "ms-dlq-step")+" "+header(rec, "ms-dlq-class"))
		}
		for _, one := range want {
			if !slices.Contains(got, one) {
				return false
			}
		}
		return true
	}
	s.until("each step has a dead letter", has)
	s.halt()
	for _, one := range got {
		step, _, _ := strings.Cut(one, " ")
		require.Contains(t, []string{"total", "shown", "pairs", "groups"}, step)
	}
}
