package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/millstream-io/millstream/cli/internal/ranges"
	"github.com/millstream-io/millstream/cli/output"
	"github.com/millstream-io/millstream/connectors"
	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/pipelines/plan"
	"github.com/millstream-io/millstream/pipelines/replay"
	"github.com/millstream-io/millstream/pipelines/runner"
	"github.com/millstream-io/millstream/streams/task"
)

func newReplayCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Run a pipeline again over a range of its inputs, beside the live one, and compare",
	}
	cmd.AddCommand(newReplayRunCommand(a), newReplayStatusCommand(a), newReplayVerifyCommand(a))
	return cmd
}

type replayFlags struct {
	from, to, as string
	// state is live, a snapshot's file, or "" for none.
	state string
	rate  int64
	wait  bool
}

func newReplayRunCommand(a *app) *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "run NAME",
		Short: "Start a replay of a pipeline",
		Long: "" +
			"Start a replay of a pipeline over a range of its inputs. It has a name of its own, and its\n" +
			"group, state and outputs carry it: the live pipeline is never touched, and connectors are\n" +
			"not called. Outputs go to topics NAME2.TOPIC. Positions: " + ranges.Grammar + ".\n" +
			"It begins without state, or with --state where a snapshot was taken (`pipeline state\n" +
			"snapshot`), or where the pipeline stands (live), with what it had stored there. It goes as\n" +
			"fast as it can, or with --rate so slowly that the live pipeline is not disturbed.",
		Args: cobra.ExactArgs(1),
		Example: "  millstream replay run flights --from start --as flights-again --wait\n" +
			"  millstream replay run flights --from @-1h --to end --as last-hour\n" +
			"  millstream replay run flights --state flights.state --as flights-since\n" +
			"  millstream replay run flights --rate 10000 --as flights-slowly",
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.rate < 0 {
				return output.Usage("BAD_FLAGS", fmt.Sprintf("--rate %d is below 0", f.rate)).
					WithDo("leave it out for as fast as it goes")
			}
			if f.state != "" && cmd.Flags().Changed("from") {
				return output.Usage("BAD_FLAGS", "--state says where to begin, and so does --from").
					WithDo("leave one of them out")
			}
			return a.withStore(cmd.Context(), func(s *deploy.Store) error {
				return a.replayRun(cmd.Context(), s, args[0], f)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.from, "from", "start", "where to begin in each input")
	flags.StringVar(&f.to, "to", "end", "where to stop in each input (exclusive)")
	flags.StringVar(&f.as, "as", "", "name of the replay")
	flags.Int64Var(&f.rate, "rate", 0, "records of the inputs per second at most; 0 is any")
	flags.StringVar(&f.state, "state", "", "begin with this snapshot's state; live takes one now")
	flags.BoolVar(&f.wait, "wait", false, "wait until it is done")
	if err := cmd.MarkFlagRequired("as"); err != nil { // only if the flag did not exist
		panic("invariant: flag --as exists: " + err.Error())
	}
	return cmd
}

func (a *app) replayRun(ctx context.Context, s *deploy.Store, name string, f replayFlags) error {
	live, err := s.Get(ctx, name)
	if err != nil {
		return unknownPipeline(ctx, s, name, err)
	}
	if err := checkReplay(ctx, s, live, f.as); err != nil {
		return err
	}
	compiled, err := compileRevision(live)
	if err != nil {
		return err
	}
	spec := replayOf(live, f.as)
	spec.Rate = f.rate
	shadow := live
	shadow.Name, shadow.Replay, shadow.Wanted = f.as, spec, deploy.WantRunning
	next, err := s.NextGeneration(ctx, f.as) // a replay of that name may have been forgotten
	if err != nil {
		return err
	}
	shadow.Generation, shadow.Start = next-1, nil
	records, err := a.replayPrepare(ctx, compiled, f, live, shadow)
	if err != nil {
		return err
	}
	a.printer.Note("%s replays %d records of %s", f.as, records, name)
	applied, err := s.Apply(ctx, shadow)
	if err != nil {
		return err
	}
	result := startedReplay{Name: f.as, Of: name, Records: records, Ranges: spec.Ranges,
		Outputs: replayPairs(compiled, f.as)}
	for _, p := range result.Outputs {
		a.printer.Note("output   %s -> %s", p.Live, p.Shadow)
	}
	if !f.wait {
		return a.printer.Done(result, "see      millstream replay status %s", f.as)
	}
	st, err := waitStatus(ctx, s, applied, 0, func(st deploy.Status) bool {
		return st.State == deploy.Done
	})
	if errors.Is(err, context.Canceled) {
		interrupted := output.Explain(err)
		return interrupted.WithWhy("the replay itself goes on").
			WithDo("millstream replay status " + f.as)
	}
	if err != nil {
		return err
	}
	result.State = string(st.State)
	return a.printer.Done(result,
		"done     %d records in, %d out\nnext     millstream replay verify %s",
		st.RecordsIn, st.RecordsOut, f.as)
}

