package command

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/cli/output"
)

// benchGCPercent is set in the load generator: at Go's default of 100 the collector, not the
// broker, bounds a client that keeps little alive. It is printed with each result.
const benchGCPercent = 400

// benchTopic is deleted and made anew without asking; any other is not.
const benchTopic = "millstream-bench"

type benchFlags struct {
	topic       string
	records     int64
	size        int
	partitions  int32
	compression string
	flush       string
	yes         bool
}

// benchResult is one measured run.
type benchResult struct {
	Bench      string  `json:"bench"`
	Topic      string  `json:"topic"`
	Records    int64   `json:"records"`
	Bytes      int64   `json:"bytes"`
	Seconds    float64 `json:"seconds"`
	PerSecond  float64 `json:"records_per_second"`
	MBPerSec   float64 `json:"mb_per_second"`
	ClientCPU  float64 `json:"client_cpu_seconds"`
	Partitions int32   `json:"partitions"`
	Flush      string  `json:"flush,omitempty"`
	GOGC       int     `json:"gogc"`
}

func newBenchCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure produce, consume and pipeline throughput against a broker",
	}
	cmd.AddCommand(newBenchProduceCommand(a), newBenchConsumeCommand(a), newBenchPipelineCommand(a))
	return cmd
}

func (f *benchFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.topic, "topic", benchTopic, "topic to use; produce makes it anew")
	flags.Int64VarP(&f.records, "records", "n", 2_000_000, "number of records")
	flags.IntVar(&f.size, "size", 1000, "bytes per record value")
	flags.Int32VarP(&f.partitions, "partitions", "p", 6, "partitions of the topic")
	flags.StringVar(&f.compression, "compression", "none", "none, gzip, snappy, lz4, zstd")
	flags.StringVar(&f.flush, "flush", "os", "flush policy of the topic: always, group, os")
}

func newBenchProduceCommand(a *app) *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "produce",
		Short: "Measure how fast records are written",
		Args:  cobra.NoArgs,
		Example: "  millstream bench produce\n" +
			"  millstream bench produce --size 100 -n 10000000 --flush group -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			debug.SetGCPercent(benchGCPercent)
			if err := a.freshTopic(cmd.Context(), f); err != nil {
				return err
			}
			result, err := a.benchProduce(cmd.Context(), f)
			if err != nil {
				return err
			}
			return a.printBench(result)
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask before a topic is made anew")
	return cmd
}

// freshTopic deletes and creates the topic, so that runs do not measure each other's leftovers.
func (a *app) freshTopic(ctx context.Context, f benchFlags) error {
	adm, cl, err := a.admin(ctx)
	if err != nil {
		return err
	}
	defer cl.Close()
	retention := "3600000"
	configs := map[string]*string{"flush": &f.flush, "retention.ms": &retention}
	created, err := adm.CreateTopic(ctx, f.partitions, 1, configs, f.topic)
	if !errors.Is(err, kerr.TopicAlreadyExists) {
		return createdForBench(f.topic, created, err)
	}
	if err := a.confirm(f.yes || f.topic == benchTopic,
		"delete topic "+f.topic+" and all its records"); err != nil {
		return err
	}
	if _, err := adm.DeleteTopic(ctx, f.topic); err != nil {
		return fmt.Errorf("delete topic %s: %w", f.topic, err)
	}
	created, err = adm.CreateTopic(ctx, f.partitions, 1, configs, f.topic)
	return createdForBench(f.topic, created, err)
}

func createdForBench(topic string, r kadm.CreateTopicResponse, err error) error {
	if err == nil {
		return nil
	}
	return topicRefused("create", topic, err, r.ErrMessage)
}

// check refuses figures that cannot be measured.
func (f benchFlags) check() error {
	switch {
	case f.records <= 0:
		return output.Usage("BAD_FLAGS",
			fmt.Sprintf("--records %d: there is nothing to measure", f.records))
	case f.size < 0 || f.size > maxLine:
		return output.Usage("BAD_FLAGS",
			fmt.Sprintf("--size %d is not between 0 and %d", f.size, maxLine))
	case f.partitions <= 0:
		return output.Usage("BAD_FLAGS",
			fmt.Sprintf("--partitions %d is not at least 1", f.partitions))
	}
	return nil
}

