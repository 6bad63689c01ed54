package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/millstream-io/millstream/cli/output"
)

func newTopicCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "topic",
		Aliases: []string{"topics"},
		Short:   "List, create, describe, alter and delete topics",
	}
	cmd.AddCommand(newTopicListCommand(a), newTopicCreateCommand(a), newTopicDescribeCommand(a),
		newTopicAlterCommand(a), newTopicDeleteCommand(a))
	return cmd
}

type topicSummary struct {
	Name        string `json:"name"`
	Partitions  int    `json:"partitions"`
	Replication int    `json:"replication_factor"`
	Records     int64  `json:"records"`
	Internal    bool   `json:"internal"`
}

func newTopicListCommand(a *app) *cobra.Command {
	var internal bool
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List topics with their partitions and offsets kept",
		Args:    cobra.NoArgs,
		Example: "  millstream topic ls\n  millstream topic ls --internal -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			adm, cl, err := a.admin(cmd.Context())
			if err != nil {
				return err
			}
			defer cl.Close()
			rows, err := listTopics(cmd.Context(), adm, internal)
			if err != nil {
				return err
			}
			return output.List(a.printer, rows, []output.Column[topicSummary]{
				{Title: "TOPIC", Cell: func(t topicSummary) string { return t.Name }},
				{Title: "PARTITIONS", Cell: func(t topicSummary) string {
					return strconv.Itoa(t.Partitions)
				}},
				{Title: "REPLICAS", Cell: func(t topicSummary) string {
					return strconv.Itoa(t.Replication)
				}},
				{Title: "RECORDS", Cell: func(t topicSummary) string {
					return strconv.FormatInt(t.Records, 10)
				}},
			})
		},
	}
	cmd.Flags().BoolVar(&internal, "internal", false, "show internal topics too")
	return cmd
}

