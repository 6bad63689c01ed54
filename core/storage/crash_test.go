package storage

import (
	"context"
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/vfs"
	"github.com/millstream-io/millstream/core/vfs/vfstest"
)

// promise is what a caller has been told at some moment, and what it has asked for.
type promise struct {
	created bool           // the log exists
	end     int64          // records before it are durable
	start   int64          // records before it are deleted
	epoch   int32          // leader epoch that was assigned
	tried   map[int64]bool // offsets of batches that were handed to Append
	lowest  int64          // largest start that was asked for
}

func (p promise) clone() promise {
	p.tried = maps.Clone(p.tried)
	return p
}

// crashPoint is a disk as a power cut could leave it, and what was promised before.
type crashPoint struct {
	step string
	seed uint64
	disk *vfs.Mem
	promise
}

// crashRecorder cuts the power ahead of every change to the disk, several times.
type crashRecorder struct {
	disk   *vfs.Mem
	seeds  uint64
	points []crashPoint
	now    promise
	n      int
}

func newCrashRecorder(seeds uint64) (*crashRecorder, vfs.FS) {
	r := &crashRecorder{disk: vfs.NewMem(), seeds: seeds}
	r.now.tried, r.now.epoch = map[int64]bool{}, noEpoch
	return r, vfs.NewTrace(r.disk, func(op string) {
		r.n++
		for i := range seeds {
			seed := uint64(r.n)*1000 + i
			r.points = append(r.points, crashPoint{fmt.Sprintf("%d %s", r.n, op), seed,
				r.disk.CrashClone(seed), r.now.clone()})
		}
	})
}

// crashBatch is the batch that the workload appends at an offset: what is read can be checked.
func crashBatch(t testing.TB, offset int64) []byte {
	return batchOf(t, int(offset%3)+1, 30, t0+offset)
}

// check opens the disk after the cut and compares it with the promise.
func (c crashPoint) check(t *testing.T) {
	t.Helper()
	fail := func(format string, args ...any) {
		t.Helper()
		require.FailNow(t, fmt.Sprintf(format, args...), "crash ahead of %q, seed %d", c.step, c.seed)
	}
	vfstest.Keep(t, c.disk, "/data")
	d, err := OpenDir(t.Context(), DirOptions{FS: c.disk, Path: "/data", NodeID: 1,
		Now: newTestClock().now})
	if err != nil {
		fail("open: %v", err)
	}
	defer func() { d.closeAll(); _ = d.lock.Close() }()
	l, ok := d.Log(tp0)
	if !ok {
		if c.created {
			fail("the log is gone")
		}
		_, err := d.Create(tp0, topicA, DefaultConfig())
		require.NoError(t, err)
		return
	}
	switch end, start := l.EndOffset(), l.StartOffset(); {
	case l.Err() != nil:
		fail("log offline: %v", l.Err())
	case end < c.end:
		fail("end is %d, but %d was acknowledged", end, c.end)
	case start < c.start || start > c.lowest && start > 0:
		fail("start is %d, want %d to %d", start, c.start, c.lowest)
	case l.SyncedOffset() != end:
		fail("synced is %d after recovery, the end is %d", l.SyncedOffset(), end)
	case l.LatestEpoch() < c.epoch && end > l.StartOffset():
		fail("leader epoch is %d, want %d", l.LatestEpoch(), c.epoch)
	}
	c.checkContent(t, l)
	end := l.EndOffset()
	_, err = d.Create(tp0, topicA, DefaultConfig()) // also of a log that was half made
	require.NoError(t, err)
	_, err = l.Append(crashBatch(t, end), AppendOptions{LeaderEpoch: 99})
	require.NoError(t, err)
}

// checkContent compares every record with the batch the workload made for its offset.
func (c crashPoint) checkContent(t *testing.T, l *Log) {
	t.Helper()
	got := readAll(t, l, 1000)
	require.Len(t, got, int(l.EndOffset()-l.StartOffset()), "crash ahead of %q", c.step)
	for base := range c.tried {
		for i := range base%3 + 1 {
			if value, ok := got[base+i]; ok {
				want := fmt.Sprintf("value-%d-%d", t0+base, i)
				require.Equal(t, want, value[:len(want)], "crash ahead of %q, seed %d", c.step, c.seed)
				delete(got, base+i)
			}
		}
	}
	require.Empty(t, got, "records that nobody wrote, crash ahead of %q", c.step)
}

// TestCrashLosesNothingAcknowledged cuts the power at every step of a log's life: creation,
// appends, rolls, epochs, retention, record deletion, clean shutdown and restart.
func TestCrashLosesNothingAcknowledged(t *testing.T) {
	for _, policy := range []FlushPolicy{FlushAlways, FlushGroup} {
		t.Run(string(policy), func(t *testing.T) {
			rec, fsys := newCrashRecorder(3)
			crashWorkload(t, rec, fsys, policy)
			require.Greater(t, len(rec.points), 500)
			t.Logf("%d crash points", len(rec.points))
			for _, p := range rec.points {
				p.check(t)
			}
		})
	}
}

