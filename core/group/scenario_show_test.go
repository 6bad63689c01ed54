package group

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/group/offsets"
	"github.com/millstream-io/millstream/core/record"
)

func (s *scenario) show(name string, value any) string {
	switch v := value.(type) {
	case JoinResponse:
		s.ids[strings.TrimPrefix(name, "join ")] = v.MemberID
		return showJoin(v)
	case SyncResponse:
		if v.Code != 0 {
			return v.Code.String()
		}
		return fmt.Sprintf("%v %s/%s %q", v.Code, v.ProtocolType, v.Protocol, v.Assignment)
	case HeartbeatResponse:
		return v.Code.String()
	case LeaveResponse:
		parts := []string{v.Code.String()}
		for _, m := range v.Members {
			parts = append(parts, fmt.Sprintf("%s=%v", m.MemberID, m.Code))
		}
		return strings.Join(parts, " ")
	case CommitResponse:
		return strings.Trim(fmt.Sprint(v.Codes), "[]")
	case DeleteOffsetsResponse:
		return fmt.Sprint(v.Code, v.Topics)
	case codeOnly:
		return v.code.String()
	default:
		return fmt.Sprintf("%+v", v)
	}
}

func showJoin(v JoinResponse) string {
	if v.Code != 0 {
		return fmt.Sprintf("%v id=%s", v.Code, v.MemberID)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%v gen=%d %s/%s id=%s leader=%s", v.Code, v.Generation, v.ProtocolType,
		v.Protocol, v.MemberID, v.Leader)
	if v.SkipAssignment {
		b.WriteString(" skip")
	}
	for _, m := range v.Members {
		fmt.Fprintf(&b, " %s", m.MemberID)
		if m.InstanceID != nil {
			fmt.Fprintf(&b, "(%s)", *m.InstanceID)
		}
		fmt.Fprintf(&b, "=%s", strings.Trim(strconv.QuoteToASCII(string(m.Metadata)), `"`))
	}
	return b.String()
}

// showMachine prints all of a machine's groups and offsets.
func showMachine(m *machine) string {
	var b strings.Builder
	for _, id := range slices.Sorted(maps.Keys(m.groups)) {
		b.WriteString(showDescription(m.describe(id)))
		for _, topic := range m.offsets.Topics(id) {
			for _, p := range m.offsets.Partitions(id, topic) {
				c, _ := m.offsets.Get(id, topic, p)
				fmt.Fprintf(&b, "  %s/%d %+v\n", topic, p, c)
			}
		}
	}
	for _, id := range m.pending.Groups() {
		for _, tp := range m.pending.Partitions(id) {
			fmt.Fprintf(&b, "  %s %s/%d pending\n", id, tp.Topic, tp.Partition)
		}
	}
	return b.String()
}

func showDescription(d DescribeResponse) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %v %v %q/%q\n", d.GroupID, d.Code, d.State, d.ProtocolType, d.Protocol)
	for _, m := range d.Members {
		fmt.Fprintf(&b, "  %s", m.MemberID)
		if m.InstanceID != nil {
			fmt.Fprintf(&b, "(%s)", *m.InstanceID)
		}
		fmt.Fprintf(&b, " %s%s %q -> %q\n", m.ClientID, m.ClientHost, m.Metadata, m.Assignment)
	}
	return b.String()
}

func showFetched(topic string, p FetchedOffset) string {
	if p.Code != 0 {
		return fmt.Sprintf("%s/%d offset=%d %v\n", topic, p.Partition, p.Offset, p.Code)
	}
	return fmt.Sprintf("%s/%d offset=%d epoch=%d metadata=%q\n", topic, p.Partition, p.Offset,
		p.LeaderEpoch, p.Metadata)
}

func showEntry(e coordinator.Entry) string {
	if e.Producer == nil {
		return showRecord(e.Record)
	}
	whose := fmt.Sprintf("[%d/%d] ", e.Producer.ID, e.Producer.Epoch)
	switch {
	case e.Marker && e.Commit:
		return whose + "commit\n"
	case e.Marker:
		return whose + "abort\n"
	}
	return whose + showRecord(e.Record)
}

func showRecord(rec record.Record) string {
	key, err := offsets.ReadKey(rec.Key)
	if err != nil {
		return err.Error()
	}
	name := key.Group
	if key.Kind == offsets.KindOffset {
		name = fmt.Sprintf("%s %s/%d", key.Group, key.Topic, key.Partition)
	}
	if rec.Value == nil {
		return name + " gone\n"
	}
	if key.Kind == offsets.KindOffset {
		c, err := offsets.ReadCommit(rec.Value)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%s %d\n", name, c.Offset)
	}
	g, err := offsets.ReadGroup(rec.Value)
	if err != nil {
		return err.Error()
	}
	var members []string
	for _, m := range g.Members {
		members = append(members, fmt.Sprintf("%s=%s", m.MemberID, m.Assignment))
	}
	return fmt.Sprintf("%s gen=%d %s\n", name, g.Generation, strings.Join(members, " "))
}
