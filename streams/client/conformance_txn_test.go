package client_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/client"
)

func transactor(t testing.TB, c client.Cluster, id string) client.Transactor {
	t.Helper()
	x, err := c.Transactor(ctxOf(t), id)
	require.NoError(t, err)
	t.Cleanup(x.Close)
	return x
}

// nothing asserts that a consumer gets no record for a while.
func nothing(t testing.TB, c client.Consumer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	for {
		runs, err := c.Poll(ctx)
		if err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded)
			return
		}
		for _, run := range runs {
			require.Empty(t, run.Records)
		}
	}
}

func offsetsOf(t testing.TB, c client.Cluster, group string) map[client.TopicPartition]int64 {
	t.Helper()
	have, err := c.Admin().CommittedOffsets(ctxOf(t), group)
	require.NoError(t, err)
	return have
}

// conformTransactions: what a transaction holds, in all partitions and in the group, shows when it
// is committed, and never when it is aborted.
func conformTransactions(t *testing.T, c client.Cluster) {
	create(t, c, "a", 2)
	create(t, c, "b", 1)
	x := transactor(t, c, "x")
	require.NoError(t, x.Commit(ctxOf(t), "g", map[client.TopicPartition]int64{at("a", 0): 1}),
		"without a record nothing is done")
	require.Empty(t, offsetsOf(t, c, "g"))
	cons := consumer(t, c)
	for _, tp := range []client.TopicPartition{at("a", 0), at("a", 1), at("b", 0)} {
		cons.Assign(tp, 0)
		send(t, x, tp, numbered(0, 3)...)
	}
	require.NoError(t, x.Flush(ctxOf(t)))
	require.EqualValues(t, 3, x.Acked(at("a", 1)))
	nothing(t, cons)
	require.NoError(t, x.Commit(ctxOf(t), "g", map[client.TopicPartition]int64{at("b", 0): 7}))
	got := map[client.TopicPartition][]string{}
	for len(got[at("a", 0)])+len(got[at("a", 1)])+len(got[at("b", 0)]) < 9 {
		runs, err := cons.Poll(ctxOf(t))
		require.NoError(t, err)
		for _, run := range runs {
			for _, r := range run.Records {
				got[run.TopicPartition] = append(got[run.TopicPartition], string(r.Value))
			}
		}
	}
	require.Equal(t, map[client.TopicPartition][]string{at("a", 0): values(0, 3),
		at("a", 1): values(0, 3), at("b", 0): values(0, 3)}, got)
	require.NoError(t, x.Readable(ctxOf(t)))
	require.Equal(t, map[client.TopicPartition]int64{at("b", 0): 7}, offsetsOf(t, c, "g"))

	send(t, x, at("b", 0), numbered(3, 5)...)
	require.NoError(t, x.Flush(ctxOf(t)))
	x.Abort(ctxOf(t))
	_, err := x.Send(ctxOf(t), at("b", 0), numbered(5, 6))
	require.Error(t, err, "nothing is sent after an abort")
	y := transactor(t, c, "x")
	send(t, y, at("b", 0), numbered(5, 7)...)
	require.NoError(t, y.Commit(ctxOf(t), "g", nil))
	after, next := collect(t, cons, at("b", 0), 2)
	require.Equal(t, []string{"5", "6"}, after)
	ranges, err := c.Admin().Ranges(ctxOf(t), at("b", 0))
	require.NoError(t, err)
	// 3 records, marker, 2 aborted, marker, 2 records, marker; the client may not have seen the last
	require.Equal(t, client.Range{Start: 0, End: 10}, ranges[at("b", 0)])
	require.GreaterOrEqual(t, next, int64(9))
	read := 0
	require.NoError(t, client.ReadRange(ctxOf(t), consumer(t, c), at("b", 0), 0, 10,
		func(records []record.Record) error {
			read += len(records)
			return nil
		}), "the range ends with a marker")
	require.Equal(t, 5, read)
}

