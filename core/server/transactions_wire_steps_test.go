package server_test

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/record"
)

// inits asks InitProducerId for everything.
func (w *coordinatorWire) inits() {
	for _, version := range []int16{0, 1, 2, 3, 4, 5} {
		id := fmt.Sprint("c-init", version)
		w.tell("init new", version, w.initRequest(id, 60000))
		w.tell("init again", version, w.initRequest(id, 60000))
		w.tell("init empty id", version, w.initRequest("", 60000))
		w.tell("init without time", version, w.initRequest(id, 0))
		w.tell("init with negative time", version, w.initRequest(id, -1))
		w.tell("init with too much time", version, w.initRequest(id, 900_001))
		w.tell("init with most time", version, w.initRequest(id, 900_000))
		idle := kmsg.NewPtrInitProducerIDRequest()
		idle.TransactionTimeoutMillis = 60000
		w.tell("init without id", version, idle)
		if version < 3 {
			continue
		}
		require.Zero(w.t, w.tryInit(id))
		pid, epoch := w.pid, w.epoch
		w.tell("init raise", version, w.expect(id, pid, epoch))
		w.tell("init raise repeated", version, w.expect(id, pid, epoch))
		w.tell("init raise of long ago", version, w.expect(id, pid, epoch-1))
		w.tell("init raise of the future", version, w.expect(id, pid, epoch+5))
		w.tell("init raise of another", version, w.expect(id, pid+1_000_000, epoch+1))
		w.tell("init raise without id", version, w.expect(id, -1, epoch))
		w.tell("init raise without epoch", version, w.expect(id, pid, -1))
		w.tell("init raise of a new id", version, w.expect(id+"-new", pid, epoch))
		idle.ProducerID, idle.ProducerEpoch = pid, epoch
		w.tell("init raise without transactional id", version, idle)
		w.describe("init describe", id)
	}
}

// adds asks AddPartitionsToTxn in the versions of clients.
func (w *coordinatorWire) adds() {
	for _, version := range []int16{0, 1, 2, 3} {
		w.init(fmt.Sprint("c-add", version))
		w.tell("add", version, w.addRequest(wireTopic))
		w.tell("add again", version, w.addRequest(wireTopic))
		w.tell("add no such topic", version, w.addRequest("no-such"))
		w.tell("add one of two", version, w.addRequest(wireTopic, "no-such"))
		r := w.addRequest(wireTopic)
		r.Topics[0].Partitions = []int32{1, 99}
		w.tell("add one partition of two", version, r)
		r = w.addRequest(wireTopic)
		r.Topics[0].Partitions = []int32{-1}
		w.tell("add negative partition", version, r)
		w.faults(func(name, id string, pid int64, epoch int16) {
			r := w.addRequest(wireTopic)
			r.TransactionalID, r.ProducerID, r.ProducerEpoch = id, pid, epoch
			w.tell("add "+name, version, r)
		})
		w.describe("add describe", w.txnID)
	}
}

// faults calls ask with what a request can be wrong about.
func (w *coordinatorWire) faults(ask func(name, id string, pid int64, epoch int16)) {
	ask("old epoch", w.txnID, w.pid, w.epoch-1)
	ask("new epoch", w.txnID, w.pid, w.epoch+1)
	ask("other producer", w.txnID, w.pid+1_000_000, w.epoch)
	ask("no producer", w.txnID, -1, -1)
	ask("unknown id", "c-none", w.pid, w.epoch)
	ask("empty id", "", w.pid, w.epoch)
}

// addsOfBrokers asks AddPartitionsToTxn in the versions of brokers.
func (w *coordinatorWire) addsOfBrokers() {
	for _, version := range []int16{4, 5} {
		one := func(id string, pid int64, epoch int16, verify bool, topics ...string,
		) kmsg.AddPartitionsToTxnRequestTransaction {
			tx := kmsg.NewAddPartitionsToTxnRequestTransaction()
			tx.TransactionalID, tx.ProducerID, tx.ProducerEpoch = id, pid, epoch
			tx.VerifyOnly = verify
			for _, name := range topics {
				topic := kmsg.NewAddPartitionsToTxnRequestTransactionTopic()
				topic.Topic, topic.Partitions = name, []int32{0, 1}
				tx.Topics = append(tx.Topics, topic)
			}
			return tx
		}
		w.init(fmt.Sprint("c-brokers", version))
		for _, verify := range []bool{true, false} {
			tell := func(name string, txns ...kmsg.AddPartitionsToTxnRequestTransaction) {
				r := kmsg.NewPtrAddPartitionsToTxnRequest()
				r.Transactions = txns
				w.tell(fmt.Sprintf("brokers %s verify=%t", name, verify), version, r)
			}
			w.faults(func(name, id string, pid int64, epoch int16) {
				tell(name, one(id, pid, epoch, verify, wireTopic))
			})
			tell("good", one(w.txnID, w.pid, w.epoch, verify, wireTopic))
			tell("again", one(w.txnID, w.pid, w.epoch, true, wireTopic))
			tell("no such topic", one(w.txnID, w.pid, w.epoch, verify, wireTopic, "no-such"))
			tell("several", one(w.txnID, w.pid, w.epoch, verify, wireTopic),
				one("c-none", w.pid, w.epoch, verify, wireTopic))
		}
	}
}

