package storage

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/vfs"
)

// journalRig is a directory with logs of one topic, synced once, so that the journal takes them.
type journalRig struct {
	t    *testing.T
	disk *vfs.Mem
	fs   *vfs.Fault
	dir  *Dir
	logs []*Log
}

func newJournalRig(t *testing.T, logs int) *journalRig {
	r := &journalRig{t: t, disk: vfs.NewMem()}
	r.fs = vfs.NewFault(r.disk)
	r.dir = mustOpen(t, r.fs, "/data")
	for p := range int32(logs) {
		l, err := r.dir.Create(TopicPartition{"t", p}, topicA, DefaultConfig())
		require.NoError(t, err)
		r.logs = append(r.logs, l)
		r.append(int(p))
	}
	r.flush()
	return r
}

func (r *journalRig) append(i int) { mustAppend(r.t, r.logs[i], batchOf(r.t, 1, 100, t0)) }

// flush makes all durable as group commit does.
func (r *journalRig) flush() {
	r.dir.flush(r.t.Context(), r.logs)
	for _, l := range r.logs {
		require.Equal(r.t, l.EndOffset(), l.SyncedOffset())
	}
}

// requireEnds opens what power cuts leave: the logs must end there, and hold what they held.
func (r *journalRig) requireEnds(ends ...int64) {
	r.t.Helper()
	for seed := range uint64(10) {
		d := mustOpen(r.t, r.disk.CrashClone(seed), "/data")
		for i, end := range ends {
			l, ok := d.Log(TopicPartition{"t", int32(i)})
			require.True(r.t, ok)
			require.NoError(r.t, l.Err())
			require.Equal(r.t, end, l.EndOffset(), "log %d, seed %d", i, seed)
			require.Equal(r.t, readAll(r.t, r.logs[i], 1<<22), readAll(r.t, l, 1<<22))
		}
		_, err := d.opts.FS.Stat("/data/" + fileJournal)
		require.Error(r.t, err, "what was in the journal is in the logs")
		d.Abandon()
	}
}

// TestGroupCommitSyncsOneFileForAllLogs: however many logs a round has, it is one sync, once the
// journal is there.
func TestGroupCommitSyncsOneFileForAllLogs(t *testing.T) {
	r := newJournalRig(t, 6)
	for round := range int64(5) {
		before := r.fs.Count(vfs.OpSync)
		for i := range r.logs {
			r.append(i)
		}
		r.flush()
		if round > 0 {
			require.Equal(t, 1, r.fs.Count(vfs.OpSync)-before)
		}
		r.requireEnds(round+2, round+2, round+2, round+2, round+2, round+2)
	}
	require.NoError(t, r.dir.saveRecoveryPoints())
	points, err := readOffsetCheckpoint(r.fs, "/data/"+fileRecoveryPoints)
	require.NoError(t, err)
	require.Equal(t, int64(1), points[TopicPartition{"t", 0}], "what the files have for sure")
	r.dir.checkpointNow(t.Context())
	points, err = readOffsetCheckpoint(r.fs, "/data/"+fileRecoveryPoints)
	require.NoError(t, err)
	require.Equal(t, int64(6), points[TopicPartition{"t", 0}])
}

// TestJournalKeepsWhatIsLargeOrNotGroupOut: large appends, and logs of other policies, are synced
// by themselves.
func TestJournalKeepsWhatIsLargeOrNotGroupOut(t *testing.T) {
	r := newJournalRig(t, 2)
	mustAppend(t, r.logs[0], batchOf(t, 1, journalAppends, t0))
	before := r.fs.Count(vfs.OpSync)
	r.flush()
	require.Equal(t, 1, r.fs.Count(vfs.OpSync)-before)
	require.False(t, r.dir.journal.used.Load())
	c := DefaultConfig()
	c.Flush = FlushOS
	require.NoError(t, r.logs[1].SetConfig(c))
	r.append(1)
	r.flush()
	require.False(t, r.dir.journal.used.Load())
	r.requireEnds(2, 2)
}

// TestJournalLaps: laps follow each other, rolls come in between, and at each moment a power cut
// leaves what was synced.
func TestJournalLaps(t *testing.T) {
	r := newJournalRig(t, 3)
	r.dir.ShortenJournal(2 << 10)
	c := DefaultConfig()
	c.SegmentBytes = 1500
	require.NoError(t, r.logs[2].SetConfig(c))
	ends := []int64{1, 1, 1}
	first := uint64(0)
	for round := range 40 {
		for i := range r.logs {
			if round%(i+1) == 0 {
				r.append(i)
				ends[i]++
			}
		}
		r.flush()
		r.requireEnds(ends...)
		if first == 0 {
			first = r.dir.journal.generation
		}
	}
	require.Greater(t, r.dir.journal.generation, first+5)
	require.Greater(t, len(*r.logs[2].segments.Load()), 1)
	require.NoError(t, r.dir.Close())
	_, err := r.disk.Stat("/data/" + fileJournal)
	require.Error(t, err, "gone with a clean shutdown")
	r.logs[0], _ = mustOpen(t, r.disk.CrashClone(1), "/data").Log(TopicPartition{"t", 0})
	require.Equal(t, ends[0], r.logs[0].EndOffset())
}

