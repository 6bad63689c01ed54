package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/millstream-io/millstream/core/record"
)

const (
	// batchRecords and batchBytes bound one append: well under message.max.bytes (1 MiB), and small
	// enough that the first caller of a batch does not wait for the encoding of too many others.
	batchRecords = 4096
	batchBytes   = 256 << 10
	// maxPartBytes is the most that is put into one batch unless a single record is larger.
	maxPartBytes = 512 << 10
	// recordOverhead is the most a record costs beside key and value in batch format v2.
	recordOverhead = 32

	firstLoadRetry = 500 * time.Millisecond
	lastLoadRetry  = 30 * time.Second
)

// phase is where a shard is in its life.
type phase int

const (
	phaseLoading phase = iota // replaying its log
	phaseActive               // handling inputs
	phaseFailed               // its log could not be read; will be tried again
	phaseStopped              // resigned or closed
)

// call is one input and its caller.
type call struct {
	in   any
	done func(out any, code ErrorCode)
}

// shard is one machine, its queue and its goroutine.
type shard struct {
	runtime   *Runtime
	partition int32 // of the log
	epoch     int32 // leader epoch in which it answers
	logger    *slog.Logger
	ctx       context.Context
	cancel    context.CancelFunc
	ended     chan struct{} // closed when run has returned

	wake chan struct{} // capacity 1: the queue is not empty
	mu   struct {
		sync.Mutex
		phase phase
		queue []call
	}

	// The rest belongs to the goroutine.
	machine    Machine
	waiting    map[Ticket]func(any, ErrorCode)
	lastTicket Ticket
	spare      []call // the queue's other half, kept to reuse its memory
	batch      batch
}

// batch is the steps whose records are not appended yet.
type batch struct {
	records []record.Record
	bytes   int
	steps   []Step
}

func newShard(r *Runtime, partition, epoch int32) *shard {
	s := &shard{
		runtime: r, partition: partition, epoch: epoch,
		logger:  r.opts.Logger.With("shard", partition, "leader_epoch", epoch),
		ended:   make(chan struct{}),
		wake:    make(chan struct{}, 1),
		waiting: make(map[Ticket]func(any, ErrorCode)),
	}
	s.ctx, s.cancel = context.WithCancel(r.ctx)
	return s
}

// stop makes the goroutine end soon; it does not wait.
func (s *shard) stop() {
	s.setPhase(phaseStopped)
	s.cancel()
}

func (s *shard) phase() phase {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.phase
}

// setPhase changes the phase unless the shard is stopped, which is final.
func (s *shard) setPhase(p phase) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.phase != phaseStopped {
		s.mu.phase = p
	}
}

// enqueue queues c, or says why not.
func (s *shard) enqueue(c call) ErrorCode {
	s.mu.Lock()
	switch {
	case s.mu.phase == phaseLoading:
		s.mu.Unlock()
		return CodeCoordinatorLoadInProgress
	case s.mu.phase == phaseStopped:
		s.mu.Unlock()
		return CodeNotCoordinator
	case s.mu.phase == phaseFailed || len(s.mu.queue) >= s.runtime.opts.QueueLimit:
		s.mu.Unlock()
		return CodeCoordinatorNotAvailable
	}
	s.mu.queue = append(s.mu.queue, c)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return CodeNone
}

// take swaps the queue for an empty one.
func (s *shard) take() []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.mu.queue
	s.mu.queue = s.spare[:0]
	s.spare = nil
	return q
}

// run is the goroutine: load, serve, and load again when memory and log may differ.
func (s *shard) run() {
	defer close(s.ended)
	defer s.cancel()
	defer s.dismiss()
	retry := firstLoadRetry
	for s.ctx.Err() == nil {
		s.setPhase(phaseLoading)
		start := s.runtime.opts.Now()
		count, err := s.load()
		if s.ctx.Err() != nil {
			return
		}
		if err != nil {
			s.setPhase(phaseFailed)
			s.logger.Error("load coordinator shard", "error", err, "retry_in", retry)
			s.pause(retry)
			retry = min(retry*2, lastLoadRetry)
			continue
		}
		if count > 0 {
			s.logger.Info("coordinator shard loaded", "records", count,
				"took", s.runtime.opts.Now().Sub(start))
		}
		retry = firstLoadRetry
		s.setPhase(phaseActive)
		s.serve()
		s.setPhase(phaseLoading)
		s.failWaiting()
	}
}

// pause waits for d or for the end of the shard.
func (s *shard) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.ctx.Done():
	}
}

// load makes a new machine and replays the log into it.
func (s *shard) load() (records int, err error) {
	m := s.runtime.opts.NewMachine(s.partition)
	err = s.runtime.opts.Log.Replay(s.ctx, s.partition, func(rec record.Record) error {
		records++
		if err := m.Replay(rec); err != nil {
			return fmt.Errorf("replay record at offset %d: %w", rec.Offset, err)
		}
		return nil
	})
	if err != nil {
		return records, err
	}
	s.machine = m
	m.Loaded(s.runtime.opts.Now())
	return records, nil
}

// serve handles inputs and timers until the shard stops or has to load again.
func (s *shard) serve() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		s.arm(timer)
		select {
		case <-s.ctx.Done():
			return
		case <-s.wake:
			if !s.handleQueue() {
				return
			}
		case <-timer.C:
		}
		if !s.tick() {
			return
		}
	}
}

// arm sets the timer to the machine's next deadline.
func (s *shard) arm(timer *time.Timer) {
	deadline, ok := s.machine.NextDeadline()
	if !ok {
		timer.Stop()
		return
	}
	timer.Reset(max(deadline.Sub(s.runtime.opts.Now()), 0))
}

