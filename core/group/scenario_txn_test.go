package group

import (
	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/record"
)

// The verbs of TestScenarios that concern transactions, and the log they are kept in.

// entries is what the log gets from a step.
func (s *scenario) entries(step coordinator.Step) []coordinator.Entry {
	next := int64(0)
	if n := len(s.log); n > 0 {
		next = s.log[n-1].Record.Offset + 1
	}
	if m := step.Marker; m != nil {
		return []coordinator.Entry{{
			Record:   record.Record{Offset: next, Timestamp: m.Timestamp},
			Producer: &coordinator.Producer{ID: m.ProducerID, Epoch: m.ProducerEpoch},
			Marker:   true, Commit: m.Type == record.ControlCommit,
		}}
	}
	var list []coordinator.Entry
	for i := range step.Records {
		rec := step.Records[i]
		rec.Offset = next + int64(i)
		list = append(list, coordinator.Entry{Record: rec, Producer: step.Producer})
	}
	return list
}

// replay does what the runtime does with one entry.
func replay(m *machine, e coordinator.Entry) error {
	switch {
	case e.Producer == nil:
		return m.Replay(e.Record)
	case e.Marker:
		return m.ReplayMarker(*e.Producer, e.Commit, e.Record.Offset)
	}
	return m.ReplayTransactional(*e.Producer, e.Record)
}

func (s *scenario) commitTransaction(a args, groupID string) {
	s.submit("txn-commit "+a.name(), &TxnCommitRequest{
		GroupID: groupID, MemberID: a.str("id", s.ids[a.name()]), InstanceID: a.optional("instance"),
		Generation: int32(a.int("gen", -1)), ProducerID: int64(a.int("pid", 0)),
		ProducerEpoch: int16(a.int("pepoch", 0)), Offsets: s.offsets(a),
	})
}

func (s *scenario) marker(a args) {
	m := record.ControlOptions{
		Type: record.ControlAbort, ProducerID: int64(a.int("pid", 0)),
		ProducerEpoch: int16(a.int("pepoch", 0)), Timestamp: s.now.UnixMilli(),
	}
	if a.has("commit") {
		m.Type = record.ControlCommit
	}
	s.submit("marker", &markerInput{marker: m})
}

// compact does to the log what its compaction may do below the first open transaction: of each key
// it keeps the last record, markers and records of aborted transactions it drops.
func (s *scenario) compact() {
	open := make(map[int64]int64) // producer -> offset at which its transaction begins
	for _, e := range s.log {
		switch {
		case e.Marker:
			delete(open, e.Producer.ID)
		case e.Producer != nil:
			if _, ok := open[e.Producer.ID]; !ok {
				open[e.Producer.ID] = e.Record.Offset
			}
		}
	}
	stable := s.log[len(s.log)-1].Record.Offset + 1
	for _, first := range open {
		stable = min(stable, first)
	}
	s.log = keepLast(s.log, stable)
	s.shown = len(s.log)
}

func keepLast(log []coordinator.Entry, stable int64) []coordinator.Entry {
	last := make(map[string]int64) // key -> offset of its last record that was not aborted
	aborted := make(map[int64]bool)
	ends := make(map[int64]bool) // producer -> whether the marker behind commits
	for i := len(log) - 1; i >= 0; i-- {
		e := &log[i]
		switch {
		case e.Record.Offset >= stable:
		case e.Marker:
			ends[e.Producer.ID] = e.Commit
		case e.Producer != nil && !ends[e.Producer.ID]:
			aborted[e.Record.Offset] = true
		default:
			if _, ok := last[string(e.Record.Key)]; !ok {
				last[string(e.Record.Key)] = e.Record.Offset
			}
		}
	}
	var kept []coordinator.Entry
	for _, e := range log {
		below := e.Record.Offset < stable
		if below && (aborted[e.Record.Offset] ||
			!e.Marker && last[string(e.Record.Key)] != e.Record.Offset) {
			continue
		}
		kept = append(kept, e)
	}
	return kept
}
