package txn

import (
	"fmt"
	"math"
	"time"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/record"
)

// maxID is the longest transactional id that a record can hold, in bytes.
const maxID = math.MaxInt16

// transaction is one transactional id of a shard.
type transaction struct {
	Metadata
	// lastEpoch is the client's epoch before the last one was given out, NoProducerEpoch if that is
	// not known, as after loading. A request with it repeats one whose answer was lost (KIP-360).
	lastEpoch int16
	// parked are the additions that wait for the markers of the last transaction.
	parked []parked
	// lateness measures how long the transaction is open.
	lateness lateness
}

// parked is an addition that waits.
type parked struct {
	ticket   coordinator.Ticket
	request  *AddRequest
	deadline time.Time
}

// flight is what of a transactional id is on its way into the log.
type flight struct {
	records   int       // not replayed yet
	lastEpoch int16     // of the transaction, once they are
	since     time.Time // when they were made
}

// markerJob is a decided transaction whose markers are to be written.
type markerJob struct {
	id         string
	producer   Producer
	commit     bool
	version    int16
	partitions []TopicPartition
}

// machine is the state of one shard: its transactional ids.
type machine struct {
	opts *Options
	// count is the coordinator's.
	count *Counters
	// share is how many ids the machine has, as it counts for all of the node.
	share *coordinator.Share
	// complained is when the log last said that there are too many.
	complained time.Time
	txns       map[string]*transaction
	// flying has the ids with a record that is not durable yet.
	flying map[string]flight
	// sendMarkers starts to bring a decided transaction's markers to its partitions.
	sendMarkers func(markerJob)
	// active tells that the log is loaded: what is replayed are this machine's own records.
	active bool
	// nextAbort and nextExpiry are when to look for transactions past their timeout and for unused
	// transactional ids.
	nextAbort, nextExpiry time.Time
	// waiting has the ids with parked additions, firstDeadline is not after the earliest of them.
	waiting       map[string]*transaction
	firstDeadline time.Time
}

var _ coordinator.Machine = (*machine)(nil)

func newMachine(opts *Options, sendMarkers func(markerJob)) *machine {
	return &machine{
		opts: opts, sendMarkers: sendMarkers, count: new(Counters),
		txns: make(map[string]*transaction), flying: make(map[string]flight),
		waiting: make(map[string]*transaction),
	}
}

// recount says how many transactional ids there are now.
func (m *machine) recount() { m.share.Set(len(m.txns)) }

// Handle implements coordinator.Machine.
func (m *machine) Handle(now time.Time, t coordinator.Ticket, in any) coordinator.Step {
	defer m.recount()
	switch in := in.(type) {
	case *InitRequest:
		return m.withID(in.TransactionalID, func() coordinator.Step { return m.init(now, t, in) })
	case *AddRequest:
		return m.withID(in.TransactionalID, func() coordinator.Step { return m.add(now, t, in) })
	case *EndRequest:
		return m.withID(in.TransactionalID, func() coordinator.Step { return m.end(now, t, in) })
	case markersWritten:
		return m.withID(in.id, func() coordinator.Step { return m.markersWritten(now, t, in) })
	case describeInput:
		return answer(t, m.describe(in.id))
	case statsInput:
		return answer(t, m.stats())
	case listInput:
		return answer(t, m.list(now, in.ListRequest))
	}
	panic(fmt.Sprintf("invariant: unknown input %T", in))
}

// answer is a step that only answers.
func answer(t coordinator.Ticket, value any) coordinator.Step {
	return coordinator.Step{Outputs: []coordinator.Output{{Ticket: t, Value: value}}}
}

// withID runs fn unless a record of the id is in flight.
func (m *machine) withID(id string, fn func() coordinator.Step) coordinator.Step {
	if m.flying[id].records > 0 {
		return coordinator.Step{Again: true}
	}
	return fn()
}

// transition is what becomes of one transactional id.
type transition struct {
	id string
	// records are the states it goes through, each a record.
	records []Metadata
	// lastEpoch is that of the transaction afterwards.
	lastEpoch int16
}

