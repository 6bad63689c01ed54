package storage

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/vfs"
	"github.com/millstream-io/millstream/core/vfs/vfstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// t0 is the wall clock at which tests begin, ms.
const t0 int64 = 1_700_000_000_000

var (
	tp0     = TopicPartition{Topic: "orders", Partition: 0}
	topicA  = uuid.MustParse("11111111-2222-4333-8444-555555555555")
	topicB  = uuid.MustParse("99999999-8888-4777-8666-555555555555")
	farAway = int64(1) << 60
)

// tester is what the functions here need of a test, a rapid one too.
type tester interface {
	require.TestingT
	Helper()
}

// testClock is a wall clock that stands still.
type testClock struct{ ms atomic.Int64 }

func newTestClock() *testClock {
	c := &testClock{}
	c.ms.Store(t0)
	return c
}

func (c *testClock) now() time.Time { return time.UnixMilli(c.ms.Load()) }

// smallConfig rolls and indexes often.
func smallConfig() Config {
	c := DefaultConfig()
	c.SegmentBytes = 2048
	c.IndexIntervalBytes = 256
	return c
}

func mustOpen(t testing.TB, fsys vfs.FS, path string) *Dir {
	t.Helper()
	return mustOpenAt(t, fsys, path, newTestClock())
}

func mustOpenAt(t testing.TB, fsys vfs.FS, path string, clock *testClock) *Dir {
	t.Helper()
	vfstest.Keep(t, fsys, path)
	d, err := OpenDir(t.Context(), DirOptions{FS: fsys, Path: path, Now: clock.now, NodeID: 1})
	require.NoError(t, err)
	t.Cleanup(func() {
		d.closeAll()
		_ = d.lock.Close()
	})
	return d
}

func mustCreate(t testing.TB, d *Dir, c Config) *Log {
	t.Helper()
	l, err := d.Create(tp0, topicA, c)
	require.NoError(t, err)
	return l
}

// batchOf builds a batch of n records of size bytes each from timestamp ts on, 1 ms apart.
func batchOf(t tester, n, size int, ts int64) []byte {
	t.Helper()
	b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: -1})
	for i := range n {
		value := make([]byte, size)
		copy(value, fmt.Sprintf("value-%d-%d", ts, i))
		b.Append(record.Record{Timestamp: ts + int64(i), Key: []byte("k"), Value: value})
	}
	batch, err := b.Build()
	require.NoError(t, err)
	return batch
}

// producerBatch builds a batch of n records of an idempotent producer.
func producerBatch(t testing.TB, pid int64, epoch int16, seq int32, n int) []byte {
	t.Helper()
	b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: -1, Idempotent: true,
		ProducerID: pid, ProducerEpoch: epoch, BaseSequence: seq})
	for i := range n {
		b.Append(record.Record{Timestamp: t0, Value: fmt.Appendf(nil, "%d/%d/%d", pid, seq, i)})
	}
	batch, err := b.Build()
	require.NoError(t, err)
	return batch
}

// txnBatch builds a batch of n records of a transaction.
func txnBatch(t testing.TB, pid int64, epoch int16, seq int32, n int) record.Batch {
	t.Helper()
	b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: -1, Idempotent: true,
		Transactional: true, ProducerID: pid, ProducerEpoch: epoch, BaseSequence: seq})
	for i := range n {
		b.Append(record.Record{Timestamp: t0, Value: fmt.Appendf(nil, "%d/%d/%d", pid, seq, i)})
	}
	batch, err := b.Build()
	require.NoError(t, err)
	return batch
}

// txnAppend appends a client's transactional batch as the server does, its transaction verified.
func txnAppend(l *Log, b record.Batch) (AppendResult, error) {
	guard, _, err := l.StartVerification(b.ProducerID(), b.ProducerEpoch(), b.BaseSequence())
	if err != nil {
		return AppendResult{}, err
	}
	return l.Append(b, AppendOptions{Guard: guard, LeaderEpoch: max(l.LatestEpoch(), 0)})
}

func mustTxnAppend(t testing.TB, l *Log, pid int64, epoch int16, seq int32, n int) AppendResult {
	t.Helper()
	res, err := txnAppend(l, txnBatch(t, pid, epoch, seq, n))
	require.NoError(t, err)
	return res
}

// endTxn writes a marker of coordinator epoch 1, transaction version 1.
func endTxn(l *Log, kind record.ControlType, pid int64, epoch int16) (AppendResult, error) {
	return writeMarker(l, record.ControlOptions{Type: kind, ProducerID: pid, ProducerEpoch: epoch,
		CoordinatorEpoch: 1, Timestamp: t0}, 1)
}

func writeMarker(l *Log, o record.ControlOptions, version int16) (AppendResult, error) {
	return l.Append(record.ControlBatch(o), AppendOptions{Origin: FromTxnCoordinator,
		TransactionVersion: version, LeaderEpoch: max(l.LatestEpoch(), 0)})
}

func mustEndTxn(t testing.TB, l *Log, kind record.ControlType, pid int64, epoch int16) int64 {
	t.Helper()
	res, err := endTxn(l, kind, pid, epoch)
	require.NoError(t, err)
	return res.BaseOffset
}

func mustAppend(t testing.TB, l *Log, batch []byte) AppendResult {
	t.Helper()
	res, err := l.Append(batch, AppendOptions{})
	require.NoError(t, err)
	return res
}

// readAll reads the log in chunks from its start and returns the records' values by offset.
func readAll(t tester, l *Log, maxBytes int) map[int64]string {
	t.Helper()
	got := map[int64]string{}
	for at := l.StartOffset(); at < l.EndOffset(); {
		c, err := l.Read(at, maxBytes, farAway, true)
		require.NoError(t, err)
		require.Positive(t, c.Len(), "nothing at %d of %d", at, l.EndOffset())
		data, err := c.AppendTo(nil)
		require.NoError(t, err)
		next := c.NextOffset()
		c.Release()
		require.Greater(t, next, at)
		for len(data) > 0 {
			var batch record.Batch
			batch, data, err = record.Next(data)
			require.NoError(t, err)
			require.NoError(t, batch.CheckCRC())
			recs, err := batch.Records(1 << 24)
			require.NoError(t, err)
			for _, r := range recs {
				if r.Offset >= at {
					got[r.Offset] = string(r.Value)
				}
			}
		}
		at = next
	}
	return got
}
