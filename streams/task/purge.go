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

// purgeable returns the offsets before which the records of repartition topics are committed as
// processed: nobody needs them any more.
func (w *Worker) purgeable() map[client.TopicPartition]int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	limits := map[client.TopicPartition]int64{}
	for tp, at := range w.mu.processed {
		if at > 0 {
			limits[tp] = at
		}
	}
	return limits
}
