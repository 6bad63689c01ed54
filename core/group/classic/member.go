package classic

import (
	"bytes"
	"time"

	"github.com/millstream-io/millstream/core/coordinator"
)

// member is one member of a group.
type member struct {
	id         string
	instance   *string // nil for a dynamic member
	clientID   string
	clientHost string
	session    time.Duration
	rebalance  time.Duration
	protocols  []Protocol // in its order of preference
	assignment []byte     // the last that was durable
	seq        uint64     // order of joining

	// isNew is set until the member's first join has been answered: it cannot send heartbeats yet.
	isNew bool
	join  coordinator.Ticket // JoinGroup that waits, 0 if none
	sync  coordinator.Ticket // SyncGroup that waits, 0 if none
	timer Timer              // session
}

// metadata is the member's data for a protocol, nil if it does not list it.
func (m *member) metadata(protocol string) []byte {
	for i := range m.protocols {
		if m.protocols[i].Name == protocol {
			return m.protocols[i].Metadata
		}
	}
	return nil
}

// matches says whether the member would say the same again.
func (m *member) matches(protocols []Protocol) bool {
	if len(m.protocols) != len(protocols) {
		return false
	}
	for i := range protocols {
		if m.protocols[i].Name != protocols[i].Name ||
			!bytes.Equal(m.protocols[i].Metadata, protocols[i].Metadata) {
			return false
		}
	}
	return true
}

// insert adds m to the group's tables.
func (g *Group) insert(m *member) {
	if m.seq == 0 {
		g.lastSeq++
		m.seq = g.lastSeq
	}
	m.timer = Timer{Group: g, Run: func(now time.Time, fx *Effects) { g.sessionOver(now, m, fx) }}
	g.members[m.id] = m
	if m.instance != nil {
		g.static[*m.instance] = m.id
	}
	g.vote(m, 1)
}

// drop takes m out of the group's tables and stops its timer; its tickets must be answered.
func (g *Group) drop(m *member) {
	g.timers.Stop(&m.timer)
	delete(g.members, m.id)
	delete(g.pendingSync, m.id)
	if m.instance != nil && g.static[*m.instance] == m.id {
		delete(g.static, *m.instance)
	}
	g.vote(m, -1)
}

// vote adds n to the votes of each protocol m lists; a protocol listed twice counts once.
func (g *Group) vote(m *member, n int) {
	for i := range m.protocols {
		name := m.protocols[i].Name
		if indexOf(m.protocols, name) != i {
			continue
		}
		g.votes[name] += n
		if g.votes[name] == 0 {
			delete(g.votes, name)
		}
	}
}

func indexOf(protocols []Protocol, name string) int {
	for i := range protocols {
		if protocols[i].Name == name {
			return i
		}
	}
	return -1
}

// validate checks that the member exists and, if static, is the one that holds its instance id.
func (g *Group) validate(memberID string, instance *string) ErrorCode {
	if instance != nil {
		current, ok := g.static[*instance]
		switch {
		case !ok:
			return coordinator.CodeUnknownMemberID
		case current != memberID:
			return coordinator.CodeFencedInstanceID
		}
		return coordinator.CodeNone
	}
	if g.members[memberID] == nil {
		return coordinator.CodeUnknownMemberID
	}
	return coordinator.CodeNone
}

// supports says whether a member with these protocols could be in the group: the type is the same,
// and at least one of the protocols is listed by all (which all members but that one is the
// caller's matter: a member that comes back with other protocols is counted with its old ones, as
// in Kafka).
func (g *Group) supports(protocolType string, protocols []Protocol) bool {
	if protocolType == "" || len(protocols) == 0 {
		return false
	}
	if len(g.members) == 0 && g.state == Empty {
		return true
	}
	if g.protocolType != protocolType {
		return false
	}
	for i := range protocols {
		if g.votes[protocols[i].Name] == len(g.members) {
			return true
		}
	}
	return false
}

// selectProtocol picks among the protocols that all list the one that most members like best. Equal
// votes go to the one that the oldest member likes better.
func (g *Group) selectProtocol() string {
	members := g.sorted()
	if len(members) == 0 {
		return ""
	}
	votes := make(map[string]int)
	for _, m := range members {
		for i := range m.protocols {
			if g.votes[m.protocols[i].Name] == len(members) {
				votes[m.protocols[i].Name]++
				break
			}
		}
	}
	best := ""
	for i := range members[0].protocols {
		name := members[0].protocols[i].Name
		if g.votes[name] == len(members) && (best == "" || votes[name] > votes[best]) {
			best = name
		}
	}
	return best
}
