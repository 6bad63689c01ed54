package task

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/state"
	"github.com/millstream-io/millstream/streams/topology"
)

// alarms is a step that tells when a key was quiet for 10 ms; of a record "wall" it tells when the
// machine's clock has come to 1000.
func alarms() *topology.Builder {
	b := topology.NewBuilder(topology.Options{App: "app"})
	b.Source("in", "in", topology.SourceOptions{})
	b.Process("alarms", []string{"in"}, topology.ProcessOptions{
		Stores: operator.TimerStores("alarms"), WallClock: true,
		New: operator.Timed(operator.TimedOptions{Store: "alarms",
			Each: func(t *operator.TimedContext, rec *operator.Record) error {
				timer := operator.Timer{Clock: operator.EventClock, Key: rec.Key, Name: "quiet",
					At: rec.Timestamp + 10, Data: rec.Value}
				if string(rec.Value) == "wall" {
					timer.Clock, timer.At = operator.WallClock, 1000
				}
				return t.Timers.Set(timer)
			},
			OnTimer: func(t *operator.TimedContext, timer operator.Timer) error {
				t.Emit(&operator.Record{Key: timer.Key, Timestamp: timer.At,
					Value: fmt.Appendf(nil, "%s %s@%d", timer.Key, timer.Data, timer.At)})
				return nil
			}})})
	b.Sink("out", "alarms", "out", topology.SinkOptions{})
	return b
}

// TestTimersAreCommittedWithTheTask: what was set before a commit fires after a restart, what was
// not committed does not; a timer that is set again is moved; those that are due together come by
// time, key and name.
func TestTimersAreCommittedWithTheTask(t *testing.T) {
	c := newCoreTest(t, alarms(), 0)
	c.add("in", "b", "one", 1)
	c.add("in", "a", "two", 1)
	c.add("in", "a", "three", 2)
	require.Empty(t, c.run())
	snapshot := c.Snapshot()
	require.NoError(t, c.db.Commit(time.Now(), state.Meta{}))
	c.add("in", "c", "lost", 3)
	require.Empty(t, c.run())
	c.db.Abort()

	c.restart(snapshot)
	c.add("in", "c", "again", 50)
	require.Equal(t, []string{"b one@11", "a three@12"}, c.run())
	require.NoError(t, c.db.Commit(time.Now(), state.Meta{}))
	c.restart(c.Snapshot())
	c.add("in", "d", "end", 100)
	require.Equal(t, []string{"c again@60"}, c.run(), "each once")
}

// TestWallTimersFireByTheClockTheCoreIsTold, without a record.
func TestWallTimersFireByTheClockTheCoreIsTold(t *testing.T) {
	c := newCoreTest(t, alarms(), 0)
	require.True(t, c.WantsWall())
	c.add("in", "a", "wall", 1)
	require.Empty(t, c.run())
	c.SetWall(999)
	require.Empty(t, c.run())
	c.SetWall(1001)
	require.Equal(t, []string{"a wall@1000"}, c.run())
	c.SetWall(900)
	require.Empty(t, c.run(), "a clock that was set back fires nothing twice")
}

// TestPunctuateWallFiresAtMultiples of 100 ms, once for those that passed together.
func TestPunctuateWallFiresAtMultiples(t *testing.T) {
	b := topology.NewBuilder(topology.Options{App: "app"})
	b.Source("in", "in", topology.SourceOptions{})
	b.Process("tick", []string{"in"}, topology.ProcessOptions{WallClock: true,
		New: operator.PunctuateWall(100*time.Millisecond,
			func(_ *operator.Context, at int64, emit func(operator.Record)) error {
				emit(operator.Record{Value: fmt.Append(nil, at)})
				return nil
			})})
	b.Sink("out", "tick", "out", topology.SinkOptions{})
	c := newCoreTest(t, b, 0)
	for _, step := range []struct {
		wall int64
		want []string
	}{{50, nil}, {99, nil}, {100, []string{"100"}}, {450, []string{"400"}}, {460, nil}} {
		c.SetWall(step.wall)
		require.Equal(t, step.want, c.run(), step.wall)
	}
}

// TestTapShowsWithoutHoldingUp: a tap takes what it has room for, and counts the rest.
func TestTapShowsWithoutHoldingUp(t *testing.T) {
	points := &tapPoints{}
	in, _ := points.of("s")
	w := &Worker{opts: Options{taps: points}}
	records := make([]operator.Record, 1000)
	for i := range records {
		records[i].Value = fmt.Append(nil, i)
	}
	in.offer("s.0", records)
	tap, remove := w.Tap("s", true)
	for range 100 {
		in.offer("s.0", records)
	}
	taken, seen := tap.Take()
	require.EqualValues(t, 100_000, seen)
	require.LessOrEqual(t, len(taken), tapRecords)
	require.Greater(t, len(taken), tapRecords/2)
	require.Equal(t, "0", string(taken[0].Value))
	records[0].Value = make([]byte, 2*tapBytes)
	in.offer("s.0", records[:1])
	taken, _ = tap.Take()
	require.Len(t, taken, 1)
	require.Len(t, taken[0].Value, tapBytes)
	require.True(t, taken[0].Cut)
	remove()
	in.offer("s.0", records)
	taken, _ = tap.Take()
	require.Empty(t, taken)
}

// BenchmarkTap is what a batch of 1024 records costs at a step that nobody looks at, and at one
// that somebody does.
func BenchmarkTap(b *testing.B) {
	for _, watched := range []bool{false, true} {
		b.Run(fmt.Sprintf("watched=%t", watched), func(b *testing.B) {
			points := &tapPoints{}
			in, _ := points.of("s")
			records := make([]operator.Record, 1024)
			for i := range records {
				records[i].Value = make([]byte, 200)
			}
			if watched {
				w := &Worker{opts: Options{taps: points}}
				tap, _ := w.Tap("s", true)
				done := make(chan struct{})
				defer close(done)
				go func() {
					tick := time.NewTicker(200 * time.Millisecond)
					defer tick.Stop()
					for {
						select {
						case <-tick.C:
							tap.Take()
						case <-done:
							return
						}
					}
				}()
			}
			for b.Loop() {
				in.offer("s.0", records)
			}
		})
	}
}
