package server_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestKIP430_GroupsTellAuthorizedOperations wants what Kafka 4.3.1 answered without an authorizer:
// READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS and ALTER_CONFIGS, whose codes 3, 6, 8, 10 and 11 are
// the bits; and the lowest int32 where it was not asked for, or there is no such group.
func TestKIP430_GroupsTellAuthorizedOperations(t *testing.T) {
	const all, none int32 = 3400, -2147483648
	_, w := bugWire(t)
	w.committed(9, w.commit("plain", "", -1, wireTopic, 0, ""))
	require.Zero(t, w.beat("joins", consumerBeat{group: "modern", member: "m1"}).ErrorCode)
	for _, c := range []struct {
		asked    bool
		there    int32
		notThere int32
	}{{true, all, none}, {false, none, none}} {
		classic := kmsg.NewPtrDescribeGroupsRequest()
		classic.Groups = []string{"plain", "absent"}
		classic.IncludeAuthorizedOperations = c.asked
		groups := w.ask(6, classic).(*kmsg.DescribeGroupsResponse).Groups
		require.Equal(t, c.there, groups[0].AuthorizedOperations)
		require.Equal(t, c.notThere, groups[1].AuthorizedOperations)

		modern := kmsg.NewPtrConsumerGroupDescribeRequest()
		modern.Groups = []string{"modern", "absent"}
		modern.IncludeAuthorizedOperations = c.asked
		described := w.ask(1, modern).(*kmsg.ConsumerGroupDescribeResponse).Groups
		require.Equal(t, c.there, described[0].AuthorizedOperations)
		require.Equal(t, c.notThere, described[1].AuthorizedOperations)
	}
}
