package command

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/spf13/cobra"

	"github.com/millstream-io/millstream/cli/output"
	"github.com/millstream-io/millstream/pipelines/deploy"
)

func newDevCommand(a *app) *cobra.Command {
	var vars []string
	var untilDone bool
	cmd := &cobra.Command{
		Use:   "dev [DIR|FILE]",
		Short: "Run the log and one pipeline on this machine, and reload it when its files change",
		Long: "" +
			"Run the log and one pipeline on this machine, on loopback, with nothing to set up. Results\n" +
			"are printed as they come. A change to the YAML or to a plugin's source is checked and, if\n" +
			"it has no errors, applied while the old revision drains. Ctrl-C drains and ends; the next\n" +
			"start goes on where this one stopped.",
		Args: cobra.MaximumNArgs(1),
		Example: "  millstream dev examples/flights\n" +
			"  millstream dev examples/flights --until-done --var out=/tmp/delays.ndjson",
		RunE: func(cmd *cobra.Command, args []string) error {
			d := &dev{app: a, vars: vars, untilDone: untilDone, done: make(chan deploy.Status, 1)}
			if len(args) == 1 {
				d.path = args[0]
			}
			return unlessStopped(cmd.Context(), &d.serving, d.run(cmd.Context()))
		},
	}
	flags := cmd.Flags()
	flags.String("data-dir", defaultDataDir, "folder of the log, state and built plugins")
	flags.String("listen", defaultListen, "host:port for Kafka clients; another port if it is taken")
	flags.String("http", defaultHTTP, "host:port for HTTP; another port if it is taken")
	flags.StringArrayVar(&vars, "var", nil, "value of a variable, name=value")
	flags.BoolVar(&untilDone, "until-done", false, "end when bounded sources are read and processed")
	flags.String("ready-file", "", "file that receives addresses and pid as JSON when serving")
	flags.String("log-level", "warn", "debug, info, warn or error")
	return cmd
}

// dev is one run of the command.
type dev struct {
	app       *app
	path      string
	vars      []string
	untilDone bool

	serving bool // the node has started

	node   *node
	rows   *rowPrinter
	screen *devScreen
	done   chan deploy.Status // the pipeline came to an end, once

	mu struct {
		sync.Mutex
		current *pipelineFile // what was applied last; nil without a pipeline
		last    deploy.Status // of it
	}
	// Owned by the goroutine that watches files, once it runs.
	followed map[string]bool   // topics whose rows are shown
	sums     map[string]string // checksums of the plugins of current
	refused  bool              // the last change was not applied
	waits    bool              // nothing was applied, as the cluster is not ready for it
	waiting  *pipelineFile     // what the cluster is not ready for; nil while the file has errors
}

func (d *dev) current() *pipelineFile {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.current
}

func (d *dev) run(ctx context.Context) error {
	if err := d.read(); err != nil {
		return err
	}
	level, err := parseLevel(d.app.settings.GetString("log-level"))
	if err != nil {
		return err
	}
	if d.untilDone && d.current() == nil {
		return output.Usage("NOTHING_TO_DO", "there is no pipeline here that could come to an end").
			WithDo("name one: millstream dev DIR --until-done")
	}
	d.screen = newDevScreen(d.app, d.current())
	settings := d.app.settings
	d.node, err = startNode(ctx, nodeOptions{
		dataDir: settings.GetString("data-dir"), listen: settings.GetString("listen"),
		http: settings.GetString("http"), readyFile: settings.GetString("ready-file"),
		movePorts: true, logger: slog.New(devLog{screen: d.screen, level: level}), onStatus: d.onStatus,
		output: d.app.streams.Out, configs: settings.broker,
	})
	if err != nil {
		return err
	}
	d.serving = true
	d.screen.addresses(d.node)
	err = d.serve(ctx)
	return errors.Join(err, d.node.close())
}

// read finds and compiles the pipeline; without one, dev is a log to try clients with.
func (d *dev) read() error {
	if d.path == "" {
		if _, err := os.Stat(defaultPipelineFile); err != nil {
			return nil
		}
		d.path = defaultPipelineFile
	}
	p, err := readPipeline(d.path, d.vars, true, d.cacheDir())
	if err != nil {
		return err
	}
	d.mu.current = p
	return d.app.refuseErrors(p)
}

func (d *dev) cacheDir() string {
	return filepath.Join(d.app.settings.GetString("data-dir"), "plugins")
}

// serve runs until Ctrl-C, until the pipeline is done if that was asked for, or until the broker
// fails.
func (d *dev) serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	if d.current() != nil {
		if err := d.startPipeline(ctx, &wg); err != nil && ctx.Err() == nil {
			return err // else Ctrl-C came before the pipeline had started
		}
	}
	for {
		select {
		case <-ctx.Done():
			d.screen.stopping()
			return nil
		case <-d.node.broker.Failed():
			return d.node.broker.Err()
		case <-d.node.worker.done:
			return nil // close tells why
		case st := <-d.done:
			d.screen.ended(d.node, st, d.rows.rest())
			if !d.untilDone {
				continue
			}
			if st.State == deploy.Failed {
				return output.Failure("PIPELINE_FAILED", st.Name+" failed; its position is kept").
					WithWhy(st.Error)
			}
			return nil
		}
	}
}

