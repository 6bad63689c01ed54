package task

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/topology"
)

// twoInputs merges the topics a and b.
func twoInputs(t *testing.T) *coreTest {
	b := topology.NewBuilder(topology.Options{Sign: true, App: "app"})
	b.Source("a", "a", topology.SourceOptions{})
	b.Source("b", "b", topology.SourceOptions{})
	b.Merge("both", "a", "b")
	b.Sink("out", "both", "out", topology.SinkOptions{})
	return newCoreTest(t, b, 0)
}

// watermarksOf are the times of the inputs.
func watermarksOf(c *coreTest) (list []int64) {
	for _, in := range c.Inputs() {
		list = append(list, in.Watermark)
	}
	return list
}

// TestRuleB2_TimeDoesNotGoBack: an input that had ended, and did not hold up the other one, gets a
// record of an earlier time after all.
func TestRuleB2_TimeDoesNotGoBack(t *testing.T) {
	c := twoInputs(t)
	c.EndOfInput("b", 0)
	c.add("a", "k", "x", 100)
	require.Equal(t, []string{"x"}, c.run())
	require.EqualValues(t, 100, c.StreamTime())
	c.add("b", "k", "y", 5)
	require.Equal(t, []string{"y"}, c.run())
	require.EqualValues(t, 100, c.StreamTime())
}

// TestRuleB25_ARestartKnowsTheTimesOfItsInputs: of each as it was behind what was processed. What
// was read and waits for the other input is read again, so its time is not known yet.
func TestRuleB25_ARestartKnowsTheTimesOfItsInputs(t *testing.T) {
	c := twoInputs(t)
	c.add("a", "k", "x", 10)
	c.add("a", "k", "waits", 50)
	c.add("b", "k", "y", 20)
	require.Equal(t, []string{"x", "y"}, c.run())
	c.restart(c.Snapshot())
	require.Equal(t, []int64{10, 20}, watermarksOf(c))
	require.EqualValues(t, 20, c.StreamTime())

	c = twoInputs(t)
	c.add("a", "k", "waits", 50)
	require.Empty(t, c.run())
	c.restart(c.Snapshot())
	require.Equal(t, []int64{operator.NoTime, operator.NoTime}, watermarksOf(c))
}
