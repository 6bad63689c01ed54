package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/millstream-io/millstream/cli/output"
	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/pipelines/plan"
)

// takeTimeout is how long apply waits for a worker to take a revision.
const takeTimeout = 30 * time.Second

type applyFlags struct {
	vars   []string
	hash   string
	noWait bool
	// drop begins anew without the stored state, at to.
	drop, yes bool
	to        string
	// state is a snapshot to begin with.
	state string
}

func newPipelineApplyCommand(a *app) *cobra.Command {
	var f applyFlags
	cmd := &cobra.Command{
		Use:   "apply FILE",
		Short: "Make a pipeline, or a new revision of it, the one that runs",
		Long: "Check a pipeline and make it the wanted revision. A worker drains the old revision and\n" +
			"starts the new one at its position. With --plan the change must be the one that\n" +
			"`millstream pipeline plan` showed. A change that cannot use the stored state is refused,\n" +
			"unless --drop-state says that it may go, and --to where reading begins then. With --state\n" +
			"it begins with the state of a snapshot, of this pipeline or of another one like it.",
		Args: cobra.ExactArgs(1),
		Example: "  millstream pipeline apply examples/flights\n" +
			"  millstream pipeline apply pipeline.yaml --plan 3f2a9c --var out=/tmp/out.ndjson\n" +
			"  millstream pipeline apply pipeline.yaml --drop-state --to start",
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.state != "" && (f.drop || f.to != "") {
				return output.Usage("BAD_FLAGS", "--state says what to begin with and where, and so do"+
					" --drop-state and --to").WithDo("leave --state out, or the others")
			}
			p, err := a.compiled(args[0], f.vars)
			if err != nil {
				return err
			}
			if err := p.match(cmd.Context(), a.connector(cmd.Context()), ""); err != nil {
				return err
			}
			if err := a.refuseErrors(p); err != nil {
				return err
			}
			known, err := a.checkChange(cmd, p, f.hash, f.drop || f.state != "")
			if err == nil {
				err = a.checkCluster(cmd.Context(), p, a.connector(cmd.Context()), "")
			}
			if err != nil {
				return err
			}
			return a.withStore(cmd.Context(), func(s *deploy.Store) error {
				if f.state != "" {
					return a.beginWith(cmd.Context(), s, p.plan, p.revision, f.state, f.yes, !f.noWait)
				}
				if f.drop && known {
					return a.beginAnew(cmd.Context(), s, p.plan, p.revision, f.to, f.yes, !f.noWait)
				}
				return a.apply(cmd.Context(), s, p.revision, !f.noWait)
			})
		},
	}
	cmd.Flags().StringArrayVar(&f.vars, "var", nil, "value of a variable, name=value")
	cmd.Flags().StringVar(&f.hash, "plan", "", "hash of the plan that was agreed to")
	cmd.Flags().BoolVar(&f.drop, "drop-state", false, "begin anew without what it has stored")
	cmd.Flags().StringVar(&f.to, "to", "", "with --drop-state: start, end, committed, 42, @TIME")
	cmd.Flags().StringVar(&f.state, "state", "",
		"begin with the state of a snapshot (pipeline state snapshot), where it was taken")
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "with --drop-state or --state: do not ask")
	cmd.Flags().BoolVar(&f.noWait, "no-wait", false, "do not wait for a worker to take it")
	return cmd
}

// checkChange refuses a stale plan, and a change that would lose state unless it may. known tells
// whether a revision of the pipeline runs.
func (a *app) checkChange(cmd *cobra.Command, p *pipelineFile, hash string, drop bool,
) (known bool, err error) {
	running, err := a.runningPlan(cmd, p.revision.Name)
	if err != nil {
		return false, err
	}
	diff := plan.Diff(running, p.plan)
	if hash != "" && hash != diff.Hash {
		return false, output.Conflict("STALE_PLAN", "the plan has changed since it was shown").
			WithWhy("it is " + diff.Hash + " now").WithDo("look at it again: millstream pipeline plan")
	}
	if drop {
		return running != nil, nil
	}
	return running != nil, dropsState(stateLoss(running, p.plan), p.revision.File)
}

// dropsState names the command that does what was refused.
func dropsState(err error, file string) error {
	if loss, ok := errors.AsType[*output.Error](err); ok {
		command := "millstream pipeline apply " + file + " --drop-state --to "
		return loss.WithDo("what was renamed says so: renamed_from: OLD-ID\n" +
			"to begin anew and process what is there: " + command + "start\n" +
			"to go on where it stood without it: " + command + "committed")
	}
	return err
}

func (a *app) apply(ctx context.Context, s *deploy.Store, r deploy.Revision, wait bool) error {
	applied, err := s.Apply(ctx, r)
	if errors.Is(err, deploy.ErrConflict) {
		return concurrentApply(r.Name)
	}
	if err != nil {
		return err
	}
	return a.reportApplied(ctx, s, applied, wait)
}

func concurrentApply(name string) error {
	return output.Conflict("CONCURRENT_APPLY", "somebody else applied a revision of "+name+
		" at the same time").WithDo("look at it, then apply again")
}

// reportApplied tells of a revision that was applied and, if wait, of what a worker made of it.
func (a *app) reportApplied(ctx context.Context, s *deploy.Store, applied deploy.Revision,
	wait bool) error {
	result := appliedRevision{Name: applied.Name, Revision: applied.Number, Hash: applied.Hash()}
	if !a.printer.Machine() {
		a.printer.Note("applied revision %d of %s", applied.Number, applied.Name)
	}
	if !wait {
		return a.printer.Done(result, "not waiting for a worker")
	}
	st, err := waitStatus(ctx, s, applied, takeTimeout, func(st deploy.Status) bool {
		return st.State != deploy.Starting
	})
	if err != nil {
		return err
	}
	result.State = string(st.State)
	return a.printer.Done(result, "%s is %s", applied.Name, st.State)
}

// appliedRevision is what apply prints for machines.
type appliedRevision struct {
	Name     string `json:"name"`
	Revision int    `json:"revision"`
	Hash     string `json:"hash"`
	State    string `json:"state,omitempty"` // empty with --no-wait
}

// pollEvery is how often a status is looked up while waiting for it.
const pollEvery = 100 * time.Millisecond

// waitStatus waits until the pipeline's status at this revision is one that will do. A failed
// pipeline is an error that says why.
func waitStatus(
	ctx context.Context, s *deploy.Store, r deploy.Revision, limit time.Duration,
	enough func(deploy.Status) bool,
) (deploy.Status, error) {
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		statuses, err := s.Statuses(ctx)
		if err != nil {
			return deploy.Status{}, err
		}
		for _, st := range statuses {
			switch {
			case st.Name != r.Name || st.At.Before(r.AppliedAt):
			case st.State == deploy.Failed || (st.Error != "" && st.Revision != r.Number):
				return st, output.Failure("PIPELINE_FAILED", r.Name+" failed").WithWhy(st.Error).
					WithDo("millstream pipeline logs " + r.Name)
			case st.Revision == r.Number && enough(st):
				return st, nil
			}
		}
		if limit > 0 && time.Now().After(deadline) {
			return deploy.Status{}, output.Environment("NO_WORKER",
				fmt.Sprintf("no worker has taken revision %d of %s in %s", r.Number, r.Name, limit)).
				WithDo("run one: millstream server")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return deploy.Status{}, ctx.Err()
		}
	}
}
