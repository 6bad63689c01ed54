package storage

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/millstream-io/millstream/core/vfs"
)

// The journal is where group commit puts small appends of several logs, so that one fdatasync does
// for all of them. It is a file of the data directory:
//
//	offset size
//	     0  512 start block: a block without pieces
//	   512      blocks, each padded to a multiple of 512
//
// A block, big-endian:
//
//	 0    4 "MSGJ"
//	 4    4 CRC-32C of what follows, without the padding
//	 8    8 generation: those of another one than the start block's are left from the lap before.
//	        The first one of a file is random, each lap adds 1: records' bytes lie between blocks,
//	        and nobody shall write a record that passes for a block
//	16    8 position of the block in the file
//	24    4 length, from the magic to the last piece
//	28      pieces
//
// A piece is what a .log file has at a position, to be written there again:
//
//	 0   16 topic id
//	16    8 base offset of the segment
//	24    8 position in its .log
//	32    4 partition
//	36    2 length of the topic's name
//	38    4 length of the bytes
//	42      the name, the bytes
//
// Rules:
//
//   - A piece begins where the .log was durable before: in the file itself, or by an earlier piece.
//   - A piece names a file that has a durable name, and a segment that is active.
//   - Before a .log file can hold anything else at such a position (truncation, compaction, a
//     partition that goes and comes back), the files are synced and the journal is removed.
//   - At the end of a lap the files are synced before the next start block is written.
//
// So writing all pieces again is right at any time, as often as one likes. A start after anything
// but a clean shutdown does that (journal_replay.go) before it opens a log.
const (
	journalBlock   = 512 // alignment of blocks
	journalHeader  = 28
	pieceHeader    = 42
	journalBytes   = 8 << 20   // from where on a new lap begins
	journalRound   = 256 << 10 // most that is taken at once
	journalFill    = 256 << 10 // how far a round fills the file with zeros ahead
	journalAppends = 64 << 10  // a log with more than that to be synced is synced by itself
)

var journalMagic = [4]byte{'M', 'S', 'G', 'J'}

// groupJournal is the writer's side. All but used belongs to who holds the token.
type groupJournal struct {
	dir *Dir
	// size is from where on a new lap begins.
	size int64
	// token is held over I/O. It comes behind Log.segmentsToken and before Log.syncToken.
	token chan struct{}
	// used says that there is a file.
	used atomic.Bool

	file vfs.File
	// named says that the file's name is durable.
	named      bool
	generation uint64
	pos        int64 // of the next block
	filled     int64 // from here on the file was never written
	buf        []byte
	// logs have pieces of this generation.
	logs map[*Log]struct{}
	// aheadAt is the position from which on the logs' files are to be synced before the lap ends.
	aheadAt int64
	// ahead wakes who does that, and fills the file.
	ahead chan struct{}
	// round is reused.
	round []journaled
}

// journaled is a log whose bytes are in the block that is being written. Its sync token is held.
type journaled struct {
	log  *Log
	end  int64 // offset
	size int64 // of its active segment
}

func (j *groupJournal) path() string { return filepath.Join(j.dir.opts.Path, fileJournal) }

// commit makes what the logs have to be synced durable in the journal and returns those it could
// not take: they need a sync of their own.
func (j *groupJournal) commit(logs []*Log) (rest []*Log) {
	if len(logs) == 0 || j.dir.failure() != nil {
		return logs
	}
	j.token <- struct{}{}
	defer func() { <-j.token }()
	if err := j.nextLap(); err != nil {
		j.refuse(err)
		return logs
	}
	began := time.Now()
	rest = j.collect(logs)
	if len(j.round) == 0 {
		return rest
	}
	err := j.write()
	if err == nil {
		j.dir.count.Syncs.Observe(time.Since(began))
	}
	moved := j.round[:0]
	for _, r := range j.round {
		if err != nil {
			rest = append(rest, r.log)
		} else if j.logs[r.log] = struct{}{}; r.log.journaledTo(r.end, r.size) {
			moved = append(moved, r)
		}
		r.log.giveToken()
	}
	j.refuse(err)
	for _, r := range moved {
		r.log.notify()
	}
	clear(j.round[:cap(j.round)])
	j.round = j.round[:0]
	return rest
}

// refuse sorts why the journal could not be written: a full disk, or no descriptor left, makes the
// logs sync their own files; anything else fails the directory.
func (j *groupJournal) refuse(err error) {
	if err != nil && !isRefused(err) {
		j.dir.fail(err)
	}
}

