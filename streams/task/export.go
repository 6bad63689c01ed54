package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/state"
	"github.com/millstream-io/millstream/streams/topology"
)

// ErrExport reports an export that cannot be used: damaged, cut, of another format or topology.
var ErrExport = errors.New("state export cannot be used")

// errMoving reports that a pipeline went on while its commits were looked for, so that they do not
// fit each other. They are looked for again.
var errMoving = errors.New("the pipeline moves too fast for a common point of its tasks;" +
	" try again, or stop it first")

// How often Export looks for commits that fit each other, and the pause between.
const (
	exportTries = 20
	exportPause = 100 * time.Millisecond
)

// ExportOptions are what Export needs.
type ExportOptions struct {
	Cluster  client.Cluster
	Topology *topology.Topology
	// About is kept in the export, for whoever reads it.
	About json.RawMessage
	// Dir is where files are that Export needs meanwhile; "" is the system's.
	Dir string
}

// Export writes the state of all tasks to w: the rows of each as of one commit of it, and what
// tasks have written for each other and not processed yet, so that all of it together is one state
// the pipeline may have. It reads the changelogs, so it matters neither where tasks run nor whether
// they do, and it disturbs none.
func Export(ctx context.Context, o ExportOptions, w io.Writer) (err error) {
	dir, err := os.MkdirTemp(o.Dir, "millstream-export-")
	if err != nil {
		return fmt.Errorf("export state: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	x := &exporter{o: o, dir: dir, header: exportHeader{App: o.Topology.App, About: o.About,
		MadeAt: time.Now().UTC()}}
	if x.consumer, err = o.Cluster.Consumer(); err != nil {
		return err
	}
	defer x.consumer.Close()
	for _, sub := range o.Topology.Subs {
		x.header.Subs = append(x.header.Subs, exportedSub{Name: sub.Name, Partitions: sub.Partitions,
			Shape: sub.Shape(o.Topology.App)})
	}
	if err := x.exists(ctx); err != nil {
		return fmt.Errorf("export state: %w", err)
	}
	lanes, err := x.settle(ctx)
	if err != nil {
		return fmt.Errorf("export state: %w", err)
	}
	defer func() { err = errors.Join(err, lanes.Close()) }()
	out := &frameWriter{w: w}
	if _, err := w.Write(append([]byte(exportMagic), exportVersion)); err != nil {
		return fmt.Errorf("export state: %w", err)
	}
	if err := out.writeJSON(frameHeader, &x.header); err != nil {
		return fmt.Errorf("export state: %w", err)
	}
	if _, err := io.Copy(w, lanes); err != nil {
		return fmt.Errorf("export state: %w", err)
	}
	for i := range x.header.Tasks {
		if err := x.rows(ctx, out, i); err != nil {
			return fmt.Errorf("export state of task %s: %w", x.name(i), err)
		}
	}
	if err := out.writeJSON(frameEnd, x.end); err != nil {
		return fmt.Errorf("export state: %w", err)
	}
	return nil
}

// exporter is an Export at work.
type exporter struct {
	o        ExportOptions
	dir      string
	consumer client.Consumer
	header   exportHeader
	end      exportEnd
	// commits and snapshots are those of header.Tasks.
	commits   []*commitRecord
	snapshots []*snapshot
	// found is when the commits were looked for.
	found time.Time
}

// exportLongest is how long after its commits were found an export may read their rows: the cleaner
// leaves them alone for compactionLag.
const exportLongest = 50 * time.Minute

func (x *exporter) name(i int) string {
	t := &x.header.Tasks[i]
	return topology.Writer(x.o.Topology.App, t.Sub, t.Partition)
}

// exists refuses a pipeline that has no changelogs.
func (x *exporter) exists(ctx context.Context) error {
	var names []string
	for _, sub := range x.o.Topology.Subs {
		names = append(names, ChangelogTopic(x.o.Topology.App, sub.Name))
	}
	there, err := x.o.Cluster.Admin().Topics(ctx, names...)
	if err != nil {
		return err
	}
	for i, sub := range x.o.Topology.Subs {
		switch info := there[names[i]]; {
		case info.Partitions == 0:
			return fmt.Errorf("topic %s does not exist: %w: the pipeline has not run yet", names[i],
				ErrTopics)
		case info.Partitions != sub.Partitions:
			return fmt.Errorf("topic %s has %d partitions, not the %d of the pipeline: %w", names[i],
				info.Partitions, sub.Partitions, ErrTopics)
		}
	}
	return nil
}

