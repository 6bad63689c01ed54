package task

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/state"
)

// commit makes everything processed so far permanent: outputs, changed rows, the commit record and
// the offsets of the inputs are one transaction, and the state is told after it (see doc.go).
func (t *loop) commit(ctx context.Context) error {
	began := time.Now()
	t.core.Watermarks()
	if err := t.emit(ctx); err != nil {
		return err
	}
	if err := t.sendRows(ctx); err != nil {
		return err
	}
	if err := t.decide(ctx); err != nil {
		return err
	}
	next := commitRecord{
		Fingerprint: t.sub.Fingerprint, Snapshot: t.core.Snapshot(), From: t.last.From,
		Topics: t.last.Topics,
	}
	if next.Snapshot == nil {
		next.Snapshot = []byte{}
	}
	inputs := t.core.Inputs()
	if err := t.seal(ctx, next, inputs); err != nil {
		return err
	}
	t.dirty = false
	now := time.Now()
	t.status.commit(now, now.Sub(t.lastCommit))
	t.lastCommit, t.commitTook = now, now.Sub(began)
	t.committed(inputs)
	t.report(inputs)
	return nil
}

// rowsAtOnce is how many changed rows are copied before they are handed to the transaction.
const rowsAtOnce = 1024

// sendRows sends the last value of each row that changed since the last commit.
func (t *loop) sendRows(ctx context.Context) error {
	now := time.Now().UnixMilli()
	err := t.db.Changes(func(key, value []byte) error {
		t.rows = append(t.rows, record.Record{
			Timestamp: now, Key: t.slab.copy(key), Value: t.slab.copy(value),
		})
		if len(t.rows) < rowsAtOnce {
			return nil
		}
		return t.sendSome(ctx)
	})
	if err == nil {
		err = t.sendSome(ctx)
	}
	if err != nil {
		return fmt.Errorf("task %s: send changed rows: %w", t.name, err)
	}
	return nil
}

// sendSome sends the rows that were copied. Their bytes go when the log has them.
func (t *loop) sendSome(ctx context.Context) error {
	if len(t.rows) == 0 {
		return nil
	}
	t.status.rows.Add(int64(len(t.rows)))
	_, err := t.out.txn.Send(ctx, t.changelog, t.rows)
	clear(t.rows)
	t.rows = t.rows[:0]
	return err
}

// seal ends the transaction with its commit record and, once that is sure, commits the state.
func (t *loop) seal(ctx context.Context, next commitRecord, inputs []Input) error {
	value := next.encode()
	_, err := t.out.txn.Send(ctx, t.changelog, []record.Record{metaRecord(value)})
	if err == nil {
		err = t.out.txn.Commit(ctx, t.opts.Group, t.offsets(inputs))
	}
	if err != nil {
		return fmt.Errorf("task %s: commit: %w", t.name, err)
	}
	t.out.bytes = 0
	t.slab = slab{}
	t.last = next
	end := t.out.txn.Acked(t.changelog)
	t.status.changelogEnd.Store(end)
	err = t.db.Commit(time.Now(), state.Meta{Next: end, Commit: value})
	if errors.Is(err, state.ErrDamaged) {
		return fmt.Errorf("task %s: %w", t.name, err)
	}
	// The commit stands: it is in the changelog. Only the file may be behind.
	t.filed(err)
	if err == nil {
		return nil
	}
	if t.db.Full() {
		return fmt.Errorf("task %s: %w: %w", t.name, ErrStateFull, err)
	}
	return nil
}

// commitThrough is commit, not given up at once when ctx ends.
func (t *loop) commitThrough(ctx context.Context) error {
	longer, cancel := t.patient(ctx)
	defer cancel()
	return t.commit(longer)
}

// patient returns a context that outlives ctx by the time a stop may take. A commit that is given
// up half way may have happened or not, and the task would have to be opened again to find out.
func (t *loop) patient(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(t.opts.DrainTimeout, cancel)
		context.AfterFunc(longer, func() { timer.Stop() })
	})
	return longer, func() {
		stop()
		cancel()
	}
}

// offsets are the positions the group gets. Of a partition that every task reads, as that of a
// broadcast table, only the task of the same number tells.
func (t *loop) offsets(inputs []Input) map[client.TopicPartition]int64 {
	next := make(map[client.TopicPartition]int64, len(inputs))
	for _, in := range inputs {
		if in.Partition == t.partition {
			next[client.TopicPartition{Topic: in.Topic, Partition: in.Partition}] = t.position(in)
		}
	}
	return next
}

// metaRecord is the changelog record that ends a commit.
func metaRecord(value []byte) record.Record {
	return record.Record{
		Timestamp: time.Now().UnixMilli(), Key: state.MetaKey(), Value: value,
	}
}
