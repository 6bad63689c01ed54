package command

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/millstream-io/millstream/cli/output"
	"github.com/millstream-io/millstream/pipelines/deploy"
)

// tailFlags are what the user wants to see.
type tailFlags struct {
	request deploy.TailRequest
	count   int
	wait    time.Duration
}

func newPipelineTailCommand(a *app) *cobra.Command {
	var f tailFlags
	cmd := &cobra.Command{
		Use:   "tail NAME --node ID",
		Short: "Show records that pass a source, step or sink of a running pipeline",
		Long: "Show records that pass a source, step or sink of a running pipeline, until Ctrl-C or -n\n" +
			"records. What is shown is a sample: the pipeline never waits for it, and at its end the\n" +
			"command says how many records passed. Records of transactions that fail are shown too.",
		Args: cobra.ExactArgs(1),
		Example: "  millstream pipeline tail flights --node delayed\n" +
			"  millstream pipeline tail flights --node delayed --filter 'value.delay > 60' -o ndjson",
		RunE: func(cmd *cobra.Command, args []string) error {
			f.request.Pipeline = args[0]
			if f.request.Node == "" {
				return output.Usage("BAD_FLAGS", "which node?").
					WithDo("say --node ID; millstream pipeline status " + args[0] + " lists them")
			}
			if f.request.Rate < 1 || f.request.Rate > deploy.MaxTailRate {
				return output.Usage("BAD_FLAGS", fmt.Sprintf("--rate %d: must be from 1 to %d",
					f.request.Rate, deploy.MaxTailRate))
			}
			return a.withStore(cmd.Context(), func(s *deploy.Store) error {
				return a.pipelineTail(cmd.Context(), s, f)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.request.Node, "node", "", "id of a source, step or sink")
	flags.BoolVar(&f.request.Before, "before", false, "what comes in, instead of what goes out")
	flags.StringVar(&f.request.Filter, "filter", "", "only records for which this expression holds")
	flags.IntVar(&f.request.Rate, "rate", deploy.DefaultTailRate,
		"records a second of each worker, at most")
	flags.IntVarP(&f.count, "count", "n", 0, "stop after that many records (0: no limit)")
	flags.DurationVar(&f.wait, "wait", 10*time.Second, "how long a worker may take to answer")
	return cmd
}

// tailed is one record as it is printed for machines.
type tailed struct {
	Worker    string            `json:"worker,omitempty"`
	Task      string            `json:"task"`
	Topic     string            `json:"topic,omitempty"`
	Partition int32             `json:"partition"`
	Offset    int64             `json:"offset"`
	Timestamp time.Time         `json:"timestamp"`
	Window    string            `json:"window,omitempty"`
	Key       any               `json:"key"`
	Value     any               `json:"value"`
	Headers   map[string]string `json:"headers,omitempty"`
	Cut       bool              `json:"cut,omitempty"`
}

// tailView prints samples and adds up what the workers count.
type tailView struct {
	app     *app
	flags   tailFlags
	printed int
	last    map[string]deploy.TailSample // by worker
	list    []tailed                     // for formats that are one list
}

func (a *app) pipelineTail(ctx context.Context, s *deploy.Store, f tailFlags) error {
	if err := a.tailable(ctx, s, f.request); err != nil {
		return err
	}
	v := &tailView{app: a, flags: f, last: map[string]deploy.TailSample{}}
	waiting, answered := context.WithCancelCause(ctx)
	defer answered(nil)
	patience := time.AfterFunc(f.wait, func() { answered(errNoAnswer) })
	defer patience.Stop()
	err := s.Tail(waiting, f.request, func(sample deploy.TailSample) (bool, error) {
		patience.Stop()
		return v.show(sample)
	})
	if errors.Is(context.Cause(waiting), errNoAnswer) {
		return output.Environment("NO_WORKER", fmt.Sprintf("no worker showed anything of %s within %s",
			f.request.Pipeline, f.wait)).
			WithDo("see whether it runs: millstream pipeline status " + f.request.Pipeline)
	}
	if ctx.Err() != nil {
		err = nil // Ctrl-C is how it ends
	}
	return errors.Join(err, v.end())
}

var errNoAnswer = errors.New("no worker answered")

// tailable says before anybody is asked what cannot be seen.
func (a *app) tailable(ctx context.Context, s *deploy.Store, q deploy.TailRequest) error {
	st, err := getStatus(ctx, s, q.Pipeline)
	if err != nil {
		return err
	}
	var nodes []string
	for _, n := range st.Sources {
		nodes = append(nodes, n.ID)
	}
	for _, n := range st.Steps {
		nodes = append(nodes, n.ID)
	}
	for _, n := range st.Sinks {
		nodes = append(nodes, n.ID)
	}
	if len(nodes) == 0 || slices.Contains(nodes, q.Node) {
		return nil
	}
	e := output.Failure("UNKNOWN_NODE", fmt.Sprintf("pipeline %s has no source, step or sink %q",
		q.Pipeline, q.Node))
	if best := nearest(q.Node, nodes); best != "" {
		return e.WithDo(fmt.Sprintf("did you mean %q?", best))
	}
	return e.WithDo("it has " + strings.Join(nodes, ", "))
}

// show prints a sample; enough tells that the count is reached.
func (v *tailView) show(sample deploy.TailSample) (enough bool, err error) {
	if sample.Error != "" {
		return true, output.Failure("CANNOT_SHOW", sample.Error)
	}
	v.last[sample.Worker] = sample
	for i := range sample.Records {
		if err := v.print(sample.Worker, &sample.Records[i]); err != nil {
			return true, err
		}
		if v.printed++; v.flags.count > 0 && v.printed >= v.flags.count {
			return true, nil
		}
	}
	return false, nil
}

func (v *tailView) print(worker string, r *deploy.TailRecord) error {
	at := time.UnixMilli(r.Timestamp).UTC()
	if v.app.printer.Machine() {
		one := tailed{Worker: worker, Task: r.Task, Topic: r.Topic, Partition: r.Partition,
			Offset: r.Offset, Timestamp: at, Window: r.Window, Key: shownValue(r.Key),
			Value: shownValue(r.Value), Cut: r.Cut}
		for k, h := range r.Headers {
			if one.Headers == nil {
				one.Headers = map[string]string{}
			}
			one.Headers[k] = string(h)
		}
		if v.app.printer.Format != output.NDJSON {
			v.list = append(v.list, one)
			return nil
		}
		line, err := json.Marshal(one)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(v.app.streams.Out, "%s\n", line)
		return err
	}
	from := r.Task
	if worker != "" {
		from = worker + " " + from
	}
	if r.Topic != "" {
		from += fmt.Sprintf(" %s-%d@%d", r.Topic, r.Partition, r.Offset)
	}
	if r.Window != "" {
		from += " " + r.Window
	}
	cut := ""
	if r.Cut {
		cut = " ..."
	}
	_, err := fmt.Fprintf(v.app.streams.Out, "%s  %s  %s = %s%s\n", at.Format(time.RFC3339Nano), from,
		readable(r.Key), readable(r.Value), cut)
	return err
}

// shownValue is JSON as it is, other text as a text, and bytes in base64.
func shownValue(b []byte) any {
	switch {
	case b == nil:
		return nil
	case json.Valid(b):
		return json.RawMessage(b)
	case utf8.Valid(b):
		return string(b)
	}
	return "base64:" + base64.StdEncoding.EncodeToString(b)
}

// end says what was not shown.
func (v *tailView) end() error {
	var seen, matched, failed int64
	for _, s := range v.last {
		seen, matched, failed = seen+s.Seen, matched+s.Matched, failed+s.Failed
	}
	if len(v.last) > 0 {
		v.app.printer.Note("%d of %d records shown", v.printed, seen)
	}
	if v.flags.request.Filter != "" && len(v.last) > 0 {
		v.app.printer.Note("the filter held for %d of those it was asked about", matched)
	}
	if failed > 0 {
		v.app.printer.Note("of %d records the filter could not say, as when a value is no JSON", failed)
	}
	if v.app.printer.Machine() && v.app.printer.Format != output.NDJSON {
		return output.List(v.app.printer, v.list, nil)
	}
	return nil
}
