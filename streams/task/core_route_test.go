package task

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/topology"
)

func routed() *topology.Builder {
	b := topology.NewBuilder(topology.Options{App: "app",
		OnError: operator.ErrorPolicy{DeadLetterTopic: "dlq"}})
	b.Source("a", "a", topology.SourceOptions{})
	b.Route("out", "a", func(r *operator.Record) (string, error) {
		return string(r.Value), nil
	}, topology.SinkOptions{})
	return b
}

func TestRouteSendsEachRecordToTheTopicItNames(t *testing.T) {
	c := newCoreTest(t, routed(), 0)
	for i, topic := range []string{"x", "y", "x", "a", "app-in", "__offsets", "a b", "y"} {
		c.add("a", "k", topic, int64(i))
	}
	_, err := c.Run(100)
	require.NoError(t, err)
	var got []string
	for _, o := range c.TakeOutputs(nil) {
		got = append(got, fmt.Sprintf("%s %s", o.Topic, o.Record.Value))
	}
	require.Equal(t, []string{"x x", "y y", "x x", "dlq a", "dlq app-in", "dlq __offsets",
		"dlq a b", "y y"}, got, "not where the pipeline reads, nor where others write")
	require.EqualValues(t, 4, c.stats("out").DeadLetters.Load())
}

func TestRouteMakesNoMoreThanSoManyTopics(t *testing.T) {
	c := newCoreTest(t, routed(), 0)
	for i := range maxRoutes + 1 {
		c.add("a", "k", fmt.Sprintf("t%d", i), 1)
	}
	c.add("a", "k", "t0", 1)
	_, err := c.Run(2 * maxRoutes)
	require.NoError(t, err)
	require.EqualValues(t, maxRoutes+1, c.stats("out").Out.Load())
	require.EqualValues(t, 1, c.stats("out").DeadLetters.Load())
}
