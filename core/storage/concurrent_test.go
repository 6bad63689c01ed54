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

// TestReadersAppendersAndRetentionTogether has writers, readers that follow them, the flusher and
// retention at work on one log on a real disk. Each reader sees each writer's records in order and
// without a hole, but for what retention has taken.
func TestReadersAppendersAndRetentionTogether(t *testing.T) {
	const writers, batches = 2, 400
	d := mustOpen(t, vfs.OS(), t.TempDir())
	c := smallConfig()
	c.SegmentBytes = 8000
	c.RetentionBytes = 40_000
	l := mustCreate(t, d, c)
	ctx, stop := context.WithCancel(t.Context())
	running := make(chan error, 1)
	go func() { running <- d.Run(ctx) }()
	moved := make(chan struct{}, 1)
	defer l.Subscribe(func() { wake(moved); l.SetHighWatermark(l.SyncedOffset()) })()

	var writing, reading sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range batches {
				b := producerBatch(t, int64(w+1), 0, int32(i), 1)
				if _, err := l.Append(b, AppendOptions{}); err != nil {
					t.Error(err)
					return
				}
				if i%50 == 0 {
					d.ApplyRetention()
				}
			}
		})
	}
	for range 3 {
		reading.Go(func() {
			if err := follow(l, writers*batches); err != nil {
				t.Error(err)
			}
		})
	}
	writing.Wait()
	reading.Wait()
	require.NoError(t, l.Sync(ctx))
	stop()
	require.NoError(t, <-running)
	require.Equal(t, int64(writers*batches), l.EndOffset())
	d.ApplyRetention()
	require.Positive(t, l.StartOffset())
	require.NoError(t, d.Close())
}

// follow reads up to offset end, beginning anew at the start of the log when retention was faster.
func follow(l *Log, end int64) error {
	next := map[int64]int32{} // of each producer
	var buf []byte
	for at := int64(0); at < end; {
		c, err := l.Read(at, 3000, l.EndOffset(), true)
		if errors.Is(err, ErrOffsetOutOfRange) && at < l.StartOffset() {
			at = l.StartOffset()
			clear(next)
			continue
		}
		if err != nil {
			return err
		}
		if buf, err = c.AppendTo(buf[:0]); err != nil {
			return err
		}
		for rest := buf; len(rest) > 0; {
			var b record.Batch
			if b, rest, err = record.Next(rest); err != nil {
				return err
			}
			if err := b.CheckCRC(); err != nil {
				return err
			}
			if want, seen := next[b.ProducerID()]; b.BaseOffset() != at || seen &&
				b.BaseSequence() != want {
				return fmt.Errorf("producer %d sequence %d at %d, want %d at %d", b.ProducerID(),
					b.BaseSequence(), b.BaseOffset(), want, at)
			}
			next[b.ProducerID()] = b.BaseSequence() + 1
			at = b.NextOffset()
		}
		c.Release()
	}
	return nil
}

// flush=os leaves bytes to the kernel but not more than 256 MiB, of which 240 are there before.
func TestFlushOSSyncsInTheBackground(t *testing.T) {
	d := mustOpen(t, vfs.NewMem(), "/data")
	c := DefaultConfig()
	c.Flush, c.MaxMessageBytes = FlushOS, 4<<20
	l := mustCreate(t, d, c)
	synced := make(chan struct{}, 1)
	defer l.Subscribe(func() {
		if l.SyncedOffset() > 0 {
			wake(synced)
		}
	})()
	ctx, stop := context.WithCancel(t.Context())
	running := make(chan error, 1)
	go func() { running <- d.Run(ctx) }()
	batch := record.Batch(batchOf(t, 1, 4<<20-100, t0))
	l.unsynced.Store(240 << 20)
	for range 3 {
		mustAppend(t, l, rewind(batch))
	}
	require.Zero(t, l.SyncedOffset())
	for range 2 {
		mustAppend(t, l, rewind(batch))
	}
	<-synced
	stop()
	require.NoError(t, <-running)
}
