package client

import (
	"fmt"

	"github.com/millstream-io/millstream/core/record"
)

const (
	// runRecords is about how many records Poll makes at once: whole batches until there are so many.
	runRecords = 2048
	// maxAnswer bounds what may be asked of one partition when a batch does not fit.
	maxAnswer = 1 << 30
	// maxPlain bounds the records of one batch, decompressed.
	maxPlain = 512 << 20
)

// answer is what a broker gave of one partition.
type answer struct {
	of *reading
	// err ends the reading; nothing else is set then.
	err error
	// batches are those not decoded yet, from a record or more below offset from on.
	batches []byte
	from    int64
	end     int64 // of the log
	// aborted are the transactions in it that do not count, by first offset; dropping are the
	// producers whose current transaction is one of those.
	aborted  []aborted
	dropping map[int64]bool
	// taken are the bytes decoded since the last hand-out.
	taken int
}

// aborted is a transaction that does not count.
type aborted struct{ producer, first int64 }

// measure cuts off what is left of a last batch that had no room, and returns the offset behind the
// others and their bytes. What is no batch stays, for decode to say so.
func (a *answer) measure() (next int64, whole int) {
	next = a.from
	rest := a.batches
	for len(rest) > 0 {
		batch, after, err := record.Next(rest)
		if err == record.ErrShort {
			break
		}
		if err != nil {
			return next, len(a.batches)
		}
		next, rest = max(next, batch.NextOffset()), after
	}
	a.batches = a.batches[:len(a.batches)-len(rest)]
	return next, len(a.batches)
}

// decode makes records of the first batches, about runRecords, in the memory mem.
func (a *answer) decode(it *record.Iterator, mem *runMemory) (Fetched, error) {
	if n := a.count() + 1; cap(mem.records) < n { // the end of a batch takes a place
		mem.records = make([]record.Record, 0, n)
	}
	run := Fetched{TopicPartition: a.of.tp, Next: a.from, End: a.end, Records: mem.records[:0]}
	defer func() { mem.records = run.Records }()
	for len(a.batches) > 0 && len(run.Records) < runRecords {
		batch, rest, err := record.Next(a.batches)
		if err != nil {
			return run, fmt.Errorf("read batch: %w", err)
		}
		if err := batch.CheckCRC(); err != nil {
			return run, fmt.Errorf("read batch: %w", err)
		}
		if !a.drops(batch) {
			if run.Records, err = a.append(run.Records, it, batch, mem); err != nil {
				return run, fmt.Errorf("read batch: %w", err)
			}
		}
		a.taken += len(a.batches) - len(rest)
		a.batches = rest
		run.Next = max(run.Next, batch.NextOffset())
	}
	a.from = run.Next
	return run, nil
}

// count is how many records decode is about to make, at most maxGrow.
func (a *answer) count() (n int) {
	rest := a.batches
	for len(rest) > 0 && n < runRecords {
		batch, after, err := record.Next(rest)
		if err != nil {
			break // decode tells
		}
		if c := int(batch.Count()); c > 0 && c <= len(batch)*64 && !batch.IsControl() {
			n += c
		}
		rest = after
	}
	return min(n, maxGrow)
}

// drops tells that a batch is no data: the end of a transaction, or part of one that was aborted.
func (a *answer) drops(batch record.Batch) bool {
	for len(a.aborted) > 0 && a.aborted[0].first <= batch.LastOffset() {
		if a.dropping == nil {
			a.dropping = map[int64]bool{}
		}
		a.dropping[a.aborted[0].producer] = true
		a.aborted = a.aborted[1:]
	}
	if batch.IsControl() {
		delete(a.dropping, batch.ProducerID())
		return true
	}
	return batch.IsTransactional() && a.dropping[batch.ProducerID()]
}

// append decodes one batch, without what is below the offset that was asked for. Records keep their
// bytes: those of the batch, or of one buffer it is decompressed into.
func (a *answer) append(records []record.Record, it *record.Iterator, batch record.Batch,
	mem *runMemory,
) ([]record.Record, error) {
	it.Swap(mem.next())
	defer func() { mem.used(it.Swap(nil)) }()
	if err := it.Reset(batch, maxPlain); err != nil {
		return records, err
	}
	if n := int(batch.Count()) + 1; cap(records)-len(records) < n && n <= len(batch)*64 {
		grown := make([]record.Record, len(records), len(records)+min(n, maxGrow))
		copy(grown, records)
		records = grown
	}
	var headers []record.Header
	for {
		records = append(records, record.Record{})
		r := &records[len(records)-1]
		ok, err := it.Next(r)
		if err != nil || !ok {
			return records[:len(records)-1], err
		}
		if r.Offset < a.from {
			records = records[:len(records)-1]
			continue
		}
		if n := len(r.Headers); n > 0 {
			if len(headers) < n {
				headers = make([]record.Header, max(n, headerSlabs))
			}
			copy(headers, r.Headers)
			r.Headers, headers = headers[:n:n], headers[n:]
		}
	}
}

const (
	// maxGrow bounds the records a header's count makes room for at once.
	maxGrow = 1 << 16
	// headerSlabs is how many headers are allocated at once.
	headerSlabs = 256
)
