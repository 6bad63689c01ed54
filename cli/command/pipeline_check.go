package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/millstream-io/millstream/cli/output"
	"github.com/millstream-io/millstream/connectors"
	"github.com/millstream-io/millstream/pipelines/check"
	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/pipelines/lang"
	"github.com/millstream-io/millstream/pipelines/plan"
	"github.com/millstream-io/millstream/pipelines/runner"
)

func newPipelineLintCommand(a *app) *cobra.Command {
	var vars []string
	var offline bool
	cmd := &cobra.Command{
		Use:   "lint FILE...",
		Short: "Check pipelines and print every finding with file, line and column",
		Args:  cobra.MinimumNArgs(1),
		Example: "  millstream pipeline lint pipeline.yaml\n" +
			"  millstream pipeline lint examples/flights -o json",
		RunE: func(_ *cobra.Command, args []string) error {
			return a.lint(args, vars, !offline)
		},
	}
	cmd.Flags().StringArrayVar(&vars, "var", nil, "value of a variable, name=value")
	cmd.Flags().BoolVar(&offline, "no-build", false, "do not build plugins to check their settings")
	return cmd
}

// lint checks each file; one that cannot be read does not keep the others from it.
func (a *app) lint(files, vars []string, build bool) error {
	all := []lang.Finding{}
	failed := false
	var errs []error
	seen := map[string]string{}
	for _, path := range files {
		p, err := readPipeline(path, vars, build, "")
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if other, dup := seen[p.revision.Name]; dup && p.revision.Name != "" {
			errs = append(errs, output.Usage("DUPLICATE_PIPELINE", fmt.Sprintf(
				"%s and %s are both called %q", other, p.revision.File, p.revision.Name)))
		}
		seen[p.revision.Name] = p.revision.File
		all = append(all, p.findings...)
		failed = failed || p.failed()
		if !a.printer.Machine() {
			fmt.Fprint(a.streams.Out, p.render(p.findings))
			if !p.failed() {
				fmt.Fprintln(a.streams.Out, planSummary(p.plan))
			}
		}
	}
	if failed {
		errs = append(errs, reported(output.ExitUsage))
	}
	summary := check.Summary(all)
	if len(seen) == 0 {
		summary = "no file was read"
	}
	if !a.printer.Machine() {
		if len(seen) > 0 {
			a.printer.Note("%s", summary)
		}
		return errors.Join(errs...)
	}
	err := output.One(a.printer, output.Verdict{Command: "pipeline lint", OK: len(errs) == 0,
		Summary: summary, Result: all}, nil)
	return errors.Join(append(errs, err)...)
}

// planResult is what plan prints for machines.
type planResult struct {
	Pipeline    string            `json:"pipeline"`
	Hash        string            `json:"hash"`
	Determinism string            `json:"determinism"`
	Guarantees  map[string]string `json:"guarantees"`
	Topics      []plan.Topic      `json:"topics"`
	Changes     []plan.Change     `json:"changes"`
}

func newPipelinePlanCommand(a *app) *cobra.Command {
	var vars []string
	cmd := &cobra.Command{
		Use:   "plan FILE",
		Short: "Show what a pipeline would do, and what would change against the running one",
		Args:  cobra.ExactArgs(1),
		Example: "  millstream pipeline plan examples/flights\n" +
			"  millstream pipeline plan pipeline.yaml --var out=/tmp/out.ndjson -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := readPipeline(args[0], vars, true, "")
			if err != nil {
				return err
			}
			if p.failed() && a.printer.Machine() {
				err := output.One(a.printer, output.Verdict{Command: "pipeline plan",
					Summary: check.Summary(p.findings), Result: p.findings}, nil)
				return errors.Join(err, reported(output.ExitUsage))
			}
			if err := a.refuseErrors(p); err != nil {
				return err
			}
			running, err := a.runningPlan(cmd, p.revision.Name)
			if err != nil {
				return err
			}
			err = p.match(cmd.Context(), a.connector(cmd.Context()), "")
			if e := output.Explain(err); e != nil && e.Code != "BROKER_UNREACHABLE" {
				return err
			}
			if err := a.refuseErrors(p); err != nil {
				return err
			}
			err = a.checkCluster(cmd.Context(), p, a.connector(cmd.Context()), "")
			if e := output.Explain(err); e != nil && e.Code == "BROKER_UNREACHABLE" {
				err = nil // it was said that there is none
			}
			return errors.Join(a.printPlan(p, running), err)
		},
	}
	cmd.Flags().StringArrayVar(&vars, "var", nil, "value of a variable, name=value")
	return cmd
}

