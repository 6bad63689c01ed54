package client

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestReadableWaitsForMarkers: a transaction that is decided may lack its markers for a while, and
// a partition may show them later than the coordinator counts them; a broker that is away for a
// moment is asked again. It returns when all of that is over, and not before.
func TestReadableWaitsForMarkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		after := func(d time.Duration) bool { return time.Since(began) >= d }
		tp := TopicPartition{Topic: "out", Partition: 2}
		w := readableWait{id: "x", wrote: map[TopicPartition]int64{tp: 5},
			ending: func(context.Context, string) (bool, error) {
				if !after(time.Second) {
					return false, io.EOF
				}
				return !after(3 * time.Second), nil
			},
			stable: func(_ context.Context, topics ...string) (map[TopicPartition]int64, error) {
				require.Equal(t, []string{"out"}, topics)
				if !after(3 * time.Second) {
					return map[TopicPartition]int64{tp: 6}, nil
				}
				if !after(10 * time.Second) {
					return map[TopicPartition]int64{tp: 4}, nil
				}
				return map[TopicPartition]int64{tp: 5}, nil
			}}
		require.NoError(t, w.wait(t.Context()))
		require.WithinDuration(t, began.Add(10*time.Second), time.Now(), slowLook)
	})
}

// TestReadableSaysWhatItWaitsFor when its time is over, and gives up at an error that stays.
func TestReadableSaysWhatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := readableWait{id: "x", wrote: map[TopicPartition]int64{{Topic: "out"}: 5},
			ending: func(context.Context, string) (bool, error) { return true, nil }}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := w.wait(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "the markers of the last transaction of x are not written")
		w.ending = func(context.Context, string) (bool, error) { return false, io.ErrShortWrite }
		require.ErrorIs(t, w.wait(t.Context()), io.ErrShortWrite)
	})
}