// startPipeline applies the pipeline, if it is not the one applied already, and watches its files.
func (d *dev) startPipeline(ctx context.Context, wg *sync.WaitGroup) error {
	p := d.current()
	if err := p.match(ctx, d.node.connect(), d.cacheDir()); err != nil {
		return err
	}
	if err := d.app.refuseErrors(p); err != nil {
		return err
	}
	if err := d.checkState(ctx, p); err != nil {
		return err
	}
	d.others(ctx, p)
	d.rows = &rowPrinter{out: d.app.streams.Out, before: d.screen.clear, connect: d.node.connect()}
	d.followed, d.sums = map[string]bool{}, pluginSums(ctx, p, d.cacheDir())
	follow, err := d.followRows(ctx, wg, p)
	if err != nil {
		return err
	}
	waits, err := d.waitsForCluster(ctx, p)
	if err == nil && !waits {
		err = d.apply(ctx, p)
	}
	if err != nil {
		return err
	}
	follow()
	wg.Go(func() {
		err := watchTree(ctx, p.revision.Dir,
			func(changed []string) { d.reload(ctx, wg, changed) },
			func() { d.lookAgain(ctx, wg) })
		if err != nil {
			d.app.printer.Note("changes are not noticed: %v", err)
		}
	})
	return nil
}

// checkState refuses a pipeline that was changed since the last run in a way that its state cannot
// follow.
func (d *dev) checkState(ctx context.Context, p *pipelineFile) error {
	applied, err := d.node.store.Get(ctx, p.revision.Name)
	if err != nil || applied.Hash() == p.revision.Hash() {
		return nil //nolint:nilerr // nothing of that name was applied
	}
	before, err := compileRevision(applied)
	if err != nil {
		return nil //nolint:nilerr // it cannot be compared
	}
	return stateLoss(before, p.plan)
}

// others tells which pipelines of the data directory run beside this one.
func (d *dev) others(ctx context.Context, p *pipelineFile) {
	all, err := d.node.store.List(ctx)
	if err != nil {
		return
	}
	for _, r := range all {
		if r.Name != p.revision.Name && r.Wanted == deploy.WantRunning && r.Replay == nil {
			d.screen.note("also     %s, applied before   millstream pipeline stop %s%s", r.Name, r.Name,
				d.screen.bootstrap(d.node))
		}
	}
}

// followRows looks up where the pipeline's result topics end, and gives what shows the rows that
// are appended behind. Topics that are followed already are left out.
func (d *dev) followRows(
	ctx context.Context, wg *sync.WaitGroup, p *pipelineFile,
) (start func(), err error) {
	var topics []string
	for _, topic := range sinkTopics(p) {
		if !d.followed[topic] {
			topics = append(topics, topic)
		}
	}
	ends, err := d.rows.ends(ctx, topics)
	if err != nil {
		return nil, err
	}
	return func() {
		for _, topic := range topics {
			d.followed[topic] = true
		}
		wg.Go(func() {
			if err := d.rows.follow(ctx, ends); err != nil && ctx.Err() == nil {
				d.app.printer.Note("rows cannot be shown: %v", err)
			}
		})
	}, nil
}

// sinkTopics are the topics whose records are results.
func sinkTopics(p *pipelineFile) []string {
	var topics []string
	for _, s := range p.plan.Sinks {
		if s.Connector == nil {
			topics = append(topics, s.Topic)
		}
	}
	return topics
}

// apply makes the file the wanted revision unless it is that already; then it only wants it to run.
func (d *dev) apply(ctx context.Context, p *pipelineFile) error {
	wanted, err := d.node.store.Get(ctx, p.revision.Name)
	same := err == nil && wanted.Hash() == p.revision.Hash()
	switch {
	case err != nil && !errors.Is(err, deploy.ErrUnknownPipeline):
		return err
	case same && wanted.Wanted == deploy.WantRunning:
		return nil // the worker has started it
	case same:
		_, err = d.node.store.SetWanted(ctx, p.revision.Name, deploy.WantRunning)
		return err
	}
	_, err = d.node.store.Apply(ctx, p.revision)
	return err
}

// onStatus hears of every status before it is published.
func (d *dev) onStatus(st deploy.Status) {
	d.mu.Lock()
	mine := d.mu.current != nil && st.Name == d.mu.current.revision.Name
	if mine {
		d.mu.last = st
	}
	d.mu.Unlock()
	if !mine {
		return
	}
	d.screen.show(st)
	if st.State != deploy.Done && st.State != deploy.Failed {
		return
	}
	select {
	case d.done <- st:
	default: // the one before was not looked at yet; it says the same
	}
}
