package command

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/millstream-io/millstream/cli/output"
)

func newGroupCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "group",
		Aliases: []string{"groups"},
		Short:   "List, describe and delete consumer groups",
	}
	cmd.AddCommand(newGroupListCommand(a), newGroupDescribeCommand(a), newGroupDeleteCommand(a))
	return cmd
}

type groupSummary struct {
	Name         string `json:"name"`
	State        string `json:"state"`
	ProtocolType string `json:"protocol_type"`
	Coordinator  int32  `json:"coordinator"`
}

func newGroupListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List consumer groups",
		Args:    cobra.NoArgs,
		Example: "  millstream group ls\n  millstream group ls -o ndjson",
		RunE: func(cmd *cobra.Command, _ []string) error {
			adm, cl, err := a.admin(cmd.Context())
			if err != nil {
				return err
			}
			defer cl.Close()
			groups, err := adm.ListGroups(cmd.Context())
			if err != nil {
				return fmt.Errorf("list groups: %w", err)
			}
			var rows []groupSummary
			for _, g := range groups.Sorted() {
				rows = append(rows, groupSummary{g.Group, g.State, g.ProtocolType, g.Coordinator})
			}
			return output.List(a.printer, rows, []output.Column[groupSummary]{
				{Title: "GROUP", Cell: func(g groupSummary) string { return g.Name }},
				{Title: "STATE", Cell: func(g groupSummary) string { return g.State }},
				{Title: "PROTOCOL", Cell: func(g groupSummary) string { return g.ProtocolType }},
				{Title: "COORDINATOR", Cell: func(g groupSummary) string {
					return strconv.Itoa(int(g.Coordinator))
				}},
			})
		},
	}
}

type groupDescription struct {
	Name     string `json:"name"`
	Type     string `json:"type"` // classic, or consumer (KIP-848)
	State    string `json:"state"`
	Protocol string `json:"protocol"` // the assignor
	// Only of consumer groups; AssignmentEpoch trails while an assignment is being made.
	Epoch           *int32        `json:"epoch,omitempty"`
	AssignmentEpoch *int32        `json:"assignment_epoch,omitempty"`
	Members         []groupMember `json:"members"`
	Offsets         []groupOffset `json:"offsets"`
	Lag             int64         `json:"lag"`
}

type groupMember struct {
	ID         string             `json:"id"`
	InstanceID string             `json:"instance_id,omitempty"`
	Client     string             `json:"client"`
	Host       string             `json:"host"`
	Epoch      *int32             `json:"epoch,omitempty"` // only of consumer groups
	Assigned   map[string][]int32 `json:"assigned"`
	Target     map[string][]int32 `json:"target,omitempty"` // what it is going to have
}

type groupOffset struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed int64  `json:"committed"`
	End       int64  `json:"end"`
	Lag       int64  `json:"lag"`
	Member    string `json:"member,omitempty"`
}

func newGroupDescribeCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "describe GROUP",
		Aliases: []string{"get"},
		Short:   "Show a group's members, committed offsets and lag",
		Args:    cobra.ExactArgs(1),
		Example: "  millstream group describe billing\n  millstream group describe billing -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			adm, cl, err := a.admin(cmd.Context())
			if err != nil {
				return err
			}
			defer cl.Close()
			d, err := describeGroup(cmd.Context(), adm, args[0])
			if err != nil {
				return err
			}
			return a.one(d, d.text)
		},
	}
}

func describeGroup(ctx context.Context, adm *kadm.Client, name string) (*groupDescription, error) {
	if d, err := describeConsumerGroup(ctx, adm, name); d != nil || err != nil {
		return d, err
	}
	lags, err := adm.Lag(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("describe group %s: %w", name, err)
	}
	l := lags[name]
	if l.State == "Dead" || errors.Is(l.Error(), kerr.GroupIDNotFound) {
		return nil, unknownGroup(ctx, adm, name)
	}
	if err := l.Error(); err != nil {
		return nil, fmt.Errorf("describe group %s: %w", name, err)
	}
	d := &groupDescription{Name: name, Type: "classic", State: l.State, Protocol: l.Protocol,
		Members: []groupMember{}, Offsets: []groupOffset{}, Lag: l.Lag.Total()}
	for _, m := range l.Members {
		member := groupMember{ID: m.MemberID, Client: m.ClientID, Host: m.ClientHost,
			Assigned: map[string][]int32{}}
		if m.InstanceID != nil {
			member.InstanceID = *m.InstanceID
		}
		if assigned, ok := m.Assigned.AsConsumer(); ok {
			for _, t := range assigned.Topics {
				member.Assigned[t.Topic] = t.Partitions
			}
		}
		d.Members = append(d.Members, member)
	}
	for _, o := range l.Lag.Sorted() {
		row := groupOffset{Topic: o.Topic, Partition: o.Partition, Committed: o.Commit.At,
			End: o.End.Offset, Lag: o.Lag}
		if o.Member != nil {
			row.Member = o.Member.MemberID
		}
		d.Offsets = append(d.Offsets, row)
	}
	return d, nil
}

