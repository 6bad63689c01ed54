package command

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/cli/output"
	"github.com/millstream-io/millstream/pipelines/deploy"
)

func newPipelineCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "pipeline",
		Aliases: []string{"pipelines"},
		Short:   "Write, check, apply and watch pipelines",
	}
	cmd.AddCommand(
		newPipelineInitCommand(a), newPipelineLintCommand(a), newPipelinePlanCommand(a),
		newPipelineApplyCommand(a), newPipelineListCommand(a), newPipelineStatusCommand(a),
		newPipelineWantedCommand(a, "stop", "Drain a pipeline; its position is kept",
			deploy.WantStopped),
		newPipelineWantedCommand(a, "start", "Start a stopped or failed pipeline where it stood",
			deploy.WantRunning),
		newPipelineLogsCommand(a), newPipelineGraphCommand(a), newPipelineExplainCommand(a),
		newPipelineStateCommand(a), newPipelineResetCommand(a), newPipelineTailCommand(a),
	)
	return cmd
}

// connector gives the deploy and replay packages their clients.
func (a *app) connector(ctx context.Context) deploy.Connect {
	return func(opts ...kgo.Opt) (*kgo.Client, error) { return a.client(ctx, opts...) }
}

// withStore runs fn with the control topics open.
func (a *app) withStore(ctx context.Context, fn func(*deploy.Store) error) error {
	store, err := deploy.OpenStore(ctx, a.connector(ctx))
	if err != nil {
		return err
	}
	defer store.Close()
	return fn(store)
}

type pipelineSummary struct {
	Name         string `json:"name"`
	Revision     int    `json:"revision"`
	Wanted       string `json:"wanted"`
	State        string `json:"state"`
	RecordsIn    int64  `json:"records_in"`
	RecordsOut   int64  `json:"records_out"`
	DeadLettered int64  `json:"dead_lettered"`
	Lag          int64  `json:"lag"`
	ReplayOf     string `json:"replay_of,omitempty"`
	Error        string `json:"error,omitempty"`
	// Trouble is what keeps it from going on.
	Trouble *deploy.Trouble `json:"trouble,omitempty"`
}

func newPipelineListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the pipelines applied to the cluster and how they do",
		Args:    cobra.NoArgs,
		Example: "  millstream pipeline ls\n  millstream pipeline ls -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withStore(cmd.Context(), func(s *deploy.Store) error {
				rows, err := listPipelines(cmd.Context(), s)
				if err != nil {
					return err
				}
				return output.List(a.printer, rows, pipelineColumns)
			})
		},
	}
}

var pipelineColumns = []output.Column[pipelineSummary]{
	{Title: "PIPELINE", Cell: func(p pipelineSummary) string { return p.Name }},
	{Title: "REVISION", Cell: func(p pipelineSummary) string { return strconv.Itoa(p.Revision) }},
	{Title: "STATE", Cell: func(p pipelineSummary) string { return p.State }},
	{Title: "IN", Cell: func(p pipelineSummary) string { return strconv.FormatInt(p.RecordsIn, 10) }},
	{Title: "OUT", Cell: func(p pipelineSummary) string { return strconv.FormatInt(p.RecordsOut, 10) }},
	{Title: "DEAD", Cell: func(p pipelineSummary) string {
		return strconv.FormatInt(p.DeadLettered, 10)
	}},
	{Title: "LAG", Cell: func(p pipelineSummary) string { return strconv.FormatInt(p.Lag, 10) }},
	{Title: "ERROR", Cell: func(p pipelineSummary) string {
		if p.Error == "" && p.Trouble != nil {
			return p.Trouble.Error
		}
		return p.Error
	}},
}

func listPipelines(ctx context.Context, s *deploy.Store) ([]pipelineSummary, error) {
	revisions, err := s.List(ctx)
	if err != nil {
		return nil, err
	}
	statuses, err := s.Statuses(ctx)
	if err != nil {
		return nil, err
	}
	byName := map[string]deploy.Status{}
	for _, st := range statuses {
		byName[st.Name] = st
	}
	var rows []pipelineSummary
	for _, r := range revisions {
		st := byName[r.Name]
		row := pipelineSummary{Name: r.Name, Revision: r.Number, Wanted: string(r.Wanted),
			State: string(st.State), RecordsIn: st.RecordsIn, RecordsOut: st.RecordsOut,
			DeadLettered: st.DeadLettered, Lag: st.Lag, Error: st.Error,
			Trouble: st.Trouble}
		if st.State == "" {
			row.State = "no worker has taken it"
		}
		if r.Replay != nil {
			row.ReplayOf = r.Replay.Of
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// wantedRevision is what stop and start print for machines.
type wantedRevision struct {
	Name     string `json:"name"`
	Revision int    `json:"revision"`
	Wanted   string `json:"wanted"`
}

func newPipelineWantedCommand(a *app, use, short string, wanted deploy.Wanted) *cobra.Command {
	skip := false
	cmd := &cobra.Command{
		Use:   use + " NAME",
		Short: short,
		Args:  cobra.ExactArgs(1),
		Example: "  millstream pipeline " + use + " flights\n" +
			"  millstream pipeline " + use + " flights --bootstrap 127.0.0.1:9092",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withStore(cmd.Context(), func(s *deploy.Store) error {
				want := func(ctx context.Context, name string) (deploy.Revision, error) {
					return s.SetWanted(ctx, name, wanted)
				}
				if skip {
					want = s.StartSkipping
				}
				r, err := want(cmd.Context(), args[0])
				if err != nil {
					return unknownPipeline(cmd.Context(), s, args[0], err)
				}
				return a.printer.Done(wantedRevision{r.Name, r.Number, string(r.Wanted)},
					"%s: revision %d is wanted %s", r.Name, r.Number, r.Wanted)
			})
		},
	}
	if wanted == deploy.WantRunning {
		cmd.Flags().BoolVar(&skip, "skip-lost", false,
			"go on behind records that were deleted before they were read")
	}
	return cmd
}

// unknownPipeline names the nearest pipeline when there is none of that name.
func unknownPipeline(ctx context.Context, s *deploy.Store, name string, err error) error {
	if !errors.Is(err, deploy.ErrUnknownPipeline) {
		return err
	}
	e := output.Failure("UNKNOWN_PIPELINE", fmt.Sprintf("there is no pipeline %q", name))
	all, listErr := s.List(ctx)
	if listErr != nil {
		return e
	}
	var names []string
	for _, r := range all {
		names = append(names, r.Name)
	}
	if best := nearest(name, names); best != "" {
		return e.WithDo(fmt.Sprintf("did you mean %q?", best))
	}
	return e.WithDo("millstream pipeline ls lists them; millstream pipeline apply FILE adds one")
}
