package client

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/millstream-io/millstream/core/record"
)

// memConsumer reads a Memory. Its table is guarded by the Memory's lock, because positions may be
// changed during a Poll.
type memConsumer struct {
	m      *Memory
	at     map[TopicPartition]int64
	paused map[TopicPartition]bool
	closed bool
}

var _ Consumer = (*memConsumer)(nil)

// Consumer implements Cluster.
func (m *Memory) Consumer() (Consumer, error) {
	return &memConsumer{
		m: m, at: map[TopicPartition]int64{}, paused: map[TopicPartition]bool{},
	}, nil
}

func (c *memConsumer) Assign(tp TopicPartition, offset int64) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.at[tp] = offset
	c.m.notifyLocked()
}

func (c *memConsumer) Unassign(tps ...TopicPartition) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	for _, tp := range tps {
		delete(c.at, tp)
		delete(c.paused, tp)
	}
}

func (c *memConsumer) Pause(tps ...TopicPartition) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	for _, tp := range tps {
		c.paused[tp] = true
	}
}

func (c *memConsumer) Resume(tps ...TopicPartition) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	for _, tp := range tps {
		delete(c.paused, tp)
	}
	c.m.notifyLocked()
}

func (c *memConsumer) Close() {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.closed = true
	c.m.notifyLocked()
}

func (c *memConsumer) Poll(ctx context.Context) ([]Fetched, error) {
	var runs []Fetched
	for {
		var wait chan struct{}
		err := c.m.do(Op{Kind: "poll"}, func() (err error) {
			runs, wait, err = c.take()
			return err
		})
		if err != nil || len(runs) > 0 {
			return runs, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-wait:
		}
	}
}

// take returns what there is, and what to wait on when there is nothing.
func (c *memConsumer) take() ([]Fetched, chan struct{}, error) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	if c.closed {
		return nil, nil, ErrClosed
	}
	var runs []Fetched
	for _, tp := range slices.SortedFunc(maps.Keys(c.at), TopicPartition.Compare) {
		if c.paused[tp] {
			continue
		}
		l := c.m.logLocked(tp)
		at := c.at[tp]
		switch {
		case l == nil:
			return nil, nil, fmt.Errorf("read %s: %w", tp, ErrUnknownTopic)
		case at < l.start || at > l.end:
			return nil, nil, fmt.Errorf("read %s at %d of [%d, %d): %w", tp, at, l.start, l.end,
				ErrOffsetOutOfRange)
		case at == l.end:
			continue
		}
		run := l.read(at, c.m.mu.maxPoll)
		if run.Next == at {
			continue // behind an open transaction
		}
		run.TopicPartition = tp
		records := run.Records
		run.Free = func() { spoil(records) }
		c.at[tp] = run.Next
		runs = append(runs, run)
	}
	return runs, c.m.mu.changed, nil
}

// read returns at most limit records from an offset on: what is committed, up to the first record
// of a transaction that is open.
func (l *memLog) read(at int64, limit int) Fetched {
	run := Fetched{From: at, Next: at, End: l.end}
	for i := firstAt(l, at); i < len(l.records); i++ {
		r := &l.records[i]
		if len(run.Records) == limit || r.txn != nil && r.txn.state == memOpen {
			return run
		}
		if r.visible() {
			run.Records = append(run.Records, r.Clone())
		}
		run.Next = r.Offset + 1
	}
	run.Next = l.end
	return run
}

// spoil overwrites memory that was given back, as the next run would. Who still refers to it has
// other bytes than a test expects.
func spoil(records []record.Record) {
	fill := func(b []byte) {
		for i := range b {
			b[i] = 0xDB
		}
	}
	for i := range records {
		fill(records[i].Key)
		fill(records[i].Value)
		for _, h := range records[i].Headers {
			fill(h.Value)
		}
		records[i] = record.Record{Offset: -1, Key: []byte("memory that was given back")}
	}
}

// firstAt returns the index of the first record at or after offset.
func firstAt(l *memLog, offset int64) int {
	lo, hi := 0, len(l.records)
	for lo < hi {
		mid := (lo + hi) / 2
		if l.records[mid].Offset < offset {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}
