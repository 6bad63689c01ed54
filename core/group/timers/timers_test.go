package timers_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/millstream-io/millstream/core/group/timers"
)

// TestNextIsTheEarliestArmedTimer arms, moves and stops timers at random and compares with a plain
// list: also a deadline that was only moved later must not come too early.
func TestNextIsTheEarliestArmedTimer(t *testing.T) {
	start := time.Unix(1000, 0)
	rapid.Check(t, func(t *rapid.T) {
		var queue timers.Queue[int]
		all := make([]timers.Timer[int], 8)
		due := map[*timers.Timer[int]]time.Time{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			timer := &all[rapid.IntRange(0, len(all)-1).Draw(t, "timer")]
			if rapid.Bool().Draw(t, "arm") {
				at := start.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "at")) * time.Second)
				queue.Arm(timer, at)
				due[timer] = at
			} else {
				queue.Stop(timer)
				delete(due, timer)
			}
			next, at := queue.Next()
			require.Equal(t, len(due) > 0, next != nil)
			for armed, want := range due {
				require.True(t, armed.Armed())
				require.False(t, want.Before(at), "a timer before the next one")
			}
			if next != nil {
				require.Equal(t, due[next], at)
			}
		}
	})
}
