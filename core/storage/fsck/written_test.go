package fsck_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/storage"
	"github.com/millstream-io/millstream/core/storage/compact"
	"github.com/millstream-io/millstream/core/storage/fsck"
	"github.com/millstream-io/millstream/core/vfs"
)

// writer writes what chance gives into a log: plain batches, transactions of three producers,
// restarts and compactions.
type writer struct {
	t         *testing.T
	random    *rand.Rand
	disk      *vfs.Mem
	now       time.Time
	config    storage.Config
	dir       *storage.Dir
	log       *storage.Log
	cleaner   *compact.Cleaner
	sequences [3]int32 // of the producers
	open      [3]bool  // whether they have a transaction open
}

func (w *writer) start() {
	var err error
	clock := func() time.Time { return w.now }
	w.dir, err = storage.OpenDir(w.t.Context(), storage.DirOptions{
		FS: w.disk, Path: "/data", NodeID: 1, Now: clock,
	})
	require.NoError(w.t, err)
	tp, id := storage.TopicPartition{Topic: "t"}, uuid.UUID{1}
	w.log, err = w.dir.Create(tp, id, w.config)
	require.NoError(w.t, err)
	w.cleaner, err = compact.New(compact.Options{Dir: w.dir, Now: clock})
	require.NoError(w.t, err)
}

func (w *writer) append(b record.Batch, origin storage.Origin) {
	w.t.Helper()
	_, err := w.log.Append(b, storage.AppendOptions{Origin: origin})
	require.NoError(w.t, err)
	w.log.SetHighWatermark(w.log.EndOffset())
}

func (w *writer) step() {
	w.now = w.now.Add(time.Duration(w.random.IntN(400)) * time.Millisecond)
	p := w.random.IntN(3)
	switch action := w.random.IntN(20); {
	case action == 0 && w.open[p]:
		w.append(record.ControlBatch(record.ControlOptions{
			Type: record.ControlType(w.random.IntN(2)), ProducerID: int64(p),
			Timestamp: w.now.UnixMilli(), CoordinatorEpoch: 4,
		}), storage.FromTxnCoordinator)
		w.open[p] = false
	case action == 1:
		require.NoError(w.t, w.dir.Close())
		w.start()
	case action == 2:
		w.cleaner.CleanNow(w.t.Context())
	case action == 3:
		w.now = w.now.Add(time.Hour) // tombstones and markers go
	case action < 12:
		w.append(w.batch(record.BuilderOptions{
			Idempotent: true, ProducerID: int64(p), BaseSequence: w.sequences[p],
			Transactional: true,
		}, p), storage.FromCoordinator)
		w.open[p] = true
	default:
		w.append(w.batch(record.BuilderOptions{Codec: record.Codec(w.random.IntN(5))}, -1),
			storage.FromCoordinator)
	}
}

func (w *writer) batch(o record.BuilderOptions, producer int) record.Batch {
	b := record.NewBuilder(o)
	n := 1 + w.random.IntN(4)
	for range n {
		r := record.Record{Timestamp: w.now.UnixMilli(), Key: fmt.Append(nil, w.random.IntN(12))}
		if w.random.IntN(6) > 0 {
			r.Value = make([]byte, w.random.IntN(200))
		}
		b.Append(r)
	}
	if producer >= 0 {
		w.sequences[producer] += int32(n)
	}
	batch, err := b.Build()
	require.NoError(w.t, err)
	return batch
}

// What the storage and its cleaner write is sound, whatever was written; and after a power cut, no
// damage.
func TestWhatIsWrittenIsSound(t *testing.T) {
	for seed := range uint64(60) {
		w := &writer{
			t: t, random: rand.New(rand.NewPCG(seed, 1)), disk: vfs.NewMem(),
			now: time.UnixMilli(1_700_000_000_000), config: storage.DefaultConfig(),
		}
		w.config.SegmentMS, w.config.IndexIntervalBytes = 3000, 128
		w.config.MinCleanableDirtyRatio, w.config.DeleteRetentionMS = 0, 60_000
		w.config.Compact, w.config.Delete = seed%3 > 0, seed%3 == 0
		w.start()
		for range 150 {
			w.step()
		}
		crashed := w.disk.CrashClone(seed)
		require.NoError(t, w.dir.Close())
		for _, disk := range []*vfs.Mem{w.disk, crashed} {
			var damage []fsck.Finding
			s, err := fsck.Check(t.Context(), fsck.Options{
				FS: disk, Path: "/data", Report: func(f fsck.Finding) {
					if !f.Note {
						damage = append(damage, f)
					}
				},
			})
			require.NoError(t, err)
			require.Empty(t, damage, "seed %d, crashed %t", seed, disk == crashed)
			require.Equal(t, len(damage), s.Damages)
		}
	}
}
