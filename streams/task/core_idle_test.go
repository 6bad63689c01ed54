package task

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/state"
	"github.com/millstream-io/millstream/streams/topology"
)

// stamped merges two sources and writes each record with the stream time at which it came.
func stamped(disorder time.Duration) *topology.Builder {
	b := topology.NewBuilder(topology.Options{App: "app"})
	b.Source("a", "a", topology.SourceOptions{Disorder: disorder})
	b.Source("b", "b", topology.SourceOptions{Disorder: disorder})
	b.Merge("both", "a", "b")
	b.Map("stamp", "both", func(r *operator.Record) error {
		r.SetValue(fmt.Appendf(nil, "%s at %d", r.Value, r.StreamTime))
		return nil
	})
	b.Sink("out", "stamp", "out", topology.SinkOptions{})
	return b
}

func TestRuleB27_AnIdleInputHoldsNobodyUpOnceDecided(t *testing.T) {
	c := newCoreTest(t, stamped(0), 0)
	c.add("b", "k", "b1", 1)
	for _, ts := range []int64{5, 7, 9} {
		c.add("a", "k", fmt.Sprint("a", ts), ts)
	}
	require.Equal(t, []string{"b1 at 1"}, c.run())
	require.False(t, c.Undecided())
	c.Idle("b", 0)
	require.True(t, c.Undecided())
	require.Equal(t, []Decision{{Source: "b", At: 1, Time: 10}}, c.Decide())
	require.False(t, c.Undecided())
	require.Equal(t, []string{"a5 at 5", "a7 at 7", "a9 at 9"}, c.run())
	snapshot := c.Snapshot()

	c.add("b", "k", "b2", 2)
	require.Empty(t, c.run(), "b2 counts as not before 10, and a may still have 9")
	c.add("a", "k", "a11", 11)
	require.Equal(t, []string{"b2 at 10"}, c.run())

	c.restart(snapshot) // the decision is in the commit
	c.add("b", "k", "b2", 2)
	c.add("a", "k", "a11", 11)
	require.Equal(t, []string{"b2 at 10"}, c.run())
}

func TestRuleB27_NothingIsDecidedWhenAllInputsAreIdle(t *testing.T) {
	c := newCoreTest(t, stamped(0), 0)
	c.add("a", "k", "a5", 5)
	c.add("b", "k", "b5", 5)
	require.Equal(t, []string{"a5 at 5"}, c.run(), "a may have another one at 5")
	c.Idle("a", 0)
	c.Idle("b", 0)
	require.Len(t, c.Decide(), 1)
	require.Equal(t, []string{"b5 at 5"}, c.run())
	require.Empty(t, c.Decide(), "no records, no time")
}

func TestRuleB27_IdleInputsGiveWhatWaitsForTheirDisorder(t *testing.T) {
	c := newCoreTest(t, stamped(100*time.Millisecond), 0)
	c.add("a", "k", "a5", 5)
	c.add("b", "k", "b3", 3)
	require.Empty(t, c.run())
	c.Idle("a", 0)
	c.Idle("b", 0)
	require.Len(t, c.Decide(), 2)
	require.Equal(t, []string{"b3 at 3", "a5 at 5"}, c.run())
}

// TestRuleB27_AReplayRepeatsIdleDecisions runs random schedules in which inputs fall silent and
// come back with old records, and then the same input at once with the decisions that were made.
func TestRuleB27_AReplayRepeatsIdleDecisions(t *testing.T) {
	decided := 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 27))
		b := stamped(time.Duration(seed%3) * 4 * time.Millisecond)
		live := newCoreTest(t, b, 0)
		logs := map[string][]record.Record{}
		now := map[string]int64{}
		var decisions []Decision
		var want []string
		outputs := func(c *Core) (list []string) {
			_, err := c.Run(1 + r.IntN(5))
			require.NoError(t, err)
			for _, o := range c.TakeOutputs(nil) {
				list = append(list, fmt.Sprintf("%s seq %d", o.Record.Value, o.Seq))
			}
			return list
		}
		for range 60 {
			topic := []string{"a", "b"}[r.IntN(2)]
			switch r.IntN(4) {
			case 0:
				live.Idle(topic, 0)
				made := live.Decide()
				decisions = append(decisions, made...)
			case 1:
				want = append(want, outputs(live.Core)...)
			default:
				now[topic] += int64(r.IntN(9)) - 2
				ts := max(0, now[topic])
				x := record.Record{Offset: int64(len(logs[topic])), Timestamp: ts, Key: []byte("k"),
					Value: fmt.Appendf(nil, "%s%d", topic, len(logs[topic]))}
				logs[topic] = append(logs[topic], x)
				live.add(topic, "k", string(x.Value), ts)
			}
		}
		finish := func(c *Core) (list []string) {
			c.EndOfInput("a", 0)
			c.EndOfInput("b", 0)
			for !c.Done() {
				list = append(list, outputs(c)...)
			}
			return list
		}
		want = append(want, finish(live.Core)...)
		decided += len(decisions)

		db, err := state.Open(state.Options{})
		require.NoError(t, err)
		again, err := NewCore(CoreOptions{Topology: live.topo, Sub: live.sub, Stores: db,
			Decisions: decisions})
		require.NoError(t, err)
		var got []string
		for len(logs["a"])+len(logs["b"]) > 0 {
			topic := []string{"a", "b"}[r.IntN(2)]
			n := min(len(logs[topic]), r.IntN(30))
			if n > 0 {
				next := logs[topic][n-1].Offset + 1
				require.NoError(t, again.Add(topic, 0, logs[topic][:n], next))
				logs[topic] = logs[topic][n:]
			}
			got = append(got, outputs(again)...)
		}
		got = append(got, finish(again)...)
		require.Equal(t, want, got, "seed %d, decisions %+v", seed, decisions)
	}
	require.Greater(t, decided, 500)
}
