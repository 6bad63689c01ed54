package deploy

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"
)

// Times of a keeper.
const (
	// statusEvery is how often changed counters are published, stateEvery a changed state.
	statusEvery = time.Second
	stateEvery  = 50 * time.Millisecond
	// publishTimeout bounds how long a status may hold up a stop.
	publishTimeout = 5 * time.Second
	// saidAgain is how long after it failed the last word is tried again.
	saidAgain = 10 * time.Second
	// steadyAfter is how long a pipeline must run for its earlier failures to be forgotten.
	steadyAfter = time.Minute
)

// keeper keeps one pipeline as it is wanted: it carries out orders one after the other, and starts
// it again after temporary trouble. All but mu belongs to the goroutine of run.
type keeper struct {
	opts ReconcilerOptions
	name string
	wake chan struct{} // holds one token when there are orders

	mu struct {
		sync.Mutex
		orders []order
		// shown is running, for those who ask; ended is what was said last when it has ended by itself.
		shown *process
		ended *Status
	}

	running *process // nil when there is none
	// before is the revision that ran until running replaced it, while running has not begun.
	before *Revision
	// retry fires when running's revision is to be started again; failures are those in a row.
	retry    *time.Timer
	again    Revision
	failures int
	failing  time.Time // since when
	number   int       // of the newest revision seen
	last     Status    // published last, by this or an earlier process
	lastAt   time.Time
	unsaid   bool // last could not be published
	// alarmed: a worker that does not speak for the pipeline said for it that it fails, this one
	// perhaps. It is for who said so to take it back.
	alarmed bool
	// part is what was last said of the tasks here, where several workers share them. The next may
	// be said at partAt.
	part   []TaskStatus
	partAt time.Time
	// matchedAt is when was looked for new topics of patterns.
	matchedAt time.Time
}

// process is one instance and the goroutine that runs it.
type process struct {
	revision Revision
	instance Instance
	started  time.Time
	stop     context.CancelFunc
	done     chan struct{} // closed when Run has returned; nil when that was dealt with
	err      error         // of Run
	told     bool          // Run was told to end
}

func (k *keeper) run(ctx context.Context) {
	defer k.halt(ctx)
	tick := time.NewTicker(stateEvery)
	defer tick.Stop()
	k.retry = time.NewTimer(time.Hour)
	k.retry.Stop()
	for {
		var done chan struct{}
		if k.running != nil {
			done = k.running.done
		}
		select {
		case <-ctx.Done():
			return
		case <-k.wake:
			for _, o := range k.take() {
				k.carryOut(ctx, o)
			}
		case <-done:
			k.conclude(ctx)
		case <-k.retry.C:
			k.begin(ctx, k.again)
		case <-tick.C:
			k.report(ctx)
			k.match(ctx)
		}
	}
}

// take empties the queue, without revisions that a later order stands for.
func (k *keeper) take() []order {
	k.mu.Lock()
	orders := k.mu.orders
	k.mu.orders = nil
	k.mu.Unlock()
	kept := orders[:0]
	for i, o := range orders {
		if i+1 < len(orders) && o.isRevision() && orders[i+1].isRevision() &&
			orders[i+1].revision.Number >= o.revision.Number {
			continue
		}
		kept = append(kept, o)
	}
	return kept
}

func (k *keeper) carryOut(ctx context.Context, o order) {
	switch {
	case o.forget:
		k.halt(ctx)
		k.number, k.last, k.unsaid, k.alarmed, k.part = 0, Status{}, false, false, nil
		if err := k.opts.Store.deleteStatus(ctx, k.name); err != nil && ctx.Err() == nil {
			k.opts.Logger.Warn("status not deleted", "pipeline", k.name, "error", err)
		}
	case o.unreadable != nil:
		k.refuse(ctx, Revision{Name: k.name, Number: k.last.Revision},
			fmt.Errorf("%w: %w", ErrUnreadable, o.unreadable))
	case o.revision.Number < k.number: // written late by somebody who was overtaken
	case o.revision.Wanted == WantStopped:
		k.number = o.revision.Number
		k.halt(ctx)
		st := k.last
		st.Revision, st.State, st.Replay = o.revision.Number, Stopped, o.revision.Replay
		if !reflect.DeepEqual(st, k.last) {
			k.publish(ctx, st)
		}
	default:
		k.number = o.revision.Number
		k.wanted(ctx, o.revision)
	}
}

