package replica

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/storage"
	"github.com/millstream-io/millstream/core/vfs"
)

// write appends one record of producer id's transaction, with the guard it needs.
func (c *cluster) write(p *Partition, id int64, seq int32) {
	c.t.Helper()
	b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: -1, Idempotent: true,
		Transactional: true, ProducerID: id, BaseSequence: seq})
	b.Append(record.Record{Timestamp: time.Now().UnixMilli(), Value: []byte("x")})
	batch, err := b.Build()
	require.NoError(c.t, err)
	guard, _, err := p.StartVerification(id, 0, seq)
	require.NoError(c.t, err)
	_, err = p.Append(batch, AppendOptions{Acks: AcksAll, Guard: guard, TransactionVersion: 2})
	require.NoError(c.t, err)
}

// end appends a marker, which ends the transaction of producer id.
func (c *cluster) end(p *Partition, id int64, kind record.ControlType) {
	c.t.Helper()
	_, err := p.Append(record.ControlBatch(record.ControlOptions{Type: kind, ProducerID: id,
		ProducerEpoch: 1, Timestamp: time.Now().UnixMilli() + 1000}),
		AppendOptions{Acks: AcksAll, Origin: storage.FromTxnCoordinator, TransactionVersion: 2})
	require.NoError(c.t, err)
}

// nextRead returns where a read from offset 0 would go on.
func nextRead(t *testing.T, p *Partition, committed bool) int64 {
	t.Helper()
	chunk, err := p.Read(ReadRequest{MaxBytes: 1 << 20, MinOne: true, LeaderEpoch: -1,
		Committed: committed})
	require.NoError(t, err)
	chunk.Release()
	return chunk.NextOffset()
}

// Offsets: producer 1 writes 0 and 2, producer 2 writes 1; markers of 2 and 1 at 3 and 4. A marker
// counts once it is synced, and the last stable offset is exclusive (redpanda#3036).
func TestLastStableOffsetFollowsMarkersThatAreCommitted(t *testing.T) {
	c := newCluster(t, vfs.NewMem())
	c.create("orders", topicA, 1)
	p := c.partition()
	c.write(p, 1, 0)
	c.write(p, 2, 0)
	c.write(p, 1, 1)
	require.NoError(t, p.Log().Sync(t.Context()))
	require.Equal(t, int64(3), p.HighWatermark())
	require.Zero(t, p.LastStableOffset())
	require.Equal(t, int64(3), nextRead(t, p, false))
	require.Zero(t, nextRead(t, p, true))
	require.Equal(t, []int64{0, 1}, []int64{p.Producers()[0].TxnStartOffset,
		p.Producers()[1].TxnStartOffset})

	first, third, all := newWoken(), newWoken(), newWoken()
	require.True(t, p.WaitStable(0, first))
	require.True(t, p.WaitStable(4, all))
	require.True(t, p.WaitStable(2, third))
	p.Forget(third)
	c.end(p, 2, record.ControlAbort)
	c.end(p, 1, record.ControlCommit)
	require.Zero(t, p.LastStableOffset(), "the markers are not committed")
	require.Empty(t, first.n)
	require.NoError(t, p.Log().Sync(t.Context()))
	<-first.n
	<-all.n
	require.Empty(t, third.n)
	require.False(t, p.WaitStable(4, first))
	require.Equal(t, int64(5), p.LastStableOffset())
	require.Equal(t, int64(5), nextRead(t, p, true))
	list, err := p.AbortedTransactions(0, 5)
	require.NoError(t, err)
	require.Equal(t, []AbortedTransaction{{ProducerID: 2, FirstOffset: 1}}, list)
}

