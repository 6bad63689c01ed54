package server_test

import (
	"fmt"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/record"
)

// The chapters of TestErrorsAreKafkas about transactions.

func initRequest(txn *string, id int64, epoch int16) *kmsg.InitProducerIDRequest {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = txn, 60_000
	req.ProducerID, req.ProducerEpoch = id, epoch
	return req
}

// begin makes a transactional producer.
func (e *errorWire) begin(txn string) (id int64, epoch int16) {
	e.t.Helper()
	e.until(func() bool {
		resp, err := e.ask(4, initRequest(&txn, -1, -1))
		if err != nil {
			return false
		}
		made := resp.(*kmsg.InitProducerIDResponse)
		id, epoch = made.ProducerID, made.ProducerEpoch
		return made.ErrorCode == 0
	})
	return id, epoch
}

func addRequest(version int16, txn string, id int64, epoch int16, topics ...string,
) *kmsg.AddPartitionsToTxnRequest {
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	if version < 4 {
		req.TransactionalID, req.ProducerID, req.ProducerEpoch = txn, id, epoch
		for _, topic := range topics {
			rt := kmsg.NewAddPartitionsToTxnRequestTopic()
			rt.Topic, rt.Partitions = topic, []int32{0}
			req.Topics = append(req.Topics, rt)
		}
		return req
	}
	tx := kmsg.NewAddPartitionsToTxnRequestTransaction()
	tx.TransactionalID, tx.ProducerID, tx.ProducerEpoch, tx.VerifyOnly = txn, id, epoch, true
	for _, topic := range topics {
		rt := kmsg.NewAddPartitionsToTxnRequestTransactionTopic()
		rt.Topic, rt.Partitions = topic, []int32{0}
		tx.Topics = append(tx.Topics, rt)
	}
	req.Transactions = append(req.Transactions, tx)
	return req
}

func endRequest(txn string, id int64, epoch int16, commit bool) *kmsg.EndTxnRequest {
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = txn, id, epoch, commit
	return req
}

func (e *errorWire) transactionErrors() {
	topic := e.topic("tx", 1)
	for _, version := range []int16{0, 1, 2, 3, 4, 5} {
		e.send("empty transactional id", version, initRequest(new(""), -1, -1))
		long := initRequest(new(e.name("long")), -1, -1)
		long.TransactionTimeoutMillis = 1 << 30
		e.send("timeout above transaction.max.timeout.ms", version, long)
		none := initRequest(new(e.name("none")), -1, -1)
		none.TransactionTimeoutMillis = 0
		e.send("timeout 0", version, none)
		if version >= 3 {
			e.send("id without epoch", version, initRequest(new(e.name("x")), 5, -1))
			e.send("epoch without id", version, initRequest(new(e.name("x")), -1, 5))
			e.send("id of nobody", version, initRequest(new(e.name(fmt.Sprint("y", version))), 999_999, 5))
		}
	}
	txn := e.name("txn")
	id, epoch := e.begin(txn)
	for _, version := range []int16{0, 1, 2, 3} {
		e.send("unknown transactional id", version, addRequest(version, e.name("no"), id, epoch,
			topic))
		e.send("another producer id", version, addRequest(version, txn, id+1000, epoch, topic))
		e.send("epoch too high", version, addRequest(version, txn, id, epoch+1, topic))
		e.send("epoch too low", version, addRequest(version, txn, id, epoch-1, topic))
		e.send("unknown topic", version, addRequest(version, txn, id, epoch, "no-such"))
		e.send("known and unknown topic", version, addRequest(version, txn, id, epoch, topic,
			"no-such"))
	}
	e.send("verify what was not added", 4, addRequest(4, txn, id, epoch, topic))
	e.produceInTransaction("not added", txn, topic, id, epoch, 0)
	for _, version := range []int16{0, 1, 2, 3} {
		e.send("nothing was begun", version, endRequest(txn, id, epoch, true))
		e.send("unknown transactional id", version, endRequest(e.name("no"), id, epoch, true))
		e.send("another producer id", version, endRequest(txn, id+1000, epoch, true))
		e.send("epoch too low", version, endRequest(txn, id, epoch-1, true))
		e.send("epoch too high", version, endRequest(txn, id, epoch+1, true))
	}
	e.openTransaction(txn, topic, id, epoch)
	e.fencedErrors(topic)
	e.describeTransactions(txn)
	e.offsetsInTransaction()
}

