package task

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	// topics are the topics of the pipeline.
	topics map[string]client.TopicInfo
	// group is what was committed to the group.
	group map[client.TopicPartition]int64
}

// open brings the task to its last commit: state file, transactions, changelog, core. Nothing is
// read from the inputs yet.
func (t *loop) open(ctx context.Context, s start) (err error) {
	t.status.phase(Restoring)
	if err := t.openState(ctx, s.changelogID); err != nil {
		return err
	}
	// From here on nobody else can commit for this task, and how its last transaction ended is
	// settled: the end of the changelog is final.
	txn, err := t.opts.Cluster.Transactor(ctx, t.name)
	if err != nil {
		return fmt.Errorf("task %s: %w", t.name, err)
	}
	t.out = newSender(txn)
	consumer, err := t.opts.Cluster.Consumer()
	if err != nil {
		return err
	}
	defer consumer.Close()
	log, err := t.changelogRange(ctx)
	if err != nil {
		return err
	}
	if err := t.fitState(s.changelogID, log); err != nil {
		return err
	}
	known, err := t.restore(ctx, consumer, log)
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
				" has %q: %w; the version that wrote it can go on", t.name,
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
	if !known { // where the first run began must not depend on when it crashes
		first := t.last
		first.Fingerprint = t.sub.Fingerprint
		if err := t.seal(ctx, first, nil); err != nil {
			return err
		}
	}
	for _, in := range t.inputs {
		t.settle(in)
	}
	t.report(t.core.Inputs())
	return nil
}

func (t *loop) changelogRange(ctx context.Context) (client.Range, error) {
	ranges, err := t.opts.Cluster.Admin().Ranges(ctx, t.changelog)
	if err != nil {
		return client.Range{}, fmt.Errorf("task %s: %w", t.name, err)
	}
	return ranges[t.changelog], nil
}

// openState opens the state file, and waits for it a while: its owner may be about to end.
func (t *loop) openState(ctx context.Context, changelogID string) error {
	for try := 0; ; try++ {
		db, err := state.Open(t.stateOptions(changelogID))
		if err == nil {
			t.useState(db)
			return nil
		}
		if !errors.Is(err, state.ErrLocked) || try >= int(t.opts.LockWait/lockPause) {
			return fmt.Errorf("task %s: %w", t.name, err)
		}
		pause := time.NewTimer(lockPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return ctx.Err()
		}
	}
}

// lockPause is the wait between two tries to get a state file.
const lockPause = 100 * time.Millisecond

func (t *loop) stateOptions(changelogID string) state.Options {
	opts := t.opts.State
	opts.Identity = state.Identity{
		Task: t.name, Fingerprint: t.sub.Fingerprint, Changelog: changelogID,
	}
	if t.opts.StateDir != "" {
		opts.Path = statePath(&t.opts, t.sub.Name, t.partition)
	}
	return opts
}

// statePath is the state file of a task.
func statePath(o *Options, sub string, partition int32) string {
	return filepath.Join(o.StateDir, o.Topology.App, fmt.Sprintf("%s-%d.db", sub, partition))
}

// fitState puts a state file aside that is not a prefix of the changelog as it is now, because the
// log lost its end or its beginning.
func (t *loop) fitState(changelogID string, log client.Range) error {
	next := t.db.Meta().Next
	if next <= log.End && (next == 0 || next >= log.Start) {
		return nil
	}
	t.log.Warn("state file does not fit its changelog; restoring from the changelog",
		"next", next, "start", log.Start, "end", log.End)
	if err := t.db.Discard(); err != nil {
		return err
	}
	db, err := state.Open(t.stateOptions(changelogID))
	if err != nil {
		return fmt.Errorf("task %s: %w", t.name, err)
	}
	t.useState(db)
	return nil
}

// useState makes db the state of the task and lets others look at it.
func (t *loop) useState(db *state.DB) {
	t.db = db
	t.status.reader.Store(db.Reader())
}

