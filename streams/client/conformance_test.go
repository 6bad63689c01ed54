package client_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kafka returns an adapter to a broker in this process.
func kafka(t testing.TB) (*client.Kafka, *coretest.Cluster) {
	t.Helper()
	broker := coretest.Start(t, coretest.Options{})
	k, err := client.NewKafka(client.Options{
		Seeds: []string{broker.Addr()}, Dialer: broker.Dialer(),
		FetchWait: 20 * time.Millisecond,
	})
	require.NoError(t, err)
	t.Cleanup(k.Close)
	return k, broker
}

// clusters are the implementations of the ports; each gets the same suite.
var clusters = map[string]func(t testing.TB) client.Cluster{
	"memory": func(testing.TB) client.Cluster { return client.NewMemory() },
	"kafka": func(t testing.TB) client.Cluster {
		k, _ := kafka(t)
		return k
	},
}

func TestConformance(t *testing.T) {
	suite := map[string]func(*testing.T, client.Cluster){
		"records come back as they were sent": conformRoundTrip,
		"positions":                           conformPositions,
		"pause":                               conformPause,
		"two producers":                       conformProducers,
		"produce errors are told":             conformProduceErrors,
		"large records keep their place":      conformLarge,
		"offsets of times":                    conformOffsetsAt,
		"topics":                              conformTopics,
		"delete records":                      conformDelete,
		"group offsets":                       conformGroup,
		"read range":                          conformReadRange,
		"closed":                              conformClosed,
		"transactions":                        conformTransactions,
		"groups":                              conformMembers,
		"zombies":                             conformZombies,
		"readable":                            conformReadable,
		"large records in transactions":       conformLargeInTransaction,
	}
	for kind, open := range clusters {
		for name, test := range suite {
			t.Run(kind+"/"+name, func(t *testing.T) { test(t, open(t)) })
		}
	}
}

func at(topic string, partition int32) client.TopicPartition {
	return client.TopicPartition{Topic: topic, Partition: partition}
}

// ctxOf bounds a test that would otherwise wait for ever.
func ctxOf(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func create(t testing.TB, c client.Cluster, name string, partitions int32) {
	t.Helper()
	require.NoError(t, c.Admin().CreateTopics(ctxOf(t),
		client.TopicSpec{Name: name, Partitions: partitions}))
}

func producer(t testing.TB, c client.Cluster) client.Producer {
	t.Helper()
	p, err := c.Producer()
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

func consumer(t testing.TB, c client.Cluster) client.Consumer {
	t.Helper()
	cons, err := c.Consumer()
	require.NoError(t, err)
	t.Cleanup(cons.Close)
	return cons
}

func send(t testing.TB, p client.Producer, tp client.TopicPartition, recs ...record.Record) {
	t.Helper()
	n, err := p.Send(ctxOf(t), tp, recs)
	require.NoError(t, err)
	require.Equal(t, len(recs), n)
}

// numbered returns records with the values from..to-1.
func numbered(from, to int) []record.Record {
	var recs []record.Record
	for i := from; i < to; i++ {
		recs = append(recs, record.Record{Value: []byte(fmt.Sprint(i)), Timestamp: int64(i)})
	}
	return recs
}

// collect polls until n records of tp came and returns their values and the last position.
func collect(t testing.TB, c client.Consumer, tp client.TopicPartition, n int) ([]string, int64) {
	t.Helper()
	var values []string
	next, last := int64(0), int64(-1)
	for len(values) < n {
		runs, err := c.Poll(ctxOf(t))
		require.NoError(t, err)
		for _, run := range runs {
			if run.TopicPartition != tp {
				continue
			}
			for _, r := range run.Records {
				require.Greater(t, r.Offset, last)
				last = r.Offset
				values = append(values, string(r.Value))
			}
			require.Greater(t, run.Next, last)
			next = run.Next
		}
	}
	return values, next
}

func values(from, to int) []string {
	var out []string
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprint(i))
	}
	return out
}