// produceInTransaction produces one record in the versions of both protocols.
func (e *errorWire) produceInTransaction(label, txn, topic string, id int64, epoch int16,
	sequence int32, versions ...int16,
) {
	if versions == nil {
		versions = []int16{8, 10, 11}
	}
	for _, version := range versions {
		b := e.batch(1, record.BuilderOptions{Idempotent: true, ProducerID: id,
			ProducerEpoch: epoch, BaseSequence: sequence, Transactional: true})
		req := produceRequest(version, topic, e.ids[topic], 0, b)
		req.TransactionID = &txn
		e.send(label, version, req)
	}
}

// openTransaction adds, writes and commits.
func (e *errorWire) openTransaction(txn, topic string, id int64, epoch int16) {
	e.send("right", 3, addRequest(3, txn, id, epoch, topic))
	e.send("again", 3, addRequest(3, txn, id, epoch, topic))
	e.send("verify what was added", 4, addRequest(4, txn, id, epoch, topic))
	e.produceInTransaction("added", txn, topic, id, epoch, 0, 8)
	e.produceInTransaction("added, repeated", txn, topic, id, epoch, 0, 8)
	e.produceInTransaction("added, gap in the sequence", txn, topic, id, epoch, 7)
	e.produceInTransaction("added, epoch too low", txn, topic, id, epoch-1, 1)
	plain := e.batch(1, record.BuilderOptions{Idempotent: true, ProducerID: id,
		ProducerEpoch: epoch, BaseSequence: 1})
	e.produce("plain batch inside an open transaction", topic, 0, plain, nil)
	e.send("right", 3, endRequest(txn, id, epoch, true))
	e.until(func() bool {
		resp, err := e.ask(3, endRequest(txn, id, epoch, true))
		return err == nil && resp.(*kmsg.EndTxnResponse).ErrorCode == 0
	})
	e.send("again", 3, endRequest(txn, id, epoch, true))
	e.send("the opposite", 3, endRequest(txn, id, epoch, false))
	e.produceInTransaction("after the end", txn, topic, id, epoch, 1)
}

// fencedErrors uses a producer after another took its place.
func (e *errorWire) fencedErrors(topic string) {
	txn := e.name("fenced")
	id, epoch := e.begin(txn)
	_, err := e.ask(3, addRequest(3, txn, id, epoch, topic))
	require.NoError(e.t, err)
	b := e.batch(1, record.BuilderOptions{Idempotent: true, ProducerID: id, ProducerEpoch: epoch,
		Transactional: true})
	req := produceRequest(8, topic, e.ids[topic], 0, b)
	req.TransactionID = &txn
	_, err = e.ask(8, req)
	require.NoError(e.t, err)
	e.send("while a transaction is open", 4, initRequest(&txn, -1, -1))
	newID, newEpoch := e.begin(txn)
	for _, version := range []int16{0, 1, 2, 3} {
		e.send("fenced", version, addRequest(version, txn, id, epoch, topic))
		e.send("fenced", version, endRequest(txn, id, epoch, true))
		e.send("fenced", version, addOffsetsRequest(txn, id, epoch, e.name("tg")))
	}
	e.produceInTransaction("fenced", txn, topic, id, epoch, 1)
	e.send("fenced", 4, initRequest(&txn, id, epoch))
	e.send("with its own epoch", 4, initRequest(&txn, newID, newEpoch))
	e.send("with its own epoch, again", 4, initRequest(&txn, newID, newEpoch))
}

func addOffsetsRequest(txn string, id int64, epoch int16, group string,
) *kmsg.AddOffsetsToTxnRequest {
	req := kmsg.NewPtrAddOffsetsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = txn, id, epoch, group
	return req
}

func (e *errorWire) describeTransactions(txn string) {
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = []string{txn, e.name("no"), ""}
	e.send("known, unknown and empty id", 0, req)
	for _, version := range []int16{0, 1, 2} {
		list := kmsg.NewPtrListTransactionsRequest()
		list.StateFilters = []string{"Ongoing", "NoSuchState"}
		e.send("unknown state", version, list)
		if version == 2 {
			list.TransactionalIDPattern = new("(")
			e.send("invalid pattern", version, list)
		}
	}
}

