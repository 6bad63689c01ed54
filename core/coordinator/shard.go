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
	// ticksPerTurn is how many timers run before inputs that wait are handled.
	ticksPerTurn = 16

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
	// alone is the transactional step that the batch consists of, nil for one of ordinary steps.
	alone *Step
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
		// Active first: what Loaded begins elsewhere may come back as an input before it returns.
		s.setPhase(phaseActive)
		s.machine.Loaded(s.runtime.opts.Now())
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
	err = s.runtime.opts.Log.Replay(s.ctx, s.partition, func(e Entry) error {
		records++
		if err := replay(m, &e); err != nil {
			return fmt.Errorf("replay record at offset %d: %w", e.Record.Offset, err)
		}
		return nil
	})
	if err != nil {
		return records, err
	}
	s.machine = m
	return records, nil
}

// replay gives one entry of the log to a machine.
func replay(m Machine, e *Entry) error {
	if e.Producer == nil {
		return m.Replay(e.Record)
	}
	tm, ok := m.(TransactionalMachine)
	switch {
	case !ok:
		return ErrNotTransactional
	case e.Marker:
		return tm.ReplayMarker(*e.Producer, e.Commit, e.Record.Offset)
	}
	return tm.ReplayTransactional(*e.Producer, e.Record)
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
			// A select with both ready draws lots: inputs that wait go first all the same, or
			// ticksPerTurn would bound nothing.
			if !s.handleWaiting() {
				return
			}
		}
		if !s.tick() {
			return
		}
	}
}

// handleWaiting handles the queue if something waits in it; false means load again.
func (s *shard) handleWaiting() bool {
	select {
	case <-s.wake:
		return s.handleQueue()
	default:
		return true
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

// tick runs the timers that are due, but only some of them while there are inputs: thousands of
// members whose sessions end together would keep everybody else waiting. false means load again.
func (s *shard) tick() bool {
	now := s.runtime.opts.Now()
	for n := 1; s.ctx.Err() == nil; n++ {
		deadline, ok := s.machine.NextDeadline()
		if !ok || deadline.After(now) || n > ticksPerTurn && len(s.wake) > 0 {
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
	switch {
	case step.Marker != nil || step.Producer != nil && len(step.Records) > 0:
		return s.applyAlone(now, step)
	case len(step.Records) == 0:
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

// applyAlone appends a transactional step: after those before it, and before the machine is asked
// anything else.
func (s *shard) applyAlone(now time.Time, step Step) bool {
	if !s.flush(now) {
		return false
	}
	s.batch.alone = &step
	s.batch.records = append(s.batch.records, step.Records...)
	s.batch.steps = append(s.batch.steps, step)
	return s.flush(now)
}

// flush appends the batch, replays it and delivers its outputs. False: memory and log may differ.
func (s *shard) flush(now time.Time) bool {
	if len(s.batch.steps) == 0 {
		return true
	}
	defer s.resetBatch()
	lastOffset, err := s.append()
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
	if err := s.replayBatch(lastOffset); err != nil {
		s.logger.Error("replay own record, loading again", "error", err)
		return false
	}
	for _, step := range s.batch.steps {
		s.deliver(step.Outputs)
	}
	return true
}

// replayBatch gives the batch, whose records have their offsets, to the machine.
func (s *shard) replayBatch(lastOffset int64) error {
	e := Entry{}
	if step := s.batch.alone; step != nil {
		e.Producer = step.Producer
		if m := step.Marker; m != nil {
			return replay(s.machine, &Entry{
				Record:   record.Record{Offset: lastOffset, Timestamp: m.Timestamp},
				Producer: &Producer{ID: m.ProducerID, Epoch: m.ProducerEpoch},
				Marker:   true, Commit: m.Type == record.ControlCommit,
			})
		}
	}
	for i := range s.batch.records {
		e.Record = s.batch.records[i]
		if err := replay(s.machine, &e); err != nil {
			return err
		}
	}
	return nil
}

// append writes the batch in the shard's epoch, and in no other.
func (s *shard) append() (lastOffset int64, err error) {
	log := s.runtime.opts.Log
	if log.LeaderEpoch(s.partition) != s.epoch {
		return -1, ErrNotLeader
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.runtime.opts.AppendTimeout)
	defer cancel()
	lastOffset, err = s.appendParts(ctx)
	switch {
	case err == nil && log.LeaderEpoch(s.partition) != s.epoch:
		err = fmt.Errorf("%w: leader epoch changed during the append", ErrUnknownOutcome)
	case errors.Is(err, ErrUnknownOutcome):
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
		err = fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
	}
	return lastOffset, err
}

// appendParts appends the batch in as many batches as its size asks for, and sets the offsets of
// its records; it is one unless a single step was very large, such as the deletion of a group with
// many offsets.
func (s *shard) appendParts(ctx context.Context) (lastOffset int64, err error) {
	var b Batch
	if step := s.batch.alone; step != nil {
		b.Producer, b.Marker = step.Producer, step.Marker
		b.TransactionVersion = step.TransactionVersion
	}
	if b.Marker != nil {
		return s.runtime.opts.Log.Append(ctx, s.partition, b)
	}
	recs := s.batch.records
	for written := 0; written < len(recs); {
		end, size := written, 0
		for ; end < len(recs); end++ {
			size += len(recs[end].Key) + len(recs[end].Value) + recordOverhead
			if size > maxPartBytes && end > written {
				break
			}
		}
		b.Records = recs[written:end]
		lastOffset, err = s.runtime.opts.Log.Append(ctx, s.partition, b)
		if err != nil {
			if written > 0 {
				err = fmt.Errorf("%w: a part is in the log: %w", ErrUnknownOutcome, err)
			}
			return -1, err
		}
		for i := range b.Records {
			b.Records[i].Offset = lastOffset - int64(len(b.Records)-1-i)
		}
		written = end
	}
	return lastOffset, nil
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
