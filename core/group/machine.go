package group

import (
	"fmt"
	"math"
	"time"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/group/classic"
	"github.com/millstream-io/millstream/core/group/consumer"
	"github.com/millstream-io/millstream/core/group/offsets"
	"github.com/millstream-io/millstream/core/record"
)

// maxName is the longest string a record can hold, in bytes.
const maxName = math.MaxInt16

// entry is one group of a shard.
type entry struct {
	*classic.Group
	// persisted says that the log has a metadata record of the group.
	persisted bool
}

// flight is what of a group is on its way into the log.
type flight uint8

const (
	offsetsInFlight flight = 1 << iota
	groupInFlight
)

// machine is the state of one shard: its groups and their offsets.
type machine struct {
	opts *Options
	// count is the coordinator's.
	count *Counters
	// share is how many groups the machine has, as it counts for all of the node.
	share *coordinator.Share
	// complained is when the log last said that there are too many groups.
	complained time.Time
	// present returns the settings; settings are those that the configs were made of.
	present  func() *Settings
	settings *Settings
	config   classic.Config
	timers   classic.Timers
	groups   map[string]*entry // classic groups, and those without members
	// consumers are the consumer groups. A group is in groups or here.
	consumers      map[string]*consumer.Group
	consumerConfig consumer.Config
	consumerTimers consumer.Timers
	// staged are groups that change their protocol, or begin: their records are in flight.
	staged map[string]staging

	offsets *offsets.Table
	// pending has the offsets of transactions that are not decided.
	pending *offsets.Pending
	// flying has the groups with records that are not durable yet. The runtime replays all of a
	// batch before it hands in anything else, so the first Replay (or Fail) empties it.
	flying map[string]flight
	expiry classic.Timer
	// expired is the last group that the running search for expired offsets has dealt with.
	expired string
}

var _ coordinator.Machine = (*machine)(nil)

func newMachine(opts *Options, present func() *Settings) *machine {
	m := &machine{
		opts:      opts,
		count:     new(Counters),
		present:   present,
		groups:    make(map[string]*entry),
		consumers: make(map[string]*consumer.Group),
		staged:    make(map[string]staging),
		offsets:   offsets.NewTable(),
		pending:   offsets.NewPending(),
		flying:    make(map[string]flight),
	}
	m.configure()
	return m
}

// configure follows the settings.
func (m *machine) configure() {
	s := m.present()
	if s == m.settings {
		return
	}
	m.settings = s
	m.config = classic.Config{
		InitialRebalanceDelay: s.InitialRebalanceDelay, MaxSize: s.MaxSize,
	}
	m.consumerConfig = consumer.Config{
		Settings: s.Consumer, Classic: &m.config, ClassicTimers: &m.timers, Topics: m.opts.Topics,
		Group: func(id string) GroupSettings { return s.Groups[id] },
	}
}

// Handle implements coordinator.Machine.
func (m *machine) Handle(now time.Time, t coordinator.Ticket, in any) coordinator.Step {
	m.configure()
	defer m.recount()
	switch in := in.(type) {
	case *ConsumerHeartbeatRequest:
		return m.withGroup(in.GroupID, func() coordinator.Step {
			return m.consumerHeartbeat(now, t, in)
		})
	case *CommitRequest:
		return m.commit(now, t, in)
	case *TxnCommitRequest:
		return m.commitTransaction(now, t, in)
	case *markerInput:
		return m.marker(t, in)
	case *FetchRequest:
		return answer(t, m.fetch(in))
	case *HeartbeatRequest:
		return m.withGroup(in.GroupID, func() coordinator.Step {
			return answer(t, HeartbeatResponse{Code: m.heartbeat(now, in)})
		})
	case *JoinRequest:
		return m.withGroup(in.GroupID, func() coordinator.Step { return m.join(now, t, in) })
	case *SyncRequest:
		return m.withGroup(in.GroupID, func() coordinator.Step { return m.sync(now, t, in) })
	case *LeaveRequest:
		return m.withGroup(in.GroupID, func() coordinator.Step { return m.leave(now, t, in) })
	case describeInput:
		return m.withGroup(in.groupID, func() coordinator.Step {
			return answer(t, m.describe(in.groupID))
		})
	case describeConsumerInput:
		return m.withGroup(in.groupID, func() coordinator.Step {
			return answer(t, m.describeConsumer(in.groupID))
		})
	case statsInput:
		return answer(t, m.stats())
	case listInput:
		return m.settled(func() coordinator.Step { return answer(t, m.list(in.ListRequest)) })
	case deleteInput:
		return m.settled(func() coordinator.Step { return m.deleteGroup(now, t, in.groupID) })
	case *DeleteOffsetsRequest:
		return m.settled(func() coordinator.Step { return m.deleteOffsets(now, t, in) })
	case topicsDeletedInput:
		return m.settled(func() coordinator.Step { return m.topicsDeleted(now, t, in.topics) })
	}
	panic(fmt.Sprintf("invariant: unknown input %T", in))
}

