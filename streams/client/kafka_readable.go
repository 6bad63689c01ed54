package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Readable implements Transactor.
func (t *kafkaTransactor) Readable(ctx context.Context) error {
	t.mu.Lock()
	wrote := maps.Clone(t.mu.acked)
	t.mu.Unlock()
	defer t.waiters.ask("what %s committed cannot be read yet", t.id)()
	w := readableWait{id: t.id, wrote: wrote, ending: t.admin.ending, stable: t.admin.stable,
		stall: t.stall, log: t.log}
	return w.wait(ctx)
}

// readableWait waits for the markers of the last transaction of an id, and for those of others that
// are open before its records.
type readableWait struct {
	id string
	// wrote is the offset after the last record of each partition.
	wrote map[TopicPartition]int64
	// ending tells whether the last transaction of an id is decided but lacks markers.
	ending func(ctx context.Context, id string) (bool, error)
	// stable are the last stable offsets; topics that are gone are missing.
	stable func(ctx context.Context, topics ...string) (map[TopicPartition]int64, error)
	// stall is after how long it is logged, again and again, that it takes long.
	stall time.Duration
	log   *slog.Logger
}

// The pauses between two looks: markers mostly follow within a millisecond.
const (
	firstLook = time.Millisecond
	slowLook  = 200 * time.Millisecond
)

func (w *readableWait) wait(ctx context.Context) error {
	if len(w.wrote) == 0 {
		return nil
	}
	began := time.Now()
	told := began
	for pause := firstLook; ; pause = min(2*pause, slowLook) {
		behind, err := w.look(ctx)
		if err == nil && behind == "" {
			return nil
		}
		if now := time.Now(); now.Sub(told) >= w.stall {
			told = now
			w.log.Warn("what was committed cannot be read yet: is the broker up, and has its disk"+
				" space?", "waited", now.Sub(began).Round(time.Millisecond), "why", behind, "error", err)
		}
		if err != nil && ctx.Err() == nil && !unavailable(err) {
			return fmt.Errorf("ask whether what %s wrote can be read: %w", w.id, err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			if behind == "" {
				behind = "the broker does not tell"
			}
			return errors.Join(fmt.Errorf("%s: %w", behind, ctx.Err()), err)
		}
	}
}

// look returns what keeps readers from the records; "" is nothing.
func (w *readableWait) look(ctx context.Context) (behind string, err error) {
	ending, err := w.ending(ctx, w.id)
	if err != nil {
		return "", err
	}
	if ending {
		return "the markers of the last transaction of " + w.id + " are not written", nil
	}
	var topics []string
	for tp := range w.wrote {
		if !slices.Contains(topics, tp.Topic) {
			topics = append(topics, tp.Topic)
		}
	}
	stable, err := w.stable(ctx, topics...)
	if err != nil {
		return "", err
	}
	for _, tp := range slices.SortedFunc(maps.Keys(w.wrote), TopicPartition.Compare) {
		if at, ok := stable[tp]; ok && at < w.wrote[tp] {
			return fmt.Sprintf("%s is read up to %d of %d only, where another producer has a"+
				" transaction open", tp, at, w.wrote[tp]), nil
		}
	}
	return "", nil
}

// ending tells whether a transaction is decided and lacks markers. A broker that does not say so
// leaves it to the last stable offsets.
func (a kafkaAdmin) ending(ctx context.Context, id string) (bool, error) {
	all, err := a.client.DescribeTransactions(ctx, id)
	if err == nil {
		err = all[id].Err
	}
	switch {
	case err == nil:
		state := all[id].State
		return state == "PrepareCommit" || state == "PrepareAbort", nil
	case ctx.Err() != nil, unavailable(err):
		return false, err
	}
	return false, nil
}

// stable returns the last stable offsets of topics.
func (a kafkaAdmin) stable(ctx context.Context, topics ...string,
) (map[TopicPartition]int64, error) {
	listed, err := a.client.ListCommittedOffsets(ctx, topics...)
	if err != nil {
		return nil, domain(err)
	}
	stable := map[TopicPartition]int64{}
	for _, topic := range topics {
		for partition, o := range listed[topic] {
			switch {
			case o.Err == nil:
				stable[TopicPartition{topic, partition}] = o.Offset
			case !errors.Is(o.Err, kerr.UnknownTopicOrPartition):
				return nil, fmt.Errorf("last stable offset of %s-%d: %w", topic, partition,
					domain(o.Err))
			}
		}
	}
	return stable, nil
}
