package aggregate_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/streams/aggregate"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/state"
	"github.com/millstream-io/millstream/streams/window"
)

// crowd is how many windows close at once.
const crowd = 100_000

// TestManyWindowsCloseAtOnce closes 100,000 windows by one record: all come out in order, in
// memory that is a small multiple of the results.
func TestManyWindowsCloseAtOnce(t *testing.T) {
	hour := time.Hour
	for name, tc := range map[string]struct {
		o    aggregate.Options
		keys int
	}{
		"windows of one key": {aggregate.Options{Windows: window.Tumbling(time.Millisecond),
			Grace: hour}, 1},
		"keys of one window": {aggregate.Options{Windows: window.Tumbling(hour)}, crowd},
		"sessions": {aggregate.Options{Windows: window.Sessions(time.Second), Grace: hour},
			crowd},
		"sliding windows": {aggregate.Options{Windows: window.SlidingBy(time.Millisecond),
			Grace: hour}, crowd},
	} {
		t.Run(name, func(t *testing.T) {
			tc.o.Fields, tc.o.Emit, tc.o.Store = []aggregate.Field{{Name: "n"}}, aggregate.OnClose, "rows"
			require.NoError(t, tc.o.Validate())
			db, err := state.Open(state.Options{})
			require.NoError(t, err)
			op := aggregate.New(tc.o)()
			ctx := operator.NewContext(operator.ContextOptions{Step: "agg", Stores: db,
				StreamTime: operator.NoTime})
			var in, out operator.Batch
			for i := range crowd {
				in.StreamTime = int64(i)
				in.Records = append(in.Records, operator.Record{Timestamp: int64(i),
					StreamTime: int64(i), Key: fmt.Appendf(nil, "key-%06d", i%tc.keys), Value: []byte{}})
			}
			require.NoError(t, op.Process(ctx, &in, &out))
			require.Empty(t, out.Records)

			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			end := operator.Batch{StreamTime: 3 * hour.Milliseconds()}
			require.NoError(t, op.Process(ctx, &end, &out))
			took := time.Since(start)
			runtime.ReadMemStats(&after)
			require.Len(t, out.Records, crowd)
			for i := 1; i < len(out.Records); i++ {
				a, b := &out.Records[i-1], &out.Records[i]
				require.True(t, a.Window.End < b.Window.End || a.Window.End == b.Window.End &&
					string(a.Key) < string(b.Key))
			}
			perWindow := (after.TotalAlloc - before.TotalAlloc) / crowd
			t.Logf("%d windows in %s, %d bytes each", crowd, took, perWindow)
			require.Less(t, perWindow, uint64(2500))
			require.Less(t, took, time.Minute, "closing must stay linear")
			require.NoError(t, db.Each(func(key, _ []byte) error {
				return fmt.Errorf("the row %q of a window that is over is left", key)
			}))
		})
	}
}
