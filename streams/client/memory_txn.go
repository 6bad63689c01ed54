package client

import (
	"context"
	"fmt"
	"maps"

	"github.com/millstream-io/millstream/core/record"
)

// memID is a transactional id.
type memID struct {
	epoch int     // of its holder; no two holders of an id have the same, also when it was forgotten
	open  *memTxn // nil when no transaction is open
}

// memState is how a transaction stands.
type memState int

const (
	memOpen memState = iota
	memCommitted
	memAborted
)

// memTxn is one transaction; the Memory's lock guards it.
type memTxn struct {
	state memState
	logs  map[*memLog]bool // that have records of it
}

// memTransactor is a memProducer with a transactional id.
type memTransactor struct {
	memProducer
	epoch int
}

var _ Transactor = (*memTransactor)(nil)

// Transactor implements Cluster.
func (m *Memory) Transactor(ctx context.Context, id string) (Transactor, error) {
	t := &memTransactor{memProducer: memProducer{m: m, id: id, acked: map[TopicPartition]int64{}}}
	err := m.do(Op{Kind: "init", ID: id}, func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		t.epoch = m.takeLocked(id)
		return nil
	})
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("take over transactional id %s: %w", id, err)
	}
	return t, nil
}

// Expire does what a log does with transactions that take too long: it aborts the open one of each
// id, and the producers of those cannot go on.
func (m *Memory) Expire() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, state := range m.mu.ids {
		if state.open != nil {
			m.takeLocked(id)
		}
	}
}

// Forget does what a log does with transactional ids that nobody has used for
// transactional.id.expiration.ms: those without an open transaction are gone. Their producers
// cannot go on.
func (m *Memory) Forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.mu.ids, func(_ string, id *memID) bool { return id.open == nil })
}

// takeLocked raises the epoch of an id, aborts its open transaction and returns the epoch.
func (m *Memory) takeLocked(id string) int {
	if m.mu.ids[id] == nil {
		m.mu.ids[id] = &memID{}
	}
	state := m.mu.ids[id]
	if state.open != nil {
		m.endLocked(state.open, memAborted)
		state.open = nil
	}
	m.mu.lastEpoch++
	state.epoch = m.mu.lastEpoch
	return state.epoch
}

// endLocked ends a transaction with a marker in each of its partitions.
func (m *Memory) endLocked(txn *memTxn, state memState) {
	txn.state = state
	for l := range txn.logs {
		l.records = append(l.records, memRecord{
			Record: record.Record{Offset: l.end}, txn: txn, marker: true})
		l.end++
	}
	m.notifyLocked()
}

// Send implements Producer.
func (t *memTransactor) Send(ctx context.Context, tp TopicPartition, records []record.Record,
) (int, error) {
	if len(records) > 0 && t.txn == nil && t.err == nil && !t.closed {
		t.m.mu.Lock()
		state := t.m.mu.ids[t.id]
		if state != nil && state.epoch == t.epoch {
			t.txn = &memTxn{logs: map[*memLog]bool{}}
			state.open = t.txn
		} else {
			t.err = fmt.Errorf("append to %s: %w: id %s was taken over or forgotten", tp, ErrLost, t.id)
		}
		t.m.mu.Unlock()
	}
	return t.memProducer.Send(ctx, tp, records)
}

// Commit implements Transactor.
func (t *memTransactor) Commit(ctx context.Context, group string, next map[TopicPartition]int64,
) error {
	if err := t.Flush(ctx); err != nil || t.txn == nil {
		return err
	}
	err := t.m.do(Op{Kind: "end", ID: t.id}, func() error {
		t.m.mu.Lock()
		defer t.m.mu.Unlock()
		state := t.m.mu.ids[t.id]
		if state.epoch != t.epoch || state.open != t.txn {
			return fmt.Errorf("id %s was taken over", t.id)
		}
		t.m.endLocked(t.txn, memCommitted)
		state.open = nil
		if len(next) > 0 {
			if t.m.mu.groups[group] == nil {
				t.m.mu.groups[group] = map[TopicPartition]int64{}
			}
			maps.Copy(t.m.mu.groups[group], next)
		}
		return nil
	})
	if err != nil {
		t.err = fmt.Errorf("commit transaction of %s: %w: %w", t.id, ErrLost, err)
		return t.err
	}
	t.txn = nil
	return nil
}

// Abort implements Transactor.
func (t *memTransactor) Abort(context.Context) {
	if t.txn == nil {
		return
	}
	t.closed = true
	_ = t.m.do(Op{Kind: "abort", ID: t.id}, func() error {
		t.m.mu.Lock()
		defer t.m.mu.Unlock()
		if state := t.m.mu.ids[t.id]; state.epoch == t.epoch && state.open == t.txn {
			t.m.endLocked(t.txn, memAborted)
			state.open = nil
		}
		return nil
	})
	t.txn = nil
}

// Readable implements Transactor.
func (t *memTransactor) Readable(ctx context.Context) error {
	for {
		t.m.mu.Lock()
		behind, changed := t.behindLocked(), t.m.mu.changed
		t.m.mu.Unlock()
		if behind == "" {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", behind, ctx.Err())
		}
	}
}

// behindLocked tells which transaction of another producer keeps readers from the records.
func (t *memTransactor) behindLocked() string {
	for tp, wrote := range t.acked {
		l := t.m.logLocked(tp)
		if l == nil {
			continue
		}
		for i := range l.records {
			r := &l.records[i]
			if r.Offset < wrote && r.txn != nil && r.txn.state == memOpen {
				return fmt.Sprintf("%s is read up to %d of %d only, where another producer has a"+
					" transaction open", tp, r.Offset, wrote)
			}
		}
	}
	return ""
}
