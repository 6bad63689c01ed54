package task

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/state"
	"github.com/millstream-io/millstream/streams/topology"
)

// noOffset is an offset that is not known.
const noOffset = -1

// input is one partition a task reads, as the loop sees it.
type input struct {
	tp   client.TopicPartition
	kind InputKind
	// at is the offset after what the core was given.
	at int64
	// end is the known end of the log, for the lag.
	end int64
	// until is where a stream ends or a table is ready; noOffset while that is not known.
	until int64
	// settled: the core was told that the stream ended or the table is ready.
	settled bool
	// idleAfter without a record at the end of the log makes the input idle; 0 is never.
	idleAfter time.Duration
	// seen is when the last record came, or the run began.
	seen time.Time
	// idle: the core was told so since the last record.
	idle bool
	// repartition: written by tasks of the same topology, which say themselves when they end.
	repartition bool
	// lent are the runs whose memory goes back when all up to their end is processed.
	lent []lent
}

// lent is the memory of a run up to the offset next.
type lent struct {
	next int64
	free func()
}

// loop runs one task: it feeds the core, writes what comes out and commits. All fields but the
// inbox, done and status belong to the goroutine of run.
type loop struct {
	opts      Options
	sub       *topology.Sub
	partition int32
	name      string // <app>.<sub>.<partition>
	log       *slog.Logger
	reader    *reader
	committed func(inputs []Input)

	inbox *inbox
	// flushes asks for the committed rows to be written to the state file.
	flushes chan chan error
	// done is closed when run has returned.
	done chan struct{}

	core      processor
	db        *state.DB
	out       *sender
	changelog client.TopicPartition
	inputs    []*input
	byTP      map[client.TopicPartition]*input

	// last is the record of the last commit.
	last commitRecord
	// dirty: something happened since the last commit.
	dirty bool
	// waits: the task is further than MaxSkew ahead of a slower one.
	waits bool
	// rated: the task reads the outside world, at Options.Rate; held is how long it must wait now.
	rated bool
	held  time.Duration
	// decided: the last commit lets the core go on without idle inputs.
	decided bool
	// more: the core has records that it can process; what was fetched meanwhile can wait.
	more bool
	// transient: no step keeps anything of a record, so its memory can be used again.
	transient bool
	// broken: the core failed half way, so nothing since the last commit may be committed.
	broken bool
	// wall is the core where its steps ask for the machine's clock.
	wall       waller
	at         positioner // the core
	lastCommit time.Time
	// commitTook is how long the last commit took.
	commitTook time.Duration
	outputs    []Output
	pausedBuf  []Input
	paused     map[client.TopicPartition]bool
	rows       []record.Record
	slab       slab
	status     *taskStatus // of the seat
	// killed: the process of this task is taken for dead (Worker.Kill).
	killed atomic.Bool
}

func newLoop(opts Options, s *seat) *loop {
	t := &loop{
		opts: opts, sub: s.sub, partition: s.partition, name: s.name, status: &s.status,
		inbox:   newInbox(opts.InboxBytes),
		flushes: make(chan chan error),
		done:    make(chan struct{}),
		byTP:    map[client.TopicPartition]*input{},
		paused:  map[client.TopicPartition]bool{},
	}
	t.log = opts.Logger.With("task", t.name)
	t.changelog = client.TopicPartition{
		Topic: ChangelogTopic(opts.Topology.App, s.sub.Name), Partition: s.partition,
	}
	return t
}

// partitions lists the task's inputs.
func (t *loop) partitions() []client.TopicPartition {
	tps := make([]client.TopicPartition, len(t.inputs))
	for i, in := range t.inputs {
		tps[i] = in.tp
	}
	return tps
}

