package replica

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/millstream-io/millstream/core/metadata"
	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/storage"
	"github.com/millstream-io/millstream/core/vfs"
	"github.com/millstream-io/millstream/core/vfs/vfstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const node int32 = 1

var (
	topicA = uuid.MustParse("11111111-2222-4333-8444-555555555555")
	topicB = uuid.MustParse("99999999-8888-4777-8666-555555555555")
	tp0    = storage.TopicPartition{Topic: "orders", Partition: 0}
)

// cluster is the metadata of a test and a manager that follows it.
type cluster struct {
	t       testing.TB
	fsys    vfs.FS
	dir     *storage.Dir
	manager *Manager
	image   *metadata.Image
	version int64
}

func newCluster(t testing.TB, fsys vfs.FS) *cluster {
	t.Helper()
	c := &cluster{t: t, fsys: fsys, image: metadata.NewImage(node, nil)}
	c.open()
	return c
}

func (c *cluster) open() {
	c.t.Helper()
	vfstest.Keep(c.t, c.fsys, "/data")
	var err error
	c.dir, err = storage.OpenDir(context.Background(), storage.DirOptions{FS: c.fsys,
		Path: "/data", NodeID: node})
	require.NoError(c.t, err)
	c.manager, err = New(Options{Dir: c.dir, NodeID: node})
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = c.dir.Close() })
}

// change applies records to the metadata and lets the manager follow.
func (c *cluster) change(records ...metadata.Record) error {
	c.t.Helper()
	d := metadata.NewDelta(c.image)
	for _, r := range records {
		require.NoError(c.t, d.Apply(r))
	}
	c.version++
	c.image = d.Image(c.version)
	return c.manager.Apply(c.image)
}

// create makes a topic of n partitions led by this node.
func (c *cluster) create(name string, id uuid.UUID, n int) {
	c.t.Helper()
	records := []metadata.Record{&metadata.TopicRecord{Name: name, ID: id}}
	for i := range n {
		records = append(records, led(id, int32(i), 0, node))
	}
	require.NoError(c.t, c.change(records...))
}

// led is a partition's assignment to one replica, its leader.
func led(id uuid.UUID, index, epoch, leader int32) *metadata.PartitionRecord {
	return &metadata.PartitionRecord{TopicID: id, Index: index, Partition: metadata.Partition{
		Leader: leader, LeaderEpoch: epoch, Replicas: []int32{node}, ISR: []int32{node}}}
}

func config(id uuid.UUID, key, value string) *metadata.TopicConfigRecord {
	return &metadata.TopicConfigRecord{TopicID: id, Key: key, Value: &value}
}

func (c *cluster) partition() *Partition {
	c.t.Helper()
	p, err := c.manager.Partition(tp0)
	require.NoError(c.t, err)
	return p
}

// run lets the directory flush until the returned function is called.
func (c *cluster) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.dir.Run(ctx) }()
	return func() {
		cancel()
		<-done
	}
}

func batch(t testing.TB, values ...string) []byte {
	t.Helper()
	b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: -1})
	for _, v := range values {
		b.Append(record.Record{Timestamp: time.Now().UnixMilli(), Value: []byte(v)})
	}
	built, err := b.Build()
	require.NoError(t, err)
	return built
}

// woken counts wake-ups.
type woken struct{ n chan struct{} }

func newWoken() *woken { return &woken{make(chan struct{}, 100)} }

func (w *woken) Wake() { w.n <- struct{}{} }

