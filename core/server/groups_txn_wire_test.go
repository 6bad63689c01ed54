package server_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/coretest"
	"github.com/millstream-io/millstream/core/vfs"
)

const txnOffsetsGolden = "testdata/txn_offsets_kafka_4.4.0.txt"

// TestTransactionalOffsetsAnswerAsKafkaDoes does for TxnOffsetCommit, and for OffsetFetch with
// require_stable, what TestGroupsAnswerAsKafkaDoes does for the rest, and is recorded the same way.
func TestTransactionalOffsetsAnswerAsKafkaDoes(t *testing.T) {
	w := &txnWire{groupWire: newGroupWire(t, newAnswerer(t, map[string]string{
		"group.initial.rebalance.delay.ms": "1500",
	}))}
	w.prepare()
	w.prepareTransactions()
	w.notAdded()
	w.refusals()
	w.pendingAndDecided()
	w.fenced()
	w.deletions()
	w.members()
	w.remain()
	compareAnswers(t, txnOffsetsGolden, w.out.String(), nil)
}

// txnWire is groupWire with one transactional producer at a time.
type txnWire struct {
	*groupWire
	txnID string
	pid   int64
	epoch int16
}

// prepareTransactions waits until the transaction coordinator answers for every id.
func (w *txnWire) prepareTransactions() {
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorType, find.CoordinatorKeys = 1, []string{"wt-prepare"}
	require.Eventually(w.t, func() bool {
		w.ask(4, find) // the first question creates the topic of transactions
		return w.tryInit("wt-prepare") == 0
	}, time.Minute, 50*time.Millisecond)
	require.Eventually(w.t, func() bool {
		list := w.ask(0, kmsg.NewPtrListTransactionsRequest()).(*kmsg.ListTransactionsResponse)
		return list.ErrorCode == 0
	}, time.Minute, 50*time.Millisecond)
}

func (w *txnWire) tryInit(txnID string) int16 {
	r := kmsg.NewPtrInitProducerIDRequest()
	r.TransactionalID, r.TransactionTimeoutMillis = &txnID, 60000
	resp := w.ask(4, r).(*kmsg.InitProducerIDResponse)
	w.txnID, w.pid, w.epoch = txnID, resp.ProducerID, resp.ProducerEpoch
	return resp.ErrorCode
}

// init makes a producer the current one.
func (w *txnWire) init(txnID string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return w.tryInit(txnID) == 0 },
		time.Minute, 10*time.Millisecond)
}

// addOffsets adds a group to the transaction, as clients do before version 5 of TxnOffsetCommit.
func (w *txnWire) addOffsets(group string) {
	w.t.Helper()
	r := kmsg.NewPtrAddOffsetsToTxnRequest()
	r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Group = w.txnID, w.pid, w.epoch, group
	require.Eventually(w.t, func() bool {
		return w.ask(3, r).(*kmsg.AddOffsetsToTxnResponse).ErrorCode == 0
	}, time.Minute, 10*time.Millisecond)
}

// end ends the transaction and waits until its marker is in the partition of the group.
func (w *txnWire) end(group string, commit bool) {
	w.t.Helper()
	r := kmsg.NewPtrEndTxnRequest()
	r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Commit = w.txnID, w.pid, w.epoch, commit
	resp := w.ask(3, r).(*kmsg.EndTxnResponse)
	require.Zero(w.t, resp.ErrorCode)
	require.Eventually(w.t, func() bool {
		r := w.fetch(7, group, []string{wireTopic})
		r.RequireStable = true
		fetched := w.ask(7, r).(*kmsg.OffsetFetchResponse)
		for _, p := range fetched.Topics[0].Partitions {
			if p.ErrorCode != 0 {
				return false
			}
		}
		return true
	}, time.Minute, 10*time.Millisecond)
}

// txnCommit is a TxnOffsetCommit of one offset.
func (w *txnWire) txnCommit(group string, topic string, partition int32, offset int64,
) *kmsg.TxnOffsetCommitRequest {
	r := kmsg.NewPtrTxnOffsetCommitRequest()
	r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Group = w.txnID, w.pid, w.epoch, group
	t := kmsg.NewTxnOffsetCommitRequestTopic()
	t.Topic = topic
	p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = partition, offset, 3, new("txn")
	t.Partitions = append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	return r
}

