package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/cli/output"
	"github.com/millstream-io/millstream/connectors"
	"github.com/millstream-io/millstream/core"
	"github.com/millstream-io/millstream/core/metrics"
	"github.com/millstream-io/millstream/core/vfs"
	"github.com/millstream-io/millstream/core/vnet"
	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/pipelines/runner"
	"github.com/millstream-io/millstream/streams/client"
)

// Where dev and server keep their data and listen unless told otherwise.
const (
	defaultDataDir = "millstream-data"
	defaultListen  = "127.0.0.1:9092"
	defaultHTTP    = "127.0.0.1:9080"
)

// drainTimeout bounds an orderly stop.
const drainTimeout = 20 * time.Second

// nodeOptions describe the process to start: a broker and the worker that runs pipelines.
type nodeOptions struct {
	dataDir      string
	listen, http string
	// movePorts takes free ports instead of taken ones (dev) rather than failing (server).
	movePorts bool
	readyFile string
	configs   map[string]string
	// insecure allows listeners without authentication beyond this machine.
	insecure bool
	// noWorker leaves pipelines to worker processes: two that do not share would run each twice.
	noWorker bool
	// stateMemory bounds what states of pipelines take in memory, in bytes; 0 is the runner's default.
	stateMemory int64
	logger      *slog.Logger
	onStatus    func(deploy.Status)
	// output gets what stdout connectors write.
	output io.Writer
}

// node is a running process: stop it with close.
type node struct {
	opts   nodeOptions
	broker *core.Broker
	store  *deploy.Store
	// runner runs the pipelines; the broker's HTTP endpoints ask it for state.
	runner *runner.Runner
	moved  []string // what had to move to another port
	worker worker
	// metrics are those of the pipelines.
	metrics *pipelineMetrics
}

// worker runs the pipelines of a node.
type worker struct {
	stop context.CancelFunc // nil before it is started
	done chan struct{}      // closed when it has ended
	err  error              // why, once done is closed
}

func startNode(ctx context.Context, opts nodeOptions) (*node, error) {
	n := &node{opts: opts, metrics: newPipelineMetrics(opts.configs)}
	if opts.readyFile != "" {
		_ = os.Remove(opts.readyFile) // that of an earlier run says nothing about this one
	}
	if err := n.choosePorts(); err != nil {
		return nil, err
	}
	n.runner = n.newRunner()
	broker, err := core.Open(ctx, core.Options{
		FS: vfs.OS(), Net: vnet.TCP(), DataDir: opts.dataDir,
		Listen: n.opts.listen, HTTPListen: n.opts.http, Logger: opts.logger, Config: opts.configs,
		Insecure: opts.insecure, Metrics: []metrics.Source{n.metrics},
		HTTPHandlers: n.metrics.endpoints(n.runner, opts.insecure, opts.logger),
	})
	if err != nil {
		return nil, explainOpen(err, opts)
	}
	n.broker = broker
	if !opts.noWorker {
		if err := n.startWorker(ctx); err != nil {
			return nil, errors.Join(err, n.close())
		}
	}
	if err := n.announce(); err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

// choosePorts moves away from taken ports when that is allowed.
func (n *node) choosePorts() error {
	addresses := []*string{&n.opts.listen, &n.opts.http}
	if n.opts.configs["listeners"] != "" {
		addresses = addresses[1:] // the broker takes those itself
	}
	for _, address := range addresses {
		host, _, err := net.SplitHostPort(*address)
		if err != nil {
			return output.Usage("BAD_ADDRESS", fmt.Sprintf("%q is not host:port", *address)).
				WithCause(err).WithDo("write it like 127.0.0.1:9092, or 127.0.0.1:0 for a free port")
		}
		listener, err := net.Listen("tcp", *address)
		if err == nil {
			_ = listener.Close()
			continue
		}
		if !errors.Is(err, syscall.EADDRINUSE) || !n.opts.movePorts {
			return output.Environment("CANNOT_LISTEN", "cannot listen on "+*address).
				WithCause(err).WithDo("choose another with --listen or --http, such as 127.0.0.1:0")
		}
		n.moved = append(n.moved, *address)
		*address = net.JoinHostPort(host, "0")
	}
	return nil
}

// startWorker runs the pipelines wanted in the control topics, over in-memory connections.
func (n *node) startWorker(ctx context.Context) error {
	store, err := deploy.OpenStore(ctx, n.connect())
	if err != nil {
		return err
	}
	n.store = store
	reconciler := deploy.NewReconciler(deploy.ReconcilerOptions{
		Store: store, Launcher: n.runner, OnStatus: n.opts.onStatus, HTTP: n.broker.HTTPAddr(),
		Logger: slog.New(pipelineLog{Handler: n.opts.logger.Handler(), of: func(name string) slog.Handler {
			return store.LogHandler(name, slog.LevelInfo)
		}}),
	})
	n.metrics.reconciler.Store(reconciler)
	workerCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	n.worker = worker{stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(n.worker.done)
		n.worker.err = reconciler.Run(workerCtx)
	}()
	return nil
}

// newRunner makes what runs pipelines; it starts nothing.
func (n *node) newRunner() *runner.Runner {
	return runner.New(runner.Options{
		Cluster:    n.cluster,
		StateDir:   filepath.Join(n.opts.dataDir, "state"),
		CacheDir:   filepath.Join(n.opts.dataDir, "plugins"),
		Connectors: connectors.Builtin(), ConnectorCommand: connectorCommand,
		Output: n.opts.output, LogFor: n.logFor,
		Address:     func() string { return n.broker.HTTPAddr() },
		StateMemory: n.opts.stateMemory,
	})
}

// logFor sends what a pipeline says to the process's log and to the log topic.
func (n *node) logFor(pipeline string) *slog.Logger {
	return slog.New(deploy.Tee{
		n.opts.logger.Handler().WithAttrs([]slog.Attr{slog.String("pipeline", pipeline)}),
		n.store.LogHandler(pipeline, slog.LevelInfo),
	})
}

// cluster makes the clients of one pipeline's run.
func (n *node) cluster() (client.Cluster, error) {
	return client.NewKafka(client.Options{
		Seeds: []string{n.broker.Addr()}, ClientID: "millstream-worker", Logger: n.opts.logger,
		Dialer: n.dial,
	})
}

func (n *node) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return n.broker.Dial(ctx)
}