func (e *errorWire) offsetsInTransaction() {
	txn, group, topic := e.name("offsets"), e.name("tg"), e.name("commit")
	for coordinator.PartitionFor(group, 50) == coordinator.PartitionFor("", 50) {
		group += "g" // the offsets of group "" are added below, and with them all of its partition
	}
	id, epoch := e.begin(txn)
	for _, version := range []int16{0, 1, 2, 3} {
		e.send("unknown transactional id", version, addOffsetsRequest(e.name("no"), id, epoch, group))
		e.send("another producer id", version, addOffsetsRequest(txn, id+1000, epoch, group))
		e.send("empty group id", version, addOffsetsRequest(txn, id, epoch, ""))
	}
	commit := func(label string, version int16, change func(*kmsg.TxnOffsetCommitRequest)) {
		req := kmsg.NewPtrTxnOffsetCommitRequest()
		req.TransactionalID, req.Group = txn, group
		req.ProducerID, req.ProducerEpoch, req.Generation = id, epoch, -1
		rt := kmsg.NewTxnOffsetCommitRequestTopic()
		rt.Topic = topic
		rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
		rp.Offset, rp.Metadata = 3, new("m")
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
		if change != nil {
			change(req)
		}
		e.send(label, version, req)
	}
	for _, version := range []int16{0, 2, 3, 4} {
		commit("group not added", version, nil)
	}
	e.send("right", 3, addOffsetsRequest(txn, id, epoch, group))
	for _, version := range []int16{0, 2, 3, 4} {
		commit("right", version, nil)
		commit("epoch too low", version, func(r *kmsg.TxnOffsetCommitRequest) {
			r.ProducerEpoch = epoch - 1
		})
		commit("unknown topic", version, func(r *kmsg.TxnOffsetCommitRequest) {
			r.Topics[0].Topic = "no-such"
		})
		commit("empty group id", version, func(r *kmsg.TxnOffsetCommitRequest) { r.Group = "" })
		if version >= 3 {
			commit("unknown member", version, func(r *kmsg.TxnOffsetCommitRequest) {
				r.MemberID, r.Generation = "x", 3
			})
		}
	}
	for _, stable := range []bool{false, true} {
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Group, req.RequireStable = group, stable
		req.Topics = append(req.Topics, kmsg.OffsetFetchRequestTopic{Topic: topic,
			Partitions: []int32{0}})
		label := "pending transaction"
		if stable {
			label += ", require stable"
		}
		e.send(label, 7, req)
	}
	e.send("abort of offsets", 3, endRequest(txn, id, epoch, false))
}

// transactionVersion2Errors are those of KIP-890: EndTxn from version 5, Produce from 12,
// TxnOffsetCommit from 5.
func (e *errorWire) transactionVersion2Errors() {
	topic, txn := e.name("tx"), e.name("v2")
	id, epoch := e.begin(txn)
	end := func(label string, epoch int16, commit bool) *kmsg.EndTxnResponse {
		return e.send(label, 5, endRequest(txn, id, epoch, commit)).(*kmsg.EndTxnResponse)
	}
	settled := func(epoch int16, commit bool) {
		e.until(func() bool {
			resp, err := e.ask(5, endRequest(txn, id, epoch, commit))
			return err == nil && resp.(*kmsg.EndTxnResponse).ErrorCode == 0
		})
	}
	end("commit of nothing", epoch, true)
	end("epoch too low", epoch-1, true)
	end("epoch too high", epoch+1, true)
	end("abort of nothing", epoch, false)
	settled(epoch, false)
	epoch++
	e.produceInTransaction("implicitly added", txn, topic, id, epoch, 0, 12)
	e.produceInTransaction("gap in the sequence", txn, topic, id, epoch, 9, 12, 13)
	e.produceInTransaction("epoch too high", txn, topic, id, epoch+1, 0, 12, 13)
	e.produceInTransaction("epoch too low", txn, topic, id, epoch-1, 0, 12, 13)
	end("right", epoch, true)
	settled(epoch, true)
	end("again", epoch, true)
	end("the opposite", epoch, false)
	e.produceInTransaction("epoch before the end", txn, topic, id, epoch, 1, 12, 13)
	e.produceInTransaction("epoch after the end", txn, topic, id, epoch+1, 0, 12, 13)
	end("abort", epoch+1, false)
	settled(epoch+1, false)
	e.produceInTransaction("unknown transactional id", e.name("no"), topic, id, epoch+2, 0, 12, 13)
}
