package command

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
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
				return output.One(a.printer, st, st.text)
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

func (st *pipelineStatus) text(b *strings.Builder) {
	state := string(st.State)
	if state == "" {
		state = "no worker has taken it"
	}
	fmt.Fprintf(b, "pipeline  %s\nstate     %s\nrevision  %d", st.Name, state, st.Revision)
	if st.WantedRevision != st.Revision {
		fmt.Fprintf(b, " (revision %d is wanted)", st.WantedRevision)
	}
	fmt.Fprintf(b, "\nrecords   %d in, %d out, %d late, %d dead-lettered, lag %d\n",
		st.RecordsIn, st.RecordsOut, st.Late, st.DeadLettered, st.Lag)
	if !st.At.IsZero() {
		fmt.Fprintf(b, "reported  %s\n", st.At.Format(time.RFC3339))
	}
	if st.Error != "" {
		fmt.Fprintf(b, "error     %s\n", st.Error)
	}
	st.tables(b)
	for _, sink := range slices.Sorted(maps.Keys(st.Guarantees)) {
		fmt.Fprintf(b, "\n%s: %s", sink, st.Guarantees[sink])
	}
	if len(st.Guarantees) > 0 {
		b.WriteByte('\n')
	}
}

func (st *pipelineStatus) tables(b *strings.Builder) {
	w := tabwriter.NewWriter(b, 0, 4, 2, ' ', 0)
	if len(st.Sources) > 0 {
		fmt.Fprintln(w, "\nSOURCE\tTOPIC\tCONNECTOR\tRECORDS\tLAG\tSTATE")
	}
	for _, s := range st.Sources {
		state := "running"
		switch {
		case s.Error != "":
			state = s.Error
		case s.Ended:
			state = "ended"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\n",
			s.ID, s.Topic, orDash(s.Connector), s.Records, s.Lag, state)
	}
	if len(st.Steps) > 0 {
		fmt.Fprintln(w, "\nSTEP\tIN\tOUT\tLATE\tFAILED")
	}
	for _, s := range st.Steps {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\n", s.ID, s.In, s.Out, s.Late, s.Failed)
	}
	if len(st.Sinks) > 0 {
		fmt.Fprintln(w, "\nSINK\tTOPIC\tCONNECTOR\tRECORDS\tLAG")
	}
	for _, s := range st.Sinks {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\n", s.ID, orDash(s.Topic), orDash(s.Connector),
			s.Records, s.Lag)
	}
	_ = w.Flush() // a strings.Builder cannot fail
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
