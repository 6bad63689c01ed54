package core

import (
	"context"
	"errors"
	"fmt"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/replica"
	"github.com/millstream-io/millstream/core/storage"
)

// internalLog is an internal topic, as the coordinator that keeps its state there sees it:
// __consumer_offsets or __transaction_state.
type internalLog struct {
	replicas *replica.Manager
	topic    string
}

var _ coordinator.Log = (*internalLog)(nil)

// Bounds of replaying.
const (
	replayBytes   = 1 << 20  // read at once
	replayRecords = 64 << 20 // of one batch, decompressed
)

func (l *internalLog) partition(n int32) (*replica.Partition, error) {
	p, err := l.replicas.Partition(storage.TopicPartition{Topic: l.topic, Partition: n})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", coordinator.ErrNotLeader, err)
	}
	return p, nil
}

// LeaderEpoch implements coordinator.Log.
func (l *internalLog) LeaderEpoch(n int32) int32 {
	p, err := l.partition(n)
	if err != nil {
		return -1
	}
	return p.LeaderEpoch()
}

// Append implements coordinator.Log.
func (l *internalLog) Append(ctx context.Context, n int32, b coordinator.Batch) (int64, error) {
	p, err := l.partition(n)
	if err != nil {
		return -1, err
	}
	batch, err := encode(&b, p.LeaderEpoch())
	if err != nil {
		return -1, fmt.Errorf("build batch for %s-%d: %w", l.topic, n, err)
	}
	opts := replica.AppendOptions{Origin: storage.FromCoordinator}
	if b.Marker != nil {
		opts.Origin, opts.TransactionVersion = storage.FromTxnCoordinator, b.TransactionVersion
	}
	done, err := p.AppendAndWait(ctx, batch, opts)
	if err == nil {
		return done.LastOffset, nil
	}
	if done.LastOffset >= 0 {
		return -1, fmt.Errorf("%w: %w", coordinator.ErrUnknownOutcome, err)
	}
	for from, to := range map[error]error{
		storage.ErrTooLarge:                     coordinator.ErrTooLarge,
		replica.ErrNotLeader:                    coordinator.ErrNotLeader,
		storage.ErrInvalidProducerEpoch:         coordinator.ErrInvalidProducerEpoch,
		storage.ErrTransactionCoordinatorFenced: coordinator.ErrTransactionCoordinatorFenced,
		storage.ErrInvalidTxnState:              coordinator.ErrInvalidTxnState,
	} {
		if errors.Is(err, from) {
			return -1, fmt.Errorf("%w: %w", to, err)
		}
	}
	return -1, err
}

// encode makes the record batch of b.
func encode(b *coordinator.Batch, leaderEpoch int32) (record.Batch, error) {
	if b.Marker != nil {
		marker := *b.Marker
		marker.BaseOffset, marker.LeaderEpoch = 0, leaderEpoch
		return record.ControlBatch(marker), nil
	}
	opts := record.BuilderOptions{LeaderEpoch: leaderEpoch}
	if p := b.Producer; p != nil {
		// The sequence is always 0, as in Kafka: a coordinator appends once what it decided once, and
		// nothing looks at it.
		opts.Transactional, opts.Idempotent = true, true
		opts.ProducerID, opts.ProducerEpoch = p.ID, p.Epoch
	}
	builder := record.NewBuilder(opts)
	for i := range b.Records {
		builder.Append(b.Records[i])
	}
	return builder.Build()
}

// Replay implements coordinator.Log.
func (l *internalLog) Replay(ctx context.Context, n int32, fn func(coordinator.Entry) error,
) error {
	p, err := l.partition(n)
	if err != nil {
		return err
	}
	// Records that are appended and not committed yet may still become so: who replays must not
	// miss them, or its memory would be behind the log.
	end := p.EndOffset()
	if err := p.AwaitCommitted(ctx, end); err != nil {
		return err
	}
	var buf []byte
	for offset := p.StartOffset(); offset < end; {
		if err := ctx.Err(); err != nil {
			return err
		}
		chunk, err := p.Read(replica.ReadRequest{
			Offset: offset, MaxBytes: replayBytes, MinOne: true, LeaderEpoch: -1,
		})
		if err != nil {
			return fmt.Errorf("replay %s-%d at %d: %w", l.topic, n, offset, err)
		}
		buf, err = chunk.AppendTo(buf[:0])
		next := chunk.NextOffset()
		chunk.Release()
		if err == nil {
			err = eachEntry(buf, offset, fn)
		}
		if err != nil {
			return fmt.Errorf("replay %s-%d at %d: %w", l.topic, n, offset, err)
		}
		if next <= offset {
			return fmt.Errorf("replay %s-%d at %d: no progress", l.topic, n, offset)
		}
		offset = next
	}
	return nil
}

// eachEntry calls fn for the records and markers of a run of batches, from an offset on.
func eachEntry(b []byte, from int64, fn func(coordinator.Entry) error) error {
	for len(b) > 0 {
		batch, rest, err := record.Next(b)
		if err != nil {
			return err
		}
		var e coordinator.Entry
		if batch.IsTransactional() || batch.IsControl() {
			e.Producer = &coordinator.Producer{
				ID: batch.ProducerID(), Epoch: batch.ProducerEpoch(),
			}
		}
		err = batch.Each(replayRecords, func(r *record.Record) error {
			switch {
			case r.Offset < from:
				return nil
			case batch.IsControl():
				return eachMarker(r, e, fn)
			}
			e.Record = *r
			return fn(e)
		})
		if err != nil {
			return err
		}
		b = rest
	}
	return nil
}

// eachMarker calls fn for the record of a control batch, if it ends a transaction.
func eachMarker(r *record.Record, e coordinator.Entry, fn func(coordinator.Entry) error) error {
	t, _, err := record.ParseControl(r)
	if err != nil {
		return err
	}
	if t != record.ControlAbort && t != record.ControlCommit {
		return nil
	}
	e.Record = record.Record{Offset: r.Offset, Timestamp: r.Timestamp}
	e.Marker, e.Commit = true, t == record.ControlCommit
	return fn(e)
}
