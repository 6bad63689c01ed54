package client

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
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
		var log bytes.Buffer
		w := readableWait{id: "x", wrote: map[TopicPartition]int64{tp: 5}, stall: 4 * time.Second,
			log: slog.New(slog.NewTextHandler(&log, nil)),
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
		require.Equal(t, 2, strings.Count(log.String(), "cannot be read yet"), log.String())
		require.Contains(t, log.String(), "out-2 is read up to 4 of 5 only")
	})
}

// TestReadableSaysWhatItWaitsFor when its time is over, and gives up at an error that stays.
func TestReadableSaysWhatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := readableWait{id: "x", wrote: map[TopicPartition]int64{{Topic: "out"}: 5},
			stall:  time.Hour,
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
