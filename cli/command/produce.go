package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/cli/internal/ndjson"
	"github.com/millstream-io/millstream/cli/output"
)

// maxLine is the longest line produce reads, a little over the largest record a broker takes by
// default.
const maxLine = 16 << 20

type produceFlags struct {
	format    string
	key       *string // nil: none
	separator string
	headers   []string
	partition int32
	null      bool
}

func newProduceCommand(a *app) *cobra.Command {
	f := produceFlags{}
	var key string
	cmd := &cobra.Command{
		Use:   "produce TOPIC [FILE]",
		Short: "Write records to a topic, one a line, from a file or standard input",
		Long: `Write records to a topic, one a line, from a file or standard input.

Formats:
  raw     the line is the value; with -k SEP the part before the first SEP is the key
  ndjson  lines as "millstream consume -o ndjson" prints them: key, value, headers, time and
          partition are restored byte for byte`,
		Args: cobra.RangeArgs(1, 2),
		Example: "  echo hello | millstream produce greetings\n" +
			"  millstream produce orders orders.ndjson --format ndjson",
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("key") {
				f.key = &key
			}
			in, where := a.streams.In, "stdin"
			if len(args) == 2 && args[1] != "-" {
				file, err := os.Open(args[1])
				if err != nil {
					return cannotRead(args[1], err)
				}
				defer file.Close()
				in, where = file, args[1]
			}
			return a.produce(cmd.Context(), args[0], in, where, f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.format, "format", "raw", "raw or ndjson")
	flags.StringVar(&key, "key", "", "key of every record (raw)")
	flags.StringVarP(&f.separator, "key-separator", "k", "", "split each line into key and value (raw)")
	flags.StringArrayVarP(&f.headers, "header", "H", nil, "header of every record, name=value (raw)")
	flags.Int32VarP(&f.partition, "partition", "p", -1, "write to this partition (-1: by key)")
	flags.BoolVar(&f.null, "null", false, "an empty value is a tombstone (raw)")
	return cmd
}

func (a *app) produce(
	ctx context.Context, topic string, in io.Reader, where string, f produceFlags,
) error {
	parse, err := f.parser(topic)
	if err != nil {
		return err
	}
	cl, err := a.client(ctx,
		kgo.RecordPartitioner(explicitOrByKey{}),
		kgo.ProducerBatchMaxBytes(maxLine), kgo.AllowAutoTopicCreation())
	if err != nil {
		return err
	}
	defer cl.Close()
	made, err := newTopic(ctx, kadm.NewClient(cl), topic)
	if err != nil {
		return err
	}
	p := producer{app: a, client: cl, where: where}
	if err := p.run(ctx, in, parse, f); err != nil {
		return err
	}
	n := p.acked.Load()
	if made != "" && n > 0 {
		a.printer.Note("%s", made)
	}
	return a.printer.Done(produced{topic, n}, "produced %s to %s", plural(n, "record"), topic)
}

// newTopic is what to say when the broker will make the topic, which may be a misspelt one; "" when
// it is there.
func newTopic(ctx context.Context, adm *kadm.Client, name string) (string, error) {
	topics, err := adm.ListTopicsWithInternal(ctx)
	if err != nil {
		return "", fmt.Errorf("list topics: %w", err)
	}
	if topics.Has(name) {
		return "", nil
	}
	note := fmt.Sprintf("there was no topic %q: it was created", name)
	if best := nearest(name, topics.Names()); best != "" {
		note += fmt.Sprintf("; did you mean %q? millstream topic delete %s removes the new one", best,
			name)
	}
	return note, nil
}

// produced is what produce prints for machines.
type produced struct {
	Topic   string `json:"topic"`
	Records int64  `json:"records"`
}

// producer sends lines and remembers the first failure.
type producer struct {
	app    *app
	client *kgo.Client
	where  string
	acked  atomic.Int64
	failed atomic.Pointer[error]
}

func (p *producer) run(
	ctx context.Context, in io.Reader, parse parseLine, f produceFlags,
) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 1<<16), maxLine)
	lines.Split(splitLines)
	number := 0
	for lines.Scan() && p.failed.Load() == nil && ctx.Err() == nil {
		number++
		r, err := parse(lines.Bytes())
		if err != nil {
			p.fail(output.Usage("BAD_RECORD", fmt.Sprintf("%s:%d: %v", p.where, number, err)).
				WithDo(f.lineForm()))
			break
		}
		p.client.Produce(ctx, r, func(_ *kgo.Record, err error) {
			if err != nil {
				p.fail(err)
				return
			}
			p.acked.Add(1)
		})
	}
	if err := lines.Err(); err != nil {
		p.fail(output.Usage("BAD_INPUT",
			fmt.Sprintf("%s:%d: cannot read the line", p.where, number+1)).WithCause(err))
	}
	flushErr := p.client.Flush(ctx)
	if first := p.failed.Load(); first != nil {
		return p.explain(*first)
	}
	return flushErr
}

