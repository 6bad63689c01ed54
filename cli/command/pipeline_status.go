package command

import (
	"cmp"
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
		fmt.Fprintf(b, "watermark %s, %s behind the clock\n", st.Watermark.Format(time.RFC3339Nano),
			shortAge(st.LagSeconds))
	}
	fmt.Fprintf(b, "kept      %.1f MiB of state\n", float64(st.StateBytes)/(1<<20))
	if m := st.Memory; st.MemoryLimit > 0 && m != (deploy.StateMemory{}) {
		fmt.Fprintf(b, "memory    %.1f MiB of changed rows, %.1f MiB kept for reading, %d rows evicted;"+
			" all pipelines here may take %d MiB\n", float64(m.DirtyBytes)/(1<<20),
			float64(m.CachedBytes)/(1<<20), m.Evicted, st.MemoryLimit>>20)
	}
	if !st.At.IsZero() {
		fmt.Fprintf(b, "reported  %s\n", st.At.Format(time.RFC3339))
	}
	if st.Error != "" {
		fmt.Fprintf(b, "error     %s\n", st.Error)
	}
	if t := st.Trouble; t != nil {
		fmt.Fprintf(b, "trouble   for %s, since %s: %s\nway back  %s\n",
			time.Since(t.Since).Round(time.Second), t.Since.Format(time.RFC3339), t.Error, t.Do)
	}
	st.waits(b, time.Now())
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
			fmt.Sprint(s.DeadLettered), fmt.Sprint(s.Lag), eventTime(s.Watermark), st.sourceState(s)})
	}
	for _, s := range st.Steps {
		steps = append(steps, []string{s.ID, fmt.Sprint(s.In), fmt.Sprint(s.Out),
			fmt.Sprint(s.Late), fmt.Sprint(s.Failed), fmt.Sprint(s.DeadLettered),
			fmt.Sprintf("%.1fs", s.BusySeconds), fmt.Sprintf("%.1fM", float64(s.StateBytes)/(1<<20)),
			eventTime(s.Watermark)})
	}
	for _, s := range st.Sinks {
		sinks = append(sinks, []string{s.ID, s.Topic, s.Connector, fmt.Sprint(s.Records),
			fmt.Sprint(s.DeadLettered), fmt.Sprint(s.Lag), eventTime(s.Watermark), s.Error})
	}
	tasks, inputs := st.taskRows()
	for _, table := range []struct {
		titles []string
		rows   [][]string
	}{
		{[]string{"SOURCE", "TOPIC", "CONNECTOR", "RECORDS", "DEAD", "LAG", "WATERMARK", "STATE"},
			sources},
		{[]string{"STEP", "IN", "OUT", "LATE", "FAILED", "DEAD", "BUSY", "KEPT", "WATERMARK"}, steps},
		{[]string{"SINK", "TOPIC", "CONNECTOR", "RECORDS", "DEAD", "LAG", "WATERMARK", "ERROR"}, sinks},
		{[]string{"TASK", "WORKER", "STATE", "KEPT", "WATERMARK", "BEHIND"}, tasks},
		{[]string{"INPUT", "TASK", "POSITION", "LAG", "WATERMARK", "BEHIND"}, inputs},
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

// inputsShown bounds the tables of tasks and inputs; the rest is in -o json.
const inputsShown = 20

// taskRows are the rows of the tasks and of what they read: those that are furthest behind.
func (st *pipelineStatus) taskRows() (tasks, inputs [][]string) {
	byLag := slices.Clone(st.Tasks)
	lag := func(t deploy.TaskStatus) (n int64) {
		for _, in := range t.Inputs {
			n += in.Lag
		}
		return n
	}
	slices.SortStableFunc(byLag, func(a, b deploy.TaskStatus) int {
		return cmp.Compare(lag(b), lag(a))
	})
	more := func(rows [][]string, columns int) [][]string {
		if len(rows) <= inputsShown {
			return rows
		}
		last := make([]string, columns)
		last[0] = fmt.Sprintf("... %d more: -o json", len(rows)-inputsShown)
		return append(rows[:inputsShown:inputsShown], last)
	}
	for _, t := range byLag {
		state := t.Phase
		if t.ToRestore > 0 {
			state = fmt.Sprintf("%s %d/%d", t.Phase, t.Restored, t.ToRestore)
		}
		tasks = append(tasks, []string{t.ID, t.Worker, state,
			fmt.Sprintf("%.1fM", float64(t.StateBytes)/(1<<20)), eventTime(t.Watermark),
			ageAfter(t.Watermark, t.LagSeconds)})
		for _, in := range t.Inputs {
			inputs = append(inputs, []string{fmt.Sprintf("%s-%d", in.Topic, in.Partition), t.ID,
				fmt.Sprint(in.Position), fmt.Sprint(in.Lag), eventTime(in.Watermark),
				ageAfter(in.Watermark, in.LagSeconds)})
		}
	}
	return more(tasks, 6), more(inputs, 6)
}

// eventTime shows a watermark, "-" before there is one.
func eventTime(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return at.Format(time.RFC3339Nano)
}

// ageAfter shows how far a watermark is behind, "-" before there is one.
func ageAfter(at time.Time, seconds float64) string {
	if at.IsZero() {
		return "-"
	}
	return shortAge(seconds)
}

// shortAge shows seconds to the tenth, and what is longer than two days in days.
func shortAge(seconds float64) string {
	const day = 24 * 60 * 60
	if seconds >= 2*day {
		return fmt.Sprintf("%dd", int64(seconds/day))
	}
	return time.Duration(seconds * float64(time.Second)).Round(100 * time.Millisecond).String()
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