// answer is a step that only answers.
func answer(t coordinator.Ticket, value any) coordinator.Step {
	return coordinator.Step{Outputs: []coordinator.Output{{Ticket: t, Value: value}}}
}

// recount says how many groups there are now.
func (m *machine) recount() { m.share.Set(len(m.groups) + len(m.consumers) + len(m.staged)) }

// tooMany tells that the group does not exist and must not be made.
func (m *machine) tooMany(now time.Time, groupID string) bool {
	if !m.share.Full(m.settings.MaxGroups) || m.groups[groupID] != nil ||
		m.consumers[groupID] != nil {
		return false
	}
	m.count.Refused.Add(1)
	if now.Sub(m.complained) >= time.Minute {
		m.complained = now
		m.opts.Logger.Warn("refused a new group: there are as many as may be", "group", groupID,
			"limit", groupsMax, "value", m.settings.MaxGroups)
	}
	return true
}

// groupsMax is the config that bounds the groups.
const groupsMax = "millstream.groups.max"

// withGroup runs fn unless the group's metadata is in flight.
func (m *machine) withGroup(groupID string, fn func() coordinator.Step) coordinator.Step {
	if m.flying[groupID]&groupInFlight != 0 {
		return coordinator.Step{Again: true}
	}
	return fn()
}

// settled runs fn unless anything is in flight.
func (m *machine) settled(fn func() coordinator.Step) coordinator.Step {
	if len(m.flying) > 0 {
		return coordinator.Step{Again: true}
	}
	return fn()
}

// entry returns the group's entry, made if need be.
func (m *machine) entry(groupID string) *entry {
	e := m.groups[groupID]
	if e == nil {
		e = &entry{Group: classic.New(groupID, &m.config, &m.timers)}
		m.groups[groupID] = e
	}
	return e
}

// tidy forgets a group that holds nothing: a join was refused, or an id was never used.
func (m *machine) tidy(groupID string) {
	e := m.groups[groupID]
	if e == nil || e.persisted || !e.Vacant() || m.offsets.Has(groupID) ||
		m.pending.Open(groupID) || m.flying[groupID] != 0 {
		return
	}
	e.Close()
	delete(m.groups, groupID)
}

// step turns a group's effects into a step.
func (m *machine) step(now time.Time, groupID string, fx *classic.Effects) coordinator.Step {
	step := coordinator.Step{Outputs: fx.Outputs}
	if fx.Record == nil {
		m.tidy(groupID)
		return step
	}
	step.Records = []record.Record{{
		Timestamp: now.UnixMilli(),
		Key:       offsets.AppendGroupKey(nil, groupID),
		Value:     offsets.AppendGroup(nil, fx.Record),
	}}
	m.flying[groupID] |= groupInFlight
	step.Fail = func(now time.Time, code ErrorCode) []coordinator.Output {
		clear(m.flying)
		if fx.Undo == nil {
			return fx.Outputs
		}
		var undone classic.Effects
		fx.Undo(now, code, &undone)
		return undone.Outputs
	}
	return step
}

