package task

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
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
// record once, whatever crashes in between. A commit is one transaction of the log: the records and
// the position behind them can be read together or not at all, and after a crash the source is read
// again from Position. Who opens the writer keeps an earlier one of that name out.
//
// Records are numbered in the order of Send, or by the caller. What the log has under such a number
// is dropped: earlier versions wrote records before their position. It belongs to one goroutine.
type SequencedProducer struct {
	opts SequencedOptions
	txn  client.Transactor
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
	txn, err := opts.Cluster.Transactor(ctx, opts.Writer)
	if err != nil {
		return nil, fmt.Errorf("open writer %s: %w", opts.Writer, err)
	}
	p := &SequencedProducer{opts: opts, txn: txn, w: newWriter(opts.Writer, opts.Cluster, txn)}
	if err := p.open(ctx); err != nil {
		p.Close()
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
		if _, err := p.w.addTopics(ctx, []string{topic}); err != nil {
			return fmt.Errorf("write to topic %s: %w", topic, err)
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

// Commit makes everything sent readable together with position, up to which the source was read.
func (p *SequencedProducer) Commit(ctx context.Context, position []byte) error {
	return p.commit(ctx, position, false)
}

// Finish is Commit for the last time: a later run need not look for records after it.
func (p *SequencedProducer) Finish(ctx context.Context, position []byte) error {
	return p.commit(ctx, position, true)
}

func (p *SequencedProducer) commit(ctx context.Context, position []byte, clean bool) error {
	if err := p.txn.Flush(ctx); err != nil { // the commit says where the records are
		return fmt.Errorf("commit writer %s: %w", p.opts.Writer, err)
	}
	if position == nil {
		position = []byte{}
	}
	return p.seal(ctx, position, p.seq, clean)
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
		err = p.txn.Commit(ctx, "", nil)
	}
	if err != nil {
		return fmt.Errorf("write commit of writer %s: %w", p.opts.Writer, err)
	}
	p.last = c
	return nil
}

// Ends returns the end offset of every partition of the written topics, behind the marker of the
// last commit: where readers of a source that has ended may stop.
func (p *SequencedProducer) Ends(ctx context.Context) (map[string]map[int32]int64, error) {
	if err := p.txn.Readable(ctx); err != nil {
		return nil, fmt.Errorf("find the end of what writer %s wrote: %w", p.opts.Writer, err)
	}
	ranges, err := p.opts.Cluster.Admin().Ranges(ctx, slices.Collect(maps.Keys(p.w.lanes))...)
	if err != nil {
		return nil, err
	}
	ends := map[string]map[int32]int64{}
	for tp, r := range ranges {
		if ends[tp.Topic] == nil {
			ends[tp.Topic] = map[int32]int64{}
		}
		ends[tp.Topic][tp.Partition] = r.End
	}
	return ends, nil
}

// Close gives up what was not committed, so that no reader waits for it, and lets go of
// connections. The next run writes it again.
func (p *SequencedProducer) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), abortTimeout)
	defer cancel()
	p.txn.Abort(ctx)
	p.txn.Close()
}
