package fsck_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/storage"
	"github.com/millstream-io/millstream/core/storage/fsck"
	"github.com/millstream-io/millstream/core/vfs"
)

// TestTheAdviceForAbortsIsRight does what the check says about an index of aborted transactions in
// a sealed segment, be it missing, empty, or wrong in one byte: the next start has it as it was.
func TestTheAdviceForAbortsIsRight(t *testing.T) {
	const index = "/data/t-0/00000000000000000000.txnindex"
	config := storage.DefaultConfig()
	config.SegmentMS = 1000
	w := &writer{t: t, disk: vfs.NewMem(), now: time.UnixMilli(1_700_000_000_000), config: config}
	w.start()
	for range 3 {
		b := record.NewBuilder(record.BuilderOptions{Idempotent: true, ProducerID: 7,
			BaseSequence: w.sequences[0], Transactional: true})
		b.Append(record.Record{Timestamp: w.now.UnixMilli(), Value: []byte("x")})
		batch, err := b.Build()
		require.NoError(t, err)
		w.append(batch, storage.FromCoordinator)
		w.sequences[0]++
		w.append(record.ControlBatch(record.ControlOptions{Type: record.ControlAbort, ProducerID: 7,
			Timestamp: w.now.UnixMilli()}), storage.FromTxnCoordinator)
	}
	w.now = w.now.Add(time.Hour)
	plain := record.NewBuilder(record.BuilderOptions{})
	plain.Append(record.Record{Timestamp: w.now.UnixMilli(), Value: []byte("next segment")})
	batch, err := plain.Build()
	require.NoError(t, err)
	w.append(batch, storage.FromCoordinator)
	require.NoError(t, w.dir.Close())
	before, err := vfs.ReadFile(w.disk, index)
	require.NoError(t, err)
	require.Len(t, before, 3*34)
	wrong := append([]byte{}, before...)
	wrong[2] ^= 1
	for what, content := range map[string][]byte{"missing": nil, "empty": {}, "wrong": wrong} {
		require.NoError(t, w.disk.Remove(index))
		if content != nil {
			put(t, w.disk, index, content)
		}
		found := damages(t, w.disk)
		require.NotEmpty(t, found, what)
		for _, f := range found {
			require.Equal(t, index, f.File)
			require.Contains(t, f.Do, "put one byte in the place of its content")
		}
		put(t, w.disk, index, []byte{'x'})
		w.start()
		require.NoError(t, w.dir.Close())
		require.Empty(t, damages(t, w.disk), what)
		after, err := vfs.ReadFile(w.disk, index)
		require.NoError(t, err)
		require.Equal(t, before, after, what)
	}
}

func put(t *testing.T, disk *vfs.Mem, name string, content []byte) {
	f, err := disk.OpenFile(name, vfs.WriteOnly|vfs.Create|vfs.Truncate, 0o644)
	require.NoError(t, err)
	_, err = f.Write(content)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func damages(t *testing.T, disk *vfs.Mem) []fsck.Finding {
	var found []fsck.Finding
	_, err := fsck.Check(t.Context(), fsck.Options{FS: disk, Path: "/data",
		Report: func(f fsck.Finding) {
			if !f.Note {
				found = append(found, f)
			}
		}})
	require.NoError(t, err)
	return found
}