// commitIn sends a commit until the transaction is not held up by the one before.
func (w *txnWire) commitIn(label string, version int16, r *kmsg.TxnOffsetCommitRequest) {
	w.t.Helper()
	var resp *kmsg.TxnOffsetCommitResponse
	require.Eventually(w.t, func() bool {
		resp = w.ask(version, r).(*kmsg.TxnOffsetCommitResponse)
		return resp.Topics[0].Partitions[0].ErrorCode != 51 // CONCURRENT_TRANSACTIONS
	}, time.Minute, 10*time.Millisecond)
	w.write(fmt.Sprintf("%s v%d", label, version), resp)
}

// fetchStable fetches in some versions, with and without require_stable.
func (w *txnWire) fetchStable(label, group string) {
	for _, version := range []int16{6, 7, 8, 9, 10} {
		for _, topics := range [][]string{{wireTopic}, nil} {
			for _, stable := range []bool{false, true} {
				if stable && version < 7 {
					continue
				}
				r := w.fetch(version, group, topics)
				r.RequireStable = stable
				w.send(fmt.Sprintf("%s: fetch all=%t stable=%t", label, topics == nil, stable),
					version, r)
			}
		}
	}
}

// notAdded commits without having added the group to the transaction.
func (w *txnWire) notAdded() {
	for _, version := range []int16{0, 2, 3, 4} {
		w.init(fmt.Sprint("wt-not-added", version))
		w.commitIn("not added", version, w.txnCommit("wt-not-added", wireTopic, 0, 5))
	}
	w.init("wt-not-added5")
	w.commitIn("added by the broker", 5, w.txnCommit("wt-not-added", wireTopic, 0, 5))
	w.end("wt-not-added", false)
	w.fetchStable("aborted", "wt-not-added")
}

// refusals sends what is not to be committed.
func (w *txnWire) refusals() {
	for _, version := range []int16{0, 1, 2, 3, 4, 5} {
		group := fmt.Sprint("wt-refused", version)
		w.init(group)
		w.addOffsets(group)
		w.commitIn("good", version, w.txnCommit(group, wireTopic, 0, 5))
		w.commitIn("no topic", version, w.txnCommit(group, "no-such", 0, 5))
		w.commitIn("no partition", version, w.txnCommit(group, wireTopic, 99, 5))
		w.commitIn("negative partition", version, w.txnCommit(group, wireTopic, -1, 5))
		long := w.txnCommit(group, wireTopic, 1, 5)
		long.Topics[0].Partitions[0].Metadata = new(strings.Repeat("x", 4097))
		w.commitIn("long metadata", version, long)
		mixed := w.txnCommit(group, wireTopic, 2, 5)
		mixed.Topics = append(mixed.Topics, w.txnCommit(group, "no-such", 0, 5).Topics...)
		w.commitIn("one good, one not", version, mixed)
		w.send("nothing", version, &kmsg.TxnOffsetCommitRequest{
			TransactionalID: w.txnID, Group: group, ProducerID: w.pid, ProducerEpoch: w.epoch,
			Generation: -1,
		})
		w.commitIn("empty group", version, w.txnCommit("", wireTopic, 0, 5))
		if version >= 3 {
			r := w.txnCommit(group, wireTopic, 1, 5)
			r.Generation, r.MemberID = 1, "zz"
			w.commitIn("generation without members", version, r)
			r.Generation = -1
			w.commitIn("member without members", version, r)
			r.Group = "wt-none"
			r.Generation = 1
			w.addOffsets("wt-none")
			w.commitIn("generation without group", version, r)
		}
		w.end(group, true)
		w.send("after", 9, w.fetch(9, group, nil))
	}
}

// pendingAndDecided looks at offsets before and after the end of their transaction.
func (w *txnWire) pendingAndDecided() {
	const g = "wt-pending"
	w.send("plain", 8, w.commit(g, "", -1, wireTopic, 0, "plain"))
	w.init(g)
	w.addOffsets(g)
	w.commitIn("txn", 4, w.txnCommit(g, wireTopic, 0, 11))
	w.commitIn("txn", 4, w.txnCommit(g, wireTopic, 1, 12))
	w.fetchStable("pending", g)
	w.end(g, true)
	w.fetchStable("committed", g)

	w.addOffsets(g)
	w.commitIn("txn again", 4, w.txnCommit(g, wireTopic, 0, 21))
	w.end(g, false)
	w.fetchStable("aborted again", g)

	w.addOffsets(g)
	w.commitIn("txn before plain", 4, w.txnCommit(g, wireTopic, 0, 31))
	w.send("plain after txn", 8, w.commit(g, "", -1, wireTopic, 0, "plain"))
	w.end(g, true)
	w.send("txn before plain", 9, w.fetch(9, g, nil))
	w.send("plain before txn", 8, w.commit(g, "", -1, wireTopic, 1, "plain"))
	w.addOffsets(g)
	w.commitIn("txn after plain", 4, w.txnCommit(g, wireTopic, 1, 41))
	w.end(g, true)
	w.send("txn after plain", 9, w.fetch(9, g, nil))
	w.send("describe", 6, describeRequest(g))
}

