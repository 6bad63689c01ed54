package replica

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/millstream-io/millstream/core/storage"
)

// AcksAll is the number of acks that asks for all in-sync replicas.
const AcksAll int16 = -1

// Partition is one partition that this node has a log of. All methods are safe for concurrent use.
type Partition struct {
	tp      storage.TopicPartition
	topicID uuid.UUID
	log     *storage.Log
	traffic *Traffic // of the topic

	role          atomic.Pointer[role]
	gone          atomic.Bool  // deleted, or no longer assigned to this node
	highWatermark atomic.Int64 // first offset that is not committed
	lastStable    atomic.Int64 // last stable offset; raised after highWatermark
	// confirmed is what acknowledgements go by: the high watermark, raised after lastStable. So who
	// has an acknowledgement reads what it wrote, with read_committed too.
	confirmed   atomic.Int64
	waiters     waiters // for the high watermark
	stable      waiters // for the last stable offset
	unsubscribe func()
}

// Types of the log that pass through a Partition.
type (
	Timestamped        = storage.Timestamped
	VerificationGuard  = storage.VerificationGuard
	AbortedTransaction = storage.AbortedTransaction
	ProducerInfo       = storage.ProducerInfo
)

// AppendOptions says how to append.
type AppendOptions struct {
	Acks   int16          // 0, 1 or AcksAll; AcksAll needs min.insync.replicas in sync
	Origin storage.Origin // default storage.FromClient
	// Guard and TransactionVersion are those of storage.AppendOptions.
	Guard              VerificationGuard
	TransactionVersion int16
}

// ReadRequest says what to read.
type ReadRequest struct {
	Offset      int64
	MaxBytes    int
	MinOne      bool  // the first batch even if it is larger than MaxBytes
	LeaderEpoch int32 // the client's; -1 = do not check
	Committed   bool  // read_committed: nothing at or above the last stable offset
}

func newPartition(l *storage.Log, traffic *Traffic) *Partition {
	p := &Partition{tp: l.TopicPartition(), topicID: l.TopicID(), log: l, traffic: traffic}
	p.role.Store(&role{leaderEpoch: -1})
	p.highWatermark.Store(l.HighWatermark())
	p.lastStable.Store(l.LastStableOffset())
	p.confirmed.Store(l.HighWatermark())
	p.unsubscribe = l.Subscribe(p.advance)
	return p
}

// setRole takes the role that the metadata gives. A new leader epoch is recorded in the log before
// anything is served in it, even if nothing gets appended (KIP-279).
func (p *Partition) setRole(r role) error {
	old := p.role.Load()
	if *old == r {
		return nil
	}
	if r.leader && r.leaderEpoch > p.log.LatestEpoch() {
		if err := p.log.AssignEpoch(r.leaderEpoch, p.log.EndOffset()); err != nil {
			return fmt.Errorf("lead %s in epoch %d: %w", p.tp, r.leaderEpoch, err)
		}
	}
	p.role.Store(&r)
	if old.leader && (!r.leader || r.leaderEpoch != old.leaderEpoch) {
		p.wakeAll()
	}
	p.advance()
	return nil
}

// leave ends the partition's service here.
func (p *Partition) leave() {
	p.unsubscribe()
	p.gone.Store(true)
	p.wakeAll()
}

// wakeAll ends all waits.
func (p *Partition) wakeAll() {
	p.waiters.wakeAll()
	p.stable.wakeAll()
}

// TopicPartition returns the partition's name.
func (p *Partition) TopicPartition() storage.TopicPartition { return p.tp }

// Log returns the log, for descriptions. Writing goes through Append.
func (p *Partition) Log() *storage.Log { return p.log }

// Err returns why the partition serves no writes here: ErrUnknownPartition once it is deleted,
// ErrNotLeader, or an error of its log; nil if it does.
func (p *Partition) Err() error {
	if p.gone.Load() {
		return fmt.Errorf("%s: %w", p.tp, ErrUnknownPartition)
	}
	if !p.role.Load().leader {
		return fmt.Errorf("%s: %w", p.tp, ErrNotLeader)
	}
	return p.log.Err()
}

