package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millstream-io/millstream/cli/internal/ranges"
)

// reachBack moves the start of each partition so that --from -N shows N records: offsets before the
// end are also those of markers of transactions, of records of failed ones, and of records that
// compaction took.
func (a *app) reachBack(
	ctx context.Context, adm *kadm.Client, topic string, from ranges.Point, r ranges.Range,
) error {
	if from.Kind != ranges.Before || from.N <= 0 || r.Len() == 0 {
		return nil
	}
	starts, err := adm.ListStartOffsets(ctx, topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return fmt.Errorf("list offsets of %s: %w", topic, err)
	}
	ends, err := adm.ListCommittedOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("list offsets of %s: %w", topic, err)
	}
	left := ranges.Range{}
	for p, b := range r {
		start, end := starts[topic][p].Offset, ends[topic][p].Offset
		if b.From > start && b.From < end {
			left[p] = ranges.Bounds{From: b.From, To: end}
		}
	}
	for len(left) > 0 {
		found, err := a.lastRecords(ctx, topic, left, from.N)
		if err != nil {
			return err
		}
		for p, b := range left {
			start := starts[topic][p].Offset
			switch offsets := found[p]; {
			case int64(len(offsets)) >= from.N:
				r[p] = ranges.Bounds{From: min(offsets[0], r[p].To), To: r[p].To}
				delete(left, p)
			case b.From <= start:
				r[p] = ranges.Bounds{From: min(start, r[p].To), To: r[p].To}
				delete(left, p)
			default: // twice as far
				left[p] = ranges.Bounds{From: max(start, 2*b.From-b.To), To: b.To}
			}
		}
	}
	return nil
}

// quietEnd is how long a read may bring nothing before what it has counts as all: the last offsets
// may be those of a failed transaction, of which nothing comes.
const quietEnd = time.Second

// lastRecords gives the offsets of the last n records of each range.
func (a *app) lastRecords(
	ctx context.Context, topic string, r ranges.Range, n int64,
) (map[int32][]int64, error) {
	at := map[int32]kgo.Offset{}
	for p, b := range r {
		at[p] = kgo.NewOffset().At(b.From)
	}
	cl, err := a.client(ctx, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: at}),
		kgo.KeepControlRecords(), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	found := map[int32][]int64{}
	for len(at) > 0 {
		waiting, cancel := context.WithTimeout(ctx, quietEnd)
		fetches := cl.PollFetches(waiting)
		cancel()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err := fetches.Err0(); errors.Is(err, context.DeadlineExceeded) {
			break
		}
		for _, e := range fetches.Errors() {
			return nil, fmt.Errorf("read %s-%d: %w", e.Topic, e.Partition, e.Err)
		}
		fetches.EachRecord(func(rec *kgo.Record) {
			end := r[rec.Partition].To
			if rec.Offset < end && !rec.Attrs.IsControl() {
				all := append(found[rec.Partition], rec.Offset)
				if int64(len(all)) > 2*n {
					all = slices.Delete(all, 0, len(all)-int(n))
				}
				found[rec.Partition] = all
			}
			if rec.Offset+1 >= end {
				delete(at, rec.Partition)
			}
		})
	}
	for p, all := range found {
		found[p] = all[max(0, len(all)-int(min(n, int64(len(all))))):]
	}
	return found, nil
}
