package runner_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/pipelines/runner"
	"github.com/millstream-io/millstream/streams/client"
)

// lending counts the runs whose memory is given back, or takes none back.
type lending struct {
	*client.Memory
	keep  bool
	freed int
}

func (l *lending) Consumer() (client.Consumer, error) {
	c, err := l.Memory.Consumer()
	return lentConsumer{c, l}, err
}

type lentConsumer struct {
	client.Consumer
	of *lending
}

func (c lentConsumer) Poll(ctx context.Context) ([]client.Fetched, error) {
	runs, err := c.Consumer.Poll(ctx)
	for i := range runs {
		free := runs[i].Free
		runs[i].Free = func() {
			c.of.freed++ // a bounded run of one task frees from one goroutine
			free()
		}
		if c.of.keep {
			runs[i].Free = nil
		}
	}
	return runs, err
}

// TestStepsKeepNothingOfRecordsGivenBack: where memory of records is used again, as soon as they
// were processed, all steps write the same as where it is not. A Memory overwrites what it gets
// back.
func TestStepsKeepNothingOfRecordsGivenBack(t *testing.T) {
	const records = 300
	run := func(keep bool) (*client.Memory, int) {
		m := &lending{Memory: client.NewMemory(), keep: keep}
		m.SetMaxPoll(7)
		for _, topic := range []string{"in", "people"} {
			require.NoError(t, m.Admin().CreateTopics(t.Context(),
				client.TopicSpec{Name: topic, Partitions: 1}))
		}
		for i := range records {
			require.NoError(t, m.Append(client.TopicPartition{Topic: "people"}, record.Record{
				Key: fmt.Appendf(nil, "k%d", i%40), Timestamp: int64(i),
				Value: fmt.Appendf(nil, `{"city":"city %d","at":%d}`, i%11, i)}))
			value := fmt.Appendf(nil, `{"n":%d,"who":"name %d","junk":[%d],"list":[{"a":%d},"b%d"]}`,
				i, i%9, i, i, i)
			if i%13 == 0 {
				value = fmt.Appendf(nil, `{"n":"none %d","who":7}`, i) // fails in a step
			}
			require.NoError(t, m.Append(client.TopicPartition{Topic: "in"}, record.Record{
				Key: fmt.Appendf(nil, "k%d", i%50), Timestamp: int64(i), Value: value,
				Headers: []record.Header{{Key: "trace", Value: fmt.Appendf(nil, "trace %d", i)}}}))
		}
		r := runner.New(runner.Options{StateDir: t.TempDir(),
			Cluster: func() (client.Cluster, error) { return m, nil }})
		instance, err := r.Prepare(t.Context(), deploy.Revision{Name: "run", File: "p.yaml", Number: 1,
			Text: keepNothing, Replay: &deploy.Replay{Of: "p", Prefix: "run",
				Ranges: map[string]map[int32]deploy.Span{
					"in": {0: {To: records}}, "people": {0: {To: records}}}}})
		require.NoError(t, err)
		require.NoError(t, instance.Run(t.Context()))
		return m.Memory, m.freed
	}
	kept, _ := run(true)
	given, freed := run(false)
	require.Greater(t, freed, records/7, "runs given back")
	for _, topic := range []string{"joined", "items", "low", "lines", "web-0", "web-1", "dead"} {
		tp := client.TopicPartition{Topic: "run." + topic}
		want := kept.Records(tp)
		require.NotEmpty(t, want, topic)
		require.Equal(t, texts(want), texts(given.Records(tp)), topic)
	}
}

func texts(records []record.Record) (list []string) {
	for _, r := range records {
		s := fmt.Sprintf("%d %q %q", r.Timestamp, r.Key, r.Value)
		for _, h := range r.Headers {
			s += fmt.Sprintf(" %s=%q", h.Key, h.Value)
		}
		list = append(list, s)
	}
	return list
}

const keepNothing = `version: 1
pipeline: p
on_error: {dlq: dead}
sources:
  in: {topic: in, key: string}
  people: {topic: people, key: string}
tables:
  person: {from: people}
steps:
  - {id: kept, from: in, filter: value.n > 2}
  - {id: marked, set: {up: upper(value.who)}}
  - {id: short, unset: [junk]}
  - {id: joined, join: {table: person, on: key, as: who, type: left}}
  - {id: lines, map: {n: value.n, city: who?.city, up: value.up}}
  - {id: items, from: short, flat_map: value.list}
  - id: parts
    from: short
    branch:
      - {as: low, when: value.n < 100}
      - {as: high, else: true}
  - {id: routed, from: high, route: 'web-{{ value.n % 2 }}'}
sinks:
  joined: {from: joined, topic: joined}
  items: {from: items, topic: items}
  low: {from: low, topic: low}
  lines: {from: lines, topic: lines}
`
