package consumer

import "github.com/millstream-io/millstream/core/coordinator"

// CommitCheck says whether an offset may be committed: of the members' own requests, each partition
// has to be looked at if the member is not in the epoch that it says (KIP-1251).
type CommitCheck struct {
	g *Group
	m *member // nil if every partition may be committed
	// epoch is the one the member says it is in, older than the one it is in.
	epoch int32
}

// CheckCommit says whether an OffsetCommit, or a TxnOffsetCommit, with these credentials is
// allowed.
func (g *Group) CheckCommit(memberID string, instance *string, epoch int32, apiVersion int16,
	transactional bool,
) (CommitCheck, ErrorCode) {
	if epoch < 0 && len(g.members) == 0 {
		return CommitCheck{}, coordinator.CodeNone // an administrator
	}
	if transactional && epoch == -1 && memberID == "" && instance == nil {
		return CommitCheck{}, coordinator.CodeNone // a producer before KIP-447
	}
	m := g.members[memberID]
	switch {
	case m == nil:
		return CommitCheck{}, coordinator.CodeUnknownMemberID
	case !transactional && m.classic == nil && apiVersion < 9:
		return CommitCheck{}, coordinator.CodeUnsupportedVersion
	case epoch == m.epoch:
		return CommitCheck{}, coordinator.CodeNone
	case epoch > m.epoch:
		return CommitCheck{}, m.staleCode()
	}
	return CommitCheck{g: g, m: m, epoch: epoch}, coordinator.CodeNone
}

// staleCode is what a member of its protocol is told of a wrong epoch.
func (m *member) staleCode() ErrorCode {
	if m.classic != nil {
		return coordinator.CodeIllegalGeneration
	}
	return coordinator.CodeStaleMemberEpoch
}

// Partition says whether the offset of one partition may be committed: it is the member's, or still
// is, and was so in the epoch that the member says.
func (c *CommitCheck) Partition(topic string, partition int32) ErrorCode {
	if c.m == nil {
		return coordinator.CodeNone
	}
	t, ok := c.g.config.Topics().ByName(topic)
	if !ok {
		return c.m.staleCode()
	}
	assigned, ok := c.m.assigned[t.ID][partition]
	if !ok {
		assigned, ok = c.m.revoking[t.ID][partition]
	}
	if !ok || c.epoch < assigned {
		return c.m.staleCode()
	}
	return coordinator.CodeNone
}

// CheckFetch says whether an OffsetFetch with these credentials is allowed.
func (g *Group) CheckFetch(memberID *string, epoch int32) ErrorCode {
	if memberID == nil && epoch < 0 {
		return coordinator.CodeNone
	}
	var m *member
	if memberID != nil {
		m = g.members[*memberID]
	}
	switch {
	case m == nil:
		return coordinator.CodeUnknownMemberID
	case m.epoch != epoch:
		return m.staleCode()
	}
	return coordinator.CodeNone
}
