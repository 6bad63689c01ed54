package storage

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/vfs"
)

// osSyncBytes is how many bytes FlushOS leaves to the kernel before it asks for a background sync.
// It bounds what a power cut takes and how long the sync of a checkpoint lasts. Where the kernel
// keeps up, there is little left to do by then: a sync that writes takes a tenth of the CPU time of
// the appends before it.
const osSyncBytes = 256 << 20

// Origin says who made the batches of an append, and with it what is checked.
type Origin int8

// The origins.
const (
	// FromClient is exactly one batch of a producer: fully validated, deduplicated, given offsets.
	FromClient Origin = iota
	// FromCoordinator is batches made by this broker: given offsets. A transactional one is checked
	// against the producer's epoch, and is the only one of its call.
	FromCoordinator
	// FromTxnCoordinator is one transaction marker (control batch): checked against the producer's
	// epoch and the coordinator's epoch.
	FromTxnCoordinator
	// Replicated is batches of the partition's leader: offsets and epochs are kept.
	Replicated
)

// AppendOptions says how to append.
type AppendOptions struct {
	LeaderEpoch int32 // written into the batches, except Replicated
	Origin      Origin
	// Guard is what StartVerification gave for the first batch of a client's transaction.
	Guard VerificationGuard
	// TransactionVersion is the one that the producer and its coordinator use (KIP-890). With 2 a
	// marker's epoch must be above the producer's, and the first batch of a client's transaction in
	// a log that does not know the producer must have sequence 0.
	TransactionVersion int16
}

// AppendResult tells where batches went. After an error its offsets are -1.
type AppendResult struct {
	BaseOffset     int64 // of the first batch
	LastOffset     int64 // of the last record
	LogAppendTime  int64 // ms if the topic uses LogAppendTime, else -1
	LogStartOffset int64
	Duplicate      bool // a producer's repeat: offsets are those of the first time
}

// Append adds batches at the end. It overwrites offsets, epoch and, if so configured, timestamps in
// b itself; after an error b's content is undefined. When it returns, the bytes are in the page
// cache, with FlushAlways on the disk; FlushGroup asks for a sync, see SyncedOffset.
func (l *Log) Append(b []byte, o AppendOptions) (AppendResult, error) {
	res, err := l.append(b, o)
	if err != nil {
		none := AppendResult{BaseOffset: -1, LastOffset: -1, LogAppendTime: -1,
			LogStartOffset: l.start.Load()}
		return none, fmt.Errorf("append to %s: %w", l.tp, err)
	}
	return res, nil
}

func (l *Log) append(b []byte, o AppendOptions) (AppendResult, error) {
	if err := l.Err(); err != nil {
		return AppendResult{}, err
	}
	c, now := l.config.Load(), l.clock()
	var err error
	switch {
	case o.Origin == FromClient:
		err = validateClient(b, c, now)
	case o.Origin == FromCoordinator:
		err = validateCoordinator(b, c)
	case o.Origin == FromTxnCoordinator:
		err = validateMarker(b)
	default:
		err = validateInternal(b)
	}
	if err != nil {
		return AppendResult{}, err
	}
	if c.Compression.Recode && o.Origin == FromClient &&
		record.Batch(b).Codec() != c.Compression.Codec {
		recoded, done, err := recode(b, c)
		if err != nil {
			return AppendResult{}, err
		}
		defer done()
		b = recoded
	}
	if err := l.owner.room(len(b)); err != nil {
		return AppendResult{}, err
	}
	res, err := l.appendValid(b, o, c, now)
	if err != nil {
		return res, err
	}
	if !res.Duplicate {
		l.notify()
	}
	return res, l.flushAfterAppend(c, int64(len(b)), res.LastOffset+1)
}

func (l *Log) appendValid(b []byte, o AppendOptions, c *Config, now int64) (AppendResult, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed.Load() {
		return AppendResult{}, ErrClosed
	}
	if l.mu.untrimmed {
		if err := l.active().trim(); err != nil {
			return AppendResult{}, l.diskError(err)
		}
		l.mu.untrimmed = false
	}
	if o.Origin == Replicated {
		return l.appendReplicatedLocked(b, c, now)
	}
	return l.appendAssignedLocked(b, o, c, now)
}