func TestApplyCreatesConfiguresAndDeletes(t *testing.T) {
	fsys := vfs.NewMem()
	c := newCluster(t, fsys)
	_, err := c.manager.Partition(tp0)
	require.ErrorIs(t, err, ErrUnknownPartition)
	c.create("orders", topicA, 3)
	p := c.partition()
	require.Equal(t, topicA, p.topicID)
	require.Len(t, c.dir.Logs(), 3)
	byID, err := c.manager.PartitionByID(topicA, 0)
	require.NoError(t, err)
	require.Same(t, p, byID)
	require.Equal(t, storage.FlushGroup, p.Log().Config().Flush, "the default at one replica")

	require.NoError(t, c.change(config(topicA, "retention.ms", "0"), config(topicA, "flush", "os"),
		config(topicA, "max.message.bytes", "1234"), config(topicA, "cleanup.policy", "compact")))
	require.Same(t, p, c.partition())
	got := p.Log().Config()
	require.Zero(t, got.RetentionMS)
	require.Equal(t, 1234, got.MaxMessageBytes)
	require.Equal(t, storage.FlushOS, got.Flush)
	require.True(t, got.Compact)

	require.NoError(t, c.change(led(topicA, 3, 0, node)))
	require.Len(t, c.dir.Logs(), 4)
	_, err = c.manager.PartitionByID(topicA, 4)
	require.ErrorIs(t, err, ErrUnknownPartition)
	_, err = c.manager.PartitionByID(topicB, 0)
	require.ErrorIs(t, err, ErrUnknownTopicID)

	waiting := newWoken()
	require.True(t, p.WaitData(0, waiting))
	require.NoError(t, c.change(&metadata.TopicRemovedRecord{ID: topicA}))
	<-waiting.n
	require.ErrorIs(t, p.Err(), ErrUnknownPartition)
	require.False(t, p.WaitData(0, waiting), "nobody waits for what cannot come")
	require.Empty(t, c.dir.Logs())
	_, err = c.manager.Partition(tp0)
	require.ErrorIs(t, err, ErrUnknownPartition)
	_, err = p.Append(batch(t, "x"), AppendOptions{})
	require.ErrorIs(t, err, ErrUnknownPartition)
}

func TestRecreatedTopicIsAnotherOne(t *testing.T) {
	c := newCluster(t, vfs.NewMem())
	c.create("orders", topicA, 1)
	old := c.partition()
	_, err := old.Append(batch(t, "a", "b"), AppendOptions{})
	require.NoError(t, err)
	// Deleted and created between two images.
	require.NoError(t, c.change(&metadata.TopicRemovedRecord{ID: topicA},
		&metadata.TopicRecord{Name: "orders", ID: topicB}, led(topicB, 0, 0, node)))
	fresh := c.partition()
	require.NotSame(t, old, fresh)
	require.Zero(t, fresh.EndOffset())
	_, err = c.manager.PartitionByID(topicA, 0)
	require.ErrorIs(t, err, ErrUnknownTopicID)
	require.ErrorIs(t, old.Err(), ErrUnknownPartition)
}

