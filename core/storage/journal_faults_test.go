package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/vfs"
)

// journalFault is one operation of group commit that fails. Its path is the journal's, that of the
// logs' files, or of their directory.
type journalFault struct {
	op      vfs.Op
	path    string
	err     error
	partial int64 // bytes that the refused write writes
}

func (f journalFault) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %v %d", f.op, f.path, f.err, f.partial))
}

// passing says that there was no room or no descriptor, and nothing worse.
func (f journalFault) passing() bool {
	return f.err == syscall.EMFILE || f.err == syscall.EDQUOT ||
		f.err == syscall.ENOSPC && f.op != vfs.OpSync
}

var journalFaults = []journalFault{
	{vfs.OpWrite, fileJournal, syscall.EIO, 0}, {vfs.OpWrite, fileJournal, syscall.EIO, 7},
	{vfs.OpWrite, fileJournal, syscall.EIO, 300}, {vfs.OpWrite, fileJournal, syscall.ENOSPC, 0},
	{vfs.OpWrite, fileJournal, syscall.ENOSPC, 33}, {vfs.OpWrite, fileJournal, syscall.ENOSPC, 512},
	{vfs.OpWrite, fileJournal, syscall.EDQUOT, 40}, {vfs.OpWrite, fileJournal, errShort, 20},
	{vfs.OpSync, fileJournal, syscall.EIO, 0}, {vfs.OpSync, fileJournal, syscall.ENOSPC, 0},
	{vfs.OpCreate, fileJournal, syscall.EIO, 0}, {vfs.OpCreate, fileJournal, syscall.ENOSPC, 0},
	{vfs.OpCreate, fileJournal, syscall.EMFILE, 0}, {vfs.OpRemove, fileJournal, syscall.EIO, 0},
	{vfs.OpSync, ".log", syscall.EIO, 0}, {vfs.OpSync, ".log", syscall.ENOSPC, 0},
	{vfs.OpSyncDir, "", syscall.EIO, 0}, {vfs.OpSyncDir, "", syscall.EMFILE, 0},
	{vfs.OpWrite, ".log", syscall.EIO, 9}, {vfs.OpWrite, ".log", syscall.ENOSPC, 9},
}

// errShort is a write that wrote less than it was asked to, without the kernel's reason.
var errShort = errors.New("short write")

// journalLife is a directory with group commit from its start to its end, on a disk of which one
// operation fails.
type journalLife struct {
	t     *testing.T
	fs    vfs.FS
	dir   *Dir
	logs  []*Log
	acked [3]int64 // offsets below were told to be durable
	laps  uint64
	// closing says that all work is done but for the last checkpoint, which may be refused.
	closing bool
}

// run appends to three logs, one of which rolls often, and has the journal take several laps, a
// truncation that voids it, and a checkpoint. It returns at the first error that is not a refusal.
func (j *journalLife) run() error {
	dir, err := OpenDir(j.t.Context(), DirOptions{FS: j.fs, Path: "/data", NodeID: 1,
		Now: newTestClock().now})
	if err != nil {
		return err
	}
	j.dir = dir
	dir.ShortenJournal(2 << 10)
	for p := range int32(3) {
		c := DefaultConfig()
		if p == 2 {
			c.SegmentBytes = 1500
		}
		if err := retryRefused(func() error {
			l, err := dir.Create(TopicPartition{"t", p}, topicA, c)
			if err == nil {
				j.logs = append(j.logs, l)
			}
			return err
		}); err != nil {
			return err
		}
	}
	first := uint64(0)
	for round := range 12 {
		if err := j.round(round); err != nil {
			return err
		}
		if g := dir.journal.generation; first == 0 {
			first = g
		} else if g > first {
			j.laps = max(j.laps, g-first)
		}
	}
	j.closing = true
	return dir.Close()
}

func (j *journalLife) round(round int) error {
	for i, l := range j.logs {
		if round%(i+1) != 0 {
			continue
		}
		if err := retryRefused(func() error {
			_, err := l.Append(batchOf(j.t, 1, 100, t0), AppendOptions{})
			return err
		}); err != nil {
			return err
		}
	}
	for range 3 { // what was refused its sync asks again
		j.dir.flush(j.t.Context(), j.logs)
		for i, l := range j.logs {
			j.acked[i] = l.SyncedOffset()
		}
		if err := j.dir.Err(); err != nil {
			return err
		}
	}
	switch round {
	case 7:
		j.acked[0] = 3
		return retryRefused(func() error { return j.logs[0].TruncateTo(3) })
	case 9:
		j.dir.checkpointNow(j.t.Context())
	}
	return j.dir.Err()
}

