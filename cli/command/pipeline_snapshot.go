package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millstream-io/millstream/cli/output"
	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/pipelines/plan"
	"github.com/millstream-io/millstream/pipelines/runner"
	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/state"
	"github.com/millstream-io/millstream/streams/task"
)

func newStateSnapshotCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "snapshot NAME FILE",
		Short: "Write all that a pipeline has stored, at one point of its inputs, to a file",
		Long: "Write all that a pipeline has stored to a file: the rows of every task as of its last\n" +
			"commit, and what is under way between tasks, so that all of it together is one state.\n" +
			"It is read from the changelogs, so the pipeline may run, anywhere, or stand still, and is\n" +
			"not disturbed. `pipeline state import`, `pipeline apply --state` and `replay run --state`\n" +
			"begin with it. Workers give the same at GET /v1/pipelines/NAME/snapshot.",
		Args: cobra.ExactArgs(2),
		Example: "  millstream pipeline state snapshot flights flights.state\n" +
			"  millstream pipeline state snapshot flights /backup/flights.state",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withStore(cmd.Context(), func(s *deploy.Store) error {
				live, err := s.Get(cmd.Context(), args[0])
				if err != nil {
					return unknownPipeline(cmd.Context(), s, args[0], err)
				}
				x, done, err := a.snapshotTo(cmd.Context(), live, args[1])
				if err != nil {
					return err
				}
				defer done()
				return a.toldSnapshot(live, args[1], x)
			})
		},
	}
}

// takenSnapshot is what snapshot prints for machines.
type takenSnapshot struct {
	Name     string                     `json:"name"`
	Revision int                        `json:"revision"`
	File     string                     `json:"file"`
	Rows     int64                      `json:"rows"`
	UnderWay int64                      `json:"under_way"`
	Inputs   map[string]map[int32]int64 `json:"inputs"`
}

func (a *app) toldSnapshot(r deploy.Revision, file string, x *task.StateExport) error {
	at, err := positionsByTopic(x)
	if err != nil {
		return err
	}
	for _, topic := range slices.Sorted(maps.Keys(at)) {
		for _, p := range slices.Sorted(maps.Keys(at[topic])) {
			a.printer.Note("%s-%d is read to %d", topic, p, at[topic][p])
		}
	}
	return a.printer.Done(takenSnapshot{r.Name, r.Number, file, x.Rows, x.Records, at},
		"%s of %s in %s, %s under way between tasks", plural(x.Rows, "row"), r.Name, file,
		plural(x.Records, "record"))
}

// positionsByTopic are where an export reads its inputs on.
func positionsByTopic(x *task.StateExport) (map[string]map[int32]int64, error) {
	at, err := x.Positions()
	if err != nil {
		return nil, badSnapshot(err)
	}
	all := map[string]map[int32]int64{}
	for tp, offset := range at {
		if all[tp.Topic] == nil {
			all[tp.Topic] = map[int32]int64{}
		}
		all[tp.Topic][tp.Partition] = offset
	}
	return all, nil
}

// streamsCluster connects to the cluster as workers do.
func (a *app) streamsCluster(ctx context.Context) (client.Cluster, error) {
	_, cl, err := a.admin(ctx) // it tells best why there is no broker
	if err != nil {
		return nil, err
	}
	cl.Close()
	return client.NewKafka(client.Options{Seeds: a.bootstrap(), ClientID: "millstream-cli"})
}

// snapshotTo writes the state of a pipeline to a new file, which is there only when it is whole,
// and opens it. The caller calls done.
func (a *app) snapshotTo(ctx context.Context, r deploy.Revision, file string,
) (x *task.StateExport, done func(), err error) {
	if _, err := os.Stat(file); err == nil {
		return nil, nil, output.Conflict("FILE_EXISTS", file+" is there already").
			WithDo("choose another name, or remove it first")
	}
	compiled, err := compileRevision(r)
	if err != nil {
		return nil, nil, err
	}
	cluster, err := a.streamsCluster(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer cluster.Close()
	built, err := runner.Topology(ctx, cluster, r, compiled)
	if err != nil {
		return nil, nil, noSnapshot(r.Name, err)
	}
	f, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".part-")
	if err != nil {
		return nil, nil, cannotWrite(file, err)
	}
	err = runner.ExportState(ctx, cluster, built, r, f)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return nil, nil, noSnapshot(r.Name, errors.Join(err, f.Close(), os.Remove(f.Name())))
	}
	done = func() { _ = f.Close() } // it was synced
	if _, err = f.Seek(0, io.SeekStart); err == nil {
		x, err = task.OpenExport(f)
	}
	if err != nil {
		done()
		return nil, nil, badSnapshot(err)
	}
	return x, done, nil
}