func TestRestartKeepsTopicsAndSetsStraysAside(t *testing.T) {
	c := newCluster(t, vfs.NewMem())
	c.create("orders", topicA, 1)
	c.create("gone", topicB, 1)
	_, err := c.partition().Append(batch(t, "a"), AppendOptions{})
	require.NoError(t, err)
	c.manager.Close()
	require.NoError(t, c.dir.Close())

	c.open()
	require.NoError(t, c.change(&metadata.TopicRemovedRecord{ID: topicB}))
	require.Equal(t, int64(1), c.partition().HighWatermark())
	require.Len(t, c.dir.Logs(), 2, "Apply alone deletes nothing it never had")
	n, err := c.manager.QuarantineStrays(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Len(t, c.dir.Logs(), 1)
	c.manager.Close()
	require.NoError(t, c.dir.Close())

	c.open()
	n, err = c.manager.QuarantineStrays(t.Context())
	require.NoError(t, err)
	require.Zero(t, n, "not before the metadata is known")
	require.Len(t, c.dir.Logs(), 1)
}

func TestApplyIgnoresAnOlderImage(t *testing.T) {
	c := newCluster(t, vfs.NewMem())
	before := c.image
	c.create("orders", topicA, 1)
	require.NoError(t, c.manager.Apply(before))
	_ = c.partition()
}

// With group commit the high watermark is what is synced; a reader sees nothing beyond it.
func TestHighWatermarkFollowsTheSync(t *testing.T) {
	c := newCluster(t, vfs.NewMem())
	c.create("orders", topicA, 1)
	p := c.partition()
	res, err := p.Append(batch(t, "a", "b"), AppendOptions{Acks: AcksAll})
	require.NoError(t, err)
	require.Equal(t, int64(1), res.LastOffset)
	require.Zero(t, p.HighWatermark())
	chunk, err := p.Read(ReadRequest{Offset: 0, MaxBytes: 1 << 20, MinOne: true, LeaderEpoch: -1})
	require.NoError(t, err)
	require.Zero(t, chunk.Len())
	_, err = p.Read(ReadRequest{Offset: 2, MaxBytes: 1, LeaderEpoch: -1})
	require.NoError(t, err, "between high watermark and end there is nothing yet")
	_, err = p.Read(ReadRequest{Offset: 3, MaxBytes: 1, LeaderEpoch: -1})
	require.ErrorIs(t, err, storage.ErrOffsetOutOfRange)
	require.ErrorIs(t, p.DeleteRecords(1), storage.ErrOffsetOutOfRange)

	committed, data := newWoken(), newWoken()
	require.True(t, p.WaitCommitted(2, committed))
	require.True(t, p.WaitData(0, data))
	require.NoError(t, p.Log().Sync(t.Context()))
	<-committed.n
	<-data.n
	require.Equal(t, int64(2), p.HighWatermark())
	require.Equal(t, int64(2), p.Log().HighWatermark())
	require.False(t, p.WaitCommitted(2, committed))
	require.False(t, p.WaitData(1, data))
	require.True(t, p.WaitData(2, data))
	p.Forget(data)
	require.Zero(t, p.waiters.count.Load())

	// A waiter for offset 3 is not woken by the record at offset 2.
	require.True(t, p.WaitData(3, data))
	_, err = p.Append(batch(t, "c"), AppendOptions{})
	require.NoError(t, err)
	require.NoError(t, p.Log().Sync(t.Context()))
	require.Equal(t, int64(3), p.HighWatermark())
	require.Empty(t, data.n)
	p.Forget(data)
	chunk, err = p.Read(ReadRequest{Offset: 0, MaxBytes: 1 << 20, MinOne: true, LeaderEpoch: -1})
	require.NoError(t, err)
	require.Equal(t, int64(3), chunk.NextOffset())
	chunk.Release()
	require.NoError(t, p.DeleteRecords(1))
	require.Equal(t, int64(1), p.StartOffset())
}

func TestHighWatermarkIsTheEndUnderFlushOS(t *testing.T) {
	c := newCluster(t, vfs.NewMem())
	c.create("orders", topicA, 1)
	require.NoError(t, c.change(config(topicA, "flush", "os")))
	p := c.partition()
	data := newWoken()
	require.True(t, p.WaitData(0, data))
	_, err := p.Append(batch(t, "a"), AppendOptions{Acks: AcksAll})
	require.NoError(t, err)
	<-data.n
	require.Equal(t, int64(1), p.HighWatermark())
	// Back to group: what was committed stays so, new records wait.
	require.NoError(t, c.change(config(topicA, "flush", "group")))
	_, err = p.Append(batch(t, "b"), AppendOptions{Acks: AcksAll})
	require.NoError(t, err)
	require.Equal(t, int64(1), p.HighWatermark())
}

func TestAppendAndWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, vfs.NewMem())
		c.create("orders", topicA, 1)
		p := c.partition()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := p.AppendAndWait(ctx, batch(t, "a"), AppendOptions{})
		require.ErrorIs(t, err, context.DeadlineExceeded, "nobody flushes")
		require.Zero(t, p.waiters.count.Load())
		stop := c.run()
		res, err := p.AppendAndWait(t.Context(), batch(t, "b"), AppendOptions{})
		require.NoError(t, err)
		require.Equal(t, int64(1), res.LastOffset)
		require.Equal(t, int64(2), p.HighWatermark())
		stop()
	})
}

