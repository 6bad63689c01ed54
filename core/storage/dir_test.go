package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/vfs"
)

func TestSecondProcessIsRefusedWithTheOwnersPID(t *testing.T) {
	dir := t.TempDir()
	_ = mustOpen(t, vfs.OS(), dir)
	_, err := OpenDir(t.Context(), DirOptions{Path: dir, NodeID: 1})
	require.ErrorIs(t, err, ErrLocked)
	require.ErrorContains(t, err, fmt.Sprint(os.Getpid()))
	var locked *vfs.LockedError
	require.ErrorAs(t, err, &locked)
	require.Equal(t, os.Getpid(), locked.PID)
}

func TestDirRefusesAnotherClusterOrNode(t *testing.T) {
	fsys := vfs.NewMem()
	open := func(cluster string, node int32) (*Dir, error) {
		return OpenDir(t.Context(), DirOptions{FS: fsys, Path: "/data", ClusterID: cluster,
			NodeID: node})
	}
	d, err := open("aaa", 1)
	require.NoError(t, err)
	id := d.DirectoryID()
	require.NotEqual(t, uuid.Nil, id)
	require.NoError(t, d.Close())
	_, err = open("bbb", 1)
	require.ErrorIs(t, err, ErrWrongDir)
	_, err = open("aaa", 2)
	require.ErrorIs(t, err, ErrWrongDir)
	d, err = open("", 1)
	require.NoError(t, err)
	require.Equal(t, "aaa", d.ClusterID())
	require.Equal(t, id, d.DirectoryID())
	require.NoError(t, d.Close())
	require.NoError(t, d.Close(), "idempotent")

	editFile(t, fsys, "/data/"+fileMetaProperties, func([]byte) []byte { return []byte("junk") })
	_, err = open("", 1)
	require.ErrorIs(t, err, ErrBadFile, "never start on an identity that cannot be read")
}

func TestCreateSetsALogOfAnotherTopicAside(t *testing.T) {
	fsys := vfs.NewMem()
	d := mustOpen(t, fsys, "/data")
	l := mustCreate(t, d, DefaultConfig())
	mustAppend(t, l, batchOf(t, 1, 10, t0))
	same, err := d.Create(tp0, topicA, smallConfig())
	require.NoError(t, err)
	require.Same(t, l, same)
	require.Equal(t, smallConfig(), l.Config())

	other, err := d.Create(tp0, topicB, DefaultConfig())
	require.NoError(t, err)
	require.NotSame(t, l, other)
	require.Zero(t, other.EndOffset())
	require.ErrorIs(t, l.Err(), ErrClosed)
	entries, err := fsys.ReadDir("/data")
	require.NoError(t, err)
	stray := ""
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), suffixDirStray) {
			stray = e.Name()
		}
	}
	require.Regexp(t, `^orders-0\.[0-9a-f]{32}-stray$`, stray)
	require.NotEmpty(t, dirFiles(t, fsys, "/data/"+stray)["00000000000000000000.log"])
	require.NoError(t, d.Close())
	d = mustOpen(t, fsys, "/data")
	require.Len(t, d.Logs(), 1)
}

func TestCreateAdoptsALogWithoutTopicID(t *testing.T) {
	fsys, _ := afterKill(t, false)
	require.NoError(t, fsys.Remove("/data/orders-0/"+filePartitionMetadata))
	d := mustOpen(t, fsys, "/data")
	l, err := d.Create(tp0, topicB, DefaultConfig())
	require.NoError(t, err)
	require.Equal(t, topicB, l.TopicID())
	require.Equal(t, int64(20), l.EndOffset())
}

// A power cut during creation may leave an id that cannot be read beside an empty log.
func TestCreateFinishesAHalfMadeLog(t *testing.T) {
	fsys := vfs.NewMem()
	d := mustOpen(t, fsys, "/data")
	mustCreate(t, d, DefaultConfig())
	require.NoError(t, d.Close())
	editFile(t, fsys, "/data/orders-0/"+filePartitionMetadata,
		func(b []byte) []byte { return b[:15] })
	d = mustOpen(t, fsys, "/data")
	l, err := d.Create(tp0, topicB, DefaultConfig())
	require.NoError(t, err)
	require.Equal(t, topicB, l.TopicID())
}

