package server_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Waits for what takes a real Kafka a moment.
const (
	waitLong  = time.Minute
	waitShort = 20 * time.Millisecond
)

// fetchQuestion is one way to ask for the first partition of a topic of three.
type fetchQuestion struct {
	name   string
	change func(r *kmsg.FetchRequest)
}

// asReplica is a fetch of another broker.
func asReplica(id int32) func(*kmsg.FetchRequest) {
	return func(r *kmsg.FetchRequest) {
		if r.Version < 15 {
			r.ReplicaID = id
		} else {
			r.ReplicaState.ID = id
		}
	}
}

// ofPartition changes the partition of a fetch.
func ofPartition(change func(*kmsg.FetchRequestTopicPartition)) func(*kmsg.FetchRequest) {
	return func(r *kmsg.FetchRequest) { change(first(r)) }
}

func fetchQuestions() []fetchQuestion {
	type part = *kmsg.FetchRequestTopicPartition
	of := ofPartition
	return []fetchQuestion{
		{"plain", func(*kmsg.FetchRequest) {}},
		{"committed", func(r *kmsg.FetchRequest) { r.IsolationLevel = 1 }},
		{"isolation 2", func(r *kmsg.FetchRequest) { r.IsolationLevel = 2 }},
		{"at the end", of(func(p part) { p.FetchOffset = 3 })},
		{"at the end, committed", func(r *kmsg.FetchRequest) {
			first(r).FetchOffset, r.IsolationLevel = 3, 1
		}},
		{"beyond the end", of(func(p part) { p.FetchOffset = 4 })},
		{"beyond the end, committed", func(r *kmsg.FetchRequest) {
			first(r).FetchOffset, r.IsolationLevel = 4, 1
		}},
		{"before the start", of(func(p part) { p.FetchOffset = -1 })},
		{"unknown partition", of(func(p part) { p.Partition = 9 })},
		{"negative partition", of(func(p part) { p.Partition = -1 })},
		{"unknown topic", func(r *kmsg.FetchRequest) {
			r.Topics[0].Topic, r.Topics[0].TopicID = "nope", [16]byte{1}
		}},
		{"no topic", func(r *kmsg.FetchRequest) {
			r.Topics[0].Topic, r.Topics[0].TopicID = "", [16]byte{}
		}},
		{"right epoch", of(func(p part) { p.CurrentLeaderEpoch = 0 })},
		{"newer epoch", of(func(p part) { p.CurrentLeaderEpoch = 5 })},
		{"negative epoch", of(func(p part) { p.CurrentLeaderEpoch = -2 })},
		{"last epoch is right", of(func(p part) {
			p.LastFetchedEpoch, p.CurrentLeaderEpoch, p.FetchOffset = 0, 0, 1
		})},
		{"last epoch ends before", of(func(p part) {
			p.LastFetchedEpoch, p.CurrentLeaderEpoch, p.FetchOffset = 0, 0, 9
		})},
		{"last epoch is unknown", of(func(p part) {
			p.LastFetchedEpoch, p.CurrentLeaderEpoch, p.FetchOffset = 7, 0, 1
		})},
		{"last epoch is negative", of(func(p part) { p.LastFetchedEpoch = -5 })},
		{"broker 1", asReplica(1)},
		{"broker 2", asReplica(2)},
		{"broker 2 with an epoch", func(r *kmsg.FetchRequest) {
			asReplica(2)(r)
			first(r).CurrentLeaderEpoch = 0
		}},
		{"debugging consumer", asReplica(-2)},
		{"rack", func(r *kmsg.FetchRequest) { r.Rack = "r1" }},
		{"limit 0", func(r *kmsg.FetchRequest) { r.MaxBytes = 0 }},
		{"negative limit", func(r *kmsg.FetchRequest) { r.MaxBytes = -1 }},
		{"sized 0", of(func(p part) { p.PartitionMaxBytes = 0 })},
		{"partition's negative limit", of(func(p part) { p.PartitionMaxBytes = -1 })},
		{"sized 100", of(func(p part) { p.PartitionMaxBytes = 100 })},
		{"sized 150", of(func(p part) { p.PartitionMaxBytes = 150 })},
		{"negative minimum", func(r *kmsg.FetchRequest) { r.MinBytes = -1 }},
		{"no topics", func(r *kmsg.FetchRequest) { r.Topics = nil }},
		{"no partitions of a topic", func(r *kmsg.FetchRequest) { r.Topics[0].Partitions = nil }},
		{"three partitions", func(r *kmsg.FetchRequest) {
			second, third := *first(r), *first(r)
			second.Partition, third.Partition = 1, 2
			r.Topics[0].Partitions = append(r.Topics[0].Partitions, second, third)
		}},
		{"topic in two places", func(r *kmsg.FetchRequest) {
			again := r.Topics[0]
			again.Partitions = append([]kmsg.FetchRequestTopicPartition{}, *first(r))
			again.Partitions[0].Partition = 1
			other := again
			other.Topic, other.TopicID = "nope", [16]byte{1}
			r.Topics = append(r.Topics, other, again)
		}},
	}
}