func conformRoundTrip(t *testing.T, c client.Cluster) {
	create(t, c, "t", 1)
	sent := []record.Record{
		{Timestamp: 1000, Key: []byte("k"), Value: []byte("v")},
		{Timestamp: 999, Key: nil, Value: []byte("null key")},
		{Timestamp: 5, Key: []byte("tombstone"), Value: nil},
		{Timestamp: 0, Key: []byte{}, Value: []byte{}},
		{Timestamp: 7, Value: []byte("h"), Headers: []record.Header{
			{Key: "a", Value: []byte("1")}, {Key: "a", Value: nil}, {Key: "", Value: []byte{}},
		}},
	}
	p := producer(t, c)
	require.EqualValues(t, -1, p.Acked(at("t", 0)))
	send(t, p, at("t", 0), sent...)
	require.NoError(t, p.Flush(ctxOf(t)))
	require.EqualValues(t, len(sent), p.Acked(at("t", 0)))

	cons := consumer(t, c)
	cons.Assign(at("t", 0), 0)
	var have []record.Record
	for len(have) < len(sent) {
		runs, err := cons.Poll(ctxOf(t))
		require.NoError(t, err)
		for _, run := range runs {
			have = append(have, run.Records...)
		}
	}
	for i := range sent {
		sent[i].Offset = int64(i)
	}
	require.Equal(t, sent, have)
}

func conformPositions(t *testing.T, c client.Cluster) {
	create(t, c, "t", 2)
	p := producer(t, c)
	send(t, p, at("t", 0), numbered(0, 100)...)
	send(t, p, at("t", 1), numbered(0, 10)...)
	require.NoError(t, p.Flush(ctxOf(t)))
	cons := consumer(t, c)
	cons.Assign(at("t", 0), 40)
	got, next := collect(t, cons, at("t", 0), 60)
	require.Equal(t, values(40, 100), got)
	require.EqualValues(t, 100, next)

	cons.Assign(at("t", 0), 90) // back
	cons.Assign(at("t", 1), 10) // at the end: nothing yet
	got, _ = collect(t, cons, at("t", 0), 10)
	require.Equal(t, values(90, 100), got)

	cons.Unassign(at("t", 0))
	send(t, p, at("t", 0), numbered(100, 110)...)
	send(t, p, at("t", 1), numbered(10, 20)...)
	got, _ = collect(t, cons, at("t", 1), 10)
	require.Equal(t, values(10, 20), got)

	cons.Assign(at("t", 0), 5000)
	for {
		runs, err := cons.Poll(ctxOf(t))
		if err != nil {
			require.ErrorIs(t, err, client.ErrOffsetOutOfRange)
			require.ErrorContains(t, err, "t-0 at 5000")
			break
		}
		require.NotEmpty(t, runs)
	}
}

func conformPause(t *testing.T, c client.Cluster) {
	create(t, c, "t", 2)
	p := producer(t, c)
	cons := consumer(t, c)
	cons.Assign(at("t", 0), 0)
	cons.Assign(at("t", 1), 0)
	send(t, p, at("t", 0), numbered(0, 5)...)
	collect(t, cons, at("t", 0), 5)
	cons.Pause(at("t", 0))
	send(t, p, at("t", 0), numbered(5, 10)...)
	send(t, p, at("t", 1), numbered(0, 5)...)
	require.NoError(t, p.Flush(ctxOf(t)))
	for n := 0; n < 5; {
		runs, err := cons.Poll(ctxOf(t))
		require.NoError(t, err)
		for _, run := range runs {
			require.Equal(t, at("t", 1), run.TopicPartition)
			n += len(run.Records)
		}
	}
	cons.Resume(at("t", 0))
	got, _ := collect(t, cons, at("t", 0), 5)
	require.Equal(t, values(5, 10), got)
}

func conformProducers(t *testing.T, c client.Cluster) {
	create(t, c, "t", 1)
	a, b := producer(t, c), producer(t, c)
	for i := range 20 {
		send(t, a, at("t", 0), numbered(i*10, i*10+10)...)
	}
	require.NoError(t, a.Flush(ctxOf(t)))
	require.EqualValues(t, 200, a.Acked(at("t", 0)))
	require.EqualValues(t, -1, b.Acked(at("t", 0)))
	send(t, b, at("t", 0), numbered(200, 201)...)
	require.NoError(t, b.Flush(ctxOf(t)))
	require.EqualValues(t, 201, b.Acked(at("t", 0)))
	cons := consumer(t, c)
	cons.Assign(at("t", 0), 0)
	got, _ := collect(t, cons, at("t", 0), 201)
	require.Equal(t, values(0, 201), got, "in the order they were sent")
}

