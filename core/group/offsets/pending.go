package offsets

import (
	"cmp"
	"maps"
	"slices"
)

// Pending is the offsets of transactions that are not decided yet, of one shard's groups. It is not
// safe for concurrent use.
type Pending struct {
	// producers has what each producer's open transaction commits. None of the tables is empty.
	producers map[int64]*Table
	// open has, for each group, the producers whose tables have it.
	open map[string]map[int64]struct{}
}

// TopicPartition names a partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// NewPending returns one without offsets.
func NewPending() *Pending {
	return &Pending{
		producers: make(map[int64]*Table),
		open:      make(map[string]map[int64]struct{}),
	}
}

// Put adds an offset to a producer's open transaction, in the place of one that it had for the same
// partition.
func (p *Pending) Put(producer int64, group, topic string, partition int32, c Commit) {
	table := p.producers[producer]
	if table == nil {
		table = NewTable()
		p.producers[producer] = table
	}
	table.Put(group, topic, partition, c)
	if p.open[group] == nil {
		p.open[group] = make(map[int64]struct{})
	}
	p.open[group][producer] = struct{}{}
}

// Remove takes the offsets of one partition out of all transactions: what is deleted does not come
// back when they are committed.
func (p *Pending) Remove(group, topic string, partition int32) {
	for producer := range p.open[group] {
		table := p.producers[producer]
		table.Remove(group, topic, partition)
		if !table.Has(group) {
			p.close(producer, group)
		}
		if table.Len() == 0 {
			delete(p.producers, producer)
		}
	}
}

// close takes a producer from those that a group has open.
func (p *Pending) close(producer int64, group string) {
	delete(p.open[group], producer)
	if len(p.open[group]) == 0 {
		delete(p.open, group)
	}
}

// Take ends a producer's transaction and returns its offsets, nil if it had none.
func (p *Pending) Take(producer int64) *Table {
	table := p.producers[producer]
	if table == nil {
		return nil
	}
	delete(p.producers, producer)
	for group := range table.groups {
		p.close(producer, group)
	}
	return table
}

// Has says whether a transaction commits an offset of one partition.
func (p *Pending) Has(group, topic string, partition int32) bool {
	for producer := range p.open[group] {
		if _, ok := p.producers[producer].Get(group, topic, partition); ok {
			return true
		}
	}
	return false
}

// Open says whether a transaction commits an offset of the group.
func (p *Pending) Open(group string) bool { return len(p.open[group]) > 0 }

// Groups lists the groups that transactions commit offsets of, sorted.
func (p *Pending) Groups() []string { return slices.Sorted(maps.Keys(p.open)) }

// Partitions lists the partitions that transactions commit offsets of, sorted.
func (p *Pending) Partitions(group string) []TopicPartition {
	set := make(map[TopicPartition]struct{})
	for producer := range p.open[group] {
		for topic, partitions := range p.producers[producer].groups[group] {
			for partition := range partitions {
				set[TopicPartition{topic, partition}] = struct{}{}
			}
		}
	}
	return slices.SortedFunc(maps.Keys(set), func(a, b TopicPartition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
}
