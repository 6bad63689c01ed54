package offsets

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// unhex reads hex digits; blanks are for the reader.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	require.NoError(t, err)
	return b
}

// The goldens are written by hand from the schemas of Kafka's group coordinator
// (OffsetCommitKey.json, OffsetCommitValue.json, GroupMetadataKey.json, GroupMetadataValue.json),
// field by field.
const (
	goldenOffsetKey = "0001 0001 67 0001 74 00000005"
	goldenCommitV0  = "0000 000000000000002a 0001 6d 0000000000000009"
	goldenCommitV1  = "0001 000000000000002a 0001 6d 0000000000000009 000000000000000b"
	goldenCommitV2  = "0002 000000000000002a 0001 6d 0000000000000009"
	goldenCommitV3  = "0003 000000000000002a 00000007 0001 6d 0000000000000009"
	// Version 4: compact metadata, one tagged field (tag 0, 16 bytes of topic id).
	goldenCommitV4 = "0004 000000000000002a 00000007 02 6d 0000000000000009 " +
		"01 00 10 000102030405060708090a0b0c0d0e0f"

	goldenGroupKey = "0002 0001 67"
	goldenGroupV0  = "0000 0008 636f6e73756d6572 00000003 0005 72616e6765 0001 61 " +
		"00000001 0001 61 0001 63 0002 2f68 00002710 00000002 0102 00000001 ff"
	goldenGroupV3 = "0003 0008 636f6e73756d6572 00000003 0005 72616e6765 0001 61 " +
		"0000000000000005 00000001 0001 61 0002 6931 0001 63 0002 2f68 0000ea60 00002710 " +
		"00000002 0102 00000001 ff"
	goldenGroupV4 = "0004 09 636f6e73756d6572 00000003 06 72616e6765 02 61 " +
		"0000000000000005 02 02 61 03 6931 02 63 03 2f68 0000ea60 00002710 " +
		"03 0102 02 ff 00 00"
	goldenEmptyGroup = "0003 0008 636f6e73756d6572 00000004 ffff ffff 0000000000000005 00000000"
)

func goldenGroup() *GroupMetadata {
	return &GroupMetadata{
		ProtocolType: "consumer", Generation: 3, Protocol: new("range"), Leader: new("a"),
		CurrentStateTimestamp: 5,
		Members: []Member{{
			MemberID: "a", InstanceID: new("i1"), ClientID: "c", ClientHost: "/h",
			RebalanceTimeoutMS: 60000, SessionTimeoutMS: 10000,
			Subscription: []byte{1, 2}, Assignment: []byte{0xff},
		}},
	}
}

func TestKeysMatchGoldens(t *testing.T) {
	b := AppendOffsetKey(nil, "g", "t", 5)
	require.Equal(t, unhex(t, goldenOffsetKey), b)
	k, err := ReadKey(b)
	require.NoError(t, err)
	require.Equal(t, Key{Kind: KindOffset, Version: 1, Group: "g", Topic: "t", Partition: 5}, k)

	b = AppendGroupKey(nil, "g")
	require.Equal(t, unhex(t, goldenGroupKey), b)
	k, err = ReadKey(b)
	require.NoError(t, err)
	require.Equal(t, Key{Kind: KindGroup, Version: 2, Group: "g"}, k)

	k, err = ReadKey(unhex(t, "000b 0001 67")) // ShareGroupMetadataKey, KIP-932
	require.NoError(t, err)
	require.Equal(t, KindOther, k.Kind)
}

func TestCommitMatchesGoldens(t *testing.T) {
	want := Commit{
		Offset: 42, LeaderEpoch: 7, Metadata: "m", CommitTimestamp: 9, ExpireTimestamp: -1,
	}
	require.Equal(t, unhex(t, goldenCommitV3), AppendCommit(nil, want))
	c, err := ReadCommit(unhex(t, goldenCommitV3))
	require.NoError(t, err)
	require.Equal(t, want, c)

	want.TopicID = [16]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	require.Equal(t, unhex(t, goldenCommitV4), AppendCommit(nil, want))
	c, err = ReadCommit(unhex(t, goldenCommitV4))
	require.NoError(t, err)
	require.Equal(t, want, c)
	want.TopicID = [16]byte{}

	want.LeaderEpoch = -1
	for _, golden := range []string{goldenCommitV0, goldenCommitV2} {
		c, err := ReadCommit(unhex(t, golden))
		require.NoError(t, err)
		require.Equal(t, want, c)
	}
	want.ExpireTimestamp = 11
	require.Equal(t, unhex(t, goldenCommitV1), AppendCommit(nil, want))
	c, err = ReadCommit(unhex(t, goldenCommitV1))
	require.NoError(t, err)
	require.Equal(t, want, c)
}

func TestGroupMatchesGoldens(t *testing.T) {
	require.Equal(t, unhex(t, goldenGroupV3), AppendGroup(nil, goldenGroup()))
	for _, golden := range []string{goldenGroupV3, goldenGroupV4} {
		g, err := ReadGroup(unhex(t, golden))
		require.NoError(t, err)
		require.Equal(t, goldenGroup(), g)
	}
	old := goldenGroup()
	old.CurrentStateTimestamp = -1
	old.Members[0].InstanceID = nil
	old.Members[0].RebalanceTimeoutMS = 10000 // as long as the session, before it was its own
	g, err := ReadGroup(unhex(t, goldenGroupV0))
	require.NoError(t, err)
	require.Equal(t, old, g)

	empty := &GroupMetadata{
		ProtocolType: "consumer", Generation: 4, CurrentStateTimestamp: 5, Members: []Member{},
	}
	require.Equal(t, unhex(t, goldenEmptyGroup), AppendGroup(nil, empty))
	g, err = ReadGroup(unhex(t, goldenEmptyGroup))
	require.NoError(t, err)
	require.Equal(t, empty, g)
}