// lead returns the role if this node leads, and checks a client's leader epoch if it is not -1.
func (p *Partition) lead(clientEpoch int32) (*role, error) {
	if p.gone.Load() {
		return nil, fmt.Errorf("%s: %w", p.tp, ErrUnknownPartition)
	}
	r := p.role.Load()
	switch {
	case !r.leader:
		return nil, fmt.Errorf("%s: %w", p.tp, ErrNotLeader)
	case clientEpoch < 0 || clientEpoch == r.leaderEpoch:
		return r, nil
	case clientEpoch < r.leaderEpoch:
		return nil, fmt.Errorf("%s: %w: %d, it is %d", p.tp, ErrFencedLeaderEpoch, clientEpoch,
			r.leaderEpoch)
	}
	return nil, fmt.Errorf("%s: %w: %d, it is %d", p.tp, ErrUnknownLeaderEpoch, clientEpoch,
		r.leaderEpoch)
}

// CheckEpoch returns ErrNotLeader, ErrFencedLeaderEpoch or ErrUnknownLeaderEpoch if a client with
// that leader epoch must not be served; -1 checks no epoch.
func (p *Partition) CheckEpoch(clientEpoch int32) error {
	_, err := p.lead(clientEpoch)
	return err
}

// Append appends as the leader, see storage.Log.Append. With acks=all the caller then waits for the
// high watermark to reach LastOffset+1, for a duplicate too: WaitCommitted.
func (p *Partition) Append(batches []byte, o AppendOptions) (storage.AppendResult, error) {
	none := storage.AppendResult{BaseOffset: -1, LastOffset: -1, LogAppendTime: -1,
		LogStartOffset: p.log.StartOffset()}
	r, err := p.lead(-1)
	if err != nil {
		return none, err
	}
	if o.Acks == AcksAll && !r.enoughInSync() {
		return none, fmt.Errorf("append to %s: %w: %d, want %d", p.tp, ErrNotEnoughReplicas,
			r.inSync, r.minInSync)
	}
	res, err := p.log.Append(batches, storage.AppendOptions{LeaderEpoch: r.leaderEpoch,
		Origin: o.Origin, Guard: o.Guard, TransactionVersion: o.TransactionVersion})
	if errors.Is(err, storage.ErrStaleEpoch) {
		err = fmt.Errorf("%w: %w", ErrNotLeader, err)
	}
	return res, err
}

// StartVerification is asked before a client's transactional batch is appended, see
// storage.Log.StartVerification.
func (p *Partition) StartVerification(producerID int64, epoch int16, baseSequence int32,
) (guard VerificationGuard, ongoing bool, err error) {
	if _, err := p.lead(-1); err != nil {
		return 0, false, err
	}
	return p.log.StartVerification(producerID, epoch, baseSequence)
}

// AppendAndWait appends with acks=all, whatever o says, and returns once the records are committed.
func (p *Partition) AppendAndWait(ctx context.Context, batches []byte, o AppendOptions,
) (storage.AppendResult, error) {
	o.Acks = AcksAll
	res, err := p.Append(batches, o)
	if err != nil {
		return res, err
	}
	return res, p.AwaitCommitted(ctx, res.LastOffset+1)
}

// AwaitCommitted returns once the high watermark has reached offset, or with the reason why it may
// never.
func (p *Partition) AwaitCommitted(ctx context.Context, offset int64) error {
	w := make(signal, 1)
	if p.WaitCommitted(offset, w) {
		select {
		case <-w:
		case <-ctx.Done():
			p.Forget(w)
			return fmt.Errorf("wait for commit of %s up to %d: %w", p.tp, offset, ctx.Err())
		}
	}
	// The wait also ends, or is refused, when the partition has stopped serving.
	if p.HighWatermark() < offset {
		return fmt.Errorf("commit %s up to %d: %w", p.tp, offset,
			errors.Join(p.Err(), ErrNotLeader))
	}
	return nil
}

// signal is a Waiter for one goroutine.
type signal chan struct{}

// Wake implements Waiter.
func (s signal) Wake() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// Read reads committed batches, see storage.Log.Read. Between the high watermark and the end of the
// log there is nothing yet.
func (p *Partition) Read(r ReadRequest) (storage.Chunk, error) {
	if _, err := p.lead(r.LeaderEpoch); err != nil {
		return storage.Chunk{}, err
	}
	return p.log.Read(r.Offset, r.MaxBytes, p.limit(r.Committed), r.MinOne)
}

// limit returns the offset below which a reader may see records.
func (p *Partition) limit(committed bool) int64 {
	if committed {
		return p.lastStable.Load()
	}
	return p.highWatermark.Load()
}

