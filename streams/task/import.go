package task

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/topology"
)

// importBytes is about what one transaction of an import holds.
const importBytes = 8 << 20

// ImportOptions are what Import needs.
type ImportOptions struct {
	Cluster  client.Cluster
	Topology *topology.Topology
	// Replication of internal topics; 0 takes the cluster's default.
	Replication int16
	// Forget lets the counters of steps begin at 0.
	Forget bool
}

// Import makes an export the state that the tasks of a topology start with: as if they had made the
// commits that are in it. The topology has an App of its own and has never run: its internal topics
// are made, or hold nothing. An import that fails leaves them useless (InternalTopics names them);
// nothing may run on them.
func Import(ctx context.Context, o ImportOptions, x *StateExport) error {
	if err := x.Fits(o.Topology); err != nil {
		return err
	}
	m := &importer{o: o, x: x, old: x.header.App, done: make([]bool, len(x.header.Tasks))}
	if err := m.topics(ctx); err != nil {
		return fmt.Errorf("import state: %w", err)
	}
	if _, err := x.from.Seek(x.frames, io.SeekStart); err != nil {
		return fmt.Errorf("import state: %w", err)
	}
	f := &frameReader{r: bufio.NewReaderSize(x.from, 256<<10), at: x.frames}
	_, err := x.scan(f, func(task int, key, value []byte) error { return m.row(ctx, task, key, value) },
		func(task int, source string, list []record.Record) error {
			return m.lane(ctx, task, source, list)
		})
	for task := range x.header.Tasks {
		if err == nil && !m.done[task] {
			err = m.finish(ctx, task)
		}
	}
	if m.out != nil {
		if err != nil {
			short, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
			m.out.Abort(short)
			cancel()
		}
		m.out.Close()
	}
	if err != nil {
		return fmt.Errorf("import state: %w", err)
	}
	return nil
}

// InternalTopics are the topics that belong to the tasks of a topology alone.
func InternalTopics(t *topology.Topology) []string {
	var names []string
	for _, spec := range internalTopics(Options{Topology: t}) {
		names = append(names, spec.Name)
	}
	return names
}

// Fits refuses a topology whose tasks would read the state of the export differently.
func (x *StateExport) Fits(t *topology.Topology) error {
	var have, want []string
	for _, sub := range x.header.Subs {
		have = append(have, sub.Name)
	}
	for _, sub := range t.Subs {
		want = append(want, sub.Name)
	}
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		return fmt.Errorf("%w: it has the parts %s, the pipeline has %s", ErrExport,
			strings.Join(have, ", "), strings.Join(want, ", "))
	}
	for _, sub := range t.Subs {
		i := slices.IndexFunc(x.header.Subs, func(s exportedSub) bool { return s.Name == sub.Name })
		from := x.header.Subs[i]
		if from.Partitions != sub.Partitions {
			return fmt.Errorf("%w: part %s has %d partitions in it and %d in the pipeline; keys would"+
				" be in other tasks", ErrExport, sub.Name, from.Partitions, sub.Partitions)
		}
		if a, b := firstOther(from.Shape, sub.Shape(t.App)); a != b {
			return fmt.Errorf("%w: part %s has %q in it and %q in the pipeline", ErrExport, sub.Name, a, b)
		}
	}
	return x.wholeTasks()
}

// firstOther returns the first lines that differ, "nothing" where there is none.
func firstOther(a, b []string) (string, string) {
	at := func(list []string, i int) string {
		if i < len(list) {
			return list[i]
		}
		return "nothing"
	}
	for i := range max(len(a), len(b)) {
		if at(a, i) != at(b, i) {
			return at(a, i), at(b, i)
		}
	}
	return "", ""
}

// wholeTasks refuses an export that lacks a task, or has one twice.
func (x *StateExport) wholeTasks() error {
	seen := map[string]bool{}
	for _, t := range x.header.Tasks {
		seen[topology.Writer("", t.Sub, t.Partition)] = true
	}
	n := 0
	for _, sub := range x.header.Subs {
		for p := range sub.Partitions {
			if n++; !seen[topology.Writer("", sub.Name, p)] {
				return fmt.Errorf("%w: it lacks task %d of %s", ErrExport, p, sub.Name)
			}
		}
	}
	if n != len(x.header.Tasks) {
		return fmt.Errorf("%w: it has %d tasks, not %d", ErrExport, len(x.header.Tasks), n)
	}
	return nil
}

// importer is an Import at work.
type importer struct {
	o   ImportOptions
	x   *StateExport
	old string // the App of the export
	// out writes for task at; it is nil before the first one.
	out  client.Transactor
	at   int
	rows []record.Record
	held int // bytes of rows and records that are not committed
	slab slab
	// done are the tasks whose commit record is written.
	done []bool
}

// topics makes the internal topics and refuses those that hold something.
func (m *importer) topics(ctx context.Context) error {
	specs := internalTopics(Options{Topology: m.o.Topology, Replication: m.o.Replication})
	admin := m.o.Cluster.Admin()
	if err := admin.CreateTopics(ctx, specs...); err != nil {
		return fmt.Errorf("make internal topics: %w", err)
	}
	for _, spec := range specs {
		infos, err := admin.Topics(ctx, spec.Name)
		if err != nil {
			return err
		}
		if n := infos[spec.Name].Partitions; n != spec.Partitions {
			return fmt.Errorf("topic %s has %d partitions, not %d: %w", spec.Name, n, spec.Partitions,
				ErrTopics)
		}
		for p := range spec.Partitions {
			tp := client.TopicPartition{Topic: spec.Name, Partition: p}
			ranges, err := admin.Ranges(ctx, tp)
			if err != nil {
				return err
			}
			if ranges[tp].End > 0 {
				return fmt.Errorf("%s holds something already: %w: state can be imported only where"+
					" nothing has run", tp, ErrTopics)
			}
		}
	}
	return nil
}

