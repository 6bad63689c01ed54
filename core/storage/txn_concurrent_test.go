package storage

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/vfs"
)

// writeTxns writes transactions of three batches; those of an even number are committed, the others
// aborted, which is in the sequence: batches 0 to 2 are of number 0, and so on.
func writeTxns(l *Log, id int64, count int32) error {
	for i := range count {
		epoch := int16(i)
		for seq := range int32(3) {
			b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: -1, Idempotent: true,
				Transactional: true, ProducerID: id, ProducerEpoch: epoch, BaseSequence: seq})
			b.Append(record.Record{Timestamp: t0, Value: make([]byte, 40)})
			batch, err := b.Build()
			if err == nil {
				_, err = txnAppend(l, batch)
			}
			if err != nil {
				return err
			}
		}
		kind := commit
		if i%2 > 0 {
			kind = abort
		}
		if _, err := writeMarker(l, record.ControlOptions{Type: kind, ProducerID: id,
			ProducerEpoch: epoch + 1, Timestamp: t0}, 2); err != nil {
			return err
		}
	}
	return nil
}

// followCommitted reads with read_committed until done is closed and everything is read. No batch
// of an aborted transaction may show up, and the last stable offset must not go back.
func followCommitted(l *Log, done <-chan struct{}) (seen int, err error) {
	moved := make(chan struct{}, 1)
	defer l.Subscribe(func() { wake(moved) })()
	stable, finished := int64(0), false
	for at := int64(0); ; {
		next := l.LastStableOffset()
		if next < stable {
			return seen, fmt.Errorf("last stable offset went from %d to %d", stable, next)
		}
		if stable = next; at >= stable {
			if finished {
				return seen, nil
			}
			select {
			case <-moved:
			case <-done:
				finished = true
			}
			continue
		}
		shown, after, err := readCommitted(l, at, stable, 1500)
		if errors.Is(err, ErrOffsetOutOfRange) && at < l.StartOffset() {
			at = l.StartOffset()
			continue
		}
		if err != nil {
			return seen, err
		}
		for _, b := range shown {
			if b.ProducerEpoch()%2 > 0 {
				return seen, fmt.Errorf("batch at %d of producer %d was aborted", b.BaseOffset(),
					b.ProducerID())
			}
		}
		seen += len(shown)
		at = after
	}
}

// TestReadCommittedBesideWritersAndRetention has transactions, readers, the flusher and retention
// at work on one log: a chunk and its list of aborted transactions always belong together
// (AutoMQ#754), also while segments are rolled and deleted.
func TestReadCommittedBesideWritersAndRetention(t *testing.T) {
	d := mustOpen(t, vfs.OS(), t.TempDir())
	c := smallConfig()
	c.SegmentBytes, c.RetentionBytes, c.FileDeleteDelayMS = 4000, 20_000, 0
	l := mustCreate(t, d, c)
	ctx, stop := context.WithCancel(t.Context())
	running := make(chan error, 1)
	go func() { running <- d.Run(ctx) }()
	defer l.Subscribe(func() { l.SetHighWatermark(l.SyncedOffset()) })()

	var writing, reading sync.WaitGroup
	done := make(chan struct{})
	for id := range int64(3) {
		writing.Go(func() {
			for range 3 { // a new life of the producer would go on with its epoch; these are others
				if err := writeTxns(l, id, 60); err != nil {
					t.Error(err)
				}
				id += 3
				d.ApplyRetention()
			}
		})
	}
	var seen [2]int
	for i := range seen {
		reading.Go(func() {
			var err error
			if seen[i], err = followCommitted(l, done); err != nil {
				t.Error(err)
			}
		})
	}
	writing.Wait()
	require.NoError(t, l.Sync(ctx))
	close(done)
	reading.Wait()
	stop()
	require.NoError(t, <-running)
	require.Equal(t, int64(9*60*4), l.EndOffset())
	require.Equal(t, l.EndOffset(), l.LastStableOffset())
	d.ApplyRetention()
	require.Positive(t, l.StartOffset())
	require.Positive(t, seen[0])
	require.NoError(t, d.Close())
}