func TestCreateRefusesNamesThatLeaveTheDirectory(t *testing.T) {
	d := mustOpen(t, vfs.NewMem(), "/data")
	long := strings.Repeat("x", 250)
	for _, topic := range []string{"", ".", "..", "../x", "a/b", "a b", "a\x00", long} {
		_, err := d.Create(TopicPartition{topic, 0}, topicA, DefaultConfig())
		require.Error(t, err, "%q", topic)
	}
	_, err := d.Create(TopicPartition{"a", -1}, topicA, DefaultConfig())
	require.Error(t, err)
}

func TestDeleteRenamesThenUnlinksAfterTheDelay(t *testing.T) {
	fsys, clock := vfs.NewMem(), newTestClock()
	d := mustOpenAt(t, fsys, "/data", clock)
	long := TopicPartition{strings.Repeat("x", 249), 7}
	_, err := d.Create(long, topicA, DefaultConfig())
	require.NoError(t, err)
	require.NoError(t, d.Delete(long))
	require.ErrorIs(t, d.Delete(long), ErrUnknownPartition)
	_, ok := d.Log(long)
	require.False(t, ok)
	deleted := func() (names []string) {
		entries, err := fsys.ReadDir("/data")
		require.NoError(t, err)
		for _, e := range entries {
			if e.IsDir() {
				names = append(names, e.Name())
			}
		}
		return names
	}
	require.Len(t, deleted(), 1)
	require.Regexp(t, `^x+-7\.[0-9a-f]{32}-delete$`, deleted()[0])
	require.Len(t, deleted()[0], 255)
	require.Equal(t, time.Minute, d.removeDue())
	require.Len(t, deleted(), 1)
	clock.ms.Add(60_000)
	d.removeDue()
	require.Empty(t, deleted())
}

func TestRunWritesCheckpointsAndExpiresOnItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.NewMem()
		d, err := OpenDir(t.Context(), DirOptions{FS: fsys, Path: "/data", NodeID: 1})
		require.NoError(t, err)
		c := DefaultConfig()
		c.Flush, c.RetentionMS, c.FileDeleteDelayMS = FlushOS, 1000, 1000
		l, err := d.Create(tp0, topicA, c)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.Run(ctx) }()
		mustAppend(t, l, batchOf(t, 3, 10, time.Now().UnixMilli()))
		require.Zero(t, l.SyncedOffset())
		<-time.After(61 * time.Second)
		require.Equal(t, int64(3), l.SyncedOffset(), "the checkpoint syncs what flush=os left")
		points, err := readOffsetCheckpoint(fsys, "/data/"+fileRecoveryPoints)
		require.NoError(t, err)
		require.Equal(t, int64(3), points[tp0])
		l.SetHighWatermark(3)
		<-time.After(5 * time.Minute)
		require.Equal(t, int64(3), l.StartOffset())
		for name := range dirFiles(t, fsys, "/data/orders-0") {
			require.NotContains(t, name, suffixDeleted)
		}
		stop()
		require.NoError(t, <-done)
		require.NoError(t, d.Close())
	})
}