// replayPrepare resolves the ranges of a replay and gives it the state it begins with.
func (a *app) replayPrepare(ctx context.Context, p *plan.Plan, f replayFlags,
	live, shadow deploy.Revision) (int64, error) {
	if f.state == "" {
		return a.replayRanges(ctx, p, f, shadow.Replay)
	}
	x, done, err := a.stateFor(ctx, f.state, live)
	if err != nil {
		return 0, err
	}
	defer done()
	at, err := positionsByTopic(x)
	if err != nil {
		return 0, err
	}
	shadow.Replay.Forked = true
	if _, err := a.replayRanges(ctx, p, f, shadow.Replay); err != nil {
		return 0, err
	}
	records := int64(0)
	for topic, spans := range shadow.Replay.Ranges {
		for partition, span := range spans {
			from, ok := at[topic][partition]
			if !ok {
				return 0, badSnapshot(fmt.Errorf("%w: it does not say where %s-%d was read to",
					task.ErrExport, topic, partition))
			}
			if strings.TrimSpace(f.to) != "end" && span.To < from {
				return 0, output.Usage("BAD_FLAGS", fmt.Sprintf("--to %s is before %s-%d %d, where the"+
					" snapshot was taken", f.to, topic, partition, from)).WithDo("choose a later end, or an" +
					" older snapshot")
			}
			spans[partition] = deploy.Span{From: from, To: max(from, span.To)}
			records += spans[partition].To - from
		}
	}
	return records, a.forkState(ctx, shadow, p, x)
}

// stateFor opens the snapshot that a replay begins with, or takes one of the live pipeline.
func (a *app) stateFor(ctx context.Context, from string, live deploy.Revision,
) (*task.StateExport, func(), error) {
	if from != "live" {
		return openSnapshot(from)
	}
	dir, err := os.MkdirTemp("", "millstream-fork-")
	if err != nil {
		return nil, nil, cannotWrite("a snapshot", err)
	}
	x, done, err := a.snapshotTo(ctx, live, filepath.Join(dir, "state"))
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	return x, func() {
		done()
		_ = os.RemoveAll(dir) // it is in the system's folder for such
	}, nil
}

// startedReplay is what run prints for machines.
type startedReplay struct {
	Name    string                           `json:"name"`
	Of      string                           `json:"of"`
	Records int64                            `json:"records"`
	Ranges  map[string]map[int32]deploy.Span `json:"ranges"`
	Outputs []replay.Pair                    `json:"outputs"`
	State   string                           `json:"state,omitempty"` // empty without --wait
}

// replayOf is a replay of a revision, without ranges.
func replayOf(live deploy.Revision, as string) *deploy.Replay {
	spec := &deploy.Replay{Of: live.Name, Revision: live.Number, Prefix: as,
		Ranges: map[string]map[int32]deploy.Span{}}
	if app := live.App(); app != live.Name { // what it decided about idle inputs is under that name
		spec.App = app
	}
	return spec
}

// checkReplay refuses what cannot be replayed, or not under that name.
func checkReplay(ctx context.Context, s *deploy.Store, live deploy.Revision, as string) error {
	if live.Replay != nil {
		return output.Usage("BAD_NAME", fmt.Sprintf("%q is a replay itself", live.Name)).
			WithDo("replay what it is of: millstream replay run " + live.Replay.Of + " --as " + as)
	}
	if !replayName.MatchString(as) {
		return output.Usage("BAD_NAME", fmt.Sprintf("%q cannot be the name of a replay", as)).
			WithDo("use lower-case letters, digits and dashes, such as --as " + live.Name + "-again")
	}
	_, err := s.Get(ctx, as)
	switch {
	case errors.Is(err, deploy.ErrUnknownPipeline):
		return nil
	case err != nil:
		return err
	}
	return output.Conflict("NAME_TAKEN", fmt.Sprintf("there is already a pipeline %q", as)).
		WithDo("choose another name with --as")
}

