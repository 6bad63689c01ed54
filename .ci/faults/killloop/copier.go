package main

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// copier copies orders to copied, with the offsets in the same transaction.
type copier struct {
	w         *world
	committed atomic.Int64
	// last is the last number read of each partition of copied.
	last map[int32]int64
}

func newCopier(w *world) *copier { return &copier{w: w, last: map[int32]int64{}} }

// run makes sessions, one after the other: a new one takes over after an error.
func (c *copier) run() error {
	for c.w.ctx.Err() == nil {
		session, err := kgo.NewGroupTransactSession(c.w.options(kgo.TransactionalID("copier"), kgo.ConsumerGroup("copiers"),
			kgo.ConsumeTopics(orders), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.InstanceID("copier"),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
		if err != nil {
			return err
		}
		c.session(session)
		session.Client().Close() // without leaving the group, as after a crash
	}
	return nil
}

func (c *copier) session(s *kgo.GroupTransactSession) {
	ctx := c.w.ctx
	// First of all it ends the transaction of the session before: the offsets that are read next may wait for it.
	if _, _, err := s.Client().ProducerID(ctx); err != nil {
		_ = pause(ctx, 15*time.Millisecond) // the broker is not there; the next session asks again
		return
	}
	for ctx.Err() == nil {
		fetches := s.PollRecords(ctx, 40)
		if ctx.Err() != nil || s.Begin() != nil {
			return
		}
		c.w.pending.Add(1)
		var rs []*kgo.Record
		fetches.EachRecord(func(r *kgo.Record) {
			rs = append(rs, &kgo.Record{Topic: copied, Partition: r.Partition, Value: r.Value})
		})
		failed := s.ProduceSync(ctx, rs...).FirstErr()
		done, err := s.End(ctx, kgo.TransactionEndTry(failed == nil))
		c.w.pending.Add(-1)
		if err != nil {
			return
		}
		if done && len(rs) > 0 {
			c.committed.Add(1)
		}
	}
}

// observe checks that copied has every order once and in order. The sentinels of orders are copied too.
func (c *copier) observe(r *kgo.Record) error {
	name, rest, _ := strings.Cut(string(r.Value), " ")
	if name == sentinelName {
		return nil
	}
	text, _, _ := strings.Cut(rest, " ")
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("copied-%d at %d has a value that nobody sent: %.40q", r.Partition, r.Offset, r.Value)
	}
	want := int64(0)
	if last, ok := c.last[r.Partition]; ok {
		want = last + 1
	}
	if number != want {
		return fmt.Errorf("not exactly once: copied-%d has order %d where %d comes next, at %d", r.Partition, number, want,
			r.Offset)
	}
	c.last[r.Partition] = number
	return nil
}