func (m *machine) join(now time.Time, t coordinator.Ticket, req *JoinRequest) coordinator.Step {
	refuse := func(code ErrorCode) coordinator.Step {
		return answer(t, JoinResponse{Code: code, Generation: -1, MemberID: req.MemberID})
	}
	session := time.Duration(req.SessionTimeoutMS) * time.Millisecond
	switch {
	case req.GroupID == "" || len(req.GroupID) > maxName:
		return refuse(coordinator.CodeInvalidGroupID)
	case session < m.settings.MinSessionTimeout || session > m.settings.MaxSessionTimeout:
		return refuse(coordinator.CodeInvalidSessionTimeout)
	case !namesFit(req):
		return refuse(coordinator.CodeInvalidRequest)
	}
	if g := m.consumers[req.GroupID]; g != nil {
		return m.joinConsumer(now, t, g, req)
	}
	return m.joinClassic(now, t, req)
}

func (m *machine) joinClassic(now time.Time, t coordinator.Ticket, req *JoinRequest,
) coordinator.Step {
	if m.groups[req.GroupID] == nil && req.MemberID != "" {
		return answer(t, JoinResponse{
			Code: coordinator.CodeUnknownMemberID, Generation: -1, MemberID: req.MemberID,
		})
	}
	if m.tooMany(now, req.GroupID) {
		return answer(t, JoinResponse{
			Code: coordinator.CodePolicyViolation, Generation: -1, MemberID: req.MemberID,
		})
	}
	var fx classic.Effects
	m.entry(req.GroupID).Join(now, t, req, &fx)
	return m.step(now, req.GroupID, &fx)
}

// namesFit says whether what a member says of itself fits into the strings of a record: the
// flexible versions of JoinGroup have longer ones.
func namesFit(req *JoinRequest) bool {
	if req.InstanceID != nil && len(*req.InstanceID) > maxName {
		return false
	}
	for i := range req.Protocols {
		if len(req.Protocols[i].Name) > maxName {
			return false
		}
	}
	return len(req.ProtocolType) <= maxName && len(req.ClientID) <= maxName &&
		len(req.ClientHost) <= maxName
}

func (m *machine) sync(now time.Time, t coordinator.Ticket, req *SyncRequest) coordinator.Step {
	if g := m.consumers[req.GroupID]; g != nil {
		return answer(t, g.Sync(now, req))
	}
	e := m.groups[req.GroupID]
	if e == nil {
		return answer(t, SyncResponse{Code: unknownGroup(req.GroupID)})
	}
	var fx classic.Effects
	e.Sync(now, t, req, &fx)
	return m.step(now, req.GroupID, &fx)
}

// unknownGroup is the code for a member of a group that does not exist.
func unknownGroup(groupID string) ErrorCode {
	if groupID == "" {
		return coordinator.CodeInvalidGroupID
	}
	return coordinator.CodeUnknownMemberID
}

func (m *machine) heartbeat(now time.Time, req *HeartbeatRequest) ErrorCode {
	if g := m.consumers[req.GroupID]; g != nil {
		return g.ClassicHeartbeat(now, req)
	}
	e := m.groups[req.GroupID]
	if e == nil {
		return unknownGroup(req.GroupID)
	}
	return e.Heartbeat(now, req)
}

func (m *machine) leave(now time.Time, t coordinator.Ticket, req *LeaveRequest) coordinator.Step {
	if g := m.consumers[req.GroupID]; g != nil {
		return m.leaveConsumer(now, t, g, req)
	}
	e := m.groups[req.GroupID]
	switch {
	case req.GroupID == "":
		return answer(t, LeaveResponse{Code: coordinator.CodeInvalidGroupID})
	case e == nil:
		// Each member is unknown, not the request at fault: so says Kafka.
		resp := LeaveResponse{}
		for _, lm := range req.Members {
			left := classic.LeftMember{LeaveMember: lm, Code: coordinator.CodeUnknownMemberID}
			resp.Members = append(resp.Members, left)
		}
		return answer(t, resp)
	}
	var fx classic.Effects
	left := e.Leave(now, req.Members, &fx)
	fx.Outputs = append(fx.Outputs, coordinator.Output{
		Ticket: t, Value: LeaveResponse{Members: left},
	})
	return m.step(now, req.GroupID, &fx)
}

// Replay implements coordinator.Machine.
func (m *machine) Replay(rec record.Record) error {
	defer m.recount()
	clear(m.flying)
	key, err := offsets.ReadKey(rec.Key)
	if err != nil {
		return err
	}
	switch key.Kind {
	case offsets.KindOffset:
		return m.replayOffset(&key, rec)
	case offsets.KindGroup:
		return m.replayGroup(&key, rec)
	case offsets.KindOther:
		// Records of other kinds of groups, in a log that Kafka wrote: nothing here needs them.
		return nil
	default:
		return m.replayConsumer(&key, rec.Value)
	}
}

