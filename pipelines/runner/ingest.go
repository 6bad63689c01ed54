package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/pipelines/expression"
	"github.com/millstream-io/millstream/plugins/host"
	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/task"
)

// Bounds of what a source may have read without a commit: time, and memory that waits for it.
const (
	ingestEvery = 100 * time.Millisecond
	ingestBytes = 8 << 20
)

// ingestOptions describe one connector that fills a topic.
type ingestOptions struct {
	ID string
	// Stored is the id under which it keeps its position.
	Stored   string
	Pipeline string
	// ConfigHash goes into the headers of dead letters.
	ConfigHash string
	Topic      string
	Partitions int32
	// Key makes the record key; nil keeps the connector's.
	Key *expression.Program
	Set *expression.Set
	// Plugin is started and stopped by the caller; Part and Config choose what it does.
	Plugin *host.Plugin
	Part   string
	Config []byte
	// Commits is where positions are kept.
	Commits client.TopicPartition
	Cluster client.Cluster
	OnError operator.ErrorPolicy
	Logger  *slog.Logger
	Now     func() time.Time
	// OnEnd hears where the topic's partitions end when a bounded source is done.
	OnEnd func(ends map[int32]int64)
}

// lot is what waits to be sent to one partition. The number of a record is its place in the source,
// so that it gets the same one when it is read again in other batches.
type lot struct {
	records []record.Record
	numbers []int64
}

// ingest moves records from a connector to a topic, each exactly once: the position is committed in
// one transaction with the records before it, so after a crash the source is read again from where
// what can be read ends (task.SequencedProducer).
type ingest struct {
	opts     ingestOptions
	producer *task.SequencedProducer
	view     *view
	position ingestPosition

	byPartition map[int32]*lot
	held        []*host.SourceBatch // what unwritten records alias
	bytes       int
	since       time.Time // of the oldest uncommitted batch

	trouble sampledLog
	opened  atomic.Bool // the connector is ready

	mu struct {
		sync.Mutex
		read     int64
		dead     int64
		position string
		ended    bool
		err      string
	}
}

// ingestPosition is what a commit keeps: the connector's own position, and how many records came
// before it, which spreads records without a key the same way at every run.
type ingestPosition struct {
	Source json.RawMessage `json:"source,omitempty"`
	Count  int64           `json:"count"`
	// Dead and Dropped of them were not written to the topic.
	Dead    int64 `json:"dead,omitempty"`
	Dropped int64 `json:"dropped,omitempty"`
}

func newIngest(opts ingestOptions) *ingest {
	in := &ingest{opts: opts, byPartition: map[int32]*lot{}}
	in.trouble.now = opts.Now
	if opts.Key != nil {
		in.view = newView(opts.Set, opts.Now)
	}
	return in
}

// run reads until ctx ends or a bounded source is done.
func (in *ingest) run(ctx context.Context) error {
	err := in.transfer(ctx)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		err = fmt.Errorf("source %s: %w", in.opts.ID, err)
		in.mu.Lock()
		in.mu.err = err.Error()
		in.mu.Unlock()
	}
	return err
}

func (in *ingest) transfer(ctx context.Context) error {
	topics := []string{in.opts.Topic}
	if dlq := in.opts.OnError.DeadLetterTopic; dlq != "" {
		topics = append(topics, dlq)
	}
	producer, err := task.OpenSequenced(ctx, task.SequencedOptions{
		Cluster: in.opts.Cluster, Commits: in.opts.Commits, Topics: topics,
		Writer: in.opts.Pipeline + ".source." + in.opts.Stored,
	})
	if err != nil {
		return err
	}
	defer producer.Close()
	in.producer = producer
	if p := producer.Position(); len(p) > 0 {
		if err := json.Unmarshal(p, &in.position); err != nil {
			return fmt.Errorf("read the stored position: %w", err)
		}
	}
	in.note(host.Position(in.position.Source).String())
	source, err := in.opts.Plugin.Source(ctx, host.SourceOptions{
		Part: in.opts.Part, Config: in.opts.Config, Task: in.opts.Pipeline + "/" + in.opts.Stored,
		Position: in.position.Source,
	})
	if err != nil {
		return err
	}
	in.opened.Store(true)
	err = in.readAll(ctx, source)
	return errors.Join(err, ignoreClosed(source.Close()))
}

func ignoreClosed(err error) error {
	if errors.Is(err, host.ErrClosed) {
		return nil
	}
	return err
}

func (in *ingest) readAll(ctx context.Context, source *host.Source) error {
	for {
		batch, err := in.read(ctx, source)
		switch {
		case errors.Is(err, io.EOF):
			return in.finish(ctx, source)
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			err = in.commit(ctx, source)
		case err == nil:
			err = in.take(ctx, batch)
			if err == nil && (in.bytes >= ingestBytes || time.Since(in.since) >= ingestEvery) {
				err = in.commit(ctx, source)
			}
		}
		if err != nil {
			return err
		}
	}
}

// read waits for a batch, and while something is uncommitted only until it has to be committed.
func (in *ingest) read(ctx context.Context, source *host.Source) (*host.SourceBatch, error) {
	if len(in.held) == 0 {
		return source.Read(ctx)
	}
	ctx, cancel := context.WithDeadline(ctx, in.since.Add(ingestEvery))
	defer cancel()
	return source.Read(ctx)
}