// A failed sync is final: the kernel may have dropped the pages and reported it once (fsyncgate).
func TestFailedSyncFailsTheDirectoryForGood(t *testing.T) {
	for _, policy := range []FlushPolicy{FlushAlways, FlushGroup} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fault := vfs.NewFault(vfs.NewMem())
				d := mustOpen(t, fault, "/data")
				c := DefaultConfig()
				c.Flush = policy
				l := mustCreate(t, d, c)
				mustAppend(t, l, batchOf(t, 1, 10, t0))
				require.NoError(t, l.Sync(t.Context()))
				file := map[FlushPolicy]string{FlushAlways: ".log", FlushGroup: fileJournal}[policy]
				fault.Inject(vfs.Rule{Op: vfs.OpSync, Path: file, Times: 1, Err: syscall.EIO})
				done := make(chan error, 1)
				go func() { done <- d.Run(t.Context()) }()
				told := make(chan struct{}, 10)
				defer l.Subscribe(func() { told <- struct{}{} })()
				res, err := l.Append(batchOf(t, 1, 10, t0), AppendOptions{})
				if policy == FlushAlways {
					require.ErrorIs(t, err, ErrDirFailed)
					require.Equal(t, int64(-1), res.BaseOffset)
				} else {
					require.NoError(t, err)
				}
				require.ErrorIs(t, <-done, ErrDirFailed)
				<-told
				<-d.failedNow
				require.ErrorIs(t, l.Err(), syscall.EIO)
				require.ErrorIs(t, l.Sync(t.Context()), ErrDirFailed, "the sync is not tried again")
				_, err = l.Append(batchOf(t, 1, 10, t0), AppendOptions{})
				require.ErrorIs(t, err, ErrDirFailed)
				require.Equal(t, int64(1), l.SyncedOffset())
				chunk, err := l.Read(0, 1<<20, l.SyncedOffset(), true)
				require.NoError(t, err, "what was synced can be read")
				chunk.Release()
				require.ErrorIs(t, d.Close(), ErrDirFailed)
				_, err = fault.Stat("/data/" + fileCleanShutdown)
				require.True(t, errors.Is(err, os.ErrNotExist), "no clean marker")
			})
		})
	}
}

func TestFullDiskRefusesAppendsAndRecovers(t *testing.T) {
	mem := vfs.NewMem()
	fault := vfs.NewFault(mem)
	d := mustOpen(t, fault, "/data")
	c := smallConfig()
	c.Flush = FlushAlways
	l := mustCreate(t, d, c)
	for space := int64(0); space < 3000; space += 170 {
		fault.SetSpace(space)
		for {
			batch := producerBatch(t, 9, 0, int32(l.EndOffset()), 1)
			if _, err := l.Append(batch, AppendOptions{}); err != nil {
				require.ErrorIs(t, err, ErrNoSpace)
				require.NoError(t, l.Err(), "a full disk is no failed disk")
				break
			}
		}
		end := l.EndOffset()
		require.Len(t, readAll(t, l, 500), int(end), "reading goes on")

		// A crash while the disk is full loses nothing that was acknowledged.
		fork := mustOpen(t, mem.CrashClone(uint64(space)), "/data")
		forked, _ := fork.Log(tp0)
		require.NoError(t, forked.Err())
		require.Equal(t, end, forked.EndOffset())

		fault.SetSpace(-1)
		require.Equal(t, end, mustAppend(t, l, producerBatch(t, 9, 0, int32(end), 1)).BaseOffset)
	}
	fault.SetSpace(0)
	require.NoError(t, d.Delete(tp0), "deleting works on a full disk")
}

// A broker that was killed by a full disk must start on it, or nobody can delete anything.
func TestStartOnAFullDisk(t *testing.T) {
	mem := vfs.NewMem()
	d, l := filledLog(t, mem)
	want := readAll(t, l, 500)
	d.closeAll()
	require.NoError(t, d.lock.Close())
	fault := vfs.NewFault(mem)
	fault.SetSpace(0)
	d = mustOpen(t, fault, "/data")
	l, _ = d.Log(tp0)
	require.NoError(t, l.Err())
	require.Equal(t, want, readAll(t, l, 500))
	_, err := l.Append(batchOf(t, 1, 10, t0), AppendOptions{})
	require.ErrorIs(t, err, ErrNoSpace)
	require.NoError(t, l.DeleteRecordsBefore(0))
	fault.SetSpace(-1)
	mustAppend(t, l, batchOf(t, 1, 10, t0))
	require.NoError(t, d.Close())
	d = mustOpen(t, mem, "/data")
	l, _ = d.Log(tp0)
	require.NoError(t, l.Err())
	require.Len(t, readAll(t, l, 500), len(want)+1)
}

