package storage

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"
	"github.com/millstream-io/millstream/core/vfs"
)

// Log is one partition's log. All methods are safe for concurrent use.
//
// Invariants: start <= end, synced <= end; the segments are in offset order, there is always one,
// and the last one is active.
type Log struct {
	tp     TopicPartition
	fsys   vfs.FS
	logger *slog.Logger
	clock  func() int64 // wall clock, ms
	owner  logOwner     // the Dir

	path    atomic.Pointer[string] // of the directory; changes when the partition is deleted
	topicID atomic.Pointer[uuid.UUID]
	config  atomic.Pointer[Config]
	damaged atomic.Pointer[error] // why the log is offline; nil = it is not
	closed  atomic.Bool

	start         atomic.Int64 // first offset that can be read
	end           atomic.Int64 // offset of the next record
	synced        atomic.Int64 // everything before it is on the disk for sure
	filed         atomic.Int64 // everything before it is so in the log's own files; <= synced
	highWatermark atomic.Int64 // set by the replica; bounds retention; stored in the checkpoint
	// firstUnstable is the first offset of a transaction that is open, or decided by a marker that
	// is not below the high watermark; noUnstable if none. It is published before end, and changed
	// under mu.
	firstUnstable atomic.Int64
	decided       atomic.Int64 // transactions of the latter kind; changed under mu

	segments atomic.Pointer[[]*segment] // replaced under mu, read without
	epochs   atomic.Pointer[epochList]  // replaced under mu, read without

	// mu is the append lock. It is held over writes to the page cache, never over a sync of data.
	mu struct {
		sync.Mutex
		producers      producerTable
		txns           txnTable
		guards         guardTable
		lastAppendTime int64 // of LogAppendTime, so that it never goes back, ms
		epochsPending  bool  // epochs has entries that its file has not
		untrimmed      bool  // a failed write left bytes behind the end of the active segment
		startUnsaved   bool  // a start that DeleteRecordsBefore raised is not on the disk yet
	}

	// syncToken is held (by a value in it) while the log is synced, truncated or closed. It comes
	// before mu in the lock order. A channel, because it is held over I/O.
	syncToken chan struct{}
	// covered is up to where the active segment's .log is durable, in the file or by the journal's
	// pieces. Its segment is nil or an older one while that is not known. The sync token guards it.
	covered struct {
		segment *segment
		pos     int64
	}
	unjournaled atomic.Int32 // who keeps the log out of the journal for now
	dirDirty    atomic.Bool  // names in the directory changed since its last sync
	unsynced    atomic.Int64 // bytes appended since the last sync was asked for
	queued      atomic.Bool  // the log waits in the Dir's flusher
	timed       atomic.Bool  // a timer of flush.ms runs
	retrying    atomic.Bool  // a timer of syncRetry runs

	known atomic.Bool // the recovery point checkpoint has a line of this log

	producerCount atomic.Int64 // of mu.producers, for who must not wait for mu

	// cleaned is up to where compaction has read the log, -1 if it never did.
	cleaned atomic.Int64
	// cleaning says that a Cleaning is open.
	cleaning atomic.Bool
	// rewinds counts truncations and resets, by which a Cleaning finds out that it is void. The
	// segments token guards its changes.
	rewinds atomic.Int64
	// segmentsToken is held while segments' files are renamed or removed. It comes before the sync
	// token in the lock order. A channel, because it is held over I/O.
	segmentsToken chan struct{}

	listeners struct {
		sync.Mutex
		list atomic.Pointer[[]*listener]
	}
}

// logOwner is what a Log needs of its Dir.
type logOwner interface {
	// failure returns the error that failed the directory, or nil.
	failure() error
	// fail fails the directory for good.
	fail(err error)
	// limits are the directory's settings.
	limits() *DirSettings
	// counters are the directory's.
	counters() *Counters
	// requestSync queues the log for the flusher.
	requestSync(l *Log)
	// removeLater unlinks a path after a delay.
	removeLater(path string, delayMS int64)
	// saveRecoveryPoints writes the recovery point checkpoint now.
	saveRecoveryPoints() error
	// room refuses n more bytes (ErrNoSpace) that would use the space that is kept.
	room(n int) error
	// saveStartOffsets writes the log start checkpoint now.
	saveStartOffsets() error
	// saveCleanedOffsets writes the cleaner checkpoint now.
	saveCleanedOffsets() error
	// voidJournal makes sure that a start writes nothing again that is in segments' files now. The
	// caller holds no sync token, and has counted up unjournaled where a segment is active.
	voidJournal() error
}

type listener struct{ fn func() }

