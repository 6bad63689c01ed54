package group_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/group"
	"github.com/millstream-io/millstream/core/group/classic"
	"github.com/millstream-io/millstream/core/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memLog is __consumer_offsets in memory.
type memLog struct {
	mu         sync.Mutex
	partitions map[int32][]coordinator.Entry
	delay      time.Duration // how long an append takes
}

func (l *memLog) Append(_ context.Context, n int32, b coordinator.Batch) (int64, error) {
	if l.delay > 0 {
		<-time.After(l.delay)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.partitions == nil {
		l.partitions = make(map[int32][]coordinator.Entry)
	}
	entries := l.partitions[n]
	if m := b.Marker; m != nil {
		entries = append(entries, coordinator.Entry{
			Record:   record.Record{Offset: int64(len(entries)), Timestamp: m.Timestamp},
			Producer: &coordinator.Producer{ID: m.ProducerID, Epoch: m.ProducerEpoch},
			Marker:   true, Commit: m.Type == record.ControlCommit,
		})
	}
	for i := range b.Records {
		rec := b.Records[i].Clone()
		rec.Offset = int64(len(entries))
		entries = append(entries, coordinator.Entry{Record: rec, Producer: b.Producer})
	}
	l.partitions[n] = entries
	return int64(len(entries)) - 1, nil
}

func (l *memLog) Replay(_ context.Context, n int32, fn func(coordinator.Entry) error) error {
	l.mu.Lock()
	entries := l.partitions[n]
	l.mu.Unlock()
	for _, e := range entries {
		if err := fn(e); err != nil {
			return err
		}
	}
	return nil
}

func (l *memLog) LeaderEpoch(int32) int32 { return 0 }

// lead makes c the leader of all shards and waits until they are loaded.
func lead(t testing.TB, c *group.Coordinator, partitions int32) {
	t.Helper()
	all := make(map[int32]int32)
	for n := range partitions {
		all[n] = 0
	}
	c.UpdateLeadership(partitions, all)
	require.Eventually(t, func() bool {
		resp := c.List(t.Context(), group.ListRequest{})
		return resp.Code == coordinator.CodeNone
	}, time.Minute, time.Millisecond)
}

func open(t testing.TB, log coordinator.Log, opts group.Options) *group.Coordinator {
	t.Helper()
	opts.Log = log
	c, err := group.New(opts)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	lead(t, c, 50)
	return c
}

func TestOptionsAreChecked(t *testing.T) {
	_, err := group.New(group.Options{Settings: group.Settings{
		MinSessionTimeout: time.Hour, MaxSize: -1,
	}})
	require.ErrorContains(t, err, "Log is missing")
	require.ErrorContains(t, err, "MinSessionTimeout")
	require.ErrorContains(t, err, "MaxSize")
}

func TestCoordinatorLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &memLog{}
		c := open(t, log, group.Options{})
		ctx := t.Context()
		commit := group.CommitRequest{
			GroupID: "g", Generation: -1, RetentionMS: -1,
			Offsets: []group.OffsetCommit{{Topic: "t", Partition: 0, Offset: 7, LeaderEpoch: 2}},
		}
		require.Equal(t, []group.ErrorCode{0}, c.CommitOffsets(ctx, commit).Codes)

		n := c.PartitionFor("g")
		c.UpdateLeadership(50, map[int32]int32{(n + 1) % 50: 0})
		gone := c.CommitOffsets(ctx, commit)
		require.Equal(t, []group.ErrorCode{coordinator.CodeNotCoordinator}, gone.Codes)
		require.Equal(t, coordinator.CodeNotCoordinator, c.Delete(ctx, "g"))
		require.Equal(t, coordinator.CodeNotCoordinator, c.Describe(ctx, "g").Code)
		require.Empty(t, c.List(ctx, group.ListRequest{}).Groups)

		lead(t, c, 50)
		fetched := c.FetchOffsets(ctx, group.FetchRequest{GroupID: "g", All: true})
		require.Equal(t, []group.FetchedTopic{{Topic: "t", Partitions: []group.FetchedOffset{
			{Partition: 0, Offset: 7, LeaderEpoch: 2},
		}}}, fetched.Topics)
		c.Close()
		// Closing twice, and calls after it, do no harm.
		c.Close()
		require.Equal(t, coordinator.CodeNotCoordinator, c.Describe(ctx, "g").Code)
	})
}

