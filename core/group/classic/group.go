package classic

import (
	"cmp"
	"slices"
	"time"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/group/offsets"
)

// State is where a group is between two generations.
type State int8

// The states of a group.
const (
	Empty State = iota
	PreparingRebalance
	CompletingRebalance
	Stable
	Dead // a group that does not exist
)

var stateNames = [...]string{
	"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead",
}

// String is the state's name in DescribeGroups and ListGroups.
func (s State) String() string { return stateNames[s] }

// newMemberTimeout is how long a member may wait in its first JoinGroup. It cannot send heartbeats
// meanwhile, and a client that went away leaves no other trace; Kafka's value.
const newMemberTimeout = 5 * time.Minute

// Config are the settings all groups share.
type Config struct {
	// InitialRebalanceDelay is how long an empty group waits for more members (KIP-134).
	InitialRebalanceDelay time.Duration
	// MaxSize is how many members a group may have (KIP-389).
	MaxSize int
}

// Effects collects what a call wants done.
type Effects struct {
	// Outputs are for tickets whose wait is over.
	Outputs []coordinator.Output
	// Record is the group's new durable state, to be written and given to Apply; nil if unchanged.
	Record *offsets.GroupMetadata
	// Undo is set with Record: it replaces Outputs when the write fails. May be nil even so.
	Undo func(now time.Time, code ErrorCode, fx *Effects)
}

func (fx *Effects) reply(t coordinator.Ticket, value any) {
	if t != 0 {
		fx.Outputs = append(fx.Outputs, coordinator.Output{Ticket: t, Value: value})
	}
}

// Group is one group. Its methods are for the goroutine that owns its shard.
type Group struct {
	id     string
	config *Config
	timers *Timers

	state      State
	previous   State // the state before
	sinceMS    int64 // when the state was entered, in ms; -1 if not known
	generation int32
	// protocolType is set by the first member and stays, "" if the group never had one.
	protocolType string
	protocol     string // chosen for this generation, "" if none
	leader       string // member id, "" if none

	members map[string]*member
	static  map[string]string // instance id -> member id
	// pending are ids given out with MEMBER_ID_REQUIRED and not used yet.
	pending map[string]*Timer
	votes   map[string]int // protocol -> members that list it
	lastSeq uint64
	joining int // members with a ticket in join

	// joinTimer ends PreparingRebalance. While initial is set it ends one initial delay.
	joinTimer      Timer
	initial        bool
	initialLeft    time.Duration // how much the initial delay may still be prolonged
	newMemberAdded bool          // someone joined during this initial delay

	// syncTimer ends the wait for SyncGroup of the members in pendingSync.
	syncTimer   Timer
	pendingSync map[string]struct{}
}

// New returns an empty group that has never had members.
func New(id string, config *Config, timers *Timers) *Group {
	g := &Group{
		id: id, config: config, timers: timers, sinceMS: -1,
		members:     make(map[string]*member),
		static:      make(map[string]string),
		pending:     make(map[string]*Timer),
		votes:       make(map[string]int),
		pendingSync: make(map[string]struct{}),
	}
	g.joinTimer = Timer{Group: g, Run: g.joinTimeOver}
	g.syncTimer = Timer{Group: g, Run: g.syncTimeOver}
	return g
}

// ID is the group's name.
func (g *Group) ID() string { return g.id }

// Size is the number of members.
func (g *Group) Size() int { return len(g.members) }

// Generation is the number of the present generation, 0 before the first.
func (g *Group) Generation() int32 { return g.generation }

// State is the group's state.
func (g *Group) State() State { return g.state }

// ProtocolType is what kind of members the group has or had, "" if it never had any.
func (g *Group) ProtocolType() string { return g.protocolType }

// EmptySinceMS is when the group became empty, in ms; false if it is not, or the time is not known.
func (g *Group) EmptySinceMS() (int64, bool) {
	return g.sinceMS, g.state == Empty && g.sinceMS >= 0
}

// Idle says that the group has no members, and has given out no ids that could become some.
func (g *Group) Idle() bool { return g.state == Empty && len(g.pending) == 0 }

// Vacant says that nobody would miss the group: it is idle and never had a generation.
func (g *Group) Vacant() bool { return g.Idle() && g.generation == 0 }

// Close stops the group's timers; it must have no waiting tickets.
func (g *Group) Close() {
	g.timers.Stop(&g.joinTimer)
	g.timers.Stop(&g.syncTimer)
	for _, m := range g.members {
		g.timers.Stop(&m.timer)
	}
	for _, t := range g.pending {
		g.timers.Stop(t)
	}
}

