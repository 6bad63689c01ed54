package task

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/client"
)

// writer writes the records of one lane writer and knows which of them each output partition
// holds already. It is what makes a second run of the same input write nothing twice.
type writer struct {
	name     string
	cluster  client.Cluster
	producer client.Producer
	lanes    map[client.TopicPartition]*outLane
	// topics caches the lanes of a topic by partition; last is the entry used last.
	topics    map[string][]*outLane
	lastTopic string
	last      []*outLane
	// filled are the lanes that have records to be sent.
	filled []*sendLane
	// sentBytes were handed to the producer since the last positions call.
	sentBytes int64
	written   int64 // data records sent since the start
	dropped   int64 // data records not sent because the log has them
}

// outLane is one output partition.
type outLane struct {
	sendLane
	next int64 // log position before which seen is known
	seen int64 // the log holds every data record of the writer up to this sequence
	sent int64 // sequence of the last data record handed to the producer
}

func newWriter(name string, cluster client.Cluster, producer client.Producer) *writer {
	return &writer{
		name: name, cluster: cluster, producer: producer,
		lanes: map[client.TopicPartition]*outLane{}, topics: map[string][]*outLane{},
	}
}

// addLane takes an output partition in.
func (w *writer) addLane(p outPosition) {
	l := &outLane{sendLane: sendLane{TopicPartition: p.TopicPartition}, next: p.Next, seen: p.Seq,
		sent: p.Seq}
	w.lanes[p.TopicPartition] = l
	lanes := w.topics[p.Topic]
	for len(lanes) <= int(p.Partition) {
		lanes = append(lanes, nil)
	}
	lanes[p.Partition] = l
	w.topics[p.Topic] = lanes
	w.lastTopic, w.last = "", nil
}

// addTopics takes topics in that the writer has never written: their lanes start at the end of the
// log.
func (w *writer) addTopics(ctx context.Context, topics []string) (added bool, err error) {
	infos, err := w.cluster.Admin().Topics(ctx, topics...)
	if err != nil {
		return false, err
	}
	var fresh []client.TopicPartition
	for _, topic := range topics {
		info, ok := infos[topic]
		if !ok {
			return false, fmt.Errorf("output topic %s: %w", topic, client.ErrUnknownTopic)
		}
		for p := range info.Partitions {
			tp := client.TopicPartition{Topic: topic, Partition: p}
			if w.lanes[tp] == nil {
				fresh = append(fresh, tp)
			}
		}
	}
	if len(fresh) == 0 {
		return false, nil
	}
	ranges, err := w.cluster.Admin().Ranges(ctx, fresh...)
	if err != nil {
		return false, err
	}
	for _, tp := range fresh {
		w.addLane(outPosition{tp, ranges[tp].End, 0})
	}
	return true, nil
}

// recover learns from the logs which records were written after the last commit: it reads every
// output partition from the position of the commit to its end.
func (w *writer) recover(ctx context.Context, consumer client.Consumer, clean bool) error {
	tps := slices.SortedFunc(maps.Keys(w.lanes), client.TopicPartition.Compare)
	ranges, err := w.cluster.Admin().Ranges(ctx, tps...)
	if err != nil {
		return err
	}
	for _, tp := range tps {
		l, r := w.lanes[tp], ranges[tp]
		from := max(l.next, r.Start)
		if !clean {
			if err := client.ReadRange(ctx, consumer, tp, from, r.End, l.observe(w.name)); err != nil {
				return fmt.Errorf("look for records already written: %w", err)
			}
		}
		l.next, l.sent = r.End, l.seen
	}
	return nil
}

// observe returns a function that notes the writer's own records.
func (l *outLane) observe(name string) func([]record.Record) error {
	return func(records []record.Record) error {
		for i := range records {
			b, ok := records[i].Header(LaneHeader)
			if !ok {
				continue
			}
			lane, who, err := parseLane(b)
			if err != nil || string(who) != name || lane.Control {
				continue // someone else's
			}
			l.seen = max(l.seen, lane.Seq)
		}
		return nil
	}
}

// lane returns the lane of an output, nil when the writer does not know the partition.
func (w *writer) lane(topic string, partition int32) *outLane {
	if topic != w.lastTopic {
		w.lastTopic, w.last = topic, w.topics[topic]
	}
	if int(partition) >= len(w.last) || partition < 0 {
		return nil
	}
	return w.last[partition]
}

// add queues a record unless the log has it.
func (w *writer) add(l *outLane, seq int64, control bool, rec *record.Record) {
	if !control {
		if seq <= l.seen {
			w.dropped++
			return
		}
		l.sent = seq
		w.written++
	}
	w.filled = l.sendLane.add(rec, w.filled)
}

// send hands what is queued to the producer.
func (w *writer) send(ctx context.Context) error {
	sent, err := sendFilled(ctx, w.producer, w.filled)
	w.sentBytes += sent
	if err == nil {
		w.filled = w.filled[:0]
	}
	return err
}

// positions returns what the output partitions hold; everything sent must be acknowledged.
func (w *writer) positions() []outPosition {
	w.sentBytes = 0
	out := make([]outPosition, 0, len(w.lanes))
	for _, l := range w.lanes {
		l.next = max(l.next, w.producer.Acked(l.TopicPartition))
		l.seen = max(l.seen, l.sent)
		out = append(out, outPosition{l.TopicPartition, l.next, l.seen})
	}
	slices.SortFunc(out, func(x, y outPosition) int {
		return x.TopicPartition.Compare(y.TopicPartition)
	})
	return out
}