// replayRanges resolves the range in every input the steps read; tables are always read whole.
func (a *app) replayRanges(
	ctx context.Context, p *plan.Plan, f replayFlags, spec *deploy.Replay,
) (int64, error) {
	from, to, err := parseRange(f.from, f.to)
	if err != nil {
		return 0, err
	}
	adm, cl, err := a.admin(ctx)
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	var records int64
	for _, source := range p.Sources {
		if source.TableOnly {
			continue
		}
		r, err := a.resolveRange(ctx, adm, source.Topic, from, to)
		if err != nil {
			return 0, err
		}
		spans := map[int32]deploy.Span{}
		for partition, b := range r {
			spans[partition] = deploy.Span{From: b.From, To: max(b.From, b.To)}
		}
		spec.Ranges[source.Topic] = spans
		records += r.Len()
	}
	return records, nil
}

// compileRevision compiles what was applied, on this machine.
func compileRevision(r deploy.Revision) (*plan.Plan, error) {
	catalog := runner.NewCatalog(runner.CatalogOptions{Connectors: connectors.Builtin(), Dir: r.Dir})
	defer catalog.Close()
	compiled, findings := runner.Compile(r, catalog)
	if compiled == nil {
		return nil, output.Usage("REVISION_INVALID", fmt.Sprintf(
			"revision %d of %s does not compile here", r.Number, r.Name)).
			WithCause(&runner.ErrFindings{Findings: findings})
	}
	return compiled, nil
}

// replayPairs lists live outputs and their shadows.
func replayPairs(p *plan.Plan, prefix string) []replay.Pair {
	var pairs []replay.Pair
	for _, s := range p.Sinks {
		if s.Connector == nil {
			pairs = append(pairs, replay.Pair{Sink: s.ID, Live: s.Topic,
				Shadow: runner.ShadowTopic(prefix, s.Topic)})
		}
	}
	return pairs
}

func newReplayStatusCommand(a *app) *cobra.Command {
	cmd := newPipelineStatusCommand(a)
	cmd.Short = "Show how a replay does"
	cmd.Example = "  millstream replay status flights-again\n" +
		"  millstream replay status flights-again -o json"
	return cmd
}

func newReplayVerifyCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "verify NAME",
		Short: "Compare the outputs of a replay with those of the live pipeline, record by record",
		Long: "" +
			"Compare the outputs of a replay with those of the live pipeline: per partition the same\n" +
			"keys, values, timestamps and headers in the same order. Exits with 4 when they differ,\n" +
			"and with 6 when they are equal so far: a replay ends its input, upon which all windows\n" +
			"close, while the live pipeline waits for time to pass. Verify again when it has.",
		Args: cobra.ExactArgs(1),
		Example: "  millstream replay verify flights-again\n" +
			"  millstream replay verify flights-again -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withStore(cmd.Context(), func(s *deploy.Store) error {
				return a.replayVerify(cmd.Context(), s, args[0])
			})
		},
	}
}

func (a *app) replayVerify(ctx context.Context, s *deploy.Store, name string) error {
	r, err := s.Get(ctx, name)
	if err != nil {
		return unknownPipeline(ctx, s, name, err)
	}
	if r.Replay == nil {
		return output.Usage("NOT_A_REPLAY", fmt.Sprintf("%q is a pipeline, not a replay", name)).
			WithDo("millstream replay run " + name + " --from start --as " + name + "-again")
	}
	st, err := getStatus(ctx, s, name)
	if err != nil {
		return err
	}
	if st.State != deploy.Done {
		return output.Conflict("REPLAY_NOT_DONE",
			fmt.Sprintf("the replay %s is not done: %s", name, st.stateText())).
			WithWhy(st.Error).WithDo("millstream replay status " + name)
	}
	compiled, err := compileRevision(r)
	if err != nil {
		return err
	}
	want, err := a.expectation(ctx, r.Replay)
	if err != nil {
		return err
	}
	report, err := replay.Verify(ctx, a.connector(ctx), replayPairs(compiled, name), want)
	if err != nil {
		return err
	}
	return a.printVerify(report)
}