// write is the step that makes a transition and answers; refuse are the answers if it fails.
func (m *machine) write(
	now time.Time, tr transition, outs []coordinator.Output,
	refuse func(ErrorCode) []coordinator.Output,
) coordinator.Step {
	step := coordinator.Step{Outputs: outs}
	for i := range tr.records {
		step.Records = append(step.Records, record.Record{
			Timestamp: now.UnixMilli(),
			Key:       AppendKey(nil, tr.id),
			Value:     AppendValue(nil, &tr.records[i], m.opts.TransactionVersion() > 0),
		})
	}
	m.flying[tr.id] = flight{len(step.Records), tr.lastEpoch, now}
	// The state is as it was: whoever tries again starts from the same epoch, so that a failed
	// append does not cost an epoch (KAFKA-19367).
	step.Fail = func(_ time.Time, code ErrorCode) []coordinator.Output {
		delete(m.flying, tr.id)
		return refuse(appendFailed(code))
	}
	return step
}

// appendFailed is what a client is told when a record could not be appended.
func appendFailed(code ErrorCode) ErrorCode {
	if code == coordinator.CodeInvalidCommitOffsetSize { // the runtime's word for "too large"
		return coordinator.CodeUnknownServerError
	}
	return code
}

// Replay implements coordinator.Machine.
func (m *machine) Replay(rec record.Record) error {
	defer m.recount()
	id, err := ReadKey(rec.Key)
	if err != nil {
		return err
	}
	landed := m.landed(id)
	if rec.Value == nil {
		delete(m.txns, id)
		return nil
	}
	md, err := ReadValue(rec.Value)
	if err != nil {
		return fmt.Errorf("transactional id %q: %w", id, err)
	}
	tx := m.txns[id]
	if tx == nil {
		tx = &transaction{}
		m.txns[id] = tx
	}
	tx.Metadata, tx.lastEpoch = md, landed.lastEpoch
	if md.State == Ongoing && !landed.since.IsZero() {
		tx.lateness.look(&md, landed.since)
	}
	if m.active {
		m.count.ended(md.State)
	}
	if m.active && md.State.decided() && m.flying[id].records == 0 {
		m.sendMarkers(tx.job(id))
	}
	return nil
}

// landed notes that a record of an id was replayed, and returns the flight it was in.
func (m *machine) landed(id string) flight {
	f, ok := m.flying[id]
	if !ok {
		return flight{lastEpoch: NoProducerEpoch}
	}
	if f.records--; f.records == 0 {
		delete(m.flying, id)
	} else {
		m.flying[id] = f
	}
	return f
}

// job is what is to be done for a decided transaction.
func (tx *transaction) job(id string) markerJob {
	return markerJob{
		id: id, producer: tx.producer(), commit: tx.State == PrepareCommit,
		version: tx.ClientVersion, partitions: tx.Partitions,
	}
}

func (tx *transaction) producer() Producer {
	return Producer{ID: tx.ProducerID, Epoch: tx.ProducerEpoch}
}

// Loaded implements coordinator.Machine.
func (m *machine) Loaded(now time.Time) {
	m.active = true
	m.nextAbort = now.Add(m.opts.AbortInterval)
	m.nextExpiry = now.Add(m.opts.ExpirationInterval)
	// What was decided before is carried out now: nobody else will (redpanda#17827).
	for id, tx := range m.txns {
		if tx.State.decided() {
			m.sendMarkers(tx.job(id))
		}
	}
}

// markersWritten completes a transaction, and opens the next one if additions wait for that.
func (m *machine) markersWritten(
	now time.Time, t coordinator.Ticket, in markersWritten,
) coordinator.Step {
	tx := m.txns[in.id]
	if tx == nil || !tx.State.decided() || tx.producer() != in.producer {
		return answer(t, coordinator.CodeNone) // completed already
	}
	tr := transition{
		id: in.id, records: []Metadata{tx.complete(now.UnixMilli())}, lastEpoch: tx.lastEpoch,
	}
	waiting := tx.parked
	tx.parked = nil
	delete(m.waiting, in.id)
	outs := []coordinator.Output{{Ticket: t, Value: coordinator.CodeNone}}
	for _, p := range waiting {
		next, resp, changed := decideAdd(tr.records[len(tr.records)-1], p.request, now)
		if changed {
			tr.records = append(tr.records, next)
		}
		resp.Waited = true
		outs = append(outs, coordinator.Output{Ticket: p.ticket, Value: resp})
	}
	return m.write(now, tr, outs, func(code ErrorCode) []coordinator.Output {
		refused := []coordinator.Output{{Ticket: t, Value: code}}
		for _, p := range waiting {
			refused = append(refused, coordinator.Output{
				Ticket: p.ticket, Value: AddResponse{Code: code},
			})
		}
		return refused
	})
}
