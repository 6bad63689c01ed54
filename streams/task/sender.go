package task

import (
	"context"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/client"
)

// sender gathers the records of a task by partition and hands them to its transaction.
type sender struct {
	txn client.Transactor
	// topics are the lanes of a topic by partition; last is the entry used last.
	topics    map[string][]*sendLane
	lastTopic string
	last      []*sendLane
	// filled are the lanes that have records to be sent.
	filled []*sendLane
	// bytes were handed to the transaction since it began.
	bytes int64
}

// sendLane is one output partition.
type sendLane struct {
	client.TopicPartition
	batch []record.Record
	bytes int64
}

func newSender(txn client.Transactor) *sender {
	return &sender{txn: txn, topics: map[string][]*sendLane{}}
}

// add queues a record.
func (s *sender) add(topic string, partition int32, rec *record.Record) {
	if topic != s.lastTopic || int(partition) >= len(s.last) {
		lanes := s.topics[topic]
		for len(lanes) <= int(partition) {
			lanes = append(lanes, &sendLane{TopicPartition: client.TopicPartition{Topic: topic,
				Partition: int32(len(lanes))}})
		}
		s.topics[topic] = lanes
		s.lastTopic, s.last = topic, lanes
	}
	s.filled = s.last[partition].add(rec, s.filled)
}

// add queues a record; filled gets the lane when it is the first.
func (l *sendLane) add(rec *record.Record, filled []*sendLane) []*sendLane {
	if len(l.batch) == 0 {
		filled = append(filled, l)
	}
	l.batch = append(l.batch, *rec)
	l.bytes += int64(len(rec.Key)+len(rec.Value)) + 64
	return filled
}

// send hands what is queued to the transaction.
func (s *sender) send(ctx context.Context) error {
	sent, err := sendFilled(ctx, s.txn, s.filled)
	s.bytes += sent
	if err == nil {
		s.filled = s.filled[:0]
	}
	return err
}

// sendFilled hands what lanes have to a producer, and returns its bytes. After an error the rest
// may be sent again.
func sendFilled(ctx context.Context, to client.Producer, filled []*sendLane) (int64, error) {
	sent := int64(0)
	for _, l := range filled {
		if len(l.batch) == 0 {
			continue // sent before a Send that was interrupted
		}
		n, err := to.Send(ctx, l.TopicPartition, l.batch)
		if err != nil {
			l.batch = append(l.batch[:0], l.batch[n:]...)
			return sent, err
		}
		sent += l.bytes
		clear(l.batch)
		l.batch, l.bytes = l.batch[:0], 0
	}
	return sent, nil
}
