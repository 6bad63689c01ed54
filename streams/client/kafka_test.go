package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/client"
)

// TestProducerOverRestarts: records sent while the broker restarts are appended once and in order.
func TestProducerOverRestarts(t *testing.T) {
	k, broker := kafka(t)
	create(t, k, "t", 1)
	p := producer(t, k)
	const sends, each = 200, 20
	failed := make(chan error, 1)
	go func() {
		for i := range sends {
			if _, err := p.Send(ctxOf(t), at("t", 0), numbered(i*each, i*each+each)); err != nil {
				failed <- err
				return
			}
		}
		failed <- p.Flush(ctxOf(t))
	}()
	cons := consumer(t, k)
	cons.Assign(at("t", 0), 0)
	var got []string
	for restarts := 0; len(got) < sends*each; {
		runs, err := cons.Poll(ctxOf(t))
		require.NoError(t, err)
		for _, run := range runs {
			for _, r := range run.Records {
				got = append(got, string(r.Value))
			}
		}
		if restarts < 3 && len(got) > restarts*each*20 {
			restarts++
			broker.Restart()
		}
	}
	require.NoError(t, <-failed)
	require.Equal(t, values(0, sends*each), got)
	require.EqualValues(t, sends*each, p.Acked(at("t", 0)))
}

// TestCloseDropsWhatIsNotSent: a closed producer sends nothing any more, also when the broker comes
// back. A restarted worker relies on that.
func TestCloseDropsWhatIsNotSent(t *testing.T) {
	k, broker := kafka(t)
	create(t, k, "t", 1)
	p := producer(t, k)
	send(t, p, at("t", 0), numbered(0, 1)...)
	require.NoError(t, p.Flush(ctxOf(t)))
	broker.Stop()
	send(t, p, at("t", 0), numbered(1, 50)...)
	ctx, cancel := context.WithTimeout(ctxOf(t), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, p.Flush(ctx), context.DeadlineExceeded)
	p.Close()
	require.ErrorIs(t, p.Flush(ctxOf(t)), client.ErrClosed)
	broker.Start()
	q := producer(t, k)
	send(t, q, at("t", 0), record.Record{Value: []byte("next")})
	require.NoError(t, q.Flush(ctxOf(t)))
	require.EqualValues(t, 2, q.Acked(at("t", 0)))
}

// TestDialerErrorsAreWaitedOut fails each dial of a new producer in turn, with an error that is not
// one of package net: the broker is waited for all the same, and no record fails.
func TestDialerErrorsAreWaitedOut(t *testing.T) {
	broker := coretest.Start(t, coretest.Options{})
	for k := range int64(5) {
		var dials, refused atomic.Int64
		armed := atomic.Bool{}
		c, err := client.NewKafka(client.Options{
			Seeds: []string{broker.Addr()},
			Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
				if n := dials.Add(1) - 1; armed.Load() && n >= k && n < k+2 {
					refused.Add(1)
					return nil, errors.New("plain error")
				}
				return broker.Dialer()(ctx, network, addr)
			},
		})
		require.NoError(t, err)
		topic := fmt.Sprint("t", k)
		create(t, c, topic, 1)
		p := producer(t, c)
		dials.Store(0)
		armed.Store(true)
		send(t, p, at(topic, 0), numbered(0, 10)...)
		require.NoError(t, p.Flush(ctxOf(t)), "dial %d", k)
		require.EqualValues(t, 10, p.Acked(at(topic, 0)))
		if k == 0 {
			require.Positive(t, refused.Load())
		}
		c.Close()
	}
}

// TestNothingFollowsAFailedFirstBatch: a broker takes any first batch of a producer it does not
// know, so the first one to a partition is waited for. If it fails nothing behind it is appended.
func TestNothingFollowsAFailedFirstBatch(t *testing.T) {
	k, _ := kafka(t)
	require.NoError(t, k.Admin().CreateTopics(ctxOf(t), client.TopicSpec{Name: "t", Partitions: 1,
		Configs: map[string]string{"max.message.bytes": "500"}}))
	p := producer(t, k)
	_, err := p.Send(ctxOf(t), at("t", 0), []record.Record{{Value: make([]byte, 1000)}})
	require.ErrorIs(t, err, client.ErrProduce)
	_, err = p.Send(ctxOf(t), at("t", 0), []record.Record{{Value: []byte("small")}})
	require.ErrorIs(t, err, client.ErrProduce)
	ranges, err := k.Admin().Ranges(ctxOf(t), at("t", 0))
	require.NoError(t, err)
	require.Zero(t, ranges[at("t", 0)].End)
}

// TestSendWaitsForSpace: a Send over the bound waits for acknowledgements, and ctx ends the wait
// without having sent anything.
func TestSendWaitsForSpace(t *testing.T) {
	broker := coretest.Start(t, coretest.Options{})
	k, err := client.NewKafka(client.Options{
		Seeds: []string{broker.Addr()}, Dialer: broker.Dialer(), BufferBytes: 1000,
	})
	require.NoError(t, err)
	t.Cleanup(k.Close)
	create(t, k, "t", 1)
	p := producer(t, k)
	send(t, p, at("t", 0), numbered(0, 1)...)
	require.NoError(t, p.Flush(ctxOf(t)))
	broker.Stop()
	big := record.Record{Value: make([]byte, 900)}
	send(t, p, at("t", 0), big)
	ctx, cancel := context.WithTimeout(ctxOf(t), 20*time.Millisecond)
	defer cancel()
	n, err := p.Send(ctx, at("t", 0), []record.Record{big})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Zero(t, n)
	broker.Start()
	send(t, p, at("t", 0), big)
	require.NoError(t, p.Flush(ctxOf(t)))
	require.EqualValues(t, 3, p.Acked(at("t", 0)))
}

