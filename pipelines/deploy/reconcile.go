package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Launcher turns revisions into running pipelines; package runner implements it.
type Launcher interface {
	// Prepare compiles a revision and builds what it needs. It starts nothing, so an error leaves
	// what runs untouched.
	Prepare(ctx context.Context, r Revision) (Instance, error)
}

// Instance is one prepared pipeline.
type Instance interface {
	// Run processes until ctx ends, which drains, or until bounded inputs are processed. It returns
	// nil in both cases, and else what stopped it, with the position kept.
	Run(ctx context.Context) error
	// Status gives the counters; it may be called at any time.
	Status() Status
}

// statusEvery is how often a changed status is published.
const statusEvery = time.Second

// ReconcilerOptions are what a [Reconciler] needs.
type ReconcilerOptions struct {
	Store    *Store
	Launcher Launcher
	// Logger; nil discards.
	Logger *slog.Logger
	// OnStatus is called with each status before it is published; nil is fine.
	OnStatus func(Status)
}

// Reconciler makes what runs equal to what is wanted.
type Reconciler struct {
	opts    ReconcilerOptions
	running map[string]*process // owned by Run
}

// process is one instance and the goroutine that runs it.
type process struct {
	revision Revision
	instance Instance
	stop     context.CancelFunc
	done     chan struct{}
}

// NewReconciler returns a reconciler that has not started.
func NewReconciler(opts ReconcilerOptions) *Reconciler {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Reconciler{opts: opts, running: map[string]*process{}}
}

// Run follows the revisions until ctx ends, then drains every pipeline. What was wanted before it
// began is brought up first; each later record is an order of its own.
func (r *Reconciler) Run(ctx context.Context) error {
	defer r.stopAll()
	known, end, err := r.opts.Store.listTo(ctx)
	if err != nil {
		return err
	}
	for _, revision := range known {
		r.reconcile(ctx, revision)
	}
	err = r.opts.Store.follow(ctx, RevisionTopic, func(rec *kgo.Record) (bool, error) {
		if rec.Offset >= end {
			r.take(ctx, rec)
		}
		return false, nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// take carries out one order.
func (r *Reconciler) take(ctx context.Context, rec *kgo.Record) {
	name := string(rec.Key)
	if strings.Contains(name, "@") {
		return
	}
	if rec.Value == nil {
		r.stopOne(name)
		return
	}
	var revision Revision
	if err := json.Unmarshal(rec.Value, &revision); err != nil {
		r.opts.Logger.Error("unreadable revision skipped", "pipeline", name, "offset", rec.Offset,
			"error", err)
		return
	}
	r.reconcile(ctx, revision)
}

// reconcile brings one pipeline to its wanted revision and state. One that has ended is started
// again.
func (r *Reconciler) reconcile(ctx context.Context, revision Revision) {
	current, running := r.running[revision.Name]
	running = running && !current.ended()
	if revision.Wanted == WantStopped {
		r.stopOne(revision.Name)
		r.publish(ctx, Status{Name: revision.Name, Revision: revision.Number, State: Stopped,
			Replay: revision.Replay})
		return
	}
	if running && current.revision.ID == revision.ID {
		return
	}
	instance, err := r.opts.Launcher.Prepare(ctx, revision)
	if err != nil {
		r.refuse(ctx, revision, err)
		return
	}
	r.stopOne(revision.Name)
	r.start(ctx, revision, instance)
}

// refuse reports a revision that cannot be started; what runs goes on.
func (r *Reconciler) refuse(ctx context.Context, revision Revision, err error) {
	r.opts.Logger.Error("revision refused", "pipeline", revision.Name,
		"revision", revision.Number, "error", err)
	st := Status{Name: revision.Name, Revision: revision.Number, State: Failed,
		Replay: revision.Replay}
	if current, ok := r.running[revision.Name]; ok {
		st = current.instance.Status()
		st.Name, st.Revision, st.State = revision.Name, current.revision.Number, Running
	}
	st.Error = fmt.Sprintf("revision %d: %v", revision.Number, err)
	r.publish(ctx, st)
}

func (r *Reconciler) start(ctx context.Context, revision Revision, instance Instance) {
	runCtx, cancel := context.WithCancel(ctx)
	p := &process{revision: revision, instance: instance, stop: cancel, done: make(chan struct{})}
	r.running[revision.Name] = p
	r.opts.Logger.Info("pipeline started", "pipeline", revision.Name, "revision", revision.Number)
	var wg sync.WaitGroup
	ended := make(chan struct{})
	wg.Go(func() { r.report(runCtx, p, ended) })
	go func() {
		defer close(p.done)
		err := instance.Run(runCtx)
		interrupted := runCtx.Err() != nil
		close(ended)
		wg.Wait()
		r.conclude(context.WithoutCancel(ctx), p, err, interrupted)
		cancel()
	}()
}

// report publishes the status while the instance runs.
func (r *Reconciler) report(ctx context.Context, p *process, ended <-chan struct{}) {
	tick := time.NewTicker(statusEvery)
	defer tick.Stop()
	var last Status
	for {
		st := p.status(Running)
		if !reflect.DeepEqual(st, last) {
			last = st
			r.publish(ctx, st)
		}
		select {
		case <-tick.C:
		case <-ended:
			return
		}
	}
}

// conclude publishes how an instance ended.
func (r *Reconciler) conclude(ctx context.Context, p *process, err error, interrupted bool) {
	st := p.status(Done)
	switch {
	case err != nil && !(interrupted && errors.Is(err, context.Canceled)):
		st.State, st.Error = Failed, err.Error()
		r.opts.Logger.Error("pipeline failed", "pipeline", p.revision.Name,
			"revision", p.revision.Number, "error", err)
	case interrupted:
		st.State = Stopped
	default:
		r.opts.Logger.Info("pipeline done", "pipeline", p.revision.Name,
			"revision", p.revision.Number)
	}
	r.publish(ctx, st)
}

// publishTimeout bounds how long a status may hold up a stop.
const publishTimeout = 5 * time.Second

func (r *Reconciler) publish(ctx context.Context, st Status) {
	if r.opts.OnStatus != nil {
		r.opts.OnStatus(st)
	}
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	if err := r.opts.Store.WriteStatus(ctx, st); err != nil && ctx.Err() == nil {
		r.opts.Logger.Warn("status not published", "pipeline", st.Name, "error", err)
	}
}

// stopOne drains one pipeline and waits for it.
func (r *Reconciler) stopOne(name string) {
	p, ok := r.running[name]
	if !ok {
		return
	}
	p.stop()
	<-p.done
	delete(r.running, name)
}

func (r *Reconciler) stopAll() {
	for _, p := range r.running {
		p.stop()
	}
	for name, p := range r.running {
		<-p.done
		delete(r.running, name)
	}
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *process) status(state State) Status {
	st := p.instance.Status()
	st.Name, st.Revision, st.State = p.revision.Name, p.revision.Number, state
	st.Replay = p.revision.Replay
	return st
}
