package task

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/state"
)

// restoreChunk is how many bytes of changed rows a restore gathers before it makes them committed.
const restoreChunk = 8 << 20

// start is what a task needs to know of the cluster to be opened.
type start struct {
	// changelogID is the topic id of the changelog.
	changelogID string
	// partitions returns the number of partitions of an output topic.
	partitions func(topic string) int32
	// outputs are the topics the task may write.
	outputs []string
	// group is what was committed to the group.
	group map[client.TopicPartition]int64
	// ends are the bounds sources have reported so far.
	ends map[client.TopicPartition]int64
}

// open brings the task to its last commit: state file, changelog, core, outputs. Nothing is read
// from the inputs yet.
func (t *loop) open(ctx context.Context, s start) (err error) {
	t.status.phase(Restoring)
	producer, err := t.opts.Cluster.Producer()
	if err != nil {
		return err
	}
	t.writer = newWriter(t.name, t.opts.Cluster, producer)
	consumer, err := t.opts.Cluster.Consumer()
	if err != nil {
		return err
	}
	defer consumer.Close()
	log, err := t.changelogRange(ctx)
	if err != nil {
		return err
	}
	if err := t.openState(s.changelogID, log); err != nil {
		return err
	}
	last, known, err := t.restore(ctx, consumer, log)
	if err != nil {
		return err
	}
	if known {
		c, err := decodeCommit(t.db.Meta().Commit)
		if err != nil {
			return fmt.Errorf("task %s: read last commit in %s: %w", t.name, t.changelog, err)
		}
		if c.Fingerprint != t.sub.Fingerprint {
			return fmt.Errorf("task %s: the last commit in %s has topology fingerprint %q, this run"+
				" has %q: %w; run the version that wrote it, or deploy under another name", t.name,
				t.changelog, c.Fingerprint, t.sub.Fingerprint, state.ErrMismatch)
		}
		t.last = *c
	}
	if err := t.openCore(s); err != nil {
		return err
	}
	if err := t.place(ctx, s, known); err != nil {
		return err
	}
	rows, err := t.undo(ctx, consumer, last, log.End)
	if err != nil {
		return err
	}
	return t.begin(ctx, consumer, s.outputs, rows)
}

func (t *loop) changelogRange(ctx context.Context) (client.Range, error) {
	ranges, err := t.opts.Cluster.Admin().Ranges(ctx, t.changelog)
	if err != nil {
		return client.Range{}, fmt.Errorf("task %s: %w", t.name, err)
	}
	return ranges[t.changelog], nil
}

// openState opens the state file. One that is not a prefix of the changelog as it is now, because
// the log lost its end or its beginning, is put aside.
func (t *loop) openState(changelogID string, log client.Range) error {
	opts := t.opts.State
	opts.Identity = state.Identity{
		Task: t.name, Fingerprint: t.sub.Fingerprint, Changelog: changelogID,
	}
	if t.opts.StateDir != "" {
		opts.Path = filepath.Join(t.opts.StateDir, t.opts.Topology.App,
			fmt.Sprintf("%s-%d.db", t.sub.Name, t.partition))
	}
	db, err := state.Open(opts)
	if err != nil {
		return fmt.Errorf("task %s: %w", t.name, err)
	}
	if next := db.Meta().Next; next > log.End || next != 0 && next < log.Start {
		t.log.Warn("state file does not fit its changelog; restoring from the changelog",
			"next", next, "start", log.Start, "end", log.End)
		if err := db.Discard(); err != nil {
			return err
		}
		if db, err = state.Open(opts); err != nil {
			return fmt.Errorf("task %s: %w", t.name, err)
		}
	}
	t.db = db
	return nil
}

// restore applies the changelog from where the state file ends to the last commit record. It
// returns the offset after that record; known is false when there has been no commit at all.
func (t *loop) restore(ctx context.Context, consumer client.Consumer, log client.Range,
) (last int64, known bool, err error) {
	meta := t.db.Meta()
	from := max(meta.Next, log.Start)
	f, ok, err := findLast(ctx, consumer, t.changelog, client.Range{Start: from, End: log.End},
		state.IsMetaKey)
	if err != nil {
		return 0, false, fmt.Errorf("task %s: %w", t.name, err)
	}
	if !ok {
		return from, meta.Commit != nil, nil
	}
	t.status.restore(0, f.offset+1-from)
	began := time.Now()
	read := int64(0)
	apply := func(records []record.Record) error {
		for i := range records {
			if state.IsMetaKey(records[i].Key) {
				continue
			}
			if err := t.db.Apply(records[i].Key, records[i].Value); err != nil {
				return err
			}
		}
		read += int64(len(records))
		t.status.restore(read, f.offset+1-from)
		if t.db.PendingBytes() < restoreChunk {
			return nil
		}
		return t.db.Commit(began, state.Meta{Next: records[len(records)-1].Offset + 1})
	}
	err = client.ReadRange(ctx, consumer, t.changelog, from, f.offset, apply)
	if err == nil {
		err = t.db.Commit(began, state.Meta{Next: f.offset + 1, Commit: f.value})
	}
	if err != nil {
		return 0, false, fmt.Errorf("task %s: restore from %s: %w", t.name, t.changelog, err)
	}
	t.log.Info("state restored", "rows", read, "from", from, "to", f.offset,
		"took", time.Since(began))
	return f.offset + 1, true, nil
}

