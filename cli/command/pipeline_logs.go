package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/cli/output"
	"github.com/millstream-io/millstream/pipelines/deploy"
)

func newPipelineLogsCommand(a *app) *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs NAME",
		Short: "Print what a pipeline, its plugins and its connectors logged in the last day",
		Args:  cobra.ExactArgs(1),
		Example: "  millstream pipeline logs flights\n" +
			"  millstream pipeline logs flights --follow -o ndjson",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.pipelineLogs(cmd.Context(), args[0], follow)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "F", false, "keep printing new lines")
	return cmd
}

func (a *app) pipelineLogs(ctx context.Context, name string, follow bool) error {
	if err := a.withStore(ctx, func(s *deploy.Store) error {
		_, err := s.Get(ctx, name)
		return unknownPipeline(ctx, s, name, err)
	}); err != nil {
		return err
	}
	cl, err := a.client(ctx, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		deploy.LogTopic: {0: kgo.NewOffset().AtStart()},
	}))
	if err != nil {
		return err
	}
	defer cl.Close()
	start, end, err := logEdges(ctx, kadm.NewClient(cl), deploy.LogTopic)
	if err != nil {
		return err
	}
	lines := logLines{app: a, follow: follow}
	for start < end || follow {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if errs := fetches.Errors(); len(errs) > 0 {
			return fmt.Errorf("read logs: %w", errs[0].Err)
		}
		for _, r := range fetches.Records() {
			start = r.Offset + 1
			if string(r.Key) == name {
				lines.add(r.Value)
			}
		}
	}
	if lines.printed == 0 {
		a.printer.Note("%s logged nothing in the last day", name)
	}
	return lines.end()
}

// logLines prints log lines as they come, but for the formats that are one list.
type logLines struct {
	app     *app
	follow  bool
	printed int
	list    []json.RawMessage
}

func (l *logLines) add(line []byte) {
	l.printed++
	if l.asList() && json.Valid(line) {
		l.list = append(l.list, line)
		return
	}
	l.app.printLog(line)
}

// asList tells whether the lines are collected; a list that is followed would have no end.
func (l *logLines) asList() bool {
	format := l.app.printer.Format
	return !l.follow && (format == output.JSON || format == output.YAML)
}

func (l *logLines) end() error {
	if !l.asList() {
		return nil
	}
	return output.List(l.app.printer, l.list, nil)
}

// logEdges gives the offsets between which a control topic has records; 0 and 0 if there is none.
func logEdges(
	ctx context.Context, adm *kadm.Client, topic string,
) (start, end int64, err error) {
	starts, err := adm.ListStartOffsets(ctx, topic)
	if err != nil {
		return 0, 0, fmt.Errorf("list offsets of %s: %w", topic, err)
	}
	ends, err := adm.ListEndOffsets(ctx, topic)
	if err != nil {
		return 0, 0, fmt.Errorf("list offsets of %s: %w", topic, err)
	}
	e, ok := ends.Lookup(topic, 0)
	if !ok || errors.Is(e.Err, kerr.UnknownTopicOrPartition) {
		return 0, 0, nil
	}
	s, _ := starts.Lookup(topic, 0)
	return s.Offset, e.Offset, errors.Join(s.Err, e.Err)
}

// printLog prints the JSON line itself for machines, and time, level, message and fields for
// people.
func (a *app) printLog(line []byte) {
	if a.printer.Machine() {
		fmt.Fprintf(a.streams.Out, "%s\n", line)
		return
	}
	var fields map[string]any
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber()
	if err := decoder.Decode(&fields); err != nil {
		fmt.Fprintf(a.streams.Out, "%s\n", readable(line))
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%v %-5v %v", fields["time"], fields["level"], fields["msg"])
	for _, k := range slices.Sorted(maps.Keys(fields)) {
		switch k {
		case "time", "level", "msg":
		default:
			fmt.Fprintf(&b, " %s=%v", k, fields[k])
		}
	}
	fmt.Fprintln(a.streams.Out, readable([]byte(b.String())))
}
