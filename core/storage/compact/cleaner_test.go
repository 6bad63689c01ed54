package compact

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/storage"
	"github.com/millstream-io/millstream/core/vfs"
)

func TestDirtyRatioDecidesWhenToCompact(t *testing.T) {
	c := compactConfig()
	c.MinCleanableDirtyRatio = 0.5
	f := newFixture(t, c)
	f.put("a=1", "b="+strings.Repeat("x", 1000))
	f.seal()
	require.Equal(t, 1, f.clean(), "all is dirty")
	f.put("a=2")
	f.seal()
	require.Zero(t, f.clean(), "most is clean")
	f.put("c=" + strings.Repeat("y", 2000))
	f.seal()
	require.Equal(t, 1, f.clean())
}

func TestFilthiestLogComesFirst(t *testing.T) {
	f := newFixture(t, compactConfig())
	f.put("a=1", "a=2")
	f.seal()
	f.clean()
	f.put("a=3")
	f.seal()
	other, err := f.dir.Create(storage.TopicPartition{Topic: "other"}, topicA, f.config)
	require.NoError(t, err)
	f2 := &fixture{t: t, fs: f.fs, dir: f.dir, log: other, cleaner: f.cleaner, stamp: t0}
	f2.put("a=1", "a=2")
	f2.seal()
	p, ok := f.cleaner.grab()
	require.True(t, ok)
	require.Same(t, other, p.log)
	next, ok := f.cleaner.grab()
	require.True(t, ok, "a second thread takes the next one")
	require.Same(t, f.log, next.log)
	_, ok = f.cleaner.grab()
	require.False(t, ok)
}

func TestMinCompactionLagKeepsYoungSegments(t *testing.T) {
	c := compactConfig()
	c.MinCompactionLagMS = 10_000
	f := newFixture(t, c)
	f.put("a=1", "a=2")
	f.seal() // records of t0 and t0+2 s
	f.clock.Store(t0 + 10_000)
	require.Zero(t, f.clean())
	f.clock.Store(t0 + 10_002)
	require.Equal(t, 1, f.clean())
	require.Equal(t, "1 a=2", f.content()[0])
}

func TestMaxCompactionLagRollsTheActiveSegment(t *testing.T) { // KIP-354
	c := compactConfig()
	c.MinCleanableDirtyRatio, c.MaxCompactionLagMS, c.SegmentMS = 1, 5000, 1<<40
	f := newFixture(t, c)
	f.put("a=1", "a=2")
	f.clock.Store(t0 + 5001) // the first batch ends at t0 + 1
	require.Zero(t, f.clean())
	f.clock.Store(t0 + 5002)
	require.Equal(t, 1, f.clean())
	require.Equal(t, []string{"1 a=2"}, f.content())
	f.clock.Store(t0 + 1_000_000)
	require.Zero(t, f.clean(), "nothing is dirty")
}

func TestSmallMemoryTakesSeveralPasses(t *testing.T) {
	f := newFixture(t, compactConfig())
	f.cleaner.Configure(Settings{DedupeBufferBytes: 10 * slotBytes}) // 9 keys
	want := map[string]bool{}
	for i := range 30 {
		f.put(fmt.Sprintf("k%d=1", i%20), fmt.Sprintf("k%d=2", i%20))
		want[fmt.Sprintf("%d k%d=2", i*2+1, i%20)] = i >= 10
	}
	f.seal()
	require.Greater(t, f.clean(), 2)
	got := f.content()
	for text, stays := range want {
		require.Equal(t, stays, contains(got, text), text)
	}
	require.Len(t, got, 21)
}

func contains(list []string, text string) bool {
	for _, s := range list {
		if s == text {
			return true
		}
	}
	return false
}

func TestTooManyKeysInABatchMakeALogUncleanable(t *testing.T) {
	f := newFixture(t, compactConfig())
	var logged bytes.Buffer
	f.cleaner.logger = slog.New(slog.NewTextHandler(&logged, nil))
	f.cleaner.Configure(Settings{DedupeBufferBytes: 2 * slotBytes})
	f.put("a=1", "b=1", "c=1")
	f.seal()
	require.Zero(t, f.cleaner.CleanNow(t.Context()))
	require.Equal(t, []storage.TopicPartition{tp0}, f.cleaner.Stats().Uncleanable)
	require.Contains(t, logged.String(), "log.cleaner.dedupe.buffer.size")
	require.Contains(t, logged.String(), "partition=changelog-0")
}