// member is a consumer that joins, syncs, and joins again when it is told to.
func join(ctx context.Context, c *group.Coordinator, groupID, id string) group.JoinResponse {
	req := group.JoinRequest{
		GroupID: groupID, MemberID: id, ClientID: "c", ProtocolType: "consumer",
		Protocols:        []group.Protocol{{Name: "range", Metadata: make([]byte, 100)}},
		SessionTimeoutMS: 45000, RebalanceTimeoutMS: 300000, RequireMemberID: true,
	}
	for {
		resp := c.Join(ctx, req)
		if resp.Code != coordinator.CodeMemberIDRequired {
			return resp
		}
		req.MemberID = resp.MemberID
	}
}

// settle joins and syncs until the group is stable with size members.
func settle(ctx context.Context, c *group.Coordinator, groupID string, size int) error {
	id := ""
	for ctx.Err() == nil {
		joined := join(ctx, c, groupID, id)
		if joined.Code != 0 {
			return fmt.Errorf("join: %v", joined.Code)
		}
		id = joined.MemberID
		sync := group.SyncRequest{GroupID: groupID, MemberID: id, Generation: joined.Generation}
		for _, m := range joined.Members {
			sync.Assignments = append(sync.Assignments, group.Assignment{
				MemberID: m.MemberID, Assignment: []byte(m.MemberID),
			})
		}
		synced := c.Sync(ctx, sync)
		switch {
		case synced.Code == coordinator.CodeRebalanceInProgress:
			continue
		case synced.Code != 0:
			return fmt.Errorf("sync: %v", synced.Code)
		case string(synced.Assignment) != id:
			return fmt.Errorf("member %s was assigned %q", id, synced.Assignment)
		}
		if d := c.Describe(ctx, groupID); d.State == classic.Stable && len(d.Members) == size {
			return nil
		}
		beat := group.HeartbeatRequest{
			GroupID: groupID, MemberID: id, Generation: joined.Generation,
		}
		for c.Heartbeat(ctx, beat).Code == 0 {
			if d := c.Describe(ctx, groupID); d.State == classic.Stable && len(d.Members) == size {
				return nil
			}
			<-time.After(10 * time.Millisecond)
		}
	}
	return ctx.Err()
}

func TestJoinStormSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, &memLog{}, group.Options{})
		const size = 500
		errs := make(chan error, size)
		for range size {
			go func() { errs <- settle(t.Context(), c, "storm", size) }()
		}
		for range size {
			require.NoError(t, <-errs)
		}
		require.EqualValues(t, 1, generationOf(t, c, "storm"), "one rebalance for all")
	})
}

// generationOf finds the generation by what a heartbeat of the first member accepts.
func generationOf(t *testing.T, c *group.Coordinator, groupID string) int32 {
	t.Helper()
	d := c.Describe(t.Context(), groupID)
	require.NotEmpty(t, d.Members)
	for gen := range int32(1000) {
		beat := group.HeartbeatRequest{
			GroupID: groupID, MemberID: d.Members[0].MemberID, Generation: gen,
		}
		if c.Heartbeat(t.Context(), beat).Code == 0 {
			return gen
		}
	}
	return -1
}

// A caller that goes away does not take its member along.
func TestAbandonedJoinStillHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, &memLog{}, group.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		resp := join(ctx, c, "g", "")
		require.Equal(t, coordinator.CodeCoordinatorNotAvailable, resp.Code)
		<-time.After(3 * time.Second)
		require.Len(t, c.Describe(t.Context(), "g").Members, 1)
	})
}