// openCore makes the core from the last snapshot and asks what it reads.
func (t *loop) openCore(s start) error {
	core, err := t.opts.newCore(CoreOptions{
		Topology: t.opts.Topology, Sub: t.sub, Partition: t.partition, Stores: t.db,
		Partitions: s.partitions, Snapshot: t.last.Snapshot,
	})
	if err != nil {
		return fmt.Errorf("task %s: %w", t.name, err)
	}
	t.core = core
	for _, in := range core.Inputs() {
		tp := client.TopicPartition{Topic: in.Topic, Partition: in.Partition}
		i := &input{
			tp: tp, kind: in.Kind, at: in.Offset, until: noOffset, repartition: in.Repartition,
			settled: in.Kind == TableInput && in.Ready,
		}
		t.inputs = append(t.inputs, i)
		t.byTP[tp] = i
	}
	return nil
}

// place sets the positions and bounds of the inputs.
func (t *loop) place(ctx context.Context, s start, known bool) error {
	ranges, err := t.opts.Cluster.Admin().Ranges(ctx, t.partitions()...)
	if err != nil {
		return fmt.Errorf("task %s: %w", t.name, err)
	}
	if !known {
		if err := t.firstPositions(s, ranges); err != nil {
			return err
		}
	}
	for _, p := range t.last.From {
		if in := t.byTP[p.TopicPartition]; in != nil {
			in.at = max(in.at, p.Offset)
		}
	}
	for _, in := range t.inputs {
		r := ranges[in.tp]
		in.end = r.End
		if in.at < r.Start || in.at > r.End {
			return fmt.Errorf("task %s: next record of %s is %d, but the log has [%d, %d): %w;"+
				" retention removed records that were not read, or the log was cut: replay from"+
				" an offset that is there", t.name, in.tp, in.at, r.Start, r.End, ErrPosition)
		}
		in.until = t.bound(in, r, s.ends)
	}
	return nil
}

// firstPositions decides where a first run starts and refuses one that is none.
func (t *loop) firstPositions(s start, ranges map[client.TopicPartition]client.Range) error {
	for _, in := range t.inputs {
		if at := s.group[in.tp]; at > 0 && !in.repartition {
			return fmt.Errorf("task %s: group %s has read %s up to %d, but %s holds no commit: %w;"+
				" delete the group to process everything again", t.name, t.opts.Group, in.tp, at,
				t.changelog, ErrStateLost)
		}
		from, ok := t.opts.From[in.tp]
		if !ok {
			from = ranges[in.tp].Start
		}
		t.last.From = append(t.last.From, position{in.tp, from})
	}
	return nil
}

// bound returns where a stream ends or a table is ready, as far as it is known.
func (t *loop) bound(in *input, r client.Range, ends map[client.TopicPartition]int64) int64 {
	if end, ok := ends[in.tp]; ok {
		return end
	}
	filling := false
	for _, topic := range t.opts.Filling {
		filling = filling || topic == in.tp.Topic
	}
	if in.kind == TableInput {
		if filling {
			return noOffset
		}
		return r.End
	}
	if end, ok := t.opts.Until[in.tp]; ok {
		return end
	}
	if t.opts.Bounded && !filling && !in.repartition {
		return r.End
	}
	return noOffset
}

// undo returns changelog records that take back the rows after the last commit: a crash left them
// there without a commit record, and the next commit record would make them count.
func (t *loop) undo(ctx context.Context, consumer client.Consumer, from, end int64,
) ([]record.Record, error) {
	var rows []record.Record
	seen := map[string]bool{}
	now := time.Now().UnixMilli()
	err := client.ReadRange(ctx, consumer, t.changelog, from, end, func(recs []record.Record) error {
		for i := range recs {
			key := recs[i].Key
			if seen[string(key)] {
				continue
			}
			seen[string(key)] = true
			value, ok, err := t.db.Lookup(key)
			if err != nil {
				return err
			}
			row := record.Record{Timestamp: now, Key: key}
			if ok {
				row.Value = append([]byte{}, value...)
			}
			rows = append(rows, row)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("task %s: read uncommitted rows of %s: %w", t.name, t.changelog, err)
	}
	if len(rows) > 0 {
		t.log.Info("taking back rows that were not committed", "rows", len(rows))
	}
	return rows, nil
}

// begin learns what the outputs hold and writes the commit record a crash from now on goes back
// to: same state and inputs as the last, outputs as they are now.
func (t *loop) begin(ctx context.Context, consumer client.Consumer, topics []string,
	rows []record.Record,
) error {
	for _, p := range t.last.Outputs {
		t.writer.addLane(p)
	}
	if err := t.writer.recover(ctx, consumer, t.last.Clean); err != nil {
		return fmt.Errorf("task %s: %w", t.name, err)
	}
	if _, err := t.writer.addTopics(ctx, topics); err != nil {
		return fmt.Errorf("task %s: %w", t.name, err)
	}
	if len(rows) > 0 {
		if err := t.append(ctx, rows); err != nil {
			return err
		}
	}
	next := t.last
	next.Clean, next.Fingerprint = false, t.sub.Fingerprint
	next.Outputs = t.writer.positions()
	if err := t.seal(ctx, next); err != nil {
		return err
	}
	for _, in := range t.inputs {
		t.settle(in)
	}
	t.report(t.core.Inputs())
	return nil
}

// close lets go of the task's state and producer; failed is how run ended.
func (t *loop) close(failed error) error {
	if t.writer != nil {
		t.writer.producer.Close()
	}
	if t.db == nil {
		return nil
	}
	if failed != nil && t.opts.killOnError || t.killed.Load() {
		return t.db.Kill()
	}
	err := t.db.Close()
	if err != nil && errors.Is(err, failed) {
		return nil
	}
	return err
}
