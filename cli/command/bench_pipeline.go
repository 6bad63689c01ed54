package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/connectors"
	"github.com/millstream-io/millstream/pipelines/deploy"
	"github.com/millstream-io/millstream/pipelines/runner"
)

// The bench's topics and name.
const (
	benchInput  = "bench-in"
	benchOutput = "bench-out"
	benchName   = "bench"
)

func newBenchPipelineCommand(a *app) *cobra.Command {
	var f benchFlags
	var plugin string
	cmd := &cobra.Command{
		Use:   "pipeline",
		Short: "Measure topic -> filter -> topic, or topic -> plugin -> topic, in one process",
		Long: "" +
			"Measure how fast a pipeline of one step moves records from topic to topic. The broker, the\n" +
			"pipeline and the load run in this process, on a temporary data directory; only the\n" +
			"pipeline's time is measured, after all input is there.",
		Args: cobra.NoArgs,
		Example: "  millstream bench pipeline\n" +
			"  millstream bench pipeline --plugin examples/flights/plugins/punctuality -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			debug.SetGCPercent(benchGCPercent)
			result, err := a.benchPipeline(cmd.Context(), f, plugin)
			if err != nil {
				return err
			}
			return a.printBench(result)
		},
	}
	cmd.Flags().Int64VarP(&f.records, "records", "n", 2_000_000, "number of records")
	cmd.Flags().Int32VarP(&f.partitions, "partitions", "p", 6, "partitions of both topics")
	cmd.Flags().StringVar(&plugin, "plugin", "", "folder of a plugin to put in the filter's place")
	return cmd
}

func (a *app) benchPipeline(
	ctx context.Context, f benchFlags, plugin string,
) (result benchResult, err error) {
	dir, err := os.MkdirTemp("", "millstream-bench-*")
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	n, err := startNode(ctx, nodeOptions{dataDir: filepath.Join(dir, "data"),
		listen: "127.0.0.1:0", http: "127.0.0.1:0", logger: slog.New(slog.DiscardHandler),
		configs: map[string]string{"log.flush": "os"}})
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, n.close()) }()
	f.topic = benchInput
	bytes, err := a.fillBench(ctx, n, f)
	if err != nil {
		return result, err
	}
	instance, err := n.prepareBench(ctx, dir, f, plugin)
	if err != nil {
		return result, err
	}
	m := startMeter()
	if err := instance.Run(ctx); err != nil {
		return result, err
	}
	result = m.result("pipeline", f, f.records, bytes)
	if plugin != "" {
		result.Bench = "pipeline through plugin"
	}
	if in := instance.Status().RecordsIn; in != f.records {
		return result, fmt.Errorf("%d records went in, want %d", in, f.records)
	}
	return result, nil
}

// prepareBench makes a bounded run: a replay of the whole input.
func (n *node) prepareBench(
	ctx context.Context, dir string, f benchFlags, plugin string,
) (deploy.Instance, error) {
	step, declared := `filter: value.price * value.qty > 100 && value.country == "DE"`, ""
	if plugin != "" {
		abs, err := filepath.Abs(plugin)
		if err != nil {
			return nil, err
		}
		step = "{id: plugin, plugin: {use: it}}"
		declared = fmt.Sprintf("plugins: {it: {source: %q}}\n", abs)
	}
	text := fmt.Sprintf("version: 1\npipeline: %s\n%ssources: {in: {topic: %s}}\n"+
		"steps:\n  - %s\nsinks: {out: {topic: %s}}\n", benchName, declared, benchInput, step, benchOutput)
	spans := map[int32]deploy.Span{}
	ends, err := (&rowPrinter{connect: n.connect()}).ends(ctx, []string{benchInput})
	if err != nil {
		return nil, err
	}
	for p, end := range ends[benchInput] {
		spans[p] = deploy.Span{To: end.EpochOffset().Offset}
	}
	r := runner.New(runner.Options{Cluster: n.cluster, StateDir: filepath.Join(dir, "bench-state"),
		Connectors: connectors.Builtin()})
	return r.Prepare(ctx, deploy.Revision{Name: benchName, Text: text, File: "bench.yaml", Dir: dir,
		Number: 1, Replay: &deploy.Replay{Of: benchName, Prefix: "measured",
			Ranges: map[string]map[int32]deploy.Span{benchInput: spans}}})
}

// fillBench writes the input: JSON events of about 195 bytes, a third of which pass the filter.
func (a *app) fillBench(ctx context.Context, n *node, f benchFlags) (bytes int64, err error) {
	a.settings.Set("bootstrap", n.broker.Addr())
	f.flush = "os"
	if err := a.freshTopic(ctx, f); err != nil {
		return 0, err
	}
	client, err := n.connect()(kgo.DefaultProduceTopic(f.topic), kgo.ProducerLinger(0),
		kgo.RecordPartitioner(kgo.RoundRobinPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		return 0, err
	}
	defer client.Close()
	countries := []string{"DE", "FR", "US"}
	var failed error
	for i := range f.records {
		value := fmt.Appendf(nil, `{"id":%d,"user":"user-%05d","country":"%s","price":%d.5,"qty":%d,`+
			`"sku":"sku-%06d","at":"%s","tags":["a","b"],"shipping":{"city":"Berlin","zip":"10115"}}`,
			i, i%10000, countries[i%3], 50+i%100, 1+i%5, i%1000,
			time.UnixMilli(1767225600000+i).UTC().Format(time.RFC3339))
		bytes += int64(len(value))
		client.Produce(ctx, &kgo.Record{Value: value, Key: fmt.Appendf(nil, "k%d", i%1000)},
			func(_ *kgo.Record, err error) {
				if err != nil {
					failed = err
				}
			})
	}
	if err := client.Flush(ctx); err != nil {
		return 0, err
	}
	return bytes, failed
}
