package command

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millstream-io/millstream/cli/output"
	"github.com/millstream-io/millstream/pipelines/deploy"
)

// pipelineStatus is a status with what is wanted beside it.
type pipelineStatus struct {
	deploy.Status
	WantedRevision int    `json:"wanted_revision"`
	Wanted         string `json:"wanted"`
}

func newPipelineStatusCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "status NAME",
		Short:   "Show how a pipeline does: state, sources, steps, sinks, errors",
		Args:    cobra.ExactArgs(1),
		Example: "  millstream pipeline status flights\n  millstream pipeline status flights -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withStore(cmd.Context(), func(s *deploy.Store) error {
				st, err := getStatus(cmd.Context(), s, args[0])
				if err != nil {
					return err
				}
				return a.one(st, st.text)
			})
		},
	}
}

func getStatus(ctx context.Context, s *deploy.Store, name string) (*pipelineStatus, error) {
	r, err := s.Get(ctx, name)
	if err != nil {
		return nil, unknownPipeline(ctx, s, name, err)
	}
	statuses, err := s.Statuses(ctx)
	if err != nil {
		return nil, err
	}
	st := &pipelineStatus{WantedRevision: r.Number, Wanted: string(r.Wanted)}
	st.Name = name
	for _, found := range statuses {
		if found.Name == name {
			st.Status = found
		}
	}
	return st, nil
}

func (st *pipelineStatus) text(b *strings.Builder, p *output.Printer) error {
	fmt.Fprintf(b, "pipeline  %s\nstate     %s\nrevision  %d", st.Name, st.stateText(), st.Revision)
	if st.WantedRevision != st.Revision {
		fmt.Fprintf(b, " (revision %d is wanted)", st.WantedRevision)
	}
	fmt.Fprintf(b, "\nrecords   %d in, %d out, %d late, %d dead-lettered, lag %d\n",
		st.RecordsIn, st.RecordsOut, st.Late, st.DeadLettered, st.Lag)
	if !st.Watermark.IsZero() {
		fmt.Fprintf(b, "watermark %s\n", st.Watermark.Format(time.RFC3339Nano))
	}
	fmt.Fprintf(b, "kept      %.1f MiB of state\n", float64(st.StateBytes)/(1<<20))
	if !st.At.IsZero() {
		fmt.Fprintf(b, "reported  %s\n", st.At.Format(time.RFC3339))
	}
	if st.Error != "" {
		fmt.Fprintf(b, "error     %s\n", st.Error)
	}
	if err := st.tables(b, p); err != nil {
		return err
	}
	for _, sink := range slices.Sorted(maps.Keys(st.Guarantees)) {
		fmt.Fprintf(b, "\n%s: %s", sink, st.Guarantees[sink])
	}
	if len(st.Guarantees) > 0 {
		b.WriteByte('\n')
	}
	return nil
}

func (st *pipelineStatus) tables(b *strings.Builder, p *output.Printer) error {
	var sources, steps, sinks [][]string
	for _, s := range st.Sources {
		sources = append(sources, []string{s.ID, s.Topic, s.Connector, fmt.Sprint(s.Records),
			fmt.Sprint(s.Lag), st.sourceState(s)})
	}
	for _, s := range st.Steps {
		steps = append(steps, []string{s.ID, fmt.Sprint(s.In), fmt.Sprint(s.Out),
			fmt.Sprint(s.Late), fmt.Sprint(s.Failed), fmt.Sprint(s.DeadLettered),
			fmt.Sprintf("%.1fs", s.BusySeconds)})
	}
	for _, s := range st.Sinks {
		sinks = append(sinks, []string{s.ID, s.Topic, s.Connector, fmt.Sprint(s.Records),
			fmt.Sprint(s.Lag), s.Error})
	}
	for _, table := range []struct {
		titles []string
		rows   [][]string
	}{
		{[]string{"SOURCE", "TOPIC", "CONNECTOR", "RECORDS", "LAG", "STATE"}, sources},
		{[]string{"STEP", "IN", "OUT", "LATE", "FAILED", "DEAD", "BUSY"}, steps},
		{[]string{"SINK", "TOPIC", "CONNECTOR", "RECORDS", "LAG", "ERROR"}, sinks},
	} {
		if len(table.rows) == 0 {
			continue
		}
		b.WriteByte('\n')
		if err := p.Grid(b, table.titles, table.rows); err != nil {
			return err
		}
	}
	return nil
}

// stateText is the state in words.
func (st *pipelineStatus) stateText() string {
	if st.State == "" {
		return "no worker has taken it; run one: millstream server"
	}
	return string(st.State)
}

// sourceState is that of the pipeline unless the source has a word of its own.
func (st *pipelineStatus) sourceState(s deploy.SourceStatus) string {
	switch {
	case s.Error != "":
		return s.Error
	case s.Ended:
		return "ended"
	}
	return string(st.State)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
