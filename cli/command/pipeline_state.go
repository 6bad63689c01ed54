package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/millstream-io/millstream/cli/output"
	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/pipelines/query"
)

// stateFlags are what get and export have in common.
type stateFlags struct {
	http       string
	from, to   string
	partitions []int32
	stale      bool
	fresh      bool
	maxLag     int64
}

func (f *stateFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.addHTTP(cmd)
	flags.StringVar(&f.from, "from", "", "only windows, or rows without one, that reach past this time")
	flags.StringVar(&f.to, "to", "", "only windows, or rows without one, from before this time")
	flags.Int32SliceVar(&f.partitions, "partition", nil, "only these tasks")
	flags.BoolVar(&f.stale, "stale", false, "take rows of a restore under way or of a standby")
	flags.BoolVar(&f.fresh, "fresh", false, "all that is committed, not only what is in the file yet")
	flags.Int64Var(&f.maxLag, "max-lag", -1, "refuse rows that are more changelog records behind")
}

func (f *stateFlags) addHTTP(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.http, "http", "", "worker to ask first; the pipeline's status names one")
}

// request is what the flags ask for.
func (f *stateFlags) request(pipeline, node string) (query.Request, error) {
	r := query.Request{Pipeline: pipeline, Node: node, From: math.MinInt64, To: math.MaxInt64,
		Partitions: f.partitions, Stale: f.stale, Fresh: f.fresh, MaxLag: f.maxLag}
	for _, x := range []struct {
		text string
		to   *int64
	}{{f.from, &r.From}, {f.to, &r.To}} {
		if x.text == "" {
			continue
		}
		if ms, err := strconv.ParseInt(x.text, 10, 64); err == nil {
			*x.to = ms
			continue
		}
		at, err := time.Parse(time.RFC3339Nano, x.text)
		if err != nil {
			return r, output.Usage("BAD_RANGE", fmt.Sprintf("%q is not a time", x.text)).
				WithDo("write it like 2026-02-14T10:00:00Z, or as ms since 1970")
		}
		*x.to = at.UnixMilli()
	}
	return r, nil
}

func newPipelineStateCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "state",
		Short: "Look at what the steps and tables of a pipeline have stored",
		Long: "Look at what the steps and tables of a pipeline have stored. Only what is committed is\n" +
			"seen, and each answer says where it stands: the changelog and input offsets it is made\n" +
			"of and what is behind them. Tasks of other workers are asked there.",
	}
	cmd.AddCommand(newStateListCommand(a), newStateGetCommand(a), newStateExportCommand(a),
		newStateSnapshotCommand(a), newStateImportCommand(a))
	return cmd
}

func newStateListCommand(a *app) *cobra.Command {
	var f stateFlags
	cmd := &cobra.Command{
		Use:     "ls NAME",
		Aliases: []string{"list"},
		Short:   "List the stores of a pipeline and how far each task is",
		Args:    cobra.ExactArgs(1),
		Example: "  millstream pipeline state ls flights\n" +
			"  millstream pipeline state ls flights -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.stateClient(cmd.Context(), args[0], f.http)
			if err != nil {
				return err
			}
			listing, err := c.List(cmd.Context(), args[0])
			if err != nil {
				return explainQuery(err)
			}
			if a.printer.Machine() {
				return output.One(a.printer, listing, nil)
			}
			return output.List(a.printer, storeRows(listing), storeColumns)
		},
	}
	f.addHTTP(cmd)
	return cmd
}

// storeRow is one store of one task.
type storeRow struct {
	store query.StoreStatus
	at    query.Partition
}

func storeRows(l *query.Listing) []storeRow {
	var rows []storeRow
	for _, s := range l.Stores {
		for _, p := range s.Partitions {
			rows = append(rows, storeRow{s, p})
		}
	}
	return rows
}

var storeColumns = []output.Column[storeRow]{
	{Title: "NODE", Cell: func(r storeRow) string { return r.store.Node }},
	{Title: "STORE", Cell: func(r storeRow) string { return r.store.Store }},
	{Title: "KIND", Cell: func(r storeRow) string { return r.store.Kind }},
	{Title: "TASK", Cell: func(r storeRow) string { return r.at.Task }},
	{Title: "PHASE", Cell: func(r storeRow) string { return string(r.at.Phase) }},
	{Title: "POSITION", Cell: func(r storeRow) string {
		return strconv.FormatInt(r.at.Position, 10)
	}},
	{Title: "LAG", Cell: func(r storeRow) string { return strconv.FormatInt(r.at.Lag, 10) }},
	{Title: "FILE", Cell: func(r storeRow) string {
		return fmt.Sprintf("%.1f MiB", float64(r.at.Bytes)/(1<<20))
	}},
}

func newStateGetCommand(a *app) *cobra.Command {
	var f stateFlags
	var limit int
	cmd := &cobra.Command{
		Use:   "get NAME NODE [KEY]",
		Short: "Print the rows of a key, or the first ones, of a step or table",
		Long: "Print the rows of a key, or the first ones, of a step or table. The key is JSON, or text\n" +
			"as it is. A step with windows has a row for each; --from and --to choose among them.",
		Args: cobra.RangeArgs(2, 3),
		Example: "  millstream pipeline state get flights daily '\"ZRH\"'\n" +
			"  millstream pipeline state get flights daily ZRH --from 2026-02-14T00:00:00Z -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := f.request(args[0], args[1])
			if err != nil {
				return err
			}
			r.Limit = limit
			if len(args) == 3 {
				r.Key = &args[2]
			}
			c, err := a.stateClient(cmd.Context(), args[0], f.http)
			if err != nil {
				return err
			}
			answer, err := c.Ask(cmd.Context(), r)
			if err != nil {
				return explainQuery(err)
			}
			return a.printAnswer(answer, r.Key)
		},
	}
	f.add(cmd)
	cmd.Flags().IntVarP(&limit, "limit", "n", 0, "most rows to print; 0 is 1000")
	return cmd
}

