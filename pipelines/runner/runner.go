package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/millstream-io/millstream/pipelines/check"
	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/pipelines/lang"
	"github.com/millstream-io/millstream/pipelines/plan"
	"github.com/millstream-io/millstream/plugins/host"
	"github.com/millstream-io/millstream/plugins/sdk"
	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/state"
)

// Options are what a [Runner] needs. Cluster and StateDir are required.
type Options struct {
	// Cluster makes the clients of one run; the run closes what it got.
	Cluster func() (client.Cluster, error)
	// StateDir holds the state files of tasks.
	StateDir string
	// CacheDir keeps plugins built from source; "" is the user's cache.
	CacheDir string
	// Connectors compiled into the binary.
	Connectors []sdk.Plugin
	// ConnectorCommand says how to start a connector's process; nil runs connectors in this one.
	ConnectorCommand func(name string) (host.Command, error)
	// Instance, if set, makes this one of several workers that share the tasks of each pipeline; it is
	// who this worker is, also after a restart. Standby is how many of them keep a copy of the state
	// of a task that another one runs.
	Instance string
	Standby  int
	// StateMemory bounds what the states of all pipelines here take in memory, in bytes: half of it
	// for rows that are not in their files yet, beyond which tasks commit earlier, half for rows
	// kept for reading. 0 is 512 MiB.
	StateMemory int64
	// Address is where this process answers questions for state, "" if it does not; it may be known
	// only after the runner is made.
	Address func() string
	// HangTimeout is how long a plugin may take for a batch before it counts as hung, 0 is the host's
	// default.
	HangTimeout time.Duration
	// StopGrace is how long a stop waits for plugins to answer what they were given; what they leave
	// unanswered is done again by the next run. 0 is 8 s.
	StopGrace time.Duration
	// Output gets what connectors write to the standard output of the host; nil is the log.
	Output io.Writer
	// Logger for the pipeline's own words; LogFor, if set, gives one per pipeline instead.
	Logger *slog.Logger
	LogFor func(pipeline string) *slog.Logger
	// Now is the clock of processing_time() and of ingest timestamps; nil is time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.LogFor == nil {
		log := o.Logger
		o.LogFor = func(pipeline string) *slog.Logger { return log.With("pipeline", pipeline) }
	}
	if o.StateMemory == 0 {
		o.StateMemory = 512 << 20
	}
	if o.Address == nil {
		o.Address = func() string { return "" }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.StopGrace == 0 {
		o.StopGrace = 8 * time.Second
	}
	return o
}

// Runner starts pipelines; it is what a worker's [deploy.Reconciler] launches with.
type Runner struct {
	opts   Options
	budget *state.Budget

	mu struct {
		sync.Mutex
		began map[string]*instance // the latest that has begun, by pipeline
	}
}

var _ deploy.Launcher = (*Runner)(nil)

// New returns a runner.
func New(opts Options) *Runner {
	r := &Runner{opts: opts.withDefaults()}
	r.budget = state.NewBudget(r.opts.StateMemory)
	r.mu.began = map[string]*instance{}
	return r
}

// prepared is a revision that can be started.
type prepared struct {
	revision deploy.Revision
	plan     *plan.Plan
	commands map[string]host.Command // of plugins, by alias
}

// ErrFindings is a revision that has errors; Findings has them all.
type ErrFindings struct {
	Findings []lang.Finding
}

// Error gives the first finding and how many there are.
func (e *ErrFindings) Error() string {
	for _, f := range e.Findings {
		if f.Severity == lang.Error {
			return fmt.Sprintf("%s:%d:%d: %s: %s (%d findings)", f.File, f.Line, f.Col, f.Code,
				f.Message, len(e.Findings))
		}
	}
	return "the pipeline has errors"
}

// Compile compiles a revision exactly as it will run.
func Compile(r deploy.Revision, catalog check.Catalog) (*plan.Plan, []lang.Finding) {
	p, _, findings := plan.Compile(r.File, []byte(r.Text), LoadOptions(r),
		check.Options{Catalog: catalog})
	return p, findings
}

// Prepare compiles a revision and builds its plugins. It starts nothing that stays.
func (r *Runner) Prepare(ctx context.Context, revision deploy.Revision) (deploy.Instance, error) {
	catalog := NewCatalog(CatalogOptions{Connectors: r.opts.Connectors, Dir: revision.Dir,
		Build: true, CacheDir: r.opts.CacheDir})
	defer catalog.Close()
	compiled, findings := Compile(revision, catalog)
	if compiled == nil {
		return nil, &ErrFindings{findings}
	}
	p := &prepared{revision: revision, plan: compiled, commands: map[string]host.Command{}}
	for _, plugin := range compiled.Plugins {
		source := pluginSource{alias: plugin.Alias, dir: resolve(revision.Dir, plugin.Source),
			cacheDir: r.opts.CacheDir, memory: plugin.Memory}
		command, err := source.command(ctx)
		if err != nil {
			return nil, err
		}
		command.Dir = revision.Dir
		p.commands[plugin.Alias] = command
	}
	return newInstance(r, p), nil
}

// LoadOptions say what the references of a revision resolve to: its variables, the environment and
// secrets of this process, and files below the folder of the pipeline.
func LoadOptions(r deploy.Revision) lang.Options {
	return lang.Options{
		Vars: r.Vars, Matched: r.Matched,
		Include: func(path string) ([]byte, error) {
			if text, ok := r.Includes[path]; ok {
				return []byte(text), nil
			}
			return readBelow(r.Dir, path)
		},
		ReadFile: func(path string) ([]byte, error) {
			return readBelow(r.Dir, path)
		},
		Secret: secretFromEnv,
	}
}

var errOutside = errors.New("the file lies outside the pipeline's folder")

// stateDir is where the tasks of a pipeline keep their state.
func (r *Runner) stateDir() string { return filepath.Clean(r.opts.StateDir) }
