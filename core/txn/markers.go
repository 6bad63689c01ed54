package txn

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/record"
)

const (
	// maxMarkerWriters bounds the markers that are being written at once: enough that those of many
	// partitions share one sync of the disk, few enough that a restart with many decided
	// transactions does not start a goroutine for each partition of them.
	maxMarkerWriters = 256
	// firstMarkerRetry and lastMarkerRetry bound the pause before a marker is tried again.
	firstMarkerRetry = 50 * time.Millisecond
	lastMarkerRetry  = 5 * time.Second
	// markerTimeout bounds one try.
	markerTimeout = 10 * time.Second
)

// tenure is the time in which one machine of a shard decides. What it began ends with it: the next
// machine finds it in the log.
type tenure struct {
	shard int32
	// coordinatorEpoch is the leader epoch of the shard's partition: the markers' fence against
	// coordinators of the past.
	coordinatorEpoch int32
	ctx              context.Context
	cancel           context.CancelFunc
}

// decided is a transaction on its way to all its partitions.
type decided struct {
	markerJob
	tenure *tenure
	// pending counts the partitions without a marker.
	pending atomic.Int64
}

// marker is one of its partitions.
type marker struct {
	*decided
	partition TopicPartition
	tries     int
}

// markerQueue writes markers, each until it is written.
type markerQueue struct {
	sender MarkerSender
	now    func() time.Time
	logger *slog.Logger
	// done is called when all partitions of a transaction have their markers.
	done func(*decided)

	// goroutines are the writers, and the markers that pause before they are tried again.
	goroutines sync.WaitGroup
	mu         struct {
		sync.Mutex
		waiting []marker
		running int // writers
	}
}

// send begins to write the markers of a transaction.
func (q *markerQueue) send(t *tenure, job markerJob) {
	d := &decided{markerJob: job, tenure: t}
	d.pending.Store(int64(len(job.partitions)))
	if len(job.partitions) == 0 {
		q.done(d)
		return
	}
	ms := make([]marker, len(job.partitions))
	for i, p := range job.partitions {
		ms[i] = marker{decided: d, partition: p}
	}
	q.enqueue(ms...)
}

// enqueue hands markers to the writers, and starts some if they are few.
func (q *markerQueue) enqueue(ms ...marker) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.waiting = append(q.mu.waiting, ms...)
	for range ms {
		if q.mu.running >= maxMarkerWriters {
			break
		}
		q.mu.running++
		q.goroutines.Go(q.write)
	}
}

// write writes markers while there are any.
func (q *markerQueue) write() {
	for {
		q.mu.Lock()
		if len(q.mu.waiting) == 0 {
			q.mu.running--
			q.mu.waiting = nil
			q.mu.Unlock()
			return
		}
		m := q.mu.waiting[0]
		q.mu.waiting[0] = marker{}
		q.mu.waiting = q.mu.waiting[1:]
		q.mu.Unlock()
		q.writeOne(m)
	}
}

// writeOne tries once.
func (q *markerQueue) writeOne(m marker) {
	t := m.tenure
	if t.ctx.Err() != nil {
		return // the next tenure does it again
	}
	options := record.ControlOptions{
		Type: record.ControlAbort, ProducerID: m.producer.ID, ProducerEpoch: m.producer.Epoch,
		CoordinatorEpoch: t.coordinatorEpoch, Timestamp: q.now().UnixMilli(),
	}
	if m.commit {
		options.Type = record.ControlCommit
	}
	ctx, cancel := context.WithTimeout(t.ctx, markerTimeout)
	defer cancel()
	code := q.sender.WriteMarker(ctx, m.partition.Topic, m.partition.Partition, options, m.version)
	switch {
	case code == coordinator.CodeNone:
	case code == coordinator.CodeInvalidProducerEpoch:
		// The partition has a newer epoch of this producer: the transaction is over there.
		q.logger.Warn("transaction marker is out of date",
			"partition", m.partition, "transactional_id", m.id, "producer_id", m.producer.ID,
			"producer_epoch", m.producer.Epoch)
	default:
		q.again(m, code)
		return
	}
	if m.pending.Add(-1) == 0 {
		q.done(m.decided)
	}
}

// again tries a marker once more after a pause.
func (q *markerQueue) again(m marker, code ErrorCode) {
	pause := min(firstMarkerRetry<<min(m.tries, 10), lastMarkerRetry)
	if m.tries++; m.tries == 5 {
		q.logger.Warn("transaction marker is still not written",
			"partition", m.partition, "transactional_id", m.id, "code", code.String())
	}
	q.goroutines.Go(func() {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		select {
		case <-timer.C:
			q.enqueue(m)
		case <-m.tenure.ctx.Done():
		}
	})
}

// close waits for the goroutines. The tenures are over already.
func (q *markerQueue) close() { q.goroutines.Wait() }
