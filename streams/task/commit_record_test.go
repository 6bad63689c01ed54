package task

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/millstream-io/millstream/streams/client"
)

// TestCommitRecordBytes pins the layout documented in commit_record.go, written out by hand:
// zig-zag varints, so 5 is 0a and -1 is 01.
func TestCommitRecordBytes(t *testing.T) {
	c := commitRecord{
		Clean: true, Fingerprint: "f", Snapshot: []byte("ab"), Seq: 5,
		From: []position{{client.TopicPartition{Topic: "in", Partition: 1}, 7}},
		Outputs: []outPosition{
			{client.TopicPartition{Topic: "o", Partition: 0}, 64, -1},
		},
		Topics: map[string]string{"in": "ID"},
	}
	want := "02" + "03" + "0a" + "01" + "66" + "02" + "6162" +
		"01" + "02" + "696e" + "02" + "0e" +
		"01" + "01" + "6f" + "00" + "8001" + "01" +
		"01" + "02" + "696e" + "02" + "4944"
	require.Equal(t, want, hex.EncodeToString(c.encode()))
	back, err := decodeCommit(c.encode())
	require.NoError(t, err)
	require.Equal(t, &c, back)
}

func TestCommitRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tp := rapid.Custom(func(t *rapid.T) client.TopicPartition {
			return client.TopicPartition{
				Topic: rapid.String().Draw(t, "topic"), Partition: rapid.Int32().Draw(t, "p"),
			}
		})
		c := commitRecord{Clean: rapid.Bool().Draw(t, "clean"), Seq: rapid.Int64().Draw(t, "seq")}
		c.Fingerprint = rapid.String().Draw(t, "fingerprint")
		if rapid.Bool().Draw(t, "has snapshot") {
			c.Snapshot = append([]byte{}, rapid.SliceOf(rapid.Byte()).Draw(t, "snapshot")...)
		}
		for range rapid.IntRange(0, 3).Draw(t, "from") {
			c.From = append(c.From, position{tp.Draw(t, "tp"), rapid.Int64().Draw(t, "at")})
		}
		for range rapid.IntRange(0, 3).Draw(t, "outputs") {
			c.Outputs = append(c.Outputs, outPosition{tp.Draw(t, "tp"),
				rapid.Int64().Draw(t, "next"), rapid.Int64().Draw(t, "seq")})
		}
		b := c.encode()
		back, err := decodeCommit(b)
		require.NoError(t, err)
		require.Equal(t, &c, back)
		_, err = decodeCommit(b[:len(b)-1])
		require.ErrorIs(t, err, ErrCommitRecord)
	})
}

func FuzzCommitRecord(f *testing.F) {
	f.Add((&commitRecord{}).encode())
	f.Add((&commitRecord{Snapshot: []byte("snapshot"), Outputs: []outPosition{{Next: 3}}}).encode())
	f.Add([]byte{1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := decodeCommit(b)
		if err != nil {
			require.ErrorIs(t, err, ErrCommitRecord)
			return
		}
		again, err := decodeCommit(c.encode())
		require.NoError(t, err)
		require.Equal(t, c, again)
	})
}