func conformProduceErrors(t *testing.T, c client.Cluster) {
	create(t, c, "t", 1)
	p := producer(t, c)
	send(t, p, at("t", 0), numbered(0, 1)...)
	_, err := p.Send(ctxOf(t), at("no-such-topic", 0), numbered(0, 5))
	if err == nil {
		err = p.Flush(ctxOf(t))
	}
	require.ErrorIs(t, err, client.ErrProduce)
	require.ErrorIs(t, err, client.ErrUnknownTopic)
	_, err = p.Send(ctxOf(t), at("t", 0), numbered(1, 2))
	require.ErrorIs(t, err, client.ErrProduce, "nothing is sent behind a failure")
	require.ErrorIs(t, p.Flush(ctxOf(t)), client.ErrProduce, "and every flush tells")
	send(t, producer(t, c), at("t", 0), numbered(1, 2)...) // others are not concerned
}

func conformTopics(t *testing.T, c client.Cluster) {
	create(t, c, "a", 3)
	create(t, c, "a", 1) // left as it is
	infos, err := c.Admin().Topics(ctxOf(t), "a", "b")
	require.NoError(t, err)
	require.Len(t, infos, 1)
	require.EqualValues(t, 3, infos["a"].Partitions)
	require.NotEmpty(t, infos["a"].ID)
	for _, n := range []int{7, 1} {
		p := producer(t, c)
		send(t, p, at("a", 2), numbered(0, n)...)
		require.NoError(t, p.Flush(ctxOf(t)))
	}
	ranges, err := c.Admin().Ranges(ctxOf(t), at("a", 0), at("a", 2))
	require.NoError(t, err)
	require.Equal(t, map[client.TopicPartition]client.Range{
		at("a", 0): {Start: 0, End: 0}, at("a", 2): {Start: 0, End: 8},
	}, ranges)
	_, err = c.Admin().Ranges(ctxOf(t), at("a", 3))
	require.ErrorIs(t, err, client.ErrUnknownTopic)
	_, err = c.Admin().Ranges(ctxOf(t), at("b", 0))
	require.ErrorIs(t, err, client.ErrUnknownTopic)
}

func conformDelete(t *testing.T, c client.Cluster) {
	create(t, c, "a", 1)
	p := producer(t, c)
	send(t, p, at("a", 0), numbered(0, 10)...)
	require.NoError(t, p.Flush(ctxOf(t)))
	for _, before := range []int64{6, 3} { // the start never moves back
		require.NoError(t, c.Admin().DeleteRecords(ctxOf(t),
			map[client.TopicPartition]int64{at("a", 0): before}))
		ranges, err := c.Admin().Ranges(ctxOf(t), at("a", 0))
		require.NoError(t, err)
		require.Equal(t, client.Range{Start: 6, End: 10}, ranges[at("a", 0)])
	}
	cons := consumer(t, c)
	cons.Assign(at("a", 0), 6)
	got, _ := collect(t, cons, at("a", 0), 4)
	require.Equal(t, values(6, 10), got)
}

func conformGroup(t *testing.T, c client.Cluster) {
	create(t, c, "a", 2)
	none, err := c.Admin().CommittedOffsets(ctxOf(t), "g")
	require.NoError(t, err)
	require.Empty(t, none)
	commit := func(offsets map[client.TopicPartition]int64) {
		require.NoError(t, c.Admin().CommitOffsets(ctxOf(t), "g", offsets))
	}
	commit(map[client.TopicPartition]int64{at("a", 0): 3, at("a", 1): 4})
	commit(map[client.TopicPartition]int64{at("a", 1): 5})
	have, err := c.Admin().CommittedOffsets(ctxOf(t), "g")
	require.NoError(t, err)
	require.Equal(t, map[client.TopicPartition]int64{at("a", 0): 3, at("a", 1): 5}, have)
	notes := map[client.TopicPartition]string{at("a", 0): "three"}
	require.NoError(t, c.Admin().CommitNoted(ctxOf(t), "g", have, notes))
	got, err := c.Admin().Notes(ctxOf(t), "g")
	require.NoError(t, err)
	require.Equal(t, notes, got)
}

