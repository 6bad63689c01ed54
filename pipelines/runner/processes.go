package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/millstream-io/millstream/pipelines/plan"
	"github.com/millstream-io/millstream/plugins/host"
	"github.com/millstream-io/millstream/plugins/pluginpb"
	"github.com/millstream-io/millstream/plugins/sdk"
)

// pluginSource is a plugin as a pipeline names it: a folder of Go source, or a built binary.
type pluginSource struct {
	alias, dir, cacheDir string
	memory               int64 // bytes, 0 is no limit
	logger               *slog.Logger
}

// command builds the plugin if it is a folder and says how to start it.
func (s pluginSource) command(ctx context.Context) (host.Command, error) {
	info, err := os.Stat(s.dir)
	if err != nil {
		return host.Command{}, fmt.Errorf("plugin %q: %w", s.alias, err)
	}
	if !info.IsDir() {
		sum, err := host.Checksum(s.dir)
		return host.Command{Path: s.dir, SHA256: sum}, err
	}
	binary, err := host.Build(ctx, s.dir, host.BuildOptions{CacheDir: s.cacheDir})
	if err != nil {
		return host.Command{}, fmt.Errorf("plugin %q: %w", s.alias, err)
	}
	c := host.Command{Path: binary.Path, SHA256: binary.SHA256}
	if s.memory > 0 {
		c.Env = append(c.Env, fmt.Sprintf("GOMEMLIMIT=%d", s.memory))
	}
	return c, nil
}

func startPlugin(ctx context.Context, s pluginSource) (*host.Plugin, error) {
	command, err := s.command(ctx)
	if err != nil {
		return nil, err
	}
	return host.Start(ctx, host.Options{Name: s.alias, Command: command, Logger: s.logger})
}

// processes are the plugins and connectors of one run.
type processes struct {
	operators  map[string]*host.Plugin // by alias
	connectors map[string]*host.Plugin // by name
	all        []*host.Plugin
}

// startProcesses starts what the plan needs. Each connector kind has one process that serves all
// of its sources and sinks.
func (r *Runner) startProcesses(
	ctx context.Context, p *prepared, log *slog.Logger,
) (*processes, error) {
	ps := &processes{operators: map[string]*host.Plugin{}, connectors: map[string]*host.Plugin{}}
	for alias, command := range p.commands {
		plugin, err := host.Start(ctx, host.Options{Name: alias, Command: command, Logger: log,
			HangTimeout: r.opts.HangTimeout})
		if err != nil {
			return nil, errors.Join(err, ps.close())
		}
		ps.operators[alias] = plugin
		ps.all = append(ps.all, plugin)
	}
	for _, name := range connectorNames(p.plan, p.revision.Replay != nil) {
		plugin, err := r.startConnector(ctx, name, p.revision.Dir, log)
		if err != nil {
			return nil, errors.Join(err, ps.close())
		}
		ps.connectors[name] = plugin
		ps.all = append(ps.all, plugin)
	}
	return ps, nil
}

// connectorNames lists the connectors a plan uses; a replay uses none, it reads topics only.
func connectorNames(p *plan.Plan, replay bool) []string {
	if replay {
		return nil
	}
	seen := map[string]bool{}
	var names []string
	add := func(c *plan.Connector) {
		if c != nil && !seen[c.Name] {
			seen[c.Name] = true
			names = append(names, c.Name)
		}
	}
	for _, s := range p.Sources {
		add(s.Connector)
	}
	for _, s := range p.Sinks {
		add(s.Connector)
	}
	return names
}

func (r *Runner) startConnector(
	ctx context.Context, name, dir string, log *slog.Logger,
) (*host.Plugin, error) {
	opts := host.Options{Name: name, Logger: log, Output: r.opts.Output,
		HangTimeout: r.opts.HangTimeout}
	if r.opts.ConnectorCommand == nil {
		plugin, err := findConnector(r.opts.Connectors, name)
		if err != nil {
			return nil, err
		}
		opts.InProcess = plugin
	} else {
		command, err := r.opts.ConnectorCommand(name)
		if err != nil {
			return nil, err
		}
		command.Dir = dir
		opts.Command = command
	}
	return host.Start(ctx, opts)
}

func findConnector(all []sdk.Plugin, name string) (*sdk.Plugin, error) {
	for i := range all {
		if all[i].Name == name {
			return &all[i], nil
		}
	}
	return nil, fmt.Errorf("there is no connector %q", name)
}

// partOf is the name of a connector's first part of a kind; the checks have seen that there is one.
func partOf(p *host.Plugin, kind pluginpb.Kind) string {
	for _, part := range p.Spec().Parts {
		if part.Kind == kind {
			return part.Name
		}
	}
	return ""
}

func (ps *processes) close() error {
	var errs []error
	for _, p := range ps.all {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// restarts counts how often processes had to be started again.
func (ps *processes) restarts() int64 {
	var n int64
	for _, p := range ps.all {
		n += int64(p.Restarts())
	}
	return n
}