func (a *app) printAnswer(answer *query.Answer, key *string) error {
	if a.printer.Machine() {
		return output.One(a.printer, answer, nil)
	}
	if len(answer.Rows) == 0 && key != nil {
		a.printer.Note("no row with key %s", *key)
	}
	if err := output.List(a.printer, answer.Rows, rowColumns(answer.Rows)); err != nil {
		return err
	}
	for _, p := range answer.Partitions {
		a.printer.Note("task %s is %s, at %d of %s, %d behind%s", p.Task, p.Phase, p.Position,
			p.Changelog, p.Lag, inputText(p.Inputs))
	}
	for _, p := range answer.Missing {
		a.printer.Note("task %s is %s and has no rows that could be shown", p.Task, p.Phase)
	}
	if answer.More {
		a.printer.Note("there are more rows: choose with KEY, --from and --to, or export them all")
	}
	return nil
}

func inputText(inputs []query.Input) string {
	var b strings.Builder
	for _, in := range inputs {
		fmt.Fprintf(&b, "; %s-%d read to %d, %d behind", in.Topic, in.Partition, in.Position, in.Lag)
	}
	return b.String()
}

// rowColumns are the columns that some row has a value in.
func rowColumns(rows []query.Row) []output.Column[query.Row] {
	ms := func(t int64) string { return time.UnixMilli(t).UTC().Format(time.RFC3339Nano) }
	all := []output.Column[query.Row]{
		{Title: "KEY", Cell: func(r query.Row) string { return string(r.Key) }},
		{Title: "STORE", Cell: func(r query.Row) string { return r.Store }},
		{Title: "SIDE", Cell: func(r query.Row) string { return r.Side }},
		{Title: "WINDOW", Cell: func(r query.Row) string {
			if r.Window == nil {
				return ""
			}
			return ms(r.Window.Start) + "/" + ms(r.Window.End)
		}},
		{Title: "TIME", Cell: func(r query.Row) string {
			if r.Timestamp == nil {
				return ""
			}
			return ms(*r.Timestamp)
		}},
		{Title: "UNTIL", Cell: func(r query.Row) string {
			if r.Until == nil {
				return ""
			}
			return ms(*r.Until)
		}},
		{Title: "VALUE", Cell: func(r query.Row) string { return string(r.Value) }},
	}
	return slices.DeleteFunc(all, func(c output.Column[query.Row]) bool {
		return c.Title != "KEY" && c.Title != "VALUE" &&
			!slices.ContainsFunc(rows, func(r query.Row) bool { return c.Cell(r) != "" })
	})
}

func newStateExportCommand(a *app) *cobra.Command {
	var f stateFlags
	cmd := &cobra.Command{
		Use:   "export NAME NODE",
		Short: "Print all rows of a step or table as lines of JSON, each task's of one commit",
		Long: "Print all rows of a step or table as lines of JSON. A line of type position precedes the\n" +
			"rows of a task, which are those of one commit, and a line of type end with their number\n" +
			"comes last. The task goes on meanwhile; a copy of its state takes room until the end.",
		Args: cobra.ExactArgs(2),
		Example: "  millstream pipeline state export flights daily > daily.ndjson\n" +
			"  millstream pipeline state export flights daily --fresh --partition 0",
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := f.request(args[0], args[1])
			if err != nil {
				return err
			}
			c, err := a.stateClient(cmd.Context(), args[0], f.http)
			if err != nil {
				return err
			}
			out := bufio.NewWriterSize(a.streams.Out, 64<<10)
			rows, err := c.Export(cmd.Context(), r, out)
			if err = errors.Join(err, out.Flush()); err != nil {
				return explainQuery(err)
			}
			a.printer.Note("%s", plural(rows, "row"))
			return nil
		},
	}
	f.add(cmd)
	return cmd
}

// stateClient finds the worker to ask.
func (a *app) stateClient(ctx context.Context, name, address string) (*query.Client, error) {
	if address != "" {
		return &query.Client{Address: address}, nil
	}
	var st *pipelineStatus
	err := a.withStore(ctx, func(s *deploy.Store) (err error) {
		st, err = getStatus(ctx, s, name)
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case st.State == "":
		return nil, output.Environment("STATE_NOT_READY", "nobody runs "+name).WithWhy(st.stateText()).
			WithDo("millstream pipeline start " + name)
	case st.Address == "":
		return nil, output.Environment("STATE_NOT_READY", "the worker of "+name+" answers no questions").
			WithDo("start it with --http host:port")
	}
	return &query.Client{Address: st.Address}, nil
}

// explainQuery puts the refusal of a worker into users' words.
func explainQuery(err error) error {
	if known, ok := errors.AsType[*query.Error](err); ok {
		e := output.Failure("STATE_NOT_ANSWERED", known.What)
		switch known.Code {
		case query.CodeBadRequest:
			e = output.Usage("BAD_FLAGS", known.What)
		case query.CodeUnknownNode:
			e = output.Failure("UNKNOWN_STEP", known.What)
		case query.CodeRestoring, query.CodeLagging, query.CodeElsewhere, query.CodeUnknownPipeline:
			e = output.Environment("STATE_NOT_READY", known.What)
		}
		e.Why = known.Why
		return e.WithDo(known.Do)
	}
	if _, ok := errors.AsType[*url.Error](err); ok {
		return output.Environment("STATE_NOT_READY", "the pipeline's worker does not answer").
			WithCause(err).WithDo("name another with --http host:port")
	}
	return err
}
