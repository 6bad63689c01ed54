package compact

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/storage"
	"github.com/millstream-io/millstream/core/vfs"
	"github.com/millstream-io/millstream/core/vfs/vfstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// t0 is the wall clock at which tests begin, ms.
const t0 int64 = 1_700_000_000_000

var (
	tp0    = storage.TopicPartition{Topic: "changelog", Partition: 0}
	topicA = uuid.MustParse("11111111-2222-4333-8444-555555555555")
)

// fixture is one compacted log with a cleaner, whose clock stands still.
type fixture struct {
	t       testing.TB
	fs      vfs.FS
	dir     *storage.Dir
	log     *storage.Log
	cleaner *Cleaner
	clock   atomic.Int64
	stamp   int64 // of the next record
	config  storage.Config
	hold    bool  // the high watermark stays
	epoch   int32 // of the last batch: a leader's epochs never go down
}

// compactConfig compacts whatever is dirty. Records 1 s apart roll a segment.
func compactConfig() storage.Config {
	c := storage.DefaultConfig()
	c.Compact, c.Delete = true, false
	c.MinCleanableDirtyRatio = 0
	c.SegmentMS = 1000
	c.IndexIntervalBytes = 64
	c.DeleteRetentionMS = 60_000
	return c
}

func newFixture(t testing.TB, c storage.Config) *fixture {
	f := &fixture{t: t, fs: vfs.NewMem(), stamp: t0, config: c}
	f.clock.Store(t0)
	f.open()
	return f
}

func (f *fixture) now() time.Time { return time.UnixMilli(f.clock.Load()) }

// open opens the directory on f.fs, as after a start.
func (f *fixture) open() {
	f.t.Helper()
	switch f.fs.(type) {
	case *failAt, *vfs.Fault: // the test goes on with a copy
	default:
		vfstest.Keep(f.t, f.fs, "/data")
	}
	var err error
	f.dir, err = storage.OpenDir(f.t.Context(), storage.DirOptions{FS: f.fs, Path: "/data",
		NodeID: 1, Now: f.now})
	require.NoError(f.t, err)
	f.log, err = f.dir.Create(tp0, topicA, f.config)
	require.NoError(f.t, err)
	f.cleaner, err = New(Options{Dir: f.dir, Now: f.now})
	require.NoError(f.t, err)
}

// records makes records of "key=value"; "key" alone is a tombstone, "=value" has no key.
func (f *fixture) records(texts ...string) []record.Record {
	var list []record.Record
	for _, text := range texts {
		key, value, hasValue := strings.Cut(text, "=")
		r := record.Record{Timestamp: f.stamp}
		if key != "" {
			r.Key = []byte(key)
		}
		if hasValue {
			r.Value = []byte(value)
		}
		list = append(list, r)
		f.stamp++
	}
	return list
}

// put appends one batch and returns its base offset.
func (f *fixture) put(texts ...string) int64 {
	return f.putBatch(record.BuilderOptions{}, texts...)
}

func (f *fixture) putBatch(o record.BuilderOptions, texts ...string) int64 {
	f.t.Helper()
	f.epoch = max(f.epoch, o.LeaderEpoch)
	o.BaseOffset, o.LeaderEpoch = f.log.EndOffset(), f.epoch
	b := record.NewBuilder(o)
	for _, r := range f.records(texts...) {
		b.Append(r)
	}
	batch, err := b.Build()
	require.NoError(f.t, err)
	return f.append(batch)
}

func (f *fixture) append(b record.Batch) int64 {
	f.t.Helper()
	res, err := f.log.Append(b, storage.AppendOptions{Origin: storage.Replicated})
	require.NoError(f.t, err)
	if !f.hold {
		f.log.SetHighWatermark(f.log.EndOffset())
	}
	return res.BaseOffset
}

// marker appends the end of a transaction.
func (f *fixture) marker(producer int64, kind record.ControlType) int64 {
	f.t.Helper()
	return f.append(record.ControlBatch(record.ControlOptions{Type: kind, ProducerID: producer,
		LeaderEpoch: f.epoch, BaseOffset: f.log.EndOffset(), Timestamp: f.stamp}))
}

// roll has the next batch begin a segment.
func (f *fixture) roll() { f.stamp += 2000 }

// seal rolls and puts a record, so that everything before can be compacted.
func (f *fixture) seal() {
	f.roll()
	f.put(fmt.Sprintf("last-%d=x", f.log.EndOffset()))
}

// clean compacts until there is nothing to do, and returns how many times it did.
func (f *fixture) clean() int {
	f.t.Helper()
	n := f.cleaner.CleanNow(f.t.Context())
	for _, err := range f.cleaner.mu.uncleanable {
		require.NoError(f.t, err)
	}
	return n
}

// batches returns all batches of the log.
func (f *fixture) batches() []record.Batch {
	f.t.Helper()
	return batchesOf(f.t, f.log)
}

func batchesOf(t testing.TB, l *storage.Log) []record.Batch {
	t.Helper()
	var list []record.Batch
	for at := l.StartOffset(); at < l.EndOffset(); {
		c, err := l.Read(at, 1<<20, l.EndOffset(), true)
		require.NoError(t, err)
		require.Positive(t, c.Len(), "nothing at %d of %d", at, l.EndOffset())
		data, err := c.AppendTo(nil)
		require.NoError(t, err)
		at = c.NextOffset()
		c.Release()
		for len(data) > 0 {
			var b record.Batch
			b, data, err = record.Next(data)
			require.NoError(t, err)
			require.NoError(t, b.CheckCRC())
			list = append(list, b)
		}
	}
	return list
}

// content returns the records as "offset key=value"; an empty batch is "first-last empty", a marker
// "offset marker".
func (f *fixture) content() []string { return contentOf(f.t, f.log) }

func contentOf(t testing.TB, l *storage.Log) []string {
	t.Helper()
	var list []string
	for _, b := range batchesOf(t, l) {
		records, err := b.Records(1 << 26)
		require.NoError(t, err)
		require.Len(t, records, int(b.Count()))
		if len(records) == 0 {
			list = append(list, fmt.Sprintf("%d-%d empty", b.BaseOffset(), b.LastOffset()))
		}
		for _, r := range records {
			switch {
			case b.IsControl():
				list = append(list, fmt.Sprintf("%d marker", r.Offset))
			case r.Value == nil:
				list = append(list, fmt.Sprintf("%d %s", r.Offset, r.Key))
			default:
				list = append(list, fmt.Sprintf("%d %s=%s", r.Offset, r.Key, r.Value))
			}
		}
	}
	return list
}

// files returns the names in the log's directory.
func (f *fixture) files() []string {
	entries, err := f.fs.ReadDir("/data/" + tp0.String())
	require.NoError(f.t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
