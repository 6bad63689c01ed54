package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/cli/internal/ranges"
	"github.com/millstream-io/millstream/cli/output"
)

// consumeFlags are what the user asked for.
type consumeFlags struct {
	from, to   string
	count      int64
	follow     bool
	partitions []int32
	key        string
	anyKey     bool // key was not asked for
	noValue    bool
}

func newConsumeCommand(a *app) *cobra.Command {
	var f consumeFlags
	cmd := &cobra.Command{
		Use:   "consume TOPIC",
		Short: "Read records of a topic and print them",
		Long: "Read records of a topic and print them. Without --follow the command ends where the\n" +
			"topic ended when it began.\n\nPositions for --from and --to: " + ranges.Grammar + ".\n\n" +
			"-o ndjson is lossless: millstream produce TOPIC --format ndjson is its inverse. -o json and\n" +
			"-o yaml print the same objects as one list.",
		Args: cobra.ExactArgs(1),
		Example: "  millstream consume orders --from -10\n" +
			"  millstream consume orders --from @-1h --to end -o ndjson > orders.ndjson",
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.follow && cmd.Flags().Changed("to") {
				return output.Usage("BAD_FLAGS", "--follow reads on without end, --to is where to stop").
					WithDo("leave out one of them")
			}
			f.anyKey = !cmd.Flags().Changed("key")
			return a.consume(cmd.Context(), args[0], f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.from, "from", "start", "where to begin")
	flags.StringVar(&f.to, "to", "end", "where to stop (exclusive)")
	flags.Int64VarP(&f.count, "count", "n", 0, "stop after that many records (0: no limit)")
	flags.BoolVarP(&f.follow, "follow", "F", false, "keep reading what is appended")
	flags.Int32SliceVar(&f.partitions, "partition", nil, "read these partitions only")
	flags.StringVar(&f.key, "key", "", "print only records with this key")
	flags.BoolVar(&f.noValue, "no-value", false, "leave the value out of tables")
	return cmd
}

func (a *app) consume(ctx context.Context, topic string, f consumeFlags) error {
	from, to, err := parseRange(f.from, f.to)
	if err != nil {
		return err
	}
	adm, cl, err := a.admin(ctx)
	if err != nil {
		return err
	}
	defer cl.Close()
	r, err := a.resolveRange(ctx, adm, topic, from, to, f.partitions...)
	if err != nil {
		return err
	}
	if r, err = onlyPartitions(topic, r, f.partitions); err != nil {
		return err
	}
	if err := a.reachBack(ctx, adm, topic, from, r); err != nil {
		return err
	}
	if r.Len() == 0 && !f.follow {
		a.printer.Note("no records between --from %s and --to %s", from, to)
	}
	s := &scan{app: a, flags: f, topic: topic, ranges: r,
		out: newRecordWriter(a.streams.Out, a.printer, f.noValue)}
	s.out.begin()
	return errors.Join(s.run(ctx), s.out.end())
}

// onlyPartitions keeps the wanted partitions of a range; none named are all.
func onlyPartitions(topic string, r ranges.Range, wanted []int32) (ranges.Range, error) {
	if len(wanted) == 0 {
		return r, nil
	}
	kept := ranges.Range{}
	for _, p := range wanted {
		bounds, ok := r[p]
		if !ok {
			return nil, output.Usage("UNKNOWN_PARTITION",
				fmt.Sprintf("%s has no partition %d, its partitions are 0 to %d", topic, p, len(r)-1))
		}
		kept[p] = bounds
	}
	return kept, nil
}

func parseRange(fromText, toText string) (from, to ranges.Point, err error) {
	now := time.Now()
	if from, err = ranges.Parse(fromText, now); err != nil {
		return from, to, output.Usage("BAD_RANGE", "--from: "+err.Error())
	}
	if to, err = ranges.Parse(toText, now); err != nil {
		return from, to, output.Usage("BAD_RANGE", "--to: "+err.Error())
	}
	return from, to, nil
}

func (a *app) resolveRange(
	ctx context.Context, adm *kadm.Client, topic string, from, to ranges.Point, wanted ...int32,
) (ranges.Range, error) {
	r, moved, err := ranges.Resolve(ctx, adm, topic, from, to)
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return nil, unknownTopic(ctx, adm, topic)
	}
	if err != nil {
		return nil, err
	}
	for _, m := range moved {
		if len(wanted) > 0 && !slices.Contains(wanted, m.Partition) {
			continue
		}
		a.printer.Note("%s: %s", topic, m)
	}
	for _, p := range []ranges.Point{from, to} {
		if p.Kind == ranges.Timestamp {
			a.printer.Note("%s is %s", p, p.Time.UTC().Format(time.RFC3339))
		}
	}
	return r, nil
}

// scan reads ranges of one topic and prints them.
type scan struct {
	app     *app
	flags   consumeFlags
	topic   string
	ranges  ranges.Range
	out     *recordWriter
	printed int64
}

func (s *scan) run(ctx context.Context) error {
	if len(s.ranges) == 0 || (s.ranges.Len() == 0 && !s.flags.follow) {
		return nil
	}
	offsets := map[int32]kgo.Offset{}
	for p, b := range s.ranges {
		if b.Len() > 0 || s.flags.follow {
			offsets[p] = kgo.NewOffset().At(b.From)
		}
	}
	cl, err := s.app.client(ctx,
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{s.topic: offsets}),
		kgo.KeepControlRecords(), // a range may end in one, and waiting for data behind it would hang
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return err
	}
	defer cl.Close()
	open := len(offsets)
	for open > 0 || s.flags.follow {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return s.interrupted(ctx)
		}
		if err := fetches.Err0(); err != nil {
			return fmt.Errorf("read %s: %w", s.topic, err)
		}
		for _, e := range fetches.Errors() {
			return fmt.Errorf("read %s-%d: %w", e.Topic, e.Partition, e.Err)
		}
		done, err := s.take(fetches, &open)
		if err != nil || done {
			return err
		}
		if s.flags.follow {
			if err := s.out.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// interrupted ends a scan at Ctrl-C: following is meant to end so, a bounded range is not.
func (s *scan) interrupted(ctx context.Context) error {
	if s.flags.follow {
		return nil
	}
	return ctx.Err()
}

// take prints what was fetched; done tells that the count was reached.
func (s *scan) take(fetches kgo.Fetches, open *int) (done bool, err error) {
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		bounds, wanted := s.ranges[p.Partition]
		for _, r := range p.Records {
			if done || err != nil || !wanted {
				return
			}
			if !s.flags.follow && r.Offset >= bounds.To {
				break
			}
			if !r.Attrs.IsControl() {
				done, err = s.print(r)
			}
		}
		if n := len(p.Records); n > 0 && wanted && !s.flags.follow &&
			p.Records[n-1].Offset+1 >= bounds.To {
			delete(s.ranges, p.Partition)
			*open--
		}
	})
	return done, err
}

func (s *scan) print(r *kgo.Record) (done bool, err error) {
	if !s.flags.anyKey && (r.Key == nil || string(r.Key) != s.flags.key) {
		return false, nil
	}
	if err := s.out.record(r); err != nil {
		return true, err
	}
	s.printed++
	return s.flags.count > 0 && s.printed >= s.flags.count, nil
}