// collect builds the next block. It takes the sync tokens of the logs in it.
func (j *groupJournal) collect(logs []*Log) (rest []*Log) {
	j.buf = append(j.buf[:0], make([]byte, journalHeader)...)
	for i, l := range logs {
		select {
		case l.syncToken <- struct{}{}:
		default: // it is being synced, or waits for the journal
			rest = append(rest, l)
			continue
		}
		if r, ok := j.add(l); ok {
			j.round = append(j.round, r)
			continue
		}
		l.giveToken()
		rest = append(rest, logs[i])
	}
	return rest
}

// add appends a piece with what the log has to be synced; false if the journal cannot take it.
func (j *groupJournal) add(l *Log) (journaled, bool) {
	l.queued.Store(false) // from here on, an append queues the log again
	s, r, ok := l.journalable()
	if !ok {
		return r, false
	}
	defer s.release()
	n := int(r.size - l.covered.pos)
	if len(j.buf)+pieceHeader+len(l.tp.Topic)+n > journalRound {
		return r, false
	}
	at := len(j.buf)
	id := l.TopicID()
	b := append(j.buf, id[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(s.base))
	b = binary.BigEndian.AppendUint64(b, uint64(l.covered.pos))
	b = binary.BigEndian.AppendUint32(b, uint32(l.tp.Partition))
	b = binary.BigEndian.AppendUint16(b, uint16(len(l.tp.Topic)))
	b = binary.BigEndian.AppendUint32(b, uint32(n))
	b = append(b, l.tp.Topic...)
	j.buf = append(b, make([]byte, n)...)
	if got, _ := s.log.ReadAt(j.buf[len(b):], l.covered.pos); got < n { // its own sync tells why
		j.buf = j.buf[:at]
		return r, false
	}
	return r, true
}

// journalable returns what the journal needs of the log; the segment is acquired. The caller holds
// the sync token.
func (l *Log) journalable() (*segment, journaled, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed.Load() || len(*l.segments.Load()) == 0 {
		return nil, journaled{}, false
	}
	s := l.active()
	r := journaled{log: l, end: l.end.Load(), size: s.state().size}
	n := r.size - l.covered.pos
	ok := l.config.Load().Flush == FlushGroup && l.unjournaled.Load() == 0 &&
		!l.dirDirty.Load() && l.covered.segment == s && n > 0 && n <= journalAppends &&
		l.TopicID() != uuid.Nil && s.indexBacklog() < indexFlushBytes
	return s, r, ok && s.acquire()
}

// journaledTo publishes that all below end is durable. The caller holds the sync token.
func (l *Log) journaledTo(end, size int64) (moved bool) {
	l.covered.pos = size
	l.unsynced.Store(0)
	if end <= l.synced.Load() {
		return false
	}
	l.synced.Store(end)
	return true
}

// write makes the block in buf durable.
func (j *groupJournal) write() error {
	if j.file == nil {
		if err := j.create(); err != nil {
			return err
		}
	}
	if err := j.fill(j.pos + int64(len(j.buf))); err != nil {
		return err
	}
	if err := j.writeBlock(j.buf, j.pos); err != nil {
		return err
	}
	j.pos += (int64(len(j.buf)) + journalBlock - 1) / journalBlock * journalBlock
	if j.pos >= j.aheadAt {
		wake(j.ahead)
	}
	return nil
}

// fill writes zeros where the first lap comes next, at least up to end. Syncing what takes the
// place of something costs a third less than syncing a file that grows.
func (j *groupJournal) fill(end int64) error {
	if end <= j.filled || j.filled >= j.size {
		return nil
	}
	zeros := make([]byte, max(end, min(j.filled+journalFill, j.size))-j.filled)
	n, err := j.file.WriteAt(zeros, j.filled)
	if err := errors.Join(err, shortWrite(n, len(zeros))); err != nil {
		return fmt.Errorf("write %s at %d: %w", j.path(), j.filled, err)
	}
	j.filled += int64(len(zeros))
	return nil
}

// writeBlock completes a block's header, writes it at pos and syncs it.
func (j *groupJournal) writeBlock(b []byte, pos int64) error {
	copy(b, journalMagic[:])
	binary.BigEndian.PutUint64(b[8:], j.generation)
	binary.BigEndian.PutUint64(b[16:], uint64(pos))
	binary.BigEndian.PutUint32(b[24:], uint32(len(b)))
	binary.BigEndian.PutUint32(b[4:], crc32.Checksum(b[8:], castagnoli))
	n, err := j.file.WriteAt(b, pos)
	if err != nil || n < len(b) {
		return fmt.Errorf("write %s at %d: %w", j.path(), pos, errors.Join(err, shortWrite(n, len(b))))
	}
	if err := j.file.Datasync(); err != nil {
		return syncFileError(j.path(), err)
	}
	return nil
}

func shortWrite(n, want int) error {
	if n == want {
		return nil
	}
	return fmt.Errorf("short write of %d of %d bytes", n, want)
}

// nextLap begins at the front of the file when it is full.
func (j *groupJournal) nextLap() error {
	if j.file == nil || j.pos < j.size {
		return nil
	}
	if err := j.syncLogs(); err != nil {
		return err
	}
	j.generation++
	j.pos = j.size // until the start block is there, nothing may be written
	return j.start()
}

// create makes the file.
func (j *groupJournal) create() error {
	f, err := j.dir.opts.FS.OpenFile(j.path(), vfs.ReadWrite|vfs.Create|vfs.Truncate, 0o644)
	if err != nil {
		return fmt.Errorf("create %s: %w", j.path(), err)
	}
	j.file, j.named, j.generation, j.pos, j.filled = f, false, firstGeneration(), j.size, 0
	j.used.Store(true)
	wake(j.ahead)
	return j.start()
}

// firstGeneration is a random number with much room above it.
func firstGeneration() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.BigEndian.Uint64(b[:])>>2 + 1
}

