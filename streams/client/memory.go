package client

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/millstream-io/millstream/core/record"
)

// Op is one request to a Memory, for its fault hooks.
type Op struct {
	// Kind is "append", "poll", "commit", "create", "topics", "ranges", "offsets" or "delete"; of
	// transactions "init", "end" and "abort".
	Kind string
	// ID is the transactional id, if there is one.
	ID string
	// TopicPartition is set for appends.
	TopicPartition
	// Records are those of an append; hooks must not change them.
	Records []record.Record
}

// Memory is a cluster in the memory of the process: a twin of the Kafka adapter for tests. It may
// be used by many goroutines.
type Memory struct {
	mu struct {
		sync.Mutex
		topics map[string]*memTopic
		groups map[string]map[TopicPartition]int64
		notes  map[string]map[TopicPartition]string
		ids    map[string]*memID // by transactional id
		// lastEpoch is the last one given to a holder of any id.
		lastEpoch int
		// members are the groups that share work, by id.
		members map[string]*memGroup
		nextID  int
		// changed is closed and replaced when a log grows or a consumer is told something.
		changed chan struct{}
		before  func(Op) error
		after   func(Op) error
		maxPoll int
	}
}

type memTopic struct {
	id         string
	configs    map[string]string
	partitions []*memLog
}

type memLog struct {
	start   int64
	records []memRecord // offsets ascending, gaps after Compact
	end     int64
}

// memRecord is a record, or the marker of a transaction, which no reader sees.
type memRecord struct {
	record.Record
	txn    *memTxn // nil for what is in none
	marker bool
}

// visible tells whether a reader of committed records sees it.
func (r *memRecord) visible() bool {
	return !r.marker && (r.txn == nil || r.txn.state == memCommitted)
}

var _ Cluster = (*Memory)(nil)

// NewMemory returns an empty cluster.
func NewMemory() *Memory {
	m := &Memory{}
	m.mu.topics = map[string]*memTopic{}
	m.mu.groups = map[string]map[TopicPartition]int64{}
	m.mu.notes = map[string]map[TopicPartition]string{}
	m.mu.members = map[string]*memGroup{}
	m.mu.ids = map[string]*memID{}
	m.mu.changed = make(chan struct{})
	m.mu.maxPoll = 1000
	return m
}

// SetFaults sets hooks that run before and after each request. An error of before refuses it; an
// error of after hides that it was done, as a lost answer does. Nil hooks do nothing.
func (m *Memory) SetFaults(before, after func(Op) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.before, m.mu.after = before, after
}

// SetMaxPoll bounds the records of one partition a Poll returns; the default is 1000.
func (m *Memory) SetMaxPoll(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.maxPoll = n
}

// Records returns a copy of the committed records a partition holds.
func (m *Memory) Records(tp TopicPartition) []record.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.logLocked(tp)
	if l == nil {
		return nil
	}
	var list []record.Record
	for i := range l.records {
		if l.records[i].visible() {
			list = append(list, l.records[i].Record)
		}
	}
	return list
}

// Configs returns the configs a topic was made with.
func (m *Memory) Configs(topic string) map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.mu.topics[topic]; t != nil {
		return maps.Clone(t.configs)
	}
	return nil
}

// Append appends records as another producer would.
func (m *Memory) Append(tp TopicPartition, records ...record.Record) error {
	_, err := m.append(tp, records, nil)
	return err
}

// Delete removes a topic.
func (m *Memory) Delete(topic string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.mu.topics, topic)
}

// Trim moves the start of a partition, as retention does.
func (m *Memory) Trim(tp TopicPartition, start int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.logLocked(tp)
	l.start = max(l.start, start)
	l.records = slices.DeleteFunc(l.records, func(r memRecord) bool { return r.Offset < start })
}

// Compact keeps the last record of each key of a partition, as the cleaner does; offsets stay.
func (m *Memory) Compact(tp TopicPartition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.logLocked(tp)
	last := map[string]int64{}
	for i := range l.records {
		if r := &l.records[i]; r.visible() {
			last[string(r.Key)] = r.Offset
		}
	}
	l.records = slices.DeleteFunc(l.records, func(r memRecord) bool {
		return r.visible() && last[string(r.Key)] != r.Offset
	})
}