// TestNewTopicIsThere: a topic can be used as soon as it is made, also when the client has just
// learnt, and remembers, that it does not exist.
func TestNewTopicIsThere(t *testing.T) {
	k, _ := kafka(t)
	for i := range 3 {
		name := fmt.Sprint("new-", i)
		_, err := k.Admin().Ranges(ctxOf(t), at(name, 0))
		require.ErrorIs(t, err, client.ErrUnknownTopic)
		create(t, k, name, 1)
		infos, err := k.Admin().Topics(ctxOf(t), name)
		require.NoError(t, err)
		require.Contains(t, infos, name)
		ranges, err := k.Admin().Ranges(ctxOf(t), at(name, 0))
		require.NoError(t, err)
		require.Equal(t, client.Range{}, ranges[at(name, 0)])
	}
}

func TestOptionsAreChecked(t *testing.T) {
	_, err := client.NewKafka(client.Options{})
	require.ErrorContains(t, err, "no broker address")
	_, err = client.NewKafka(client.Options{Seeds: []string{"a:1"}, BufferBytes: -1})
	require.ErrorContains(t, err, "must not be negative")
}

// BenchmarkProduceConsume sends and reads 195-byte records through a broker in this process.
func BenchmarkProduceConsume(b *testing.B) {
	k, _ := kafka(b)
	create(b, k, "t", 1)
	p := producer(b, k)
	cons := consumer(b, k)
	cons.Assign(at("t", 0), 0)
	batch := make([]record.Record, 1000)
	for i := range batch {
		batch[i] = record.Record{Key: fmt.Append(nil, i), Value: make([]byte, 195)}
	}
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		for range 20 {
			if _, err := p.Send(context.Background(), at("t", 0), batch); err != nil {
				b.Fatal(err)
			}
		}
		require.NoError(b, p.Flush(context.Background()))
		for read := 0; read < 20*len(batch); {
			runs, err := cons.Poll(context.Background())
			require.NoError(b, err)
			for _, run := range runs {
				read += len(run.Records)
			}
		}
		n += 20 * len(batch)
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
}

// TestATopicMadeAgainIsNotReadOn: a position belongs to the topic it was given for, not to another
// one that has its name now.
func TestATopicMadeAgainIsNotReadOn(t *testing.T) {
	k, broker := kafka(t)
	create(t, k, "t", 1)
	p := producer(t, k)
	send(t, p, at("t", 0), numbered(0, 5)...)
	require.NoError(t, p.Flush(ctxOf(t)))
	cons := consumer(t, k)
	cons.Assign(at("t", 0), 0)
	collect(t, cons, at("t", 0), 5)

	admin := kadm.NewClient(broker.Client())
	_, err := admin.DeleteTopic(ctxOf(t), "t")
	require.NoError(t, err)
	create(t, k, "t", 1)
	again := producer(t, k)
	send(t, again, at("t", 0), numbered(0, 9)...)
	require.NoError(t, again.Flush(ctxOf(t)))
	for {
		runs, err := cons.Poll(ctxOf(t))
		if err != nil {
			require.ErrorIs(t, err, client.ErrUnknownTopic)
			break
		}
		require.Empty(t, runs, "records of another topic")
	}
}

// TestTroubleOfABrokerThatIsGone: what reads and what has sent tells since when there is no answer,
// after a while and with the failure to connect, until there is one. Who waits for nothing has no
// trouble.
func TestTroubleOfABrokerThatIsGone(t *testing.T) {
	for kind, use := range map[string]func(*testing.T, *client.Kafka) string{
		"reads": func(t *testing.T, k *client.Kafka) string {
			consumer(t, k).Assign(at("t", 0), 0)
			return "t-0 "
		},
		"sends": func(t *testing.T, k *client.Kafka) string {
			p := producer(t, k)
			go func() { _, _ = p.Send(t.Context(), at("t", 0), numbered(0, 1)) }()
			return "bytes of records are not acknowledged"
		},
		"nothing": func(*testing.T, *client.Kafka) string { return "" },
	} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k, broker := kafka(t)
				create(t, k, "t", 1)
				require.False(t, k.Trouble().Is())
				broker.Stop()
				gone := time.Now()
				want := use(t, k)
				time.Sleep(time.Second)
				require.False(t, k.Trouble().Is(), "it may be back in a moment")
				time.Sleep(9 * time.Second)
				trouble := k.Trouble()
				require.Equal(t, want != "", trouble.Is())
				if want != "" {
					require.WithinDuration(t, gone, trouble.Since, time.Second)
					require.Contains(t, trouble.Error, want)
					require.Contains(t, trouble.Error, "connect to ")
				}
				broker.Start()
				time.Sleep(10 * time.Second)
				require.False(t, k.Trouble().Is(), "%+v", k.Trouble())
			})
		})
	}
}
