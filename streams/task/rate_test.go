package task

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRateIsKept: a bounded run takes the time that its rate says, whatever the number of tasks and
// the pauses of commits and reading are, and puts out the same.
func TestRateIsKept(t *testing.T) {
	for _, rate := range []int64{200, 5_000} {
		for _, partitions := range []int32{1, 3} {
			synctest.Test(t, func(t *testing.T) {
				const records = 10_000
				m := filled(t, partitions, records)
				o := countOptions(m, partitions, "")
				o.Rate = rate
				began := time.Now()
				_, err := runWorker(t.Context(), t, o)
				require.NoError(t, err)
				took, want := time.Since(began), time.Second*records/time.Duration(rate)
				require.InEpsilon(t, want.Seconds(), took.Seconds(), 0.05, "%d/s, %d tasks", rate, partitions)
				require.Equal(t, expected(m, partitions), lanesOf(t, m, outTopics))
			})
		}
	}
}

// TestRateHasNoBursts: after a pause the tasks get what they missed in slices, and of a long pause
// a second at most.
func TestRateHasNoBursts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rate{perSecond: 1000, tasks: 1}
		r.join()
		time.Sleep(time.Hour)
		got := 0
		for {
			n, again := r.take(1024)
			require.LessOrEqual(t, n, 20, "what is due in 20 ms")
			if got += n; n == 0 {
				require.Equal(t, 20*time.Millisecond, again)
				break
			}
		}
		require.Equal(t, 1000, got)
		time.Sleep(500 * time.Millisecond)
		n, _ := r.take(1024)
		r.giveBack(n)
		r.leave()
		n, again := r.take(1)
		require.Equal(t, 1, n, "what is left is given")
		require.Zero(t, again)
	})
}

// TestRateIsSharedByWorkersAsTheTasksAre: each has as much of it as it has of the tasks.
func TestRateIsSharedByWorkersAsTheTasksAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rate{perSecond: 1000, tasks: 4}
		r.join()
		got, began := 0, time.Now()
		for time.Since(began) < 10*time.Second {
			n, again := r.take(1024)
			got += n
			time.Sleep(max(again, time.Millisecond))
		}
		require.InEpsilon(t, 2500, got, 0.05)
	})
}