// addsOffsets asks AddOffsetsToTxn.
func (w *coordinatorWire) addsOffsets() {
	for _, version := range []int16{0, 1, 2, 3, 4} {
		w.init(fmt.Sprint("c-offsets", version))
		r := kmsg.NewPtrAddOffsetsToTxnRequest()
		r.TransactionalID, r.ProducerID, r.ProducerEpoch = w.txnID, w.pid, w.epoch
		r.Group = "c-group"
		w.tell("offsets", version, r)
		w.tell("offsets again", version, r)
		w.faults(func(name, id string, pid int64, epoch int16) {
			r := *r
			r.TransactionalID, r.ProducerID, r.ProducerEpoch = id, pid, epoch
			w.tell("offsets "+name, version, &r)
		})
		w.describe("offsets describe", w.txnID)
	}
}

// endsV1 ends transactions of producers whose epoch stays.
func (w *coordinatorWire) endsV1() {
	for _, version := range []int16{0, 1, 2, 4} {
		w.init(fmt.Sprint("c-end", version))
		tell := func(name string, epoch int16, commit bool) {
			w.tell(fmt.Sprintf("end %s commit=%t", name, commit), version, w.endRequest(epoch, commit))
		}
		for _, commit := range []bool{true, false} {
			tell("empty", w.epoch, commit)
			w.faults(func(name, id string, pid int64, epoch int16) {
				r := w.endRequest(epoch, commit)
				r.TransactionalID, r.ProducerID = id, pid
				w.tell(fmt.Sprintf("end %s commit=%t", name, commit), version, r)
			})
		}
		for _, commit := range []bool{true, false, true} {
			w.add()
			tell("old", w.epoch-1, commit)
			tell("new", w.epoch+1, commit)
			tell("good", w.epoch, commit)
			w.describe("end describe", w.txnID)
			tell("again", w.epoch, commit)
			tell("opposite", w.epoch, !commit)
			tell("old epoch", w.epoch-1, commit)
			tell("new epoch", w.epoch+1, commit)
		}
	}
}

// endsV2 ends transactions of producers whose epoch rises (KIP-890).
func (w *coordinatorWire) endsV2() {
	const version = 5
	w.init("c-end-v2")
	tell := func(name string, epoch int16, commit bool) {
		label := fmt.Sprintf("end %s commit=%t epoch+%d", name, commit, epoch-w.epoch)
		w.tell(label, version, w.endRequest(epoch, commit))
	}
	around := func(name string) {
		for by := int16(-2); by <= 1; by++ {
			tell(name, w.epoch+by, true)
		}
		tell(name, w.epoch-2, false)
		tell(name, w.epoch-1, false)
		tell(name, w.epoch+1, false)
	}
	around("empty")
	tell("empty", w.epoch, false)
	w.epoch++
	around("aborted empty")
	w.faults(func(name, id string, pid int64, epoch int16) {
		r := w.endRequest(epoch, true)
		r.TransactionalID, r.ProducerID = id, pid
		w.tell("end "+name, version, r)
	})
	for _, commit := range []bool{true, false, true} {
		w.tell("produce", 12, w.produceTxn(0, w.epoch, 0))
		tell("before", w.epoch-1, commit)
		tell("future", w.epoch+1, commit)
		tell("good", w.epoch, commit)
		w.describe("end describe", w.txnID)
		w.epoch++
		around("after")
		tell("after", w.epoch, false)
		w.describe("end describe empty", w.txnID)
		w.epoch++
		w.tell("raise of the last", 4, w.expect(w.txnID, w.pid, w.epoch-1))
		require.Zero(w.t, w.tryInit(w.txnID))
	}
	// A client that changes its mind.
	w.tell("produce", 12, w.produceTxn(0, w.epoch, 0))
	w.tell("end v1 of v2", 4, w.endRequest(w.epoch, true))
	w.describe("end v1 describe", w.txnID)
	w.tell("end v2 of v1", version, w.endRequest(w.epoch, true))
	w.tell("end v2 of v1", version, w.endRequest(w.epoch, false))
	w.describe("end v2 describe", w.txnID)
}

