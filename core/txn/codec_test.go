package txn

import (
	"encoding/hex"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// sample has every field set.
func sample() Metadata {
	return Metadata{
		ProducerID: 1000, PreviousProducerID: 999, NextProducerID: 1001, ProducerEpoch: math.MaxInt16,
		NextProducerEpoch: 7, TimeoutMS: 60000, State: PrepareCommit, ClientVersion: 2,
		Partitions: []TopicPartition{{"a", 0}, {"a", 3}, {"orders", 1}},
		StartMS:    1700000000000, LastUpdateMS: 1700000000123,
	}
}

func unhex(t *testing.T, s string) []byte {
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	require.NoError(t, err)
	return b
}

// The bytes were put together by hand from the table in doc.go.
func TestCodecWritesTheBytesOfTheTable(t *testing.T) {
	key := unhex(t, "0000 0004 74786e31")
	require.Equal(t, key, AppendKey(nil, "txn1"))
	id, err := ReadKey(key)
	require.NoError(t, err)
	require.Equal(t, "txn1", id)

	value := unhex(t, `0001 00000000000003e8 7fff 0000ea60 02
		03 02 61 03 00000000 00000003 00 07 6f7264657273 02 00000001 00
		0000018bcfe5687b 0000018bcfe56800
		04 00 08 00000000000003e7 01 08 00000000000003e9 02 02 0002 03 02 0007`)
	md := sample()
	require.Equal(t, value, AppendValue(nil, &md, true))
	got, err := ReadValue(value)
	require.NoError(t, err)
	require.Equal(t, md, got)

	// The smallest: what InitProducerId writes, but for the previous producer id.
	empty := Metadata{
		ProducerID: 1, PreviousProducerID: -1, NextProducerID: -1, NextProducerEpoch: -1,
		TimeoutMS: 1, StartMS: -1, LastUpdateMS: 2,
	}
	require.Equal(t, unhex(t, `0001 0000000000000001 0000 00000001 00 00
		0000000000000002 ffffffffffffffff 00`), AppendValue(nil, &empty, true))
}

// Version 0 is what Kafka before 4.0 wrote.
func TestCodecReadsVersion0(t *testing.T) {
	got, err := ReadValue(unhex(t, `0000 00000000000003e8 0005 0000ea60 01
		00000002 0006 6f7264657273 00000001 00000001 0001 61 00000002 00000003 00000000
		0000018bcfe5687b 0000018bcfe56800`))
	require.NoError(t, err)
	require.Equal(t, Metadata{
		ProducerID: 1000, PreviousProducerID: -1, NextProducerID: -1, ProducerEpoch: 5,
		NextProducerEpoch: -1, TimeoutMS: 60000, State: Ongoing,
		Partitions: []TopicPartition{{"a", 0}, {"a", 3}, {"orders", 1}},
		StartMS:    1700000000000, LastUpdateMS: 1700000000123,
	}, got)
	got, err = ReadValue(unhex(t, `0000 00000000000003e8 0005 0000ea60 00 ffffffff
		0000018bcfe5687b ffffffffffffffff`))
	require.NoError(t, err)
	require.Empty(t, got.Partitions)
}

// kmsg is generated from Kafka's own definitions.
func TestCodecAgreesWithKmsg(t *testing.T) {
	for _, state := range []State{Empty, Ongoing, PrepareAbort, CompleteCommit} {
		md := sample()
		md.State = state
		if state == Empty || state == CompleteCommit {
			md.Partitions, md.NextProducerID, md.ClientVersion = nil, -1, 0
		}
		theirs := kmsg.NewTxnMetadataValue()
		require.NoError(t, theirs.ReadFrom(AppendValue(nil, &md, true)))
		require.Equal(t, md.ProducerID, theirs.ProducerID)
		require.Equal(t, md.PreviousProducerID, theirs.PreviousProducerID)
		require.Equal(t, md.NextProducerID, theirs.NextProducerID)
		require.Equal(t, md.ProducerEpoch, theirs.ProducerEpoch)
		require.Equal(t, md.TimeoutMS, theirs.TimeoutMillis)
		require.EqualValues(t, md.State, theirs.State)
		require.Equal(t, md.State.String(), theirs.State.String())
		require.Equal(t, md.LastUpdateMS, theirs.LastUpdateTimestamp)
		require.Equal(t, md.StartMS, theirs.StartTimestamp)
		require.Equal(t, md.ClientVersion, theirs.ClientTransactionVersion)
		require.Equal(t, md.NextProducerEpoch, theirs.NextProducerEpoch)
		require.Zero(t, theirs.UnknownTags.Len())
		require.Equal(t, AppendValue(nil, &md, true), theirs.AppendTo(nil))

		theirs.Version = 0
		require.Equal(t, AppendValue(nil, &md, false), theirs.AppendTo(nil))
		got, err := ReadValue(theirs.AppendTo(nil))
		require.NoError(t, err)
		require.Equal(t, md.Partitions, got.Partitions)
		require.Equal(t, md.StartMS, got.StartMS)
	}
}

func TestCodecSkipsTagsOfTheFuture(t *testing.T) {
	v := kmsg.NewTxnMetadataValue()
	v.Version, v.ProducerID, v.State = 1, 9, 1
	v.UnknownTags.Set(77, []byte("news"))
	topic := kmsg.NewTxnMetadataValueTopic()
	topic.Topic, topic.Partitions = "a", []int32{4}
	topic.UnknownTags.Set(5, []byte("x"))
	v.Topics = append(v.Topics, topic)
	got, err := ReadValue(v.AppendTo(nil))
	require.NoError(t, err)
	require.Equal(t, []TopicPartition{{"a", 4}}, got.Partitions)
}

func TestCodecRefusesWhatIsCutOrWrong(t *testing.T) {
	md := sample()
	value := AppendValue(nil, &md, true)
	for n := range value {
		_, err := ReadValue(value[:n])
		require.ErrorIs(t, err, ErrMalformedRecord, "cut at %d", n)
	}
	_, err := ReadValue(append(value, 0))
	require.ErrorIs(t, err, ErrMalformedRecord)
	value[1] = 2
	_, err = ReadValue(value)
	require.ErrorIs(t, err, ErrUnknownVersion)

	key := AppendKey(nil, "txn1")
	for n := range key {
		_, err := ReadKey(key[:n])
		require.ErrorIs(t, err, ErrMalformedRecord, "cut at %d", n)
	}
	key[1] = 1
	_, err = ReadKey(key)
	require.ErrorIs(t, err, ErrUnknownVersion)
}

func FuzzReadValue(f *testing.F) {
	md := sample()
	f.Add(AppendValue(nil, &md, true))
	f.Add([]byte{0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		md, err := ReadValue(b)
		if err != nil || len(b) > 1<<12 {
			return
		}
		again, err := ReadValue(AppendValue(nil, &md, true))
		require.NoError(t, err)
		if md.State == Empty {
			md.Partitions = nil
		}
		require.Equal(t, md, again)
	})
}

// The file has a key and a value on each line, as Kafka 4.4.0 wrote them: two of each kind of
// record that core/server's TestTransactionsAnswerAsKafkaDoes makes it write.
func TestCodecWritesTheBytesOfKafka(t *testing.T) {
	golden, err := os.ReadFile("testdata/transaction_state_kafka_4.4.0.txt")
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(golden)), "\n")
	require.Len(t, lines, 26)
	for _, line := range lines {
		key, value, _ := strings.Cut(line, " ")
		id, err := ReadKey(unhex(t, key))
		require.NoError(t, err)
		require.Equal(t, unhex(t, key), AppendKey(nil, id))
		md, err := ReadValue(unhex(t, value))
		require.NoError(t, err)
		require.Equal(t, unhex(t, value), AppendValue(nil, &md, true), "%s: %+v", id, md)
	}
}
