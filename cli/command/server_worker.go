package command

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/cli/output"
	"github.com/millstream-io/millstream/connectors"
	"github.com/millstream-io/millstream/core/metrics"
	"github.com/millstream-io/millstream/core/server/admin"
	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/pipelines/runner"
	"github.com/millstream-io/millstream/streams/client"
)

// roles are what the process does: have the log, run pipelines.
func (a *app) roles() (log, pipelines bool, err error) {
	switch roles := a.settings.GetString("roles"); roles {
	case "", "broker,controller,worker":
		return true, true, nil
	case "broker,controller":
		return true, false, nil
	case "worker":
		return false, true, nil
	default:
		return false, false, output.Usage("BAD_ROLES", "--roles "+roles+" is not supported").
			WithDo("leave it out for a whole node, or say --roles broker,controller for one whose " +
				"pipelines others run, or --roles worker for one of those")
	}
}

// serveWorker shares the pipelines of the cluster at --bootstrap with its other workers until ctx
// ends.
func (a *app) serveWorker(ctx context.Context, logger *slog.Logger) error {
	dir := a.settings.GetString("data-dir")
	instance, err := instanceOf(dir)
	if err != nil {
		return cannotWrite(dir, err)
	}
	if file := a.settings.GetString("ready-file"); file != "" {
		_ = os.Remove(file) // that of an earlier run says nothing about this one
	}
	listener, err := a.listenHTTP(ctx)
	if err != nil {
		return err
	}
	httpAddr := listener.Addr().String()
	stateMemory, err := a.stateMemory()
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	seeds := strings.Split(a.settings.GetString("bootstrap"), ",")
	launcher := runner.New(runner.Options{
		Cluster: func() (client.Cluster, error) {
			return client.NewKafka(client.Options{Seeds: seeds, ClientID: "millstream-worker",
				Logger: logger})
		},
		StateDir: filepath.Join(dir, "state"), CacheDir: filepath.Join(dir, "plugins"),
		Connectors: connectors.Builtin(), ConnectorCommand: connectorCommand,
		Output: a.streams.Out, Logger: logger, Instance: instance,
		Address: func() string { return httpAddr }, StateMemory: stateMemory,
	})
	reads := newPipelineMetrics(a.settings.broker)
	defer serveHTTP(listener, admin.Options{Logger: logger, Sources: []metrics.Source{reads},
		Handlers: reads.endpoints(launcher, a.settings.GetBool("insecure"), logger),
		Ready: func() error {
			if reads.reconciler.Load() == nil {
				return errors.New("the cluster is not reached yet")
			}
			return nil
		}})()
	store, err := deploy.OpenStore(ctx, func(opts ...kgo.Opt) (*kgo.Client, error) {
		return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(seeds...),
			kgo.ClientID("millstream-worker")}, opts...)...)
	})
	if err != nil {
		return err
	}
	defer store.Close()
	reconciler := deploy.NewReconciler(deploy.ReconcilerOptions{Store: store, Launcher: launcher,
		Logger: logger, HTTP: httpAddr, Worker: instance})
	reads.reconciler.Store(reconciler)
	a.printer.Note("worker   %s\ncluster  %s\nhttp     http://%s\ndata     %s", instance,
		strings.Join(seeds, ","), httpAddr, dir)
	info := readyInfo{strings.Join(seeds, ","), httpAddr, os.Getpid()}
	if err := info.announce(a.settings.GetString("ready-file")); err != nil {
		return err
	}
	return explainWorker(reconciler.Run(ctx))
}

// instanceOf returns who the worker of a folder is: the same for ever, so that a restart moves
// nothing.
func instanceOf(dir string) (string, error) {
	path := filepath.Join(dir, "worker-id")
	text, err := os.ReadFile(path)
	if err == nil && len(text) > 0 {
		return strings.TrimSpace(string(text)), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	id := "worker-" + strings.ToLower(rand.Text()[:10])
	return id, os.WriteFile(path, []byte(id+"\n"), 0o644)
}