func TestDamagedLogIsSkippedAndTheOthersAreNot(t *testing.T) {
	f := newFixture(t, compactConfig())
	f.put("a=1", "a=2")
	f.seal()
	other, err := f.dir.Create(storage.TopicPartition{Topic: "other"}, topicA, f.config)
	require.NoError(t, err)
	f2 := &fixture{t: t, fs: f.fs, dir: f.dir, log: other, cleaner: f.cleaner, stamp: t0}
	f2.put("a=1", "a=2")
	f2.seal()
	file, err := f.fs.OpenFile("/data/changelog-0/00000000000000000000.log", vfs.ReadWrite, 0)
	require.NoError(t, err)
	_, err = file.WriteAt([]byte{0xff}, 70)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	require.Equal(t, 0, f.cleaner.CleanNow(t.Context()))
	require.Equal(t, 1, f.cleaner.CleanNow(t.Context()))
	require.Equal(t, []storage.TopicPartition{tp0}, f.cleaner.Stats().Uncleanable)
	require.Equal(t, "1 a=2", f2.content()[0])

	// A new topic of that name is another log.
	require.NoError(t, f.dir.Delete(tp0))
	f.log, err = f.dir.Create(tp0, uuid.New(), f.config)
	require.NoError(t, err)
	f.put("a=1", "a=2")
	f.seal()
	require.Equal(t, 1, f.cleaner.CleanNow(t.Context()))
	require.Empty(t, f.cleaner.Stats().Uncleanable)
}

func TestCheckpointFollowsTruncationAndDeletedRecords(t *testing.T) {
	f := newFixture(t, compactConfig())
	for i := range 6 {
		f.put(fmt.Sprintf("a=%d", i), fmt.Sprintf("b%d=x", i))
		f.roll()
	}
	f.put("end=x")
	f.clean()
	require.Equal(t, int64(12), f.log.CleanedOffset())
	checkpoint := func() string {
		data, err := vfs.ReadFile(f.fs, "/data/cleaner-offset-checkpoint")
		require.NoError(t, err)
		return string(data)
	}
	require.Equal(t, "0\n1\nchangelog 0 12\n", checkpoint())

	require.NoError(t, f.log.TruncateTo(8))
	require.Equal(t, int64(8), f.log.CleanedOffset())
	require.Equal(t, "0\n1\nchangelog 0 8\n", checkpoint())
	f.put("b0=y")
	f.seal()
	f.clean()
	require.NotContains(t, f.content(), "1 b0=x")
	require.Contains(t, f.content(), "8 b0=y")

	end := f.log.EndOffset()
	require.NoError(t, f.log.DeleteRecordsBefore(end))
	f.put("b1=z")
	f.seal()
	f.clean()
	require.Equal(t, f.log.CleanState().Segments[len(f.log.CleanState().Segments)-1].Base,
		f.log.CleanedOffset())
	require.NoError(t, f.log.ResetTo(0))
	require.Zero(t, f.log.CleanedOffset())
}

func TestTruncationDuringACompactionMakesItVoid(t *testing.T) {
	f := newFixture(t, compactConfig())
	f.put("a=1", "a=2")
	f.seal()
	cleaning, err := f.log.StartCleaning(t.Context(), f.log.EndOffset())
	require.NoError(t, err)
	_, err = f.log.StartCleaning(t.Context(), 1)
	require.ErrorIs(t, err, storage.ErrCleaningBusy)
	err = cleaning.Replace(0, 1, func(w *storage.CleanWriter) error {
		require.NoError(t, f.log.TruncateTo(2))
		return w.Append(f.batches()[0])
	})
	require.ErrorIs(t, err, storage.ErrCleaningVoid)
	cleaning.Close()
	require.NotContains(t, strings.Join(f.files(), " "), ".cleaned")

	f = newFixture(t, compactConfig())
	f.put("a=1", "a=2")
	f.seal()
	cleaning, err = f.log.StartCleaning(t.Context(), f.log.EndOffset())
	require.NoError(t, err)
	err = cleaning.Replace(0, 1, func(w *storage.CleanWriter) error {
		return f.log.DeleteRecordsBefore(2) // takes the segment
	})
	require.ErrorIs(t, err, storage.ErrCleaningVoid)
	cleaning.Close()
	require.Equal(t, []string{"2 last-2=x"}, f.content())
}

