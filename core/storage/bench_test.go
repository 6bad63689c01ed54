package storage

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/core/vfs"
)

// rewind makes an appended batch one of a client again.
func rewind(b record.Batch) []byte {
	b.SetBaseOffset(0)
	return b
}

// The hot path must not allocate: garbage per batch is what makes brokers in Go slow and their
// latency uneven.
func TestAppendAndReadDoNotAllocate(t *testing.T) {
	d := mustOpen(t, vfs.OS(), t.TempDir())
	l := mustCreate(t, d, DefaultConfig())
	cancel := l.Subscribe(func() {})
	defer cancel()
	plain, idempotent := batchOf(t, 10, 100, t0), producerBatch(t, 1, 0, 0, 1)
	seq := int32(0)
	appendBoth := func() {
		if _, err := l.Append(rewind(plain), AppendOptions{}); err != nil {
			t.Fatal(err)
		}
		b := record.Batch(rewind(idempotent))
		b[53], b[54], b[55], b[56] = byte(seq>>24), byte(seq>>16), byte(seq>>8), byte(seq)
		b.UpdateCRC()
		seq++
		if _, err := l.Append(b, AppendOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for range 5000 {
		appendBoth() // the index in memory grows by doubling, ever less often
	}
	require.Zero(t, testing.AllocsPerRun(1000, appendBoth))

	buf := make([]byte, 0, 1<<20)
	at := int64(0)
	read := func() {
		c, err := l.Read(at, 20_000, farAway, true)
		if err != nil {
			t.Fatal(err)
		}
		if buf, err = c.AppendTo(buf[:0]); err != nil {
			t.Fatal(err)
		}
		if at = c.NextOffset(); at == l.EndOffset() {
			at = 0
		}
		c.Release()
	}
	require.Zero(t, testing.AllocsPerRun(1000, read))
	l.mu.Lock()
	require.NoError(t, l.rollLocked(l.end.Load(), "test", t0))
	l.mu.Unlock()
	require.Zero(t, testing.AllocsPerRun(1000, read), "from a sealed segment")
}

var benchSizes = []struct {
	name         string
	records, len int
}{{"100B", 1, 30}, {"1KiB", 1, 950}, {"16KiB", 16, 1010}, {"1MiB", 1024, 1009}}

func benchLog(b *testing.B, flush FlushPolicy) (*Dir, *Log) {
	b.Helper()
	d := mustOpen(b, vfs.OS(), b.TempDir())
	c := DefaultConfig()
	c.MaxMessageBytes = 2 << 20
	c.Flush = flush
	c.RetentionBytes = 256 << 20
	c.SegmentBytes = 128 << 20
	c.FileDeleteDelayMS = 0
	return d, mustCreate(b, d, c)
}

// BenchmarkAppend appends client batches to the page cache. Retention outside the clock keeps the
// disk from filling.
func BenchmarkAppend(b *testing.B) {
	for _, size := range benchSizes {
		b.Run(size.name, func(b *testing.B) {
			d, l := benchLog(b, FlushOS)
			batch := batchOf(b, size.records, size.len, t0)
			b.SetBytes(int64(len(batch)))
			b.ReportAllocs()
			written := 0
			for b.Loop() {
				if _, err := l.Append(rewind(batch), AppendOptions{}); err != nil {
					b.Fatal(err)
				}
				if written += len(batch); written > 64<<20 {
					b.StopTimer()
					written = 0
					l.SetHighWatermark(l.EndOffset())
					d.ApplyRetention()
					d.removeDue()
					b.StartTimer()
				}
			}
		})
	}
}

// BenchmarkAppendTransaction appends a batch and a marker, the shortest transaction there is.
func BenchmarkAppendTransaction(b *testing.B) {
	_, l := benchLog(b, FlushOS)
	batch := txnBatch(b, 1, 0, 0, 1)
	marker := record.ControlBatch(record.ControlOptions{Type: record.ControlCommit, ProducerID: 1})
	b.ReportAllocs()
	for i := int32(0); b.Loop(); i++ {
		rewind(batch)
		binary.BigEndian.PutUint32(batch[53:], uint32(i))
		batch.UpdateCRC()
		if _, err := txnAppend(l, batch); err != nil {
			b.Fatal(err)
		}
		_, err := l.Append(rewind(marker), AppendOptions{Origin: FromTxnCoordinator})
		if err != nil {
			b.Fatal(err)
		}
		l.SetHighWatermark(l.EndOffset())
	}
}

// BenchmarkRead reads the log from the page cache in chunks of at most 1 MiB, as a consumer that
// catches up does.
func BenchmarkRead(b *testing.B) {
	for _, size := range benchSizes {
		b.Run(size.name, func(b *testing.B) {
			_, l := benchLog(b, FlushOS)
			batch := batchOf(b, size.records, size.len, t0)
			for n := 0; n < 32<<20; n += len(batch) {
				mustAppend(b, l, rewind(batch))
			}
			buf := make([]byte, 0, 2<<20)
			at := int64(0)
			b.SetBytes(1 << 20)
			b.ReportAllocs()
			for b.Loop() {
				for left := 1 << 20; left > 0; {
					c, err := l.Read(at, 1<<20, farAway, true)
					if err != nil {
						b.Fatal(err)
					}
					if buf, err = c.AppendTo(buf[:0]); err != nil {
						b.Fatal(err)
					}
					left -= c.Len()
					if at = c.NextOffset(); at >= l.EndOffset() {
						at = 0
					}
					c.Release()
				}
			}
		})
	}
}

// BenchmarkReadTail reads the last batch, as a consumer that keeps up does.
func BenchmarkReadTail(b *testing.B) {
	for _, size := range benchSizes[:3] {
		b.Run(size.name, func(b *testing.B) {
			_, l := benchLog(b, FlushOS)
			batch := batchOf(b, size.records, size.len, t0)
			for range 1000 {
				mustAppend(b, l, rewind(batch))
			}
			at := l.EndOffset() - int64(size.records)
			b.ReportAllocs()
			for b.Loop() {
				c, err := l.Read(at, 1<<20, l.EndOffset(), true)
				if err != nil || c.Len() != len(batch) {
					b.Fatal(c.Len(), err)
				}
				c.Release()
			}
		})
	}
}

// BenchmarkRecover scans, checks and indexes a segment after an unclean end.
func BenchmarkRecover(b *testing.B) {
	for _, size := range benchSizes {
		b.Run(size.name, func(b *testing.B) {
			_, l := benchLog(b, FlushOS)
			batch := batchOf(b, size.records, size.len, t0)
			for n := 0; n < 32<<20; n += len(batch) {
				mustAppend(b, l, rewind(batch))
			}
			s := l.active()
			b.SetBytes(s.state().size)
			for b.Loop() {
				if _, err := s.recover(4096, nil, func(recovered) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