// zombie asks everything for a producer that was fenced.
func (w *coordinatorWire) zombie(label string) {
	for _, version := range []int16{1, 3} {
		w.tell(label+" add", version, w.addRequest(wireTopic))
		r := kmsg.NewPtrAddOffsetsToTxnRequest()
		r.TransactionalID, r.ProducerID, r.ProducerEpoch = w.txnID, w.pid, w.epoch
		r.Group = "c-group"
		w.tell(label+" offsets", version, r)
	}
	for _, version := range []int16{1, 4, 5} {
		w.tell(label+" commit", version, w.endRequest(w.epoch, true))
		w.tell(label+" abort", version, w.endRequest(w.epoch, false))
	}
	for _, version := range []int16{9, 11, 12} {
		w.tell(label+" produce", version, w.produceTxn(0, w.epoch, 5))
		w.tell(label+" produce elsewhere", version, w.produceTxn(2, w.epoch, 5))
	}
	for _, version := range []int16{3, 4} {
		w.tell(label+" init", version, w.expect(w.txnID, w.pid, w.epoch))
	}
}

// fences takes a transactional id from a producer with an open transaction (rule 11).
func (w *coordinatorWire) fences() {
	for _, version := range []int16{0, 4} {
		w.begin(fmt.Sprint("c-fence", version))
		w.tell("fence produce", 11, w.produceTxn(0, w.epoch, 0))
		w.note("fence", version, w.ask(version, w.initRequest(w.txnID, 60000)))
		w.describe("fence aborted", w.txnID)
		w.zombie("fenced")
		w.tell("fence again", version, w.initRequest(w.txnID, 60000))
		w.describe("fence done", w.txnID)
		w.zombie("zombie")
	}
	// A client that raises its own epoch with a transaction open.
	w.begin("c-fence-self")
	w.note("fence self", 4, w.ask(4, w.expect(w.txnID, w.pid, w.epoch)))
	w.describe("fence self aborted", w.txnID)
	w.tell("fence self again", 4, w.expect(w.txnID, w.pid, w.epoch))
	w.tell("fence self anew", 4, w.initRequest(w.txnID, 60000))
}

// timesOut leaves transactions open for too long.
func (w *coordinatorWire) timesOut() {
	for _, version := range []int16{11, 12} {
		id := fmt.Sprint("c-late", version)
		resp := w.ask(4, w.initRequest(id, 300)).(*kmsg.InitProducerIDResponse)
		w.txnID, w.pid, w.epoch = id, resp.ProducerID, resp.ProducerEpoch
		if version < 12 {
			w.add()
		}
		w.tell("late produce", version, w.produceTxn(0, w.epoch, 0))
		r := kmsg.NewPtrDescribeTransactionsRequest()
		r.TransactionalIDs = []string{id}
		require.Eventually(w.t, func() bool {
			resp := w.ask(0, r).(*kmsg.DescribeTransactionsResponse)
			return resp.TransactionStates[0].State == "CompleteAbort"
		}, time.Minute, 20*time.Millisecond)
		w.describe("late", id)
		w.zombie("late")
		w.tell("late init", 4, w.initRequest(id, 60000))
	}
}

// produces asks Produce with transactional batches.
func (w *coordinatorWire) produces() {
	for _, version := range []int16{3, 7, 9, 10, 11, 12, 13} {
		w.init(fmt.Sprint("c-produce", version))
		w.tell("produce not added", version, w.produceTxn(0, w.epoch, 0))
		if version < 12 {
			w.add()
			w.tell("produce added", version, w.produceTxn(0, w.epoch, 0))
			w.tell("produce not added beside", version, w.produceTxn(1, w.epoch, 0))
		}
		w.tell("produce repeated", version, w.produceTxn(0, w.epoch, 0))
		w.tell("produce next", version, w.produceTxn(0, w.epoch, 1))
		w.tell("produce gap", version, w.produceTxn(0, w.epoch, 7))
		w.tell("produce old epoch", version, w.produceTxn(0, w.epoch-1, 2))
		options := record.BuilderOptions{
			Idempotent: true, ProducerID: w.pid, ProducerEpoch: w.epoch, BaseSequence: 2,
		}
		w.tell("produce not transactional", version, w.produceBatch(0, options))
		anonymous := w.produceTxn(0, w.epoch, 2)
		anonymous.TransactionID = nil
		w.tell("produce without id", version, anonymous)
		other := w.produceTxn(2, w.epoch, 0)
		other.TransactionID = pointerTo("c-none")
		w.tell("produce unknown id", version, other)
		w.tell("produce unknown id in progress", version, func() *kmsg.ProduceRequest {
			r := w.produceTxn(0, w.epoch, 2)
			r.TransactionID = pointerTo("c-none")
			return r
		}())
		two := w.produceTxn(0, w.epoch, 3)
		w.pid += 1_000_000
		second := w.produceTxn(2, w.epoch, 0)
		w.pid -= 1_000_000
		two.Topics[0].Partitions = append(two.Topics[0].Partitions, second.Topics[0].Partitions...)
		w.tell("produce of two", version, two)
		w.tell("produce new epoch elsewhere", version, w.produceTxn(2, w.epoch+1, 0))
		w.tell("produce nowhere", version, w.produceTxn(99, w.epoch, 0))
		w.tell("produce end", 4, w.endRequest(w.epoch, version%2 == 0))
		w.describe("produce describe", w.txnID)
		w.tell("produce after the end", version, w.produceTxn(0, w.epoch, 3))
		options.BaseSequence = 4
		w.tell("produce not transactional after", version, w.produceBatch(0, options))
	}
}