// run processes until ctx ends, all bounded input is processed, or something fails. On ctx's end it
// commits what it has and returns nil.
func (t *loop) run(ctx context.Context) error {
	defer close(t.done)
	defer t.leavePace()
	defer t.joinRate()()
	t.lastCommit = time.Now()
	for _, in := range t.inputs {
		in.seen = t.lastCommit
	}
	timer := time.NewTimer(t.opts.CommitInterval)
	defer timer.Stop()
	for {
		t.flushAsked()
		busy, err := t.turn(ctx)
		switch {
		case t.killed.Load():
			return nil
		case t.broken:
			return err // also when ctx has ended meanwhile, because another task failed first
		case ctx.Err() != nil:
			return t.drain(ctx)
		case err != nil:
			return err
		case t.core.Done():
			return t.finish(ctx)
		}
		due := time.Until(t.lastCommit.Add(t.interval(busy || t.held > 0)))
		if t.dirty && (due <= 0 || t.full()) {
			if err := t.commitThrough(ctx); err != nil {
				if ctx.Err() != nil && !t.killed.Load() {
					return t.drain(ctx)
				}
				return err
			}
			due = t.interval(busy || t.held > 0)
		}
		if busy || t.decided {
			t.decided = false
			continue
		}
		next := t.watchIdle(time.Now())
		if t.waits {
			next = min(next, t.opts.CommitInterval)
		}
		if t.wall != nil {
			next = min(next, wallTick)
		}
		if t.held > 0 {
			next = min(next, t.held)
		}
		if wait := t.flushQuiet(); wait > 0 {
			next = min(next, wait)
		}
		if !t.dirty {
			due = next // nothing to commit: only the inbox and idle inputs can change that
		}
		timer.Reset(min(due, next))
		select {
		case <-ctx.Done():
		case <-t.inbox.wake:
		case done := <-t.flushes:
			done <- t.db.Flush()
		case <-timer.C:
		}
	}
}

// How soon a task commits that has processed all it was given: in a part of the interval, if the
// commits of that rate take at most one part of its time.
const (
	soonerShare = 8
	commitShare = 4
)

// interval is how long after the last commit the next one is due. A task that is behind commits
// seldom, for the work it saves; one that has caught up commits soon, for readers wait for that.
func (t *loop) interval(busy bool) time.Duration {
	if busy {
		return t.opts.CommitInterval
	}
	return min(t.opts.CommitInterval,
		max(t.opts.CommitInterval/soonerShare, commitShare*t.commitTook))
}

// turn takes what was fetched, processes one batch and sends what came out. busy tells that the
// core may have more to do.
func (t *loop) turn(ctx context.Context) (busy bool, err error) {
	var runs []client.Fetched
	var ends map[client.TopicPartition]int64
	resume := false
	if !t.more {
		runs, ends, resume = t.inbox.take()
	}
	for i := range runs {
		if err := t.accept(&runs[i]); err != nil {
			t.broken = true
			return false, err
		}
	}
	for tp, end := range ends {
		if in := t.byTP[tp]; in != nil && !in.settled {
			in.until = end
			t.settle(in)
		}
	}
	if resume {
		t.reader.release(t, t.partitions()...)
	}
	n := 0
	t.held = 0
	if t.waits = t.keepPace(); !t.waits {
		if t.wall != nil {
			t.wall.SetWall(time.Now().UnixMilli())
		}
		n, err = t.runRated()
	}
	if n > 0 || t.wall != nil && t.db.PendingBytes() > 0 {
		t.dirty = true
		t.status.processed.Add(int64(n))
	}
	if err != nil {
		t.broken = true
		return false, fmt.Errorf("task %s: %w", t.name, err)
	}
	if err := t.emit(ctx); err != nil {
		return false, err
	}
	t.giveBack()
	t.pause()
	t.more = n >= t.opts.batch
	return t.more, nil
}

// runRated runs the core for as many records as the rate allows now.
func (t *loop) runRated() (int, error) {
	if !t.rated {
		return t.core.Run(t.opts.batch)
	}
	limit, again := t.opts.rate.take(t.opts.batch)
	n, err := t.core.Run(limit)
	t.opts.rate.giveBack(limit - n)
	if t.held = again; n < limit {
		t.held = 0 // it has no records that would have to wait
	}
	return n, err
}

// joinRate lets the task have its part of the rate, until what it returns is called; one that is
// done leaves its part to the others.
func (t *loop) joinRate() (leave func()) {
	if t.rated = reads(t.sub); !t.rated {
		return func() {}
	}
	t.opts.rate.join()
	return func() {
		if !t.core.Done() {
			t.opts.rate.leave()
		}
	}
}

