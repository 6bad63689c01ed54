package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/plugins/host"
	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/operator"
)

// outputOptions describe one sink connector. It reads a topic of its own that the steps write, so
// that the steps are exact whatever the other system does, and the connector sees each record
// under a topic, partition and offset that never change.
type outputOptions struct {
	ID         string
	Pipeline   string
	ConfigHash string
	Topic      string
	Partitions int32
	// Group keeps the offsets the connector has acknowledged.
	Group   string
	Plugin  *host.Plugin
	Part    string
	Config  []byte
	Cluster client.Cluster
	OnError operator.ErrorPolicy
	// Retries and their first and longest waits, for records the connector may yet take.
	Retries                  int
	RetryFirst, RetryLongest time.Duration
	Logger                   *slog.Logger
	Now                      func() time.Time
}

// output moves records from a topic to a sink connector.
type output struct {
	opts    outputOptions
	written atomic.Int64
	failed  atomic.Int64
	next    map[client.TopicPartition]int64

	mu struct {
		sync.Mutex
		ends map[client.TopicPartition]int64 // where to stop, once it is known
		lag  int64
		err  string
	}
	stop chan struct{} // closed when ends are known
}

func newOutput(opts outputOptions) *output {
	return &output{opts: opts, next: map[client.TopicPartition]int64{}, stop: make(chan struct{})}
}

// endAt tells where the topic ends: nothing will be written behind it.
func (o *output) endAt(ends map[client.TopicPartition]int64) {
	o.mu.Lock()
	o.mu.ends = ends
	o.mu.Unlock()
	close(o.stop)
}

// run writes until ctx ends or everything before the end is written.
func (o *output) run(ctx context.Context) error {
	err := o.transfer(ctx)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		err = fmt.Errorf("sink %s: %w", o.opts.ID, err)
		o.mu.Lock()
		o.mu.err = err.Error()
		o.mu.Unlock()
	}
	return err
}

func (o *output) transfer(ctx context.Context) error {
	consumer, err := o.opts.Cluster.Consumer()
	if err != nil {
		return err
	}
	defer consumer.Close()
	committed, err := o.opts.Cluster.Admin().CommittedOffsets(ctx, o.opts.Group)
	if err != nil {
		return fmt.Errorf("fetch committed offsets: %w", err)
	}
	var offsets []host.TopicOffset
	for p := range o.opts.Partitions {
		tp := client.TopicPartition{Topic: o.opts.Topic, Partition: p}
		o.next[tp] = committed[tp]
		consumer.Assign(tp, committed[tp])
		if at, ok := committed[tp]; ok {
			offsets = append(offsets, host.TopicOffset{Topic: tp.Topic, Partition: p, Offset: at})
		}
	}
	sink, err := o.opts.Plugin.Sink(ctx, host.SinkOptions{
		Part: o.opts.Part, Config: o.opts.Config, Task: o.opts.Pipeline + "/" + o.opts.ID,
		Committed: offsets,
	})
	if err != nil {
		return err
	}
	return errors.Join(o.pump(ctx, consumer, sink), ignoreClosed(sink.Close()))
}

// pump polls, writes and commits until everything before the end is written.
func (o *output) pump(ctx context.Context, consumer client.Consumer, sink *host.Sink) error {
	// open ends when the end becomes known: a poll that waits for more must look at it.
	open, known := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer known()
	wg.Go(func() {
		select {
		case <-o.stop:
			known()
		case <-open.Done():
		}
	})
	for !o.done() {
		pollCtx := ctx
		if open.Err() == nil {
			pollCtx = open
		}
		runs, err := consumer.Poll(pollCtx)
		if err != nil && open.Err() != nil && ctx.Err() == nil && pollCtx == open {
			continue
		}
		if err != nil {
			return err
		}
		if err := o.write(ctx, sink, runs); err != nil {
			return err
		}
	}
	return nil
}

func (o *output) done() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.ends == nil {
		return false
	}
	for tp, end := range o.mu.ends {
		if o.next[tp] < end {
			return false
		}
	}
	return true
}

func (o *output) write(ctx context.Context, sink *host.Sink, runs []client.Fetched) error {
	var batch []host.Record
	lag := int64(0)
	for _, run := range runs {
		for i := range run.Records {
			r := run.Records[i]
			r.Headers = operator.VisibleHeaders(r.Headers)
			batch = append(batch, host.Record{Record: r, Topic: run.Topic, Partition: run.Partition})
		}
		lag += run.End - run.Next
	}
	if err := o.deliver(ctx, sink, batch); err != nil {
		return err
	}
	for _, run := range runs {
		o.next[run.TopicPartition] = run.Next
	}
	o.mu.Lock()
	o.mu.lag = lag
	o.mu.Unlock()
	if err := o.opts.Cluster.Admin().CommitOffsets(ctx, o.opts.Group, o.next); err != nil {
		return fmt.Errorf("commit offsets: %w", err)
	}
	return nil
}

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
			return nil
		}
		o.opts.Logger.Warn("sink refused records for now", "sink", o.opts.ID,
			"records", len(batch), "wait", wait)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
		wait = min(2*wait, o.opts.RetryLongest)
	}
	return nil
}

// fail deals with a record the connector will not take.
func (o *output) fail(
	ctx context.Context, r *host.Record, bad *host.RecordError, attempts int,
) error {
	o.failed.Add(1)
	class := "sink_permanent"
	if bad.Retryable {
		class = "sink_transient"
	}
	where := fmt.Sprintf("%s-%d@%d", r.Topic, r.Partition, r.Offset)
	switch o.opts.OnError.ActionFor(class) {
	case operator.Drop:
		o.opts.Logger.Warn("record dropped", "sink", o.opts.ID, "record", where, "error", bad)
		return nil
	case operator.Stop:
		return fmt.Errorf("record %s: %w (class %s)", where, bad, class)
	}
	letter := operator.DeadLetter{Topic: o.opts.OnError.DeadLetterTopic, Step: o.opts.ID,
		Class: class, Message: bad.Message, Attempts: attempts}
	raw := r.Record
	out := letter.Record(&operator.Record{Raw: &raw,
		From: &operator.Input{Topic: r.Topic, Partition: r.Partition}},
		o.opts.Pipeline, o.opts.ConfigHash)
	producer, err := o.opts.Cluster.Producer()
	if err != nil {
		return err
	}
	defer producer.Close()
	tp := client.TopicPartition{Topic: letter.Topic}
	if _, err := producer.Send(ctx, tp, []record.Record{out}); err != nil {
		return err
	}
	return producer.Flush(ctx)
}
