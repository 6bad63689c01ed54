package core_test

import (
	"context"
	"fmt"
	"reflect"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/core"
	"github.com/millstream-io/millstream/core/coretest"
)

// wallClock is a clock that somebody sets: its time of day jumps, the monotonic reading that comes
// with it does not.
type wallClock struct{ ahead atomic.Int64 }

func (w *wallClock) jump(d time.Duration) { w.ahead.Add(int64(d)) }

// Now changes only the wall part of the time: no function of package time does.
func (w *wallClock) Now() time.Time {
	now := time.Now()
	seconds := w.ahead.Load() / int64(time.Second)
	wall := (*uint64)(unsafe.Pointer(reflect.ValueOf(&now).Elem().FieldByName("wall").UnsafeAddr()))
	*wall += uint64(seconds) << 30
	return now
}

// The clock of this test does what is said of it: otherwise it proves nothing.
func TestJumpOfTheTestsClock(t *testing.T) {
	var w wallClock
	before := w.Now()
	w.jump(24 * time.Hour)
	after := w.Now()
	require.Less(t, after.Sub(before), time.Minute)
	require.InDelta(t, 24*3600, after.Unix()-before.Unix(), 60)
	w.jump(-48 * time.Hour)
	require.InDelta(t, -24*3600, w.Now().Unix()-before.Unix(), 60)
}

// startWithClock starts a broker with a clock that can jump. Everything that has a timeout looks
// often.
func startWithClock(t *testing.T) (*coretest.Cluster, *wallClock) {
	clock := new(wallClock)
	c := coretest.Start(t, coretest.Options{
		Config: map[string]string{
			"transaction.abort.timed.out.transaction.cleanup.interval.ms": "20",
			"log.retention.check.interval.ms":                             "20",
			// By default a record is refused that is an hour ahead of the broker's clock.
			"log.message.timestamp.after.max.ms": "172800000",
		},
		Change: func(o *core.Options) { o.Now = clock.Now },
	})
	return c, clock
}

// F12: the wall clock of the broker jumps by a day, ahead and back, while a transaction and members
// of groups are there. None of them is over its timeout, and nothing is deleted.
func TestF12_ClockJumpsEndNoSession(t *testing.T) {
	for _, by := range []time.Duration{24 * time.Hour, -24 * time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			c, clock := startWithClock(t)
			txnTopic(t, c, "t", 1)
			transact(t, producer(t, c, "first"), "t", "first", 1, true)
			generations := make(chan string, 100)
			for name, opt := range map[string]kgo.Opt{
				"classic": kgo.Balancers(kgo.RangeBalancer()), "kip848": kgo.ServerSideBalancer(),
			} {
				member := groupMember(t, c, name, generations, opt)
				member.PollRecords(t.Context(), 1)
			}
			require.Equal(t, "assigned", <-generations)
			require.Equal(t, "assigned", <-generations)
			cl := producer(t, c, "open", kgo.TransactionTimeout(time.Minute))
			require.NoError(t, cl.BeginTransaction())
			for n := range 6 {
				r := &kgo.Record{Topic: "t", Value: fmt.Append(nil, "v", n)}
				require.NoError(t, cl.ProduceSync(t.Context(), r).FirstErr())
				if n == 2 {
					clock.jump(by)
					waitTicks(t, c)
				}
			}
			require.NoError(t, cl.EndTransaction(t.Context(), kgo.TryCommit))
			require.Equal(t, []string{"first", "v0", "v1", "v2", "v3", "v4", "v5"},
				readCommitted(t, c, "t", 0, 7))
			require.Empty(t, generations, "a member lost its partitions")
			groups, err := kadm.NewClient(txnClient(t, c)).DescribeGroups(t.Context())
			require.NoError(t, err)
			for _, g := range groups.Sorted() {
				require.Len(t, g.Members, 1, g.Group)
			}
		})
	}
}

// groupMember is a member that tells what happens to its partitions.
func groupMember(t *testing.T, c *coretest.Cluster, group string, events chan string, opt kgo.Opt,
) *kgo.Client {
	tell := func(event string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, which map[string][]int32) {
			if len(which) > 0 && t.Context().Err() == nil {
				events <- event
			}
		}
	}
	return txnClient(t, c, kgo.ConsumerGroup(group), kgo.ConsumeTopics("t"), opt,
		kgo.OnPartitionsAssigned(tell("assigned")), kgo.OnPartitionsRevoked(tell("revoked")),
		kgo.OnPartitionsLost(tell("lost")), kgo.HeartbeatInterval(100*time.Millisecond))
}

// waitTicks waits until what looks at timeouts has looked, which a transaction that is really late
// shows.
func waitTicks(t *testing.T, c *coretest.Cluster) {
	t.Helper()
	late := producer(t, c, fmt.Sprint("late", time.Now().UnixNano()),
		kgo.TransactionTimeout(2*time.Second))
	require.NoError(t, late.BeginTransaction())
	r := &kgo.Record{Topic: "t", Value: []byte("late")}
	require.NoError(t, late.ProduceSync(t.Context(), r).FirstErr())
	require.Eventually(t, func() bool {
		ids, err := kadm.NewClient(txnClient(t, c)).DescribeTransactions(t.Context())
		if err != nil {
			return false
		}
		for _, d := range ids.Sorted() {
			if d.TxnID != "open" && d.State == "Ongoing" {
				return false
			}
		}
		return true
	}, time.Minute, 20*time.Millisecond, "a late transaction is not aborted")
}

// A transaction whose client has gone is aborted after its timeout, though the clock went back by
// a day while it was open: readers do not wait for the next day.
func TestF12_LateTransactionEndsThoughTheClockGoesBack(t *testing.T) {
	c, clock := startWithClock(t)
	txnTopic(t, c, "t", 1)
	gone := producer(t, c, "gone", kgo.TransactionTimeout(3*time.Second))
	require.NoError(t, gone.BeginTransaction())
	lost := &kgo.Record{Topic: "t", Value: []byte("lost")}
	require.NoError(t, gone.ProduceSync(t.Context(), lost).FirstErr())
	clock.jump(-24 * time.Hour)
	transact(t, producer(t, c, "other"), "t", "kept", 1, true)
	require.Equal(t, []string{"kept"}, readCommitted(t, c, "t", 0, 1))
}

// LogAppendTime does not go back within a partition, and a clock a day ahead deletes nothing
// that is kept for a week.
func TestF12_LogAppendTimeAndRetention(t *testing.T) {
	c, clock := startWithClock(t)
	cl := txnClient(t, c)
	kind, roll := "LogAppendTime", "1"
	_, err := kadm.NewClient(cl).CreateTopic(t.Context(), 1, 1,
		map[string]*string{"message.timestamp.type": &kind, "segment.ms": &roll}, "t")
	require.NoError(t, err)
	last := int64(0)
	for n := range 30 {
		r := &kgo.Record{Topic: "t", Value: fmt.Append(nil, n)}
		require.NoError(t, cl.ProduceSync(t.Context(), r).FirstErr())
		require.GreaterOrEqual(t, r.Timestamp.UnixMilli(), last, "record %d", n)
		last = r.Timestamp.UnixMilli()
		clock.jump(map[int]time.Duration{5: 24 * time.Hour, 12: -48 * time.Hour, 20: 24 * time.Hour}[n])
	}
	starts, err := kadm.NewClient(cl).ListStartOffsets(t.Context(), "t")
	require.NoError(t, err)
	start, _ := starts.Lookup("t", 0)
	require.Zero(t, start.Offset)
	require.Len(t, readAll(t, c, "t", 0, 30, kgo.ReadUncommitted()), 30)
}
