package runner_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/millstream-io/millstream/pipelines/plan"
)

// everyKind has an implicit and an explicit repartition, a table, an aggregate with a topic for
// late records, a topic sink, a connector sink and dead letters.
const everyKind = `version: 1
pipeline: kinds
on_end: close
on_error: {then: dlq, dlq: kinds.dlq}
sources:
  in: {connector: file, config: {path: DIR/in.jsonl}, topic: events, partitions: 3,
    event_time: 'parse_time(value.at, "rfc3339")'}
  people: {connector: file, config: {path: DIR/users.jsonl}, topic: people, key: value.id,
    partitions: 2}
tables: {users: {from: people}}
steps:
  - {id: joined, from: in, join: {table: users, on: value.who, as: user, type: left}}
  - {id: by_kind, key_by: value.kind}
  - id: totals
    aggregate: {by: value.who, window: {tumbling: 1h}, emit: on_close, late: {topic: kinds-late},
      fields: {n: count}}
sinks:
  rows: {topic: rows}
  copy: {connector: file, config: {path: DIR/out.ndjson}}
`

// TestPlannedTopicsAreTheOnesThatExist compares what the plan says with what is there after a run.
func TestPlannedTopicsAreTheOnesThatExist(t *testing.T) {
	r := newRig(t)
	r.file("in.jsonl", events)
	r.file("users.jsonl", `{"id":"u1"}`+"\n")
	r.run(everyKind)
	type topic struct {
		name       string
		partitions int
	}
	p := r.plan(everyKind)
	var planned, actual []topic
	for _, want := range p.Topics {
		planned = append(planned, topic{want.Name, int(follow(p, want))})
	}
	details, err := kadm.NewClient(r.client).ListTopics(r.ctx())
	require.NoError(t, err)
	for _, have := range details {
		if have.Topic != "__consumer_offsets" {
			actual = append(actual, topic{have.Topic, len(have.Partitions)})
		}
	}
	byName := func(a, b topic) int { return strings.Compare(a.name, b.name) }
	slices.SortFunc(planned, byName)
	slices.SortFunc(actual, byName)
	require.Equal(t, planned, actual)
	for _, s := range p.Stores {
		require.NotNil(t, p.Topic(s.Changelog), "%s is restored from a topic that exists", s.Name)
	}
}

// follow is the number of partitions that a planned topic gets.
func follow(p *plan.Plan, t *plan.Topic) int32 {
	for t.Partitions == 0 && t.SameAs != "" {
		t = p.Topic(t.SameAs)
	}
	return t.Partitions
}

func TestIDThatAnImplicitKeyNeedsIsRefused(t *testing.T) {
	r := newRig(t)
	_, err := r.runner().Prepare(r.ctx(), r.revision(`version: 1
pipeline: p
sources: {in: {topic: in, key: string}}
steps:
  - {id: n-key, filter: 'value.x > 1'}
  - {id: n, aggregate: {by: value.x, window: {tumbling: 1m}, late: drop, fields: {n: count}}}
sinks: {out: {topic: out}}
`))
	require.ErrorContains(t, err, `pipeline.yaml:6`)
	require.ErrorContains(t, err, `the id "n-key" is needed for the new key of step "n"`)
}

func TestTopicThatNobodyFillsMustExist(t *testing.T) {
	r := newRig(t)
	s := r.start("version: 1\npipeline: p\nsources: {in: {topic: missing, key: string}}\n" +
		"sinks: {out: {topic: out}}\n")
	require.ErrorContains(t, s.wait(), `topic "missing" does not exist: create it with: millstream `+
		`topic create missing`)
}