// TestJournalSyncsFilesBeforeTheLapEnds: at half of a short lap somebody is asked to sync the logs'
// files, of which nothing is published; that the end of the lap syncs them stays.
func TestJournalSyncsFilesBeforeTheLapEnds(t *testing.T) {
	r := newJournalRig(t, 3)
	j := r.dir.journal
	r.dir.ShortenJournal(8 << 10)
	for i := range r.logs {
		r.append(i)
	}
	r.flush()
	<-j.ahead // the new file is filled
	var due []int64
	for first := j.generation; j.generation == first; {
		for i := range r.logs {
			r.append(i)
		}
		r.flush()
		if j.dueAhead() {
			require.Len(t, j.ahead, 1, "nobody was asked at %d", j.pos)
			<-j.ahead
			due = append(due, j.pos)
			filed, before := r.logs[0].filed.Load(), r.fs.Count(vfs.OpSync)
			j.syncAhead(t.Context())
			require.Equal(t, 3, r.fs.Count(vfs.OpSync)-before)
			require.Equal(t, filed, r.logs[0].filed.Load())
		}
		end := r.logs[0].EndOffset()
		r.requireEnds(end, end, end)
	}
	require.Greater(t, len(due), 1)
	require.GreaterOrEqual(t, due[0], j.size/2)
	require.Less(t, due[0], j.size)
}

// TestJournalIsFilledAhead: a new file, to its whole size and no further; what is in it stays.
func TestJournalIsFilledAhead(t *testing.T) {
	r := newJournalRig(t, 1)
	j := r.dir.journal
	r.dir.ShortenJournal(journalFill + 5000)
	j.fillAhead()
	require.Zero(t, j.filled, "there is no file")
	r.append(0)
	r.flush()
	require.Len(t, j.ahead, 1)
	j.fillAhead()
	size, err := j.file.Size()
	require.NoError(t, err)
	require.Equal(t, int64(journalFill+5000), size)
	r.requireEnds(2)
	before := r.fs.Count(vfs.OpSync)
	j.fillAhead()
	require.Equal(t, before, r.fs.Count(vfs.OpSync), "it was filled before")
	r.dir.ShortenJournal(2 * journalFill)
	r.fs.Inject(vfs.Rule{Op: vfs.OpSync, Times: 1, Err: syscall.EIO})
	j.fillAhead()
	require.ErrorIs(t, r.logs[0].Err(), ErrDirFailed)
}

// TestJournalFailsTheDirectoryIfAFileIsNotSyncedAhead: the kernel tells once that bytes are lost.
func TestJournalFailsTheDirectoryIfAFileIsNotSyncedAhead(t *testing.T) {
	for _, cause := range []error{syscall.EIO, syscall.ENOSPC} {
		r := newJournalRig(t, 2)
		r.append(0)
		r.flush()
		r.fs.Inject(vfs.Rule{Op: vfs.OpSync, Times: 1, Err: cause})
		r.dir.journal.syncAhead(t.Context())
		require.ErrorIs(t, r.logs[1].Err(), ErrDirFailed, "%v", cause)
	}
}

// TestJournalBringsNothingBack: what was truncated, or deleted with its partition, does not come
// back, though the journal had it and what took its place is not synced.
func TestJournalBringsNothingBack(t *testing.T) {
	r := newJournalRig(t, 2)
	for range 3 {
		r.append(0)
		r.append(1)
	}
	r.flush()
	r.requireEnds(4, 4)
	require.NoError(t, r.logs[0].TruncateTo(2))
	r.requireEnds(2, 4)
	require.NoError(t, r.logs[0].ResetTo(0))
	r.requireEnds(0, 4)
}

// TestJournalForgetsDeletedPartitions: a partition that comes back does not get the records of the
// one before.
func TestJournalForgetsDeletedPartitions(t *testing.T) {
	r := newJournalRig(t, 2)
	r.append(0)
	r.append(1)
	r.flush()
	r.requireEnds(2, 2)
	require.NoError(t, r.dir.Delete(TopicPartition{"t", 1}))
	r.dir.flush(t.Context(), r.logs) // one that was asked for before
	l, err := r.dir.Create(TopicPartition{"t", 1}, topicA, DefaultConfig())
	require.NoError(t, err)
	r.logs[1] = l
	r.requireEnds(2, 0)
	r.append(1)
	r.flush()
	r.requireEnds(2, 1)
	r.append(1)
	r.flush()
	r.requireEnds(2, 2)
}

