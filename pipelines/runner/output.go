package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

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

// commitOutputs is how often what a connector has acknowledged is committed. What it acknowledged
// after the last commit comes again after a crash; exact connectors know it.
const commitOutputs = 100 * time.Millisecond

// output moves records from a topic to a sink connector.
type output struct {
	opts outputOptions
	// written counts records the connector took, those of earlier runs included; deadLettered is what
	// went to the dead-letter topic instead.
	written, deadLettered atomic.Int64
	opened                atomic.Bool // the connector is ready
	trouble               sampledLog
	letters               *letters // nil without a dead-letter topic

	// next is what follows the last record handed over, dirty that some of it is not committed.
	next map[client.TopicPartition]int64
	ends map[client.TopicPartition]int64 // of the log, as last seen
	// taken is what was handed over of each partition, that of earlier runs included.
	taken   map[client.TopicPartition]taken
	dirty   bool
	changed time.Time // when it became dirty

	mu struct {
		sync.Mutex
		ends map[client.TopicPartition]int64 // where to stop, once it is known
		lag  int64
		err  string
	}
	stop chan struct{} // closed when mu.ends are known
}

func newOutput(opts outputOptions) *output {
	o := &output{opts: opts, next: map[client.TopicPartition]int64{},
		ends:  map[client.TopicPartition]int64{},
		taken: map[client.TopicPartition]taken{}, stop: make(chan struct{})}
	o.trouble.now = opts.Now
	return o
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
	offsets, err := o.position(ctx, consumer)
	if err != nil {
		return err
	}
	sink, err := o.opts.Plugin.Sink(ctx, host.SinkOptions{
		Part: o.opts.Part, Config: o.opts.Config, Task: o.opts.Pipeline + "/" + o.opts.ID,
		Committed: offsets,
	})
	if err != nil {
		return err
	}
	o.opened.Store(true)
	err = o.pump(ctx, consumer, sink)
	if o.letters != nil {
		o.letters.close()
	}
	return errors.Join(err, ignoreClosed(sink.Close()))
}

// position finds where the last run ended.
func (o *output) position(
	ctx context.Context, consumer client.Consumer,
) ([]host.TopicOffset, error) {
	committed, err := o.opts.Cluster.Admin().CommittedOffsets(ctx, o.opts.Group)
	if err != nil {
		return nil, fmt.Errorf("fetch committed offsets: %w", err)
	}
	notes, err := o.opts.Cluster.Admin().Notes(ctx, o.opts.Group)
	if err != nil {
		return nil, fmt.Errorf("fetch committed offsets: %w", err)
	}
	var offsets []host.TopicOffset
	records := int64(0)
	for p := range o.opts.Partitions {
		tp := client.TopicPartition{Topic: o.opts.Topic, Partition: p}
		o.next[tp] = committed[tp]
		at, ok := committed[tp]
		if !ok {
			continue
		}
		o.taken[tp] = parseTaken(notes[tp], at)
		records += o.taken[tp].records
		offsets = append(offsets,
			host.TopicOffset{Topic: tp.Topic, Partition: p, Offset: o.taken[tp].after})
	}
	if topic := o.opts.OnError.DeadLetterTopic; topic != "" {
		if o.letters, err = o.openLetters(ctx, consumer, topic); err != nil {
			return nil, err
		}
		records -= o.letters.before
	}
	o.written.Store(records)
	for tp, at := range o.next {
		consumer.Assign(tp, at)
	}
	return offsets, nil
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
		if err := o.turn(ctx, pollCtx, consumer, sink); err != nil {
			return err
		}
	}
	return o.commit(ctx)
}

// turn polls once, and writes and commits what is due.
func (o *output) turn(
	ctx, pollCtx context.Context, consumer client.Consumer, sink *host.Sink,
) error {
	if o.dirty {
		due, cancel := context.WithDeadline(pollCtx, o.changed.Add(commitOutputs))
		defer cancel()
		pollCtx = due
	}
	runs, err := consumer.Poll(pollCtx)
	switch {
	case err == nil:
		err = o.write(ctx, sink, runs)
	case ctx.Err() != nil: // told to stop: what is written is committed
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitLast)
		defer cancel()
		return errors.Join(err, o.commit(last))
	case pollCtx.Err() != nil: // the end became known, or a commit is due
		err = nil
	}
	if err == nil && o.dirty && time.Since(o.changed) >= commitOutputs {
		err = o.commit(ctx)
	}
	return err
}

// commitLast bounds the commit of an output that is told to stop.
const commitLast = 5 * time.Second

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
	for _, run := range runs {
		for i := range run.Records {
			r := run.Records[i]
			r.Headers = operator.VisibleHeaders(r.Headers)
			batch = append(batch, host.Record{Record: r, Topic: run.Topic, Partition: run.Partition})
		}
	}
	if err := o.deliver(ctx, sink, batch); err != nil {
		return err
	}
	for _, run := range runs {
		o.next[run.TopicPartition], o.ends[run.TopicPartition] = run.Next, run.End
		o.taken[run.TopicPartition] = o.taken[run.TopicPartition].with(run.Records)
	}
	lag := int64(0)
	for tp, end := range o.ends {
		lag += max(0, end-o.next[tp])
	}
	o.mu.Lock()
	o.mu.lag = lag
	o.mu.Unlock()
	if !o.dirty {
		o.dirty, o.changed = true, time.Now()
	}
	return nil
}

// commit keeps what the connector has acknowledged.
func (o *output) commit(ctx context.Context) error {
	if !o.dirty {
		return nil
	}
	notes := map[client.TopicPartition]string{}
	for tp, t := range o.taken {
		notes[tp] = t.String()
	}
	err := o.opts.Cluster.Admin().CommitNoted(ctx, o.opts.Group, o.next, notes)
	if err != nil {
		return fmt.Errorf("commit offsets: %w", err)
	}
	o.dirty = false
	return nil
}
