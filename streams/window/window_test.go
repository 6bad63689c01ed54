package window_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/window"
)

// TestStartsIsEveryWindowThatContainsTheTimestamp compares with a search over all starts near ts.
func TestStartsIsEveryWindowThatContainsTheTimestamp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := window.Windows{Size: rapid.Int64Range(1, 50).Draw(t, "size")}
		w.Advance = rapid.Int64Range(1, w.Size).Draw(t, "advance")
		w.Offset = rapid.Int64Range(-100, 100).Draw(t, "offset")
		ts := rapid.Int64Range(-200, 200).Draw(t, "ts")
		require.NoError(t, w.Validate())

		var want []int64
		for start := ts - 2*w.Size; start <= ts; start++ {
			aligned := (start-w.Offset)%w.Advance == 0
			if aligned && start <= ts && ts < start+w.Size {
				want = append(want, start)
			}
		}
		// Windows that start before 1970 do not take later timestamps if another one does.
		for len(want) > 1 && want[0] < 0 && want[len(want)-1] >= 0 {
			want = want[1:]
		}
		var got []int64
		first, last := w.Starts(ts)
		for start := first; start <= last; start += w.Advance {
			got = append(got, start)
		}
		require.Equal(t, want, got)
	})
}

func TestClosedAtEndPlusGrace(t *testing.T) {
	w := window.Tumbling(10 * time.Millisecond)
	require.Equal(t, operator.Window{Start: 20, End: 30}, w.At(20))
	require.False(t, w.Closed(20, 5, 34))
	require.True(t, w.Closed(20, 5, 35))
	require.False(t, w.Closed(20, 0, operator.NoTime))
	require.True(t, w.Closed(20, math.MaxInt64, operator.EndOfTime),
		"the end of time closes whatever the grace")
	require.False(t, w.Closed(20, math.MaxInt64, operator.EndOfTime-2))
}

func TestValidateRefusesWhatIsNoWindow(t *testing.T) {
	require.NoError(t, window.Windows{}.Validate())
	require.NoError(t, window.Hopping(time.Minute, time.Second).Validate())
	for name, w := range map[string]window.Windows{
		"no size":         {Advance: 1},
		"below a ms":      window.Tumbling(time.Microsecond * 10),
		"negative":        {Size: -5, Advance: 1},
		"no advance":      {Size: 5},
		"gaps":            {Size: 5, Advance: 6},
		"too many at one": {Size: 1_000_000_000, Advance: 1},
		"no gap":          window.Sessions(0),
		"session offset":  {Kind: window.Session, Size: 5, Offset: 1},
	} {
		require.ErrorIs(t, w.Validate(), window.ErrInvalid, name)
	}
}