// flushAfterAppend does what the flush policy wants for n new bytes up to offset.
func (l *Log) flushAfterAppend(c *Config, n, offset int64) error {
	switch c.Flush {
	case FlushAlways:
		return l.syncTo(context.Background(), offset)
	case FlushGroup:
		l.RequestSync()
	case FlushOS:
		if c.FlushMessages > 0 && offset-l.synced.Load() >= c.FlushMessages {
			return l.syncTo(context.Background(), offset)
		}
		if l.unsynced.Add(n) >= osSyncBytes {
			l.RequestSync()
		}
		l.syncWithin(c.FlushMS)
	}
	return nil
}

// appendAssignedLocked gives offsets to the batches and writes them.
func (l *Log) appendAssignedLocked(b []byte, o AppendOptions, c *Config, now int64,
) (AppendResult, error) {
	if record.Batch(b).ProducerID() >= 0 {
		mark, dup, err := l.checkProducerLocked(b, o, c)
		if err != nil {
			return AppendResult{}, err
		}
		if dup {
			return l.duplicate(mark, c), nil
		}
	}
	appendTime := int64(-1)
	if c.LogAppendTime && o.Origin != FromCoordinator {
		appendTime = max(now, l.mu.lastAppendTime)
		l.mu.lastAppendTime = appendTime
	}
	base := l.end.Load()
	next, maxTimestamp := base, int64(-1)
	for rest := b; len(rest) > 0; {
		batch := record.Batch(rest[:record.Batch(rest).Len()])
		rest = rest[len(batch):]
		batch.SetBaseOffset(next)
		batch.SetLeaderEpoch(o.LeaderEpoch)
		if appendTime >= 0 {
			batch.SetLogAppendTime(appendTime)
		}
		next = batch.NextOffset()
		maxTimestamp = max(maxTimestamp, batch.MaxTimestamp())
	}
	if latest := l.LatestEpoch(); o.LeaderEpoch < latest {
		return AppendResult{}, fmt.Errorf("%w: append of epoch %d, the latest is %d",
			ErrStaleEpoch, o.LeaderEpoch, latest)
	}
	if err := l.assignEpochLocked(o.LeaderEpoch, base); err != nil {
		return AppendResult{}, err
	}
	if err := l.rollIfDueLocked(base, int64(len(b)), next-1, maxTimestamp, c, now); err != nil {
		return AppendResult{}, err
	}
	if err := l.writeLocked(b, next, c, now); err != nil {
		return AppendResult{}, err
	}
	return AppendResult{BaseOffset: base, LastOffset: next - 1, LogAppendTime: appendTime,
		LogStartOffset: l.start.Load()}, nil
}

// checkProducerLocked decides whether the producer may write its batch now.
func (l *Log) checkProducerLocked(b record.Batch, o AppendOptions, c *Config,
) (mark batchMark, dup bool, err error) {
	switch o.Origin {
	case FromClient:
		mark, dup, err = l.mu.producers.check(b, clientBatch{guards: &l.mu.guards, guard: o.Guard,
			unverified: c.SkipVerification, newEpochs: o.TransactionVersion >= 2})
		if _, known := l.mu.producers[b.ProducerID()]; err == nil && !known {
			err = l.roomForProducerLocked()
		}
		return mark, dup, err
	case FromTxnCoordinator:
		m, _, err := readMarker(b)
		if err == nil {
			err = l.mu.producers.checkMarker(b, m, o.TransactionVersion)
		}
		return mark, false, err
	}
	return mark, false, l.mu.producers.checkCoordinator(b)
}

func (l *Log) duplicate(m batchMark, c *Config) AppendResult {
	res := AppendResult{BaseOffset: m.lastOffset - int64(m.offsetDelta), LastOffset: m.lastOffset,
		LogAppendTime: -1, LogStartOffset: l.start.Load(), Duplicate: true}
	if c.LogAppendTime {
		res.LogAppendTime = m.timestamp
	}
	return res
}

// appendReplicatedLocked writes the leader's batches as they are, in runs that fit the segments. If
// a later run fails, the earlier ones stay: the follower goes on from EndOffset.
func (l *Log) appendReplicatedLocked(b []byte, c *Config, now int64) (AppendResult, error) {
	res := AppendResult{BaseOffset: record.Batch(b).BaseOffset(), LogAppendTime: -1,
		LogStartOffset: l.start.Load()}
	for len(b) > 0 {
		run, err := l.nextRunLocked(b, c, now)
		if err != nil {
			return res, err
		}
		next := l.end.Load()
		for rest := run; len(rest) > 0; {
			batch := record.Batch(rest)
			rest = rest[batch.Len():]
			next = batch.NextOffset()
			if err := l.assignEpochLocked(batch.LeaderEpoch(), batch.BaseOffset()); err != nil {
				return res, err
			}
		}
		if err := l.writeLocked(run, next, c, now); err != nil {
			return res, err
		}
		res.LastOffset = next - 1
		b = b[len(run):]
	}
	return res, nil
}

