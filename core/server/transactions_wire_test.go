package server_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/record"
)

const transactionsGolden = "testdata/transactions_kafka_4.4.0.txt"

// TestTransactionsAnswerAsKafkaDoes does for transactions what TestGroupsAnswerAsKafkaDoes does for
// groups, and is recorded the same way, from a Kafka with
// transaction.abort.timed.out.transaction.cleanup.interval.ms=200.
func TestTransactionsAnswerAsKafkaDoes(t *testing.T) {
	w := &coordinatorWire{pids: make(map[string]string)}
	w.groupWire = newGroupWire(t, newAnswerer(t, map[string]string{
		"offsets.topic.num.partitions":                                "4", // as that Kafka had
		"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
	}))
	w.prepare()
	w.prepareTransactions()
	w.inits()
	w.adds()
	w.addsOfBrokers()
	w.addsOffsets()
	w.endsV1()
	w.endsV2()
	w.fences()
	w.timesOut()
	w.produces()
	w.markers()
	w.lists()
	compareAnswers(t, transactionsGolden, w.out.String(), nil)
}

// coordinatorWire is txnWire that writes everything about transactions down.
type coordinatorWire struct {
	txnWire
	pids map[string]string // what each producer id is called in the text
}

var (
	wirePID   = regexp.MustCompile(`"ProducerID":[0-9]+`)
	wireStart = regexp.MustCompile(`"StartTimestamp":[0-9]+`)
)

// note writes an answer down, with names for producer ids.
func (w *coordinatorWire) note(label string, version int16, resp kmsg.Response) {
	b, err := json.Marshal(resp)
	require.NoError(w.t, err)
	s := wirePID.ReplaceAllStringFunc(string(b), func(id string) string {
		if w.pids[id] == "" {
			w.pids[id] = fmt.Sprintf(`"ProducerID":"p%d"`, len(w.pids)+1)
		}
		return w.pids[id]
	})
	s = wireStart.ReplaceAllString(s, `"StartTimestamp":"time"`)
	s = wireMessage.ReplaceAllString(s, `"ErrorMessage":"text"`)
	s = wireTopicID.ReplaceAllString(s, `"TopicID":""`)
	var v any
	require.NoError(w.t, json.Unmarshal([]byte(s), &v))
	b, err = json.Marshal(canonical(codesOnly(v)))
	require.NoError(w.t, err)
	fmt.Fprintf(&w.out, "%s v%d %s\n", label, version, b)
}

// codesOnly drops what Produce tells beside its code and offset: other tests look at that.
func codesOnly(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if _, ok := v["BaseOffset"]; ok {
			for _, key := range []string{
				"LogAppendTime", "LogStartOffset", "ErrorRecords", "ErrorMessage", "CurrentLeader",
			} {
				delete(v, key)
			}
		}
		for key := range v {
			codesOnly(v[key])
		}
	case []any:
		for i := range v {
			codesOnly(v[i])
		}
	}
	return v
}

// tell asks, until the last transaction is complete, and writes the answer down.
func (w *coordinatorWire) tell(label string, version int16, req kmsg.Request) kmsg.Response {
	var resp kmsg.Response
	require.Eventually(w.t, func() bool {
		resp = w.ask(version, req)
		b, err := json.Marshal(resp)
		require.NoError(w.t, err)
		return !strings.Contains(string(b), `"ErrorCode":51`)
	}, time.Minute, 5*time.Millisecond)
	w.note(label, version, resp)
	return resp
}

func (w *coordinatorWire) initRequest(id string, timeout int32) *kmsg.InitProducerIDRequest {
	r := kmsg.NewPtrInitProducerIDRequest()
	r.TransactionalID, r.TransactionTimeoutMillis = &id, timeout
	return r
}

// expect is an InitProducerId of a client that has a producer already.
func (w *coordinatorWire) expect(id string, pid int64, epoch int16) *kmsg.InitProducerIDRequest {
	r := w.initRequest(id, 60000)
	r.ProducerID, r.ProducerEpoch = pid, epoch
	return r
}

func (w *coordinatorWire) addRequest(topics ...string) *kmsg.AddPartitionsToTxnRequest {
	r := kmsg.NewPtrAddPartitionsToTxnRequest()
	r.TransactionalID, r.ProducerID, r.ProducerEpoch = w.txnID, w.pid, w.epoch
	for _, name := range topics {
		topic := kmsg.NewAddPartitionsToTxnRequestTopic()
		topic.Topic, topic.Partitions = name, []int32{0}
		r.Topics = append(r.Topics, topic)
	}
	return r
}

func (w *coordinatorWire) endRequest(epoch int16, commit bool) *kmsg.EndTxnRequest {
	r := kmsg.NewPtrEndTxnRequest()
	r.TransactionalID, r.ProducerID, r.ProducerEpoch, r.Commit = w.txnID, w.pid, epoch, commit
	return r
}

// begin makes a producer the current one and opens a transaction.
func (w *coordinatorWire) begin(id string) {
	w.t.Helper()
	w.init(id)
	w.add()
}

func (w *coordinatorWire) add() {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		resp := w.ask(3, w.addRequest(wireTopic)).(*kmsg.AddPartitionsToTxnResponse)
		return resp.Topics[0].Partitions[0].ErrorCode == 0
	}, time.Minute, 5*time.Millisecond)
}

// describe writes down what a transaction is once its markers are written.
func (w *coordinatorWire) describe(label, id string) {
	w.t.Helper()
	r := kmsg.NewPtrDescribeTransactionsRequest()
	r.TransactionalIDs = []string{id}
	var resp *kmsg.DescribeTransactionsResponse
	require.Eventually(w.t, func() bool {
		resp = w.ask(0, r).(*kmsg.DescribeTransactionsResponse)
		return !strings.HasPrefix(resp.TransactionStates[0].State, "Prepare")
	}, time.Minute, 5*time.Millisecond)
	w.note(label, 0, resp)
}

// produceTxn is a Produce of one batch of the current producer.
func (w *coordinatorWire) produceTxn(partition int32, epoch int16, seq int32,
) *kmsg.ProduceRequest {
	return w.produceBatch(partition, record.BuilderOptions{
		Idempotent: true, Transactional: true, ProducerID: w.pid, ProducerEpoch: epoch,
		BaseSequence: seq,
	})
}

func (w *coordinatorWire) produceBatch(partition int32, opts record.BuilderOptions,
) *kmsg.ProduceRequest {
	r := kmsg.NewPtrProduceRequest()
	r.Acks, r.TimeoutMillis = -1, 10000
	id := w.txnID
	r.TransactionID = &id
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, batch(w.t, 1, opts)
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic, topic.TopicID = wireTopic, w.topicID
	topic.Partitions = append(topic.Partitions, p)
	r.Topics = append(r.Topics, topic)
	return r
}