// start writes the start block.
func (j *groupJournal) start() error {
	if err := j.writeBlock(make([]byte, journalHeader), 0); err != nil {
		return err
	}
	if !j.named {
		if err := syncDir(j.dir.opts.FS, j.dir.opts.Path); err != nil {
			return err
		}
		j.named = true
	}
	j.pos = journalBlock
	j.aheadAt = j.pos + j.aheadStep()
	return nil
}

// syncLogs makes what the journal has durable in the logs' own files.
func (j *groupJournal) syncLogs() error {
	list := make([]*Log, 0, len(j.logs))
	for l := range j.logs {
		list = append(list, l)
	}
	var failed atomic.Pointer[error]
	inWorkers(list, func(l *Log) {
		if err := l.fileSync(); err != nil && !errors.Is(err, ErrClosed) {
			failed.Store(&err)
		}
	})
	if err := failed.Load(); err != nil {
		return *err
	}
	clear(j.logs)
	return nil
}

// fileSync syncs the log's own files.
func (l *Log) fileSync() error {
	l.syncToken <- struct{}{}
	moved, err := false, error(nil)
	if !l.closed.Load() && (l.filed.Load() < l.end.Load() || l.dirDirty.Load()) {
		moved, err = l.syncWithToken()
	}
	l.giveToken()
	if moved {
		l.notify()
	}
	return err
}

// voidJournal implements logOwner.
func (d *Dir) voidJournal() error { return d.journal.void() }

// void syncs the logs' own files and removes the journal, durably. The caller holds no sync token.
func (j *groupJournal) void() error {
	if !j.used.Load() {
		return nil
	}
	j.token <- struct{}{}
	defer func() { <-j.token }()
	if !j.used.Load() {
		return nil
	}
	if err := j.syncLogs(); err != nil {
		return err
	}
	if err := j.remove(); err != nil {
		return err
	}
	if err := syncDir(j.dir.opts.FS, j.dir.opts.Path); err != nil {
		return j.dir.diskError(err)
	}
	j.used.Store(false)
	return nil
}

// remove closes and unlinks the file.
func (j *groupJournal) remove() error {
	if j.file != nil {
		_ = j.file.Close() // all in it is in other files
		j.file = nil
	}
	if err := j.dir.opts.FS.Remove(j.path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return j.dir.diskError(fmt.Errorf("remove %s: %w", j.path(), err))
	}
	return nil
}

// abandon closes the file as the end of the process does.
func (j *groupJournal) abandon() {
	j.token <- struct{}{}
	defer func() { <-j.token }()
	if j.file != nil {
		_ = j.file.Close() // what was acknowledged is synced
		j.file = nil
	}
}