// sub is the part of the topology that a task belongs to.
func (m *importer) sub(task int) *topology.Sub {
	for _, sub := range m.o.Topology.Subs {
		if sub.Name == m.x.header.Tasks[task].Sub {
			return sub
		}
	}
	panic("invariant: Fits has seen every part")
}

// use makes the producer that of a task.
func (m *importer) use(ctx context.Context, task int) error {
	if m.out != nil && m.at == task {
		return nil
	}
	if m.out != nil {
		if err := m.commit(ctx); err != nil {
			return err
		}
		m.out.Close()
	}
	t := &m.x.header.Tasks[task]
	out, err := m.o.Cluster.Transactor(ctx, topology.Writer(m.o.Topology.App, t.Sub, t.Partition))
	if err != nil {
		return err
	}
	m.out, m.at = out, task
	return nil
}

func (m *importer) changelog(task int) client.TopicPartition {
	t := &m.x.header.Tasks[task]
	return client.TopicPartition{Topic: ChangelogTopic(m.o.Topology.App, t.Sub),
		Partition: t.Partition}
}

// row writes one row.
func (m *importer) row(ctx context.Context, task int, key, value []byte) error {
	if err := m.use(ctx, task); err != nil {
		return err
	}
	m.rows = append(m.rows, record.Record{Timestamp: time.Now().UnixMilli(),
		Key: m.slab.copy(key), Value: m.slab.copy(value)})
	if m.held += len(key) + len(value); m.held < importBytes {
		return nil
	}
	return m.commit(ctx)
}

// lane writes records that are under way to a task, in the names of the new writers.
func (m *importer) lane(ctx context.Context, task int, source string, list []record.Record) error {
	if err := m.use(ctx, task); err != nil {
		return err
	}
	sub, t := m.sub(task), &m.x.header.Tasks[task]
	i := slices.IndexFunc(sub.Sources, func(s topology.Source) bool { return s.ID == source })
	if i < 0 || !sub.Sources[i].Repartition() {
		return fmt.Errorf("%w: it has records for %q, which no other task writes", ErrExport, source)
	}
	for k := range list {
		r := &list[k]
		r.Headers = slices.Clone(r.Headers)
		for h := range r.Headers {
			if r.Headers[h].Key != LaneHeader {
				continue
			}
			l, err := ParseLane(r.Headers[h].Value)
			if err != nil {
				return fmt.Errorf("%w: %w", ErrExport, err)
			}
			// An end is that of one run, and the writer tells again whether it is idle.
			l.Writer, l.Ended, l.Idle = m.renamed(l.Writer), false, false
			r.Headers[h].Value = AppendLane(nil, l)
		}
	}
	to := client.TopicPartition{Topic: sub.Sources[i].Topic, Partition: t.Partition}
	if _, err := m.out.Send(ctx, to, list); err != nil {
		return err
	}
	return m.commit(ctx)
}

// renamed is a name that begins with the App of the export, with that of the topology.
func (m *importer) renamed(name string) string {
	if rest, ok := strings.CutPrefix(name, m.old); ok {
		return m.o.Topology.App + rest
	}
	return name
}

// commit ends the transaction of the task that is written.
func (m *importer) commit(ctx context.Context) error {
	if len(m.rows) > 0 {
		if _, err := m.out.Send(ctx, m.changelog(m.at), m.rows); err != nil {
			return err
		}
	}
	err := m.out.Commit(ctx, "", nil)
	clear(m.rows)
	m.rows, m.held, m.slab = m.rows[:0], 0, slab{}
	return err
}

// finish writes the commit record of a task, behind all its rows.
func (m *importer) finish(ctx context.Context, task int) error {
	if err := m.use(ctx, task); err != nil {
		return err
	}
	c, err := m.commitOf(task)
	if err != nil {
		return err
	}
	m.rows = append(m.rows, metaRecord(c.encode()))
	m.done[task] = true
	return m.commit(ctx)
}

// commitOf is the commit of a task in the names of the topology.
func (m *importer) commitOf(task int) (*commitRecord, error) {
	t, sub := &m.x.header.Tasks[task], m.sub(task)
	c, s, err := t.decode()
	if err != nil {
		return nil, errors.Join(ErrExport, err)
	}
	c.Fingerprint, c.Clean = sub.Fingerprint, false
	own := map[string]string{} // repartition topics of the export -> those of the topology
	for i := range sub.Sources {
		if src := &sub.Sources[i]; src.Repartition() {
			own[m.old+strings.TrimPrefix(src.Topic, m.o.Topology.App)] = src.Topic
		}
	}
	c.From = slices.DeleteFunc(c.From, func(p position) bool { return own[p.Topic] != "" })
	for topic := range own {
		delete(c.Topics, topic)
	}
	if s == nil {
		return c, nil
	}
	s.Writer = topology.Writer(m.o.Topology.App, t.Sub, t.Partition)
	s.Told = nil // it is told again, at the first commit
	if m.o.Forget {
		s.Steps = nil
	}
	for i := range s.Inputs {
		in := &s.Inputs[i]
		topic, ok := own[in.Topic]
		if !ok {
			continue
		}
		in.Topic, in.Offset, in.Read = topic, 0, 0
		for k := range in.Lanes {
			in.Lanes[k].Writer, in.Lanes[k].Offset = m.renamed(in.Lanes[k].Writer), -1
		}
	}
	c.Snapshot, err = json.Marshal(s)
	return c, err
}