// restore applies the changelog from where the state file ends to the last commit record; known is
// false when there has been no commit at all.
func (t *loop) restore(ctx context.Context, consumer client.Consumer, log client.Range,
) (known bool, err error) {
	meta := t.db.Meta()
	from := max(meta.Next, log.Start)
	f, ok, err := findLast(ctx, consumer, t.changelog, client.Range{Start: from, End: log.End},
		state.IsMetaKey)
	if err != nil {
		return false, fmt.Errorf("task %s: %w", t.name, err)
	}
	if !ok {
		return meta.Commit != nil, nil
	}
	t.status.restore(0, f.offset+1-from)
	t.status.changelogEnd.Store(f.offset + 1)
	began := time.Now()
	read := int64(0)
	put, commit := t.restorer(began)
	apply := func(records []record.Record) error {
		full := false
		for i := range records {
			if state.IsMetaKey(records[i].Key) {
				continue
			}
			now, err := put(records[i].Key, records[i].Value)
			if err != nil {
				return err
			}
			full = full || now
		}
		read += int64(len(records))
		t.status.restore(read, f.offset+1-from)
		if !full {
			return nil
		}
		return commit(state.Meta{Next: records[len(records)-1].Offset + 1})
	}
	err = client.ReadRange(ctx, consumer, t.changelog, from, f.offset, apply)
	if err == nil {
		err = commit(state.Meta{Next: f.offset + 1, Commit: f.value})
	}
	if err != nil {
		return false, fmt.Errorf("task %s: restore from %s: %w", t.name, t.changelog, err)
	}
	t.log.Info("state restored", "rows", read, "from", from, "to", f.offset,
		"took", time.Since(began))
	return true, nil
}

// restorer returns how a restore puts rows and makes them committed: in bulk, or, where there is no
// file, through the tiers in memory. put tells when a commit is due.
func (t *loop) restorer(now time.Time) (put func(key, value []byte) (bool, error),
	commit func(state.Meta) error,
) {
	if bulk, ok := t.db.NewBulk(); ok {
		return func(key, value []byte) (bool, error) { return bulk.Add(key, value), nil }, bulk.Write
	}
	put = func(key, value []byte) (bool, error) {
		err := t.db.Apply(key, value)
		return t.db.PendingBytes() >= restoreChunk, err
	}
	return put, func(meta state.Meta) error { return t.db.Commit(now, meta) }
}

// openCore makes the core from the last snapshot and asks what it reads.
func (t *loop) openCore(s start) error {
	core, err := t.opts.newCore(CoreOptions{
		Topology: t.opts.Topology, Sub: t.sub, Partition: t.partition, Stores: t.db,
		Partitions: func(topic string) int32 { return s.topics[topic].Partitions },
		Snapshot:   t.last.Snapshot,
		Route:      t.routeTo,
		Decisions:  t.opts.Decisions,
		Clock:      time.Now,
		taps:       t.opts.taps,
	})
	if err != nil {
		return fmt.Errorf("task %s: %w", t.name, err)
	}
	t.core = core
	if w, ok := core.(waller); ok && w.WantsWall() {
		t.wall = w
	}
	if at, ok := core.(positioner); ok {
		t.at, t.transient = at, at.Transient()
	}
	t.status.opened(core.Stats)
	for _, in := range core.Inputs() {
		tp := client.TopicPartition{Topic: in.Topic, Partition: in.Partition}
		i := &input{
			tp: tp, kind: in.Kind, at: in.Offset, until: noOffset, repartition: in.Repartition,
			settled: in.Kind == TableInput && in.Ready, idleAfter: t.idleAfter(in.Topic),
		}
		t.inputs = append(t.inputs, i)
		t.byTP[tp] = i
	}
	return nil
}

// routeTo finds or makes a topic that a record named.
func (t *loop) routeTo(topic string) (int32, error) {
	ctx, cancel := context.WithTimeout(context.Background(), t.opts.DrainTimeout)
	defer cancel()
	admin := t.opts.Cluster.Admin()
	infos, err := admin.Topics(ctx, topic)
	if err != nil || infos[topic].Partitions > 0 {
		return infos[topic].Partitions, err
	}
	spec := client.TopicSpec{Name: topic, Partitions: t.sub.Partitions,
		Replication: t.opts.Replication, Configs: map[string]string{"retention.ms": "-1",
			"max.message.bytes": client.LargeRecords}}
	if err := admin.CreateTopics(ctx, spec); err != nil {
		return 0, err
	}
	t.log.Info("topic made, a record is routed to it", "topic", topic,
		"partitions", spec.Partitions)
	infos, err = admin.Topics(ctx, topic)
	return infos[topic].Partitions, err
}