// fetches asks for a partition of three batches.
func (w *readWire) fetches() {
	id, on := w.topic("t", 3), w.dial()
	for range 3 {
		w.put(on, "t", 0, 1)
	}
	for _, version := range []int16{4, 5, 7, 11, 12, 13, 15, 16, 18} {
		for _, q := range fetchQuestions() {
			req := fetchRequest(version, "t", id, 0, 0)
			q.change(req)
			w.told(fmt.Sprintf("fetch %s v%d", q.name, version), 0,
				ask[*kmsg.FetchResponse](on, req))
		}
	}
}

// told writes an answer down.
func (w *readWire) told(question string, session int32, resp *kmsg.FetchResponse) {
	id := "none"
	if resp.SessionID != 0 {
		id = "new"
		if resp.SessionID == session {
			id = "same"
		}
	}
	fmt.Fprintf(&w.out, "%s : error %d session %s nodes %d", question, resp.ErrorCode, id,
		len(resp.Brokers))
	for _, t := range resp.Topics {
		fmt.Fprintf(&w.out, " [%s", t.Topic)
		for _, p := range t.Partitions {
			fmt.Fprintf(&w.out, " %d: error %d hw %d lso %d start %d", p.Partition, p.ErrorCode,
				p.HighWatermark, p.LastStableOffset, p.LogStartOffset)
			aborted := fmt.Sprint(len(p.AbortedTransactions))
			if p.AbortedTransactions == nil {
				aborted = "null"
			}
			fmt.Fprintf(&w.out, " aborted %s bytes %d preferred %d diverging %d/%d leader %d/%d",
				aborted, len(p.RecordBatches), p.PreferredReadReplica, p.DivergingEpoch.Epoch,
				p.DivergingEpoch.EndOffset, p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch)
		}
		w.out.WriteString("]")
	}
	w.out.WriteString("\n")
}

// sessions goes through the lives of sessions.
func (w *readWire) sessions() {
	for _, version := range []int16{7, 12, 13, 18} {
		name := fmt.Sprintf("session%d", version)
		id, on := w.topic(name, 3), w.dial()
		var session int32
		step := 0
		fetch := func(what string, s, epoch int32, forget []int32, parts ...at) {
			req := sessionFetch(version, id, s, epoch, parts...)
			for i := range req.Topics {
				if version < 13 {
					req.Topics[i].Topic = name
				}
			}
			if forget != nil {
				forgotten := kmsg.NewFetchRequestForgottenTopic()
				forgotten.Topic, forgotten.TopicID, forgotten.Partitions = name, id, forget
				req.ForgottenTopics = append(req.ForgottenTopics, forgotten)
			}
			resp := ask[*kmsg.FetchResponse](on, req)
			if strings.HasPrefix(what, "begin") {
				session = resp.SessionID
			}
			step++
			w.told(fmt.Sprintf("session v%d %d %s", version, step, what), session, resp)
		}
		w.put(on, name, 1, 1)
		fetch("begin", 0, 0, nil, at{0, 0}, at{1, 0}, at{2, 0})
		fetch("next", session, 1, nil, at{1, 1})
		w.put(on, name, 2, 1)
		fetch("data", session, 2, nil)
		fetch("fault", session, 3, nil, at{2, 1}, at{0, 5})
		fetch("fault is still there", session, 4, nil)
		fetch("fault is over", session, 5, nil, at{0, 0})
		fetch("nothing", session, 6, nil)
		fetch("epoch again", session, 6, nil)
		fetch("epoch -2", session, -2, nil)
		fetch("no id", 0, 3, nil)
		fetch("negative id", -7, 3, nil)
		fetch("forget one", session, 7, []int32{0})
		fetch("forget one that it has not", session, 8, []int32{0, 77})
		fetch("forget the rest", session, 9, []int32{0, 1, 2})
		fetch("it is gone", session, 10, nil)
		fetch("begin, partition named twice", 0, 0, nil, at{0, 0}, at{0, 1}, at{7, 0})
		fetch("of that", session, 1, nil)
		fetch("begin instead of it", session, 0, nil, at{0, 0})
		fetch("close", session, -1, nil, at{1, 0})
		fetch("closed", session, 1, nil)
		fetch("close what is not there", session, -1, nil)
		fetch("begin with nothing", 0, 0, nil)
		fetch("add to it", session, 1, nil, at{1, 0})
	}
}