func (a *app) benchProduce(ctx context.Context, f benchFlags) (benchResult, error) {
	codec, err := compressionCodec(f.compression)
	if err != nil {
		return benchResult{}, err
	}
	cl, err := a.client(ctx,
		kgo.DefaultProduceTopic(f.topic), kgo.RecordPartitioner(kgo.UniformBytesPartitioner(
			64<<10, false, false, nil)),
		kgo.ProducerBatchCompression(codec), kgo.ProducerBatchMaxBytes(1<<20),
		kgo.MaxBufferedRecords(200_000), kgo.ProducerLinger(0))
	if err != nil {
		return benchResult{}, err
	}
	defer cl.Close()
	value := []byte(strings.Repeat("0123456789abcdef", f.size/16+1))[:f.size]
	var failed atomic.Pointer[error]
	promise := func(_ *kgo.Record, err error) {
		if err != nil {
			failed.CompareAndSwap(nil, &err)
		}
	}
	progress := a.printer.NewProgress("produce", f.records, output.Records)
	m := startMeter()
	for i := int64(0); i < f.records && failed.Load() == nil && ctx.Err() == nil; i++ {
		cl.Produce(ctx, &kgo.Record{Value: value}, promise)
		if i&0xffff == 0 {
			progress.Set(i)
		}
	}
	if err := cl.Flush(ctx); err != nil {
		return benchResult{}, err
	}
	if err := failed.Load(); err != nil {
		return benchResult{}, fmt.Errorf("produce to %s: %w", f.topic, *err)
	}
	result := m.result("produce", f, f.records, f.records*int64(f.size))
	result.Flush = f.flush
	progress.Finish(f.records)
	return result, nil
}

func compressionCodec(name string) (kgo.CompressionCodec, error) {
	switch name {
	case "none":
		return kgo.NoCompression(), nil
	case "gzip":
		return kgo.GzipCompression(), nil
	case "snappy":
		return kgo.SnappyCompression(), nil
	case "lz4":
		return kgo.Lz4Compression(), nil
	case "zstd":
		return kgo.ZstdCompression(), nil
	}
	return kgo.NoCompression(), output.Usage("BAD_COMPRESSION",
		fmt.Sprintf("unknown compression %q", name)).WithDo("use none, gzip, snappy, lz4 or zstd")
}

func newBenchConsumeCommand(a *app) *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "consume",
		Short: "Measure how fast the records of a topic are read",
		Args:  cobra.NoArgs,
		Example: "  millstream bench produce && millstream bench consume\n" +
			"  millstream bench consume --topic orders -n 1000000 -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			debug.SetGCPercent(benchGCPercent)
			result, err := a.benchConsume(cmd.Context(), f)
			if err != nil {
				return err
			}
			return a.printBench(result)
		},
	}
	f.register(cmd)
	return cmd
}

func (a *app) benchConsume(ctx context.Context, f benchFlags) (benchResult, error) {
	adm, cl, err := a.admin(ctx)
	if err != nil {
		return benchResult{}, err
	}
	defer cl.Close()
	rows, err := listTopics(ctx, adm, false)
	if err != nil {
		return benchResult{}, err
	}
	want := int64(-1)
	for _, t := range rows {
		if t.Name == f.topic {
			want, f.partitions = min(f.records, t.Records), int32(t.Partitions)
		}
	}
	if want < 0 {
		return benchResult{}, unknownTopic(ctx, adm, f.topic)
	}
	reader, err := a.client(ctx, kgo.ConsumeTopics(f.topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxBytes(32<<20), kgo.FetchMaxPartitionBytes(4<<20))
	if err != nil {
		return benchResult{}, err
	}
	defer reader.Close()
	progress := a.printer.NewProgress("consume", want, output.Records)
	m := startMeter()
	var records, bytes int64
	for records < want {
		fetches := reader.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return benchResult{}, err
		}
		if errs := fetches.Errors(); len(errs) > 0 {
			return benchResult{}, fmt.Errorf("read %s: %w", f.topic, errs[0].Err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			records++
			bytes += int64(len(r.Value))
		})
		progress.Set(records)
	}
	result := m.result("consume", f, records, bytes)
	progress.Finish(records)
	return result, nil
}

func (a *app) printBench(r benchResult) error {
	return output.One(a.printer, r, func(b *strings.Builder) {
		fmt.Fprintf(b, "%s  %.0f rec/s  %.1f MB/s  %d records in %.2f s  client CPU %.2f s  GOGC %d\n",
			r.Bench, r.PerSecond, r.MBPerSec, r.Records, r.Seconds, r.ClientCPU, r.GOGC)
	})
}

// meter measures wall and CPU time of this process.
type meter struct {
	wall time.Time
	cpu  time.Duration
}

func startMeter() meter { return meter{time.Now(), processCPU()} }

func (m meter) result(name string, f benchFlags, records, bytes int64) benchResult {
	seconds := time.Since(m.wall).Seconds()
	return benchResult{Bench: name, Topic: f.topic, Records: records, Bytes: bytes, Seconds: seconds,
		PerSecond: float64(records) / seconds, MBPerSec: float64(bytes) / seconds / 1e6,
		ClientCPU: (processCPU() - m.cpu).Seconds(), Partitions: f.partitions,
		GOGC: benchGCPercent}
}

// processCPU is the user and system time this process has used.
func processCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
