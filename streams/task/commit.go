package task

import (
	"context"
	"fmt"
	"time"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/state"
)

// commit makes everything processed so far permanent. The order is the proof (see doc.go): outputs
// and changed rows are acknowledged before the commit record is sent, and the state is told after
// the record is acknowledged. clean says that the task writes nothing more after it.
func (t *loop) commit(ctx context.Context, clean bool) error {
	t.core.Watermarks()
	if err := t.emit(ctx); err != nil {
		return err
	}
	if err := t.sendRows(ctx); err != nil {
		return err
	}
	if err := t.writer.producer.Flush(ctx); err != nil {
		return fmt.Errorf("task %s: write outputs and changelog: %w", t.name, err)
	}
	next := commitRecord{
		Clean: clean, Fingerprint: t.sub.Fingerprint, Snapshot: t.core.Snapshot(),
		From: t.last.From, Outputs: t.writer.positions(),
	}
	if next.Snapshot == nil {
		next.Snapshot = []byte{}
	}
	if err := t.seal(ctx, next); err != nil {
		return err
	}
	t.dirty = false
	now := time.Now()
	t.status.commit(now, now.Sub(t.lastCommit))
	t.lastCommit = now
	inputs := t.core.Inputs()
	t.committed(t, inputs)
	t.report(inputs)
	return nil
}

// sendRows sends the last value of each row that changed since the last commit.
func (t *loop) sendRows(ctx context.Context) error {
	t.rows = t.rows[:0]
	t.slab = slab{}
	now := time.Now().UnixMilli()
	err := t.db.Changes(func(key, value []byte) error {
		t.rows = append(t.rows, record.Record{
			Timestamp: now, Key: t.slab.copy(key), Value: t.slab.copy(value),
		})
		return nil
	})
	if err != nil {
		return fmt.Errorf("task %s: read changed rows: %w", t.name, err)
	}
	if len(t.rows) == 0 {
		return nil
	}
	t.rowsSent = true
	t.status.rows.Add(int64(len(t.rows)))
	_, err = t.writer.producer.Send(ctx, t.changelog, t.rows)
	return err
}

// seal writes the commit record and, once it is acknowledged, commits the state.
func (t *loop) seal(ctx context.Context, next commitRecord) error {
	value := next.encode()
	if err := t.append(ctx, []record.Record{metaRecord(value)}); err != nil {
		return err
	}
	t.last, t.rowsSent = next, false
	err := t.db.Commit(time.Now(), state.Meta{
		Next: t.writer.producer.Acked(t.changelog), Commit: value,
	})
	if err == nil {
		return nil
	}
	// The commit stands: it is in the changelog. Only the file is behind.
	t.log.Error("state file cannot be written; rows stay in memory", "error", err,
		"bytes", t.db.DirtyBytes())
	t.status.trouble(err)
	if t.db.DirtyBytes() > 4*max(t.opts.State.FlushBytes, 32<<20) {
		return fmt.Errorf("task %s: %w: %w", t.name, ErrStateFull, err)
	}
	return nil
}

// append appends records to the changelog and waits for the acknowledgement of all that was sent.
func (t *loop) append(ctx context.Context, records []record.Record) error {
	_, err := t.writer.producer.Send(ctx, t.changelog, records)
	if err == nil {
		err = t.writer.producer.Flush(ctx)
	}
	if err != nil {
		return fmt.Errorf("task %s: write commit record: %w", t.name, err)
	}
	return nil
}

// metaRecord is the changelog record that ends a commit.
func metaRecord(value []byte) record.Record {
	return record.Record{
		Timestamp: time.Now().UnixMilli(), Key: state.MetaKey(), Value: value,
	}
}
