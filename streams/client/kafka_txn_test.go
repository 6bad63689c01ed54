package client

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/core/record"
)

// deafDialer makes connections that lose the answer to a large request when armed: the broker has
// done what was asked, and the one who asked cannot know.
type deafDialer struct {
	dial  func(context.Context, string, string) (net.Conn, error)
	armed atomic.Int32
	lost  atomic.Int32
}

func (d *deafDialer) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := d.dial(ctx, network, addr)
	return &deafConn{Conn: conn, of: d}, err
}

type deafConn struct {
	net.Conn
	of   *deafDialer
	deaf atomic.Bool
}

func (c *deafConn) Write(b []byte) (int, error) {
	if len(b) > 2000 && c.of.armed.Add(-1) >= 0 {
		c.deaf.Store(true)
	}
	return c.Conn.Write(b)
}

func (c *deafConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == nil && n > 0 && c.deaf.Load() {
		c.of.lost.Add(1)
		_ = c.Conn.Close()
		return 0, io.EOF
	}
	return n, err
}

func numbers(from, to int) (list []record.Record) {
	for i := from; i < to; i++ {
		list = append(list, record.Record{Value: fmt.Appendf(nil, "%0100d", i), Timestamp: 1})
	}
	return list
}

// inOrder reads what is committed of t-0 and asserts that it is the numbers from 0 on.
func inOrder(t *testing.T, k *Kafka, count int) {
	t.Helper()
	c, err := k.Consumer()
	require.NoError(t, err)
	defer c.Close()
	c.Assign(TopicPartition{Topic: "t"}, 0)
	for next := 0; next < count; {
		runs, err := c.Poll(t.Context())
		require.NoError(t, err)
		for _, run := range runs {
			for _, r := range run.Records {
				require.Equal(t, fmt.Sprintf("%0100d", next), string(r.Value))
				next++
			}
		}
	}
}

// TestKIP98_LostAnswersAppendNothingTwice: a request whose answer did not come is sent again, and
// the broker knows its batches by their sequences.
func TestKIP98_LostAnswersAppendNothingTwice(t *testing.T) {
	broker := coretest.Start(t, coretest.Options{})
	deaf := &deafDialer{dial: broker.Dialer()}
	k, err := NewKafka(Options{Seeds: []string{broker.Addr()}, Dialer: deaf.Dial})
	require.NoError(t, err)
	t.Cleanup(k.Close)
	require.NoError(t, k.Admin().CreateTopics(t.Context(), TopicSpec{Name: "t", Partitions: 1}))
	x, err := k.Transactor(t.Context(), "x")
	require.NoError(t, err)
	defer x.Close()
	tp, n := TopicPartition{Topic: "t"}, 0
	for range 3 {
		for range 4 {
			deaf.armed.Store(1)
			_, err := x.Send(t.Context(), tp, numbers(n, n+50))
			require.NoError(t, err)
			require.NoError(t, x.Flush(t.Context()))
			require.EqualValues(t, n+50+markers(n), x.Acked(tp))
			n += 50
		}
		require.NoError(t, x.Commit(t.Context(), "g", map[TopicPartition]int64{tp: int64(n)}))
	}
	require.EqualValues(t, 12, deaf.lost.Load())
	inOrder(t, k, n)
}

// markers is how many offsets the ends of transactions take before record n of the test above.
func markers(n int) int { return n / 200 }

// level sets the version of transactions in a cluster.
func level(t *testing.T, k *Kafka, version int16) {
	req := kmsg.NewPtrUpdateFeaturesRequest()
	u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	u.Feature, u.MaxVersionLevel, u.UpgradeType = "transaction.version", version, 2
	req.FeatureUpdates = append(req.FeatureUpdates, u)
	resp, err := req.RequestWith(t.Context(), k.shared)
	require.NoError(t, err)
	require.NoError(t, kerr.ErrorForCode(resp.ErrorCode))
}

// TestKIP890_TransactionsOfBothVersions: with version 2 the end of a transaction raises the epoch;
// before, partitions and groups are told to it, and sequences go on.
func TestKIP890_TransactionsOfBothVersions(t *testing.T) {
	k := connect(t, coretest.Options{})
	tp, n := TopicPartition{Topic: "t"}, 0
	for _, version := range []int16{2, 0} {
		level(t, k, version)
		made, err := k.Transactor(t.Context(), fmt.Sprint("x", version))
		require.NoError(t, err)
		defer made.Close()
		x := made.(*kafkaTransactor)
		require.Equal(t, version == 2, x.bumps)
		epoch := x.epoch
		for i := range 3 {
			_, err := x.Send(t.Context(), tp, numbers(n, n+10))
			require.NoError(t, err)
			n += 10
			require.NoError(t, x.Commit(t.Context(), "g", map[TopicPartition]int64{tp: int64(n)}))
			if version == 2 {
				require.Equal(t, epoch+int16(i)+1, x.epoch)
				require.Zero(t, x.lanes[tp].sequence)
				continue
			}
			require.Equal(t, epoch, x.epoch)
			require.EqualValues(t, 10*(i+1), x.lanes[tp].sequence)
		}
		require.NoError(t, x.Readable(t.Context())) // the markers are written
		have, err := k.Admin().CommittedOffsets(t.Context(), "g")
		require.NoError(t, err)
		require.Equal(t, map[TopicPartition]int64{tp: int64(n)}, have)
	}
	inOrder(t, k, n)
}

// TestARefusedBatchEndsTheTransactor: nothing behind it is appended, and every call says why.
func TestARefusedBatchEndsTheTransactor(t *testing.T) {
	k := connect(t, coretest.Options{})
	x, err := k.Transactor(t.Context(), "x")
	require.NoError(t, err)
	defer x.Close()
	gone := TopicPartition{Topic: "nowhere"}
	_, err = x.Send(t.Context(), gone, numbers(0, 1))
	require.NoError(t, err)
	err = x.Flush(t.Context())
	require.ErrorIs(t, err, ErrProduce)
	require.ErrorIs(t, err, ErrUnknownTopic)
	_, err = x.Send(t.Context(), TopicPartition{Topic: "t"}, numbers(0, 1))
	require.ErrorIs(t, err, ErrProduce)
	require.ErrorIs(t, x.Commit(t.Context(), "g", nil), ErrProduce)
	require.EqualValues(t, -1, x.Acked(gone))
}

// TestWhatWasSentIsTheCallersAgain: records are encoded when Send returns, and the memory that a
// consumer gets back has no record that somebody still sends.
func TestWhatWasSentIsTheCallersAgain(t *testing.T) {
	k := connect(t, coretest.Options{})
	x, err := k.Transactor(t.Context(), "x")
	require.NoError(t, err)
	defer x.Close()
	tp := TopicPartition{Topic: "t"}
	list := numbers(0, 20)
	_, err = x.Send(t.Context(), tp, list)
	require.NoError(t, err)
	for i := range list {
		clear(list[i].Value)
	}
	require.NoError(t, x.Commit(t.Context(), "g", nil))
	inOrder(t, k, 20)
}