func pointerTo(s string) *string { return &s }

// markers asks WriteTxnMarkers.
func (w *coordinatorWire) markers() {
	for _, version := range []int16{1, 2} {
		w.init(fmt.Sprint("c-markers", version))
		w.begin(fmt.Sprint("c-markers", version))
		w.tell("markers produce", 11, w.produceTxn(0, w.epoch, 0))
		tell := func(name string, epoch int16, coordinator int32, partitions ...int32) {
			r := kmsg.NewPtrWriteTxnMarkersRequest()
			m := kmsg.NewWriteTxnMarkersRequestMarker()
			m.ProducerID, m.ProducerEpoch, m.CoordinatorEpoch = w.pid, epoch, coordinator
			m.TransactionVersion = int8(2 * (version - 1))
			topic := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
			topic.Topic, topic.Partitions = wireTopic, partitions
			m.Topics = append(m.Topics, topic)
			r.Markers = append(r.Markers, m)
			w.tell("markers "+name, version, r)
		}
		tell("old epoch", w.epoch-1, 5, 0)
		tell("same epoch", w.epoch, 5, 0)
		tell("same epoch again", w.epoch, 5, 0)
		tell("new epoch", w.epoch+1, 5, 0, 99)
		tell("new epoch again", w.epoch+1, 5, 0)
		tell("old coordinator", w.epoch+1, 4, 0)
		tell("old coordinator and new epoch", w.epoch+2, 4, 0)
		w.tell("markers none", version, kmsg.NewPtrWriteTxnMarkersRequest())
	}
}

// lists asks ListTransactions and DescribeTransactions.
func (w *coordinatorWire) lists() {
	const id = "c-list"
	w.begin(id)
	own := []int64{w.pid}
	for _, version := range []int16{0, 1, 2} {
		tell := func(name string, change func(r *kmsg.ListTransactionsRequest)) {
			r := kmsg.NewPtrListTransactionsRequest()
			r.ProducerIDFilters = own
			change(r)
			w.tell("list "+name, version, r)
		}
		tell("one", func(*kmsg.ListTransactionsRequest) {})
		tell("state", func(r *kmsg.ListTransactionsRequest) { r.StateFilters = []string{"Ongoing"} })
		tell("states", func(r *kmsg.ListTransactionsRequest) {
			r.StateFilters = []string{"Empty", "CompleteAbort"}
		})
		tell("unknown state", func(r *kmsg.ListTransactionsRequest) {
			r.StateFilters = []string{"ongoing", "Ongoing"}
		})
		tell("unknown states", func(r *kmsg.ListTransactionsRequest) {
			r.StateFilters = []string{"x", "y"}
		})
		tell("unknown producer", func(r *kmsg.ListTransactionsRequest) {
			r.ProducerIDFilters = []int64{1 << 40}
		})
		if version >= 1 {
			tell("long", func(r *kmsg.ListTransactionsRequest) { r.DurationFilterMillis = 600_000 })
		}
		if version >= 2 {
			for _, pattern := range []string{"", "c-li.*", "c-li", "list", ".*", "[", "c-list"} {
				tell("pattern "+pattern, func(r *kmsg.ListTransactionsRequest) {
					r.TransactionalIDPattern = &pattern
				})
			}
		}
	}
	w.describe("describe open", id)
	w.describe("describe unknown", "c-none")
	w.describe("describe empty", "")
}