// handleQueue handles all that waits in the queue; false means load again.
func (s *shard) handleQueue() bool {
	calls := s.take()
	now := s.runtime.opts.Now()
	ok := true
	for i := range calls {
		s.lastTicket++
		t := s.lastTicket
		s.waiting[t] = calls[i].done
		if !ok {
			continue // answered by failWaiting
		}
		in := calls[i].in
		ok = s.apply(now, func() Step { return s.machine.Handle(now, t, in) })
	}
	clear(calls)
	s.spare = calls
	return ok && s.flush(now)
}

// tick runs the timers that are due; false means load again.
func (s *shard) tick() bool {
	now := s.runtime.opts.Now()
	for s.ctx.Err() == nil {
		deadline, ok := s.machine.NextDeadline()
		if !ok || deadline.After(now) {
			break
		}
		if !s.apply(now, func() Step { return s.machine.Tick(now) }) {
			return false
		}
	}
	return s.flush(now)
}

// apply runs one step and adds it to the batch, appending it when it is full or in the step's way.
func (s *shard) apply(now time.Time, run func() Step) bool {
	step := run()
	for step.Again {
		if len(s.batch.steps) == 0 {
			panic("invariant: a machine asks for an append only while it has records in flight")
		}
		if !s.flush(now) {
			return false
		}
		step = run()
	}
	if len(step.Records) == 0 {
		s.deliver(step.Outputs)
		return true
	}
	for i := range step.Records {
		s.batch.bytes += len(step.Records[i].Key) + len(step.Records[i].Value) + recordOverhead
	}
	s.batch.records = append(s.batch.records, step.Records...)
	s.batch.steps = append(s.batch.steps, step)
	if s.batch.bytes >= batchBytes || len(s.batch.records) >= batchRecords {
		return s.flush(now)
	}
	return true
}

// flush appends the batch, replays it and delivers its outputs. False: memory and log may differ.
func (s *shard) flush(now time.Time) bool {
	if len(s.batch.steps) == 0 {
		return true
	}
	defer s.resetBatch()
	err := s.append(s.batch.records)
	if errors.Is(err, ErrUnknownOutcome) {
		s.logger.Warn("append to coordinator log, loading again", "error", err)
		return false
	}
	if err != nil {
		s.logger.Warn("append to coordinator log", "error", err,
			"records", len(s.batch.records))
		for _, step := range s.batch.steps {
			if step.Fail == nil {
				s.refuse(step.Outputs, codeOf(err))
				continue
			}
			s.deliver(step.Fail(now, codeOf(err)))
		}
		return true
	}
	for _, rec := range s.batch.records {
		if err := s.machine.Replay(rec); err != nil {
			s.logger.Error("replay own record, loading again", "error", err)
			return false
		}
	}
	for _, step := range s.batch.steps {
		s.deliver(step.Outputs)
	}
	return true
}

// append writes recs in the shard's epoch, and in no other.
func (s *shard) append(recs []record.Record) error {
	log := s.runtime.opts.Log
	if log.LeaderEpoch(s.partition) != s.epoch {
		return ErrNotLeader
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.runtime.opts.AppendTimeout)
	defer cancel()
	err := s.appendParts(ctx, recs)
	switch {
	case err == nil && log.LeaderEpoch(s.partition) != s.epoch:
		return fmt.Errorf("%w: leader epoch changed during the append", ErrUnknownOutcome)
	case errors.Is(err, ErrUnknownOutcome):
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
		return fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
	}
	return err
}

// appendParts appends recs in as many batches as their size asks for; it is one unless a single
// step was very large, such as the deletion of a group with many offsets.
func (s *shard) appendParts(ctx context.Context, recs []record.Record) error {
	for written := 0; written < len(recs); {
		end, size := written, 0
		for ; end < len(recs); end++ {
			size += len(recs[end].Key) + len(recs[end].Value) + recordOverhead
			if size > maxPartBytes && end > written {
				break
			}
		}
		if _, err := s.runtime.opts.Log.Append(ctx, s.partition, recs[written:end]); err != nil {
			if written > 0 {
				err = fmt.Errorf("%w: a part of the step is in the log: %w", ErrUnknownOutcome, err)
			}
			return err
		}
		written = end
	}
	return nil
}

func (s *shard) resetBatch() {
	clear(s.batch.records)
	clear(s.batch.steps)
	s.batch = batch{records: s.batch.records[:0], steps: s.batch.steps[:0]}
}

// deliver gives outputs to their callers. A ticket that is answered already is left alone.
func (s *shard) deliver(outs []Output) {
	for _, o := range outs {
		if done := s.waiting[o.Ticket]; done != nil {
			delete(s.waiting, o.Ticket)
			done(o.Value, CodeNone)
		}
	}
}

// refuse answers the callers of outs with a code.
func (s *shard) refuse(outs []Output, code ErrorCode) {
	for _, o := range outs {
		if done := s.waiting[o.Ticket]; done != nil {
			delete(s.waiting, o.Ticket)
			done(nil, code)
		}
	}
}

// failWaiting answers everything that waits in the machine: its state is given up.
func (s *shard) failWaiting() {
	waiting := s.waiting
	s.waiting = make(map[Ticket]func(any, ErrorCode))
	for _, done := range waiting {
		done(nil, CodeNotCoordinator)
	}
	for _, c := range s.take() {
		c.done(nil, CodeNotCoordinator)
	}
}

// dismiss ends the shard: nothing is queued any more, and all that waits is answered.
func (s *shard) dismiss() {
	s.setPhase(phaseStopped)
	s.failWaiting()
	s.machine = nil
}
