package txn

import (
	"maps"
	"slices"
	"time"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/record"
)

// NextDeadline implements coordinator.Machine.
func (m *machine) NextDeadline() (time.Time, bool) {
	next := m.nextAbort
	if m.nextExpiry.Before(next) {
		next = m.nextExpiry
	}
	if len(m.waiting) > 0 && m.firstDeadline.Before(next) {
		next = m.firstDeadline
	}
	return next, true
}

// Tick implements coordinator.Machine.
func (m *machine) Tick(now time.Time) coordinator.Step {
	defer m.recount()
	switch {
	case len(m.waiting) > 0 && !m.firstDeadline.After(now):
		return m.unpark(now)
	case !m.nextAbort.After(now):
		m.nextAbort = now.Add(m.opts.AbortInterval)
		return m.abortLate(now)
	case !m.nextExpiry.After(now):
		m.nextExpiry = now.Add(m.opts.ExpirationInterval)
		return m.expire(now)
	}
	return coordinator.Step{}
}

// abortLate aborts the transactions that are open for longer than their clients allowed.
func (m *machine) abortLate(now time.Time) coordinator.Step {
	var step coordinator.Step
	var ids []string
	for _, id := range m.sortedIDs() {
		tx := m.txns[id]
		late := tx.State == Ongoing && tx.lateness.passed(&tx.Metadata, now)
		if !late || m.flying[id].records > 0 {
			continue // what is in flight is looked at next time
		}
		m.opts.Logger.Info("abort transaction: it is over its timeout", "transactional_id", id,
			"producer_id", tx.ProducerID, "timeout_ms", tx.TimeoutMS)
		one := m.write(now, m.fence(id, tx, now), nil, func(ErrorCode) []coordinator.Output { return nil })
		step.Records = append(step.Records, one.Records...)
		ids = append(ids, id)
	}
	step.Fail = m.forgetFlights(ids)
	return step
}

// lateness tells when a transaction is over its timeout. StartMS is of the wall clock, which may
// jump by a day: it counts only when the transaction is first looked at, which is when it begins or
// after loading, and the monotonic clock from there on.
type lateness struct {
	startMS int64         // which transaction it is about, by its start
	seen    time.Time     // when that was first looked at
	left    time.Duration // of its timeout, then
}

// look begins to measure, once for each transaction.
func (l *lateness) look(md *Metadata, now time.Time) {
	if l.seen.IsZero() || l.startMS != md.StartMS {
		limit := int64(md.TimeoutMS)
		open := min(max(now.UnixMilli()-md.StartMS, 0), limit+1)
		*l = lateness{md.StartMS, now, time.Duration(limit-open) * time.Millisecond}
	}
}

// passed tells whether an open transaction is over its timeout.
func (l *lateness) passed(md *Metadata, now time.Time) bool {
	l.look(md, now)
	return now.Sub(l.seen) > l.left
}

// sortedIDs are all transactional ids: what is written does not depend on the order of a map.
func (m *machine) sortedIDs() []string { return slices.Sorted(maps.Keys(m.txns)) }

// expire forgets the transactional ids that were not used for long.
func (m *machine) expire(now time.Time) coordinator.Step {
	var step coordinator.Step
	var ids []string
	before := now.Add(-m.opts.Expiration).UnixMilli()
	for _, id := range m.sortedIDs() {
		tx := m.txns[id]
		if !tx.State.settled() || tx.LastUpdateMS > before || m.flying[id].records > 0 {
			continue
		}
		step.Records = append(step.Records, record.Record{
			Timestamp: now.UnixMilli(), Key: AppendKey(nil, id),
		})
		m.flying[id] = flight{records: 1}
		ids = append(ids, id)
	}
	step.Fail = m.forgetFlights(ids)
	return step
}

// forgetFlights undoes a step of many ids; the next search finds them again.
func (m *machine) forgetFlights(ids []string) func(time.Time, ErrorCode) []coordinator.Output {
	return func(time.Time, ErrorCode) []coordinator.Output {
		for _, id := range ids {
			delete(m.flying, id)
		}
		return nil
	}
}
