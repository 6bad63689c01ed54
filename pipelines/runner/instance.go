package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/pipelines/plan"
	"github.com/millstream-io/millstream/pipelines/query"
	"github.com/millstream-io/millstream/plugins/pluginpb"
	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/state"
	"github.com/millstream-io/millstream/streams/task"
	"github.com/millstream-io/millstream/streams/topology"
)

// instance is one run of a prepared revision: connectors that fill topics, the tasks of the
// topology, and connectors that empty topics.
type instance struct {
	runner *Runner
	p      *prepared
	app    string // the pipeline's name, which names all that belongs to this run alone
	log    *slog.Logger
	since  time.Time // when it was made, in UTC

	mu struct {
		sync.Mutex
		worker  *task.Worker
		cluster client.Cluster
		leads   bool // connectors run here
		ingests []*ingest
		outputs []*output
		procs   *processes
		stores  []query.Store // what can be looked at
		// topology is what the worker runs.
		topology *topology.Topology
		// left is when each task was last seen here, by name.
		left map[string]time.Time
		// warned are topics that are not read as they are cut otherwise, which was said once.
		warned map[string]bool
	}
}

var _ deploy.Instance = (*instance)(nil)

func newInstance(r *Runner, p *prepared) *instance {
	return &instance{runner: r, p: p, app: p.revision.Name, log: r.opts.LogFor(p.revision.Name),
		since: r.opts.Now().UTC()}
}

// run makes the parts of the run and what they need, runs them and cleans up.
func (in *instance) run(ctx context.Context) error {
	cluster, err := in.runner.opts.Cluster()
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer cluster.Close()
	procs, err := in.runner.startProcesses(ctx, in.p, in.log)
	if err != nil {
		return err
	}
	// Operators outlive ctx for a while: tasks still need them for their last batches. A plugin that
	// does not answer must not hold up the stop.
	opsCtx, endOps := context.WithCancel(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, func() { time.AfterFunc(in.runner.opts.StopGrace, endOps) })()
	ops := &pluginOperators{ctx: opsCtx, plugins: procs.operators}
	defer func() {
		ops.close()
		endOps()
		if err := procs.close(); err != nil {
			in.log.Warn("plugin did not end well", "error", err)
		}
	}()
	in.forgetOlder()
	made, err := in.topics(ctx, cluster)
	if err != nil {
		return err
	}
	if err := in.assemble(ctx, cluster, made, procs, ops); err != nil {
		return err
	}
	in.runner.began(in)
	return in.runAll(ctx, cluster)
}

// shared tells that other workers run tasks of the pipeline too.
func (in *instance) shared() bool { return in.runner.opts.Instance != "" }