// ListOffsets with read_committed looks below the last stable offset (redpanda#3161).
func TestTimeLookupsWithReadCommitted(t *testing.T) {
	c := newCluster(t, vfs.NewMem())
	c.create("orders", topicA, 1)
	p := c.partition()
	_, err := p.Append(batch(t, "a"), AppendOptions{})
	require.NoError(t, err)
	c.write(p, 1, 0)
	require.NoError(t, p.Log().Sync(t.Context()))
	_, err = p.Append(batch(t, "b"), AppendOptions{})
	require.NoError(t, err)
	require.NoError(t, p.Log().Sync(t.Context()))
	require.NoError(t, p.DeleteRecords(1))
	for _, c := range []struct{ committed, found bool }{{false, true}, {true, false}} {
		_, ok, err := p.OffsetForTimestamp(0, c.committed)
		require.NoError(t, err)
		require.Equal(t, c.found, ok)
		_, ok, err = p.MaxTimestamp(c.committed)
		require.NoError(t, err)
		require.Equal(t, c.found, ok)
	}
}

// DeleteRecords over the head of an open transaction moves the last stable offset, and wakes.
func TestDeleteRecordsWakesWhoWaitsForStable(t *testing.T) {
	c := newCluster(t, vfs.NewMem())
	c.create("orders", topicA, 1)
	p := c.partition()
	c.write(p, 1, 0)
	_, err := p.Append(batch(t, "a", "b"), AppendOptions{})
	require.NoError(t, err)
	require.NoError(t, p.Log().Sync(t.Context()))
	w := newWoken()
	require.True(t, p.WaitStable(1, w))
	require.NoError(t, p.DeleteRecords(2))
	<-w.n
	require.Equal(t, int64(2), p.LastStableOffset())
}

// Who waits for a transaction's end must learn that the partition is gone, or led elsewhere.
func TestLosingThePartitionWakesWhoWaitsForStable(t *testing.T) {
	c := newCluster(t, vfs.NewMem())
	c.create("orders", topicA, 1)
	p := c.partition()
	c.write(p, 1, 0)
	w := newWoken()
	require.True(t, p.WaitStable(0, w))
	moved := led(topicA, 0, 1, node+1)
	moved.Partition.Replicas = []int32{node, node + 1}
	moved.Partition.ISR = moved.Partition.Replicas
	require.NoError(t, c.change(moved))
	<-w.n
	require.False(t, p.WaitStable(0, w))
	_, _, err := p.StartVerification(1, 0, 1)
	require.ErrorIs(t, err, ErrNotLeader)
	require.Zero(t, p.stable.count.Load())
}

// An open transaction in the partition must not make other appends allocate.
func TestMovingTheHighWatermarkBesideATransactionDoesNotAllocate(t *testing.T) {
	c := newCluster(t, vfs.NewMem())
	c.create("orders", topicA, 1)
	require.NoError(t, c.change(config(topicA, "flush", "os")))
	p := c.partition()
	c.write(p, 1, 0)
	c.write(p, 2, 0)
	c.end(p, 2, record.ControlAbort)
	b := record.Batch(batch(t, "x"))
	w := newWoken()
	require.True(t, p.WaitStable(0, w))
	require.Zero(t, testing.AllocsPerRun(2000, func() {
		b.SetBaseOffset(0)
		if _, err := p.Append(b, AppendOptions{Acks: AcksAll}); err != nil {
			t.Fatal(err)
		}
	}))
	require.Empty(t, w.n)
}

// stableWhenWoken notes the last stable offset at the time of its wake.
type stableWhenWoken struct {
	p *Partition
	n chan int64
}

func (w *stableWhenWoken) Wake() { w.n <- w.p.LastStableOffset() }

// TestAcknowledgedIsReadWithReadCommitted: who has an acknowledgement finds the record, also below
// the last stable offset.
func TestAcknowledgedIsReadWithReadCommitted(t *testing.T) {
	c := newCluster(t, vfs.NewMem())
	c.create("orders", topicA, 1)
	p := c.partition()
	w := &stableWhenWoken{p, make(chan int64, 1)}
	_, err := p.Append(batch(t, "a"), AppendOptions{Acks: AcksAll})
	require.NoError(t, err)
	require.True(t, p.WaitCommitted(1, w))
	require.NoError(t, p.Log().Sync(t.Context()))
	require.Equal(t, int64(1), <-w.n)
	require.False(t, p.WaitCommitted(1, w))
}