func retryRefused(step func() error) error {
	for tries := 0; ; tries++ {
		err := step()
		if tries == 5 || !errors.Is(err, ErrNoSpace) && !errors.Is(err, ErrNoFiles) {
			return err
		}
	}
}

// TestAnyOperationOfGroupCommitMayFail has each operation of the journal's life fail once, in each
// way it can: while it is made, in the middle of a lap, where a lap wraps, at the sync of the logs'
// own files, and where it is voided. For want of room or descriptors group commit goes on in the
// logs' files; whatever else fails, the directory fails with the file and the reason, and no file
// is synced again. After a power cut, what was told to be durable is there.
func TestAnyOperationOfGroupCommitMayFail(t *testing.T) {
	whole := journalLife{t: t, fs: vfs.NewMem()}
	require.NoError(t, whole.run())
	require.GreaterOrEqual(t, whole.laps, uint64(2), "the faults below must meet several laps")
	for _, fault := range journalFaults {
		t.Run(fault.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hits := 0
				for nth := 1; failOnce(t, fault, nth); nth++ {
					hits++
				}
				t.Logf("%d operations failed", hits)
				require.Positive(t, hits)
			})
		})
	}
}

// failOnce has the nth operation fail; false if there were not so many.
func failOnce(t *testing.T, fault journalFault, nth int) (hit bool) {
	disk := vfs.NewMem()
	faulty := vfs.NewFault(disk)
	faulty.Inject(vfs.Rule{Op: fault.op, Path: fault.path, Nth: nth, Times: 1, Err: fault.err,
		Partial: fault.partial})
	var mu sync.Mutex // logs are synced side by side
	seen, failed := 0, ""
	again := map[string]int{}
	j := &journalLife{t: t, fs: vfs.NewTrace(faulty, func(line string) {
		mu.Lock()
		defer mu.Unlock()
		op, name, _ := strings.Cut(line, " ")
		name, _, _ = strings.Cut(name, " ")
		if op == string(vfs.OpSync) && failed != "" {
			again[name]++
		}
		if op == string(fault.op) && strings.Contains(name, fault.path) {
			if seen++; seen == nth {
				failed = name
			}
		}
	})}
	err := j.run()
	where := fmt.Sprintf("%v, number %d (%s)", fault, nth, failed)
	if failed == "" {
		require.NoError(t, err, where)
		return false
	}
	switch {
	case fault.passing() && err != nil && (j.dir == nil || j.closing):
		require.ErrorIs(t, err, fault.err, where)
	case fault.passing():
		require.NoError(t, err, where)
		for i, l := range j.logs {
			require.Equal(t, l.EndOffset(), j.acked[i], where)
		}
	case j.dir != nil && j.dir.Err() != nil:
		require.ErrorIs(t, j.dir.Err(), ErrDirFailed, where)
		require.ErrorIs(t, j.dir.Err(), fault.err, where)
		require.ErrorContains(t, j.dir.Err(), failed, where)
		if fault.op == vfs.OpSync {
			require.Zero(t, again[failed], "%s: synced again", where)
		}
	default:
		require.Error(t, err, where)
	}
	if j.dir != nil {
		j.dir.Abandon()
	}
	for seed := range uint64(3) {
		j.requireKept(disk.CrashClone(seed), fmt.Sprintf("%s, seed %d", where, seed))
	}
	return true
}

// requireKept opens a disk and looks for what was told to be durable.
func (j *journalLife) requireKept(disk *vfs.Mem, where string) {
	dir, err := OpenDir(j.t.Context(), DirOptions{FS: disk, Path: "/data", NodeID: 1})
	require.NoError(j.t, err, where)
	defer dir.Abandon()
	for i, l := range j.logs {
		again, ok := dir.Log(l.TopicPartition())
		require.True(j.t, ok || j.acked[i] == 0, where)
		if ok {
			require.NoError(j.t, again.Err(), where)
			require.GreaterOrEqual(j.t, again.EndOffset(), j.acked[i], "%s: log %d", where, i)
		}
	}
}

