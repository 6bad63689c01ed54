package storage

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/millstream-io/millstream/core/vfs"
	"github.com/millstream-io/millstream/core/vfs/vfstest"
)

// logModel is a log as a slice of values, beside the real one.
type logModel struct {
	disk   *vfs.Mem
	dir    *Dir
	log    *Log
	config Config
	clock  *testClock
	values []string // by offset; "" = cut away by nothing the model keeps
	start  int64
	synced int64
	epoch  int32
	n      int
}

func (m *logModel) open(t *rapid.T) {
	var err error
	m.dir, err = OpenDir(context.Background(), DirOptions{FS: m.disk, Path: "/data",
		Now: m.clock.now})
	require.NoError(t, err)
	m.log, err = m.dir.Create(tp0, topicA, m.config)
	require.NoError(t, err)
}

func (m *logModel) end() int64 { return int64(len(m.values)) }

// Append adds batches of one to four records.
func (m *logModel) Append(t *rapid.T) {
	for range rapid.IntRange(1, 6).Draw(t, "batches") {
		n, size := rapid.IntRange(1, 4).Draw(t, "n"), rapid.IntRange(1, 300).Draw(t, "size")
		m.n++
		ts := t0 + int64(m.n)*100
		batch := batchOf(t, n, size, ts)
		if rapid.IntRange(0, 9).Draw(t, "newEpoch") == 0 {
			m.epoch++
		}
		res, err := m.log.Append(batch, AppendOptions{LeaderEpoch: m.epoch})
		require.NoError(t, err)
		require.Equal(t, m.end(), res.BaseOffset)
		for i := range n {
			value := make([]byte, size)
			copy(value, fmt.Sprintf("value-%d-%d", ts+0, i))
			m.values = append(m.values, string(value))
		}
		if m.config.Flush == FlushAlways {
			m.synced = m.end()
		}
	}
}

// Sync makes everything durable.
func (m *logModel) Sync(t *rapid.T) {
	require.NoError(t, m.log.Sync(context.Background()))
	m.synced = m.end()
}

// Checkpoint writes the recovery point.
func (m *logModel) Checkpoint(t *rapid.T) { require.NoError(t, m.dir.saveCheckpoints()) }

// Truncate cuts the log as a follower does.
func (m *logModel) Truncate(t *rapid.T) {
	at := rapid.Int64Range(m.start, m.end()).Draw(t, "truncate")
	require.NoError(t, m.log.TruncateTo(at))
	end := m.log.EndOffset()
	require.LessOrEqual(t, end, max(at, m.start))
	require.GreaterOrEqual(t, end, at-3)
	m.values = m.values[:end]
	m.start, m.synced = min(m.start, end), min(m.synced, end)
	m.epoch = max(m.epoch, m.log.LatestEpoch())
}

// DeleteRecords moves the start.
func (m *logModel) DeleteRecords(t *rapid.T) {
	at := rapid.Int64Range(0, m.end()).Draw(t, "delete")
	require.NoError(t, m.log.DeleteRecordsBefore(at))
	m.start = max(m.start, at)
}

// Retain applies retention.bytes up to the high watermark.
func (m *logModel) Retain(t *rapid.T) {
	m.log.SetHighWatermark(m.end())
	m.dir.ApplyRetention()
	require.GreaterOrEqual(t, m.log.StartOffset(), m.start)
	m.start = m.log.StartOffset()
}

// Restart closes in order and opens again.
func (m *logModel) Restart(t *rapid.T) {
	require.NoError(t, m.dir.Close())
	m.open(t)
	require.True(t, m.dir.WasClean())
	m.synced = m.end()
}

// Kill loses the process, not the page cache.
func (m *logModel) Kill(t *rapid.T) {
	m.dir.closeAll()
	require.NoError(t, m.dir.lock.Close())
	m.open(t)
	m.synced = m.end()
}

// PowerCut loses what was not synced, or some of it.
func (m *logModel) PowerCut(t *rapid.T) {
	disk := m.disk.CrashClone(rapid.Uint64().Draw(t, "seed"))
	m.dir.closeAll()
	require.NoError(t, m.dir.lock.Close())
	m.disk = disk
	m.open(t)
	end := m.log.EndOffset()
	require.GreaterOrEqual(t, end, m.synced)
	require.LessOrEqual(t, end, m.end())
	m.values = m.values[:end]
	// Retention of unsynced names may come back; deleted records may not.
	require.LessOrEqual(t, m.log.StartOffset(), m.start)
	m.start, m.synced = m.log.StartOffset(), end
}

// Check compares everything that can be read.
func (m *logModel) Check(t *rapid.T) {
	require.NoError(t, m.log.Err())
	require.Equal(t, m.end(), m.log.EndOffset())
	require.Equal(t, m.start, m.log.StartOffset())
	require.GreaterOrEqual(t, m.log.SyncedOffset(), m.synced)
	got := readAll(t, m.log, rapid.IntRange(1, 3000).Draw(t, "maxBytes"))
	require.Len(t, got, int(m.end()-m.start))
	for at, v := range got {
		require.Equal(t, m.values[at], v, "offset %d", at)
	}
}

func TestLogAgainstASlice(outer *testing.T) {
	rapid.Check(outer, func(t *rapid.T) {
		m := &logModel{disk: vfs.NewMem(), clock: newTestClock(), config: DefaultConfig()}
		m.config.SegmentBytes = rapid.Int64Range(1400, 6000).Draw(t, "segment.bytes")
		m.config.IndexIntervalBytes = rapid.IntRange(1, 1000).Draw(t, "interval")
		m.config.RetentionBytes = rapid.Int64Range(1000, 20000).Draw(t, "retention.bytes")
		m.config.TimestampAfterMaxMS = 1 << 50
		m.config.Flush = rapid.SampledFrom([]FlushPolicy{FlushAlways, FlushGroup,
			FlushOS}).Draw(t, "flush")
		m.open(t)
		defer func() {
			m.log.SetHighWatermark(m.log.EndOffset())
			_ = m.dir.Close() // with an error if the model closed it before
			m.dir.closeAll()
			_ = m.dir.lock.Close()
			vfstest.Keep(outer, m.disk, "/data")
		}()
		t.Repeat(map[string]func(*rapid.T){
			"append": m.Append, "append2": m.Append, "sync": m.Sync, "checkpoint": m.Checkpoint,
			"truncate": m.Truncate, "deleteRecords": m.DeleteRecords, "retain": m.Retain,
			"restart": m.Restart, "kill": m.Kill, "powerCut": m.PowerCut, "": m.Check,
		})
	})
}
