package group

import (
	"slices"
	"time"
	"unicode/utf8"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/group/classic"
	"github.com/millstream-io/millstream/core/group/offsets"
	"github.com/millstream-io/millstream/core/record"
)

const (
	// maxMetadataUnits is the most OffsetMetadataMaxBytes may be: three bytes for each UTF-16 unit
	// still fit into a record's string.
	maxMetadataUnits = 10000
	// expireAtOnce is how many offsets one step of the search for expired ones may take, so that
	// members do not wait for it long.
	expireAtOnce = 1000
)

// commit handles OffsetCommit. It only looks at who is in the group, never at other offsets, so
// any number of commits can be in flight together.
func (m *machine) commit(now time.Time, t coordinator.Ticket, req *CommitRequest,
) coordinator.Step {
	if m.flying[req.GroupID]&groupInFlight != 0 {
		return coordinator.Step{Again: true}
	}
	if code := m.checkCommit(now, req); code != coordinator.CodeNone {
		return answer(t, commitRefused(req, code))
	}
	return m.commitStep(now, t, req)
}

// commitStep is the records of a commit that is allowed, and their answer.
func (m *machine) commitStep(now time.Time, t coordinator.Ticket, req *CommitRequest,
) coordinator.Step {
	resp := CommitResponse{Codes: make([]ErrorCode, len(req.Offsets))}
	step := coordinator.Step{Records: make([]record.Record, 0, len(req.Offsets))}
	for i := range req.Offsets {
		o := &req.Offsets[i]
		switch {
		case utf16Len(o.Metadata) > m.settings.OffsetMetadataMaxBytes:
			resp.Codes[i] = coordinator.CodeOffsetMetadataTooLarge
		case len(o.Topic) > maxName:
			resp.Codes[i] = coordinator.CodeUnknownTopicOrPartition
		default:
			step.Records = append(step.Records, commitRecord(now, req, o))
		}
	}
	step.Outputs = []coordinator.Output{{Ticket: t, Value: resp}}
	if len(step.Records) == 0 {
		return step
	}
	m.flying[req.GroupID] |= offsetsInFlight
	step.Fail = func(_ time.Time, code ErrorCode) []coordinator.Output {
		clear(m.flying)
		for i, c := range resp.Codes {
			if c == coordinator.CodeNone {
				resp.Codes[i] = code
			}
		}
		return []coordinator.Output{{Ticket: t, Value: resp}}
	}
	return step
}

func (m *machine) checkCommit(now time.Time, req *CommitRequest) ErrorCode {
	if len(req.GroupID) > maxName {
		return coordinator.CodeInvalidGroupID
	}
	if g := m.consumers[req.GroupID]; g != nil {
		return m.checkConsumerCommit(g, req)
	}
	e := m.groups[req.GroupID]
	switch {
	case e != nil:
		return e.CheckCommit(now, req.MemberID, req.InstanceID, req.Generation)
	case req.Generation < 0 && m.tooMany(now, req.GroupID):
		return coordinator.CodePolicyViolation
	case req.Generation < 0:
		return coordinator.CodeNone // the record will make the group
	default:
		return coordinator.CodeGroupIDNotFound
	}
}

func commitRecord(now time.Time, req *CommitRequest, o *OffsetCommit) record.Record {
	c := offsets.Commit{
		Offset: o.Offset, LeaderEpoch: o.LeaderEpoch, Metadata: o.Metadata, TopicID: o.TopicID,
		CommitTimestamp: now.UnixMilli(), ExpireTimestamp: -1,
	}
	if req.RetentionMS >= 0 {
		c.ExpireTimestamp = c.CommitTimestamp + req.RetentionMS
	}
	// Key and value share one allocation.
	b := make([]byte, 0, 64+len(req.GroupID)+len(o.Topic)+len(o.Metadata))
	b = offsets.AppendOffsetKey(b, req.GroupID, o.Topic, o.Partition)
	n := len(b)
	b = offsets.AppendCommit(b, c)
	return record.Record{Timestamp: c.CommitTimestamp, Key: b[:n:n], Value: b[n:]}
}

// utf16Len is the length of s as Java counts it.
func utf16Len(s string) int {
	n := 0
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		n++
		if r > 0xffff {
			n++
		}
		i += size
	}
	return n
}

