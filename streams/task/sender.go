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
	l := s.last[partition]
	if len(l.batch) == 0 {
		s.filled = append(s.filled, l)
	}
	l.batch = append(l.batch, *rec)
	l.bytes += int64(len(rec.Key)+len(rec.Value)) + 64
}

// send hands what is queued to the transaction.
func (s *sender) send(ctx context.Context) error {
	for _, l := range s.filled {
		if len(l.batch) == 0 {
			continue // sent before a Send that was interrupted
		}
		n, err := s.txn.Send(ctx, l.TopicPartition, l.batch)
		if err != nil {
			l.batch = append(l.batch[:0], l.batch[n:]...) // what is left may be sent again
			return err
		}
		s.bytes += l.bytes
		clear(l.batch)
		l.batch, l.bytes = l.batch[:0], 0
	}
	s.filled = s.filled[:0]
	return nil
}