func TestLeaderEpochs(t *testing.T) {
	c := newCluster(t, vfs.NewMem())
	c.create("orders", topicA, 1)
	require.NoError(t, c.change(config(topicA, "flush", "os")))
	p := c.partition()
	appendOne := func() {
		_, err := p.Append(batch(t, "x"), AppendOptions{Acks: 1})
		require.NoError(t, err)
	}
	appendOne()
	require.NoError(t, c.change(led(topicA, 0, 4, node)))
	epoch, end := p.OffsetForLeaderEpoch(4)
	require.Equal(t, int32(4), epoch, "known before anything is written in it")
	require.Equal(t, int64(1), end)
	appendOne()
	appendOne()
	for _, tc := range []struct {
		epoch int32
		want  error
	}{{-1, nil}, {4, nil}, {3, ErrFencedLeaderEpoch}, {5, ErrUnknownLeaderEpoch}} {
		_, err := p.Read(ReadRequest{MaxBytes: 1, LeaderEpoch: tc.epoch})
		require.ErrorIs(t, err, tc.want)
		require.ErrorIs(t, p.CheckEpoch(tc.epoch), tc.want)
	}
	require.Equal(t, int32(4), p.LeaderEpoch())
	require.Equal(t, int32(0), p.EpochOf(0))
	require.Equal(t, int32(4), p.EpochOf(1))
	epoch, end = p.OffsetForLeaderEpoch(2)
	require.Equal(t, int32(0), epoch)
	require.Equal(t, int64(1), end)

	waiting := newWoken()
	require.True(t, p.WaitData(3, waiting))
	require.NoError(t, c.change(led(topicA, 0, 5, metadata.NoLeader)))
	<-waiting.n
	_, err := c.manager.Partition(tp0)
	require.ErrorIs(t, err, ErrNotLeader)
	_, err = p.Append(batch(t, "x"), AppendOptions{Acks: 1})
	require.ErrorIs(t, err, ErrNotLeader)
	require.ErrorIs(t, p.Err(), ErrNotLeader)
	require.NoError(t, c.change(led(topicA, 0, 6, node)))
	appendOne()
	require.Equal(t, int32(6), p.EpochOf(3))
}

func TestAcksAllNeedsMinInsyncReplicas(t *testing.T) {
	c := newCluster(t, vfs.NewMem())
	c.create("orders", topicA, 1)
	p := c.partition()
	require.NoError(t, c.change(config(topicA, "min.insync.replicas", "2")))
	_, err := p.Append(batch(t, "x"), AppendOptions{Acks: AcksAll})
	require.NoError(t, err, "capped by the number of replicas")

	two := led(topicA, 0, 0, node)
	two.Replicas = []int32{node, 2}
	require.NoError(t, c.change(two))
	_, err = p.Append(batch(t, "x"), AppendOptions{Acks: AcksAll})
	require.ErrorIs(t, err, ErrNotEnoughReplicas)
	_, err = p.Append(batch(t, "x"), AppendOptions{Acks: 1})
	require.NoError(t, err)
	require.NoError(t, p.Log().Sync(t.Context()))
	require.Zero(t, p.HighWatermark(), "acks=1 records stay invisible below min.insync.replicas")
}

func TestFailedDirectoryWakesWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fault := vfs.NewFault(vfs.NewMem())
		c := newCluster(t, fault)
		c.create("orders", topicA, 1)
		p := c.partition()
		fault.Inject(vfs.Rule{Op: vfs.OpSync, Path: ".log", Err: syscall.EIO})
		res, err := p.Append(batch(t, "x"), AppendOptions{Acks: AcksAll})
		require.NoError(t, err)
		waiting := newWoken()
		require.True(t, p.WaitCommitted(res.LastOffset+1, waiting))
		stop := c.run()
		<-waiting.n
		require.ErrorIs(t, p.Err(), storage.ErrDirFailed)
		require.Zero(t, p.HighWatermark(), "never acknowledged")
		stop()
	})
}

