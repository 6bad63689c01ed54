package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
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
	// Replaces tells why the instance cannot go on where another one of the same pipeline stops, such
	// as a change that would lose state. It is asked before the other one is stopped.
	Replaces(running Instance) error
	// Run processes until ctx ends, which drains, or until bounded inputs are processed. It returns
	// nil in both cases, and else what stopped it, with the position kept. An error that may pass by
	// itself is an ErrTemporary.
	Run(ctx context.Context) error
	// Status gives the counters, and Starting or Running; it may be called at any time.
	Status() Status
}

// Matcher is an Instance whose inputs may become more while it runs.
type Matcher interface {
	// Matches gives the topics of Revision.Matched with those that are there by now; more tells
	// whether there are such.
	Matches(ctx context.Context) (matched map[string][]string, more bool, err error)
}

// ErrTemporary marks errors of Instance.Run after which it is worth trying again.
var ErrTemporary = errors.New("temporary trouble")

// ReconcilerOptions are what a [Reconciler] needs.
type ReconcilerOptions struct {
	Store    *Store
	Launcher Launcher
	// Logger; nil discards.
	Logger *slog.Logger
	// OnStatus is called with each status before it is published, by one goroutine per pipeline; nil
	// is fine.
	OnStatus func(Status)
	// HTTP is where this process answers /metrics, for others to know; "" is nowhere.
	HTTP string
	// Worker names this process to those who look at its pipelines.
	Worker string
	// MatchEvery is how often is looked for topics that patterns of sources find; 0 is 5 s.
	MatchEvery time.Duration
	// RetryFirst and RetryLongest bound the waits after a temporary failure; 0 is 1 s and 30 s.
	RetryFirst, RetryLongest time.Duration
}

func (o ReconcilerOptions) withDefaults() ReconcilerOptions {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.MatchEvery == 0 {
		o.MatchEvery = 5 * time.Second
	}
	if o.RetryFirst == 0 {
		o.RetryFirst = time.Second
	}
	if o.RetryLongest == 0 {
		o.RetryLongest = 30 * time.Second
	}
	return o
}

// Reconciler makes what runs equal to what is wanted.
type Reconciler struct {
	opts ReconcilerOptions
	wg   sync.WaitGroup // of the keepers

	mu struct {
		sync.Mutex
		keepers map[string]*keeper // by pipeline
	}
}

// NewReconciler returns a reconciler that has not started.
func NewReconciler(opts ReconcilerOptions) *Reconciler {
	r := &Reconciler{opts: opts.withDefaults()}
	r.mu.keepers = map[string]*keeper{}
	return r
}

// Running gives how the pipelines in this process do, by name. Tasks are those here, with what the
// process did for each. Any goroutine may call it.
func (r *Reconciler) Running() []Status {
	r.mu.Lock()
	keepers := slices.Collect(maps.Values(r.mu.keepers))
	r.mu.Unlock()
	var all []Status
	for _, k := range keepers {
		k.mu.Lock()
		p, ended := k.mu.shown, k.mu.ended
		k.mu.Unlock()
		if p == nil {
			continue
		}
		st := p.status()
		if ended != nil {
			st.State, st.Error, st.Trouble = ended.State, ended.Error, ended.Trouble
		}
		all = append(all, st)
	}
	slices.SortFunc(all, func(a, b Status) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Run follows the revisions until ctx ends, then drains every pipeline. What was wanted before it
// began is brought up first; each later record is an order of its own.
func (r *Reconciler) Run(ctx context.Context) error {
	running, stop := context.WithCancel(ctx)
	defer r.wg.Wait()
	defer stop()
	r.wg.Go(func() { r.keepServingTails(running) })
	err := r.reconcile(running)
	if ctx.Err() != nil {
		return nil // it was told to stop, while it still read what is wanted perhaps
	}
	return err
}

// reconcile starts what is wanted, then follows the topic that says what is.
func (r *Reconciler) reconcile(ctx context.Context) error {
	known, err := r.opts.Store.wanted(ctx)
	if err != nil {
		return err
	}
	reported, _, err := r.opts.Store.reported(ctx)
	if err != nil {
		return err
	}
	last := reported.values
	for _, revision := range known.sorted() {
		r.order(ctx, revision.Name, order{revision: revision}, last[revision.Name])
	}
	for name, why := range known.unreadable {
		r.order(ctx, name, order{unreadable: why}, last[name])
	}
	return r.opts.Store.follow(ctx, RevisionTopic, func(rec *kgo.Record) (bool, error) {
		if rec.Offset >= known.end && !strings.Contains(string(rec.Key), "@") {
			r.order(ctx, string(rec.Key), readOrder(rec), Status{})
		}
		return false, nil
	})
}

// order is one record of the revision topic.
type order struct {
	revision   Revision
	forget     bool  // a tombstone
	unreadable error // not a revision, and why
}

func (o order) isRevision() bool { return !o.forget && o.unreadable == nil }

func readOrder(rec *kgo.Record) (o order) {
	if rec.Value == nil {
		return order{forget: true}
	}
	err := json.Unmarshal(rec.Value, &o.revision)
	if err == nil && o.revision.Name != string(rec.Key) {
		err = fmt.Errorf("it is named %q", o.revision.Name)
	}
	if err != nil {
		return order{unreadable: fmt.Errorf("%s-0 offset %d: %w", rec.Topic, rec.Offset, err)}
	}
	return o
}

// order hands an order to the pipeline's keeper, so that one pipeline never waits for another.
func (r *Reconciler) order(ctx context.Context, name string, o order, last Status) {
	r.mu.Lock()
	k := r.mu.keepers[name]
	if k == nil {
		k = &keeper{opts: r.opts, name: name, last: last, wake: make(chan struct{}, 1),
			alarmed: last.State == Restarting || last.State == Failed}
		r.mu.keepers[name] = k
		r.wg.Go(func() { k.run(ctx) })
	}
	r.mu.Unlock()
	k.mu.Lock()
	k.mu.orders = append(k.mu.orders, o)
	k.mu.Unlock()
	select {
	case k.wake <- struct{}{}:
	default:
	}
}