// noSnapshot tells why there is none of a pipeline.
func noSnapshot(name string, err error) error {
	switch {
	case errors.Is(err, task.ErrStateLost), errors.Is(err, task.ErrTopics):
		return output.Conflict("NO_STATE", name+" has no state that could be taken").WithCause(err).
			WithDo("start it: millstream pipeline start " + name)
	case errors.Is(err, state.ErrMismatch):
		return output.Conflict("NO_STATE", "the state of "+name+" is of another revision").
			WithCause(err).WithDo("wait until the applied one runs: millstream pipeline status " + name)
	}
	return explainBroker(err)
}

// badSnapshot tells why a file is no use.
func badSnapshot(err error) error {
	return output.Usage("BAD_SNAPSHOT", "the snapshot cannot be used").WithCause(err).
		WithDo("take one with: millstream pipeline state snapshot NAME FILE")
}

// openSnapshot opens a file that snapshot has written.
func openSnapshot(file string) (x *task.StateExport, done func(), err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, nil, cannotRead(file, err)
	}
	if x, err = task.OpenExport(f); err != nil {
		_ = f.Close()
		return nil, nil, badSnapshot(err)
	}
	return x, func() { _ = f.Close() }, nil
}

// fitsSnapshot refuses a snapshot whose rows mean something else to the steps of a pipeline.
func fitsSnapshot(x *task.StateExport, p *plan.Plan) error {
	of, err := runner.Exported(x)
	if err != nil {
		return badSnapshot(err)
	}
	was, err := compileRevision(of)
	if err != nil {
		return err
	}
	if err := runner.FitsState(was, p); err != nil {
		return output.Conflict("OTHER_STATE", fmt.Sprintf("the snapshot of %s, revision %d, does not"+
			" fit %s", of.Name, of.Number, p.Pipeline)).WithCause(err).
			WithDo("begin without it: leave --state out, or\n" +
				"millstream pipeline reset " + p.Pipeline + " --to start")
	}
	return nil
}

func newStateImportCommand(a *app) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "import NAME FILE",
		Short: "Begin a pipeline anew with the state of a snapshot",
		Long: "Begin a pipeline anew with the state of a snapshot, at the point of its inputs where the\n" +
			"snapshot was taken. The pipeline is stopped for it; what it has stored now goes, and what\n" +
			"it reads again it writes again. A snapshot whose partitions, steps, keys, windows or\n" +
			"fields are others is refused, and nothing is changed. For a new pipeline see `millstream\n" +
			"pipeline apply --state`.",
		Args: cobra.ExactArgs(2),
		Example: "  millstream pipeline state import flights flights.state\n" +
			"  millstream pipeline state import flights flights.state --yes -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withStore(cmd.Context(), func(s *deploy.Store) error {
				r, err := s.Get(cmd.Context(), args[0])
				if err != nil {
					return unknownPipeline(cmd.Context(), s, args[0], err)
				}
				if r.Replay != nil {
					return output.Usage("BAD_NAME", fmt.Sprintf("%q is a replay", r.Name)).
						WithDo("millstream replay run " + r.Replay.Of + " --state FILE --as NAME")
				}
				p, err := compileRevision(r)
				if err != nil {
					return err
				}
				return a.beginWith(cmd.Context(), s, p, r, args[1], yes, true)
			})
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

// beginWith makes r the wanted revision, in a generation that begins with the state of a snapshot.
func (a *app) beginWith(ctx context.Context, s *deploy.Store, p *plan.Plan, r deploy.Revision,
	file string, yes, wait bool) error {
	x, done, err := openSnapshot(file)
	if err != nil {
		return err
	}
	defer done()
	if err := fitsSnapshot(x, p); err != nil {
		return err
	}
	adm, cl, err := a.admin(ctx)
	if err != nil {
		return err
	}
	defer cl.Close()
	b := &begin{app: a, store: s, adm: adm, plan: p, r: r, state: x}
	b.before, err = s.Get(ctx, r.Name)
	if b.fresh = errors.Is(err, deploy.ErrUnknownPipeline); err != nil && !b.fresh {
		return err
	}
	if b.r.Generation, err = s.NextGeneration(ctx, r.Name); err != nil {
		return err
	}
	start, err := positionsByTopic(x)
	if err != nil {
		return err
	}
	b.tell(start)
	question := "begin " + r.Name + " with the state of " + x.MadeAt.Local().Format(time.DateTime)
	if !b.fresh {
		question = "forget what " + r.Name + " has stored and " + question
	}
	if err := a.confirm(yes || b.fresh, question); err != nil {
		return err
	}
	cluster, err := a.streamsCluster(ctx)
	if err != nil {
		return err
	}
	defer cluster.Close()
	b.cluster = cluster
	built, err := runner.Topology(ctx, cluster, b.r, p)
	if err != nil {
		return explainBroker(err)
	}
	if err := x.Fits(built); err != nil {
		return badSnapshot(err)
	}
	if err := stillThere(ctx, cluster, r.Name, x); err != nil {
		return err
	}
	return b.do(ctx, start, wait)
}