func (g *Group) setState(s State, now time.Time) {
	g.previous, g.state = g.state, s
	g.sinceMS = now.UnixMilli()
}

// sorted lists the members in the order they joined, so that nothing depends on map order.
func (g *Group) sorted() []*member {
	list := make([]*member, 0, len(g.members))
	for _, m := range g.members {
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b *member) int { return cmp.Compare(a.seq, b.seq) })
	return list
}

// rebalanceTimeout is the longest any member asks for.
func (g *Group) rebalanceTimeout() time.Duration {
	var d time.Duration
	for _, m := range g.members {
		d = max(d, m.rebalance)
	}
	return d
}

// metadata is the group as it is now, in the form it is written.
func (g *Group) metadata() *offsets.GroupMetadata {
	md := &offsets.GroupMetadata{
		ProtocolType:          g.protocolType,
		Generation:            g.generation,
		CurrentStateTimestamp: g.sinceMS,
		Members:               make([]offsets.Member, 0, len(g.members)),
	}
	if g.protocol != "" {
		md.Protocol = new(g.protocol)
	}
	if g.leader != "" {
		md.Leader = new(g.leader)
	}
	for _, m := range g.sorted() {
		md.Members = append(md.Members, offsets.Member{
			MemberID:           m.id,
			InstanceID:         m.instance,
			ClientID:           m.clientID,
			ClientHost:         m.clientHost,
			RebalanceTimeoutMS: int32(m.rebalance.Milliseconds()),
			SessionTimeoutMS:   int32(m.session.Milliseconds()),
			Subscription:       m.metadata(g.protocol),
			Assignment:         m.assignment,
		})
	}
	return md
}

// Apply makes md the group's durable state. It serves the replay of a log, where it builds the
// group, and the group's own records once they are durable, where it sets what they decided.
func (g *Group) Apply(md *offsets.GroupMetadata) {
	g.protocolType = md.ProtocolType
	g.generation = md.Generation
	g.sinceMS = md.CurrentStateTimestamp
	g.protocol, g.leader = "", ""
	if md.Protocol != nil {
		g.protocol = *md.Protocol
	}
	if md.Leader != nil {
		g.leader = *md.Leader
	}
	keep := make(map[string]struct{}, len(md.Members))
	for i := range md.Members {
		keep[md.Members[i].MemberID] = struct{}{}
		g.applyMember(&md.Members[i])
	}
	for id, m := range g.members {
		if _, ok := keep[id]; !ok {
			g.drop(m)
		}
	}
	next := Stable
	if len(md.Members) == 0 {
		next = Empty
	}
	if g.state != next {
		g.previous, g.state = g.state, next
	}
}

func (g *Group) applyMember(from *offsets.Member) {
	m := g.members[from.MemberID]
	if m == nil {
		m = &member{
			id: from.MemberID, instance: from.InstanceID,
			clientID: from.ClientID, clientHost: from.ClientHost,
			protocols: []Protocol{{Name: g.protocol, Metadata: from.Subscription}},
		}
		g.insert(m)
	}
	m.rebalance = time.Duration(from.RebalanceTimeoutMS) * time.Millisecond
	m.session = time.Duration(from.SessionTimeoutMS) * time.Millisecond
	m.assignment = from.Assignment
}

// Loaded starts the sessions of a group that was replayed. A group that is over the size limit has
// to rebalance, which shrinks it (KIP-389).
func (g *Group) Loaded(now time.Time, fx *Effects) {
	for _, m := range g.members {
		g.timers.Arm(&m.timer, now.Add(m.session))
	}
	if len(g.members) > g.config.MaxSize {
		g.prepareRebalance(now, fx)
	}
}

// Describe returns the group as an administrator sees it: metadata only when the members agree on a
// protocol, assignments as they were until the next ones are there.
func (g *Group) Describe() Description {
	d := Description{GroupID: g.id, State: g.state, ProtocolType: g.protocolType}
	stable := g.state == Stable
	if stable {
		d.Protocol = g.protocol
	}
	for _, m := range g.sorted() {
		md := MemberDescription{
			MemberID: m.id, InstanceID: m.instance,
			ClientID: m.clientID, ClientHost: m.clientHost, Assignment: m.assignment,
		}
		if stable {
			md.Metadata = m.metadata(g.protocol)
		}
		d.Members = append(d.Members, md)
	}
	return d
}
