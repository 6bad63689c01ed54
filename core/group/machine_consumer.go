package group

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/group/classic"
	"github.com/millstream-io/millstream/core/group/consumer"
	"github.com/millstream-io/millstream/core/group/offsets"
	"github.com/millstream-io/millstream/core/group/timers"
	"github.com/millstream-io/millstream/core/record"
)

// staging is a group whose first records are in flight. It takes its place when they are replayed.
type staging struct {
	consumer *consumer.Group
	// classic takes the place of a consumer group; rebalance says that its members have to join
	// again.
	classic   *classic.Group
	rebalance bool
}

// unstage drops the group that was to take a place: its records did not become durable.
func (m *machine) unstage(groupID string) {
	s, ok := m.staged[groupID]
	if !ok {
		return
	}
	delete(m.staged, groupID)
	if s.consumer != nil {
		s.consumer.Close()
	}
	if s.classic != nil {
		s.classic.Close()
	}
}

// consumerHeartbeat handles ConsumerGroupHeartbeat. A member that joins makes the group, or makes a
// consumer group of a classic one.
func (m *machine) consumerHeartbeat(now time.Time, t coordinator.Ticket,
	req *ConsumerHeartbeatRequest,
) coordinator.Step {
	if resp := req.Validate(&m.consumerConfig.Settings); resp != nil {
		return answer(t, *resp)
	}
	if !consumerNamesFit(req) {
		return answer(t, ConsumerHeartbeatResponse{
			Code: coordinator.CodeInvalidRequest, Message: "An id or expression is too long.",
		})
	}
	var fx, made consumer.Effects
	g := m.consumers[req.GroupID]
	isNew := g == nil
	if isNew {
		var refused *ConsumerHeartbeatResponse
		if g, refused = m.beginConsumer(now, req, &made); refused != nil {
			return answer(t, *refused)
		}
	}
	resp := g.Heartbeat(now, req, &fx)
	if resp.Code != coordinator.CodeNone {
		if isNew {
			g.Close()
		}
		return answer(t, resp)
	}
	fx.Records = append(made.Records, fx.Records...)
	if isNew {
		m.staged[req.GroupID] = staging{consumer: g}
		if e := m.groups[req.GroupID]; e != nil {
			var waiting classic.Effects
			e.Abandon(coordinator.CodeRebalanceInProgress, &waiting)
			fx.Outputs = append(fx.Outputs, waiting.Outputs...)
		}
	}
	return m.consumerStep(now, t, req.GroupID, &fx, resp, func(code ErrorCode) any {
		return ConsumerHeartbeatResponse{Code: code}
	})
}

// consumerNamesFit says whether what becomes part of a key, or of a classic group, fits there.
func consumerNamesFit(req *ConsumerHeartbeatRequest) bool {
	for _, s := range []*string{req.InstanceID, req.RackID, req.Regex} {
		if s != nil && len(*s) > maxName {
			return false
		}
	}
	return len(req.GroupID) <= maxName && len(req.MemberID) <= maxName &&
		len(req.ClientID) <= maxName && len(req.ClientHost) <= maxName
}

// beginConsumer makes the consumer group that a member wants to join.
func (m *machine) beginConsumer(now time.Time, req *ConsumerHeartbeatRequest, fx *consumer.Effects,
) (*consumer.Group, *ConsumerHeartbeatResponse) {
	e := m.groups[req.GroupID]
	if req.MemberEpoch != 0 {
		message := fmt.Sprintf("Consumer group %s not found.", req.GroupID)
		if e != nil {
			message = fmt.Sprintf("Group %s is not a consumer group.", req.GroupID)
		}
		return nil, &ConsumerHeartbeatResponse{
			Code: coordinator.CodeGroupIDNotFound, Message: message,
		}
	}
	if m.tooMany(now, req.GroupID) {
		return nil, &ConsumerHeartbeatResponse{
			Code: coordinator.CodePolicyViolation,
			Message: fmt.Sprintf("There are as many groups as %s allows, which is %d.", groupsMax,
				m.settings.MaxGroups),
		}
	}
	if e != nil {
		fx.Records = append(fx.Records, groupTombstone(now, req.GroupID))
		if e.State() != classic.Empty {
			return consumer.FromClassic(now, e.Snapshot(), &m.consumerConfig, &m.consumerTimers, fx)
		}
	}
	return consumer.New(req.GroupID, &m.consumerConfig, &m.consumerTimers), nil
}

