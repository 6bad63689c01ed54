package task

import (
	"context"
	"time"

	"github.com/millstream-io/millstream/streams/client"
)

// purge deletes what is not needed of repartition topics, now and then, until ctx ends. Trouble is
// only reported: the records just stay.
func (w *Worker) purge(ctx context.Context) {
	ticker := time.NewTicker(w.opts.PurgeInterval)
	defer ticker.Stop()
	deleted := map[client.TopicPartition]int64{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		next := w.purgeable()
		for tp, at := range next {
			if at <= deleted[tp] {
				delete(next, tp)
			}
		}
		if len(next) == 0 {
			continue
		}
		if err := w.opts.Cluster.Admin().DeleteRecords(ctx, next); err != nil {
			w.opts.Logger.Warn("records of repartition topics not deleted", "error", err)
			continue
		}
		for tp, at := range next {
			deleted[tp] = at
		}
	}
}

// purgeable returns the offsets before which nobody needs the records of repartition topics. The
// reader must have committed them as processed. Every writer must have committed them as written
// too: after a crash it looks for its records behind its last commit, and would write again what
// it does not find.
func (w *Worker) purgeable() map[client.TopicPartition]int64 {
	limits := map[client.TopicPartition]int64{}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, sub := range w.opts.Topology.Subs {
		for i := range sub.Sources {
			source := &sub.Sources[i]
			if !source.Repartition() {
				continue
			}
			for p := range source.Partitions {
				tp := client.TopicPartition{Topic: source.Topic, Partition: p}
				if at, ok := w.limitLocked(tp, source.Writers); ok && at > 0 {
					limits[tp] = at
				}
			}
		}
	}
	return limits
}

// limitLocked returns the lowest position any reader or writer of tp has committed; ok is false
// while one of them has not committed yet.
func (w *Worker) limitLocked(tp client.TopicPartition, writers []string) (at int64, ok bool) {
	readers := w.mu.offsets[tp]
	if len(readers) == 0 {
		return 0, false
	}
	at = -1
	lower := func(offset int64) {
		if at < 0 || offset < at {
			at = offset
		}
	}
	for _, offset := range readers {
		lower(offset)
	}
	for _, name := range writers {
		next, known := w.mu.written[tp][name]
		if !known {
			return 0, false
		}
		lower(next)
	}
	return at, true
}