// compiled reads a pipeline and stops at errors, which it prints.
func (a *app) compiled(path string, vars []string) (*pipelineFile, error) {
	p, err := readPipeline(path, vars, true, "")
	if err != nil {
		return nil, err
	}
	return p, a.refuseErrors(p)
}

// refuseErrors prints what is wrong with a pipeline that must not run.
func (a *app) refuseErrors(p *pipelineFile) error {
	if !p.failed() {
		return nil
	}
	fmt.Fprint(a.streams.Err, p.render(p.worth()))
	a.printer.Note("%s", check.Summary(p.worth()))
	return reported(output.ExitUsage)
}

// runningPlan compiles what is applied now; nil when there is no broker or no such pipeline.
func (a *app) runningPlan(cmd *cobra.Command, name string) (*plan.Plan, error) {
	var running *plan.Plan
	err := a.withStore(cmd.Context(), func(s *deploy.Store) error {
		r, err := s.Get(cmd.Context(), name)
		if errors.Is(err, deploy.ErrUnknownPipeline) {
			return nil // nothing of that name runs yet
		}
		if err != nil {
			return err
		}
		catalog := runner.NewCatalog(runner.CatalogOptions{Connectors: connectors.Builtin(),
			Dir: r.Dir, Build: true})
		defer catalog.Close()
		running, _ = runner.Compile(r, catalog)
		return nil
	})
	if e := output.Explain(err); e != nil && e.Code == "BROKER_UNREACHABLE" {
		a.printer.Note("no broker at %s: compared with nothing", a.settings.GetString("bootstrap"))
		return nil, nil
	}
	return running, err
}

func (a *app) printPlan(p *pipelineFile, running *plan.Plan) error {
	diff := plan.Diff(running, p.plan)
	if !a.printer.Machine() {
		fmt.Fprint(a.streams.Out, p.render(p.worth()))
		fmt.Fprint(a.streams.Out, p.plan.String())
		fmt.Fprint(a.streams.Out, diff.String())
		return nil
	}
	result := planResult{Pipeline: p.plan.Pipeline, Hash: diff.Hash,
		Determinism: string(p.plan.Determinism), Guarantees: map[string]string{},
		Changes: diff.Changes}
	for _, s := range p.plan.Sinks {
		result.Guarantees[s.ID] = s.Guarantee
	}
	for _, t := range p.plan.Topics {
		result.Topics = append(result.Topics, *t)
	}
	return output.One(a.printer, output.Verdict{Command: "pipeline plan", OK: true,
		Summary: check.Summary(p.findings), Result: result}, nil)
}

// planSummary is what lint ends with for a pipeline that may run.
func planSummary(p *plan.Plan) string {
	var b strings.Builder
	steps := int64(0)
	for _, n := range p.Nodes {
		if !n.Implicit { // as many as the file has
			steps++
		}
	}
	fmt.Fprintf(&b, "%s: %s, %s, %s", p.Pipeline, plural(int64(len(p.Sources)), "source"),
		plural(steps, "step"), plural(int64(len(p.Sinks)), "sink"))
	wide := 0
	for _, s := range p.Sinks {
		wide = max(wide, len(s.ID))
	}
	for _, s := range p.Sinks {
		fmt.Fprintf(&b, "\n  sink     %-*s   %s", wide, s.ID, s.Guarantee)
	}
	var internal []string
	for _, t := range p.Topics {
		if t.Role == plan.TopicRepartition || t.Role == plan.TopicChangelog {
			internal = append(internal, t.Name)
		}
	}
	if len(internal) > 0 {
		fmt.Fprintf(&b, "\n  creates  %s", strings.Join(internal, ", "))
	}
	return b.String()
}