// consumerStep turns a consumer group's effects into a step. failed is the answer if they cannot be
// written.
func (m *machine) consumerStep(now time.Time, t coordinator.Ticket, groupID string,
	fx *consumer.Effects, value any, failed func(ErrorCode) any,
) coordinator.Step {
	others := fx.Outputs
	step := coordinator.Step{Records: fx.Records}
	step.Outputs = append(slices.Clip(others), coordinator.Output{Ticket: t, Value: value})
	if down := fx.Downgrade; down != nil {
		m.staged[groupID] = staging{classic: down.Group, rebalance: down.Rebalance}
		step.Records = append(step.Records, record.Record{
			Timestamp: now.UnixMilli(),
			Key:       offsets.AppendGroupKey(nil, groupID),
			Value:     offsets.AppendGroup(nil, down.Metadata),
		})
	}
	if len(step.Records) == 0 {
		return step
	}
	m.flying[groupID] |= groupInFlight
	step.Fail = func(_ time.Time, code ErrorCode) []coordinator.Output {
		clear(m.flying)
		m.unstage(groupID)
		if code == coordinator.CodeInvalidCommitOffsetSize {
			code = coordinator.CodeUnknownServerError // a code of the offsets APIs only
		}
		return append(slices.Clip(others), coordinator.Output{Ticket: t, Value: failed(code)})
	}
	return step
}

// consumerTick runs a deadline of a consumer group.
func (m *machine) consumerTick(now time.Time, timer *timers.Timer[consumer.Effects], at time.Time,
) coordinator.Step {
	if at.After(now) {
		return coordinator.Step{}
	}
	groupID := timer.Group.ID()
	return m.withGroup(groupID, func() coordinator.Step {
		m.consumerTimers.Stop(timer)
		var fx consumer.Effects
		timer.Run(now, &fx)
		return m.consumerStep(now, 0, groupID, &fx, nil, func(ErrorCode) any { return nil })
	})
}

// joinConsumer handles JoinGroup for a consumer group: one with members takes the new one in, one
// without ends, and a classic group begins.
func (m *machine) joinConsumer(now time.Time, t coordinator.Ticket, g *consumer.Group,
	req *JoinRequest,
) coordinator.Step {
	var fx consumer.Effects
	if g.Size() > 0 {
		resp := g.Join(now, req, &fx)
		return m.consumerStep(now, t, req.GroupID, &fx, resp, func(code ErrorCode) any {
			return JoinResponse{Code: code, Generation: -1, MemberID: req.MemberID}
		})
	}
	// If these tombstones should not become durable, the classic group's next record does as well:
	// of both, the later counts.
	g.Tombstones(now, &fx)
	g.Close()
	delete(m.consumers, req.GroupID)
	m.keepOffsets(req.GroupID)
	step := m.joinClassic(now, t, req)
	step.Records = append(fx.Records, step.Records...)
	m.flying[req.GroupID] |= groupInFlight
	if fail := step.Fail; fail == nil {
		outputs := step.Outputs
		step.Fail = func(time.Time, ErrorCode) []coordinator.Output {
			clear(m.flying)
			return outputs
		}
	}
	return step
}

func (m *machine) leaveConsumer(now time.Time, t coordinator.Ticket, g *consumer.Group,
	req *LeaveRequest,
) coordinator.Step {
	var fx consumer.Effects
	resp := g.Leave(now, req.Members, &fx)
	return m.consumerStep(now, t, req.GroupID, &fx, resp, func(code ErrorCode) any {
		return LeaveResponse{Code: code}
	})
}

// replayConsumer applies a record of a consumer group.
func (m *machine) replayConsumer(key *offsets.Key, value []byte) error {
	g := m.consumers[key.Group]
	if g == nil {
		if value == nil {
			return nil // of a group that has ended already
		}
		g = m.startConsumer(key.Group)
	}
	gone, err := g.Apply(key, value)
	if gone {
		g.Close()
		delete(m.consumers, key.Group)
		m.keepOffsets(key.Group)
	}
	return err
}

