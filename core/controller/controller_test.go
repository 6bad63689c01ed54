package controller_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"github.com/millstream-io/millstream/core/controller"
	"github.com/millstream-io/millstream/core/metadata"
	"github.com/millstream-io/millstream/core/raft"
	"github.com/millstream-io/millstream/core/storage"
	"github.com/millstream-io/millstream/core/vfs"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// node is a controller over one file system.
type node struct {
	*controller.Controller
	dir *storage.Dir
}

func open(t *testing.T, fsys vfs.FS, edit func(*controller.Options)) (*node, error) {
	t.Helper()
	dir, err := storage.OpenDir(t.Context(), storage.DirOptions{FS: fsys, Path: "/data", NodeID: 1})
	require.NoError(t, err)
	log, err := raft.OpenLog(dir)
	require.NoError(t, err)
	opts := controller.Options{NodeID: 1,
		Raft: raft.Options{FS: fsys, Dir: "/data/raft", Log: log}}
	if edit != nil {
		edit(&opts)
	}
	c, err := controller.Open(t.Context(), opts)
	if err != nil {
		require.NoError(t, dir.Close())
		return nil, err
	}
	return &node{c, dir}, nil
}

func (n *node) close(t *testing.T) {
	t.Helper()
	require.NoError(t, n.Controller.Close())
	require.NoError(t, n.dir.Close())
}

// start opens a controller with one registered broker, closed at the end of the test.
func start(t *testing.T, edit func(*controller.Options)) *node {
	t.Helper()
	n, err := open(t, vfs.NewMem(), edit)
	require.NoError(t, err)
	t.Cleanup(func() { n.close(t) })
	n.register(t, 1)
	return n
}

func (n *node) register(t *testing.T, id int32) int64 {
	t.Helper()
	epoch, err := n.RegisterBroker(t.Context(), controller.Registration{
		Broker: metadata.Broker{ID: id, Host: "localhost", Port: 9092}})
	require.NoError(t, err)
	return epoch
}

func config(values map[string]string) func(*controller.Options) {
	return func(o *controller.Options) { o.Config = values }
}

// topic is a request with all defaults.
func topic(name string) controller.CreateTopic {
	return controller.CreateTopic{Name: name, Partitions: -1, ReplicationFactor: -1}
}

func (n *node) create(t *testing.T, topics ...controller.CreateTopic) []controller.TopicResult {
	t.Helper()
	results, err := n.CreateTopics(t.Context(), topics, false)
	require.NoError(t, err)
	require.Len(t, results, len(topics))
	return results
}

func TestCreateTopicIsVisibleWhenAnswered(t *testing.T) {
	n := start(t, nil)
	require.Len(t, n.Image().ClusterID(), 22)
	require.Equal(t, int32(1), n.Image().ControllerID())
	r := n.create(t, controller.CreateTopic{Name: "orders", Partitions: 3, ReplicationFactor: 1,
		Configs: map[string]string{"retention.ms": "1000"}})[0]
	require.NoError(t, r.Err)
	require.Equal(t, int32(3), r.Partitions)
	require.Equal(t, int16(1), r.ReplicationFactor)

	got, ok := n.Image().Topic("orders")
	require.True(t, ok)
	require.Equal(t, r.ID, got.ID)
	require.False(t, got.Internal)
	require.Equal(t, map[string]string{"retention.ms": "1000"}, got.Configs)
	require.Len(t, got.Partitions, 3)
	for _, p := range got.Partitions {
		require.Equal(t, metadata.Partition{Leader: 1, Replicas: []int32{1}, ISR: []int32{1}}, p)
	}
	byID, ok := n.Image().TopicByID(r.ID)
	require.True(t, ok)
	require.Same(t, got, byID)
}