// TestJournalLeavesCompactedSegmentsAlone: the file that took the place of one which the journal
// has pieces of is not written to.
func TestJournalLeavesCompactedSegmentsAlone(t *testing.T) {
	r := newJournalRig(t, 1)
	l := r.logs[0]
	for range 5 {
		r.append(0)
		r.flush()
	}
	l.mu.Lock()
	require.NoError(t, l.rollLocked(l.end.Load(), "test", t0))
	l.mu.Unlock()
	r.append(0)
	r.flush()
	require.True(t, r.dir.journal.used.Load())
	c, err := l.StartCleaning(t.Context(), 6)
	require.NoError(t, err)
	require.NoError(t, c.Replace(0, 1, func(w *CleanWriter) error {
		return c.EachBatch(0, 5, 1<<20, func(int) error { return nil }, func(b record.Batch) error {
			return w.Append(b)
		})
	}))
	c.Close()
	r.append(0)
	r.flush()
	require.Len(t, readAll(t, l, 1<<22), 3)
	r.requireEnds(8)
}

// TestJournalThatRottedRefusesTheStart: a block that does not read back in front of one that does
// was acknowledged.
func TestJournalThatRottedRefusesTheStart(t *testing.T) {
	r := newJournalRig(t, 2)
	var blocks []int64
	for range 3 {
		r.append(0)
		blocks = append(blocks, max(r.dir.journal.pos, journalBlock))
		r.flush()
	}
	f, err := r.disk.OpenFile("/data/"+fileJournal, vfs.ReadWrite, 0)
	require.NoError(t, err)
	flip := func(at int64) {
		b := make([]byte, 1)
		_, err := f.ReadAt(b, at)
		require.NoError(t, err)
		_, err = f.WriteAt([]byte{b[0] ^ 1}, at)
		require.NoError(t, err)
		require.NoError(t, f.Sync())
	}
	for _, block := range blocks[:2] {
		for _, at := range []int64{0, 5, 9, 20, 27, 100} {
			flip(block + at)
			_, err := OpenDir(t.Context(), DirOptions{FS: r.disk.Clone(), Path: "/data", NodeID: 1})
			require.ErrorIs(t, err, ErrDamaged, "%d", block+at)
			require.ErrorContains(t, err, fmt.Sprintf("%s: ", fileJournal))
			require.ErrorContains(t, err, fmt.Sprintf("at %d", block))
			flip(block + at)
		}
	}
	flip(3) // the start block: the rest is there
	r.requireEnds(4, 1)
	flip(3)
	flip(blocks[2] + 30) // as if it had torn
	d := mustOpen(t, r.disk.CrashClone(1), "/data")
	l, _ := d.Log(TopicPartition{"t", 0})
	require.GreaterOrEqual(t, l.EndOffset(), int64(3))
}

// TestJournalWrittenByHand: the bytes of doc.go's table, put together here.
func TestJournalWrittenByHand(t *testing.T) {
	id := uuid.MustParse("00112233-4455-6677-8899-aabbccddeeff")
	block := func(pos, generation uint64, pieces string) []byte {
		b := append([]byte("MSGJ\x00\x00\x00\x00"), make([]byte, 20)...)
		binary.BigEndian.PutUint64(b[8:], generation)
		binary.BigEndian.PutUint64(b[16:], pos)
		b = append(b, pieces...)
		binary.BigEndian.PutUint32(b[24:], uint32(len(b)))
		binary.BigEndian.PutUint32(b[4:], crc32.Checksum(b[8:], crc32.MakeTable(crc32.Castagnoli)))
		return append(b, make([]byte, (512-len(b)%512)%512)...)
	}
	one := string(id[:]) + "\x00\x00\x00\x00\x00\x00\x00\x2a" + "\x00\x00\x00\x00\x00\x00\x01\x00" +
		"\x00\x00\x00\x07" + "\x00\x06" + "\x00\x00\x00\x03" + "orders" + "abc"
	data := append(block(0, 9, ""), block(512, 9, one+one)...)
	data = append(data, block(1024, 8, one)...)
	got, err := parseJournal(data)
	require.NoError(t, err)
	want := piece{tp: TopicPartition{"orders", 7}, topicID: id, base: 42, pos: 256,
		bytes: []byte("abc")}
	require.Equal(t, []piece{want, want}, got, "the block of the lap before does not count")
	_, err = parseJournal(append(block(0, 9, ""), block(512, 9, one[:40])...))
	require.ErrorIs(t, err, ErrBadFile)
}

// FuzzJournal: whatever bytes are there, they are read or refused.
func FuzzJournal(f *testing.F) {
	f.Add(append([]byte("MSGJ"), make([]byte, 2*journalBlock)...))
	f.Fuzz(func(t *testing.T, data []byte) {
		pieces, err := parseJournal(data)
		if err != nil {
			require.Empty(t, pieces)
		}
		for pos := 0; pos+journalHeader <= len(data) && pos < 4*journalBlock; pos += journalBlock {
			// The same bytes with a right CRC get further.
			b := data[pos:]
			copy(b, journalMagic[:])
			binary.BigEndian.PutUint64(b[8:], 1)
			binary.BigEndian.PutUint64(b[16:], uint64(pos))
			if n := binary.BigEndian.Uint32(b[24:]); n >= journalHeader && int64(n) <= int64(len(b)) {
				binary.BigEndian.PutUint32(b[4:], crc32.Checksum(b[8:n], castagnoli))
			}
		}
		_, _ = parseJournal(data)
	})
}
