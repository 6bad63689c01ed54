package runner

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/pipelines/check"
	"github.com/millstream-io/millstream/pipelines/lang"
	"github.com/millstream-io/millstream/pipelines/plan"
	"github.com/millstream-io/millstream/streams"
	"github.com/millstream-io/millstream/streams/join"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/topology"
)

// assembled is the topology of a pipeline that must be right, for topics that are cut like this;
// those that are not named have one partition.
func assembled(
	t require.TestingT, yaml string, cut map[string]int32,
) (*topology.Builder, *topology.Topology) {
	p, tree, findings := plan.Compile("p.yaml", []byte(yaml), lang.Options{}, check.Options{})
	require.NotNil(t, p, "%s", check.Render(findings, tree.File))
	made := &topics{app: p.Pipeline, plan: p, partitions: map[string]int32{}}
	for _, topic := range p.Topics {
		switch topic.Role {
		case plan.TopicSource, plan.TopicTable, plan.TopicSink, plan.TopicDLQ, plan.TopicLate:
			made.partitions[topic.Name] = max(1, cut[topic.Name])
		}
	}
	a := &assembly{app: p.Pipeline, tasks: p.Pipeline, plan: p,
		log: slog.New(slog.DiscardHandler), now: time.Now, partitions: made.wanted}
	built, err := a.build()
	require.NoError(t, err)
	return a.b, built
}

// shape is all of a topology but its functions and policies.
func shape(topo *topology.Topology) (lines []string) {
	for _, sub := range topo.Subs {
		lines = append(lines, fmt.Sprintf("sub %s %d %s", sub.Name, sub.Partitions, sub.Fingerprint))
		for _, s := range sub.Sources {
			lines = append(lines, fmt.Sprint("source ", s.ID, s.Topic, s.Partitions, s.Writers))
		}
		for _, n := range sub.Nodes {
			sink := ""
			if n.Sink != nil {
				sink = fmt.Sprint(n.Sink.Topic, n.Sink.Partitions, n.Sink.Repartition)
			}
			lines = append(lines, fmt.Sprint("node ", n.ID, n.Kind, n.Inputs, n.Outputs, n.Stores, sink))
		}
	}
	return lines
}

const tablePipeline = `version: 1
pipeline: p
sources: {orders: {topic: orders, key: string}, people: {topic: people, key: string}}
tables:
  order: {from: orders}
  person: {from: people}
steps:
%s
sinks: {out: {topic: out}}
`

// What the functions of sameTopology do is no part of a topology.
func pairNothing(_, _, _ *operator.Record) error      { return nil }
func keyNothing(*streams.Record) ([]byte, error)      { return nil, nil }
func valueOne(*streams.Record) (streams.Value, error) { return streams.Int(1), nil }

