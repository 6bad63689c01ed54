package eventtime_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/millstream-io/millstream/streams/eventtime"
	"github.com/millstream-io/millstream/streams/operator"
)

func TestClockTakesWhatIsBelowItsTimeAtItsTime(t *testing.T) {
	c := eventtime.NewClock(5)
	require.Equal(t, operator.NoTime, c.W())
	for _, step := range []struct{ ts, eff, w int64 }{
		{10, 10, 5},  // W = 10 - 5
		{7, 7, 5},    // out of order, above W
		{5, 5, 5},    // at W: not below
		{3, 5, 5},    // below W: taken at W
		{20, 20, 15}, // W moves
		{10, 15, 15},
	} {
		require.Equal(t, step.eff, c.Observe(step.ts), "eff of %d", step.ts)
		require.Equal(t, step.w, c.W(), "W after %d", step.ts)
	}
}

// W is a function of the set of timestamps before it: their largest one.
func TestClockIsMaxMinusDisorder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rapid.Int64Range(0, 20).Draw(t, "disorder")
		c := eventtime.NewClock(d)
		seen := operator.NoTime
		for _, ts := range rapid.SliceOf(rapid.Int64Range(0, 100)).Draw(t, "ts") {
			eff := c.Observe(ts)
			seen = max(seen, ts)
			require.Equal(t, seen-d, c.W())
			require.Equal(t, max(ts, seen-d), eff)
		}
	})
}

func TestExtractRefusesImpossibleTimes(t *testing.T) {
	of := func(ts int64, err error) eventtime.Extractor {
		return func(*operator.Record) (int64, error) { return ts, err }
	}
	rec := &operator.Record{Timestamp: 42}
	ts, err := eventtime.Extract(eventtime.FromRecord, rec)
	require.NoError(t, err)
	require.EqualValues(t, 42, ts)

	_, err = eventtime.Extract(of(-1, nil), rec)
	require.ErrorIs(t, err, eventtime.ErrNegative)
	require.Equal(t, operator.ClassTimestamp, operator.ClassOf(err, ""))

	_, err = eventtime.Extract(of(1_700_000_000_000_000, nil), rec) // microseconds
	require.ErrorIs(t, err, eventtime.ErrTooLarge)
	ts, err = eventtime.Extract(of(eventtime.Largest, nil), rec)
	require.NoError(t, err)
	require.Equal(t, eventtime.Largest, ts)

	broken := errors.New("no field at")
	_, err = eventtime.Extract(of(0, broken), rec)
	require.ErrorIs(t, err, broken)
	require.Equal(t, operator.ClassTimestamp, operator.ClassOf(err, ""))
	_, err = eventtime.Extract(of(0, operator.WithClass("decode", broken)), rec)
	require.Equal(t, "decode", operator.ClassOf(err, ""), "a class given is kept")
}