// fenced commits for producers whose epoch is not the current one.
func (w *txnWire) fenced() {
	for _, version := range []int16{0, 2, 3, 4, 5} {
		g := fmt.Sprint("wt-fenced", version)
		w.init(g)
		w.addOffsets(g)
		w.commitIn("before", version, w.txnCommit(g, wireTopic, 0, 5))
		zombie := w.txnCommit(g, wireTopic, 0, 6)
		w.init(g)
		w.commitIn("zombie", version, zombie)
		w.addOffsets(g)
		w.commitIn("successor", version, w.txnCommit(g, wireTopic, 1, 7))
		w.commitIn("zombie again", version, zombie)
		zombie.ProducerEpoch = w.epoch + 5
		w.commitIn("epoch of the future", version, zombie)
		zombie.ProducerID, zombie.ProducerEpoch = w.pid+100000, 0
		w.commitIn("unknown producer", version, zombie)
		zombie.TransactionalID, zombie.ProducerID = "wt-none", w.pid
		w.commitIn("unknown transactional id", version, zombie)
		w.end(g, true)
		w.send("after fencing", 9, w.fetch(9, g, nil))
	}
}

// deletions deletes what a transaction commits.
func (w *txnWire) deletions() {
	const g = "wt-deleted"
	w.init(g)
	w.addOffsets(g)
	w.commitIn("to delete", 4, w.txnCommit(g, wireTopic, 0, 5))
	w.commitIn("to keep", 4, w.txnCommit(g, wireTopic, 1, 6))
	r := kmsg.NewPtrOffsetDeleteRequest()
	r.Group = g
	topic := kmsg.NewOffsetDeleteRequestTopic()
	topic.Topic = wireTopic
	topic.Partitions = append(topic.Partitions, kmsg.NewOffsetDeleteRequestTopicPartition())
	r.Topics = append(r.Topics, topic)
	w.send("delete offset", 0, r)
	w.fetchStable("deleted", g)
	w.end(g, true)
	w.send("after deleting the offset", 9, w.fetch(9, g, nil))

	w.addOffsets(g)
	w.commitIn("to delete with the group", 4, w.txnCommit(g, wireTopic, 0, 5))
	w.send("delete group", 2, deleteRequest(g))
	w.fetchStable("group deleted", g)
	w.end(g, true)
	w.send("after deleting the group", 9, w.fetch(9, g, nil))
	w.send("describe deleted", 6, describeRequest(g))
}

// members commits in the states of a classic group (KIP-447).
func (w *txnWire) members() {
	const g = "wt-life"
	w.init(g)
	w.addOffsets(g)
	check := func(state, id string, generation int32) {
		for _, version := range []int16{3, 5} {
			for _, c := range []struct {
				name, id   string
				generation int32
				instance   *string
			}{
				{"member", id, generation, nil},
				{"old generation", id, generation - 1, nil},
				{"new generation", id, generation + 1, nil},
				{"no generation", id, -1, nil},
				{"stranger", "zz", generation, nil},
				{"stranger without generation", "zz", -1, nil},
				{"nobody", "", -1, nil},
				{"generation only", "", generation, nil},
				{"instance", id, generation, new("ii")},
			} {
				r := w.txnCommit(g, wireTopic, 0, 5)
				r.MemberID, r.Generation, r.InstanceID = c.id, c.generation, c.instance
				w.commitIn(state+" "+c.name, version, r)
			}
		}
		w.commitIn(state+" before KIP-447", 2, w.txnCommit(g, wireTopic, 0, 5))
	}
	id := w.ask(9, joinRequest(g, "", "range=A")).(*kmsg.JoinGroupResponse).MemberID
	joined := w.later(9, joinRequest(g, id, "range=A"))
	w.awaitState(g, "PreparingRebalance")
	check("preparing", id, 0)
	<-joined
	check("completing", id, 1)
	w.ask(5, syncRequest(g, id, 1, nil, id))
	check("stable", id, 1)
	w.ask(5, leaveRequest(g, id))
	check("empty", id, 1)
	w.end(g, true)
	w.send("after life", 9, w.fetch(9, g, nil))
}