// fetch handles OffsetFetch. What is not committed is offset -1 and no error, whether or not the
// group exists. With RequireStable, what an open transaction may still change is
// UNSTABLE_OFFSET_COMMIT: a consumer that began at the old offset would read again what the
// transaction has consumed (KIP-447).
func (m *machine) fetch(req *FetchRequest) FetchResponse {
	if g := m.consumers[req.GroupID]; g != nil {
		if code := g.CheckFetch(req.MemberID, req.MemberEpoch); code != coordinator.CodeNone {
			return FetchResponse{Code: code}
		}
	}
	topics := req.Topics
	if req.All {
		topics = nil
		for _, topic := range m.offsets.Topics(req.GroupID) {
			list := m.offsets.Partitions(req.GroupID, topic)
			topics = append(topics, TopicPartitions{Topic: topic, Partitions: list})
		}
	}
	resp := FetchResponse{Topics: make([]FetchedTopic, 0, len(topics))}
	for _, tp := range topics {
		ft := FetchedTopic{Topic: tp.Topic}
		ft.Partitions = make([]FetchedOffset, 0, len(tp.Partitions))
		for _, p := range tp.Partitions {
			fo := FetchedOffset{Partition: p, Offset: -1, LeaderEpoch: -1}
			if req.RequireStable && m.pending.Has(req.GroupID, tp.Topic, p) {
				fo.Code = coordinator.CodeUnstableOffsetCommit
			} else if c, ok := m.offsets.Get(req.GroupID, tp.Topic, p); ok {
				fo.Offset, fo.LeaderEpoch, fo.Metadata = c.Offset, c.LeaderEpoch, c.Metadata
				fo.TopicID = c.TopicID
			}
			ft.Partitions = append(ft.Partitions, fo)
		}
		resp.Topics = append(resp.Topics, ft)
	}
	return resp
}

// tombstone is the record that takes a committed offset away.
func tombstone(now time.Time, group, topic string, partition int32) record.Record {
	return record.Record{
		Timestamp: now.UnixMilli(),
		Key:       offsets.AppendOffsetKey(nil, group, topic, partition),
	}
}

// tombstones takes away all offsets of a group in some topics, committed and pending.
func (m *machine) tombstones(now time.Time, group string, of func(topic string) bool,
) []record.Record {
	var records []record.Record
	for _, topic := range m.offsets.Topics(group) {
		if !of(topic) {
			continue
		}
		for _, p := range m.offsets.Partitions(group, topic) {
			records = append(records, tombstone(now, group, topic, p))
		}
	}
	for _, tp := range m.pending.Partitions(group) {
		if _, ok := m.offsets.Get(group, tp.Topic, tp.Partition); !ok && of(tp.Topic) {
			records = append(records, tombstone(now, group, tp.Topic, tp.Partition))
		}
	}
	return records
}

// deleteOffsets handles OffsetDelete.
func (m *machine) deleteOffsets(now time.Time, t coordinator.Ticket, req *DeleteOffsetsRequest,
) coordinator.Step {
	if g := m.consumers[req.GroupID]; g != nil {
		return m.deleteOffsetsUnless(now, t, req, g.Subscribed)
	}
	e := m.groups[req.GroupID]
	if e == nil {
		return answer(t, DeleteOffsetsResponse{Code: coordinator.CodeGroupIDNotFound})
	}
	consumers := e.ProtocolType() == classic.ConsumerProtocolType
	if e.State() != classic.Empty && !consumers {
		return answer(t, DeleteOffsetsResponse{Code: coordinator.CodeNonEmptyGroup})
	}
	subscribed := e.Subscriptions()
	return m.deleteOffsetsUnless(now, t, req, func(topic string) bool {
		return e.State() != classic.Empty && subscribed.Has(topic)
	})
}

// deleteOffsetsUnless takes away the offsets of topics that are not in use.
func (m *machine) deleteOffsetsUnless(now time.Time, t coordinator.Ticket,
	req *DeleteOffsetsRequest, used func(topic string) bool,
) coordinator.Step {
	resp := DeleteOffsetsResponse{Topics: make([]ErrorCode, len(req.Topics))}
	var records []record.Record
	for i, tp := range req.Topics {
		if used(tp.Topic) {
			resp.Topics[i] = coordinator.CodeGroupSubscribedToTopic
			continue
		}
		for _, p := range tp.Partitions {
			_, ok := m.offsets.Get(req.GroupID, tp.Topic, p)
			if ok || m.pending.Has(req.GroupID, tp.Topic, p) {
				records = append(records, tombstone(now, req.GroupID, tp.Topic, p))
			}
		}
	}
	return m.write(records, t, resp, func(code ErrorCode) any {
		return DeleteOffsetsResponse{Code: code}
	})
}