// newLog returns a log without segments; open finds or makes them.
func newLog(owner logOwner, fsys vfs.FS, path string, tp TopicPartition, c Config) *Log {
	l := &Log{tp: tp, fsys: fsys, owner: owner, logger: slog.New(slog.DiscardHandler),
		syncToken: make(chan struct{}, 1), segmentsToken: make(chan struct{}, 1)}
	l.cleaned.Store(-1)
	l.path.Store(&path)
	l.topicID.Store(&uuid.Nil)
	l.config.Store(&c)
	l.segments.Store(&[]*segment{})
	l.epochs.Store(&epochList{})
	l.mu.producers = producerTable{}
	l.firstUnstable.Store(noUnstable)
	return l
}

// TopicPartition returns the log's name.
func (l *Log) TopicPartition() TopicPartition { return l.tp }

// TopicID returns the id of the topic's incarnation; uuid.Nil in a directory made by a Kafka too
// old to have ids, until Dir.Create adopts it.
func (l *Log) TopicID() uuid.UUID { return *l.topicID.Load() }

// Config returns the configuration in force.
func (l *Log) Config() Config { return *l.config.Load() }

// SetConfig changes the configuration for what comes next. The zero Config is DefaultConfig. The
// error is ErrInvalidConfig.
func (l *Log) SetConfig(c Config) error {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return fmt.Errorf("configure %s: %w", l.tp, err)
	}
	l.config.Store(&c)
	return nil
}

// StartOffset returns the first offset that can be read.
func (l *Log) StartOffset() int64 { return l.start.Load() }

// EndOffset returns the offset that the next record gets.
func (l *Log) EndOffset() int64 { return l.end.Load() }

// SyncedOffset returns the offset below which all records are on the disk for sure.
func (l *Log) SyncedOffset() int64 { return l.synced.Load() }

// HighWatermark returns what SetHighWatermark was last told, or the checkpoint said at open.
func (l *Log) HighWatermark() int64 { return l.highWatermark.Load() }

// SetHighWatermark says below which offset all records are committed. Retention never deletes
// beyond it, and the last stable offset follows it. Only truncation takes it back: a smaller offset
// than the last one, of a caller that came late, changes nothing.
func (l *Log) SetHighWatermark(offset int64) {
	for {
		old := l.highWatermark.Load()
		if offset <= old {
			return
		}
		if l.highWatermark.CompareAndSwap(old, offset) {
			l.settleTransactions(offset)
			return
		}
	}
}

// Size returns the bytes of all .log files.
func (l *Log) Size() int64 {
	var n int64
	for _, s := range *l.segments.Load() {
		n += s.state().size
	}
	return n
}

// Err returns why the log cannot be used: ErrDamaged, ErrClosed, ErrDirFailed; nil if it can.
// Reading still works after ErrDirFailed.
func (l *Log) Err() error {
	if err := l.readable(); err != nil {
		return err
	}
	return l.owner.failure()
}

// readable returns why not even reading works.
func (l *Log) readable() error {
	if err := l.damaged.Load(); err != nil {
		return *err
	}
	if l.closed.Load() {
		return fmt.Errorf("%s: %w", l.tp, ErrClosed)
	}
	return nil
}

// dir returns the directory's path.
func (l *Log) dir() string { return *l.path.Load() }

// active returns the segment that is appended to. mu or the sync token must be held to use it.
func (l *Log) active() *segment {
	list := *l.segments.Load()
	return list[len(list)-1]
}

// Subscribe calls fn after each move of the end or the synced offset, from the goroutine that moved
// it, outside all locks. fn must be quick. The returned function ends it.
func (l *Log) Subscribe(fn func()) (cancel func()) {
	entry := &listener{fn}
	l.listeners.Lock()
	defer l.listeners.Unlock()
	var list []*listener
	if old := l.listeners.list.Load(); old != nil {
		list = slices.Clone(*old)
	}
	list = append(list, entry)
	l.listeners.list.Store(&list)
	return func() { l.unsubscribe(entry) }
}

func (l *Log) unsubscribe(entry *listener) {
	l.listeners.Lock()
	defer l.listeners.Unlock()
	list := slices.DeleteFunc(slices.Clone(*l.listeners.list.Load()),
		func(e *listener) bool { return e == entry })
	l.listeners.list.Store(&list)
}

// notify calls the subscribers. No lock may be held.
func (l *Log) notify() {
	list := l.listeners.list.Load()
	if list == nil {
		return
	}
	for _, e := range *list {
		e.fn()
	}
}

// takeToken waits for the sync token.
func (l *Log) takeToken(ctx context.Context) error {
	select {
	case l.syncToken <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for sync of %s: %w", l.tp, ctx.Err())
	}
}

func (l *Log) giveToken() { <-l.syncToken }