// What a restart makes of the log is what was there, after any history of commits and deletions.
func TestRestartKeepsOffsets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &memLog{}
		before := open(t, log, group.Options{})
		rnd := rand.New(rand.NewPCG(1, 2))
		want := make(map[string]int64)
		for i := range 2000 {
			g := fmt.Sprint("g", rnd.IntN(40))
			if rnd.IntN(50) == 0 {
				before.Delete(t.Context(), g)
				for p := range 5 {
					delete(want, fmt.Sprint(g, p))
				}
				continue
			}
			p := rnd.Int32N(5)
			resp := before.CommitOffsets(t.Context(), group.CommitRequest{
				GroupID: g, Generation: -1, RetentionMS: -1,
				Offsets: []group.OffsetCommit{{Topic: "t", Partition: p, Offset: int64(i)}},
			})
			require.Equal(t, []group.ErrorCode{0}, resp.Codes)
			want[fmt.Sprint(g, p)] = int64(i)
		}
		before.Close()
		after := open(t, log, group.Options{})
		got := make(map[string]int64)
		for _, g := range after.List(t.Context(), group.ListRequest{}).Groups {
			fetch := group.FetchRequest{GroupID: g.GroupID, All: true}
			for _, topic := range after.FetchOffsets(t.Context(), fetch).Topics {
				for _, p := range topic.Partitions {
					got[fmt.Sprint(g.GroupID, p.Partition)] = p.Offset
				}
			}
		}
		require.Equal(t, want, got)
	})
}

// nullLog forgets: for the speed of the coordinator alone.
type nullLog struct{}

func (nullLog) Append(context.Context, int32, coordinator.Batch) (int64, error) { return 0, nil }

func (nullLog) Replay(context.Context, int32, func(coordinator.Entry) error) error { return nil }

func (nullLog) LeaderEpoch(int32) int32 { return 0 }

func BenchmarkCommit(b *testing.B) {
	for _, bench := range []struct {
		name string
		log  coordinator.Log
	}{{"log=null", nullLog{}}, {"log=fsync200us", &memLog{delay: 200 * time.Microsecond}}} {
		for _, offsets := range []int{1, 50} {
			b.Run(fmt.Sprintf("%s/offsets=%d", bench.name, offsets), func(b *testing.B) {
				c := open(b, bench.log, group.Options{})
				b.ReportAllocs()
				b.SetParallelism(64)
				b.RunParallel(func(pb *testing.PB) {
					req := group.CommitRequest{
						GroupID: fmt.Sprint("g", rand.IntN(50)), Generation: -1, RetentionMS: -1,
					}
					for p := range offsets {
						req.Offsets = append(req.Offsets, group.OffsetCommit{
							Topic: "orders", Partition: int32(p), Offset: 42, LeaderEpoch: 1,
						})
					}
					for pb.Next() {
						c.CommitOffsets(b.Context(), req)
					}
				})
				b.ReportMetric(float64(b.N*offsets)/b.Elapsed().Seconds(), "offsets/s")
			})
		}
	}
}

func BenchmarkHeartbeat(b *testing.B) {
	c := open(b, nullLog{}, group.Options{Settings: group.Settings{InitialRebalanceDelay: -1}})
	joined := join(b.Context(), c, "g", "")
	req := group.HeartbeatRequest{GroupID: "g", MemberID: joined.MemberID, Generation: 1}
	b.ReportAllocs()
	for b.Loop() {
		if c.Heartbeat(b.Context(), req).Code != 0 {
			b.Fatal("heartbeat refused")
		}
	}
}

// BenchmarkJoinStorm is one rebalance of an empty group from the first join to the last sync.
func BenchmarkJoinStorm(b *testing.B) {
	for _, size := range []int{50, 500} {
		b.Run(fmt.Sprintf("members=%d", size), func(b *testing.B) {
			c := open(b, nullLog{}, group.Options{Settings: group.Settings{
				InitialRebalanceDelay: 100 * time.Millisecond,
			}})
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				n++
				name := fmt.Sprint("storm", n)
				errs := make(chan error, size)
				for range size {
					go func() { errs <- settle(b.Context(), c, name, size) }()
				}
				for range size {
					if err := <-errs; err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
