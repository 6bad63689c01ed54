package command

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/millstream-io/millstream/cli/output"
)

type topicDescription struct {
	Name       string            `json:"name"`
	ID         string            `json:"id"`
	Internal   bool              `json:"internal"`
	Partitions []partitionStatus `json:"partitions"`
	Configs    []configValue     `json:"configs"`
}

type partitionStatus struct {
	Partition   int32   `json:"partition"`
	Leader      int32   `json:"leader"`
	LeaderEpoch int32   `json:"leader_epoch"`
	Replicas    []int32 `json:"replicas"`
	ISR         []int32 `json:"isr"`
	Start       int64   `json:"start_offset"`
	End         int64   `json:"end_offset"`
}

type configValue struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

func newTopicDescribeCommand(a *app) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:     "describe TOPIC",
		Aliases: []string{"get"},
		Short:   "Show a topic's partitions, offsets and configs",
		Args:    cobra.ExactArgs(1),
		Example: "  millstream topic describe orders\n  millstream topic describe orders --all -o yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			adm, cl, err := a.admin(cmd.Context())
			if err != nil {
				return err
			}
			defer cl.Close()
			d, err := describeTopic(cmd.Context(), adm, args[0], all || a.printer.Machine())
			if err != nil {
				return err
			}
			return a.one(d, d.text)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "show configs that are at their defaults too")
	return cmd
}

func describeTopic(
	ctx context.Context, adm *kadm.Client, name string, all bool,
) (*topicDescription, error) {
	topics, err := adm.ListTopicsWithInternal(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("describe topic %s: %w", name, err)
	}
	t := topics[name]
	if errors.Is(t.Err, kerr.UnknownTopicOrPartition) {
		return nil, unknownTopic(ctx, adm, name)
	} else if t.Err != nil {
		return nil, fmt.Errorf("describe topic %s: %w", name, t.Err)
	}
	starts, err := adm.ListStartOffsets(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("list offsets of %s: %w", name, err)
	}
	ends, err := adm.ListEndOffsets(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("list offsets of %s: %w", name, err)
	}
	d := &topicDescription{Name: name, ID: topicID(t.ID),
		Internal: internalTopic(t)}
	for _, p := range t.Partitions.Sorted() {
		status := partitionStatus{Partition: p.Partition, Leader: p.Leader,
			LeaderEpoch: p.LeaderEpoch, Replicas: p.Replicas, ISR: p.ISR, Start: -1, End: -1}
		if o, ok := starts.Lookup(name, p.Partition); ok && o.Err == nil {
			status.Start = o.Offset
		}
		if o, ok := ends.Lookup(name, p.Partition); ok && o.Err == nil {
			status.End = o.Offset
		}
		d.Partitions = append(d.Partitions, status)
	}
	d.Configs, err = topicConfigs(ctx, adm, name, all)
	return d, err
}

// topicID writes an id as Kafka's own tools do: base64 for URLs, without padding.
func topicID(id kadm.TopicID) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

func topicConfigs(
	ctx context.Context, adm *kadm.Client, name string, all bool,
) ([]configValue, error) {
	described, err := adm.DescribeTopicConfigs(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("describe configs of %s: %w", name, err)
	}
	configs := []configValue{}
	for _, resource := range described {
		if resource.Err != nil {
			return nil, fmt.Errorf("describe configs of %s: %w", name, resource.Err)
		}
		for _, c := range resource.Configs {
			source := strings.ToLower(c.Source.String())
			if all || strings.Contains(source, "topic") {
				configs = append(configs, configValue{c.Key, c.MaybeValue(), source})
			}
		}
	}
	return configs, nil
}

func (d *topicDescription) text(b *strings.Builder, p *output.Printer) error {
	fmt.Fprintf(b, "topic  %s\nid     %s\n\n", d.Name, d.ID)
	var rows [][]string
	for _, x := range d.Partitions {
		rows = append(rows, []string{fmt.Sprint(x.Partition), fmt.Sprint(x.Leader),
			fmt.Sprint(x.LeaderEpoch), fmt.Sprint(x.Replicas), fmt.Sprint(x.ISR),
			fmt.Sprint(x.Start), fmt.Sprint(x.End)})
	}
	err := p.Grid(b, []string{"PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", "START", "END"}, rows)
	if err != nil || len(d.Configs) == 0 {
		return err
	}
	rows = nil
	for _, c := range d.Configs {
		rows = append(rows, []string{c.Name, c.Value, c.Source})
	}
	b.WriteByte('\n')
	return p.Grid(b, []string{"CONFIG", "VALUE", "SOURCE"}, rows)
}