func (m *Memory) logLocked(tp TopicPartition) *memLog {
	t := m.mu.topics[tp.Topic]
	if t == nil || tp.Partition < 0 || int(tp.Partition) >= len(t.partitions) {
		return nil
	}
	return t.partitions[tp.Partition]
}

// notifyLocked wakes the consumers that wait.
func (m *Memory) notifyLocked() {
	close(m.mu.changed)
	m.mu.changed = make(chan struct{})
}

// do runs one request between its hooks, without the lock held in them.
func (m *Memory) do(op Op, fn func() error) error {
	m.mu.Lock()
	before, after := m.mu.before, m.mu.after
	m.mu.Unlock()
	if before != nil {
		if err := before(op); err != nil {
			return err
		}
	}
	if err := fn(); err != nil {
		return err
	}
	if after != nil {
		return after(op)
	}
	return nil
}

// append appends copies of records and returns the new end.
func (m *Memory) append(tp TopicPartition, records []record.Record, txn *memTxn) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if txn != nil && txn.state != memOpen {
		return 0, fmt.Errorf("append to %s: %w", tp, ErrLost)
	}
	l := m.logLocked(tp)
	if l == nil {
		return 0, fmt.Errorf("append to %s: %w", tp, ErrUnknownTopic)
	}
	for i := range records {
		r := records[i].Clone()
		r.Offset = l.end
		l.records = append(l.records, memRecord{Record: r, txn: txn})
		l.end++
	}
	if txn != nil {
		txn.logs[l] = true
	}
	m.notifyLocked()
	return l.end, nil
}

// Producer implements Cluster.
func (m *Memory) Producer() (Producer, error) {
	return &memProducer{m: m, acked: map[TopicPartition]int64{}}, nil
}

// Admin implements Cluster.
func (m *Memory) Admin() Admin { return memAdmin{m} }

// Trouble implements Cluster.
func (m *Memory) Trouble() Trouble { return Trouble{} }

// Close implements Cluster; the logs stay, so that a test can go on with a new user.
func (m *Memory) Close() {}

// memProducer appends at once and reports at Flush, as a network client would.
type memProducer struct {
	id     string  // transactional id, "" for none
	txn    *memTxn // the open transaction, nil for none
	m      *Memory
	acked  map[TopicPartition]int64
	err    error
	closed bool
}

var _ Producer = (*memProducer)(nil)

func (p *memProducer) Send(ctx context.Context, tp TopicPartition, records []record.Record,
) (int, error) {
	switch {
	case p.closed:
		return 0, ErrClosed
	case p.err != nil:
		return 0, p.err
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case len(records) == 0:
		return 0, nil
	}
	var end int64
	op := Op{Kind: "append", ID: p.id, TopicPartition: tp, Records: records}
	err := p.m.do(op, func() (err error) {
		end, err = p.m.append(tp, records, p.txn)
		return err
	})
	if err != nil {
		p.err = fmt.Errorf("append %d records to %s: %w: %w", len(records), tp, ErrProduce, err)
		return len(records), nil // asynchronous: Flush tells
	}
	p.acked[tp] = end
	return len(records), nil
}

func (p *memProducer) Flush(ctx context.Context) error {
	if p.err != nil {
		return p.err
	}
	return ctx.Err()
}

func (p *memProducer) Acked(tp TopicPartition) int64 {
	if next, ok := p.acked[tp]; ok {
		return next
	}
	return -1
}

func (p *memProducer) Close() { p.closed = true }

type memAdmin struct{ m *Memory }

var _ Admin = memAdmin{}

func (a memAdmin) Topics(_ context.Context, names ...string) (map[string]TopicInfo, error) {
	infos := map[string]TopicInfo{}
	err := a.m.do(Op{Kind: "topics"}, func() error {
		a.m.mu.Lock()
		defer a.m.mu.Unlock()
		for _, name := range names {
			if t := a.m.mu.topics[name]; t != nil {
				infos[name] = TopicInfo{ID: t.id, Partitions: int32(len(t.partitions))}
			}
		}
		return nil
	})
	return infos, err
}