func (p *producer) fail(err error) { p.failed.CompareAndSwap(nil, &err) }

// explain says how much is safe when only part of the input was written.
func (p *producer) explain(err error) error {
	e := explainBroker(err)
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		e = output.Failure("UNKNOWN_TOPIC", "the topic or partition does not exist").
			WithDo("millstream topic create NAME --partitions N")
	}
	if strings.Contains(err.Error(), "invalid record partitioning choice") {
		e = output.Usage("UNKNOWN_PARTITION", "the topic has no such partition").WithCause(err).
			WithDo("millstream topic describe NAME lists the partitions")
	}
	if n := p.acked.Load(); n > 0 {
		e.What += fmt.Sprintf(" (%s written before it)", plural(n, "record"))
	}
	return e
}

// lineForm says what a line has to look like.
func (f produceFlags) lineForm() string {
	if f.format == "raw" {
		return fmt.Sprintf("write each line as KEY%sVALUE, or leave -k away: "+
			"then the whole line is the value", f.separator)
	}
	return "millstream consume TOPIC -o ndjson shows what a line looks like"
}

type parseLine func([]byte) (*kgo.Record, error)

func (f produceFlags) parser(topic string) (parseLine, error) {
	headers, err := f.parseHeaders()
	if err != nil {
		return nil, err
	}
	if f.format == "ndjson" && (f.key != nil || f.separator != "" || len(headers) > 0 || f.null) {
		return nil, output.Usage("BAD_FLAGS",
			"--key, --key-separator, --header and --null are for --format raw").
			WithWhy("a line of ndjson has its own key, headers and nulls")
	}
	switch f.format {
	case "raw":
		return func(line []byte) (*kgo.Record, error) {
			return f.rawRecord(topic, headers, line)
		}, nil
	case "ndjson":
		return func(line []byte) (*kgo.Record, error) {
			d, err := ndjson.Decode(line)
			if err != nil {
				return nil, err
			}
			d.Record.Topic = topic
			if !d.HasPartition {
				d.Record.Partition = -1
			}
			if f.partition >= 0 {
				d.Record.Partition = f.partition
			}
			return d.Record, nil
		}, nil
	default:
		return nil, output.Usage("BAD_FORMAT", fmt.Sprintf("unknown format %q", f.format)).
			WithDo("use --format raw or --format ndjson")
	}
}

func (f produceFlags) parseHeaders() ([]kgo.RecordHeader, error) {
	var headers []kgo.RecordHeader
	for _, h := range f.headers {
		name, value, ok := strings.Cut(h, "=")
		if !ok {
			return nil, output.Usage("BAD_HEADER", fmt.Sprintf("%q is not a header", h)).
				WithDo("write it as name=value")
		}
		headers = append(headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	return headers, nil
}

func (f produceFlags) rawRecord(
	topic string, headers []kgo.RecordHeader, line []byte,
) (*kgo.Record, error) {
	r := &kgo.Record{Topic: topic, Partition: f.partition, Headers: headers}
	text := string(line)
	if f.separator != "" {
		key, value, ok := strings.Cut(text, f.separator)
		if !ok {
			return nil, fmt.Errorf("no key separator %q in the line", f.separator)
		}
		r.Key, text = []byte(key), value
	} else if f.key != nil {
		r.Key = []byte(*f.key)
	}
	if text != "" || !f.null {
		r.Value = []byte(text)
	}
	return r, nil
}

// splitLines is bufio.ScanLines without its removal of a carriage return, which may be data.
func splitLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	for i, c := range data {
		if c == '\n' {
			return i + 1, data[:i], nil
		}
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}