// lead runs the connectors until ctx ends: of several workers, one does.
func (in *instance) lead(ctx context.Context, cluster client.Cluster) error {
	in.mu.Lock()
	ingests, outputs := in.mu.ingests, in.mu.outputs
	in.mu.leads = true
	in.mu.Unlock()
	defer func() {
		if errors.Is(context.Cause(ctx), task.ErrMoved) { // else it has the last word, too
			in.mu.Lock()
			in.mu.leads = false
			in.mu.Unlock()
		}
	}()
	group, groupCtx := errgroup.WithContext(ctx)
	for _, g := range ingests {
		group.Go(func() error { return g.run(groupCtx) })
	}
	for _, o := range outputs {
		group.Go(func() error { return o.run(groupCtx) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	<-ctx.Done() // still the one that speaks for the pipeline
	return nil
}

func (in *instance) replay() bool { return in.p.revision.Replay != nil }

// topics makes what is missing.
func (in *instance) topics(ctx context.Context, cluster client.Cluster) (*topics, error) {
	t := &topics{admin: cluster.Admin(), app: in.app, plan: in.p.plan,
		rename: func(name string) string { return name }}
	if replay := in.p.revision.Replay; replay != nil {
		t.rename = func(live string) string { return ShadowTopic(replay.Prefix, live) }
	}
	return t, t.ensure(ctx, in.replay())
}

// assemble makes the parts of the run; none of them is started.
func (in *instance) assemble(
	ctx context.Context, cluster client.Cluster, made *topics, procs *processes,
	ops *pluginOperators,
) error {
	shadow, err := in.shadow(ctx, cluster)
	if err != nil {
		return err
	}
	a := &assembly{app: in.app, tasks: in.p.revision.App(), plan: in.p.plan, plugins: ops,
		log: in.log, shadow: shadow, now: in.runner.opts.Now,
		partitions: func(topic string) int32 { return made.partitions[topic] }}
	built, err := a.build()
	if err != nil {
		return err
	}
	opts := task.Options{Topology: built, Cluster: cluster, StateDir: in.runner.stateDir(),
		Group: in.app, CommitInterval: in.p.plan.Resources.CommitInterval, Logger: in.log,
		SkipLost: in.p.revision.SkipLost, State: state.Options{Budget: in.runner.budget}}
	if in.shared() {
		opts.Share = &task.Share{Instance: in.runner.opts.Instance + "/" + in.app,
			Standby: max(in.runner.opts.Standby, in.p.plan.Resources.Standby),
			Address: in.runner.opts.Address(),
			Alone:   func(ctx context.Context) error { return in.lead(ctx, cluster) }}
	}
	if err := in.bounds(ctx, cluster, made, &opts); err != nil {
		return err
	}
	worker, err := task.NewWorker(opts)
	if err != nil {
		return err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.mu.worker, in.mu.procs, in.mu.topology = worker, procs, built
	in.mu.cluster = cluster
	in.mu.stores = a.stores(built, worker)
	if !in.replay() {
		in.mu.ingests = in.makeIngests(cluster, made, procs, worker)
		in.mu.outputs = in.makeOutputs(cluster, made, procs)
	}
	return nil
}

// bounds says where inputs begin and end.
func (in *instance) bounds(
	ctx context.Context, cluster client.Cluster, made *topics, opts *task.Options,
) error {
	opts.From = map[client.TopicPartition]int64{}
	for _, s := range in.p.plan.Sources {
		switch {
		case in.replay():
		case s.Connector != nil:
			opts.Filling = append(opts.Filling, s.Topic)
		case s.Start.Latest, s.Start.HasTimestamp:
			from, err := startOf(ctx, cluster, s, made.partitions[s.Topic])
			if err != nil {
				return fmt.Errorf("source %s: find where to start: %w", s.ID, err)
			}
			maps.Copy(opts.From, from)
		}
	}
	for topic, offsets := range in.p.revision.Start {
		for p, at := range offsets {
			opts.From[client.TopicPartition{Topic: topic, Partition: p}] = at
		}
	}
	if replay := in.p.revision.Replay; replay != nil {
		decisions, err := task.ReadDecisions(ctx, cluster, cmp.Or(replay.App, replay.Of))
		if err != nil {
			return err
		}
		opts.Decisions = decisions
		opts.Until, opts.Rate = map[client.TopicPartition]int64{}, replay.Rate
		for topic, spans := range replay.Ranges {
			for p, span := range spans {
				tp := client.TopicPartition{Topic: topic, Partition: p}
				opts.From[tp], opts.Until[tp] = span.From, span.To
			}
		}
	}
	return nil
}

// startOf finds where a first run begins that does not begin at the start.
func startOf(
	ctx context.Context, cluster client.Cluster, s *plan.Source, partitions int32,
) (map[client.TopicPartition]int64, error) {
	tps := partitionsOf(s.Topic, partitions)
	if s.Start.HasTimestamp {
		return cluster.Admin().OffsetsAt(ctx, s.Start.Timestamp, tps...)
	}
	ranges, err := cluster.Admin().Ranges(ctx, tps...)
	from := map[client.TopicPartition]int64{}
	for tp, r := range ranges {
		from[tp] = r.End
	}
	return from, err
}

func partitionsOf(topic string, partitions int32) []client.TopicPartition {
	tps := make([]client.TopicPartition, partitions)
	for p := range tps {
		tps[p] = client.TopicPartition{Topic: topic, Partition: int32(p)}
	}
	return tps
}

func partitionRanges(
	ctx context.Context, cluster client.Cluster, topic string, partitions int32,
) (map[client.TopicPartition]client.Range, error) {
	return cluster.Admin().Ranges(ctx, partitionsOf(topic, partitions)...)
}

func (in *instance) makeIngests(
	cluster client.Cluster, made *topics, procs *processes, worker *task.Worker,
) []*ingest {
	var all []*ingest
	for _, s := range in.p.plan.Sources {
		if s.Connector == nil {
			continue
		}
		plugin := procs.connectors[s.Connector.Name]
		all = append(all, newIngest(ingestOptions{
			ID: s.ID, Stored: s.StreamID(), Pipeline: in.app,
			ConfigHash: in.p.plan.Fingerprint[:16], Topic: s.Topic,
			Partitions: made.partitions[s.Topic], Key: s.KeyProgram, Set: s.Set,
			Plugin: plugin, Part: partOf(plugin, pluginpb.Kind_KIND_SOURCE),
			Config:  s.Connector.Config.JSON(),
			Commits: client.TopicPartition{Topic: plan.PositionTopic(in.app)}, Cluster: cluster,
			OnError: errorPolicy(in.p.plan.Policy), Logger: in.log, Now: in.runner.opts.Now,
			OnEnd: func(ends map[int32]int64) {
				worker.EndInput(s.Topic, ends)
				if in.shared() {
					in.log.Warn("a source has ended, but a pipeline that several workers share does not"+
						" end by itself: stop it when its lag is 0, or run it on one node", "source", s.ID)
				}
			},
		}))
	}
	return all
}

func (in *instance) makeOutputs(
	cluster client.Cluster, made *topics, procs *processes,
) []*output {
	var all []*output
	for _, s := range in.p.plan.Sinks {
		if s.Connector == nil {
			continue
		}
		topic, plugin := plan.OutputTopic(in.app, s), procs.connectors[s.Connector.Name]
		all = append(all, newOutput(outputOptions{
			ID: s.ID, Pipeline: in.app, ConfigHash: in.p.plan.Fingerprint[:16], Topic: topic,
			Partitions: made.partitions[topic], Group: in.app + "-" + s.ID,
			Plugin: plugin, Part: partOf(plugin, pluginpb.Kind_KIND_SINK),
			Config: s.Connector.Config.JSON(), Cluster: cluster, OnError: errorPolicy(s.Policy),
			Retries: s.Policy.RetryMax, RetryFirst: s.Policy.RetryFirst,
			RetryLongest: s.Policy.RetryLongest, Logger: in.log, Now: in.runner.opts.Now,
		}))
	}
	return all
}

// runAll runs the parts together. The first that fails stops the others; when the tasks are done,
// the outputs are told where their topics end.
func (in *instance) runAll(ctx context.Context, cluster client.Cluster) error {
	in.mu.Lock()
	worker, ingests, outputs := in.mu.worker, in.mu.ingests, in.mu.outputs
	in.mu.Unlock()
	group, groupCtx := errgroup.WithContext(ctx)
	if in.shared() {
		ingests, outputs = nil, nil // lead runs them
	}
	for _, g := range ingests {
		group.Go(func() error { return g.run(groupCtx) })
	}
	for _, o := range outputs {
		group.Go(func() error { return o.run(groupCtx) })
	}
	reporting, stopReporting := context.WithCancel(groupCtx)
	group.Go(func() error {
		reportLate(reporting, worker, in.log)
		return nil
	})
	group.Go(func() error {
		defer stopReporting()
		if err := worker.Run(groupCtx); err != nil || groupCtx.Err() != nil {
			return err
		}
		return endOutputs(groupCtx, cluster, outputs)
	})
	err := group.Wait()
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// Run processes until ctx ends or everything bounded is done.
func (in *instance) Run(ctx context.Context) error {
	return classifyEnd(withWayBack(in.app, len(in.p.plan.Patterns) > 0, in.run(ctx)))
}

// forgetOlder removes the state files of earlier generations, which nobody reads any more.
func (in *instance) forgetOlder() {
	for g := range in.p.revision.Generation {
		dir := filepath.Join(in.runner.stateDir(), deploy.AppOf(in.p.revision.Name, g))
		if err := os.RemoveAll(dir); err != nil {
			in.log.Warn("state of an earlier generation is not removed", "error", err)
		}
	}
}

// endOutputs tells the outputs where their topics end.
func endOutputs(ctx context.Context, cluster client.Cluster, outputs []*output) error {
	for _, o := range outputs {
		ranges, err := partitionRanges(ctx, cluster, o.opts.Topic, o.opts.Partitions)
		if err != nil {
			return err
		}
		ends := map[client.TopicPartition]int64{}
		for tp, r := range ranges {
			ends[tp] = r.End
		}
		o.endAt(ends)
	}
	return nil
}
