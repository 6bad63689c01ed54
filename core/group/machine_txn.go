package group

import (
	"time"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/group/offsets"
	"github.com/millstream-io/millstream/core/record"
)

var _ coordinator.TransactionalMachine = (*machine)(nil)

// commitTransaction handles TxnOffsetCommit: the offsets become records of the producer's
// transaction. Who may commit is checked as for a plain commit, but for two things (KIP-447): a
// rebalance does not keep a producer from finishing what it consumed before, and one that says
// nothing about itself, as those before version 3, is believed.
func (m *machine) commitTransaction(now time.Time, t coordinator.Ticket, req *TxnCommitRequest,
) coordinator.Step {
	if m.flying[req.GroupID]&groupInFlight != 0 {
		return coordinator.Step{Again: true}
	}
	plain := &CommitRequest{
		GroupID: req.GroupID, Generation: req.Generation, RetentionMS: -1, Offsets: req.Offsets,
	}
	if code := m.checkTransaction(now, req); code != coordinator.CodeNone {
		return answer(t, commitRefused(plain, code))
	}
	step := m.commitStep(now, t, plain)
	if len(step.Records) > 0 {
		step.Producer = &coordinator.Producer{ID: req.ProducerID, Epoch: req.ProducerEpoch}
	}
	return step
}

func (m *machine) checkTransaction(now time.Time, req *TxnCommitRequest) ErrorCode {
	if req.GroupID == "" || len(req.GroupID) > maxName {
		return coordinator.CodeInvalidGroupID
	}
	if g := m.consumers[req.GroupID]; g != nil {
		return checkConsumerTransaction(g, req)
	}
	e := m.groups[req.GroupID]
	switch {
	case e != nil:
		return e.CheckTransactionCommit(req.MemberID, req.InstanceID, req.Generation)
	case req.Generation < 0 && m.tooMany(now, req.GroupID):
		return coordinator.CodePolicyViolation
	case req.Generation < 0:
		return coordinator.CodeNone // the record will make the group
	default:
		return coordinator.CodeIllegalGeneration
	}
}

// ReplayTransactional implements coordinator.TransactionalMachine.
func (m *machine) ReplayTransactional(p coordinator.Producer, rec record.Record) error {
	defer m.recount()
	clear(m.flying)
	key, err := offsets.ReadKey(rec.Key)
	if err != nil {
		return err
	}
	if key.Kind != offsets.KindOffset || rec.Value == nil {
		// Nothing but offsets is written in transactions; Kafka applies the rest at once, too.
		return m.Replay(rec)
	}
	c, err := m.readCommit(&key, rec)
	if err != nil {
		return err
	}
	m.ensure(key.Group)
	m.pending.Put(p.ID, key.Group, key.Topic, key.Partition, c)
	return nil
}

// ReplayMarker implements coordinator.TransactionalMachine. Of an offset that was committed in the
// transaction and by itself, the one whose record is later in the log counts: it is the one that
// compaction keeps.
func (m *machine) ReplayMarker(p coordinator.Producer, commit bool, _ int64) error {
	defer m.recount()
	clear(m.flying)
	decided := m.pending.Take(p.ID)
	if decided == nil {
		return nil
	}
	if commit {
		decided.Each(func(group, topic string, partition int32, c offsets.Commit) {
			old, ok := m.offsets.Get(group, topic, partition)
			if !ok || old.RecordOffset < c.RecordOffset {
				m.offsets.Put(group, topic, partition, c)
			}
		})
	}
	for _, group := range decided.Groups() {
		m.tidy(group)
	}
	return nil
}

// marker ends a producer's transaction in this shard.
func (m *machine) marker(t coordinator.Ticket, in *markerInput) coordinator.Step {
	step := answer(t, codeOnly{})
	step.Marker, step.TransactionVersion = &in.marker, in.transactionVersion
	return step
}
