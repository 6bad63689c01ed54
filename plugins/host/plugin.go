package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/millstream-io/millstream/plugins/pluginpb"
	"github.com/millstream-io/millstream/plugins/sdk"
)

// The crash-loop breaker: so many crashes within that time, and the plugin is not started again.
// Crashes a poison record is found to be guilty of do not count.
const (
	breakerCrashes = 5
	breakerWindow  = time.Minute
	maxRestartWait = 2 * time.Second
)

// Record is a record with the place it comes from.
type Record = pluginpb.Record

// Options say which plugin to run and how.
type Options struct {
	Name    string  // as the pipeline calls it; in logs and errors
	Command Command // how to start its process
	// InProcess runs this plugin in the host's own process instead, for tests and trusted code.
	InProcess *sdk.Plugin
	Logger    *slog.Logger // nil = discard
	// Output gets what parts write to the standard output of the host; nil = the log.
	Output io.Writer
	// StartTimeout bounds a start, 0 = 10 s.
	StartTimeout time.Duration
	// HangTimeout is how long the oldest unanswered batch may take before the process counts as hung;
	// it grows with the batches seen (20 times the slowest). 0 = 30 s.
	HangTimeout time.Duration
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.StartTimeout == 0 {
		o.StartTimeout = 10 * time.Second
	}
	if o.HangTimeout == 0 {
		o.HangTimeout = 30 * time.Second
	}
	o.Logger = o.Logger.With("plugin", o.Name)
	return o
}

// Plugin is a supervised plugin: when its process ends, another one is started.
type Plugin struct {
	options  Options
	launcher *launcher
	log      *pluginLog
	spec     *pluginpb.SpecResponse
	ctx      context.Context // of all that runs for the plugin
	cancel   context.CancelCauseFunc
	done     chan struct{} // the supervisor returned

	mu struct {
		sync.Mutex
		current  *instance     // nil between two lives
		err      error         // why there will be none any more
		change   chan struct{} // closed and replaced when current or err changes
		crashes  []crash
		restarts int
		streams  []io.Closer // open operators, sinks and sources
	}
}

type crash struct {
	at time.Time
	of *instance
}

// Start launches the plugin and waits until it answered the handshake and told its Spec. The
// error is a *StartError or ErrChecksum. ctx bounds the start only.
func Start(ctx context.Context, o Options) (*Plugin, error) {
	o = o.withDefaults()
	log := newPluginLog(o.Logger)
	p := &Plugin{
		options: o, launcher: &launcher{options: o, log: log}, log: log, done: make(chan struct{}),
	}
	in, err := p.launcher.launch(ctx)
	if err != nil {
		return nil, err
	}
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	p.spec = in.spec
	p.mu.current, p.mu.change = in, make(chan struct{})
	o.Logger.Debug("plugin started", "pid", in.pid)
	go p.supervise(in)
	return p, nil
}

// Spec is what the plugin says it is.
func (p *Plugin) Spec() *pluginpb.SpecResponse { return p.spec }

// Name is the name from the options.
func (p *Plugin) Name() string { return p.options.Name }

// PID is the process now running, 0 between two lives and in process.
func (p *Plugin) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.current == nil {
		return 0
	}
	return p.mu.current.pid
}

// Restarts counts how often the process was started again.
func (p *Plugin) Restarts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.restarts
}

// Err is why the plugin is not started any more, nil while it is.
func (p *Plugin) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.err
}

// Validate checks a configuration, given as JSON, of a part. An empty part is the only one
// there is.
func (p *Plugin) Validate(ctx context.Context, part string, config []byte) ([]sdk.Diagnostic,
	error) {
	in, err := p.instance(ctx)
	if err != nil {
		return nil, err
	}
	r, err := in.rpc.Validate(ctx, &pluginpb.ValidateRequest{Part: part, Config: config})
	if err != nil {
		return nil, fmt.Errorf("validate config of plugin %q: %w", p.options.Name, err)
	}
	var out []sdk.Diagnostic
	for _, d := range r.Diagnostics {
		out = append(out, sdk.Diagnostic{Pointer: d.Pointer, Message: d.Message, Hint: d.Hint})
	}
	return out, nil
}

// Raw is the client of the process now running, for tests of the protocol itself. What is done
// with it is not supervised.
func (p *Plugin) Raw(ctx context.Context) (pluginpb.PluginClient, error) {
	in, err := p.instance(ctx)
	if err != nil {
		return nil, err
	}
	return in.rpc, nil
}