// imported writes the state that the generation begins with. Topics that an import which died has
// left are in nobody's use: the generation was never applied.
func (b *begin) imported(ctx context.Context) error {
	if b.state == nil {
		return nil
	}
	built, err := runner.Topology(ctx, b.cluster, b.r, b.plan)
	if err != nil {
		return explainBroker(err)
	}
	if err := b.dropTopics(ctx, task.InternalTopics(built)); err != nil {
		return err
	}
	err = task.Import(ctx, task.ImportOptions{Cluster: b.cluster, Topology: built}, b.state)
	if err == nil {
		return nil
	}
	err = explainBroker(err)
	return errors.Join(err, b.dropTopics(context.WithoutCancel(ctx), task.InternalTopics(built)))
}

// forkState makes a snapshot the state of a replay, which has not been applied yet.
func (a *app) forkState(ctx context.Context, shadow deploy.Revision, p *plan.Plan,
	x *task.StateExport) error {
	if err := fitsSnapshot(x, p); err != nil {
		return err
	}
	cluster, err := a.streamsCluster(ctx)
	if err != nil {
		return err
	}
	defer cluster.Close()
	built, err := runner.Topology(ctx, cluster, shadow, p)
	if err != nil {
		return explainBroker(err)
	}
	if err := x.Fits(built); err != nil {
		return badSnapshot(err)
	}
	if err := stillThere(ctx, cluster, p.Pipeline, x); err != nil {
		return err
	}
	names := task.InternalTopics(built)
	before, err := cluster.Admin().Topics(ctx, names...)
	if err != nil {
		return explainBroker(err)
	}
	err = task.Import(ctx, task.ImportOptions{Cluster: cluster, Topology: built, Forget: true}, x)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, task.ErrTopics):
		return output.Conflict("NAME_TAKEN", "something has run as "+shadow.Name+" before").
			WithCause(err).WithDo("choose another name with --as")
	}
	// What was made goes, so that the name can be used again; what was there is somebody's.
	names = slices.DeleteFunc(names, func(name string) bool { _, was := before[name]; return was })
	dropped := a.dropMade(context.WithoutCancel(ctx), names)
	if errors.Is(err, task.ErrExport) {
		return errors.Join(badSnapshot(err), dropped)
	}
	return errors.Join(explainBroker(err), dropped)
}

func (a *app) dropMade(ctx context.Context, topics []string) error {
	adm, cl, err := a.admin(ctx)
	if err != nil {
		return err
	}
	defer cl.Close()
	return (&begin{adm: adm}).dropTopics(ctx, topics)
}

// stillThere refuses a snapshot that is older than what its inputs have: the pipeline could not go
// on there.
func stillThere(ctx context.Context, cluster client.Cluster, name string, x *task.StateExport,
) error {
	at, err := x.Positions()
	if err != nil {
		return badSnapshot(err)
	}
	ranges, err := cluster.Admin().Ranges(ctx, slices.Collect(maps.Keys(at))...)
	if err != nil {
		return explainBroker(err)
	}
	var gone []string
	for tp, offset := range at {
		switch r := ranges[tp]; {
		case offset < r.Start:
			gone = append(gone, fmt.Sprintf("%s begins at %d, the snapshot needs %d", tp, r.Start, offset))
		case offset > r.End:
			gone = append(gone, fmt.Sprintf("%s ends at %d, the snapshot needs %d", tp, r.End, offset))
		}
	}
	if len(gone) == 0 {
		return nil
	}
	slices.Sort(gone)
	return output.Usage("BAD_SNAPSHOT", "the snapshot cannot be used any more").
		WithWhy(strings.Join(gone, "\n")).
		WithDo("use a newer one, or begin without: millstream pipeline reset " + name + " --to start")
}