func crashWorkload(t *testing.T, rec *crashRecorder, fsys vfs.FS, policy FlushPolicy) {
	c := smallConfig()
	c.SegmentBytes = 700
	c.Flush = policy
	c.RetentionBytes = 1500
	d := mustOpen(t, fsys, "/data")
	l := mustCreate(t, d, c)
	rec.now.created = true
	write := func(n int, epoch int32) {
		for range n {
			at := l.EndOffset()
			rec.now.tried[at] = true
			_, err := l.Append(crashBatch(t, at), AppendOptions{LeaderEpoch: epoch})
			require.NoError(t, err)
			if policy == FlushGroup && l.EndOffset()%2 == 0 {
				require.NoError(t, l.Sync(context.Background()))
			}
			if rec.now.end = l.SyncedOffset(); rec.now.end == l.EndOffset() {
				rec.now.epoch = epoch
			}
		}
	}
	write(8, 0)
	require.NoError(t, l.AssignEpoch(4, l.EndOffset()))
	write(12, 4)
	l.SetHighWatermark(l.EndOffset())
	rec.now.lowest = l.EndOffset()
	d.ApplyRetention()
	require.Positive(t, l.StartOffset(), "retention did nothing")
	write(3, 4)
	require.NoError(t, d.saveCheckpoints())
	require.NoError(t, l.DeleteRecordsBefore(l.EndOffset()-7))
	rec.now.start = l.StartOffset()
	write(4, 5)
	require.NoError(t, d.Close())
	rec.now.end = l.EndOffset()
	d = mustOpen(t, fsys, "/data")
	l, _ = d.Log(tp0)
	require.NoError(t, l.SetConfig(c))
	write(6, 6)
}

// TestCrashWhileTruncating cuts the power while a follower cuts its log and appends other records:
// each offset has its old or its new record, and new ones that were synced stay.
func TestCrashWhileTruncating(t *testing.T) {
	rec, fsys := newCrashRecorder(3)
	d := mustOpen(t, fsys, "/data")
	c := smallConfig()
	c.SegmentBytes = 700
	l := mustCreate(t, d, c)
	for l.EndOffset() < 30 {
		mustAppend(t, l, batchOf(t, 1, 30, t0+l.EndOffset()))
	}
	require.NoError(t, l.Sync(t.Context()))
	require.NoError(t, d.saveCheckpoints())
	rec.points = nil
	require.NoError(t, l.TruncateTo(12))
	rec.now.end = 12
	for l.EndOffset() < 25 {
		mustAppend(t, l, batchOf(t, 1, 30, t0+1000+l.EndOffset()))
		if l.EndOffset()%4 == 0 {
			require.NoError(t, l.Sync(t.Context()))
			rec.now.end = l.SyncedOffset()
		}
	}
	for _, p := range rec.points {
		d, err := OpenDir(t.Context(), DirOptions{FS: p.disk, Path: "/data", NodeID: 1})
		require.NoError(t, err, p.step)
		l, ok := d.Log(tp0)
		require.True(t, ok)
		require.NoError(t, l.Err(), p.step)
		require.GreaterOrEqual(t, l.EndOffset(), p.end, p.step)
		for at, value := range readAll(t, l, 400) {
			older, newer := fmt.Sprintf("value-%d-0", t0+at), fmt.Sprintf("value-%d-0", t0+1000+at)
			isNew := value[:len(newer)] == newer
			require.True(t, isNew || value[:len(older)] == older, "%s: %q at %d", p.step, value, at)
			require.True(t, isNew || at < 12 || at >= p.end || p.end == 12, "%s: old %d", p.step, at)
		}
		d.closeAll()
		require.NoError(t, d.lock.Close())
	}
}

// TestCrashWhileRecreatingATopic cuts the power while a topic is deleted and made anew: no record
// or offset of the old one may show up in the new one.
func TestCrashWhileRecreatingATopic(t *testing.T) {
	rec, fsys := newCrashRecorder(3)
	d := mustOpen(t, fsys, "/data")
	c := smallConfig()
	c.Flush = FlushAlways
	l := mustCreate(t, d, c)
	for range 20 {
		mustAppend(t, l, batchOf(t, 2, 50, t0))
	}
	require.NoError(t, l.DeleteRecordsBefore(11))
	require.NoError(t, d.saveCheckpoints())
	rec.points = nil
	require.NoError(t, d.Delete(tp0))
	l, err := d.Create(tp0, topicB, c)
	require.NoError(t, err)
	rec.now.created = true
	mustAppend(t, l, batchOf(t, 1, 10, t0+777))
	rec.now.end = 1
	require.NoError(t, l.Sync(t.Context()))
	for _, p := range rec.points {
		d, err := OpenDir(t.Context(), DirOptions{FS: p.disk, Path: "/data", NodeID: 1})
		require.NoError(t, err, p.step)
		l, ok := d.Log(tp0)
		require.True(t, ok || !p.created, p.step)
		if ok && l.TopicID() != topicA {
			require.NoError(t, l.Err(), p.step)
			require.Zero(t, l.StartOffset(), p.step)
			require.LessOrEqual(t, l.EndOffset(), int64(1), p.step)
			require.GreaterOrEqual(t, l.EndOffset(), p.end, p.step)
		}
		d.closeAll()
		require.NoError(t, d.lock.Close())
	}
}