// settle finds a commit of every task such that no task has processed what its writers had not
// written at theirs, and returns the frames of what is under way between them.
func (x *exporter) settle(ctx context.Context) (*os.File, error) {
	spool, err := os.Create(filepath.Join(x.dir, "lanes"))
	if err != nil {
		return nil, err
	}
	for try := 0; ; try++ {
		x.found = time.Now()
		err := x.find(ctx)
		if err == nil {
			err = x.lanes(ctx, spool)
		}
		if err == nil {
			_, err = spool.Seek(0, io.SeekStart)
		}
		if err == nil {
			return spool, nil
		}
		if !errors.Is(err, errMoving) || try == exportTries {
			return nil, errors.Join(err, spool.Close())
		}
		pause := time.NewTimer(exportPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return nil, errors.Join(ctx.Err(), spool.Close())
		}
	}
}

// find looks for the last commit of every task, readers of a repartition topic before its writers:
// so what a task has processed was written before the commits of its writers, or at them.
func (x *exporter) find(ctx context.Context) error {
	x.header.Tasks, x.commits, x.snapshots = nil, nil, nil
	for _, sub := range slices.Backward(x.o.Topology.Subs) {
		for p := range sub.Partitions {
			tp := client.TopicPartition{Topic: ChangelogTopic(x.o.Topology.App, sub.Name), Partition: p}
			r, err := x.rangeOf(ctx, tp)
			if err != nil {
				return err
			}
			f, ok, err := findLast(ctx, x.consumer, tp, r, state.IsMetaKey)
			if err != nil {
				return err
			}
			if !ok {
				return fmt.Errorf("%s holds no commit: %w: the pipeline has not run yet", tp, ErrStateLost)
			}
			t := exportedTask{Sub: sub.Name, Partition: p, Next: f.offset + 1, Commit: f.value}
			c, s, err := t.decode()
			if err != nil {
				return fmt.Errorf("read the last commit in %s: %w", tp, err)
			}
			if c.Fingerprint != sub.Fingerprint {
				return fmt.Errorf("the last commit in %s has topology fingerprint %q, not %q: %w", tp,
					c.Fingerprint, sub.Fingerprint, state.ErrMismatch)
			}
			x.header.Tasks = append(x.header.Tasks, t)
			x.commits, x.snapshots = append(x.commits, c), append(x.snapshots, s)
		}
	}
	return nil
}

func (x *exporter) rangeOf(ctx context.Context, tp client.TopicPartition) (client.Range, error) {
	ranges, err := x.o.Cluster.Admin().Ranges(ctx, tp)
	return ranges[tp], err
}

// decode reads the commit of a task; the snapshot is nil where nothing was processed yet.
func (t *exportedTask) decode() (*commitRecord, *snapshot, error) {
	c, err := decodeCommit(t.Commit)
	if err != nil || len(c.Snapshot) == 0 {
		return c, nil, err
	}
	s := &snapshot{}
	if err := json.Unmarshal(c.Snapshot, s); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	return c, s, nil
}

// positionsOf are where the inputs of a commit are read on.
func positionsOf(c *commitRecord, s *snapshot) map[client.TopicPartition]int64 {
	at := map[client.TopicPartition]int64{}
	if s != nil {
		for _, in := range s.Inputs {
			at[client.TopicPartition{Topic: in.Topic, Partition: in.Partition}] = in.Offset
		}
	}
	for _, p := range c.From {
		at[p.TopicPartition] = max(at[p.TopicPartition], p.Offset)
	}
	return at
}

// internal tells whether a topic that a task reads is one of the pipeline's own.
func (h *exportHeader) internal(t *exportedTask, topic string) bool {
	rest, ok := strings.CutPrefix(topic, h.App)
	if !ok {
		return false
	}
	for _, sub := range h.Subs {
		if sub.Name != t.Sub {
			continue
		}
		for _, line := range sub.Shape {
			if f := strings.Fields(line); len(f) == 5 && f[0] == "source" && f[2] == rest && f[4] != "0" {
				return true
			}
		}
	}
	return false
}

// lanes writes what the tasks have not processed of repartition topics.
func (x *exporter) lanes(ctx context.Context, spool *os.File) error {
	if err := spool.Truncate(0); err != nil {
		return err
	}
	if _, err := spool.Seek(0, io.SeekStart); err != nil {
		return err
	}
	x.end.Records = 0
	out := &frameWriter{w: spool}
	for i := range x.header.Tasks {
		t := &x.header.Tasks[i]
		for _, sub := range x.o.Topology.Subs {
			for j := range sub.Sources {
				source := &sub.Sources[j]
				if sub.Name != t.Sub || !source.Repartition() || t.Partition >= source.Partitions {
					continue
				}
				if err := x.lane(ctx, out, i, source); err != nil {
					return err
				}
			}
		}
	}
	return out.err
}