// supervise keeps an instance running until Close or the breaker.
func (p *Plugin) supervise(in *instance) {
	defer close(p.done)
	for {
		select {
		case <-in.done:
		case <-p.ctx.Done():
			in.stop()
			return
		}
		in.stop()
		wait, err := p.crashed(in)
		for err == nil {
			select {
			case <-time.After(wait):
			case <-p.ctx.Done():
				return
			}
			var next *instance
			if next, err = p.launcher.launch(p.ctx); err == nil {
				in = next
				break
			}
			if p.ctx.Err() != nil {
				return
			}
			p.options.Logger.Warn("plugin does not start again", "error", err)
			wait, err = p.crashed(nil)
		}
		if err != nil {
			p.options.Logger.Error("plugin given up", "error", err)
			p.set(nil, err)
			return
		}
		p.options.Logger.Info("plugin restarted", "pid", in.pid)
		p.set(in, nil)
	}
}

// crashed notes a crash, or a failed restart, and says when to start again, or that the breaker
// opened.
func (p *Plugin) crashed(in *instance) (wait time.Duration, err error) {
	how := "does not start"
	if in != nil {
		how = in.exit()
		p.options.Logger.Warn("plugin process ended", "pid", in.pid, "exit", how)
	}
	p.set(nil, nil)
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	recent := p.mu.crashes[:0]
	for _, c := range p.mu.crashes {
		if now.Sub(c.at) < breakerWindow {
			recent = append(recent, c)
		}
	}
	p.mu.crashes = append(recent, crash{now, in})
	p.mu.restarts++
	n := len(p.mu.crashes)
	if n >= breakerCrashes {
		return 0, fmt.Errorf("plugin %q ended %d times within %s, last %s: %w",
			p.options.Name, n, breakerWindow, how, ErrCrashLoop)
	}
	if n == 1 {
		return 0, nil
	}
	return min(maxRestartWait, 50*time.Millisecond<<(n-2)), nil
}

// excuse takes the crashes of these instances out of the breaker's count.
func (p *Plugin) excuse(of []*instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := p.mu.crashes[:0]
	for _, c := range p.mu.crashes {
		guilty := false
		for _, in := range of {
			guilty = guilty || c.of == in
		}
		if !guilty {
			kept = append(kept, c)
		}
	}
	p.mu.crashes = kept
}

func (p *Plugin) set(in *instance, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.current = in
	if err != nil {
		p.mu.err = err
	}
	close(p.mu.change)
	p.mu.change = make(chan struct{})
}

// instance waits for a living instance.
func (p *Plugin) instance(ctx context.Context) (*instance, error) {
	for {
		p.mu.Lock()
		in, err, change := p.mu.current, p.mu.err, p.mu.change
		p.mu.Unlock()
		if err != nil {
			return nil, err
		}
		if in != nil {
			select {
			case <-in.done: // the supervisor has not seen it yet
			default:
				return in, nil
			}
		}
		select {
		case <-change:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-p.ctx.Done():
			return nil, context.Cause(p.ctx)
		}
	}
}

// lost makes sure that the instance a stream broke on is gone, and says how it ended.
func (p *Plugin) lost(in *instance, err error) error {
	if in.pid == 0 {
		in.kill()
		return fmt.Errorf("%w: %w", errCrashed, err)
	}
	select {
	case <-in.done:
	case <-time.After(quitWait):
		in.kill()
		<-in.done
	}
	how := in.exit()
	return fmt.Errorf("%w: %s", errCrashed, how)
}

// register adds a stream, for Close to end.
func (p *Plugin) register(c io.Closer) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return context.Cause(p.ctx)
	}
	p.mu.streams = append(p.mu.streams, c)
	return nil
}

func (p *Plugin) unregister(c io.Closer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, s := range p.mu.streams {
		if s == c {
			p.mu.streams = append(p.mu.streams[:i], p.mu.streams[i+1:]...)
			return
		}
	}
}

func (p *Plugin) streamCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.mu.streams)
}

// closeAllAtOnce closes streams side by side: each may take the drain timeout.
func closeAllAtOnce(streams []io.Closer) error {
	errs := make([]error, len(streams))
	var wg sync.WaitGroup
	for i, s := range streams {
		wg.Go(func() { errs[i] = s.Close() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Close drains the streams that are still open, each for at most the drain timeout, and ends the
// process with everything it started. It may be called more than once.
func (p *Plugin) Close() error {
	var errs []error
	for {
		p.mu.Lock()
		streams := append([]io.Closer(nil), p.mu.streams...)
		p.mu.Unlock()
		if len(streams) == 0 {
			break
		}
		errs = append(errs, closeAllAtOnce(streams))
	}
	p.cancel(fmt.Errorf("plugin %q: %w", p.options.Name, ErrClosed))
	<-p.done
	return errors.Join(errs...)
}
