package offsets

import (
	"maps"
	"slices"
	"strings"
)

// Table is the committed offsets of one shard's groups. It is not safe for concurrent use.
type Table struct {
	groups map[string]map[string]map[int32]Commit // group, topic, partition
	count  int
}

// NewTable returns an empty table.
func NewTable() *Table {
	return &Table{groups: make(map[string]map[string]map[int32]Commit)}
}

// Put sets the committed offset of one partition.
func (t *Table) Put(group, topic string, partition int32, c Commit) {
	topics := t.groups[group]
	if topics == nil {
		topics = make(map[string]map[int32]Commit)
		t.groups[strings.Clone(group)] = topics
	}
	partitions := topics[topic]
	if partitions == nil {
		partitions = make(map[int32]Commit)
		topics[strings.Clone(topic)] = partitions
	}
	before := len(partitions)
	partitions[partition] = c
	t.count += len(partitions) - before
}

// Remove takes one partition out of the table, if it is there.
func (t *Table) Remove(group, topic string, partition int32) {
	topics := t.groups[group]
	partitions := topics[topic]
	if _, ok := partitions[partition]; !ok {
		return
	}
	delete(partitions, partition)
	t.count--
	if len(partitions) == 0 {
		delete(topics, topic)
	}
	if len(topics) == 0 {
		delete(t.groups, group)
	}
}

// Get returns the committed offset of one partition.
func (t *Table) Get(group, topic string, partition int32) (Commit, bool) {
	c, ok := t.groups[group][topic][partition]
	return c, ok
}

// Each calls fn for every committed offset, in no order.
func (t *Table) Each(fn func(group, topic string, partition int32, c Commit)) {
	for group, topics := range t.groups {
		for topic, partitions := range topics {
			for partition, c := range partitions {
				fn(group, topic, partition, c)
			}
		}
	}
}

// Has says whether the group has any committed offset.
func (t *Table) Has(group string) bool { return len(t.groups[group]) > 0 }

// Len is the number of committed offsets of all groups.
func (t *Table) Len() int { return t.count }

// Groups lists the groups that have committed offsets, sorted.
func (t *Table) Groups() []string { return slices.Sorted(maps.Keys(t.groups)) }

// Topics lists the topics the group has committed offsets for, sorted.
func (t *Table) Topics(group string) []string {
	return slices.Sorted(maps.Keys(t.groups[group]))
}

// Partitions lists the partitions of a topic the group has committed offsets for, sorted.
func (t *Table) Partitions(group, topic string) []int32 {
	return slices.Sorted(maps.Keys(t.groups[group][topic]))
}
