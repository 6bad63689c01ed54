package core

import (
	"context"
	"errors"
	"fmt"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/group"
	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/replica"
	"github.com/millstream-io/millstream/core/storage"
)

// offsetsLog is the topic in which groups are kept, as the coordinator sees it.
type offsetsLog struct {
	replicas *replica.Manager
}

var _ coordinator.Log = (*offsetsLog)(nil)

// Bounds of replaying.
const (
	replayBytes   = 1 << 20  // read at once
	replayRecords = 64 << 20 // of one batch, decompressed
)

func (l *offsetsLog) partition(n int32) (*replica.Partition, error) {
	p, err := l.replicas.Partition(storage.TopicPartition{Topic: group.TopicName, Partition: n})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", coordinator.ErrNotLeader, err)
	}
	return p, nil
}

// LeaderEpoch implements coordinator.Log.
func (l *offsetsLog) LeaderEpoch(n int32) int32 {
	p, err := l.partition(n)
	if err != nil {
		return -1
	}
	return p.LeaderEpoch()
}

// Append implements coordinator.Log.
func (l *offsetsLog) Append(ctx context.Context, n int32, recs []record.Record) (int64, error) {
	p, err := l.partition(n)
	if err != nil {
		return -1, err
	}
	b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: p.LeaderEpoch()})
	for i := range recs {
		b.Append(recs[i])
	}
	batch, err := b.Build()
	if err != nil {
		return -1, fmt.Errorf("build batch for %s-%d: %w", group.TopicName, n, err)
	}
	done, err := p.AppendAndWait(ctx, batch, storage.FromCoordinator)
	switch {
	case err == nil:
		return done.LastOffset, nil
	case done.LastOffset >= 0:
		return -1, fmt.Errorf("%w: %w", coordinator.ErrUnknownOutcome, err)
	case errors.Is(err, storage.ErrTooLarge):
		return -1, fmt.Errorf("%w: %w", coordinator.ErrTooLarge, err)
	case errors.Is(err, replica.ErrNotLeader):
		return -1, fmt.Errorf("%w: %w", coordinator.ErrNotLeader, err)
	}
	return -1, err
}

// Replay implements coordinator.Log.
func (l *offsetsLog) Replay(ctx context.Context, n int32, fn func(record.Record) error) error {
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
			return fmt.Errorf("replay %s-%d at %d: %w", group.TopicName, n, offset, err)
		}
		buf, err = chunk.AppendTo(buf[:0])
		next := chunk.NextOffset()
		chunk.Release()
		if err == nil {
			err = eachRecord(buf, offset, fn)
		}
		if err != nil {
			return fmt.Errorf("replay %s-%d at %d: %w", group.TopicName, n, offset, err)
		}
		if next <= offset {
			return fmt.Errorf("replay %s-%d at %d: no progress", group.TopicName, n, offset)
		}
		offset = next
	}
	return nil
}

// eachRecord calls fn for the records of a run of batches, from an offset on.
func eachRecord(b []byte, from int64, fn func(record.Record) error) error {
	for len(b) > 0 {
		batch, rest, err := record.Next(b)
		if err != nil {
			return err
		}
		if !batch.IsControl() {
			err = batch.Each(replayRecords, func(r *record.Record) error {
				if r.Offset < from {
					return nil
				}
				return fn(*r)
			})
			if err != nil {
				return err
			}
		}
		b = rest
	}
	return nil
}