// The reasons are part of what a user sees; the kinds follow Kafka's ReplicationControlManager.
func TestCreateTopicRefusals(t *testing.T) {
	n := start(t, nil)
	n.create(t, topic("there"), topic("a.b"))
	type c = controller.CreateTopic
	cases := []struct {
		topic controller.CreateTopic
		kind  error
		text  string
	}{
		{topic(""), controller.ErrInvalidTopicName, "the empty string is not allowed"},
		{topic("."), controller.ErrInvalidTopicName, `Topic name is invalid: '.' is not allowed`},
		{topic("a b"), controller.ErrInvalidTopicName, "contains one or more characters other than"},
		{topic("ä"), controller.ErrInvalidTopicName, "contains one or more characters other than"},
		{topic(strings.Repeat("x", 250)), controller.ErrInvalidTopicName,
			"longer than the max allowed length 249"},
		{topic("__cluster_metadata"), controller.ErrInvalidRequest, "metadata log"},
		{topic("there"), controller.ErrTopicExists, `Topic 'there' already exists.`},
		{topic("a_b"), controller.ErrInvalidTopicName, `Topic 'a_b' collides with existing topic: a.b`},
		{c{Name: "n", Partitions: 0, ReplicationFactor: 1}, controller.ErrInvalidPartitions,
			"non-positive"},
		{c{Name: "n", Partitions: -2, ReplicationFactor: 1}, controller.ErrInvalidPartitions,
			"non-positive"},
		{c{Name: "n", Partitions: 1 << 30, ReplicationFactor: 1},
			controller.ErrPolicyViolation, "a request can make 10000 at most"},
		{c{Name: "n", Partitions: 1, ReplicationFactor: 0},
			controller.ErrInvalidReplicationFactor, "0"},
		{c{Name: "n", Partitions: 1, ReplicationFactor: 2},
			controller.ErrInvalidReplicationFactor,
			"Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot"},
		{c{Name: "n", Partitions: 1, ReplicationFactor: -1,
			Configs: map[string]string{"retention.msec": "1"}},
			controller.ErrInvalidConfig, "Unknown topic config name: retention.msec"},
		{c{Name: "n", Partitions: 1, ReplicationFactor: -1,
			Configs: map[string]string{"cleanup.policy": "x"}}, controller.ErrInvalidConfig, ""},
		{c{Name: "n", Partitions: 1, ReplicationFactor: -1,
			Assignment: map[int32][]int32{0: {1}}}, controller.ErrInvalidRequest, "must both be -1"},
		{c{Name: "n", Partitions: -1, ReplicationFactor: -1, Assignment: map[int32][]int32{}},
			controller.ErrInvalidAssignment, "no partitions"},
		{c{Name: "n", Partitions: -1, ReplicationFactor: -1,
			Assignment: map[int32][]int32{0: {1}, 2: {1}}},
			controller.ErrInvalidAssignment, "1 is missing"},
		{c{Name: "n", Partitions: -1, ReplicationFactor: -1,
			Assignment: map[int32][]int32{0: {9}}}, controller.ErrInvalidAssignment, "no broker 9"},
		{c{Name: "n", Partitions: -1, ReplicationFactor: -1,
			Assignment: map[int32][]int32{0: {1, 1}}}, controller.ErrInvalidAssignment, "twice"},
		{c{Name: "n", Partitions: -1, ReplicationFactor: -1,
			Assignment: map[int32][]int32{0: {}}}, controller.ErrInvalidAssignment, "no replicas"},
	}
	version := n.Image().Version()
	for _, tc := range cases {
		r := n.create(t, tc.topic)[0]
		require.ErrorIs(t, r.Err, tc.kind, "%+v", tc.topic)
		require.ErrorContains(t, r.Err, tc.text)
	}
	require.Equal(t, 2, n.Image().TopicCount())
	require.Greater(t, n.Image().Version(), version) // replies are kept all the same
}

func TestOneBadTopicDoesNotStopTheOthers(t *testing.T) {
	n := start(t, nil)
	rs := n.create(t, topic("twice"), topic("ok"), topic("twice"), topic("x.y"), topic("x_y"))
	require.ErrorIs(t, rs[0].Err, controller.ErrInvalidRequest)
	require.NoError(t, rs[1].Err)
	require.ErrorIs(t, rs[2].Err, controller.ErrInvalidRequest)
	require.NoError(t, rs[3].Err)
	require.ErrorIs(t, rs[4].Err, controller.ErrInvalidTopicName)
	require.Equal(t, 2, n.Image().TopicCount())
}

func TestValidateOnlyMakesNothing(t *testing.T) {
	n := start(t, nil)
	rs, err := n.CreateTopics(t.Context(), []controller.CreateTopic{topic("a"), topic("")}, true)
	require.NoError(t, err)
	require.NoError(t, rs[0].Err)
	require.NotEqual(t, uuid.Nil, rs[0].ID, "as in Kafka")
	require.Equal(t, int32(1), rs[0].Partitions)
	require.Error(t, rs[1].Err)
	require.Zero(t, n.Image().TopicCount())
}