// remain leaves a transaction open, and writes down what all groups have: the end of the logs that
// TestLoadsOffsetsThatKafkaWrote reads.
func (w *txnWire) remain() {
	const g = "wt-open"
	w.send("plain", 8, w.commit(g, "", -1, wireTopic, 0, "plain"))
	w.send("plain", 8, w.commit(g, "", -1, wireTopic, 1, "plain"))
	w.init(g)
	w.addOffsets(g)
	w.commitIn("left open", 4, w.txnCommit(g, wireTopic, 1, 77))
	w.commitIn("left open", 4, w.txnCommit(g, wireTopic, 2, 78))
	w.atLast()
}

// atLast fetches what every group of the test has, except for the one whose only transaction was
// aborted: Kafka keeps it until it looks for expired offsets, here it is gone at once.
func (w *groupWire) atLast() {
	groups, err := kadm.NewClient(w.broker.client(w.t)).ListGroups(w.t.Context())
	require.NoError(w.t, err)
	for _, g := range groups.Groups() {
		if !strings.HasPrefix(g, "wt-") || g == "wt-not-added" {
			continue
		}
		for _, topics := range [][]string{{wireTopic}, nil} {
			r := w.fetch(9, g, topics)
			r.RequireStable = true
			w.send(atLastLabel+g, 9, r)
		}
	}
}

const atLastLabel = "at last: "

// TestLoadsOffsetsThatKafkaWrote opens the segments that __consumer_offsets of a Kafka 4.4.0 had at
// the end of TestTransactionalOffsetsAnswerAsKafkaDoes: transactions that were committed, aborted,
// fenced and deleted, and one that was left open. The topic is not there, as their records have the
// id of another.
func TestLoadsOffsetsThatKafkaWrote(t *testing.T) {
	disk := vfs.NewMem()
	c := coretest.Start(t, coretest.Options{FS: disk, Config: map[string]string{
		"offsets.topic.num.partitions": "4",
	}})
	w := newGroupWire(t, answererOf(c))
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKeys = []string{"wt-open"}
	w.ask(4, find) // creates the topic
	c.Stop()
	for n := range 4 {
		log, err := os.ReadFile(fmt.Sprintf("testdata/consumer_offsets_kafka_4.4.0/%d.log", n))
		require.NoError(t, err)
		dir := fmt.Sprintf("/millstream/data/__consumer_offsets-%d/", n)
		entries, err := disk.ReadDir(dir)
		require.NoError(t, err)
		for _, e := range entries {
			if e.Name() != "partition.metadata" {
				require.NoError(t, disk.Remove(dir+e.Name()))
			}
		}
		f, err := disk.OpenFile(dir+"00000000000000000000.log", os.O_CREATE|os.O_RDWR, 0o644)
		require.NoError(t, err)
		_, err = f.WriteAt(log, 0)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	c.Start()
	require.Eventually(t, func() bool {
		resp := w.ask(7, w.fetch(7, "wt-open", nil)).(*kmsg.OffsetFetchResponse)
		return resp.ErrorCode == 0 && len(resp.Topics) == 1
	}, time.Minute, 10*time.Millisecond)
	w.atLast()
	golden, err := os.ReadFile(txnOffsetsGolden)
	require.NoError(t, err)
	_, want, ok := strings.Cut(string(golden), "\n"+atLastLabel)
	require.True(t, ok)
	require.Equal(t, atLastLabel+want, w.out.String())

	// A topic that gets the name now is another one: it has inherited nothing.
	_, err = kadm.NewClient(w.broker.client(w.t)).CreateTopic(t.Context(), 3, 1, nil, wireTopic)
	require.NoError(t, err)
	fetched := w.ask(9, w.fetch(9, "wt-pending", nil)).(*kmsg.OffsetFetchResponse)
	require.Empty(t, fetched.Groups[0].Topics)
	fetched = w.ask(9, w.fetch(9, "wt-pending", []string{wireTopic})).(*kmsg.OffsetFetchResponse)
	for _, p := range fetched.Groups[0].Topics[0].Partitions {
		require.EqualValues(t, -1, p.Offset)
		require.Zero(t, p.ErrorCode)
	}
}