// startConsumer puts a consumer group in the place of a classic one, or of none.
func (m *machine) startConsumer(groupID string) *consumer.Group {
	g := m.staged[groupID].consumer
	if g != nil {
		delete(m.staged, groupID)
	} else {
		g = consumer.New(groupID, &m.consumerConfig, &m.consumerTimers)
	}
	if e := m.groups[groupID]; e != nil {
		e.Close()
		delete(m.groups, groupID)
	}
	m.consumers[groupID] = g
	return g
}

func (m *machine) describeConsumer(groupID string) DescribeConsumerResponse {
	if g := m.consumers[groupID]; g != nil {
		return DescribeConsumerResponse{Description: g.Describe()}
	}
	resp := DescribeConsumerResponse{
		Code: coordinator.CodeGroupIDNotFound, Message: fmt.Sprintf("Group %s not found.", groupID),
	}
	if m.groups[groupID] != nil {
		resp.Message = fmt.Sprintf("Group %s is not a consumer group.", groupID)
	}
	resp.GroupID = groupID
	return resp
}

// groupIDs lists all groups, sorted.
func (m *machine) groupIDs() []string {
	return slices.Sorted(func(yield func(string) bool) {
		for id := range maps.Keys(m.groups) {
			if !yield(id) {
				return
			}
		}
		for id := range maps.Keys(m.consumers) {
			if !yield(id) {
				return
			}
		}
	})
}

// checkConsumerCommit says whether a commit is allowed in a consumer group; one partition that is
// not refuses all.
func (m *machine) checkConsumerCommit(g *consumer.Group, req *CommitRequest) ErrorCode {
	check, code := g.CheckCommit(req.MemberID, req.InstanceID, req.Generation, req.APIVersion, false)
	if code != coordinator.CodeNone {
		return code
	}
	for i := range req.Offsets {
		o := &req.Offsets[i]
		if utf16Len(o.Metadata) > m.settings.OffsetMetadataMaxBytes {
			continue // refused by itself
		}
		if code := check.Partition(o.Topic, o.Partition); code != coordinator.CodeNone {
			return code
		}
	}
	return coordinator.CodeNone
}

func checkConsumerTransaction(g *consumer.Group, req *TxnCommitRequest) ErrorCode {
	check, code := g.CheckCommit(req.MemberID, req.InstanceID, req.Generation, 0, true)
	for i := 0; i < len(req.Offsets) && code == coordinator.CodeNone; i++ {
		code = check.Partition(req.Offsets[i].Topic, req.Offsets[i].Partition)
	}
	if code == coordinator.CodeStaleMemberEpoch {
		return coordinator.CodeIllegalGeneration // TxnOffsetCommit knows the other from version 6 on
	}
	return code
}

// deleteConsumer handles DeleteGroups for a consumer group.
func (m *machine) deleteConsumer(now time.Time, t coordinator.Ticket, g *consumer.Group,
) coordinator.Step {
	if g.Size() > 0 {
		return answer(t, codeOnly{coordinator.CodeNonEmptyGroup})
	}
	records := m.tombstones(now, g.ID(), func(string) bool { return true })
	var fx consumer.Effects
	g.Tombstones(now, &fx)
	records = append(records, fx.Records...)
	return m.write(records, t, codeOnly{}, func(code ErrorCode) any { return codeOnly{code} })
}

// expireConsumer writes tombstones for offsets of topics that nobody subscribes to and that are too
// old, and for a group that holds nothing any more.
func (m *machine) expireConsumer(now time.Time, id string, g *consumer.Group) []record.Record {
	var records []record.Record
	left := 0
	for _, topic := range m.offsets.Topics(id) {
		used := g.Subscribed(topic)
		for _, p := range m.offsets.Partitions(id, topic) {
			c, _ := m.offsets.Get(id, topic, p)
			due := c.CommitTimestamp + m.settings.OffsetsRetention.Milliseconds()
			if c.ExpireTimestamp >= 0 {
				due = c.ExpireTimestamp
			}
			if used || m.pending.Has(id, topic, p) || now.UnixMilli() < due {
				left++
				continue
			}
			records = append(records, tombstone(now, id, topic, p))
		}
	}
	if left == 0 && g.Size() == 0 && !m.pending.Open(id) {
		var fx consumer.Effects
		g.Tombstones(now, &fx)
		records = append(records, fx.Records...)
	}
	return records
}