func unknownGroup(ctx context.Context, adm *kadm.Client, name string) *output.Error {
	e := output.Failure("UNKNOWN_GROUP", fmt.Sprintf("there is no group %q", name))
	groups, err := adm.ListGroups(ctx)
	if err != nil {
		return e
	}
	if best := nearest(name, groups.Groups()); best != "" {
		return e.WithDo(fmt.Sprintf("did you mean %q?", best))
	}
	return e.WithDo("millstream group ls lists the groups")
}

func (d *groupDescription) text(b *strings.Builder, p *output.Printer) error {
	fmt.Fprintf(b, "group     %s\ntype      %s\nstate     %s\nprotocol  %s\n",
		d.Name, d.Type, d.State, orDash(d.Protocol))
	if d.Epoch != nil {
		fmt.Fprintf(b, "epoch     %d, assigned for %d\n", *d.Epoch, *d.AssignmentEpoch)
	}
	fmt.Fprintf(b, "lag       %d\n", d.Lag)
	if len(d.Members) > 0 {
		if err := d.memberGrid(b, p); err != nil {
			return err
		}
	}
	if len(d.Offsets) == 0 {
		return nil
	}
	var rows [][]string
	for _, o := range d.Offsets {
		rows = append(rows, []string{o.Topic, fmt.Sprint(o.Partition), fmt.Sprint(o.Committed),
			fmt.Sprint(o.End), fmt.Sprint(o.Lag)})
	}
	b.WriteByte('\n')
	return p.Grid(b, []string{"TOPIC", "PARTITION", "COMMITTED", "END", "LAG"}, rows)
}

func (d *groupDescription) memberGrid(b *strings.Builder, p *output.Printer) error {
	titles := []string{"MEMBER", "CLIENT", "HOST", "PARTITIONS"}
	if d.Epoch != nil {
		titles = append(titles, "EPOCH")
	}
	var rows [][]string
	for _, m := range d.Members {
		n := 0
		for _, partitions := range m.Assigned {
			n += len(partitions)
		}
		row := []string{m.ID, m.Client, m.Host, strconv.Itoa(n)}
		if m.Epoch != nil {
			row = append(row, fmt.Sprint(*m.Epoch))
		}
		rows = append(rows, row)
	}
	b.WriteByte('\n')
	return p.Grid(b, titles, rows)
}

func newGroupDeleteCommand(a *app) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:     "delete GROUP...",
		Aliases: []string{"rm"},
		Short:   "Delete groups and their committed offsets",
		Args:    cobra.MinimumNArgs(1),
		Example: "  millstream group delete billing\n  millstream group delete a b --yes",
		RunE: func(cmd *cobra.Command, names []string) error {
			err := a.confirm(yes, "delete the committed offsets of "+strings.Join(names, ", "))
			if err != nil {
				return err
			}
			adm, cl, err := a.admin(cmd.Context())
			if err != nil {
				return err
			}
			defer cl.Close()
			results, err := adm.DeleteGroups(cmd.Context(), names...)
			if err != nil {
				return fmt.Errorf("delete groups: %w", err)
			}
			var outcomes []outcome
			for _, r := range results.Sorted() {
				one := outcome{Name: r.Group, Action: "deleted"}
				if r.Err != nil {
					one.Error = groupRefused(cmd.Context(), adm, r)
				}
				outcomes = append(outcomes, one)
			}
			return a.outcomes(outcomes)
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

func groupRefused(
	ctx context.Context, adm *kadm.Client, r kadm.DeleteGroupResponse,
) *output.Error {
	switch {
	case errors.Is(r.Err, kerr.GroupIDNotFound):
		return unknownGroup(ctx, adm, r.Group)
	case errors.Is(r.Err, kerr.NonEmptyGroup):
		return output.Conflict("GROUP_NOT_EMPTY",
			fmt.Sprintf("group %q has live members; nothing was deleted", r.Group)).
			WithDo("stop its consumers first; see: millstream group describe " + r.Group)
	}
	return explainBroker(fmt.Errorf("delete group %s: %w", r.Group, r.Err))
}