// A write that fails leaves bytes behind the end. They must be gone before the next append, or a
// later crash could take them for records.
func TestFailedWriteIsTrimmedBeforeTheNextAppend(t *testing.T) {
	mem := vfs.NewMem()
	fault := vfs.NewFault(mem)
	d := mustOpen(t, fault, "/data")
	l := mustCreate(t, d, DefaultConfig())
	mustAppend(t, l, batchOf(t, 1, 10, t0))
	size := l.Size()
	fault.Inject(vfs.Rule{Op: vfs.OpWrite, Path: ".log", Times: 1, Err: syscall.ENOSPC, Partial: 50})
	fault.Inject(vfs.Rule{Op: vfs.OpTruncate, Path: ".log", Times: 2, Err: syscall.EMFILE})
	_, err := l.Append(batchOf(t, 1, 10, t0), AppendOptions{})
	require.ErrorIs(t, err, ErrNoSpace)
	_, err = l.Append(batchOf(t, 1, 10, t0), AppendOptions{})
	require.ErrorIs(t, err, ErrNoFiles, "still not trimmed")
	require.Equal(t, int64(1), mustAppend(t, l, batchOf(t, 1, 10, t0)).BaseOffset)
	data, err := vfs.ReadFile(mem, activeLog)
	require.NoError(t, err)
	require.Len(t, data, int(2*size))
}

func TestWriteErrorFailsTheDirectory(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem())
	d := mustOpen(t, fault, "/data")
	l := mustCreate(t, d, DefaultConfig())
	fault.Inject(vfs.Rule{Op: vfs.OpWrite, Path: ".log", Err: syscall.EIO, Partial: 10})
	_, err := l.Append(batchOf(t, 1, 10, t0), AppendOptions{})
	require.ErrorIs(t, err, ErrDirFailed)
	require.ErrorIs(t, d.Err(), syscall.EIO)
	_, err = d.Create(TopicPartition{"x", 0}, topicB, DefaultConfig())
	require.ErrorIs(t, err, ErrDirFailed)
}

func TestReadErrorIsReportedAndPasses(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem())
	_, l := filledLog(t, fault)
	remove := fault.Inject(vfs.Rule{Op: vfs.OpRead, Path: ".log", Err: syscall.EIO})
	_, err := l.Read(0, 100, farAway, true)
	require.ErrorIs(t, err, syscall.EIO)
	remove()
	require.Len(t, readAll(t, l, 1000), 90)
}

// TestEveryFaultAtOpen lets each operation of a start fail once: it is reported or the start works,
// and the next start has everything.
func TestEveryFaultAtOpen(t *testing.T) {
	for _, fsOp := range []vfs.Op{vfs.OpOpen, vfs.OpCreate, vfs.OpRead, vfs.OpReadDir, vfs.OpSync,
		vfs.OpSyncDir, vfs.OpRename, vfs.OpTruncate, vfs.OpWrite} {
		for nth := 1; ; nth++ {
			mem := vfs.NewMem()
			d, l := filledLog(t, mem)
			require.NoError(t, l.Sync(t.Context()))
			d.closeAll()
			require.NoError(t, d.lock.Close())
			fault := vfs.NewFault(mem)
			fault.Inject(vfs.Rule{Op: fsOp, Nth: nth, Times: 1, Err: syscall.EIO})
			d, err := OpenDir(t.Context(), DirOptions{FS: fault, Path: "/data", NodeID: 1})
			if err == nil {
				if l, ok := d.Log(tp0); ok && l.Err() == nil {
					require.Equal(t, int64(90), l.EndOffset(), "%s %d", fsOp, nth)
				}
				_ = d.Close()
				d.closeAll()
			}
			hit := fault.Count(fsOp) >= nth
			d = mustOpen(t, mem, "/data")
			l, _ = d.Log(tp0)
			require.NoError(t, l.Err(), "%s %d", fsOp, nth)
			require.Len(t, readAll(t, l, 1000), 90, "%s %d", fsOp, nth)
			if !hit {
				require.Greater(t, nth, 1, "%s never happens", fsOp)
				break
			}
		}
	}
}