// giveBack returns the memory of runs that were processed: what came out of them is encoded.
func (t *loop) giveBack() {
	if !t.transient {
		return
	}
	for _, in := range t.inputs {
		if len(in.lent) == 0 {
			continue
		}
		at := t.at.Position(in.tp.Topic, in.tp.Partition)
		n := 0
		for n < len(in.lent) && in.lent[n].next <= at {
			in.lent[n].free()
			n++
		}
		in.lent = slices.Delete(in.lent, 0, n)
	}
}

// accept hands one run to the core, without what it has already and without what is at or after
// the end of a bounded stream.
func (t *loop) accept(run *client.Fetched) error {
	in := t.byTP[run.TopicPartition]
	in.end = max(in.end, run.End)
	if run.From > in.at {
		return nil // fetched for an earlier reading of the partition; what is missing comes
	}
	records, next := run.Records, run.Next
	for len(records) > 0 && records[0].Offset < in.at {
		records = records[1:]
	}
	if in.kind == StreamInput && in.until != noOffset && next > in.until {
		next = in.until
		for len(records) > 0 && records[len(records)-1].Offset >= next {
			records = records[:len(records)-1]
		}
	}
	if next <= in.at {
		return nil
	}
	if t.transient && run.Free != nil {
		in.lent = append(in.lent, lent{next, run.Free})
	}
	if err := t.core.Add(in.tp.Topic, in.tp.Partition, records, next); err != nil {
		return fmt.Errorf("task %s: read %s at %d: %w", t.name, in.tp, in.at, err)
	}
	in.at = next
	if len(records) > 0 {
		in.idle = false
		in.seen = time.Now()
	}
	t.dirty = true
	t.settle(in)
	return nil
}

// settle tells the core when a bounded stream was read to its end, or a table to where it counts
// as loaded.
func (t *loop) settle(in *input) {
	if in.settled || in.until == noOffset || in.at < in.until {
		return
	}
	in.settled, t.dirty = true, true
	if in.kind == TableInput {
		t.core.TableReady(in.tp.Topic, in.tp.Partition)
	} else {
		t.core.EndOfInput(in.tp.Topic, in.tp.Partition)
	}
}

// emit sends the outputs of the core.
func (t *loop) emit(ctx context.Context) error {
	t.outputs = t.core.TakeOutputs(t.outputs[:0])
	for i := range t.outputs {
		o := &t.outputs[i]
		t.out.add(o.Topic, o.Partition, &o.Record)
	}
	if len(t.outputs) > 0 {
		t.dirty = true
		clear(t.outputs)
	}
	if err := t.out.send(ctx); err != nil {
		return fmt.Errorf("task %s: %w", t.name, err)
	}
	return nil
}

// pause follows what the core wants paused because other inputs are behind.
func (t *loop) pause() {
	t.pausedBuf = t.core.Paused(t.pausedBuf[:0])
	if len(t.pausedBuf) == 0 && len(t.paused) == 0 && !t.waits {
		return
	}
	want := make(map[client.TopicPartition]bool, len(t.pausedBuf))
	for _, in := range t.pausedBuf {
		want[client.TopicPartition{Topic: in.Topic, Partition: in.Partition}] = true
	}
	t.ahead(want)
	for tp := range want {
		if !t.paused[tp] {
			t.reader.hold(t, tp)
		}
	}
	for tp := range t.paused {
		if !want[tp] {
			t.reader.release(t, tp)
		}
	}
	t.paused = want
}

// full reports that a commit is due by size.
func (t *loop) full() bool {
	return t.db.PendingBytes() >= t.opts.CommitBytes || t.out.bytes >= t.opts.CommitBytes ||
		t.db.Pressed()
}

// drain commits what there is and lets go of the state, when the task stops or is done.
func (t *loop) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.opts.DrainTimeout)
	defer cancel()
	if !t.dirty {
		return nil
	}
	return t.commit(ctx)
}

// finish makes the last commit of a bounded run, and waits until what it made can be read: who sees
// the run end looks for its results.
func (t *loop) finish(ctx context.Context) error {
	if err := t.drain(ctx); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, t.opts.ReadableWait)
	defer cancel()
	if err := t.out.txn.Readable(bounded); err != nil && ctx.Err() == nil {
		t.log.Warn("the results are committed, but not all of them can be read", "why", err,
			"waited", t.opts.ReadableWait)
	}
	return nil
}
