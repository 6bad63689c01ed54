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
		Short:   "List topics with their partitions and the records they keep",
		Long: "List topics with their partitions and the records they keep.\n" +
			"RECORDS are the offsets from the first to the end: the markers of transactions count too,\n" +
			"and in a compacted topic what compaction has removed.",
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
	topics, err := adm.ListTopicsWithInternal(ctx)
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	if !internal {
		topics.FilterInternal()
		for name, t := range topics {
			if internalTopic(t) {
				delete(topics, name)
			}
		}
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
		row := topicSummary{Name: t.Topic, Partitions: len(t.Partitions), Internal: internalTopic(t),
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

// internalTopic tells whether a topic is kept by the system: the broker says so of its own, and the
// control topics of pipelines begin with two underscores like them.
func internalTopic(t kadm.TopicDetail) bool {
	return t.IsInternal || strings.HasPrefix(t.Topic, "__")
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
			return a.outcomes(created(results.Sorted(), validate))
		},
	}
	cmd.Flags().Int32VarP(&partitions, "partitions", "p", -1, "partitions (-1: the broker's default)")
	cmd.Flags().Int16VarP(&replication, "replicas", "r", -1, "replicas (-1: the broker's default)")
	cmd.Flags().StringArrayVarP(&configs, "config", "c", nil, "topic config, name=value")
	cmd.Flags().BoolVar(&validate, "validate", false, "check only, create nothing")
	return cmd
}

func created(results []kadm.CreateTopicResponse, validate bool) []outcome {
	action := "created"
	if validate {
		action = "can create"
	}
	var all []outcome
	for _, r := range results {
		one := outcome{Name: r.Topic, Action: action}
		if r.Err != nil {
			one.Error = topicRefused("create", r.Topic, r.Err, r.ErrMessage)
		}
		all = append(all, one)
	}
	return all
}

// topicRefused keeps the broker's own message, which says more than the code.
func topicRefused(verb, topic string, err error, message string) *output.Error {
	e := explainBroker(fmt.Errorf("cannot %s topic %s: %w", verb, topic, err))
	if message != "" {
		e.Why = message
	}
	if errors.Is(err, kerr.TopicAlreadyExists) {
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
			adm, cl, err := a.admin(cmd.Context())
			if err != nil {
				return err
			}
			defer cl.Close()
			if !yes { // nobody is asked about what is not there
				if err := topicsExist(cmd.Context(), adm, names); err != nil {
					return err
				}
			}
			if err := a.confirm(yes, "delete "+strings.Join(names, ", ")+" and all records"); err != nil {
				return err
			}
			results, err := adm.DeleteTopics(cmd.Context(), names...)
			if err != nil {
				return fmt.Errorf("delete topics: %w", err)
			}
			var outcomes []outcome
			for _, r := range results.Sorted() {
				one := outcome{Name: r.Topic, Action: "deleted"}
				switch {
				case errors.Is(r.Err, kerr.UnknownTopicOrPartition):
					one.Error = unknownTopic(cmd.Context(), adm, r.Topic)
				case r.Err != nil:
					one.Error = topicRefused("delete", r.Topic, r.Err, r.ErrMessage)
				}
				outcomes = append(outcomes, one)
			}
			return a.outcomes(outcomes)
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
	var outcomes []outcome
	if len(changes) > 0 {
		if err := alterConfigs(ctx, adm, topic, changes); err != nil {
			return err
		}
		outcomes = append(outcomes, outcome{Name: topic, Action: "altered"})
	}
	if partitions > 0 {
		one := outcome{Name: topic, Action: "extended"}
		if err := addPartitions(ctx, adm, topic, partitions); err != nil {
			one.Error = explainBroker(err)
		} else {
			a.printer.Note("keys may map to other partitions from now on")
		}
		outcomes = append(outcomes, one)
	}
	return a.outcomes(outcomes)
}

func alterConfigs(
	ctx context.Context, adm *kadm.Client, topic string, changes []kadm.AlterConfig,
) error {
	results, err := adm.AlterTopicConfigs(ctx, changes, topic)
	if err != nil {
		return fmt.Errorf("alter configs of %s: %w", topic, err)
	}
	for _, r := range results {
		if errors.Is(r.Err, kerr.UnknownTopicOrPartition) {
			return unknownTopic(ctx, adm, topic)
		}
		if r.Err != nil {
			return topicRefused("alter", topic, r.Err, r.ErrMessage)
		}
	}
	return nil
}

func addPartitions(ctx context.Context, adm *kadm.Client, topic string, partitions int) error {
	results, err := adm.UpdatePartitions(ctx, partitions, topic)
	if err != nil {
		return fmt.Errorf("add partitions to %s: %w", topic, err)
	}
	for _, r := range results {
		if errors.Is(r.Err, kerr.UnknownTopicOrPartition) {
			return unknownTopic(ctx, adm, topic)
		}
		if r.Err != nil {
			return topicRefused("add partitions to", topic, r.Err, r.ErrMessage)
		}
	}
	return nil
}
