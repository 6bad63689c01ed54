package runner_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/pipelines/runner"
)

// TestPatternFindsNewTopics: what a pattern has found is read on where it was, a topic that came
// later from its beginning, also when records were in it before it was found and its name is before
// the others'. State of a step in the same part is kept, and each record counts once. What the
// pipeline writes, and what pipelines keep, is not found.
func TestPatternFindsNewTopics(t *testing.T) {
	r := newRig(t)
	r.topic("shop-b", 2)
	r.topic("shop-c", 2)
	r.topic("shop-x-changelog", 2)
	revision := r.revision(`version: 1
pipeline: p
on_error: {then: dlq, dlq: dead}
sources: {in: {topics: 'shop-.*', key: string, idle_after: 100ms}}
steps:
  - {id: n, from: in, aggregate: {by: key, unbounded: true, fields: {s: {sum: value.n}}}}
  - id: w
    from: in
    aggregate: {by: key, window: {tumbling: 1s}, emit: on_close, late: {topic: late},
      fields: {c: count}}
sinks: {out: {from: n, topic: shop-out}, closed: {from: w, topic: shop-closed}}
`)
	start := func(matched ...string) *started {
		revision.Matched = map[string][]string{"in": matched}
		in, err := r.runner().Prepare(r.ctx(), revision)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(context.Background())
		s := &started{r: r, in: in, stop: stop, done: make(chan error, 1)}
		go func() { s.done <- in.Run(ctx) }()
		t.Cleanup(func() { stop(); s.done <- <-s.done })
		return s
	}
	put := func(topic, key, value string, second int64) {
		r.write(&kgo.Record{Topic: topic, Key: []byte(key), Value: []byte(value),
			Timestamp: time.Unix(second, 0)})
	}
	s := start("shop-b", "shop-c")
	put("shop-b", "k", `{"n":1}`, 10)
	put("shop-c", "k", `{"n":2}`, 11)
	s.await("shop-out", `k={"s":1}`, `k={"s":3}`)
	matched, more, err := s.in.(deploy.Matcher).Matches(r.ctx())
	require.NoError(t, err)
	require.False(t, more, "%v", matched)

	r.topic("shop-a", 2)
	put("shop-a", "k", `{"n":999}`, 4) // deleted before it was found
	_, err = kadm.NewClient(r.client).DeleteRecords(r.ctx(), gone("shop-a", 2))
	require.NoError(t, err)
	put("shop-a", "k", `{"n":4}`, 5) // its time is before that of the others
	put("shop-a", "k", `{"n":8}`, 20)
	s.until("it is found", func() bool {
		matched, more, err = s.in.(deploy.Matcher).Matches(r.ctx())
		return err == nil && more
	})
	require.Equal(t, map[string][]string{"in": {"shop-b", "shop-c", "shop-a"}}, matched)
	s.halt()

	s = start(matched["in"]...)
	put("shop-b", "k", `{"n":16}`, 30)
	s.await("shop-out", `k={"s":1}`, `k={"s":3}`, `k={"s":7}`, `k={"s":15}`, `k={"s":31}`)
	s.halt()
	require.Empty(t, r.values("dead"))
	require.Equal(t, []string{`k={"n":4}`}, r.values("late"), "time does not go back for a new topic")

	// Again over the same: nothing is read twice.
	s = start(matched["in"]...)
	put("shop-a", "k", `{"n":32}`, 40)
	s.await("shop-out", `k={"s":1}`, `k={"s":3}`, `k={"s":7}`, `k={"s":15}`, `k={"s":31}`,
		`k={"s":63}`)
	s.halt()
	_, err = r.runner().Prepare(r.ctx(), r.revision("version: 1\npipeline: p\n"))
	require.ErrorAs(t, err, new(*runner.ErrFindings))
}

// TestPatternLeavesOutTopicsThatAreCutOtherwise: with one no revision could begin, also not after a
// restart. It is said once, with what to do; others are found.
func TestPatternLeavesOutTopicsThatAreCutOtherwise(t *testing.T) {
	r := newRig(t)
	r.topic("shop-b", 2)
	r.topic("shop-c", 2)
	r.topic("shop-d", 2)
	revision := r.revision(`version: 1
pipeline: p
sources: {in: {topics: 'shop-[a-z]', key: string, idle_after: 100ms}}
steps: [{id: n, from: in, filter: value.n > 0}]
sinks: {out: {from: n, topic: out}}
`)
	revision.Matched = map[string][]string{"in": {"shop-b", "shop-d"}}
	in, err := r.runner().Prepare(r.ctx(), revision)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	s := &started{r: r, in: in, stop: stop, done: make(chan error, 1)}
	go func() { s.done <- in.Run(ctx) }()
	t.Cleanup(func() { stop(); s.done <- <-s.done })
	r.topic("shop-a", 3)
	for range 2 {
		s.until("shop-c is found", func() bool {
			matched, more, err := in.(deploy.Matcher).Matches(r.ctx())
			require.NotContains(t, matched["in"], "shop-a")
			return err == nil && more && len(matched["in"]) == 3
		})
	}
	require.Equal(t, 1, strings.Count(r.log.String(), "topic shop-a matches shop-[a-z] and is not"+
		" read: it has 3 partitions, and shop-b has 2; make it anew with 2, or read it in a pipeline"+
		" of its own"))
	s.halt()
}

// gone are the offsets that delete all there is.
func gone(topic string, partitions int32) kadm.Offsets {
	offsets := kadm.Offsets{}
	for p := range partitions {
		offsets.AddOffset(topic, p, -1, -1) // the high watermark
	}
	return offsets
}
