package classic

import (
	"time"

	"github.com/millstream-io/millstream/core/group/offsets"
)

// Snapshot is what of a group goes over to another protocol, or comes from there (KIP-848).
type Snapshot struct {
	GroupID      string
	Generation   int32
	ProtocolType string
	Members      []MemberSnapshot
}

// MemberSnapshot is one member of a Snapshot.
type MemberSnapshot struct {
	MemberID         string
	InstanceID       *string
	ClientID         string
	ClientHost       string
	RebalanceTimeout time.Duration
	SessionTimeout   time.Duration
	Protocols        []Protocol
	// Metadata is that for the group's protocol, or for the member's first if there is none yet.
	Metadata   []byte
	Assignment []byte
}

// Snapshot returns the group as it is.
func (g *Group) Snapshot() *Snapshot {
	s := &Snapshot{GroupID: g.id, Generation: g.generation, ProtocolType: g.protocolType}
	for _, m := range g.sorted() {
		ms := MemberSnapshot{
			MemberID: m.id, InstanceID: m.instance, ClientID: m.clientID, ClientHost: m.clientHost,
			RebalanceTimeout: m.rebalance, SessionTimeout: m.session, Protocols: m.protocols,
			Metadata: m.metadata(g.protocol), Assignment: m.assignment,
		}
		if ms.Metadata == nil && len(m.protocols) > 0 {
			ms.Metadata = m.protocols[0].Metadata
		}
		s.Members = append(s.Members, ms)
	}
	return s
}

// Abandon sends all members that wait away to join again, because the group changes its protocol.
func (g *Group) Abandon(code ErrorCode, fx *Effects) {
	for _, m := range g.sorted() {
		g.endJoin(m, joinError(m.id, code), fx)
		g.endSync(m, SyncResponse{Code: code}, fx)
	}
}

// FromSnapshot makes a stable group of members that were in another protocol, and its record.
// assign is asked for the assignment of member i, who has this metadata for the protocol that is
// chosen; false means that it is no metadata.
func FromSnapshot(now time.Time, s *Snapshot, config *Config, timers *Timers,
	assign func(i int, metadata []byte) ([]byte, bool),
) (*Group, *offsets.GroupMetadata, bool) {
	g := New(s.GroupID, config, timers)
	g.protocolType, g.generation = s.ProtocolType, s.Generation
	for i := range s.Members {
		ms := &s.Members[i]
		g.insert(&member{
			id: ms.MemberID, instance: ms.InstanceID, clientID: ms.ClientID, clientHost: ms.ClientHost,
			session: ms.SessionTimeout, rebalance: ms.RebalanceTimeout, protocols: ms.Protocols,
		})
	}
	g.protocol = g.selectProtocol()
	for i, m := range g.sorted() {
		ok := false
		if m.assignment, ok = assign(i, m.metadata(g.protocol)); !ok {
			return nil, nil, false
		}
		if i == 0 {
			g.leader = m.id
		}
	}
	g.setState(Stable, now)
	return g, g.metadata(), true
}

// Resume starts the sessions of a group made by FromSnapshot, whose record is durable; if rebalance
// is set, the members have to join again.
func (g *Group) Resume(now time.Time, rebalance bool, fx *Effects) {
	g.Loaded(now, fx)
	if rebalance && g.state == Stable {
		g.prepareRebalance(now, fx)
	}
}