// sameTopology are steps of a file beside the calls of the Go DSL that mean the same.
var sameTopology = map[string]struct {
	steps string
	dsl   func(orders, people *streams.Stream) *streams.Stream
}{
	"join by key": {steps: `- {id: j, from: order, join: {table: person, on: key, type: outer}}`,
		dsl: func(orders, people *streams.Stream) *streams.Stream {
			return orders.JoinAsTables("j", people, streams.JoinTablesOptions{Kind: join.Outer,
				Join: pairNothing})
		}},
	"join by foreign key": {steps: `- {id: j, from: order, join: {table: person, on: value.who}}`,
		dsl: func(orders, people *streams.Stream) *streams.Stream {
			return orders.JoinForeign("j", people, streams.JoinForeignOptions{ForeignKey: keyNothing,
				Join: pairNothing})
		}},
	"by key and by foreign key": {steps: "- {id: k, from: order, join: {table: person, on: key}}\n" +
		"- {id: j, from: order, join: {table: person, on: value.who}}",
		dsl: func(orders, people *streams.Stream) *streams.Stream {
			orders.JoinAsTables("k", people, streams.JoinTablesOptions{Join: pairNothing})
			return orders.JoinForeign("j", people, streams.JoinForeignOptions{ForeignKey: keyNothing,
				Join: pairNothing})
		}},
	"by foreign key and by key": {steps: "- {id: j, from: order, join: {table: person, " +
		"on: value.who}}\n- {id: k, from: order, join: {table: person, on: key}}",
		dsl: func(orders, people *streams.Stream) *streams.Stream {
			orders.JoinForeign("j", people, streams.JoinForeignOptions{ForeignKey: keyNothing,
				Join: pairNothing})
			return orders.JoinAsTables("k", people, streams.JoinTablesOptions{Join: pairNothing})
		}},
	"aggregate": {steps: `- {id: a, from: order, aggregate: {by: value.region, ` +
		`fields: {n: count, low: {min: value.n}, s: {sum: value.n}}}}`,
		dsl: func(orders, _ *streams.Stream) *streams.Stream {
			return orders.Changes("order-table", streams.ChangesOptions{}).
				AggregateTable("a", keyNothing, streams.Count("n"), streams.Min("low", valueOne),
					streams.Sum("s", valueOne))
		}},
	"filter and map": {steps: "- {id: f, from: order, filter: value.n > 1}\n" +
		"- {id: m, map: {n: value.n}}",
		dsl: func(orders, _ *streams.Stream) *streams.Stream {
			return orders.Changes("order-table", streams.ChangesOptions{}).
				FilterRows("f", func(*streams.Record) (bool, error) { return true, nil }).
				MapRows("m", func(*streams.Record) error { return nil })
		}},
	"foreign key, then groups": {steps: "- {id: j, from: order, join: {table: person, " +
		"on: value.who, as: who, type: left}}\n" +
		"- {id: a, aggregate: {by: who?.city, fields: {n: count}}}",
		dsl: func(orders, people *streams.Stream) *streams.Stream {
			return orders.JoinForeign("j", people, streams.JoinForeignOptions{Kind: join.Left,
				ForeignKey: keyNothing, Join: pairNothing}).
				AggregateTable("a", keyNothing, streams.Count("n"))
		}},
	"merge": {steps: `- {id: m, merge: [orders, people]}`,
		dsl: func(orders, people *streams.Stream) *streams.Stream {
			return orders.Merge("m", people)
		}},
}

// TestYAMLAndGoGiveTheSameTopology compares what a file becomes with what the Go DSL makes of the
// same calls: ids, inputs, stores with their formats, topics and partitions.
func TestYAMLAndGoGiveTheSameTopology(t *testing.T) {
	for name, tc := range sameTopology {
		t.Run(name, func(t *testing.T) {
			cut := map[string]int32{"orders": 3, "people": 3, "out": 2}
			_, fromYAML := assembled(t, fmt.Sprintf(tablePipeline, tc.steps), cut)
			b := streams.New(streams.Options{App: "p"})
			orders := b.Stream("orders", "orders", streams.SourceOptions{})
			people := b.Stream("people", "people", streams.SourceOptions{})
			last := tc.dsl(orders, people)
			if name == "aggregate" || name == "filter and map" {
				people = nil // the file does not read it
			}
			last.Process("out:out", streams.ProcessOptions{Kind: "output",
				New: operator.Map(func(*operator.Record) error { return nil })}).To("out:sink", "out")
			fromGo, err := b.Build(func(topic string) int32 { return cut[topic] })
			require.NoError(t, err)
			want := shape(fromGo)
			if people == nil {
				want = withoutUnread(want)
			}
			require.Equal(t, want, shape(fromYAML))
		})
	}

}

// withoutUnread leaves out the part of a source that nothing reads.
func withoutUnread(lines []string) (out []string) {
	skip := false
	for _, line := range lines {
		if len(line) > 4 && line[:4] == "sub " {
			skip = line[4:10] == "people"
		}
		if !skip {
			out = append(out, line)
		}
	}
	return out
}
