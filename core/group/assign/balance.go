package assign

import (
	"cmp"
	"slices"

	"github.com/google/uuid"
)

// maxRounds bounds the final balancing. With equal subscriptions among the subscribers of each
// topic one round is enough; otherwise each round about halves the imbalance. Kafka's bound.
const maxRounds = 16

// balance assigns to members that subscribe to different topics. Members are indexes here.
type balance struct {
	members     []Member
	counts      map[uuid.UUID]int32
	topics      []uuid.UUID // the most partitions for each subscriber first
	subscribers map[uuid.UUID][]int
	owners      map[uuid.UUID][]int // of each partition, -1 for nobody
	sizes       []int               // partitions of each member
}

func newBalance(members []Member, topics []uuid.UUID, counts map[uuid.UUID]int32) *balance {
	b := &balance{
		members: members, counts: counts, topics: topics,
		subscribers: make(map[uuid.UUID][]int),
		owners:      make(map[uuid.UUID][]int),
		sizes:       make([]int, len(members)),
	}
	for i := range members {
		for _, topic := range members[i].Topics {
			b.subscribers[topic] = append(b.subscribers[topic], i)
		}
	}
	for _, topic := range topics {
		b.owners[topic] = slices.Repeat([]int{-1}, int(counts[topic]))
	}
	slices.SortFunc(b.topics, b.compareTopics)
	return b
}

// compareTopics puts first what is hardest to spread: many partitions for few subscribers.
func (b *balance) compareTopics(x, y uuid.UUID) int {
	nx, ny := len(b.subscribers[x]), len(b.subscribers[y])
	return cmp.Or(
		cmp.Compare(float64(b.counts[y])/float64(ny), float64(b.counts[x])/float64(nx)),
		cmp.Compare(nx, ny),
		compareIDs(x, y),
	)
}

func (b *balance) run() map[string]Partitions {
	b.keep()
	b.assignFree()
	b.level()
	result := make(map[string]Partitions, len(b.members))
	for i := range b.members {
		result[b.members[i].ID] = make(Partitions)
	}
	for topic, owners := range b.owners {
		for p, owner := range owners {
			to := result[b.members[owner].ID]
			to[topic] = append(to[topic], int32(p))
		}
	}
	return result
}

// keep takes over what members have and still subscribe to.
func (b *balance) keep() {
	for i := range b.members {
		for topic, list := range b.members[i].Target {
			if !slices.Contains(b.members[i].Topics, topic) {
				continue
			}
			for _, p := range list {
				if int(p) < len(b.owners[topic]) {
					b.give(topic, int(p), i)
				}
			}
		}
	}
}

// give makes a member the owner of a partition.
func (b *balance) give(topic uuid.UUID, partition, member int) {
	if old := b.owners[topic][partition]; old >= 0 {
		b.sizes[old]--
	}
	b.owners[topic][partition] = member
	b.sizes[member]++
}

// assignFree gives partitions without an owner to the subscribers with the fewest.
func (b *balance) assignFree() {
	for _, topic := range b.topics {
		var s *scale
		for p, owner := range b.owners[topic] {
			if owner >= 0 {
				continue
			}
			if s == nil {
				s = newScale(b.sizes, b.subscribers[topic])
			}
			b.give(topic, p, s.nextLeast())
		}
	}
}

// level moves partitions from members with many to members with few, topic by topic, until a whole
// round has found nothing to move.
func (b *balance) level() {
	topics := slices.DeleteFunc(slices.Clone(b.topics), func(topic uuid.UUID) bool {
		return len(b.subscribers[topic]) < 2
	})
	last := -1 // the last topic in which something moved
	for range maxRounds {
		for i, topic := range topics {
			if i == last {
				return
			}
			if b.levelTopic(topic) || last < 0 {
				last = i
			}
		}
	}
}

func (b *balance) levelTopic(topic uuid.UUID) (moved bool) {
	s := newScale(b.sizes, b.subscribers[topic])
	if s.spread() <= 1 {
		return false
	}
	owned := make(map[int][]int) // member -> its partitions of the topic
	for p, owner := range b.owners[topic] {
		owned[owner] = append(owned[owner], p)
	}
	for !s.level() {
		most := s.nextMost()
		for most >= 0 && len(owned[most]) == 0 {
			s.excludeMost()
			most = s.nextMost()
		}
		if most < 0 {
			break
		}
		end := len(owned[most]) - 1
		p := owned[most][end]
		owned[most] = owned[most][:end]
		least := s.nextLeast()
		if s.level() {
			break
		}
		b.give(topic, p, least)
		moved = true
	}
	return moved
}

// scale walks over the subscribers of a topic from both ends: from those with the fewest
// partitions, who get one each in turn, and from those with the most, who give one each in turn.
// The ranges [0, leastEnd) and [mostStart, mostEnd) grow as their sizes meet those of the next
// members.
//
//	partitions |                 [#    most
//	           |           #     [##   range
//	           | least   ###  #####
//	           | range]#############
//	           +-------------------> members, sorted
type scale struct {
	sizes   []int // of all members, as they are now
	members []int // sorted by size, then index

	leastEnd, leastSize, leastNext           int
	mostStart, mostEnd, mostSize, mostNextAt int
}

func newScale(sizes, members []int) *scale {
	s := &scale{sizes: sizes, members: slices.Clone(members)}
	slices.SortFunc(s.members, func(x, y int) int {
		return cmp.Or(cmp.Compare(sizes[x], sizes[y]), cmp.Compare(x, y))
	})
	n := len(s.members)
	s.leastSize = sizes[s.members[0]] - 1
	s.mostStart, s.mostEnd, s.mostNextAt = n, n, n-1
	s.mostSize = sizes[s.members[n-1]] + 1
	return s
}

// spread is the difference between the most and the fewest partitions.
func (s *scale) spread() int {
	return s.sizes[s.members[len(s.members)-1]] - s.sizes[s.members[0]]
}

// level says that moving a partition from the one range to the other would not improve anything.
func (s *scale) level() bool { return s.mostSize-s.leastSize <= 1 }

// nextLeast is the member to get the next partition.
func (s *scale) nextLeast() int {
	if s.leastNext >= s.leastEnd {
		s.leastSize++
		for s.leastEnd < len(s.members) && s.sizes[s.members[s.leastEnd]] == s.leastSize {
			s.leastEnd++
		}
		s.leastNext = 0
	}
	m := s.members[s.leastNext]
	s.leastNext++
	return m
}

// nextMost is the member to give the next partition, -1 if nobody is left.
func (s *scale) nextMost() int {
	if s.mostNextAt < s.mostStart {
		if s.mostEnd <= s.mostStart && s.mostStart > 0 {
			s.mostSize = s.sizes[s.members[s.mostStart-1]]
		} else {
			s.mostSize--
		}
		for s.mostStart > 0 && s.sizes[s.members[s.mostStart-1]] == s.mostSize {
			s.mostStart--
		}
		s.mostNextAt = s.mostEnd - 1
	}
	if s.mostNextAt < 0 {
		return -1
	}
	m := s.members[s.mostNextAt]
	s.mostNextAt--
	return m
}

// excludeMost takes the member that nextMost gave last out of its range: it has nothing to give.
func (s *scale) excludeMost() {
	s.mostEnd--
	at := s.mostNextAt + 1
	s.members[at], s.members[s.mostEnd] = s.members[s.mostEnd], s.members[at]
}