func TestTruncatedRecordsAreRefused(t *testing.T) {
	for _, golden := range []string{goldenOffsetKey, goldenGroupKey} {
		b := unhex(t, golden)
		for n := range len(b) {
			_, err := ReadKey(b[:n])
			require.ErrorIs(t, err, ErrMalformed, "%s cut to %d", golden, n)
		}
	}
	commits := []string{goldenCommitV0, goldenCommitV1, goldenCommitV2, goldenCommitV3, goldenCommitV4}
	for _, golden := range commits {
		b := unhex(t, golden)
		for n := range len(b) {
			_, err := ReadCommit(b[:n])
			require.ErrorIs(t, err, ErrMalformed, "%s cut to %d", golden, n)
		}
	}
	for _, golden := range []string{goldenGroupV0, goldenGroupV3, goldenGroupV4} {
		b := unhex(t, golden)
		for n := range len(b) {
			_, err := ReadGroup(b[:n])
			require.ErrorIs(t, err, ErrMalformed, "%s cut to %d", golden, n)
		}
	}
}

func TestUnknownVersionsAreRefused(t *testing.T) {
	_, err := ReadCommit(unhex(t, "0005 00"))
	require.ErrorIs(t, err, ErrUnknownVersion)
	_, err = ReadGroup(unhex(t, "0005 00"))
	require.ErrorIs(t, err, ErrUnknownVersion)
	_, err = ReadGroup(unhex(t, "ffff 00"))
	require.ErrorIs(t, err, ErrUnknownVersion)
}

// A length that promises more than there is must not be allocated.
func TestLyingMemberCountIsRefused(t *testing.T) {
	b := unhex(t, "0003 0000 00000000 ffff ffff 0000000000000000 7fffffff")
	allocs := testing.AllocsPerRun(10, func() {
		_, err := ReadGroup(b)
		require.ErrorIs(t, err, ErrMalformed)
	})
	require.Less(t, allocs, 50.0)
}

func TestRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringN(0, 20, 60)
		key := Key{
			Kind: KindOffset, Version: 1, Group: name.Draw(t, "group"), Topic: name.Draw(t, "topic"),
			Partition: rapid.Int32().Draw(t, "partition"),
		}
		got, err := ReadKey(AppendOffsetKey(nil, key.Group, key.Topic, key.Partition))
		require.NoError(t, err)
		require.Equal(t, key, got)

		c := Commit{
			Offset: rapid.Int64().Draw(t, "offset"), LeaderEpoch: -1, Metadata: name.Draw(t, "md"),
			CommitTimestamp: rapid.Int64().Draw(t, "ts"),
			ExpireTimestamp: rapid.Int64Min(-1).Draw(t, "expire"),
		}
		if c.ExpireTimestamp < 0 {
			c.LeaderEpoch = rapid.Int32().Draw(t, "epoch")
			c.TopicID = [16]byte{rapid.Byte().Draw(t, "topic id")}
		}
		gotCommit, err := ReadCommit(AppendCommit(nil, c))
		require.NoError(t, err)
		require.Equal(t, c, gotCommit)

		g := drawGroup(t)
		gotGroup, err := ReadGroup(AppendGroup(nil, g))
		require.NoError(t, err)
		require.Equal(t, g, gotGroup)
	})
}

func drawGroup(t *rapid.T) *GroupMetadata {
	name := rapid.StringN(0, 20, 60)
	bytes := rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 30), func(b []byte) []byte {
		return append([]byte(nil), b...)
	})
	return &GroupMetadata{
		ProtocolType: name.Draw(t, "type"), Generation: rapid.Int32().Draw(t, "generation"),
		Protocol: rapid.Ptr(name, true).Draw(t, "protocol"),
		Leader:   rapid.Ptr(name, true).Draw(t, "leader"), CurrentStateTimestamp: 5,
		Members: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Member {
			return Member{
				MemberID: name.Draw(t, "id"), InstanceID: rapid.Ptr(name, true).Draw(t, "instance"),
				ClientID: name.Draw(t, "client"), ClientHost: name.Draw(t, "host"),
				RebalanceTimeoutMS: rapid.Int32Min(0).Draw(t, "rebalance"),
				SessionTimeoutMS:   rapid.Int32().Draw(t, "session"),
				Subscription:       bytes.Draw(t, "subscription"),
				Assignment:         bytes.Draw(t, "assignment"),
			}
		}), 0, 5).Draw(t, "members"),
	}
}

func FuzzReadKey(f *testing.F) {
	f.Add(unhex(f, goldenOffsetKey))
	f.Add(unhex(f, goldenGroupKey))
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := ReadKey(b)
		if err != nil || k.Kind != KindOffset {
			return
		}
		again, err := ReadKey(AppendOffsetKey(nil, k.Group, k.Topic, k.Partition))
		require.NoError(t, err)
		k.Version = offsetKeyVersion
		require.Equal(t, k, again)
	})
}

func FuzzReadCommit(f *testing.F) {
	for _, golden := range []string{goldenCommitV0, goldenCommitV1, goldenCommitV3, goldenCommitV4} {
		f.Add(unhex(f, golden))
	}
	f.Fuzz(func(_ *testing.T, b []byte) { _, _ = ReadCommit(b) })
}

func FuzzReadGroup(f *testing.F) {
	for _, golden := range []string{goldenGroupV0, goldenGroupV3, goldenGroupV4, goldenEmptyGroup} {
		f.Add(unhex(f, golden))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := ReadGroup(b)
		if err == nil && len(g.Members) > len(b)/leastMember {
			t.Fatal("more members than bytes")
		}
	})
}