// expectation tells whether the range covered all input there is now.
func (a *app) expectation(ctx context.Context, spec *deploy.Replay) (replay.Expectation, error) {
	adm, cl, err := a.admin(ctx)
	if err != nil {
		return replay.Expectation{}, err
	}
	defer cl.Close()
	want := replay.Expectation{FromStart: true, ToEnd: true}
	for topic, spans := range spec.Ranges {
		starts, err := adm.ListStartOffsets(ctx, topic)
		if err != nil {
			return want, fmt.Errorf("list offsets of %s: %w", topic, err)
		}
		ends, err := adm.ListEndOffsets(ctx, topic)
		if err != nil {
			return want, fmt.Errorf("list offsets of %s: %w", topic, err)
		}
		for p, span := range spans {
			want.FromStart = want.FromStart && span.From <= offsetOf(starts, topic, p)
			want.ToEnd = want.ToEnd && span.To >= offsetOf(ends, topic, p)
		}
	}
	return want, nil
}

func offsetOf(listed kadm.ListedOffsets, topic string, partition int32) int64 {
	o, _ := listed.Lookup(topic, partition)
	return o.Offset
}

func (a *app) printVerify(report replay.Report) error {
	summary, exit := "equal", output.ExitOK
	switch {
	case report.EqualSoFar:
		summary, exit = "equal so far: the live output is not that far yet", output.ExitNotYet
	case !report.Equal:
		summary, exit = "the outputs differ", output.ExitVerdict
	}
	if a.printer.Machine() {
		err := output.One(a.printer, output.Verdict{Command: "replay verify", OK: report.Equal,
			Summary: summary, Result: report}, nil)
		if err != nil {
			return err
		}
	} else if err := output.One(a.printer, report, func(b *strings.Builder) {
		verifyText(b, report)
	}); err != nil {
		return err
	}
	if exit != output.ExitOK {
		return reported(exit)
	}
	return nil
}

func verifyText(b *strings.Builder, report replay.Report) {
	wide := 0
	for _, o := range report.Outputs {
		wide = max(wide, len(o.Live)+len(o.Shadow)+len(" != "))
	}
	for _, o := range report.Outputs {
		verdict, pair := "equal", o.Live+" = "+o.Shadow
		counts := fmt.Sprintf("%d compared", o.Compared)
		switch {
		case o.EqualSoFar:
			verdict = "so far"
			counts += fmt.Sprintf(", %d to come", o.ToCome)
		case !o.Equal:
			verdict, pair = "DIFFERENT", o.Live+" != "+o.Shadow
			counts = fmt.Sprintf("%d live, %d replayed", o.LiveRecords, o.ShadowRecords)
		}
		if o.Before+o.After > 0 {
			counts += fmt.Sprintf("; outside the range %d before, %d after", o.Before, o.After)
		}
		fmt.Fprintf(b, "%-9s  %-*s   %s\n", verdict, wide, pair, counts)
	}
	d := report.FirstDifference
	switch {
	case d != nil:
		fmt.Fprintf(b, "\nfirst difference, partition %d: %s\n", d.Partition, d.Reason)
	case report.EqualSoFar:
		d = report.FirstToCome
		fmt.Fprintf(b, "\nequal so far; partition %d: %s.\nA replay ends its input, upon which all "+
			"windows close; the live pipeline waits for time to pass. Verify again when it has.\n",
			d.Partition, d.Reason)
	default:
		return
	}
	for _, side := range []struct {
		name   string
		sample *replay.Sample
	}{{d.Live, d.LiveAt}, {d.Shadow, d.ShadowAt}} {
		if side.sample != nil {
			fmt.Fprintf(b, "  %s@%d  %s  key %s\n    %s\n", side.name, side.sample.Offset,
				time.UnixMilli(side.sample.Timestamp).UTC().Format(time.RFC3339Nano),
				readable([]byte(side.sample.Key)), readable([]byte(side.sample.Value)))
		}
	}
}
