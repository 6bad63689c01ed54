package server_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/record"
)

// txnProducer writes transactions of one batch after the other, with requests of version 1 of the
// transaction protocol.
type txnProducer struct {
	w     *wire
	name  string
	id    int64
	epoch int16
	next  map[string]int32 // sequence by topic-partition
}

// passing are codes of a coordinator that is about to be ready, or still busy.
var passing = []int16{14, 15, 16, 51}

// settled repeats ask until its code is none that passes.
func settled(w *wire, ask func() int16) int16 {
	w.t.Helper()
	code := int16(-1)
	require.Eventually(w.t, func() bool {
		code = ask()
		return !slices.Contains(passing, code)
	}, waitLong, waitShort)
	return code
}

// newTxnProducer asks for a producer id.
func newTxnProducer(w *wire, name string) *txnProducer {
	w.t.Helper()
	p := &txnProducer{w: w, name: name, next: map[string]int32{}}
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.SetVersion(3)
	find.CoordinatorKey, find.CoordinatorType = name, 1
	require.Zero(w.t, settled(w, func() int16 {
		return ask[*kmsg.FindCoordinatorResponse](w, find).ErrorCode
	}))
	req := kmsg.NewPtrInitProducerIDRequest()
	req.SetVersion(3)
	req.TransactionalID, req.TransactionTimeoutMillis = &name, 60000
	req.ProducerID, req.ProducerEpoch = -1, -1
	require.Zero(w.t, settled(w, func() int16 {
		resp := ask[*kmsg.InitProducerIDResponse](w, req)
		p.id, p.epoch = resp.ProducerID, resp.ProducerEpoch
		return resp.ErrorCode
	}))
	return p
}

// put appends a batch of n records to a partition, within the open transaction or a new one.
func (p *txnProducer) put(topic string, partition int32, n int) {
	p.w.t.Helper()
	add := kmsg.NewPtrAddPartitionsToTxnRequest()
	add.SetVersion(3)
	add.TransactionalID, add.ProducerID, add.ProducerEpoch = p.name, p.id, p.epoch
	rt := kmsg.NewAddPartitionsToTxnRequestTopic()
	rt.Topic, rt.Partitions = topic, []int32{partition}
	add.Topics = append(add.Topics, rt)
	require.Zero(p.w.t, settled(p.w, func() int16 {
		return ask[*kmsg.AddPartitionsToTxnResponse](p.w, add).Topics[0].Partitions[0].ErrorCode
	}))
	key := fmt.Sprint(topic, partition)
	b := batch(p.w.t, n, record.BuilderOptions{
		Idempotent: true, Transactional: true, ProducerID: p.id, ProducerEpoch: p.epoch,
		BaseSequence: p.next[key],
	})
	req := produceRequest(9, topic, [16]byte{}, partition, b)
	req.TransactionID = &p.name
	require.Zero(p.w.t, produceOne(p.w, req).ErrorCode)
	p.next[key] += int32(n)
}

// end commits or aborts, and waits until the marker is in the partition, whose end is then at end.
func (p *txnProducer) end(commit bool, topic string, partition int32, end int64) {
	p.w.t.Helper()
	req := kmsg.NewPtrEndTxnRequest()
	req.SetVersion(3)
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = p.name, p.id, p.epoch
	req.Commit = commit
	require.Zero(p.w.t, settled(p.w, func() int16 {
		return ask[*kmsg.EndTxnResponse](p.w, req).ErrorCode
	}))
	require.Eventually(p.w.t, func() bool {
		got := fetchOne(p.w, fetchRequest(12, topic, [16]byte{}, partition, 0))
		return got.HighWatermark == end
	}, waitLong, waitShort)
	// The next marker shall be a later one: the log is asked for the record with the largest time.
	now := time.Now().UnixMilli()
	require.Eventually(p.w.t, func() bool { return time.Now().UnixMilli() > now }, waitLong,
		waitShort)
}

