package consumer

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/millstream-io/millstream/core/group/assign"
	"github.com/millstream-io/millstream/core/group/offsets"
	"github.com/millstream-io/millstream/core/group/timers"
	"github.com/millstream-io/millstream/core/record"
)

// The states of a group, as ListGroups and ConsumerGroupDescribe call them.
const (
	StateEmpty       = "Empty"
	StateAssigning   = "Assigning"
	StateReconciling = "Reconciling"
	StateStable      = "Stable"
)

// Timers are the deadlines of a shard's consumer groups.
type Timers = timers.Queue[Effects]

type timer = timers.Timer[Effects]

// partition is one partition.
type partition struct {
	topic uuid.UUID
	index int32
}

// clocks are the deadlines of one member.
type clocks struct {
	session   timer // it was silent for too long
	rebalance timer // it did not give partitions back in time
	// join and sync are those of a member that uses the classic protocol.
	join, sync timer
}

// Group is one group. Its methods are for the goroutine that owns its shard.
type Group struct {
	id     string
	config *Config
	timers *Timers

	epoch int32  // rises with every change that asks for a new assignment
	hash  uint64 // of the topics the group subscribes to, as of epoch
	// assignmentEpoch is the group epoch that targets belong to, assignedMS when they were
	// computed.
	assignmentEpoch int32
	assignedMS      int64
	members         map[string]*member
	static          map[string]string // instance id -> member id
	targets         map[string]assign.Partitions
	owners          map[partition]string // member that has it, or has not given it back yet
	regexes         map[string]offsets.ConsumerRegex
	subscribers     map[string]int // expression -> members that subscribe by it
	// partitionRecord says that the log has a KindConsumerPartitions, which Kafka wrote up to 4.0.
	partitionRecord bool

	clocks map[string]*clocks
	// hashedVersion and hashedEpoch are with which topics, and for which epoch, hash was computed.
	// They are set before the record is durable: an epoch behind it means that it was lost.
	hashedVersion int64
	hashedEpoch   int32
	resolve       timer // resolves the expressions, at once
	scanned       int64 // version of the topics that the expressions were last compared with
	// visible tells the topics that the client which spoke last may know of: expressions match no
	// others, as in Kafka. Nil for all.
	visible func(topic string) bool
}

// New returns a group without members that has never had any.
func New(id string, config *Config, timers *Timers) *Group {
	g := &Group{
		id: id, config: config, timers: timers, epoch: firstEpoch, assignmentEpoch: firstEpoch,
		members:       make(map[string]*member),
		static:        make(map[string]string),
		targets:       make(map[string]assign.Partitions),
		owners:        make(map[partition]string),
		regexes:       make(map[string]offsets.ConsumerRegex),
		subscribers:   make(map[string]int),
		clocks:        make(map[string]*clocks),
		hashedVersion: noVersion,
	}
	g.resolve = timer{Group: g, Run: g.resolveRegexes}
	return g
}

const (
	// firstEpoch is the epoch of a group, and of its targets, before anyone has joined.
	firstEpoch = 1
	noVersion  = -1
)

// ID is the group's name.
func (g *Group) ID() string { return g.id }

// Epoch is the group epoch: it rises with each change that asks for a new assignment.
func (g *Group) Epoch() int32 { return g.epoch }

// Size is the number of members.
func (g *Group) Size() int { return len(g.members) }

// State is the group's state.
func (g *Group) State() string {
	switch {
	case len(g.members) == 0:
		return StateEmpty
	case g.epoch > g.assignmentEpoch:
		return StateAssigning
	}
	for _, m := range g.members {
		if !m.reconciled(g.assignmentEpoch) {
			return StateReconciling
		}
	}
	return StateStable
}

// Close stops the group's timers.
func (g *Group) Close() {
	g.timers.Stop(&g.resolve)
	for id := range g.clocks {
		g.stopClocks(id)
	}
}

