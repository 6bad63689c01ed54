package group

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/group/classic"
	"github.com/millstream-io/millstream/core/group/offsets"
	"github.com/millstream-io/millstream/core/record"
)

// The types of groups, as ListGroups calls them.
const (
	typeClassic  = "classic"
	typeConsumer = "consumer"
)

func (m *machine) describe(groupID string) DescribeResponse {
	if e := m.groups[groupID]; e != nil {
		return DescribeResponse{Description: e.Describe()}
	}
	resp := DescribeResponse{Code: coordinator.CodeGroupIDNotFound}
	resp.GroupID, resp.State = groupID, classic.Dead
	return resp
}

func (m *machine) list(req ListRequest) ListResponse {
	var resp ListResponse
	for id, g := range m.consumers {
		if passes(req.Types, typeConsumer) && passes(req.States, g.State()) {
			resp.Groups = append(resp.Groups, ListedGroup{
				GroupID: id, ProtocolType: classic.ConsumerProtocolType, State: g.State(),
				Type: typeConsumer,
			})
		}
	}
	if !passes(req.Types, typeClassic) {
		return resp
	}
	for id, e := range m.groups {
		if state := e.State().String(); passes(req.States, state) {
			resp.Groups = append(resp.Groups, ListedGroup{
				GroupID: id, ProtocolType: e.ProtocolType(), State: state, Type: typeClassic,
			})
		}
	}
	return resp
}

// passes says whether a filter lets a value pass.
func passes(filter []string, value string) bool {
	return len(filter) == 0 ||
		slices.ContainsFunc(filter, func(f string) bool { return strings.EqualFold(f, value) })
}

func sortGroups(groups []ListedGroup) {
	slices.SortFunc(groups, func(a, b ListedGroup) int { return cmp.Compare(a.GroupID, b.GroupID) })
}

func groupTombstone(now time.Time, groupID string) record.Record {
	return record.Record{
		Timestamp: now.UnixMilli(), Key: offsets.AppendGroupKey(nil, groupID),
	}
}

// deleteGroup handles DeleteGroups: tombstones for each offset and for the group itself, so that it
// does not come back when the log is replayed. Offsets of open transactions go too, as they would
// bring it back when they are committed.
func (m *machine) deleteGroup(now time.Time, t coordinator.Ticket, groupID string,
) coordinator.Step {
	if g := m.consumers[groupID]; g != nil {
		return m.deleteConsumer(now, t, g)
	}
	e := m.groups[groupID]
	switch {
	case e == nil:
		return answer(t, codeOnly{coordinator.CodeGroupIDNotFound})
	case e.State() != classic.Empty:
		return answer(t, codeOnly{coordinator.CodeNonEmptyGroup})
	}
	records := m.tombstones(now, groupID, func(string) bool { return true })
	records = append(records, groupTombstone(now, groupID))
	return m.write(records, t, codeOnly{}, func(code ErrorCode) any { return codeOnly{code} })
}