// idleAfter is that of the source of a topic.
func (t *loop) idleAfter(topic string) time.Duration {
	for i := range t.sub.Sources {
		if s := &t.sub.Sources[i]; s.Topic == topic {
			return s.IdleAfter
		}
	}
	return 0
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
	} else {
		t.newInputs(ranges)
	}
	for _, p := range t.last.From {
		if in := t.byTP[p.TopicPartition]; in != nil {
			in.at = max(in.at, p.Offset)
		}
	}
	if err := t.sameTopics(s); err != nil {
		return err
	}
	for _, in := range t.inputs {
		r := ranges[in.tp]
		in.end = r.End
		if err := t.fitInput(in, r); err != nil {
			return err
		}
		in.until = t.bound(in, r)
	}
	return nil
}

// fitInput refuses a position outside of the log, unless what is missing is to be skipped.
func (t *loop) fitInput(in *input, r client.Range) error {
	switch {
	case in.at >= r.Start && in.at <= r.End:
		return nil
	case in.at < r.Start && t.opts.SkipLost:
		t.log.Warn("records that were deleted before they were read are skipped", "input", in.tp,
			"from", in.at, "to", r.Start)
		in.at = r.Start
		return nil
	case in.at < r.Start:
		return fmt.Errorf("task %s: next record of %s is %d, but the log has [%d, %d): %w; records"+
			" were deleted before they were read", t.name, in.tp, in.at, r.Start, r.End, ErrPosition)
	}
	return fmt.Errorf("task %s: next record of %s is %d, but the log has [%d, %d): %w; its end was"+
		" lost", t.name, in.tp, in.at, r.Start, r.End, ErrPosition)
}

// sameTopics refuses input topics that were deleted and made again since they were first read: a
// position in the old one means nothing in the new one.
func (t *loop) sameTopics(s start) error {
	topics := maps.Clone(t.last.Topics)
	if topics == nil {
		topics = map[string]string{}
	}
	for _, in := range t.inputs {
		id := s.topics[in.tp.Topic].ID
		if was, ok := topics[in.tp.Topic]; ok && was != id {
			return fmt.Errorf("task %s: topic %s was deleted and made again since it was read up to %s"+
				" offset %d (id %s, now %s): %w", t.name, in.tp.Topic,
				in.tp, in.at, was, id, ErrTopics)
		}
		topics[in.tp.Topic] = id
	}
	t.last.Topics = topics
	return nil
}

// firstPositions decides where a first run starts and refuses one that is none.
func (t *loop) firstPositions(s start, ranges map[client.TopicPartition]client.Range) error {
	for _, in := range t.inputs {
		if at := s.group[in.tp]; at > 0 && !in.repartition && in.tp.Partition == t.partition {
			return fmt.Errorf("task %s: group %s has read %s up to %d, but %s holds no commit: %w",
				t.name, t.opts.Group, in.tp, at,
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

// newInputs has topics that the last commit does not know read from their beginning.
func (t *loop) newInputs(ranges map[client.TopicPartition]client.Range) {
	for _, in := range t.inputs {
		if _, read := t.last.Topics[in.tp.Topic]; !read && t.last.Topics != nil && !in.repartition {
			t.last.From = append(t.last.From, position{in.tp, ranges[in.tp].Start})
			t.log.Info("a new topic is read from its beginning", "input", in.tp,
				"from", ranges[in.tp].Start)
		}
	}
}

// bound returns where a stream ends or a table is ready, as far as it is known.
func (t *loop) bound(in *input, r client.Range) int64 {
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

// close lets go of the task's state and producer; failed is how run ended. What was not committed
// then is aborted, so that readers need not wait for it.
func (t *loop) close(ctx context.Context, failed error) error {
	if t.out != nil {
		if failed != nil && !t.killed.Load() {
			short, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
			t.out.txn.Abort(short)
			cancel()
		}
		t.out.txn.Close()
	}
	if t.db == nil {
		return nil
	}
	t.status.reader.Store(nil)
	if errors.Is(failed, state.ErrDamaged) && !t.killed.Load() {
		return t.db.Discard()
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

// abortTimeout bounds the abort of a failed task.
const abortTimeout = 2 * time.Second