// take writes the records of one batch.
func (in *ingest) take(ctx context.Context, batch *host.SourceBatch) error {
	if len(in.held) == 0 {
		in.since = time.Now()
	}
	in.held = append(in.held, batch)
	if batch.Position != nil {
		in.position.Source = json.RawMessage(batch.Position)
	}
	failed := batch.Errors
	for i := range batch.Records {
		r := &batch.Records[i]
		in.bytes += len(r.Key) + len(r.Value) + 64
		in.position.Count++
		var bad error
		if len(failed) > 0 && failed[0].Index == i {
			bad = operator.WithClass(failed[0].Class, &failed[0])
			failed = failed[1:]
		} else {
			bad = in.place(r)
		}
		if bad != nil {
			if err := in.fail(ctx, r, bad); err != nil {
				return err
			}
		}
	}
	if err := in.flush(ctx); err != nil {
		return err
	}
	in.note(batch.Position.String())
	return nil
}

// note shows how far the source was read.
func (in *ingest) note(position string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.mu.read, in.mu.dead = in.position.Count, in.position.Dead
	in.mu.position = position
}

// place gives a record its key and puts it into the lot of its partition.
func (in *ingest) place(r *host.Record) error {
	out := record.Record{Timestamp: in.opts.Now().UnixMilli(), Key: r.Key, Value: r.Value,
		Headers: r.Headers}
	if in.view != nil {
		looked := operator.Record{Key: r.Key, Value: r.Value, Headers: r.Headers,
			Timestamp: out.Timestamp}
		key, null, err := in.opts.Key.AppendKey(nil, in.view.at(&looked))
		if err != nil {
			return classify(err)
		}
		if out.Key = key; null {
			out.Key = nil
		}
	}
	p := int32((in.position.Count - 1) % int64(in.opts.Partitions))
	if out.Key != nil {
		p = record.PartitionForKey(out.Key, in.opts.Partitions)
	}
	to := in.byPartition[p]
	if to == nil {
		to = &lot{}
		in.byPartition[p] = to
	}
	to.records, to.numbers = append(to.records, out), append(to.numbers, in.position.Count)
	return nil
}

// flush sends what place has collected, each partition in the order of the source.
func (in *ingest) flush(ctx context.Context) error {
	for p := range in.opts.Partitions {
		to := in.byPartition[p]
		if to == nil || len(to.records) == 0 {
			continue
		}
		err := in.producer.SendNumbered(ctx, in.opts.Topic, p, to.records, to.numbers)
		if err != nil {
			return err
		}
		to.records, to.numbers = nil, to.numbers[:0]
	}
	return nil
}

// fail deals with a record that cannot be written as the policy says.
func (in *ingest) fail(ctx context.Context, r *host.Record, bad error) error {
	class := operator.ClassOf(bad, classDecode)
	where := fmt.Sprintf("%s:%d", r.Topic, r.Offset)
	switch in.opts.OnError.ActionFor(class) {
	case operator.Drop:
		in.position.Dropped++
		in.trouble.warn(in.opts.Logger, "record dropped", "source", in.opts.ID, "where", where,
			"class", class, "error", bad)
		return nil
	case operator.Stop:
		return fmt.Errorf("%s: %w (class %s)", where, bad, class)
	}
	in.trouble.warn(in.opts.Logger, "record dead-lettered", "source", in.opts.ID, "where", where,
		"class", class, "error", bad)
	raw := r.Record
	letter := operator.DeadLetter{Topic: in.opts.OnError.DeadLetterTopic, Step: in.opts.ID,
		Class: class, Message: where + ": " + bad.Error(), Attempts: 1}
	out := letter.Record(&operator.Record{Raw: &raw, From: &operator.Input{Topic: r.Topic}},
		in.opts.Pipeline, in.opts.ConfigHash)
	out.Timestamp = in.opts.Now().UnixMilli()
	in.position.Dead++
	return in.producer.SendNumbered(ctx, letter.Topic, 0, []record.Record{out},
		[]int64{in.position.Count})
}

// commit makes everything sent durable together with the position, then tells the connector.
func (in *ingest) commit(ctx context.Context, source *host.Source) error {
	if len(in.held) == 0 {
		return nil
	}
	position, err := in.encodePosition()
	if err != nil {
		return err
	}
	if err := in.producer.Commit(ctx, position); err != nil {
		return err
	}
	in.release()
	if in.position.Source == nil {
		return nil
	}
	return source.Commit(ctx, in.position.Source)
}

// encodePosition fails on a position that is no JSON. To store less than the connector gave would
// make the next run read everything again.
func (in *ingest) encodePosition() ([]byte, error) {
	data, err := json.Marshal(in.position)
	if err != nil {
		return nil, fmt.Errorf("store the position %.200q, which is no JSON: %w",
			in.position.Source, err)
	}
	return data, nil
}

func (in *ingest) release() {
	for _, b := range in.held {
		b.Release()
	}
	in.held, in.bytes = in.held[:0], 0
}

// finish commits for the last time and tells where the topic ends.
func (in *ingest) finish(ctx context.Context, source *host.Source) error {
	position, err := in.encodePosition()
	if err != nil {
		return err
	}
	if err := in.producer.Finish(ctx, position); err != nil {
		return err
	}
	in.release()
	if in.position.Source != nil {
		if err := source.Commit(ctx, in.position.Source); err != nil {
			return err
		}
	}
	in.mu.Lock()
	in.mu.ended = true
	in.mu.Unlock()
	ends, err := in.producer.Ends(ctx)
	if err != nil {
		return err
	}
	in.opts.OnEnd(ends[in.opts.Topic])
	return nil
}