// conformZombies: who took an id over ends the open transaction of its last holder, which can do
// nothing any more.
func conformZombies(t *testing.T, c client.Cluster) {
	create(t, c, "a", 1)
	zombie := transactor(t, c, "x")
	send(t, zombie, at("a", 0), numbered(0, 3)...)
	require.NoError(t, zombie.Flush(ctxOf(t)))
	x := transactor(t, c, "x")
	send(t, x, at("a", 0), numbered(3, 5)...)
	require.NoError(t, x.Commit(ctxOf(t), "g", nil))
	require.ErrorIs(t, zombie.Commit(ctxOf(t), "g",
		map[client.TopicPartition]int64{at("a", 0): 3}), client.ErrLost)
	_, err := zombie.Send(ctxOf(t), at("a", 0), numbered(5, 6))
	require.ErrorIs(t, err, client.ErrLost)
	send(t, x, at("a", 0), numbered(5, 6)...)
	require.NoError(t, x.Commit(ctxOf(t), "g", nil), "others are not concerned")
	cons := consumer(t, c)
	cons.Assign(at("a", 0), 0)
	got, _ := collect(t, cons, at("a", 0), 3)
	require.Equal(t, values(3, 6), got)
	require.Empty(t, offsetsOf(t, c, "g"))
}

// conformLargeInTransaction: records that need a batch of their own are in the same transaction,
// in their place, and batches of the others stay below what any topic takes.
func conformLargeInTransaction(t *testing.T, c client.Cluster) {
	spec := client.TopicSpec{Name: "big", Partitions: 1,
		Configs: map[string]string{"max.message.bytes": client.LargeRecords}}
	require.NoError(t, c.Admin().CreateTopics(ctxOf(t), spec))
	create(t, c, "usual", 1)
	x := transactor(t, c, "x")
	send(t, x, at("big", 0), record.Record{Value: []byte("before")})
	send(t, x, at("big", 0), record.Record{Value: bytes.Repeat([]byte("x"), 5<<20)})
	var many []record.Record
	for i := range 3000 { // 3 MB
		many = append(many, record.Record{Value: fmt.Appendf(nil, "%01000d", i)})
	}
	send(t, x, at("usual", 0), many...)
	send(t, x, at("big", 0), record.Record{Value: []byte("after")})
	require.NoError(t, x.Commit(ctxOf(t), "g", nil))
	cons := consumer(t, c)
	cons.Assign(at("big", 0), 0)
	got, _ := collect(t, cons, at("big", 0), 3)
	require.Equal(t, []int{6, 5 << 20, 5}, []int{len(got[0]), len(got[1]), len(got[2])})
	cons.Assign(at("usual", 0), 0)
	got, _ = collect(t, cons, at("usual", 0), 3000)
	for i, v := range got {
		require.Equal(t, fmt.Sprintf("%01000d", i), v)
	}
}

// conformReadable: what was committed can be read when Readable returns, also behind a transaction
// of another producer, and an error names the partition it waited for.
func conformReadable(t *testing.T, c client.Cluster) {
	create(t, c, "a", 2)
	x := transactor(t, c, "x")
	require.NoError(t, x.Readable(ctxOf(t)), "nothing is written")
	send(t, x, at("a", 0), numbered(0, 3)...)
	require.NoError(t, x.Commit(ctxOf(t), "g", map[client.TopicPartition]int64{at("a", 0): 7}))
	require.NoError(t, x.Readable(ctxOf(t)))
	require.Equal(t, map[client.TopicPartition]int64{at("a", 0): 7}, offsetsOf(t, c, "g"))

	other := transactor(t, c, "other")
	send(t, other, at("a", 1), numbered(0, 2)...)
	require.NoError(t, other.Flush(ctxOf(t)))
	send(t, x, at("a", 1), numbered(0, 3)...)
	require.NoError(t, x.Commit(ctxOf(t), "g", nil))
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := x.Readable(short)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "a-1 is read up to 0 of 5 only")
	readable := make(chan error)
	go func() { readable <- x.Readable(ctxOf(t)) }()
	require.NoError(t, other.Commit(ctxOf(t), "g", nil))
	require.NoError(t, <-readable)
}
