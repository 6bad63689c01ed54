package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/topology"
)

// IdleTopic is where the decisions about idle inputs of a pipeline are written, for replays: one
// partition, compacted, the place in the lane as key and the Decision as JSON. It is made when a
// source of the pipeline may be declared idle.
func IdleTopic(app string) string { return app + "-idle" }

// DecidesIdle reports whether inputs of the topology may be declared idle.
func DecidesIdle(t *topology.Topology) bool {
	return slices.ContainsFunc(t.Subs, func(s *topology.Sub) bool {
		return slices.ContainsFunc(s.Sources, func(x topology.Source) bool {
			return x.IdleAfter > 0
		})
	})
}

// watchIdle tells the core which inputs had nothing for too long, and returns when to look again.
// An input is only idle at the end of its log: one that is slow to fetch is waited for.
func (t *loop) watchIdle(now time.Time) (next time.Duration) {
	next = time.Hour
	core, ok := t.core.(decider)
	if !ok {
		return next
	}
	for _, in := range t.inputs {
		if in.idleAfter == 0 || in.idle || in.settled {
			continue
		}
		left := in.seen.Add(in.idleAfter).Sub(now)
		switch {
		case left > 0:
			next = min(next, left)
		case in.at < in.end:
			next = min(next, in.idleAfter)
		default:
			in.idle = true
			core.Idle(in.tp.Topic, in.tp.Partition)
			t.dirty = true
			t.log.Info("input is idle", "topic", in.tp.Topic, "partition", in.tp.Partition,
				"offset", in.at, "after", in.idleAfter.String())
		}
	}
	t.dirty = t.dirty || core.Undecided()
	return next
}

// decide lets the core go on without idle inputs, and writes that down in the transaction of the
// commit: so the log has exactly the decisions that count.
func (t *loop) decide(ctx context.Context) error {
	core, ok := t.core.(decider)
	if !ok {
		return nil
	}
	var records []record.Record
	for _, d := range core.Decide() {
		value, err := json.Marshal(d)
		if err != nil { // only numbers and strings are in it
			panic("invariant: a decision can be marshalled: " + err.Error())
		}
		records = append(records, record.Record{Timestamp: time.Now().UnixMilli(),
			Key: []byte(d.key()), Value: value})
	}
	t.decided = len(records) > 0
	if !t.decided {
		return nil
	}
	to := client.TopicPartition{Topic: IdleTopic(t.opts.Topology.App)}
	if _, err := t.out.txn.Send(ctx, to, records); err != nil {
		return fmt.Errorf("task %s: write decisions about idle inputs: %w", t.name, err)
	}
	return nil
}

// key names the place of a decision: of several at one place the last one counts.
func (d Decision) key() string {
	return fmt.Sprintf("%s/%d/%s/%d", d.Source, d.Partition, d.Writer, d.At)
}

// ReadDecisions reads what a pipeline decided about idle inputs, for Options.Decisions of a replay.
// There is nothing when the pipeline never wrote any.
func ReadDecisions(ctx context.Context, c client.Cluster, app string) ([]Decision, error) {
	tp := client.TopicPartition{Topic: IdleTopic(app)}
	there, err := c.Admin().Topics(ctx, tp.Topic)
	if err != nil || there[tp.Topic].Partitions == 0 {
		return nil, err
	}
	ranges, err := c.Admin().Ranges(ctx, tp)
	if err != nil {
		return nil, err
	}
	consumer, err := c.Consumer()
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	latest := map[string]Decision{}
	var faults []error
	err = client.ReadRange(ctx, consumer, tp, ranges[tp].Start, ranges[tp].End,
		func(records []record.Record) error {
			for i := range records {
				var d Decision
				if err := json.Unmarshal(records[i].Value, &d); err != nil {
					faults = append(faults, fmt.Errorf("read %s at %d: %w", tp, records[i].Offset, err))
					continue
				}
				latest[d.key()] = d
			}
			return nil
		})
	if err = errors.Join(append(faults, err)...); err != nil {
		return nil, fmt.Errorf("read decisions about idle inputs: %w", err)
	}
	return slices.Collect(maps.Values(latest)), nil
}
