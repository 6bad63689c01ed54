package command

import (
	"context"
	"errors"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/millstream-io/millstream/cli/output"
)

func newServerCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run a node: the log and the pipelines applied to it",
		Long: "" +
			"Run a node: the log and the pipelines applied to it, until SIGTERM or Ctrl-C, which drain\n" +
			"and end with exit code 0. Settings come from flags, MILLSTREAM_ variables and --config.",
		Args: cobra.NoArgs,
		Example: "  millstream server --data-dir /var/lib/millstream\n" +
			"  millstream server --listen 127.0.0.1:19092 --http 127.0.0.1:19080 --config node.yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			serving := false
			return unlessStopped(cmd.Context(), &serving, a.serve(cmd.Context(), &serving))
		},
	}
	flags := cmd.Flags()
	flags.String("data-dir", defaultDataDir, "folder of the log, state and built plugins")
	flags.String("listen", defaultListen, "host:port for Kafka clients")
	flags.String("http", defaultHTTP, "host:port of /healthz, /readyz, /metrics, /debug/pprof")
	flags.String("roles", "", "worker: only run pipelines, of the cluster at --bootstrap, with\n"+
		"others; broker,controller: leave them to such workers; else all of it, alone")
	flags.String("state-memory", "512", "MiB of memory for state; beyond it tasks commit early")
	flags.String("config", "", "YAML file with these settings, and broker configs under broker:")
	flags.Bool("insecure", false, "allow addresses that other machines reach, without authentication")
	flags.String("ready-file", "", "file that receives addresses and pid as JSON when serving")
	flags.String("log-format", "auto", "text, json, or auto: text on a terminal")
	flags.String("log-level", "info", "debug, info, warn or error")
	return cmd
}

// stateMemory is what states of pipelines may take in memory, in bytes.
func (a *app) stateMemory() (int64, error) {
	text := a.settings.GetString("state-memory")
	mib, err := strconv.ParseInt(text, 10, 32)
	if err != nil || mib < 1 {
		return 0, output.Usage("BAD_SETTINGS", "--state-memory "+text+" is not a number of MiB").
			WithDo("write it like --state-memory 512")
	}
	return mib << 20, nil
}

// serve runs a node until ctx ends or it fails; *serving tells that it has started.
func (a *app) serve(ctx context.Context, serving *bool) error {
	if file := a.settings.GetString("config"); file != "" {
		if err := a.settings.merge(file); err != nil {
			return output.Usage("BAD_CONFIG", "cannot use the settings in "+file).WithCause(err)
		}
	}
	level, err := parseLevel(a.settings.GetString("log-level"))
	if err != nil {
		return err
	}
	logger, err := newLogger(a.streams.Err, level, a.settings.GetString("log-format"))
	if err != nil {
		return err
	}
	limitMemory()
	loosenTimers()
	hasLog, pipelines, err := a.roles()
	if err != nil {
		return err
	}
	if !hasLog {
		*serving = true
		return a.serveWorker(ctx, logger)
	}
	stateMemory, err := a.stateMemory()
	if err != nil {
		return err
	}
	n, err := startNode(ctx, nodeOptions{stateMemory: stateMemory,
		dataDir: a.settings.GetString("data-dir"), listen: a.settings.GetString("listen"),
		http: a.settings.GetString("http"), readyFile: a.settings.GetString("ready-file"),
		configs: a.settings.broker, insecure: a.settings.GetBool("insecure"), noWorker: !pipelines,
		logger: logger, output: a.streams.Out,
	})
	if err != nil {
		return err
	}
	*serving = true
	go keepMemorySmall(ctx)
	a.printer.Note("broker   %s\nhttp     http://%s\ndata     %s", n.broker.Addr(),
		n.broker.HTTPAddr(), n.opts.dataDir)
	select {
	case <-ctx.Done():
		a.printer.Note("draining")
		return n.close()
	case <-n.broker.Failed():
		return errors.Join(n.broker.Err(), n.close())
	case <-n.worker.done:
		return n.close()
	}
}