// topicsDeleted takes away the offsets of deleted topics in all groups.
func (m *machine) topicsDeleted(now time.Time, t coordinator.Ticket, topics []string,
) coordinator.Step {
	var records []record.Record
	gone := func(topic string) bool { return slices.Contains(topics, topic) }
	for _, group := range m.offsets.Groups() {
		records = append(records, m.tombstones(now, group, gone)...)
	}
	for _, group := range m.pending.Groups() {
		if !m.offsets.Has(group) {
			records = append(records, m.tombstones(now, group, gone)...)
		}
	}
	return m.write(records, t, codeOnly{}, func(code ErrorCode) any { return codeOnly{code} })
}

// write is a step of records that change no volatile state. All groups are taken to be in flight.
func (m *machine) write(records []record.Record, t coordinator.Ticket, done any,
	failed func(ErrorCode) any,
) coordinator.Step {
	step := answer(t, done)
	if len(records) == 0 {
		return step
	}
	for i := range records {
		if key, err := offsets.ReadKey(records[i].Key); err == nil {
			m.flying[key.Group] |= offsetsInFlight | groupInFlight
		}
	}
	step.Records = records
	step.Fail = func(_ time.Time, code ErrorCode) []coordinator.Output {
		clear(m.flying)
		return []coordinator.Output{{Ticket: t, Value: failed(code)}}
	}
	return step
}

// expire takes a part of the groups and writes tombstones for offsets that are too old, and for
// groups that hold nothing any more (KIP-211). It comes back at once if there are more groups.
func (m *machine) expire(now time.Time) coordinator.Step {
	var records []record.Record
	for _, id := range m.groupIDs() {
		if id <= m.expired && m.expired != "" {
			continue
		}
		if len(records) >= expireAtOnce {
			m.timers.Arm(&m.expiry, now)
			m.count.Expired.Add(int64(len(records)))
			return m.write(records, 0, nil, func(ErrorCode) any { return nil })
		}
		if e := m.groups[id]; e != nil {
			records = append(records, m.expireGroup(now, id, e)...)
		} else {
			records = append(records, m.expireConsumer(now, id, m.consumers[id])...)
		}
		m.expired = id
	}
	m.expired = ""
	m.timers.Arm(&m.expiry, now.Add(m.opts.RetentionCheckInterval))
	m.count.Expired.Add(int64(len(records)))
	return m.write(records, 0, nil, func(ErrorCode) any { return nil })
}

func (m *machine) expireGroup(now time.Time, id string, e *entry) []record.Record {
	var records []record.Record
	left := 0
	subscribed := e.Subscriptions()
	for _, topic := range m.offsets.Topics(id) {
		for _, p := range m.offsets.Partitions(id, topic) {
			c, _ := m.offsets.Get(id, topic, p)
			if m.isExpired(now, e, subscribed, topic, c) && !m.pending.Has(id, topic, p) {
				records = append(records, tombstone(now, id, topic, p))
			} else {
				left++
			}
		}
	}
	switch {
	case left > 0 || !e.Idle() || m.pending.Open(id):
	case e.persisted || !e.Vacant():
		records = append(records, groupTombstone(now, id))
	case len(records) == 0:
		m.tidy(id)
	}
	return records
}

// isExpired applies KIP-211: in a group that was left, all offsets expire together, some time after
// it became empty; in one of active consumers, those of topics nobody subscribes to; in one that
// never had members, each by itself.
func (m *machine) isExpired(now time.Time, e *entry, subscribed classic.Subscribed, topic string,
	c offsets.Commit,
) bool {
	base := c.CommitTimestamp
	switch {
	case e.ProtocolType() == "":
	case e.State() == classic.Empty:
		if since, ok := e.EmptySinceMS(); ok {
			base = since
		}
	case e.State() != classic.Stable || !subscribed.Known || subscribed.Has(topic):
		return false
	}
	if c.ExpireTimestamp >= 0 {
		return now.UnixMilli() >= c.ExpireTimestamp
	}
	return now.UnixMilli()-base >= m.settings.OffsetsRetention.Milliseconds()
}