// wanted brings the pipeline to a revision. One that has ended is started again.
func (k *keeper) wanted(ctx context.Context, revision Revision) {
	if k.running != nil && !k.running.ended() && k.running.revision.ID == revision.ID {
		return
	}
	k.failures = 0
	k.begin(ctx, revision)
}

// begin prepares a revision and puts it in the place of what runs.
func (k *keeper) begin(ctx context.Context, revision Revision) {
	k.retry.Stop()
	instance, err := k.opts.Launcher.Prepare(ctx, revision)
	if err == nil && k.running != nil {
		err = instance.Replaces(k.running.instance)
	}
	if err != nil {
		k.refuse(ctx, revision, err)
		return
	}
	k.before = nil
	if k.running != nil && !k.running.ended() {
		k.before = &k.running.revision
	}
	k.halt(ctx)
	k.start(ctx, revision, instance, "")
}

// refuse reports a revision that cannot be started; what runs goes on.
func (k *keeper) refuse(ctx context.Context, revision Revision, err error) {
	if ctx.Err() != nil {
		return // told to stop while preparing: nothing is wrong with the revision
	}
	k.opts.Logger.Error("revision refused", "pipeline", k.name, "revision", revision.Number,
		"error", err)
	st := k.last
	st.Revision, st.State, st.Replay = revision.Number, Failed, revision.Replay
	goesOn := k.running != nil && !k.running.ended()
	if goesOn {
		st = k.running.status()
	}
	st.Error = fmt.Sprintf("revision %d: %v", revision.Number, err)
	k.publish(ctx, st)
	if !goesOn {
		k.showEnded()
	}
}

// start runs an instance; remark is shown as the error of the status while it runs.
func (k *keeper) start(
	ctx context.Context, revision Revision, instance Instance, remark string,
) {
	runCtx, cancel := context.WithCancel(ctx)
	p := &process{revision: revision, instance: instance, stop: cancel, done: make(chan struct{}),
		started: time.Now()}
	k.running = p
	k.show(p)
	k.opts.Logger.Info("pipeline started", "pipeline", k.name, "revision", revision.Number)
	go func() {
		defer close(p.done)
		defer cancel()
		p.err = instance.Run(runCtx)
		p.told = runCtx.Err() != nil
	}()
	st := k.status()
	st.Error = remark
	k.publish(ctx, st)
}

// status is that of what runs. Until it has begun again, why it failed is still its trouble.
func (k *keeper) status() Status {
	st := k.running.status()
	if st.State == Starting && st.Trouble == nil && k.failures > 0 {
		st.Trouble = k.last.Trouble
	}
	return st
}

// report publishes the status of what runs if it has changed.
func (k *keeper) report(ctx context.Context) {
	if k.unsaid && time.Since(k.lastAt) >= saidAgain {
		k.lastAt = time.Now()
		k.say(ctx, k.last) // it is the last word, perhaps
	}
	if k.running == nil || k.running.ended() {
		return
	}
	if (k.last.State == Running || k.last.State == Degraded) && time.Since(k.lastAt) < statusEvery {
		return
	}
	st := k.status()
	k.publishPart(ctx, st, false)
	if st.Follower {
		k.takeBack(ctx, st)
		k.last.State, k.lastAt = st.State, time.Now()
		return
	}
	if st.State == k.last.State && time.Since(k.lastAt) < statusEvery {
		return
	}
	st.At, st.Error = k.last.At, k.last.Error // why a newer revision was refused stays
	st.Tasks = tasksOf(st)
	if !reflect.DeepEqual(st, k.last) {
		k.publish(ctx, st)
	}
}