func conformReadRange(t *testing.T, c client.Cluster) {
	create(t, c, "a", 1)
	p := producer(t, c)
	send(t, p, at("a", 0), numbered(0, 2500)...)
	require.NoError(t, p.Flush(ctxOf(t)))
	cons := consumer(t, c)
	for _, r := range []client.Range{{Start: 0, End: 2500}, {Start: 7, End: 8}, {Start: 5, End: 5},
		{Start: 100, End: 1900}} {
		var got []string
		require.NoError(t, client.ReadRange(ctxOf(t), cons, at("a", 0), r.Start, r.End,
			func(recs []record.Record) error {
				for _, rec := range recs {
					got = append(got, string(rec.Value))
				}
				return nil
			}))
		require.Equal(t, values(int(r.Start), int(r.End)), got)
	}
}

func conformClosed(t *testing.T, c client.Cluster) {
	create(t, c, "a", 1)
	p := producer(t, c)
	p.Close()
	_, err := p.Send(ctxOf(t), at("a", 0), numbered(0, 1))
	require.ErrorIs(t, err, client.ErrClosed)
	cons := consumer(t, c)
	cons.Close()
	_, err = cons.Poll(ctxOf(t))
	require.ErrorIs(t, err, client.ErrClosed)
	cons = consumer(t, c)
	cons.Assign(at("a", 0), 0)
	ctx, cancel := context.WithCancel(ctxOf(t))
	cancel()
	_, err = cons.Poll(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

// conformLarge: records that need a batch of their own stay between those sent before and after.
func conformLarge(t *testing.T, c client.Cluster) {
	ctx := ctxOf(t)
	require.NoError(t, c.Admin().CreateTopics(ctx, client.TopicSpec{Name: "large", Partitions: 1,
		Configs: map[string]string{"max.message.bytes": client.LargeRecords}}))
	p, err := c.Producer()
	require.NoError(t, err)
	defer p.Close()
	sizes := []int{1, 2, 3 << 20, 4, 1 << 20, 2 << 20, 7, 8}
	var sent []record.Record
	for _, n := range sizes {
		sent = append(sent, record.Record{Timestamp: 1, Value: make([]byte, n)})
	}
	n, err := p.Send(ctx, at("large", 0), sent)
	require.NoError(t, err)
	require.Equal(t, len(sizes), n)
	require.NoError(t, p.Flush(ctx))
	require.EqualValues(t, len(sizes), p.Acked(at("large", 0)))
	consumer, err := c.Consumer()
	require.NoError(t, err)
	defer consumer.Close()
	var got []int
	require.NoError(t, client.ReadRange(ctx, consumer, at("large", 0), 0, int64(len(sizes)),
		func(records []record.Record) error {
			for _, r := range records {
				got = append(got, len(r.Value))
			}
			return nil
		}))
	require.Equal(t, sizes, got)
}

// conformOffsetsAt: the first record at or after a time, as Kafka's ListOffsets has it; the end
// when there is none.
func conformOffsetsAt(t *testing.T, c client.Cluster) {
	ctx := ctxOf(t)
	create(t, c, "times", 2)
	p, err := c.Producer()
	require.NoError(t, err)
	defer p.Close()
	for _, ms := range []int64{100, 200, 300} {
		_, err := p.Send(ctx, at("times", 0), []record.Record{{Timestamp: ms, Value: []byte("x")}})
		require.NoError(t, err)
	}
	require.NoError(t, p.Flush(ctx))
	for ms, want := range map[int64]int64{-5: 0, -1: 0, 50: 0, 100: 0, 101: 1, 300: 2, 301: 3} {
		got, err := c.Admin().OffsetsAt(ctx, ms, at("times", 0), at("times", 1))
		require.NoError(t, err)
		require.Equal(t, map[client.TopicPartition]int64{at("times", 0): want, at("times", 1): 0},
			got, "at %d ms", ms)
	}
	_, err = c.Admin().OffsetsAt(ctx, 1, at("nowhere", 0))
	require.ErrorIs(t, err, client.ErrUnknownTopic)
}
