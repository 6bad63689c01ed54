package storage

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/vfs"
)

// FuzzSegmentRecovery recovers a log file of any bytes: it never panics or fails, keeps at least
// the intact batches at the head, changes nothing the second time, and allocates no more than the
// bytes that are there ask for, whatever lengths they claim.
func FuzzSegmentRecovery(f *testing.F) {
	files := dirFiles(f, loadKafkaDir(f), "/data/frozen-0")
	for name, data := range files {
		if base, suffix, ok := parseSegmentFile(name); ok && suffix == suffixLog && base == 456 {
			f.Add([]byte(data[:4000]))
		}
	}
	good := bytes.Clone(goldenBatch(f))
	f.Add(good)
	f.Add(append(bytes.Clone(good), good...)) // the second one's offsets are in the past
	f.Add(append(bytes.Clone(good), make([]byte, 100)...))
	f.Add(good[:30])
	f.Add([]byte{})
	long := bytes.Clone(good)
	copy(long[8:], []byte{0x7f, 0xff, 0xff, 0xff})
	f.Add(long)
	f.Fuzz(func(t *testing.T, data []byte) {
		keep, next := intactHead(data)
		fsys := vfs.NewMem()
		require.NoError(t, fsys.MkdirAll("/data/t-0", 0o755))
		require.NoError(t, writeFile(fsys, segmentFile("/data/t-0", 0, suffixLog), data))
		tp := TopicPartition{"t", 0}
		for range 2 {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			d, err := OpenDir(t.Context(), DirOptions{FS: fsys, Path: "/data"})
			require.NoError(t, err)
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20+8*len(data)))
			l, ok := d.Log(tp)
			require.True(t, ok)
			require.NoError(t, l.Err())
			require.Equal(t, int64(keep), l.Size())
			require.Equal(t, next, l.EndOffset())
			_, _, err = l.MaxTimestamp(farAway)
			_ = err // an intact CRC does not make the records inside readable
			d.closeAll()
			require.NoError(t, d.lock.Close())
		}
	})
}

// intactHead returns how many bytes at the head of data are whole batches with good CRC and rising
// offsets, and the offset after them.
func intactHead(data []byte) (keep int, next int64) {
	for rest := data; ; keep = len(data) - len(rest) {
		b, after, err := record.Next(rest)
		if err != nil || b.CheckCRC() != nil || b.BaseOffset() < next || b.LastOffsetDelta() < 0 ||
			b.NextOffset() <= b.BaseOffset() {
			return keep, next
		}
		rest, next = after, b.NextOffset()
	}
}

// FuzzIndexes opens a closed log beside index files of any bytes: reads and lookups stay right.
func FuzzIndexes(f *testing.F) {
	f.Add([]byte{}, []byte{})
	f.Add([]byte{0, 0, 0, 5, 0, 0, 1, 0}, []byte{0, 0, 1, 0x8b, 0xcf, 0xe5, 0x68, 0, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, offsets, times []byte) {
		fsys := vfs.NewMem()
		d, l := filledLog(t, fsys)
		want := readAll(t, l, 500)
		base := (*l.segments.Load())[1].base
		require.NoError(t, d.Close())
		require.NoError(t, writeFile(fsys, segmentFile("/data/orders-0", base, suffixIndex), offsets))
		require.NoError(t, writeFile(fsys, segmentFile("/data/orders-0", base, suffixTimeIndex), times))
		d, err := OpenDir(t.Context(), DirOptions{FS: fsys, Path: "/data", NodeID: 1})
		require.NoError(t, err)
		defer func() { d.closeAll(); _ = d.lock.Close() }()
		l, _ = d.Log(tp0)
		require.NoError(t, l.Err())
		require.Equal(t, want, readAll(t, l, 500))
	})
}

// FuzzSideFiles parses checkpoints, snapshots and identities of any bytes; what parses is written
// back to something that parses to the same.
func FuzzSideFiles(f *testing.F) {
	f.Add([]byte("0\n2\n0 0\n5 120\n"))
	f.Add([]byte("0\n1\ntopic 3 42\n"))
	f.Add([]byte("version: 0\ntopic_id: 5Tq3XlrZTsKK41W73pe8FA"))
	f.Add([]byte("version=1\ncluster.id=c\nnode.id=1\ndirectory.id=LLkuVf4oQdm3RqhAEWJvXw\n"))
	f.Add([]byte(`{"version":0,"brokerEpoch":14}`))
	f.Add(encodeSnapshot(producerTable{1: {epoch: 1, txnFirstOffset: -1}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		if l, err := parseEpochs(data); err == nil {
			again, err := parseEpochs(l.format())
			require.NoError(t, err)
			require.Equal(t, l, again)
		}
		if m, err := parseOffsetCheckpoint(data); err == nil {
			again, err := parseOffsetCheckpoint(formatOffsetCheckpoint(m))
			require.NoError(t, err)
			require.Equal(t, m, again)
		}
		if id, err := parsePartitionMetadata(data); err == nil {
			again, err := parsePartitionMetadata(formatPartitionMetadata(id))
			require.NoError(t, err)
			require.Equal(t, id, again)
		}
		if m, err := parseMetaProperties(data); err == nil {
			again, err := parseMetaProperties(m.format())
			require.NoError(t, err)
			require.Equal(t, m, again)
		}
		if table, err := decodeSnapshot(data); err == nil {
			again, err := decodeSnapshot(encodeSnapshot(table))
			require.NoError(t, err)
			require.Equal(t, len(table), len(again))
		}
		_, _ = parseCleanShutdown(data)
	})
}

// FuzzAppend appends any bytes as a client and as a leader's: they are refused or come back as they
// went in, and a restart agrees.
func FuzzAppend(f *testing.F) {
	f.Add([]byte(goldenBatch(f)))
	f.Add(producerBatch(f, 1, 2, 3, 4))
	f.Add(append(batchOf(f, 1, 10, t0), batchOf(f, 2, 10, t0)...))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, origin := range []Origin{FromClient, FromCoordinator, Replicated} {
			fsys := vfs.NewMem()
			d := mustOpen(t, fsys, "/data")
			c := DefaultConfig()
			c.Compact = true
			l := mustCreate(t, d, c)
			_, err := l.Append(bytes.Clone(data), AppendOptions{Origin: origin})
			if err != nil {
				require.Zero(t, l.EndOffset())
				require.NoError(t, l.Err())
				continue
			}
			require.Equal(t, int64(len(data)), l.Size())
			require.NoError(t, d.Close())
			d = mustOpen(t, fsys, "/data")
			again, _ := d.Log(tp0)
			require.NoError(t, again.Err())
			require.Equal(t, l.EndOffset(), again.EndOffset())
			require.NoError(t, d.Close())
		}
	})
}
