package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/pipelines/plan"
	"github.com/millstream-io/millstream/pipelines/query"
	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/task"
	"github.com/millstream-io/millstream/streams/topology"
)

var _ query.Exporter = (*Runner)(nil)

// Topology is what the tasks of a revision run as, for those who read or write their state. Its
// steps cannot run.
func Topology(
	ctx context.Context, cluster client.Cluster, r deploy.Revision, p *plan.Plan,
) (*topology.Topology, error) {
	made := &topics{admin: cluster.Admin(), app: r.Name, plan: p}
	if err := made.learn(ctx); err != nil {
		return nil, err
	}
	made.planned()
	a := &assembly{app: r.Name, tasks: r.App(), plan: p, plugins: noPlugins{},
		partitions: func(topic string) int32 { return made.partitions[topic] }}
	if r.Replay != nil {
		a.shadow = &shadow{spec: r.Replay, edge: operator.NoTime}
	}
	return a.build()
}

// noPlugins are the operators of a topology that does not run.
type noPlugins struct{}

func (noPlugins) factory(*plan.Node) operator.Factory { return nil }

// ExportState writes what a revision has stored to w; the export tells the revision.
func ExportState(ctx context.Context, cluster client.Cluster, t *topology.Topology,
	r deploy.Revision, w io.Writer,
) error {
	about, err := json.Marshal(r)
	if err != nil { // a struct of strings and integers always encodes
		panic("invariant: revision encodes: " + err.Error())
	}
	return task.Export(ctx, task.ExportOptions{Cluster: cluster, Topology: t, About: about}, w)
}

// Exported is the revision whose state an export holds.
func Exported(x *task.StateExport) (deploy.Revision, error) {
	var r deploy.Revision
	if err := json.Unmarshal(x.About, &r); err != nil || r.Name == "" {
		return r, fmt.Errorf("%w: it does not say of which pipeline it is", task.ErrExport)
	}
	return r, nil
}

// ExportState implements query.Exporter, for a pipeline that runs here.
func (r *Runner) ExportState(ctx context.Context, pipeline string, w io.Writer) error {
	r.mu.Lock()
	in := r.mu.began[pipeline]
	r.mu.Unlock()
	if in == nil {
		return query.ErrUnknownPipeline
	}
	in.mu.Lock()
	topology := in.mu.topology
	in.mu.Unlock()
	cluster, err := r.opts.Cluster()
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer cluster.Close()
	return ExportState(ctx, cluster, topology, in.p.revision, w)
}

// ErrOtherState reports an export whose rows mean something else to the steps of a pipeline.
var ErrOtherState = errors.New("the exported state does not fit the steps")

// FitsState refuses an export that the steps of a pipeline would read differently. of is the plan
// of the revision it was made of.
func FitsState(of, p *plan.Plan) error {
	for _, c := range plan.Diff(of, p).Changes {
		if c.Class == plan.StateReset {
			return fmt.Errorf("%w: %s %s: %s", ErrOtherState, c.Part, c.ID, c.Why)
		}
	}
	return nil
}