// clock returns the deadlines of a member, made if need be.
func (g *Group) clock(memberID string) *clocks {
	c := g.clocks[memberID]
	if c == nil {
		fence := func(now time.Time, fx *Effects) { g.fenceByID(now, memberID, fx) }
		c = &clocks{}
		c.session = timer{Group: g, Run: fence}
		c.join = timer{Group: g, Run: fence}
		c.sync = timer{Group: g, Run: fence}
		c.rebalance = timer{Group: g}
		g.clocks[memberID] = c
	}
	return c
}

func (g *Group) stopClocks(memberID string) {
	c := g.clocks[memberID]
	if c == nil {
		return
	}
	for _, t := range []*timer{&c.session, &c.rebalance, &c.join, &c.sync} {
		g.timers.Stop(t)
	}
	delete(g.clocks, memberID)
}

// armSession starts a member's session anew.
func (g *Group) armSession(now time.Time, memberID string) {
	d := cmp.Or(g.config.Group(g.id).SessionTimeout, g.config.SessionTimeout)
	g.timers.Arm(&g.clock(memberID).session, now.Add(d))
}

// armRebalance gives a member the time it asked for to leave its epoch.
func (g *Group) armRebalance(now time.Time, m *member) {
	t := &g.clock(m.id).rebalance
	id, epoch := m.id, m.epoch
	t.Run = func(now time.Time, fx *Effects) {
		if m := g.members[id]; m != nil && m.epoch == epoch {
			g.fenceByID(now, id, fx)
		}
	}
	g.timers.Arm(t, now.Add(milliseconds(m.rebalanceTimeoutMS)))
}

func milliseconds(n int32) time.Duration { return time.Duration(n) * time.Millisecond }

// Loaded starts the sessions of a group that was replayed.
func (g *Group) Loaded(now time.Time) {
	for id, m := range g.members {
		g.armSession(now, id)
		if m.state == UnrevokedPartitions {
			g.armRebalance(now, m)
		}
	}
}

// sortedMembers lists members by id, so that nothing depends on the order of a map.
func sortedMembers(members map[string]*member) []*member {
	list := make([]*member, 0, len(members))
	for _, id := range slices.Sorted(maps.Keys(members)) {
		list = append(list, members[id])
	}
	return list
}

// membersWith is the members as they are once m has joined or changed: it takes the place of the
// member that has its instance id.
func (g *Group) membersWith(m *member) map[string]*member {
	members := maps.Clone(g.members)
	if m == nil {
		return members
	}
	if m.instance != nil {
		delete(members, g.static[*m.instance])
	}
	members[m.id] = m
	return members
}

// topicNames is what members subscribe to, by name and by the expressions that are resolved.
// Sorted, each once.
func (g *Group) topicNames(members map[string]*member) []string {
	names := make(map[string]struct{})
	for _, m := range members {
		for _, name := range m.topics {
			names[name] = struct{}{}
		}
		for _, name := range g.regexes[m.expression()].Topics {
			names[name] = struct{}{}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Subscribed says whether any member subscribes to the topic.
func (g *Group) Subscribed(topic string) bool {
	for _, m := range g.members {
		if _, ok := slices.BinarySearch(m.topics, topic); ok {
			return true
		}
		if _, ok := slices.BinarySearch(g.regexes[m.expression()].Topics, topic); ok {
			return true
		}
	}
	return false
}

// topicIDs resolves what a member subscribes to; topics that do not exist are left out.
func (g *Group) topicIDs(m *member) []uuid.UUID {
	topics := g.config.Topics()
	names := sortedSet(slices.Concat(m.topics, g.regexes[m.expression()].Topics))
	ids := make([]uuid.UUID, 0, len(names))
	for _, name := range names {
		if t, ok := topics.ByName(name); ok {
			ids = append(ids, t.ID)
		}
	}
	return ids
}

// write adds a record; a nil value is a tombstone.
func (g *Group) write(fx *Effects, now time.Time, key offsets.Key, value []byte) {
	key.Group = g.id
	fx.Records = append(fx.Records, record.Record{
		Timestamp: now.UnixMilli(), Key: offsets.AppendConsumerKey(nil, key), Value: value,
	})
}