// TestAppendsLeaveTheReserveFree: what is kept is not used by records, and they go on once there is
// more.
func TestAppendsLeaveTheReserveFree(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem())
	d, err := OpenDir(t.Context(), DirOptions{FS: fault, Path: "/data", Reserve: 1 << 20})
	require.NoError(t, err)
	defer func() { require.NoError(t, d.Close()) }()
	l := mustCreate(t, d, DefaultConfig())
	fault.SetSpace(1<<20 + 64<<10)
	appended := 0
	for ; ; appended++ {
		if _, err = l.Append(batchOf(t, 1, 1000, t0), AppendOptions{}); err != nil {
			break
		}
		require.Less(t, appended, 100)
	}
	require.ErrorIs(t, err, ErrNoSpace)
	require.Greater(t, appended, 50, "what is not kept is used")
	free, err := fault.Free("/data")
	require.NoError(t, err)
	require.GreaterOrEqual(t, free, uint64(1<<20))
	require.NoError(t, l.Err())
	fault.SetSpace(2 << 20)
	mustAppend(t, l, batchOf(t, 1, 1000, t0))
}

// TestDeletingManyLogsSyncsOnce: a topic of thousands of partitions goes in one step, and what is
// wrong with one of them keeps none of the others.
func TestDeletingManyLogsSyncsOnce(t *testing.T) {
	fault := vfs.NewFault(vfs.NewMem())
	d := mustOpen(t, fault, "/data")
	tps := []TopicPartition{{Topic: "missing"}}
	for i := range int32(200) {
		tp := TopicPartition{Topic: "many", Partition: 199 - i}
		_, err := d.Create(tp, uuid.New(), DefaultConfig())
		require.NoError(t, err)
		tps = append(tps, tp, tp) // asking twice is asking once
	}
	before := fault.Count(vfs.OpSyncDir)
	require.ErrorIs(t, d.Delete(tps...), ErrUnknownPartition)
	require.Empty(t, d.Logs())
	require.Less(t, fault.Count(vfs.OpSyncDir)-before, 10)
	for _, tp := range tps[1:3] {
		l, err := d.Create(tp, uuid.New(), DefaultConfig())
		require.NoError(t, err)
		require.Zero(t, l.EndOffset())
	}
}

// TestCheckpointsHaveTheirOwnIntervals: high watermarks and start offsets are written as often as
// their own settings say.
func TestCheckpointsHaveTheirOwnIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.NewMem()
		d, err := OpenDir(t.Context(), DirOptions{FS: fsys, Path: "/data", NodeID: 1,
			CheckpointInterval: time.Hour, StartOffsetInterval: 10 * time.Second,
			HighWatermarkInterval: 5 * time.Second})
		require.NoError(t, err)
		l, err := d.Create(tp0, topicA, DefaultConfig())
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.Run(ctx) }()
		mustAppend(t, l, batchOf(t, 3, 10, time.Now().UnixMilli()))
		l.SetHighWatermark(3)
		l.start.Store(2)
		at := func(name string) int64 {
			offsets, err := readOffsetCheckpoint(fsys, "/data/"+name)
			require.NoError(t, err)
			return offsets[tp0]
		}
		<-time.After(5*time.Second + time.Millisecond)
		require.Equal(t, int64(3), at(fileHighWatermarks))
		require.Zero(t, at(fileStartOffsets))
		<-time.After(5 * time.Second)
		require.Equal(t, int64(2), at(fileStartOffsets))
		require.Zero(t, at(fileRecoveryPoints))
		stop()
		require.NoError(t, <-done)
		require.NoError(t, d.Close())
	})
}

// TestProducersExpireByTheConfigInForce: producer.id.expiration.ms holds without a restart.
func TestProducersExpireByTheConfigInForce(t *testing.T) {
	clock := newTestClock()
	d := mustOpenAt(t, vfs.NewMem(), "/data", clock)
	l := mustCreate(t, d, DefaultConfig())
	mustAppend(t, l, producerBatch(t, 7, 0, 0, 1))
	clock.ms.Add(2000)
	d.ApplyRetention()
	require.Len(t, l.Producers(), 1)
	d.Configure(DirSettings{ProducerIDExpiration: time.Second})
	d.ApplyRetention()
	require.Empty(t, l.Producers())
}
