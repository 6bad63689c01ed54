package client

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/record"
)

// TestADamagedBatchIsNotRead: a bit that flipped on the way, or at a broker that does not look, is
// an error, and not a record with another value.
func TestADamagedBatchIsNotRead(t *testing.T) {
	b := record.NewBuilder(record.BuilderOptions{BaseOffset: 5})
	b.Append(record.Record{Key: []byte("k"), Value: []byte("value")})
	batch, err := b.Build()
	require.NoError(t, err)
	var it record.Iterator
	decode := func() (Fetched, error) {
		a := &answer{of: &reading{}, batches: batch, from: 5}
		return a.decode(&it, &runMemory{})
	}
	run, err := decode()
	require.NoError(t, err)
	require.Equal(t, "value", string(run.Records[0].Value))
	batch[len(batch)-3] ^= 1
	run, err = decode()
	require.ErrorContains(t, err, "read batch")
	require.Empty(t, run.Records)
}

// TestAnAppendIsKnownByItsSequence: a batch whose first answer was lost is sent again, and is there
// when the broker says that it knows its sequence.
func TestAnAppendIsKnownByItsSequence(t *testing.T) {
	p := kmsg.NewProduceResponseTopicPartition()
	p.Partition, p.BaseOffset, p.ErrorCode = 2, -1, kerr.DuplicateSequenceNumber.Code
	topic := kmsg.NewProduceResponseTopic()
	topic.Topic, topic.Partitions = "t", []kmsg.ProduceResponseTopicPartition{p}
	answer := &kmsg.ProduceResponse{Topics: []kmsg.ProduceResponseTopic{topic}}
	base, err := answerOf(answer, TopicPartition{Topic: "t", Partition: 2})
	require.NoError(t, err)
	require.EqualValues(t, -1, base, "where it is, is not known")
	_, err = answerOf(answer, TopicPartition{Topic: "t", Partition: 1})
	require.Error(t, err, "the broker says nothing of it")
}

// TestABatchIsSentAgainWhereThatMayHelp: what passes is no end of the transaction.
func TestABatchIsSentAgainWhereThatMayHelp(t *testing.T) {
	for err, want := range map[error]bool{
		io.EOF: true, kerr.NotLeaderForPartition: true, kerr.NotEnoughReplicas: true,
		kerr.UnknownTopicOrPartition: true, kerr.MessageTooLarge: false, kerr.InvalidProducerEpoch: false,
		kerr.TopicAuthorizationFailed: false, kerr.ConcurrentTransactions: true,
		kerr.OutOfOrderSequenceNumber: false, kerr.TransactionAbortable: false,
	} {
		tx := &kafkaTransactor{closing: t.Context(), unacked: &unacked{}}
		lane := &txnLane{leader: 1}
		require.Equal(t, want, tx.again(lane, err), "%v", err)
		if want && err != error(kerr.ConcurrentTransactions) { // which is of the coordinator
			require.EqualValues(t, -1, lane.leader, "the leader is looked up again")
		}
	}
	// A broker that was away for long, and has just started, does not know its topics yet.
	tx, lane := &kafkaTransactor{closing: t.Context(), unacked: &unacked{}}, &txnLane{tries: 100}
	for range unknownTries {
		require.True(t, tx.again(lane, kerr.UnknownTopicOrPartition))
	}
	require.False(t, tx.again(lane, kerr.UnknownTopicOrPartition))
	require.True(t, tx.again(lane, io.EOF))
	require.True(t, tx.again(lane, kerr.UnknownTopicOrPartition), "not in a row")
}