// LastStableOffset returns the offset below which all records are committed and of transactions
// that are decided, or of none. It is never above a high watermark that is loaded later.
func (p *Partition) LastStableOffset() int64 { return p.lastStable.Load() }

// AbortedTransactions returns what a reader of read_committed must skip in [from, upTo), see
// storage.Log.AbortedTransactions.
func (p *Partition) AbortedTransactions(from, upTo int64) ([]AbortedTransaction, error) {
	return p.log.AbortedTransactions(from, upTo)
}

// Producers returns the producers that the log remembers, by id.
func (p *Partition) Producers() []ProducerInfo { return p.log.Producers() }

// HighWatermark returns the first offset that is not committed.
func (p *Partition) HighWatermark() int64 { return p.highWatermark.Load() }

// StartOffset returns the first offset that can be read.
func (p *Partition) StartOffset() int64 { return p.log.StartOffset() }

// EndOffset returns the offset that the next record gets.
func (p *Partition) EndOffset() int64 { return p.log.EndOffset() }

// LeaderEpoch returns the leader epoch of the metadata, -1 before there is any.
func (p *Partition) LeaderEpoch() int32 { return p.role.Load().leaderEpoch }

// EpochOf returns the leader epoch in which the record at offset was written, -1 if unknown.
func (p *Partition) EpochOf(offset int64) int32 { return p.log.EpochAt(offset) }

// OffsetForLeaderEpoch returns the largest known epoch that is not larger than epoch, and the
// offset after its last record; (-1, -1) if there is none.
func (p *Partition) OffsetForLeaderEpoch(epoch int32) (int32, int64) {
	return p.log.EndOffsetForEpoch(epoch)
}

// OffsetForTimestamp returns the first record of time ts or later below the high watermark, or with
// committed below the last stable offset; false if none.
func (p *Partition) OffsetForTimestamp(ts int64, committed bool) (Timestamped, bool, error) {
	return p.log.OffsetForTimestamp(ts, p.limit(committed))
}

// MaxTimestamp returns the first record with the largest timestamp below the high watermark, or
// with committed below the last stable offset; false if none.
func (p *Partition) MaxTimestamp(committed bool) (Timestamped, bool, error) {
	return p.log.MaxTimestamp(p.limit(committed))
}

// DeleteRecords moves the start of the log to offset, at most the high watermark
// (storage.ErrOffsetOutOfRange). At or below the start it does nothing.
func (p *Partition) DeleteRecords(offset int64) error {
	if _, err := p.lead(-1); err != nil {
		return err
	}
	if hw := p.highWatermark.Load(); offset > hw || offset < 0 {
		return fmt.Errorf("delete records of %s before %d, the high watermark is %d: %w", p.tp,
			offset, hw, storage.ErrOffsetOutOfRange)
	}
	err := p.log.DeleteRecordsBefore(offset)
	p.advanceStable()
	return err
}

// WaitCommitted registers w to be woken once, when the high watermark has reached offset and
// readers see that, or Err is not nil any more. It returns false, and does not register, if that is
// so already.
func (p *Partition) WaitCommitted(offset int64, w Waiter) bool {
	return p.wait(&p.waiters, offset-1, &p.confirmed, w)
}

// WaitData registers w to be woken once, when there is a committed record at offset or Err is not
// nil any more. It returns false, and does not register, if that is so already.
func (p *Partition) WaitData(offset int64, w Waiter) bool {
	return p.wait(&p.waiters, offset, &p.highWatermark, w)
}

// WaitStable registers w to be woken once, when there is a record at offset below the last stable
// offset or Err is not nil any more. It returns false, and does not register, if that is so
// already.
func (p *Partition) WaitStable(offset int64, w Waiter) bool {
	return p.wait(&p.stable, offset, &p.lastStable, w)
}

func (p *Partition) wait(ws *waiters, above int64, watermark *atomic.Int64, w Waiter) bool {
	if !ws.add(w, above, watermark) {
		return false
	}
	if p.Err() == nil {
		return true
	}
	// It may have stopped serving before the registration was there to be woken.
	return !ws.forget(w)
}

// Forget ends all registrations of w. A Wake that has begun may still come.
func (p *Partition) Forget(w Waiter) {
	p.waiters.forget(w)
	p.stable.forget(w)
}