// connect makes clients that reach the broker without a socket.
func (n *node) connect() deploy.Connect {
	return func(opts ...kgo.Opt) (*kgo.Client, error) {
		base := []kgo.Opt{
			kgo.SeedBrokers(n.broker.Addr()),
			kgo.ClientID("millstream-worker"),
			kgo.Dialer(n.dial),
		}
		return kgo.NewClient(append(base, opts...)...)
	}
}

// readyInfo is what --ready-file receives.
type readyInfo struct {
	Bootstrap string `json:"bootstrap"`
	HTTP      string `json:"http"`
	PID       int    `json:"pid"`
}

func (n *node) announce() error {
	info := readyInfo{n.broker.Addr(), n.broker.HTTPAddr(), os.Getpid()}
	return info.announce(n.opts.readyFile)
}

// announce writes the file that tells others, if one is wanted.
func (info readyInfo) announce(file string) error {
	if file == "" {
		return nil
	}
	data, err := json.Marshal(info)
	if err != nil {
		return err
	}
	// A reader that polls for the file must never see half of it.
	tmp := file + ".tmp"
	if err := os.WriteFile(tmp, append(data, '\n'), 0o644); err != nil {
		return cannotWrite(file, err)
	}
	return os.Rename(tmp, file)
}

// close drains pipelines first, then the broker.
func (n *node) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	var errs []error
	if n.worker.stop != nil {
		n.worker.stop()
		select {
		case <-n.worker.done:
			errs = append(errs, explainWorker(n.worker.err))
		case <-ctx.Done():
			errs = append(errs, output.Environment("TIMEOUT",
				fmt.Sprintf("pipelines did not stop within %s", drainTimeout)))
		}
	}
	if n.store != nil {
		n.store.Close()
	}
	return errors.Join(append(errs, n.broker.Close(ctx))...)
}

func explainWorker(err error) error {
	if err == nil {
		return nil
	}
	return output.Failure("WORKER_FAILED", "what runs the pipelines has ended").WithCause(err)
}

// unlessStopped passes err on, except what Ctrl-C or SIGTERM made of a start that was under way:
// then a node did what it was told to do.
func unlessStopped(ctx context.Context, serving *bool, err error) error {
	if ctx.Err() != nil && !*serving {
		return nil
	}
	return err
}

// explainOpen puts the commonest reasons for which a broker does not start into users' words.
func explainOpen(err error, opts nodeOptions) error {
	var locked *vfs.LockedError
	if errors.As(err, &locked) {
		return output.Environment("DATA_DIR_LOCKED",
			fmt.Sprintf("%s is in use by process %d", opts.dataDir, locked.PID)).
			WithDo("stop that process, or choose another folder with --data-dir")
	}
	if errors.Is(err, core.ErrNoAuthentication) {
		return output.Usage("NO_AUTHENTICATION",
			"other machines could do everything here without saying who they are").WithCause(err).
			WithDo("set up SASL or client certificates, listen on 127.0.0.1, or say --insecure")
	}
	return output.Environment("CANNOT_START", "the broker cannot start").WithCause(err)
}