func (m *machine) replayOffset(key *offsets.Key, rec record.Record) error {
	if rec.Value == nil {
		m.offsets.Remove(key.Group, key.Topic, key.Partition)
		m.pending.Remove(key.Group, key.Topic, key.Partition)
		m.tidy(key.Group)
		return nil
	}
	c, err := m.readCommit(key, rec)
	if err != nil {
		return err
	}
	m.ensure(key.Group)
	m.offsets.Put(key.Group, key.Topic, key.Partition, c)
	return nil
}

func (m *machine) readCommit(key *offsets.Key, rec record.Record) (offsets.Commit, error) {
	c, err := offsets.ReadCommit(rec.Value)
	if err != nil {
		return offsets.Commit{}, fmt.Errorf("offset of group %q: %w", key.Group, err)
	}
	c.RecordOffset = rec.Offset
	return c, nil
}

func (m *machine) replayGroup(key *offsets.Key, rec record.Record) error {
	if rec.Value == nil {
		if e := m.groups[key.Group]; e != nil {
			e.Close()
			delete(m.groups, key.Group)
		}
		m.keepOffsets(key.Group)
		return nil
	}
	md, err := offsets.ReadGroup(rec.Value)
	if err != nil {
		return fmt.Errorf("metadata of group %q: %w", key.Group, err)
	}
	if g := m.consumers[key.Group]; g != nil { // the later record is the one that counts
		g.Close()
		delete(m.consumers, key.Group)
	}
	down, downgraded := m.staged[key.Group]
	if downgraded {
		delete(m.staged, key.Group)
		m.groups[key.Group] = &entry{Group: down.classic}
	}
	e := m.entry(key.Group)
	e.persisted = true
	e.Apply(md)
	if downgraded {
		// Nobody waits in a group that has just begun: there is nothing to answer or write.
		e.Resume(time.UnixMilli(rec.Timestamp), down.rebalance, &classic.Effects{})
	}
	return nil
}

// ensure makes a group for offsets that belong to none yet.
func (m *machine) ensure(groupID string) {
	if m.consumers[groupID] == nil {
		m.entry(groupID)
	}
}

// keepOffsets makes a group for offsets whose group has ended.
func (m *machine) keepOffsets(groupID string) {
	if m.offsets.Has(groupID) || m.pending.Open(groupID) {
		m.ensure(groupID)
	}
}

// Loaded implements coordinator.Machine.
func (m *machine) Loaded(now time.Time) {
	for _, e := range m.groups {
		// A group that was durable has no waiting tickets, so there is nothing to do but timers.
		e.Loaded(now, &classic.Effects{})
	}
	for _, g := range m.consumers {
		g.Loaded(now)
	}
	m.timers.Arm(&m.expiry, now.Add(m.opts.RetentionCheckInterval))
}

// NextDeadline implements coordinator.Machine.
func (m *machine) NextDeadline() (time.Time, bool) {
	t, at := m.timers.Next()
	c, consumerAt := m.consumerTimers.Next()
	if c != nil && (t == nil || consumerAt.Before(at)) {
		return consumerAt, true
	}
	return at, t != nil
}

// Tick implements coordinator.Machine.
func (m *machine) Tick(now time.Time) coordinator.Step {
	defer m.recount()
	m.configure()
	timer, at := m.timers.Next()
	if c, consumerAt := m.consumerTimers.Next(); c != nil && (timer == nil || consumerAt.Before(at)) {
		return m.consumerTick(now, c, consumerAt)
	}
	if timer == nil || at.After(now) {
		return coordinator.Step{}
	}
	if timer.Group == nil {
		return m.settled(func() coordinator.Step { return m.expire(now) })
	}
	groupID := timer.Group.ID()
	return m.withGroup(groupID, func() coordinator.Step {
		m.timers.Stop(timer)
		var fx classic.Effects
		timer.Run(now, &fx)
		return m.step(now, groupID, &fx)
	})
}
