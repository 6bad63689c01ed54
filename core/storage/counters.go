package storage

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/millstream-io/millstream/core/metrics"
)

// Counters are what a Dir and its logs count since OpenDir.
type Counters struct {
	// Syncs are the syncs of a log's files, each with the indexes and names it took along.
	Syncs metrics.Histogram
	// Rolls are new active segments.
	Rolls atomic.Int64
	// ExpiredSegments and ExpiredBytes went by retention or with deleted records.
	ExpiredSegments, ExpiredBytes atomic.Int64
	// CheckpointErrors are checkpoint files that could not be written.
	CheckpointErrors atomic.Int64
	// Recovered are the logs that were read again after an unclean end.
	Recovered atomic.Int64
	// Damages are batches and indexes that were found damaged, ScrubbedBytes what the scrub has read.
	Damages, ScrubbedBytes atomic.Int64
	// ProducersRefused are batches of a producer too many.
	ProducersRefused atomic.Int64
	// producers are those that all logs remember.
	producers atomic.Int64
	// openNanos is how long OpenDir took.
	openNanos atomic.Int64
}

// OpenTook returns how long OpenDir took, recovery included.
func (c *Counters) OpenTook() time.Duration { return time.Duration(c.openNanos.Load()) }

// Counters returns what is counted; it never changes its place.
func (d *Dir) Counters() *Counters { return &d.count }

// counters implements logOwner.
func (d *Dir) counters() *Counters { return &d.count }

// Path returns the directory.
func (d *Dir) Path() string { return d.opts.Path }

// FlushQueue returns how many logs wait for the next round of syncs.
func (d *Dir) FlushQueue() int {
	d.dirty.Lock()
	defer d.dirty.Unlock()
	return len(d.dirty.logs)
}

// RemovalsPending returns how many files and directories wait to be unlinked.
func (d *Dir) RemovalsPending() int {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return len(d.mu.removals)
}

// Segments returns how many segments the log has.
func (l *Log) Segments() int { return len(*l.segments.Load()) }

// ProducerCount returns how many producers the log remembers, without waiting for an append.
func (l *Log) ProducerCount() int { return int(l.producerCount.Load()) }

// countProducersLocked publishes the number of producers, none of a log that is closed.
func (l *Log) countProducersLocked() {
	n := int64(len(l.mu.producers))
	if l.closed.Load() {
		n = 0
	}
	if old := l.producerCount.Swap(n); old != n {
		l.owner.counters().producers.Add(n - old)
	}
}

// limits implements logOwner.
func (d *Dir) limits() *DirSettings { return d.settings.Load() }

// roomForProducerLocked refuses a producer that the log does not remember yet, if there are as many
// as may be.
func (l *Log) roomForProducerLocked() error {
	limits, all := l.owner.limits(), l.owner.counters()
	err := error(nil)
	switch {
	case limits.PartitionProducers > 0 && len(l.mu.producers) >= limits.PartitionProducers:
		err = fmt.Errorf("%w: %s remembers %d producer ids, and "+
			"millstream.partition.producer.ids.max=%d", ErrTooManyProducers, l.tp,
			len(l.mu.producers), limits.PartitionProducers)
	case limits.Producers > 0 && all.producers.Load() >= int64(limits.Producers):
		err = fmt.Errorf("%w: all partitions remember %d producer ids, and "+
			"millstream.producer.ids.max=%d", ErrTooManyProducers, all.producers.Load(),
			limits.Producers)
	default:
		return nil
	}
	all.ProducersRefused.Add(1)
	return err
}