func TestDefaultsOfPartitionsAndReplicas(t *testing.T) {
	n := start(t, config(map[string]string{"num.partitions": "4"}))
	require.Equal(t, int32(4), n.create(t, topic("one"))[0].Partitions)
	require.Equal(t, int16(1), n.create(t, topic("two"))[0].ReplicationFactor)
	for id := int32(2); id <= 5; id++ {
		n.register(t, id)
	}
	r := n.create(t, topic("five"))[0]
	require.Equal(t, int16(3), r.ReplicationFactor) // min(3, brokers)
	got, _ := n.Image().Topic("five")
	leaders := make(map[int32]bool)
	for _, p := range got.Partitions {
		require.Equal(t, p.Replicas[0], p.Leader)
		require.Equal(t, p.Replicas, p.ISR)
		require.Len(t, slices.Compact(slices.Sorted(slices.Values(p.Replicas))), 3)
		leaders[p.Leader] = true
	}
	require.Len(t, leaders, 4) // spread
}

// A replication factor somebody wrote down is never lowered in silence.
func TestExplicitDefaultReplicationIsKept(t *testing.T) {
	n := start(t, config(map[string]string{"default.replication.factor": "3",
		"offsets.topic.replication.factor": "2"}))
	require.ErrorIs(t, n.create(t, topic("a"))[0].Err, controller.ErrInvalidReplicationFactor)
	err := n.create(t, topic(metadata.ConsumerOffsets))[0].Err
	require.ErrorIs(t, err, controller.ErrInvalidReplicationFactor)
}

func TestConsumerOffsetsTopic(t *testing.T) {
	n := start(t, nil)
	require.NoError(t, n.create(t, topic(metadata.ConsumerOffsets))[0].Err)
	got, _ := n.Image().Topic(metadata.ConsumerOffsets)
	require.True(t, got.Internal)
	require.Len(t, got.Partitions, 50)
	s := n.Image().TopicSettings(got)
	require.True(t, s.CleanupCompact)
	require.False(t, s.CleanupDelete)
	require.Equal(t, int64(104857600), s.SegmentBytes)

	rs, err := n.DeleteTopics(t.Context(), []controller.TopicRef{{Name: got.Name}})
	require.NoError(t, err)
	require.ErrorIs(t, rs[0].Err, controller.ErrInvalidTopicName)
	rs, err = n.CreatePartitions(t.Context(),
		[]controller.NewPartitions{{Topic: got.Name, Count: 51}}, false)
	require.NoError(t, err)
	require.ErrorIs(t, rs[0].Err, controller.ErrInvalidPartitions)
}

// kafka-topics --under-min-isr-partitions lists none of them on one node.
func TestTransactionStateTopic(t *testing.T) {
	n := start(t, nil)
	require.NoError(t, n.create(t, topic(metadata.TransactionState))[0].Err)
	got, _ := n.Image().Topic(metadata.TransactionState)
	require.True(t, got.Internal)
	require.Equal(t, map[string]string{
		"cleanup.policy": "compact", "compression.type": "uncompressed",
		"min.insync.replicas": "1", "segment.bytes": "104857600",
		"unclean.leader.election.enable": "false",
	}, got.Configs)
}

func TestDeleteTopics(t *testing.T) {
	n := start(t, nil)
	created := n.create(t, topic("a"), topic("b"), topic("c"))
	rs, err := n.DeleteTopics(t.Context(), []controller.TopicRef{
		{Name: "a"}, {ID: created[1].ID}, {Name: "nope"}, {ID: uuid.UUID{9}}, {ID: created[2].ID},
		{Name: "c", ID: created[1].ID}, {},
	})
	require.NoError(t, err)
	require.NoError(t, rs[0].Err)
	require.Equal(t, created[0].ID, rs[0].ID)
	require.NoError(t, rs[1].Err)
	require.Equal(t, "b", rs[1].Name)
	require.ErrorIs(t, rs[2].Err, controller.ErrUnknownTopic)
	require.ErrorIs(t, rs[3].Err, controller.ErrUnknownTopicID)
	require.NoError(t, rs[4].Err)
	require.ErrorIs(t, rs[5].Err, controller.ErrInvalidRequest)
	require.ErrorIs(t, rs[6].Err, controller.ErrUnknownTopicID)
	require.Zero(t, n.Image().TopicCount())
	_, ok := n.Image().TopicByID(created[1].ID)
	require.False(t, ok)

	// What a request names twice, by name and by id, stays (seen on Kafka 4.3).
	created = n.create(t, topic("a"))
	rs, err = n.DeleteTopics(t.Context(), []controller.TopicRef{{Name: "a"}, {ID: created[0].ID}})
	require.NoError(t, err)
	require.ErrorIs(t, rs[0].Err, controller.ErrInvalidRequest)
	require.ErrorIs(t, rs[1].Err, controller.ErrInvalidRequest)
	require.Equal(t, 1, n.Image().TopicCount())

	_, err = n.DeleteTopics(t.Context(), []controller.TopicRef{{Name: "a"}})
	require.NoError(t, err)
	again := n.create(t, topic("a"))[0] // same name, another topic
	require.NoError(t, again.Err)
	require.NotEqual(t, created[0].ID, again.ID)
}