// transactions reads a log of overlapping transactions from every offset, after each step.
func (w *readWire) transactions() {
	id, on := w.topic("txns", 1), w.dial()
	first, second := newTxnProducer(w.dial(), "first"), newTxnProducer(w.dial(), "second")
	ids := map[int64]string{first.id: "first", second.id: "second"}
	end := int64(0)
	step := func(what string, offsets int64, do func()) {
		do()
		end += offsets
		for _, version := range []int16{4, 12, 18} {
			for _, iso := range []int8{0, 1} {
				for offset := range end + 2 {
					w.readTxn(on, id, ids, what, version, iso, offset)
				}
			}
		}
		for _, iso := range []int8{0, 1} {
			for _, ts := range []int64{-1, -2, -3, -4, 0, 1_700_000_000_001, 1_700_000_000_002} {
				req := kmsg.NewPtrListOffsetsRequest()
				req.SetVersion(8)
				req.ReplicaID, req.IsolationLevel = -1, iso
				rt, rp := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
				rt.Topic, rp.Timestamp = "txns", ts
				rt.Partitions = append(rt.Partitions, rp)
				req.Topics = append(req.Topics, rt)
				got := ask[*kmsg.ListOffsetsResponse](on, req).Topics[0].Partitions[0]
				at := fmt.Sprint(got.Timestamp)
				if got.Timestamp > 1_700_000_001_000 {
					at = "now" // a marker's
				}
				fmt.Fprintf(&w.out, "txn list %s iso%d ts%d : error %d time %s offset %d\n", what,
					iso, ts, got.ErrorCode, at, got.Offset)
			}
		}
	}
	step("first writes", 2, func() { first.put("txns", 0, 2) })
	step("second writes", 1, func() { second.put("txns", 0, 1) })
	step("first writes again", 1, func() { first.put("txns", 0, 1) })
	step("second aborts", 1, func() { second.end(false, "txns", 0, end+1) })
	step("first aborts", 1, func() { first.end(false, "txns", 0, end+1) })
	step("plain write", 3, func() { w.put(on, "txns", 0, 5, 1_700_000_000_003, 7) })
	step("second writes once more", 2, func() { second.put("txns", 0, 2) })
	step("second commits", 1, func() { second.end(true, "txns", 0, end+1) })
	step("first writes last", 1, func() { first.put("txns", 0, 1) })
	step("first commits", 1, func() { first.end(true, "txns", 0, end+1) })
}

// readTxn writes down what a fetch from an offset tells.
func (w *readWire) readTxn(
	on *wire, id [16]byte, ids map[int64]string, what string, version int16, iso int8, offset int64,
) {
	req := fetchRequest(version, "txns", id, 0, offset)
	req.IsolationLevel = iso
	got := fetchOne(on, req)
	fmt.Fprintf(&w.out, "txn fetch %s v%d iso%d %d : error %d hw %d lso %d", what, version, iso,
		offset, got.ErrorCode, got.HighWatermark, got.LastStableOffset)
	if got.AbortedTransactions != nil {
		w.out.WriteString(" aborted")
	}
	// Kafka has them in the order of their markers, which some clients cannot take: see
	// TestBug_franzgo_b9b50cce_AbortedInOrderOfTheirFirstOffset.
	slices.SortFunc(got.AbortedTransactions,
		func(a, b kmsg.FetchResponseTopicPartitionAbortedTransaction) int {
			return int(a.FirstOffset - b.FirstOffset)
		})
	for _, a := range got.AbortedTransactions {
		fmt.Fprintf(&w.out, " %s from %d", ids[a.ProducerID], a.FirstOffset)
	}
	w.out.WriteString(" batches")
	for rest := got.RecordBatches; len(rest) > 0; {
		b, next, err := record.Next(rest)
		require.NoError(w.t, err)
		fmt.Fprintf(&w.out, " %d+%d", b.BaseOffset(), b.Count())
		rest = next
	}
	w.out.WriteString("\n")
}
