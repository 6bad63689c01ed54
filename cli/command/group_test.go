package command

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestGroupWithLiveMembersIsNotDeleted: exit 5 while a consumer is in it, gone once it left.
func TestGroupWithLiveMembersIsNotDeleted(t *testing.T) {
	broker := startBroker(t, map[string]string{"group.initial.rebalance.delay.ms": "0"})
	broker.ok("topic", "create", "orders", "-p", "2")
	broker.feed("a\nb\nc\n", "produce", "orders", "-p", "1")
	member := broker.kafka(kgo.ConsumerGroup("billing"), kgo.ConsumeTopics("orders"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(),
		kgo.ClientID("biller"))
	read := 0
	for read < 3 {
		read += member.PollFetches(t.Context()).NumRecords()
	}
	require.NoError(t, member.CommitUncommittedOffsets(t.Context()))
	broker.feed("d\n", "produce", "orders", "-p", "1")

	r := broker.run("group", "delete", "billing", "--yes")
	require.Equal(t, 5, r.exit)
	require.Contains(t, r.err, "error[GROUP_NOT_EMPTY]: group \"billing\" has live members")
	require.Contains(t, r.err, "do:  stop its consumers first")

	d := decode[groupDescription](t, broker.ok("group", "describe", "billing", "-o", "json"))
	require.Equal(t, "Stable", d.State)
	require.Len(t, d.Members, 1)
	require.Equal(t, "biller", d.Members[0].Client)
	require.Equal(t, map[string][]int32{"orders": {0, 1}}, d.Members[0].Assigned)
	require.Equal(t, int64(1), d.Lag, "three of four are committed")

	text := broker.ok("group", "describe", "billing")
	require.Contains(t, text, "TOPIC   PARTITION  COMMITTED  END  LAG")
	require.Contains(t, text, "orders  1          3          4    1")
	require.Contains(t, broker.run("group", "describe", "bilings").err, `did you mean "billing"?`)
	require.Contains(t, broker.ok("group", "ls"), "billing  Stable  consumer  1")

	member.Close()
	require.Contains(t, broker.ok("group", "ls", "-o", "ndjson"),
		`{"name":"billing","state":"Empty","protocol_type":"consumer","coordinator":1}`)
	broker.ok("group", "delete", "billing", "--yes")
	require.Equal(t, "[]\n", broker.ok("group", "ls", "-o", "json"))
}

// TestKIP848_ConsumerGroupIsDescribed: DescribeGroups does not know such groups; their own request
// gives members, epochs and assignments, and after the last member the committed offsets.
func TestKIP848_ConsumerGroupIsDescribed(t *testing.T) {
	broker := startBroker(t, nil)
	broker.ok("topic", "create", "orders", "-p", "2")
	broker.feed("a\nb\nc\n", "produce", "orders", "-p", "1")
	member := broker.kafka(kgo.ServerSideBalancer(), kgo.ConsumerGroup("billing"),
		kgo.ConsumeTopics("orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(), kgo.ClientID("biller"))
	for read := 0; read < 3; {
		read += member.PollFetches(t.Context()).NumRecords()
	}
	require.NoError(t, member.CommitUncommittedOffsets(t.Context()))
	broker.feed("d\n", "produce", "orders", "-p", "1")
	broker.feed("e\nf\n", "produce", "orders", "-p", "0")

	d := decode[groupDescription](t, broker.ok("group", "describe", "billing", "-o", "json"))
	require.Equal(t, "consumer", d.Type)
	require.Equal(t, "uniform", d.Protocol)
	require.Len(t, d.Members, 1)
	require.Equal(t, "biller", d.Members[0].Client)
	all := map[string][]int32{"orders": {0, 1}}
	require.Equal(t, all, d.Members[0].Assigned)
	require.Equal(t, all, d.Members[0].Target)
	require.Positive(t, *d.Epoch)
	require.Equal(t, *d.Epoch, *d.AssignmentEpoch)
	require.Equal(t, *d.Epoch, *d.Members[0].Epoch)
	id := d.Members[0].ID
	require.Equal(t, []groupOffset{
		{Topic: "orders", Partition: 0, Committed: d.Offsets[0].Committed, End: 2, Lag: 2, Member: id},
		{Topic: "orders", Partition: 1, Committed: 3, End: 4, Lag: 1, Member: id},
	}, d.Offsets)
	require.Equal(t, int64(3), d.Lag)
	text := broker.ok("group", "describe", "billing")
	require.Contains(t, text, "type      consumer\n")
	require.Contains(t, text, "orders  1          3          4    1")

	member.Close()
	d = decode[groupDescription](t, broker.ok("group", "describe", "billing", "-o", "json"))
	require.Equal(t, "Empty", d.State)
	require.Empty(t, d.Members)
	require.Equal(t, int64(1), d.Offsets[len(d.Offsets)-1].Lag)
}
