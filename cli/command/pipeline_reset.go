package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/millstream-io/millstream/cli/internal/ranges"
	"github.com/millstream-io/millstream/cli/output"
	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/pipelines/plan"
	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/task"
)

// emptyTimeout is how long a reset waits for the workers to let go of a pipeline.
const emptyTimeout = 60 * time.Second

func newPipelineResetCommand(a *app) *cobra.Command {
	var to string
	var yes bool
	cmd := &cobra.Command{
		Use:   "reset NAME --to POINT",
		Short: "Begin a pipeline anew, without what it has stored",
		Long: "Begin a pipeline anew, without what it has stored, at a point of its input topics:\n" +
			"start, end, committed (where it stood), an offset or a time as for consume --from. What\n" +
			"it wrote stays; what it reads again it writes again. This is the way back when stored\n" +
			"state is of no use any more: a changelog or an input was deleted, a change cannot use it.",
		Args: cobra.ExactArgs(1),
		Example: "  millstream pipeline reset flights --to start --yes\n" +
			"  millstream pipeline reset flights --to committed",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withStore(cmd.Context(), func(s *deploy.Store) error {
				r, err := s.Get(cmd.Context(), args[0])
				if err != nil {
					return unknownPipeline(cmd.Context(), s, args[0], err)
				}
				p, err := compileRevision(r)
				if err != nil {
					return err
				}
				return a.beginAnew(cmd.Context(), s, p, r, to, yes, true)
			})
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "where to read from: start, end, committed, 42, @TIME")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

// begin is a generation of a pipeline to be begun.
type begin struct {
	app   *app
	store *deploy.Store
	adm   *kadm.Client
	plan  *plan.Plan
	r     deploy.Revision
	// before is the revision that has run until now, its generation that whose topics go.
	before deploy.Revision
	// state is what the generation begins with, nil for nothing; cluster is for it.
	state   *task.StateExport
	cluster client.Cluster
	// fresh: there is no such pipeline yet.
	fresh bool
}

// beginAnew makes r the wanted revision, without what the pipeline has stored.
func (a *app) beginAnew(ctx context.Context, s *deploy.Store, p *plan.Plan, r deploy.Revision,
	to string, yes, wait bool) error {
	if to == "" {
		return output.Usage("BAD_RANGE", "where shall "+r.Name+" read from?").
			WithDo("say --to start to process all that is there anew, or --to committed to go on\n" +
				"where it stood without what it had stored")
	}
	adm, cl, err := a.admin(ctx)
	if err != nil {
		return err
	}
	defer cl.Close()
	b := &begin{app: a, store: s, adm: adm, plan: p, r: r}
	if b.before, err = s.Get(ctx, r.Name); err != nil {
		return err
	}
	start, err := b.positions(ctx, to)
	if err != nil {
		return err
	}
	b.tell(start)
	if err := a.confirm(yes, "forget what "+r.Name+" has stored and begin it anew"); err != nil {
		return err
	}
	return b.do(ctx, start, wait)
}

// positions finds where reading begins, in each topic that tasks read.
func (b *begin) positions(ctx context.Context, to string) (map[string]map[int32]int64, error) {
	if to == "committed" {
		to = "committed(" + b.r.Name + ")"
	}
	point, err := ranges.Parse(to, time.Now())
	if err != nil {
		return nil, output.Usage("BAD_RANGE", "cannot use --to "+to).WithCause(err)
	}
	end, err := ranges.Parse("end", time.Now())
	if err != nil {
		return nil, err
	}
	start := map[string]map[int32]int64{}
	for _, source := range b.plan.Sources {
		if source.TableOnly {
			continue
		}
		r, _, err := ranges.Resolve(ctx, b.adm, source.Topic, point, end)
		if err != nil {
			return nil, explainBroker(err)
		}
		start[source.Topic] = map[int32]int64{}
		for p, bounds := range r {
			start[source.Topic][p] = bounds.From
		}
	}
	return start, nil
}

// tell shows where reading begins and what is written again.
func (b *begin) tell(start map[string]map[int32]int64) {
	for _, topic := range slices.Sorted(maps.Keys(start)) {
		for _, p := range slices.Sorted(maps.Keys(start[topic])) {
			b.app.printer.Note("%s-%d is read from %d", topic, p, start[topic][p])
		}
	}
	var sinks []string
	for _, s := range b.plan.Sinks {
		sinks = append(sinks, s.ID)
	}
	b.app.printer.Note("results of what is read again are written again to %s",
		strings.Join(sinks, ", "))
}

// do writes the state to begin with, stops the pipeline, forgets where its group stood and applies
// the new generation.
func (b *begin) do(ctx context.Context, start map[string]map[int32]int64, wait bool) error {
	// Topics of a generation that nobody uses are written first: when that fails, all is as it was.
	if err := b.imported(ctx); err != nil {
		return err
	}
	if !b.fresh {
		if _, err := b.store.SetWanted(ctx, b.r.Name, deploy.WantStopped); err != nil {
			return err
		}
		if err := b.forgetGroup(ctx); err != nil {
			return err
		}
	}
	r, generation := b.r, b.r.Generation
	r.Wanted = deploy.WantRunning
	applied, err := b.store.Reset(ctx, r, start)
	if errors.Is(err, deploy.ErrConflict) ||
		err == nil && b.state != nil && applied.Generation != generation {
		return concurrentApply(r.Name)
	}
	if err != nil {
		return err
	}
	var dropped error
	if !b.fresh { // nothing leads back to what was left, whatever becomes of the new generation
		dropped = b.dropTopics(ctx, b.left())
	}
	return errors.Join(b.app.reportApplied(ctx, b.store, applied, wait), dropped)
}

// forgetGroup deletes the offsets of the pipeline's group, once no worker has any of its tasks.
func (b *begin) forgetGroup(ctx context.Context) error {
	deadline := time.Now().Add(emptyTimeout)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		stopped, err := b.stopped(ctx)
		if err != nil {
			return err
		}
		if stopped {
			deleted, err := b.adm.DeleteGroup(ctx, b.r.Name)
			if err == nil {
				err = deleted.Err
			}
			switch {
			case err == nil, errors.Is(err, kerr.GroupIDNotFound):
				return nil
			case !errors.Is(err, kerr.NonEmptyGroup):
				return fmt.Errorf("forget the offsets of group %s: %w", b.r.Name, err)
			}
		}
		if time.Now().After(deadline) {
			return output.Environment("TIMEOUT", "the workers do not let go of "+b.r.Name).
				WithWhy("it is wanted stopped, and nothing was forgotten").
				WithDo("look at it: millstream pipeline status " + b.r.Name)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// stopped tells whether no worker says that it runs the pipeline.
func (b *begin) stopped(ctx context.Context) (bool, error) {
	statuses, err := b.store.Statuses(ctx)
	if err != nil {
		return false, err
	}
	for _, st := range statuses {
		working := st.State == deploy.Running || st.State == deploy.Starting ||
			st.State == deploy.Degraded
		if st.Name == b.r.Name && working {
			return false, nil
		}
	}
	return true, nil
}

// left are the internal topics of the generation that was left: those of the revision that ran,
// and of the new one, in case that one cannot be compiled any more.
func (b *begin) left() (names []string) {
	plans := []*plan.Plan{b.plan}
	if before, err := compileRevision(b.before); err == nil {
		plans = append(plans, before)
	}
	for _, p := range plans {
		for _, t := range p.Topics {
			if t.Role != plan.TopicChangelog && t.Role != plan.TopicRepartition {
				continue
			}
			rest, ok := strings.CutPrefix(t.Name, p.Pipeline+"-")
			name := b.before.App() + "-" + rest
			if ok && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// dropTopics deletes topics that are of no use any more.
func (b *begin) dropTopics(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	deleted, err := b.adm.DeleteTopics(ctx, names...)
	if err != nil {
		return fmt.Errorf("delete topics that are of no use any more: %w", err)
	}
	for _, d := range deleted.Sorted() {
		if d.Err != nil && !errors.Is(d.Err, kerr.UnknownTopicOrPartition) {
			return fmt.Errorf("delete topic %s, which is of no use any more: %w", d.Topic, d.Err)
		}
	}
	return nil
}
