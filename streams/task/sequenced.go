package task

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/operator"
)

// SequencedOptions configure OpenSequenced. All fields but Start are required.
type SequencedOptions struct {
	// Cluster is the log. The caller closes it.
	Cluster client.Cluster
	// Writer names the source task; it must be the same at every run and unique in Commits.
	Writer string
	// Commits is the partition of a compacted topic where commits are kept; several writers may
	// share it.
	Commits client.TopicPartition
	// Topics are written. One that is not named is taken in at its first record.
	Topics []string
}

func (o SequencedOptions) validate() error {
	var errs []error
	if o.Cluster == nil {
		errs = append(errs, errors.New("sequenced producer: no cluster"))
	}
	if o.Writer == "" {
		errs = append(errs, errors.New("sequenced producer: no writer name"))
	}
	if o.Commits.Topic == "" {
		errs = append(errs, errors.New("sequenced producer: no topic for commits"))
	}
	return errors.Join(errs...)
}

// SequencedProducer writes the records of a source that can be read again from a position, each
// record once, whatever crashes in between. Records are numbered in the order of Send, or by the
// caller; after a crash the source is read again from Position, gets the same numbers, and what the
// log has already is dropped. It belongs to one goroutine.
type SequencedProducer struct {
	opts SequencedOptions
	w    *writer
	seq  int64
	last commitRecord
}

// CommitTopic describes the topic of SequencedOptions.Commits, for whoever makes it.
func CommitTopic(name string, partitions int32) client.TopicSpec {
	return client.TopicSpec{
		Name: name, Partitions: partitions,
		Configs: map[string]string{"cleanup.policy": "compact"},
	}
}

// OpenSequenced finds the last commit of the writer and what was written after it.
func OpenSequenced(ctx context.Context, opts SequencedOptions) (*SequencedProducer, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	producer, err := opts.Cluster.Producer()
	if err != nil {
		return nil, err
	}
	p := &SequencedProducer{opts: opts, w: newWriter(opts.Writer, opts.Cluster, producer)}
	if err := p.open(ctx); err != nil {
		producer.Close()
		return nil, fmt.Errorf("open writer %s: %w", opts.Writer, err)
	}
	return p, nil
}

func (p *SequencedProducer) open(ctx context.Context) error {
	consumer, err := p.opts.Cluster.Consumer()
	if err != nil {
		return err
	}
	defer consumer.Close()
	ranges, err := p.opts.Cluster.Admin().Ranges(ctx, p.opts.Commits)
	if err != nil {
		return err
	}
	key := string(p.key())
	f, ok, err := findLast(ctx, consumer, p.opts.Commits, ranges[p.opts.Commits],
		func(k []byte) bool { return string(k) == key })
	if err != nil {
		return err
	}
	if ok {
		c, err := decodeCommit(f.value)
		if err != nil {
			return fmt.Errorf("read commit at %d of %s: %w", f.offset, p.opts.Commits, err)
		}
		p.last, p.seq = *c, c.Seq
	}
	for _, o := range p.last.Outputs {
		p.w.addLane(o)
	}
	if err := p.w.recover(ctx, consumer, p.last.Clean); err != nil {
		return err
	}
	if _, err := p.w.addTopics(ctx, p.opts.Topics); err != nil {
		return err
	}
	return p.seal(ctx, p.last.Snapshot, p.last.Seq, false)
}

// key is the key of the writer's commit records.
func (p *SequencedProducer) key() []byte { return append([]byte{'s'}, p.opts.Writer...) }

// Position returns the source position of the last commit; nil when there has been none.
func (p *SequencedProducer) Position() []byte { return p.last.Snapshot }

// Dropped returns how many records were not written because the log had them.
func (p *SequencedProducer) Dropped() int64 { return p.w.dropped }

// Written returns how many records were handed to the log.
func (p *SequencedProducer) Written() int64 { return p.w.written }

// Send numbers records and writes those the log does not have. The bytes of the records must stay
// unchanged until the next Commit has returned; their Headers are not changed.
func (p *SequencedProducer) Send(ctx context.Context, topic string, partition int32,
	records []record.Record,
) error {
	numbers := make([]int64, len(records))
	for i := range numbers {
		numbers[i] = p.seq + int64(i) + 1
	}
	return p.SendNumbered(ctx, topic, partition, records, numbers)
}