// conclude deals with an instance that has ended by itself.
func (k *keeper) conclude(ctx context.Context) {
	p := k.running
	if p.told {
		return // halt will tell
	}
	st := p.status()
	began := st.State != Starting
	err := p.err
	p.done = nil // a nil channel is never ready
	switch {
	case err == nil:
		st.State = Done
		k.opts.Logger.Info("pipeline done", "pipeline", k.name, "revision", p.revision.Number)
	case errors.Is(err, ErrTemporary):
		st.State, st.Error = Restarting, err.Error()
		if time.Since(p.started) > steadyAfter || k.failures == 0 {
			k.failures, k.failing = 0, time.Now()
		}
		wait := min(k.opts.RetryLongest, k.opts.RetryFirst<<min(k.failures, 20))
		k.failures++
		st.Trouble = &Trouble{Since: k.failing.UTC(), Error: st.Error, Do: fmt.Sprintf(
			"it is tried again in %s (attempt %d): mend what the error says, no order is needed", wait,
			k.failures+1)}
		k.again = p.revision
		k.retry.Reset(wait)
		k.opts.Logger.Warn("pipeline failed, it is tried again", "pipeline", k.name,
			"revision", p.revision.Number, "wait", wait, "error", err)
	default:
		st.State, st.Error = Failed, err.Error()
		k.opts.Logger.Error("pipeline failed", "pipeline", k.name, "revision", p.revision.Number,
			"error", err)
	}
	if st.State == Failed && !began && k.before != nil {
		k.goBack(ctx, *k.before, st)
		return
	}
	k.publish(ctx, st)
	k.showEnded()
}

// goBack starts the revision again that ran before one that did not even begin.
func (k *keeper) goBack(ctx context.Context, old Revision, failed Status) {
	k.before = nil
	instance, err := k.opts.Launcher.Prepare(ctx, old)
	if err != nil {
		k.publish(ctx, failed)
		k.showEnded()
		return
	}
	k.start(ctx, old, instance, fmt.Sprintf("revision %d: %s", failed.Revision, failed.Error))
}

// halt drains what runs, waits for it and publishes how it ended.
func (k *keeper) halt(ctx context.Context) {
	if k.retry != nil {
		k.retry.Stop()
	}
	p := k.running
	k.running = nil
	k.show(nil)
	if p == nil || p.done == nil {
		return
	}
	p.stop()
	<-p.done
	st := p.status()
	switch {
	case p.err != nil && !errors.Is(p.err, context.Canceled):
		st.State, st.Error = Failed, p.err.Error()
		k.opts.Logger.Error("pipeline did not stop in order", "pipeline", k.name,
			"revision", p.revision.Number, "error", p.err)
	case p.told:
		st.State = Stopped
	default:
		st.State = Done
	}
	k.publish(context.WithoutCancel(ctx), st)
}

// publish reports a status.
func (k *keeper) publish(ctx context.Context, st Status) {
	st.Name = k.name
	if st.State == Stopped || st.State == Failed || st.State == Done {
		st.Trouble = nil // nothing is on its way any more that it could keep
	}
	k.publishPart(ctx, st, true)
	st.Tasks = tasksOf(st)
	if k.opts.OnStatus != nil {
		k.opts.OnStatus(st)
	}
	k.last, k.lastAt = st, time.Now()
	k.say(ctx, st)
}

func (p *process) ended() bool {
	if p.done == nil {
		return true
	}
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *process) status() Status {
	st := p.instance.Status()
	st.Name, st.Revision, st.Replay = p.revision.Name, p.revision.Number, p.revision.Replay
	return st
}

// show lets others ask what runs.
func (k *keeper) show(p *process) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.shown, k.mu.ended = p, nil
}

// showEnded lets them ask how what was shown has ended: as was published last.
func (k *keeper) showEnded() {
	st := k.last
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mu.ended = &st
}