// TestJournalCutShort: a journal that ends early, at any length, is what a crash may leave as well.
// What is in front of the cut is there, in order, and nothing else.
func TestJournalCutShort(t *testing.T) {
	r := newJournalRig(t, 2)
	for range 4 {
		r.append(0)
		r.append(1)
		r.flush()
	}
	f, err := r.disk.OpenFile("/data/"+fileJournal, vfs.ReadWrite, 0)
	require.NoError(t, err)
	size, err := f.Size()
	require.NoError(t, err)
	used := r.dir.journal.pos
	last := int64(5)
	for cut := min(size, used+journalBlock); cut >= 0; cut -= 61 {
		require.NoError(t, f.Truncate(cut))
		require.NoError(t, f.Sync())
		d := mustOpen(t, r.disk.CrashClone(uint64(cut)), "/data")
		end := int64(0)
		for i := range r.logs {
			l, _ := d.Log(TopicPartition{"t", int32(i)})
			require.NoError(t, l.Err(), "cut at %d", cut)
			end = max(end, l.EndOffset())
			whole, got := readAll(t, r.logs[i], 1<<22), readAll(t, l, 1<<22)
			for offset, value := range got {
				require.Equal(t, whole[offset], value, "cut at %d", cut)
			}
			require.Contains(t, got, int64(0), "what was synced in the log's own file")
		}
		require.LessOrEqual(t, end, int64(5))
		last = min(last, end)
		d.Abandon()
	}
	require.Less(t, last, int64(5), "no cut was noticed: the crash kept all pages by itself")
}

// TestJournalTakesNoBlocksFromClients: a record may hold the bytes of a block, in the place where
// the blocks of the next lap will end. They must not be taken for one: whoever may write to one
// topic could write into another, past its rules.
func TestJournalTakesNoBlocksFromClients(t *testing.T) {
	r := newJournalRig(t, 1)
	r.dir.ShortenJournal(2 << 10)
	tp := TopicPartition{"victim", 0}
	victim, err := r.dir.Create(tp, topicB, DefaultConfig())
	require.NoError(t, err)
	mustAppend(t, victim, batchOf(t, 1, 100, t0))
	require.NoError(t, victim.Sync(t.Context()))
	injected := batchOf(t, 1, 100, t0)
	binary.BigEndian.PutUint64(injected, 1) // its base offset
	want := readAll(t, victim, 1<<22)
	r.append(0)
	r.flush()                                   // makes the journal
	for _, generation := range []uint64{2, 3} { // those that counting from 1 gives
		pos := r.dir.journal.pos + journalBlock
		block := forgedBlock(generation, uint64(pos), tp, victim.Size(), injected)
		mustAppend(t, r.logs[0], alignedTo(t, block, journalBlock-journalHeader-pieceHeader-1))
		r.flush()
		data, err := vfs.ReadFile(r.disk, "/data/"+fileJournal)
		require.NoError(t, err)
		require.Equal(t, block, data[pos:pos+int64(len(block))], "the bytes are not where they count")
		for lap := r.dir.journal.generation; r.dir.journal.generation == lap || r.dir.journal.pos < pos; {
			r.append(0)
			r.flush()
		}
		require.Equal(t, pos, r.dir.journal.pos, "the lap does not end in front of them")
		d := mustOpen(t, r.disk.Clone(), "/data")
		l, _ := d.Log(tp)
		require.Equal(t, want, readAll(t, l, 1<<22), "generation %d", generation)
		d.Abandon()
	}
}

// forgedBlock is a block with one piece, put together by the table.
func forgedBlock(generation, pos uint64, tp TopicPartition, at int64, data []byte) []byte {
	b := append([]byte("MSGJ"), make([]byte, journalHeader-4)...)
	binary.BigEndian.PutUint64(b[8:], generation)
	binary.BigEndian.PutUint64(b[16:], pos)
	b = append(b, topicB[:]...)
	b = binary.BigEndian.AppendUint64(b, 0)
	b = binary.BigEndian.AppendUint64(b, uint64(at))
	b = binary.BigEndian.AppendUint32(b, uint32(tp.Partition))
	b = binary.BigEndian.AppendUint16(b, uint16(len(tp.Topic)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
	b = append(append(b, tp.Topic...), data...)
	binary.BigEndian.PutUint32(b[24:], uint32(len(b)))
	binary.BigEndian.PutUint32(b[4:], crc32.Checksum(b[8:], castagnoli))
	return b
}

// alignedTo is a batch that has the bytes at an index.
func alignedTo(t *testing.T, value []byte, index int) []byte {
	t.Helper()
	for pad := range index {
		b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: -1})
		b.Append(record.Record{Timestamp: t0, Value: append(make([]byte, pad), value...)})
		batch, err := b.Build()
		require.NoError(t, err)
		if bytes.Index(batch, value) == index {
			return batch
		}
	}
	t.Fatalf("no padding puts the value at %d", index)
	return nil
}