// SendNumbered is Send with numbers of the caller's, which rise within a partition. It is for
// sources whose records come in other batches when they are read again: the number of a record must
// depend on its place in the source alone, not on what was sent before it.
func (p *SequencedProducer) SendNumbered(ctx context.Context, topic string, partition int32,
	records []record.Record, numbers []int64,
) error {
	l := p.w.lane(topic, partition)
	if l == nil {
		if err := p.learn(ctx, topic); err != nil {
			return err
		}
		if l = p.w.lane(topic, partition); l == nil {
			return fmt.Errorf("write to %s-%d: %w", topic, partition, client.ErrUnknownTopic)
		}
	}
	headers := make([]byte, 0, len(records)*(laneFixed+len(p.opts.Writer)))
	for i := range records {
		p.seq = max(p.seq, numbers[i])
		at := len(headers)
		headers = AppendLane(headers, Lane{
			Writer: p.opts.Writer, Seq: numbers[i], W: operator.NoTime,
		})
		r := records[i]
		r.Headers = append(append(make([]record.Header, 0, len(r.Headers)+1), r.Headers...),
			record.Header{Key: LaneHeader, Value: headers[at:len(headers):len(headers)]})
		p.w.add(l, numbers[i], false, &r)
	}
	if err := p.w.send(ctx); err != nil {
		return fmt.Errorf("write to %s-%d: %w", topic, partition, err)
	}
	return nil
}

// learn takes in a topic before its first record.
func (p *SequencedProducer) learn(ctx context.Context, topic string) error {
	known := len(p.last.Outputs)
	if _, err := p.w.addTopics(ctx, []string{topic}); err != nil {
		return fmt.Errorf("write to topic %s: %w", topic, err)
	}
	amended := p.last
	amended.Clean = false
	amended.Outputs = append(make([]outPosition, 0, known+8), p.last.Outputs...)
	for _, l := range p.w.topics[topic] {
		amended.Outputs = append(amended.Outputs, outPosition{l.TopicPartition, l.next, l.seen})
	}
	return p.append(ctx, amended)
}

// Commit waits until everything sent is acknowledged and notes that the source was read up to
// position.
func (p *SequencedProducer) Commit(ctx context.Context, position []byte) error {
	if err := p.w.producer.Flush(ctx); err != nil {
		return fmt.Errorf("commit writer %s: %w", p.opts.Writer, err)
	}
	if position == nil {
		position = []byte{}
	}
	return p.seal(ctx, position, p.seq, false)
}

// Finish is Commit for the last time: a later run need not look for records after it.
func (p *SequencedProducer) Finish(ctx context.Context, position []byte) error {
	if err := p.Commit(ctx, position); err != nil {
		return err
	}
	return p.seal(ctx, p.last.Snapshot, p.seq, true)
}

func (p *SequencedProducer) seal(ctx context.Context, position []byte, seq int64, clean bool,
) error {
	return p.append(ctx, commitRecord{
		Clean: clean, Snapshot: position, Seq: seq, Outputs: p.w.positions(),
	})
}

func (p *SequencedProducer) append(ctx context.Context, c commitRecord) error {
	_, err := p.w.producer.Send(ctx, p.opts.Commits, []record.Record{{
		Timestamp: time.Now().UnixMilli(), Key: p.key(), Value: c.encode(),
	}})
	if err == nil {
		err = p.w.producer.Flush(ctx)
	}
	if err != nil {
		return fmt.Errorf("write commit of writer %s: %w", p.opts.Writer, err)
	}
	p.last = c
	return nil
}

// Ends returns the end offset of every partition of the written topics: where readers of a source
// that has ended may stop. Everything sent must be committed.
func (p *SequencedProducer) Ends() map[string]map[int32]int64 {
	ends := map[string]map[int32]int64{}
	for _, l := range p.w.lanes {
		if ends[l.Topic] == nil {
			ends[l.Topic] = map[int32]int64{}
		}
		ends[l.Topic][l.Partition] = l.next
	}
	return ends
}

// Close lets go of connections. What was not committed is written again, or found, by the next run.
func (p *SequencedProducer) Close() { p.w.producer.Close() }