// lane writes the records of one repartition partition that its writers had written at their
// commits and its reader, task i, has not processed at its own.
func (x *exporter) lane(ctx context.Context, out *frameWriter, i int, source *topology.Source,
) error {
	tp := client.TopicPartition{Topic: source.Topic, Partition: x.header.Tasks[i].Partition}
	from := positionsOf(x.commits[i], x.snapshots[i])[tp]
	writers := map[string]*snapshot{}
	for w := range x.header.Tasks {
		if name := x.name(w); slices.Contains(source.Writers, name) {
			if writers[name] = x.snapshots[w]; writers[name] == nil {
				writers[name] = &snapshot{Time: operator.NoTime}
			}
		}
	}
	if err := fits(x.snapshots[i], tp, writers); err != nil {
		return err
	}
	r, err := x.rangeOf(ctx, tp)
	if err != nil {
		return err
	}
	frame := &laneFrame{task: i, source: source.ID}
	flush := func() error {
		if len(frame.body) == 0 {
			return nil
		}
		defer func() { frame.body = frame.body[:0] }()
		return out.write(frameLane, frame.body)
	}
	err = client.ReadRange(ctx, x.consumer, tp, max(from, r.Start), r.End,
		func(records []record.Record) error {
			for k := range records {
				rec := &records[k]
				value, _ := rec.Header(LaneHeader)
				l, err := ParseLane(value)
				if err != nil || !l.within(writers[l.Writer]) {
					continue // of nobody, or made again by its writer
				}
				x.end.Records++
				if frame.add(rec) {
					if err := flush(); err != nil {
						return err
					}
				}
			}
			return nil
		})
	if err != nil {
		return err
	}
	// What the task had not processed at its commit may have been deleted since.
	if r, err = x.rangeOf(ctx, tp); err == nil && r.Start > from {
		err = fmt.Errorf("%s begins at %d, records from %d on are needed: %w", tp, r.Start, from,
			errMoving)
	}
	return errors.Join(err, flush())
}

// within tells whether a writer had written this at its commit.
func (l Lane) within(w *snapshot) bool {
	return w != nil && l.Seq <= w.Seq && (!l.Control || l.W <= w.Time)
}

// fits refuses commits of which the reader's is younger than that of a writer.
func fits(reader *snapshot, tp client.TopicPartition, writers map[string]*snapshot) error {
	if reader == nil {
		return nil
	}
	for _, in := range reader.Inputs {
		if in.Topic != tp.Topic || in.Partition != tp.Partition {
			continue
		}
		for _, l := range in.Lanes {
			if w := writers[l.Writer]; w != nil && l.Seq > w.Seq {
				return fmt.Errorf("%s was read to sequence %d of %s, whose commit is at %d: %w", tp, l.Seq,
					l.Writer, w.Seq, errMoving)
			}
		}
	}
	return nil
}

// rows writes the rows of task i, of each key the last, in order: through a state file, as a
// restore has it.
func (x *exporter) rows(ctx context.Context, out *frameWriter, i int) (err error) {
	t := &x.header.Tasks[i]
	tp := client.TopicPartition{Topic: ChangelogTopic(x.o.Topology.App, t.Sub),
		Partition: t.Partition}
	path := filepath.Join(x.dir, fmt.Sprintf("rows-%d.db", i))
	db, err := state.Open(state.Options{Path: path, Identity: state.Identity{Task: x.name(i)}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Kill(), os.Remove(path)) }()
	bulk, ok := db.NewBulk()
	if !ok {
		panic("invariant: a new state file takes rows in bulk")
	}
	r, err := x.rangeOf(ctx, tp)
	if err != nil {
		return err
	}
	err = client.ReadRange(ctx, x.consumer, tp, r.Start, t.Next-1, func(records []record.Record) error {
		full := false
		for k := range records {
			if !state.IsMetaKey(records[k].Key) {
				full = bulk.Add(records[k].Key, records[k].Value) || full
			}
		}
		if !full {
			return nil
		}
		return bulk.Write(state.Meta{Next: records[len(records)-1].Offset + 1})
	})
	if err == nil {
		err = bulk.Write(state.Meta{Next: t.Next, Commit: t.Commit})
	}
	if took := time.Since(x.found); err == nil && took > exportLongest {
		err = fmt.Errorf("%w: it took %s, and the changelog may have been compacted meanwhile: is who"+
			" takes it too slow?", ErrExport, took.Round(time.Second))
	}
	if err != nil {
		return err
	}
	frame := &rowFrame{task: i}
	err = db.Reader().View(func(v *state.View) error {
		return v.Rows(func(key, value []byte) error {
			x.end.Rows++
			if !frame.add(key, value) {
				return nil
			}
			defer func() { frame.body = frame.body[:0] }()
			return out.write(frameRows, frame.body)
		})
	})
	if err == nil && len(frame.body) > 0 {
		err = out.write(frameRows, frame.body)
	}
	return err
}