// listTopics counts records as end - start offset, an upper bound where a topic is compacted.
func listTopics(ctx context.Context, adm *kadm.Client, internal bool) ([]topicSummary, error) {
	list := adm.ListTopics
	if internal {
		list = adm.ListTopicsWithInternal
	}
	topics, err := list(ctx)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	names := topics.Names()
	starts, err := adm.ListStartOffsets(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("list offsets: %w", err)
	}
	ends, err := adm.ListEndOffsets(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("list offsets: %w", err)
	}
	var rows []topicSummary
	for _, t := range topics.Sorted() {
		row := topicSummary{Name: t.Topic, Partitions: len(t.Partitions), Internal: t.IsInternal,
			Replication: t.Partitions.NumReplicas()}
		for p, end := range ends[t.Topic] {
			if start, ok := starts.Lookup(t.Topic, p); ok && end.Err == nil && start.Err == nil {
				row.Records += end.Offset - start.Offset
			}
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func newTopicCreateCommand(a *app) *cobra.Command {
	var (
		partitions  int32
		replication int16
		configs     []string
		validate    bool
	)
	cmd := &cobra.Command{
		Use:   "create TOPIC...",
		Short: "Create topics",
		Args:  cobra.MinimumNArgs(1),
		Example: "  millstream topic create orders --partitions 6\n" +
			"  millstream topic create users --config cleanup.policy=compact",
		RunE: func(cmd *cobra.Command, names []string) error {
			overrides, err := parseConfigs(configs)
			if err != nil {
				return err
			}
			adm, cl, err := a.admin(cmd.Context())
			if err != nil {
				return err
			}
			defer cl.Close()
			create := adm.CreateTopics
			if validate {
				create = adm.ValidateCreateTopics
			}
			results, err := create(cmd.Context(), partitions, replication, overrides, names...)
			if err != nil {
				return fmt.Errorf("create topics: %w", err)
			}
			return a.eachTopic(results.Sorted(), "create", "created")
		},
	}
	cmd.Flags().Int32VarP(&partitions, "partitions", "p", -1, "partitions (-1: the broker's default)")
	cmd.Flags().Int16VarP(&replication, "replicas", "r", -1, "replicas (-1: the broker's default)")
	cmd.Flags().StringArrayVarP(&configs, "config", "c", nil, "topic config, name=value")
	cmd.Flags().BoolVar(&validate, "validate", false, "check only, create nothing")
	return cmd
}

// eachTopic reports what became of each topic and gives the first refusal.
func (a *app) eachTopic(results []kadm.CreateTopicResponse, verb, done string) error {
	var failures []error
	for _, r := range results {
		if r.Err != nil {
			failures = append(failures, topicRefused(verb, r.Topic, r.Err, r.ErrMessage))
			continue
		}
		a.printer.Note("%s %s", done, r.Topic)
	}
	return errors.Join(failures...)
}

// topicRefused keeps the broker's own message, which says more than the code.
func topicRefused(verb, topic string, err error, message string) error {
	e := explainBroker(fmt.Errorf("cannot %s topic %s: %w", verb, topic, err))
	if message != "" {
		e.Why = message
	}
	if errors.Is(err, kerr.TopicAlreadyExists) {
		e.Exit = output.ExitConflict
		e.Do = "millstream topic describe " + topic
	}
	return e
}

func parseConfigs(pairs []string) (map[string]*string, error) {
	overrides := make(map[string]*string, len(pairs))
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, output.Usage("BAD_CONFIG", fmt.Sprintf("%q is not a config", pair)).
				WithDo("write it as name=value, such as retention.ms=3600000")
		}
		overrides[name] = &value
	}
	return overrides, nil
}

func newTopicDeleteCommand(a *app) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:     "delete TOPIC...",
		Aliases: []string{"rm"},
		Short:   "Delete topics and all their records",
		Args:    cobra.MinimumNArgs(1),
		Example: "  millstream topic delete orders\n  millstream topic delete a b --yes",
		RunE: func(cmd *cobra.Command, names []string) error {
			if err := a.confirm(yes, "delete "+strings.Join(names, ", ")+" and all records"); err != nil {
				return err
			}
			adm, cl, err := a.admin(cmd.Context())
			if err != nil {
				return err
			}
			defer cl.Close()
			results, err := adm.DeleteTopics(cmd.Context(), names...)
			if err != nil {
				return fmt.Errorf("delete topics: %w", err)
			}
			var failures []error
			for _, r := range results.Sorted() {
				switch {
				case errors.Is(r.Err, kerr.UnknownTopicOrPartition):
					failures = append(failures, unknownTopic(cmd.Context(), adm, r.Topic))
				case r.Err != nil:
					failures = append(failures, topicRefused("delete", r.Topic, r.Err, r.ErrMessage))
				default:
					a.printer.Note("deleted %s", r.Topic)
				}
			}
			return errors.Join(failures...)
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

func newTopicAlterCommand(a *app) *cobra.Command {
	var (
		set, unset []string
		partitions int
	)
	cmd := &cobra.Command{
		Use:   "alter TOPIC",
		Short: "Change a topic's configs or add partitions",
		Args:  cobra.ExactArgs(1),
		Example: "  millstream topic alter orders --set retention.ms=3600000\n" +
			"  millstream topic alter orders --partitions 12 --unset retention.ms",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(set)+len(unset) == 0 && partitions == 0 {
				return output.Usage("NOTHING_TO_DO", "no change was given").
					WithDo("use --set name=value, --unset name or --partitions n")
			}
			return a.alterTopic(cmd.Context(), args[0], set, unset, partitions)
		},
	}
	cmd.Flags().StringArrayVar(&set, "set", nil, "set a config, name=value")
	cmd.Flags().StringArrayVar(&unset, "unset", nil, "return a config to its default")
	cmd.Flags().IntVarP(&partitions, "partitions", "p", 0, "new number of partitions")
	return cmd
}

func (a *app) alterTopic(
	ctx context.Context, topic string, set, unset []string, partitions int,
) error {
	overrides, err := parseConfigs(set)
	if err != nil {
		return err
	}
	adm, cl, err := a.admin(ctx)
	if err != nil {
		return err
	}
	defer cl.Close()
	var changes []kadm.AlterConfig
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: name,
			Value: overrides[name]})
	}
	for _, name := range unset {
		changes = append(changes, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: name})
	}
	if len(changes) > 0 {
		results, err := adm.AlterTopicConfigs(ctx, changes, topic)
		if err != nil {
			return fmt.Errorf("alter configs of %s: %w", topic, err)
		}
		for _, r := range results {
			if r.Err != nil {
				return topicRefused("alter", topic, r.Err, r.ErrMessage)
			}
		}
		a.printer.Note("altered configs of %s", topic)
	}
	if partitions > 0 {
		results, err := adm.UpdatePartitions(ctx, partitions, topic)
		if err != nil {
			return fmt.Errorf("add partitions to %s: %w", topic, err)
		}
		for _, r := range results {
			if r.Err != nil {
				return topicRefused("add partitions to", topic, r.Err, r.ErrMessage)
			}
		}
		a.printer.Note("%s has %d partitions now; keys may map to other partitions", topic, partitions)
	}
	return nil
}