// nextRunLocked returns the batches at the head of b that go into the active segment together,
// after a roll if the first one needs it.
func (l *Log) nextRunLocked(b []byte, c *Config, now int64) ([]byte, error) {
	next, maxTimestamp, n := l.end.Load(), int64(-1), 0
	for n < len(b) {
		batch := record.Batch(b[n:])
		if batch.BaseOffset() < next || batch.NextOffset() <= batch.BaseOffset() {
			return nil, fmt.Errorf("%w: offsets %d to %d, the end is %d", ErrOffsetOrder,
				batch.BaseOffset(), batch.LastOffset(), next)
		}
		next = batch.NextOffset()
		maxTimestamp = max(maxTimestamp, batch.MaxTimestamp())
		if n == 0 {
			// Segments follow each other without a gap even where batches do not, so that recovery
			// can tell a lost tail. Only a gap beyond 31 bits has to go between two segments.
			base := l.end.Load()
			if next-1-base > math.MaxInt32 {
				base = batch.BaseOffset()
			}
			err := l.rollIfDueLocked(base, int64(batch.Len()), next-1, maxTimestamp, c, now)
			if err != nil {
				return nil, err
			}
		} else if l.active().rollReason(c, int64(n+batch.Len()), next-1, maxTimestamp, now) != "" {
			break
		}
		n += batch.Len()
	}
	return b[:n], nil
}

// writeLocked writes b, whose headers are final, into the active segment and publishes it.
func (l *Log) writeLocked(b []byte, next int64, c *Config, now int64) error {
	s := l.active()
	if err := s.write(b); err != nil {
		if trimErr := s.trim(); trimErr != nil {
			l.mu.untrimmed = true // before the next append
			if !isRefused(trimErr) {
				return l.diskError(fmt.Errorf("%w (after: %v)", trimErr, err))
			}
			err = errors.Join(err, trimErr)
		}
		return l.diskError(err)
	}
	s.added(b, int64(c.IndexIntervalBytes))
	if err := l.applyLocked(b, now); err != nil {
		l.owner.fail(err) // the batches were validated, so that this cannot be
		return l.owner.failure()
	}
	l.end.Store(next)
	return nil
}

// diskError sorts a failed write: a full disk, or no descriptor left, refuses the call, anything
// else fails the directory.
func (l *Log) diskError(err error) error {
	if isRefused(err) {
		return refused(err)
	}
	l.owner.fail(err)
	return fmt.Errorf("%w: %w", ErrDirFailed, err)
}

// AssignEpoch records that the leader of epoch writes from offset start on, which is also done
// before a new leader has written anything (KIP-279). At the end of the log it reaches the disk
// with the first batch of the epoch: before, a restart would forget it anyway.
func (l *Log) AssignEpoch(epoch int32, start int64) error {
	if err := l.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if list := l.epochs.Load().extend(epoch, start); start >= l.end.Load() {
		l.mu.epochsPending = l.mu.epochsPending || len(list) > len(*l.epochs.Load())
		l.epochs.Store(&list)
		return nil
	}
	if err := l.assignEpochLocked(epoch, start); err != nil {
		return fmt.Errorf("assign leader epoch %d of %s: %w", epoch, l.tp, err)
	}
	return nil
}

// assignEpochLocked notes, durably, that a batch of epoch begins at start.
func (l *Log) assignEpochLocked(epoch int32, start int64) error {
	old := *l.epochs.Load()
	n := len(old)
	if n > 0 && old[n-1].epoch == epoch && start >= old[n-1].start {
		if !l.mu.epochsPending {
			return nil // every append but the first of a leader
		}
		return l.storeEpochsLocked(old)
	}
	list := old.assign(epoch, start)
	if len(list) == n && (n == 0 || list[n-1] == old[n-1]) {
		return nil
	}
	return l.storeEpochsLocked(list)
}

// storeEpochsLocked makes list durable, then visible.
func (l *Log) storeEpochsLocked(list epochList) error {
	name := filepath.Join(l.dir(), fileEpochs)
	if err := vfs.WriteFileAtomic(l.fsys, name, list.format(), 0o644); err != nil {
		return l.diskError(fmt.Errorf("write %s: %w", name, err))
	}
	l.epochs.Store(&list)
	l.mu.epochsPending = false
	return nil
}