func TestReadersKeepTheOldSegment(t *testing.T) {
	f := newFixture(t, compactConfig())
	f.put("a=1", "a=2")
	f.seal()
	c, err := f.log.Read(0, 1000, 3, true)
	require.NoError(t, err)
	want, err := c.AppendTo(nil)
	require.NoError(t, err)
	f.clean()
	got, err := c.AppendTo(nil)
	require.NoError(t, err)
	require.Equal(t, want, got)
	c.Release()
}

func TestCleanupPolicyMayChangeWhileRunning(t *testing.T) {
	c := compactConfig()
	c.Compact, c.Delete = false, true
	c.RetentionMS = -1
	f := newFixture(t, c)
	f.put("a=1", "a=2")
	f.seal()
	require.Zero(t, f.clean())
	c.Compact = true
	require.NoError(t, f.log.SetConfig(c))
	require.Equal(t, 1, f.clean())
	require.Equal(t, []string{"1 a=2", "2 last-2=x"}, f.content())

	// compact,delete: what is old goes, too.
	c.RetentionMS = 1000
	require.NoError(t, f.log.SetConfig(c))
	f.clock.Store(t0 + 1_002)
	f.dir.ApplyRetention()
	require.Equal(t, []string{"2 last-2=x"}, f.content())
	f.put("b=1", "b=2")
	f.seal()
	require.Equal(t, 1, f.clean(), "the start is past the checkpoint")

	c.Compact, c.Delete = true, false
	require.NoError(t, f.log.SetConfig(c))
	f.clock.Store(t0 + 1<<40)
	f.dir.ApplyRetention()
	require.Contains(t, f.content(), "4 b=2")
}

func TestRunFollowsItsSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, compactConfig())
		f.put("a=1", "a=2")
		f.seal()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		f.cleaner.Configure(Settings{Disabled: true, Backoff: time.Second})
		go func() { defer close(done); f.cleaner.Run(ctx) }()
		time.Sleep(time.Minute)
		require.Zero(t, f.cleaner.Stats().Runs, "log.cleaner.enable=false")

		f.cleaner.Configure(Settings{Threads: 3, Backoff: time.Second})
		time.Sleep(time.Millisecond)
		require.Equal(t, int64(1), f.cleaner.Stats().Runs)
		f.put("a=3")
		f.seal()
		time.Sleep(998 * time.Millisecond)
		require.Equal(t, int64(1), f.cleaner.Stats().Runs, "log.cleaner.backoff.ms has not passed")
		time.Sleep(2 * time.Millisecond)
		require.Equal(t, int64(2), f.cleaner.Stats().Runs)

		// 200 bytes a second, reads and writes together.
		f.cleaner.Configure(Settings{MaxBytesPerSecond: 200, Backoff: time.Second})
		f.put("a="+strings.Repeat("x", 1000), "b=x")
		f.seal()
		time.Sleep(10 * time.Second)
		require.Equal(t, int64(2), f.cleaner.Stats().Runs, "throttled")
		time.Sleep(time.Minute)
		require.Equal(t, int64(3), f.cleaner.Stats().Runs)
		cancel()
		<-done
	})
}

func TestOffsetMapIsBounded(t *testing.T) {
	m := NewOffsetMap(100*slotBytes, 0.5, math.MaxInt64)
	require.Len(t, m.slots, 100)
	for i := range 50 {
		require.True(t, m.Put(fmt.Append(nil, "key", i), int64(i)))
	}
	require.False(t, m.Put([]byte("one more"), 50))
	require.True(t, m.Put([]byte("key7"), 51), "a key that is there")
	require.Equal(t, int64(51), m.Get([]byte("key7")))
	require.Equal(t, int64(49), m.Get([]byte("key49")))
	require.Equal(t, int64(-1), m.Get([]byte("one more")))
	require.Equal(t, 50, m.Len())
	require.True(t, NewOffsetMap(1<<40, 0.9, 0).Put(nil, 0), "the empty key is one")
	require.Len(t, NewOffsetMap(1<<40, 0.9, 900).slots, 1002, "no more than can be needed")
}

func TestWhatReplacesRemovedRecordsIsOnTheDisk(t *testing.T) {
	c := compactConfig()
	c.Flush = storage.FlushOS
	f := newFixture(t, c)
	f.put("a=1")
	f.roll()
	f.put("a=2")
	f.seal()
	require.Less(t, f.log.SyncedOffset(), int64(2))
	require.Equal(t, 1, f.clean())
	require.GreaterOrEqual(t, f.log.SyncedOffset(), int64(2))
}