func TestDeleteTopicsDisabled(t *testing.T) {
	n := start(t, config(map[string]string{"delete.topic.enable": "false"}))
	n.create(t, topic("a"))
	rs, err := n.DeleteTopics(t.Context(), []controller.TopicRef{{Name: "a"}})
	require.NoError(t, err)
	require.ErrorIs(t, rs[0].Err, controller.ErrTopicDeletionDisabled)
}

func TestCreatePartitions(t *testing.T) {
	n := start(t, nil)
	n.create(t, topic("a"), topic("b"))
	add := func(p controller.NewPartitions, validateOnly bool) error {
		rs, err := n.CreatePartitions(t.Context(), []controller.NewPartitions{p}, validateOnly)
		require.NoError(t, err)
		return rs[0].Err
	}
	count := func() int {
		got, _ := n.Image().Topic("a")
		return len(got.Partitions)
	}
	require.NoError(t, add(controller.NewPartitions{Topic: "a", Count: 3}, true))
	require.Equal(t, 1, count())
	require.NoError(t, add(controller.NewPartitions{Topic: "a", Count: 3}, false))
	require.Equal(t, 3, count())
	err := add(controller.NewPartitions{Topic: "a", Count: 3}, false)
	require.EqualError(t, err, "Topic already has 3 partition(s).")
	err = add(controller.NewPartitions{Topic: "a", Count: 2}, false)
	require.ErrorIs(t, err, controller.ErrInvalidPartitions)
	err = add(controller.NewPartitions{Topic: "no", Count: 2}, false)
	require.ErrorIs(t, err, controller.ErrUnknownTopic)
	// Seen on Kafka 4.3: an empty assignment is an error, only null lets the broker choose.
	err = add(controller.NewPartitions{Topic: "a", Count: 4, Assignment: [][]int32{}}, false)
	require.ErrorIs(t, err, controller.ErrInvalidAssignment)
	err = add(controller.NewPartitions{Topic: "a", Count: 4, Assignment: [][]int32{{7}}}, false)
	require.ErrorIs(t, err, controller.ErrInvalidAssignment)
	require.NoError(t,
		add(controller.NewPartitions{Topic: "a", Count: 4, Assignment: [][]int32{{1}}}, false))
	require.Equal(t, 4, count())
	err = add(controller.NewPartitions{Topic: "a", Count: 1 << 30}, false)
	require.ErrorIs(t, err, controller.ErrPolicyViolation)
}

// Kafka gives producer ids out in blocks of 1000, from 0, and never twice.
func TestProducerIDBlocks(t *testing.T) {
	mem := vfs.NewMem()
	n, err := open(t, mem, nil)
	require.NoError(t, err)
	var mu sync.Mutex
	var firsts []int64
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			first, count, err := n.AllocateProducerIDs(t.Context())
			mu.Lock()
			defer mu.Unlock()
			if err == nil && count == 1000 {
				firsts = append(firsts, first)
			}
		})
	}
	wg.Wait()
	slices.Sort(firsts)
	for i, first := range firsts {
		require.Equal(t, int64(i)*1000, first)
	}
	require.Len(t, firsts, 20)
	crashed := mem.CrashClone(3)
	n.close(t)
	n, err = open(t, crashed, nil)
	require.NoError(t, err)
	defer n.close(t)
	first, _, err := n.AllocateProducerIDs(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(20_000), first)
}