// TestApplyGoesOnAfterAFullDisk shows that one partition's failure keeps neither the others nor a
// retry.
func TestApplyGoesOnAfterAFullDisk(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem())
	c := newCluster(t, fault)
	fault.Inject(vfs.Rule{Op: vfs.OpMkdir, Path: "orders-1", Times: 1, Err: syscall.ENOSPC})
	records := []metadata.Record{&metadata.TopicRecord{Name: "orders", ID: topicA}}
	for i := range int32(3) {
		records = append(records, led(topicA, i, 0, node))
	}
	require.ErrorIs(t, c.change(records...), storage.ErrNoSpace)
	_ = c.partition()
	second := storage.TopicPartition{Topic: "orders", Partition: 1}
	_, err := c.manager.Partition(second)
	require.ErrorIs(t, err, ErrOffline)
	require.NoError(t, c.change())
	_, err = c.manager.Partition(second)
	require.NoError(t, err)
}

func TestMovingTheHighWatermarkDoesNotAllocate(t *testing.T) {
	c := newCluster(t, vfs.NewMem())
	c.create("orders", topicA, 1)
	require.NoError(t, c.change(config(topicA, "flush", "os")))
	p := c.partition()
	b := record.Batch(batch(t, "x"))
	w := newWoken()
	require.Zero(t, testing.AllocsPerRun(2000, func() {
		b.SetBaseOffset(0)
		if !p.WaitData(p.EndOffset(), w) {
			t.Fatal("not registered")
		}
		if _, err := p.Append(b, AppendOptions{Acks: AcksAll}); err != nil {
			t.Fatal(err)
		}
		<-w.n
	}))
}

// BenchmarkGroupCommit has n writers of 1 KiB batches that each wait until theirs is committed.
func BenchmarkGroupCommit(b *testing.B) {
	for _, writers := range []int{1, 8, 32} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			dir, err := storage.OpenDir(b.Context(), storage.DirOptions{Path: b.TempDir()})
			require.NoError(b, err)
			log, err := dir.Create(tp0, topicA, storage.DefaultConfig())
			require.NoError(b, err)
			p := newPartition(log, new(Traffic))
			require.NoError(b, p.setRole(role{leader: true, replicas: 1, inSync: 1, minInSync: 1}))
			c := &cluster{dir: dir}
			stop := c.run()
			work := make(chan struct{})
			done := make(chan error, writers)
			for range writers {
				go func() {
					one := record.Batch(batch(b, string(make([]byte, 950))))
					for range work {
						one.SetBaseOffset(0)
						_, err := p.AppendAndWait(b.Context(), one, AppendOptions{})
						if err != nil {
							b.Error(err)
						}
					}
					done <- nil
				}()
			}
			for b.Loop() {
				work <- struct{}{}
			}
			close(work)
			for range writers {
				<-done
			}
			stop()
			require.NoError(b, dir.Close())
		})
	}
}

// BenchmarkCreateTopic makes topics of 50 partitions, as __consumer_offsets has, on a real disk.
func BenchmarkCreateTopic(b *testing.B) {
	dir, err := storage.OpenDir(b.Context(), storage.DirOptions{Path: b.TempDir()})
	require.NoError(b, err)
	m, err := New(Options{Dir: dir, NodeID: node})
	require.NoError(b, err)
	c := &cluster{t: b, dir: dir, manager: m, image: metadata.NewImage(node, nil)}
	for i := 0; b.Loop(); i++ {
		c.create(fmt.Sprintf("topic-%d", i), uuid.New(), 50)
	}
	m.Close()
	require.NoError(b, dir.Close())
}
