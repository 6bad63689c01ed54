package replica

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/millstream-io/millstream/core/storage"
)

// Traffic is what clients did with the partitions of one topic on this node. Whoever serves them
// counts; a deleted topic takes its counts along.
type Traffic struct {
	// BytesIn and RecordsIn were appended, BytesOut was sent, in record batches.
	BytesIn, RecordsIn, BytesOut atomic.Int64
	// Produces and Fetches are asked partitions, not requests; FailedProduces and FailedFetches are
	// those of them that got an error.
	Produces, FailedProduces, Fetches, FailedFetches atomic.Int64
}

// TopicTraffic is the traffic of a topic.
type TopicTraffic struct {
	Topic string
	*Traffic
}

// Traffic returns the counts of the partition's topic.
func (p *Partition) Traffic() *Traffic { return p.traffic }

// trafficOf returns the counts of a topic in t, or those it had before.
func (t *table) trafficOf(old *table, topic uuid.UUID) *Traffic {
	counts := t.traffic[topic]
	if counts == nil {
		if counts = old.traffic[topic]; counts == nil {
			counts = new(Traffic)
		}
		t.traffic[topic] = counts
	}
	return counts
}

// Traffic returns the counts of all topics that this node has partitions of, by name.
func (m *Manager) Traffic() []TopicTraffic {
	t := m.table.Load()
	all := make([]TopicTraffic, 0, len(t.traffic))
	for id, counts := range t.traffic {
		if topic, ok := t.image.TopicByID(id); ok {
			all = append(all, TopicTraffic{topic.Name, counts})
		}
	}
	slices.SortFunc(all, func(a, b TopicTraffic) int { return strings.Compare(a.Topic, b.Topic) })
	return all
}

// Status is how the partitions of this node are.
type Status struct {
	// Partitions are those that this node has a replica of, Leading those it leads, Offline those
	// whose log cannot be used.
	Partitions, Leading, Offline int
	// UnderReplicated have fewer replicas in sync than assigned, UnderMinISR fewer than
	// min.insync.replicas, AtMinISR just as many; led here, all of them.
	UnderReplicated, UnderMinISR, AtMinISR int
}

// Status counts.
func (m *Manager) Status() Status {
	t := m.table.Load()
	s := Status{Partitions: len(t.byID) + len(t.offline), Offline: len(t.offline)}
	for _, p := range t.byID {
		r := p.role.Load()
		if p.log.Err() != nil {
			s.Offline++
		}
		if !r.leader {
			continue
		}
		s.Leading++
		if r.inSync < r.replicas {
			s.UnderReplicated++
		}
		switch {
		case r.inSync < r.minInSync:
			s.UnderMinISR++
		case r.inSync == r.minInSync && r.replicas > 1:
			s.AtMinISR++
		}
	}
	return s
}

// All returns the partitions that this node has a working log of, by name.
func (m *Manager) All() []*Partition {
	t := m.table.Load()
	all := make([]*Partition, 0, len(t.byName))
	for _, p := range t.byName {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *Partition) int {
		if c := strings.Compare(a.tp.Topic, b.tp.Topic); c != 0 {
			return c
		}
		return int(a.tp.Partition) - int(b.tp.Partition)
	})
	return all
}

// Find returns a partition that this node has, whether it serves or not; nil if there is none. The
// name is not kept.
func (m *Manager) Find(tp storage.TopicPartition) *Partition { return m.table.Load().byName[tp] }

// UnderReplicated tells whether fewer replicas are in sync than assigned.
func (p *Partition) UnderReplicated() bool {
	r := p.role.Load()
	return r.inSync < r.replicas
}
