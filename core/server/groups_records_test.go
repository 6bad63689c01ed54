package server_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/group/offsets"
)

// The records of __consumer_offsets are compared with kmsg's, which other tools read them with:
// what we write it reads the same, and what it writes in any version we read.

func TestOffsetRecordsAreThoseOfKafka(t *testing.T) {
	key := kmsg.NewOffsetCommitKey()
	key.Version, key.Group, key.Topic, key.Partition = 1, "orders-app", "orders", 12
	require.Equal(t, key.AppendTo(nil), offsets.AppendOffsetKey(nil, "orders-app", "orders", 12))

	for version := int16(0); version <= 4; version++ {
		want := kmsg.NewOffsetCommitValue()
		want.Version, want.Offset, want.LeaderEpoch = version, 1<<40, 7
		want.Metadata, want.CommitTimestamp, want.ExpireTimestamp = "späť", 1e12, 2e12
		want.TopicID = [16]byte{1, 2, 3}
		got, err := offsets.ReadCommit(want.AppendTo(nil))
		require.NoError(t, err, "version %d", version)
		c := offsets.Commit{
			Offset: 1 << 40, LeaderEpoch: -1, Metadata: "späť", CommitTimestamp: 1e12,
			ExpireTimestamp: -1,
		}
		if version >= 3 {
			c.LeaderEpoch = 7
		}
		if version == 1 {
			c.ExpireTimestamp = 2e12
		}
		if version == 4 {
			c.TopicID = [16]byte{1, 2, 3}
		}
		require.Equal(t, c, got, "version %d", version)
		if version == 1 || version >= 3 { // those that we write
			require.Equal(t, want.AppendTo(nil), offsets.AppendCommit(nil, c))
		}
	}
}

func TestGroupRecordsAreThoseOfKafka(t *testing.T) {
	key := kmsg.NewGroupMetadataKey()
	key.Version, key.Group = 2, "orders-app"
	require.Equal(t, key.AppendTo(nil), offsets.AppendGroupKey(nil, "orders-app"))

	for version := int16(0); version <= 4; version++ {
		want := kmsg.NewGroupMetadataValue()
		want.Version, want.ProtocolType, want.Generation = version, "consumer", 9
		want.Protocol, want.Leader = new("range"), new("a-1")
		want.CurrentStateTimestamp = 1e12
		m := kmsg.NewGroupMetadataValueMember()
		m.MemberID, m.InstanceID, m.ClientID, m.ClientHost = "a-1", new("i"), "a", "/10.0.0.1"
		m.RebalanceTimeoutMillis, m.SessionTimeoutMillis = 60000, 45000
		m.Subscription, m.Assignment = []byte("sub"), []byte("asg")
		want.Members = append(want.Members, m)

		g := &offsets.GroupMetadata{
			ProtocolType: "consumer", Generation: 9, Protocol: new("range"), Leader: new("a-1"),
			CurrentStateTimestamp: -1,
			Members: []offsets.Member{{
				MemberID: "a-1", ClientID: "a", ClientHost: "/10.0.0.1", RebalanceTimeoutMS: 45000,
				SessionTimeoutMS: 45000, Subscription: []byte("sub"), Assignment: []byte("asg"),
			}},
		}
		if version >= 1 {
			g.Members[0].RebalanceTimeoutMS = 60000
		}
		if version >= 2 {
			g.CurrentStateTimestamp = 1e12
		}
		if version >= 3 {
			g.Members[0].InstanceID = new("i")
		}
		got, err := offsets.ReadGroup(want.AppendTo(nil))
		require.NoError(t, err, "version %d", version)
		require.Equal(t, g, got, "version %d", version)
		if version == 3 {
			require.Equal(t, want.AppendTo(nil), offsets.AppendGroup(nil, g))
		}
	}
}
