package runner

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/plugins/host"
	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/operator"
)

// deliver writes a batch; what the connector may yet take is tried again with growing waits.
func (o *output) deliver(ctx context.Context, sink *host.Sink, batch []host.Record) error {
	wait := o.opts.RetryFirst
	for attempt := 1; len(batch) > 0; attempt++ {
		refused, err := sink.Write(ctx, batch)
		if err != nil {
			return err
		}
		o.written.Add(int64(len(batch) - len(refused)))
		var again []host.Record
		for _, bad := range refused {
			r := &batch[bad.Index]
			if bad.Retryable && attempt <= o.opts.Retries {
				again = append(again, *r)
				continue
			}
			if err := o.fail(ctx, r, &bad, attempt); err != nil {
				return err
			}
		}
		if batch = again; len(batch) == 0 {
			break
		}
		o.opts.Logger.Warn("sink refused records for now", "sink", o.opts.ID,
			"records", len(batch), "wait", wait)
		if err := pause(ctx, wait); err != nil {
			return err
		}
		wait = min(2*wait, o.opts.RetryLongest)
	}
	if o.letters == nil {
		return nil
	}
	return o.letters.flush(ctx)
}

// pause waits, or returns why ctx ended.
func pause(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// fail deals with a record the connector will not take.
func (o *output) fail(
	ctx context.Context, r *host.Record, bad *host.RecordError, attempts int,
) error {
	class := "sink_permanent"
	if bad.Retryable {
		class = "sink_transient"
	}
	where := fmt.Sprintf("%s-%d@%d", r.Topic, r.Partition, r.Offset)
	switch o.opts.OnError.ActionFor(class) {
	case operator.Drop:
		o.trouble.warn(o.opts.Logger, "record dropped", "sink", o.opts.ID, "record", where,
			"class", class, "error", bad)
		return nil
	case operator.Stop:
		return fmt.Errorf("record %s: %w (class %s)", where, bad, class)
	}
	o.trouble.warn(o.opts.Logger, "record dead-lettered", "sink", o.opts.ID, "record", where,
		"class", class, "error", bad)
	letter := operator.DeadLetter{Topic: o.opts.OnError.DeadLetterTopic, Step: o.opts.ID,
		Class: class, Message: bad.Message, Attempts: attempts}
	raw := r.Record
	out := letter.Record(&operator.Record{Raw: &raw,
		From: &operator.Input{Topic: r.Topic, Partition: r.Partition}},
		o.opts.Pipeline, o.opts.ConfigHash)
	sent, err := o.letters.send(ctx, client.TopicPartition{Topic: r.Topic, Partition: r.Partition},
		r.Offset, out)
	if sent {
		o.deadLettered.Add(1)
	}
	return err
}

// letters are the dead letters of one output. What was sent after the last commit is known from the
// topic itself, so that a record that comes again after a crash is not sent twice.
type letters struct {
	topic    client.TopicPartition
	producer client.Producer
	sent     map[client.TopicPartition]map[int64]bool
	before   int64 // letters whose records do not come again
	dirty    bool
}

// openLetters reads the dead-letter topic for what this output has sent there.
func (o *output) openLetters(
	ctx context.Context, consumer client.Consumer, topic string,
) (*letters, error) {
	l := &letters{topic: client.TopicPartition{Topic: topic},
		sent: map[client.TopicPartition]map[int64]bool{}}
	ranges, err := o.opts.Cluster.Admin().Ranges(ctx, l.topic)
	if err != nil {
		return nil, err
	}
	there := ranges[l.topic]
	err = client.ReadRange(ctx, consumer, l.topic, there.Start, there.End,
		func(records []record.Record) error {
			for i := range records {
				o.learn(l, &records[i])
			}
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("read dead letters: %w", err)
	}
	l.producer, err = o.opts.Cluster.Producer()
	return l, err
}

// learn counts a letter of this output, and remembers one whose record may come again.
func (o *output) learn(l *letters, r *record.Record) {
	value := map[string]string{}
	for _, h := range r.Headers {
		value[h.Key] = string(h.Value)
	}
	if value[operator.HeaderDLQPipeline] != o.opts.Pipeline ||
		value[operator.HeaderDLQStep] != o.opts.ID ||
		value[operator.HeaderDLQTopic] != o.opts.Topic {
		return
	}
	o.deadLettered.Add(1)
	partition, err := strconv.ParseInt(value[operator.HeaderDLQPartition], 10, 32)
	offset, err2 := strconv.ParseInt(value[operator.HeaderDLQOffset], 10, 64)
	tp := client.TopicPartition{Topic: o.opts.Topic, Partition: int32(partition)}
	if err != nil || err2 != nil || offset < o.next[tp] {
		l.before++
		return
	}
	if l.sent[tp] == nil {
		l.sent[tp] = map[int64]bool{}
	}
	l.sent[tp][offset] = true
}

// send sends the letter of a record unless it is there already.
func (l *letters) send(
	ctx context.Context, of client.TopicPartition, offset int64, letter record.Record,
) (sent bool, err error) {
	if l.sent[of][offset] {
		return false, nil
	}
	l.dirty = true
	_, err = l.producer.Send(ctx, l.topic, []record.Record{letter})
	return err == nil, err
}

// flush waits until all letters are durable.
func (l *letters) flush(ctx context.Context) error {
	if !l.dirty {
		return nil
	}
	l.dirty = false
	return l.producer.Flush(ctx)
}

func (l *letters) close() { l.producer.Close() }