func (a memAdmin) AllTopics(ctx context.Context) (map[string]TopicInfo, error) {
	a.m.mu.Lock()
	names := slices.Collect(maps.Keys(a.m.mu.topics))
	a.m.mu.Unlock()
	return a.Topics(ctx, names...)
}

func (a memAdmin) CreateTopics(_ context.Context, specs ...TopicSpec) error {
	return a.m.do(Op{Kind: "create"}, func() error {
		a.m.mu.Lock()
		defer a.m.mu.Unlock()
		for _, s := range specs {
			if s.Partitions < 1 {
				return fmt.Errorf("create topic %s: %d partitions", s.Name, s.Partitions)
			}
			if a.m.mu.topics[s.Name] != nil {
				continue
			}
			a.m.mu.nextID++
			t := &memTopic{id: strconv.Itoa(a.m.mu.nextID), configs: maps.Clone(s.Configs)}
			for range s.Partitions {
				t.partitions = append(t.partitions, &memLog{})
			}
			a.m.mu.topics[s.Name] = t
		}
		return nil
	})
}

func (a memAdmin) Ranges(_ context.Context, tps ...TopicPartition,
) (map[TopicPartition]Range, error) {
	ranges := map[TopicPartition]Range{}
	err := a.m.do(Op{Kind: "ranges"}, func() error {
		a.m.mu.Lock()
		defer a.m.mu.Unlock()
		for _, tp := range tps {
			l := a.m.logLocked(tp)
			if l == nil {
				return fmt.Errorf("list offsets of %s: %w", tp, ErrUnknownTopic)
			}
			ranges[tp] = Range{l.start, l.end}
		}
		return nil
	})
	return ranges, err
}

func (a memAdmin) OffsetsAt(_ context.Context, ms int64, tps ...TopicPartition,
) (map[TopicPartition]int64, error) {
	offsets := map[TopicPartition]int64{}
	err := a.m.do(Op{Kind: "ranges"}, func() error {
		a.m.mu.Lock()
		defer a.m.mu.Unlock()
		for _, tp := range tps {
			l := a.m.logLocked(tp)
			if l == nil {
				return fmt.Errorf("list offsets of %s: %w", tp, ErrUnknownTopic)
			}
			offsets[tp] = l.end
			for i := range l.records {
				if r := &l.records[i]; r.Offset >= l.start && r.Timestamp >= ms {
					offsets[tp] = r.Offset
					break
				}
			}
		}
		return nil
	})
	return offsets, err
}

func (a memAdmin) DeleteRecords(_ context.Context, before map[TopicPartition]int64) error {
	return a.m.do(Op{Kind: "delete"}, func() error {
		for tp, at := range before {
			a.m.Trim(tp, at)
		}
		return nil
	})
}

func (a memAdmin) CommitOffsets(_ context.Context, group string,
	next map[TopicPartition]int64,
) error {
	return a.CommitNoted(context.Background(), group, next, nil)
}

func (a memAdmin) Notes(_ context.Context, group string) (map[TopicPartition]string, error) {
	var notes map[TopicPartition]string
	err := a.m.do(Op{Kind: "offsets"}, func() error {
		a.m.mu.Lock()
		defer a.m.mu.Unlock()
		notes = maps.Clone(a.m.mu.notes[group])
		return nil
	})
	return notes, err
}

func (a memAdmin) CommitNoted(_ context.Context, group string, next map[TopicPartition]int64,
	notes map[TopicPartition]string,
) error {
	return a.m.do(Op{Kind: "commit"}, func() error {
		a.m.mu.Lock()
		defer a.m.mu.Unlock()
		if a.m.mu.groups[group] == nil {
			a.m.mu.groups[group] = map[TopicPartition]int64{}
		}
		maps.Copy(a.m.mu.groups[group], next)
		a.m.mu.notes[group] = maps.Clone(notes)
		return nil
	})
}

func (a memAdmin) CommittedOffsets(_ context.Context, group string,
) (map[TopicPartition]int64, error) {
	var offsets map[TopicPartition]int64
	err := a.m.do(Op{Kind: "offsets"}, func() error {
		a.m.mu.Lock()
		defer a.m.mu.Unlock()
		offsets = maps.Clone(a.m.mu.groups[group])
		return nil
	})
	return offsets, err
}
