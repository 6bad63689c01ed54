package deploy_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/pipelines/deploy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait; on a busy machine it is long.
const (
	patience   = 30 * time.Second
	statusPoll = 20 * time.Millisecond
)

// rig is a broker with a store, and what the reconciler of the test has reported.
type rig struct {
	t       *testing.T
	cluster *coretest.Cluster
	store   *deploy.Store
	launch  *launcher
	rec     *deploy.Reconciler // the last that was started
	retry   time.Duration      // ReconcilerOptions.RetryFirst

	mu struct {
		sync.Mutex
		seen    []deploy.Status
		changed chan struct{}
	}
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, cluster: coretest.Start(t, coretest.Options{}), launch: newLauncher(),
		retry: 10 * time.Millisecond}
	r.mu.changed = make(chan struct{})
	store, err := deploy.OpenStore(r.ctx(), r.connect)
	require.NoError(t, err)
	t.Cleanup(store.Close)
	r.store = store
	return r
}

func (r *rig) connect(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(r.cluster.Addr()),
		kgo.Dialer(r.cluster.Dialer())}, opts...)...)
}

func (r *rig) ctx() context.Context {
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	r.t.Cleanup(cancel)
	return ctx
}

func (r *rig) apply(name, text string) deploy.Revision {
	r.t.Helper()
	rev, err := r.store.Apply(r.ctx(), deploy.Revision{Name: name, Text: text})
	require.NoError(r.t, err)
	return rev
}

// reconcile runs a reconciler until the test stops it.
func (r *rig) reconcile() (stop func()) {
	r.t.Helper()
	rec := deploy.NewReconciler(deploy.ReconcilerOptions{Store: r.store, Launcher: r.launch,
		OnStatus: r.note, RetryFirst: r.retry, RetryLongest: 2 * r.retry})
	r.rec = rec
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- rec.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			require.NoError(r.t, <-done)
		})
	}
	r.t.Cleanup(stop)
	return stop
}

func (r *rig) note(st deploy.Status) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.seen = append(r.mu.seen, st)
	close(r.mu.changed)
	r.mu.changed = make(chan struct{})
}

// await waits for a status of the pipeline; what it reported before is forgotten.
func (r *rig) await(name string, state deploy.State, revision int) deploy.Status {
	r.t.Helper()
	return r.find(name, func(st deploy.Status) bool {
		return st.State == state && st.Revision == revision
	})
}

func (r *rig) find(name string, fits func(deploy.Status) bool) deploy.Status {
	r.t.Helper()
	limit := time.After(patience)
	for {
		r.mu.Lock()
		for i, st := range r.mu.seen {
			if st.Name == name && fits(st) {
				later := slices.Clone(r.mu.seen[i+1:])
				r.mu.seen = slices.DeleteFunc(r.mu.seen[:i+1], func(old deploy.Status) bool {
					return old.Name == name
				})
				r.mu.seen = append(r.mu.seen, later...)
				r.mu.Unlock()
				return st
			}
		}
		changed, seen := r.mu.changed, r.mu.seen
		r.mu.Unlock()
		select {
		case <-changed:
		case <-limit:
			r.t.Fatalf("no such status of %s; there were %+v", name, seen)
		}
	}
}

// launcher prepares instances that do as their text says.
type launcher struct {
	mu struct {
		sync.Mutex
		log []string // what happened, in order
		// hold keeps Prepare of a text waiting until it is closed.
		hold map[string]chan struct{}
		// ends are what running instances are told to return, by text.
		ends map[string]chan error
	}
}

func newLauncher() *launcher {
	l := &launcher{}
	l.mu.hold, l.mu.ends = map[string]chan struct{}{}, map[string]chan error{}
	return l
}

func (l *launcher) say(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.log = append(l.mu.log, what)
}

func (l *launcher) said() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.mu.log, ", ")
}

// end is the channel through which the instance of a text is told how to end.
func (l *launcher) end(text string) chan error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.ends[text] == nil {
		l.mu.ends[text] = make(chan error, 1)
	}
	return l.mu.ends[text]
}

func (l *launcher) Prepare(ctx context.Context, r deploy.Revision) (deploy.Instance, error) {
	l.mu.Lock()
	hold := l.mu.hold[r.Text]
	l.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if strings.HasPrefix(r.Text, "broken") ||
		r.Text == "once" && strings.Contains(l.said(), "start once") {
		return nil, errors.New("does not compile")
	}
	in := &instance{launcher: l, text: r.Text}
	if text, ok := strings.CutPrefix(r.Text, "follower "); ok {
		in.text = text
		return &follower{in}, nil
	}
	if strings.HasPrefix(r.Text, "pattern") {
		return &pattern{in}, nil
	}
	return in, nil
}

// instance is a run of a fake pipeline.
type instance struct {
	launcher *launcher
	text     string
	mu       struct {
		sync.Mutex
		begun bool
	}
}

func (in *instance) Replaces(deploy.Instance) error {
	if strings.HasPrefix(in.text, "loses") {
		return errors.New("state would be lost")
	}
	return nil
}

func (in *instance) Run(ctx context.Context) error {
	in.launcher.say("start " + in.text)
	defer in.launcher.say("end " + in.text)
	if strings.HasPrefix(in.text, "stillborn") {
		return errors.New("cannot begin")
	}
	in.mu.Lock()
	in.mu.begun = !strings.HasPrefix(in.text, "restores")
	in.mu.Unlock()
	select {
	case <-ctx.Done():
		return nil
	case err := <-in.launcher.end(in.text):
		return err
	}
}

func (in *instance) Status() deploy.Status {
	in.mu.Lock()
	defer in.mu.Unlock()
	st := deploy.Status{State: deploy.Starting, RecordsIn: int64(len(in.text))}
	if in.mu.begun {
		st.State = deploy.Running
	}
	return st
}

// follower is an instance of a pipeline for which another worker speaks.
type follower struct{ *instance }

func (f *follower) Status() deploy.Status {
	st := f.instance.Status()
	st.Worker, st.Follower = "w2", true
	return st
}

// pattern is an instance that finds a new topic when it has looked for 1.9 s, of 2 s that it has.
type pattern struct{ *instance }

func (*pattern) Matches(ctx context.Context) (map[string][]string, bool, error) {
	select {
	case <-time.After(1900 * time.Millisecond):
		return map[string][]string{"in": {"shop-a"}}, true, nil
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
}
