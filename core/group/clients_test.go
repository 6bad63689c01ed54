package group_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/core/coretest"
)

// These tests run franz-go's consumers against a whole broker.

const (
	testTopic      = "flights"
	testPartitions = 6
)

func dial(t *testing.T, c *coretest.Cluster, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	patient := []kgo.Opt{kgo.RetryTimeout(20 * time.Second),
		kgo.MetadataMinAge(20 * time.Millisecond)}
	return c.Client(append(patient, opts...)...)
}

// fixture is a broker with a topic, a producer and an administrator.
type fixture struct {
	*coretest.Cluster
	t        *testing.T
	producer *kgo.Client
	admin    *kadm.Client
	seen     tally
	produced int
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	config := map[string]string{"group.min.session.timeout.ms": "100"}
	f := &fixture{Cluster: coretest.Start(t, coretest.Options{Config: config}), t: t}
	f.seen.counts = make(map[string]int)
	f.producer = dial(t, f.Cluster, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	t.Cleanup(f.producer.Close)
	f.admin = kadm.NewClient(f.producer)
	_, err := f.admin.CreateTopic(t.Context(), testPartitions, 1, nil, testTopic)
	require.NoError(t, err)
	return f
}

// produce adds n records to each partition.
func (f *fixture) produce(n int) {
	f.t.Helper()
	var recs []*kgo.Record
	for i := range n * testPartitions {
		recs = append(recs, &kgo.Record{
			Topic: testTopic, Partition: int32(i % testPartitions), Value: fmt.Append(nil, i),
		})
	}
	require.NoError(f.t, f.producer.ProduceSync(f.t.Context(), recs...).FirstErr())
	f.produced += len(recs)
}

// tally counts how often each record was consumed.
type tally struct {
	sync.Mutex
	counts map[string]int
}

func (s *tally) add(recs []*kgo.Record) {
	s.Lock()
	defer s.Unlock()
	for _, r := range recs {
		s.counts[fmt.Sprint(r.Partition, "@", r.Offset)]++
	}
}

func (s *tally) distinct() int {
	s.Lock()
	defer s.Unlock()
	return len(s.counts)
}

// repeated counts the records that were consumed more than once.
func (s *tally) repeated() int {
	s.Lock()
	defer s.Unlock()
	n := 0
	for _, count := range s.counts {
		if count > 1 {
			n++
		}
	}
	return n
}

// awaitAll waits until everything that was produced has been consumed.
func (f *fixture) awaitAll() {
	f.t.Helper()
	done := func() bool { return f.seen.distinct() == f.produced }
	if !assert.Eventually(f.t, done, time.Minute, 5*time.Millisecond) {
		f.t.Fatalf("%d records consumed of %d", f.seen.distinct(), f.produced)
	}
}

// consumer reads, tallies and commits in its goroutine until it is stopped.
type consumer struct {
	*kgo.Client
	cancel context.CancelFunc
	done   chan struct{}
	once   sync.Once
}

func (f *fixture) consume(opts ...kgo.Opt) *consumer {
	f.t.Helper()
	all := []kgo.Opt{
		kgo.ConsumerGroup("app"), kgo.ConsumeTopics(testTopic), kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(), kgo.HeartbeatInterval(50 * time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}
	ctx, cancel := context.WithCancel(f.t.Context())
	c := &consumer{
		Client: dial(f.t, f.Cluster, append(all, opts...)...), cancel: cancel,
		done: make(chan struct{}),
	}
	go func() {
		defer close(c.done)
		for ctx.Err() == nil {
			recs := c.PollRecords(ctx, 20).Records()
			if len(recs) > 0 && c.CommitRecords(ctx, recs...) == nil {
				f.seen.add(recs)
			}
			c.AllowRebalance()
		}
	}()
	f.t.Cleanup(c.stop)
	return c
}

// stop ends the consumer: a dynamic member leaves its group.
func (c *consumer) stop() {
	c.once.Do(func() {
		c.cancel()
		<-c.done
		c.CloseAllowingRebalance()
	})
}

// awaitMembers waits until the group is stable with the partitions spread evenly over n members.
func (f *fixture) awaitMembers(n int) {
	f.t.Helper()
	state := ""
	even := func() bool {
		groups, err := f.admin.DescribeGroups(f.t.Context(), "app")
		g := groups["app"]
		state = fmt.Sprintf("%s with %d members, %v", g.State, len(g.Members), err)
		if err != nil || g.State != "Stable" || len(g.Members) != n {
			return false
		}
		for _, m := range g.Members {
			a, ok := m.Assigned.AsConsumer()
			if !ok || len(a.Topics) != 1 || len(a.Topics[0].Partitions) != testPartitions/n {
				return false
			}
		}
		return true
	}
	if !assert.Eventually(f.t, even, time.Minute, 10*time.Millisecond) {
		f.t.Fatalf("group stays %s", state)
	}
}

func TestConsumersShareLeaveAndResume(t *testing.T) {
	for _, balancer := range []kgo.GroupBalancer{
		kgo.CooperativeStickyBalancer(), kgo.RangeBalancer(), kgo.RoundRobinBalancer(),
		kgo.StickyBalancer(),
	} {
		t.Run(balancer.ProtocolName(), func(t *testing.T) {
			f := newFixture(t)
			opts := kgo.Balancers(balancer)
			f.produce(50)
			first, second := f.consume(opts), f.consume(opts)
			f.consume(opts)
			f.awaitMembers(3)
			f.awaitAll()

			first.stop()
			f.awaitMembers(2)
			f.produce(50)
			f.awaitAll()

			// A broker that comes back has the group as it was.
			f.Restart()
			f.produce(10)
			f.awaitAll()
			f.awaitMembers(2)

			second.stop()
			f.awaitMembers(1)
			f.produce(10)
			f.awaitAll()
			require.Zero(t, f.seen.repeated(), "records that were consumed twice")
		})
	}
}

// Offsets that were committed survive a power cut, and the next consumer goes on behind them.
func TestConsumersResumeAfterCrash(t *testing.T) {
	f := newFixture(t)
	f.produce(50)
	a, b := f.consume(), f.consume()
	f.awaitMembers(2)
	f.awaitAll()
	f.Crash()
	a.stop()
	b.stop()
	f.produce(50)
	f.consume()
	f.awaitAll()
	require.Zero(t, f.seen.repeated())

	// Running consumers go on after a crash; what was committed is not read again.
	f.Crash()
	f.produce(20)
	f.awaitAll()
	f.Crash()
	f.produce(20)
	f.awaitAll()
	require.Zero(t, f.seen.repeated())
}

// A static member that restarts keeps its partitions, and nobody else notices (KIP-345).
func TestStaticMembersRestartWithoutRebalance(t *testing.T) {
	f := newFixture(t)
	// "one" leads: franz-go's leader asks for a rebalance itself when it comes back.
	f.consume(kgo.InstanceID("one"))
	f.awaitMembers(1)
	two := f.consume(kgo.InstanceID("two"))
	f.awaitMembers(2)
	f.produce(20)
	f.awaitAll()
	before, err := f.admin.DescribeGroups(t.Context(), "app")
	require.NoError(t, err)

	two.stop()
	again := f.consume(kgo.InstanceID("two"))
	f.produce(20)
	f.awaitAll()
	f.awaitMembers(2)
	after, err := f.admin.DescribeGroups(t.Context(), "app")
	require.NoError(t, err)
	require.Equal(t, partitionsByInstance(before), partitionsByInstance(after))
	_, generation := again.GroupMetadata()
	_, generationBefore := two.GroupMetadata()
	require.Equal(t, generationBefore, generation)
	require.Zero(t, f.seen.repeated())

	// An administrator removes it; its partitions go to the other.
	left, err := f.admin.LeaveGroup(t.Context(),
		kadm.LeaveGroup("app").InstanceIDs("two").Reason("gone for good"))
	require.NoError(t, err)
	require.NoError(t, left["two"].Err)
}

func partitionsByInstance(groups kadm.DescribedGroups) map[string]string {
	m := make(map[string]string)
	for _, member := range groups["app"].Members {
		a, _ := member.Assigned.AsConsumer()
		m[*member.InstanceID] = fmt.Sprint(a.Topics)
	}
	return m
}

// A consumer that vanishes is missed after its session timeout.
func TestConsumerThatVanishesIsReplaced(t *testing.T) {
	f := newFixture(t)
	session := kgo.SessionTimeout(4 * time.Second)
	f.consume(session)
	gone := f.consume(session, kgo.InstanceID("gone")) // static: closing does not leave
	f.awaitMembers(2)
	gone.stop()
	f.produce(10)
	f.awaitMembers(1)
	f.awaitAll()
}

func TestGroupAdministration(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	f.produce(10)
	one := f.consume()
	f.awaitMembers(1)
	f.awaitAll()

	listed, err := f.admin.ListGroups(ctx, "Stable")
	require.NoError(t, err)
	require.Equal(t, []string{"app"}, listed.Groups())
	require.Equal(t, "classic", listed["app"].GroupType)
	lag, err := f.admin.Lag(ctx, "app")
	require.NoError(t, err)
	require.Zero(t, lag["app"].Lag.Total())

	deleted, err := f.admin.DeleteGroups(ctx, "app")
	require.NoError(t, err)
	require.ErrorIs(t, deleted["app"].Err, kerr.NonEmptyGroup)
	removed, err := f.admin.DeleteOffsets(ctx, "app", set(testTopic, 0))
	require.NoError(t, err)
	require.ErrorIs(t, removed[testTopic][0], kerr.GroupSubscribedToTopic)

	one.stop()
	require.Eventually(t, func() bool {
		empty, err := f.admin.ListGroups(ctx, "Empty")
		return err == nil && len(empty) == 1
	}, time.Minute, 10*time.Millisecond)

	// Offsets are set by an administrator, with a leader epoch that comes back.
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{
		Topic: testTopic, Partition: 1, At: 4, LeaderEpoch: 0, Metadata: "by hand",
	})
	offsets.Add(kadm.Offset{Topic: "no-such-topic", Partition: 0, At: 1})
	committed, err := f.admin.CommitOffsets(ctx, "app", offsets)
	require.NoError(t, err)
	require.ErrorIs(t, committed["no-such-topic"][0].Err, kerr.UnknownTopicOrPartition)
	f.Crash()
	fetched, err := f.admin.FetchOffsets(ctx, "app")
	require.NoError(t, err)
	got := fetched[testTopic][1]
	require.EqualValues(t, 4, got.At)
	require.Equal(t, "by hand", got.Metadata)
	require.EqualValues(t, 10, fetched[testTopic][0].At)

	removed, err = f.admin.DeleteOffsets(ctx, "app", set(testTopic, 0))
	require.NoError(t, err)
	require.NoError(t, removed.Error())
	deleted, err = f.admin.DeleteGroups(ctx, "app", "never-was")
	require.NoError(t, err)
	require.NoError(t, deleted["app"].Err)
	require.ErrorIs(t, deleted["never-was"].Err, kerr.GroupIDNotFound)
	f.Crash()
	listed, err = f.admin.ListGroups(ctx)
	require.NoError(t, err)
	require.Empty(t, listed)
}

func set(topic string, partitions ...int32) kadm.TopicsSet {
	var s kadm.TopicsSet
	s.Add(topic, partitions...)
	return s
}

// A topic that is made again under its old name begins without the offsets of the old one.
func TestOffsetsGoWithTheirTopic(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: testTopic, Partition: 1, At: 4, LeaderEpoch: -1})
	_, err := f.admin.CommitOffsets(ctx, "app", offsets)
	require.NoError(t, err)
	_, err = f.admin.DeleteTopic(ctx, testTopic)
	require.NoError(t, err)
	_, err = f.admin.CreateTopic(ctx, testPartitions, 1, nil, testTopic)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		fetched, err := f.admin.FetchOffsets(ctx, "app")
		return err == nil && len(fetched) == 0
	}, time.Minute, 10*time.Millisecond)
}