func TestRestartKeepsEverythingAndBumpsEpochs(t *testing.T) {
	for _, entries := range []uint64{0, 3} { // from the log alone; from a snapshot and the log
		mem := vfs.NewMem()
		edit := func(o *controller.Options) { o.Raft.SnapshotEntries = entries }
		n, err := open(t, mem, edit)
		require.NoError(t, err)
		first := n.register(t, 1)
		n.create(t, topic("a"))
		for i := range 10 {
			n.create(t, topic(fmt.Sprintf("t%d", i)))
		}
		require.NoError(t, n.alter(t, controller.ConfigResource{Type: controller.ResourceTopic,
			Name:    "a",
			Changes: []controller.ConfigChange{change("flush", controller.OpSet, "os")}}, false))
		before := n.Image()
		n.close(t)

		n, err = open(t, mem, edit)
		require.NoError(t, err)
		require.Equal(t, before.ClusterID(), n.Image().ClusterID())
		require.Equal(t, before.Records(), n.Image().Records())
		require.GreaterOrEqual(t, n.Image().Version(), before.Version())

		epoch, err := n.RegisterBroker(t.Context(), controller.Registration{Clean: true,
			Broker: metadata.Broker{ID: 1, Host: "h", Port: 1}})
		require.NoError(t, err)
		require.Greater(t, epoch, first)
		a, _ := n.Image().Topic("a")
		require.Equal(t, int32(0), a.Partitions[0].LeaderEpoch)
		n.register(t, 1) // not clean: what it had may be lost
		a, _ = n.Image().Topic("a")
		require.Equal(t, int32(1), a.Partitions[0].LeaderEpoch)
		require.Equal(t, int32(1), a.Partitions[0].PartitionEpoch)
		n.close(t)
	}
}

func TestRegisterBrokerNeedsAnAddress(t *testing.T) {
	n := start(t, nil)
	for _, b := range []metadata.Broker{
		{ID: -1, Host: "h", Port: 1}, {ID: 2, Port: 1}, {ID: 2, Host: "h"},
		{ID: 2, Host: "h", Port: 70000},
	} {
		_, err := n.RegisterBroker(t.Context(), controller.Registration{Broker: b})
		require.ErrorIs(t, err, controller.ErrInvalidRequest)
	}
}

func TestClusterIDIsChecked(t *testing.T) {
	mem := vfs.NewMem()
	n, err := open(t, mem, func(o *controller.Options) { o.ClusterID = "one" })
	require.NoError(t, err)
	require.Equal(t, "one", n.Image().ClusterID())
	n.close(t)
	_, err = open(t, mem, func(o *controller.Options) { o.ClusterID = "two" })
	require.ErrorIs(t, err, controller.ErrForeignCluster)
	require.ErrorContains(t, err, "one, expected two")
}

func TestWatchersSeeEachChangeBeforeItsAnswer(t *testing.T) {
	n := start(t, nil)
	var topics atomic.Int64
	var versions []int64
	cancel := n.Watch(func(img *metadata.Image) {
		topics.Store(int64(img.TopicCount()))
		versions = append(versions, img.Version())
	})
	for i := range int64(20) {
		n.create(t, topic(fmt.Sprintf("t%d", i)))
		require.Equal(t, i+1, topics.Load())
	}
	cancel()
	cancel()
	n.create(t, topic("unseen"))
	require.Equal(t, int64(20), topics.Load())
	require.True(t, slices.IsSorted(versions))
}

func TestDiskErrorFailsTheController(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem())
	n, err := open(t, fault, nil)
	require.NoError(t, err)
	n.register(t, 1)
	fault.Inject(vfs.Rule{Op: vfs.OpSync, Path: "__cluster_metadata", Err: syscall.EIO})
	_, err = n.CreateTopics(t.Context(), []controller.CreateTopic{topic("a")}, false)
	require.ErrorIs(t, err, controller.ErrFailed)
	<-n.Done()
	_, err = n.CreateTopics(t.Context(), []controller.CreateTopic{topic("b")}, false)
	require.ErrorIs(t, err, controller.ErrFailed)
	require.Zero(t, n.Image().TopicCount())
	require.ErrorIs(t, n.Controller.Close(), controller.ErrFailed)
	n.dir.Close()
}

func TestClosedController(t *testing.T) {
	n, err := open(t, vfs.NewMem(), nil)
	require.NoError(t, err)
	n.close(t)
	_, err = n.CreateTopics(t.Context(), []controller.CreateTopic{topic("a")}, false)
	require.ErrorIs(t, err, controller.ErrClosed)
	require.NoError(t, n.Controller.Close())
	n.Watch(func(*metadata.Image) { t.Error("called after Close") })()
}

func TestCommandsAfterContextEnd(t *testing.T) {
	n := start(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := n.CreateTopics(ctx, []controller.CreateTopic{topic("a")}, false)
	require.True(t, err == nil || ctx.Err() != nil)
}

func TestManyConcurrentCreations(t *testing.T) {
	n := start(t, nil)
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			rs, err := n.CreateTopics(t.Context(),
				[]controller.CreateTopic{topic(fmt.Sprintf("t%d", i%100))}, false)
			if err != nil || rs[0].Err != nil && !strings.Contains(rs[0].Err.Error(), "exists") {
				t.Errorf("create: %v, %+v", err, rs)
			}
		})
	}
	wg.Wait()
	require.Equal(t, 100, n.Image().TopicCount())
}
