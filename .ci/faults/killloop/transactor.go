package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
)

// outcome is what a client knows of its transaction.
type outcome int

const (
	open outcome = iota
	committed
	aborted
	// unknown: it has ended, by itself or by the next epoch of its client, and nobody said how.
	unknown
)

// transaction is one of a transactor.
type transaction struct {
	outcome outcome
	// records is how many it has; seen those that were read, by their numbers.
	records int
	seen    map[int]bool
}

// transactor runs transactions on topic txn and knows how they ended.
type transactor struct {
	w  *world
	id string
	// protocol is 1 or, with KIP-890, 2.
	protocol int

	ended, unknown atomic.Int64

	mu struct {
		sync.Mutex
		// all are the transactions by number, those that were checked are nil.
		all []*transaction
	}
	// last is the last number and record read in each partition.
	last map[int32][2]int
}

func newTransactor(w *world, id string, protocol int) *transactor {
	return &transactor{w: w, id: id, protocol: protocol, last: map[int32][2]int{}}
}

// run makes clients, one after the other.
func (t *transactor) run() error {
	for t.w.ctx.Err() == nil {
		if err := t.client(); err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return nil
}

// client runs transactions until one has an end that is not known, or, now and then, no end.
func (t *transactor) client() error {
	w := t.w
	opts := []kgo.Opt{kgo.TransactionalID(t.id), kgo.TransactionTimeout(30 * time.Second)}
	if t.protocol == 1 {
		opts = append(opts, kgo.MaxVersions(kversion.V3_7_0()))
	}
	cl, err := w.client(opts...)
	if err != nil {
		return err
	}
	defer cl.Close()
	if _, _, err := cl.ProducerID(w.ctx); err != nil {
		return pause(w.ctx, 15*time.Millisecond) // the broker is not there; the next client asks again
	}
	t.fenced()
	random := w.randomOf(fmt.Sprint(t.id, time.Now()))
	for w.ctx.Err() == nil {
		number, x := t.begin(1 + random.IntN(20))
		if err := cl.BeginTransaction(); err != nil {
			return fmt.Errorf("%s: begin: %w", t.id, err)
		}
		w.pending.Add(1)
		failed := t.produce(cl, number, x.records)
		if random.IntN(40) == 0 { // the client is gone, the next one aborts
			w.pending.Add(-1)
			return nil
		}
		commit := failed == nil && random.IntN(4) != 0
		err := cl.EndTransaction(w.ctx, kgo.TransactionEndTry(commit))
		w.pending.Add(-1)
		if w.ctx.Err() != nil {
			return nil
		}
		if !t.end(x, commit, err) {
			return nil
		}
		_ = pause(w.ctx, time.Duration(random.IntN(20))*time.Millisecond)
	}
	return nil
}

func (t *transactor) begin(records int) (int, *transaction) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := &transaction{records: records, seen: map[int]bool{}}
	t.mu.all = append(t.mu.all, x)
	return len(t.mu.all) - 1, x
}

// end records how x ended and tells whether that is known.
func (t *transactor) end(x *transaction, commit bool, err error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err != nil:
		t.unknown.Add(1)
		return false // fenced will say that it is over
	case commit:
		x.outcome = committed
	default:
		x.outcome = aborted
	}
	t.ended.Add(1)
	return true
}

// fenced says that all transactions of earlier clients have ended, one way or the other.
func (t *transactor) fenced() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, x := range t.mu.all {
		if x != nil && x.outcome == open {
			x.outcome = unknown
		}
	}
}

// produce sends the records of a transaction and waits for the answers.
func (t *transactor) produce(cl *kgo.Client, number, records int) error {
	var rs []*kgo.Record
	for i := range records {
		r := &kgo.Record{Topic: txn, Partition: int32((number + i) % int(partitions[txn])),
			Value: append(fmt.Appendf(nil, "%s %d %d ", t.id, number, i), fill[:(number*31+i*17)%400]...)}
		rs = append(rs, r)
	}
	return cl.ProduceSync(t.w.ctx, rs...).FirstErr()
}

// observe takes a record that was read at read_committed for the first time.
func (w *world) observeTxn(r *kgo.Record) error {
	fields := strings.SplitN(string(r.Value), " ", 4)
	if fields[0] == sentinelName {
		return nil
	}
	for _, t := range w.txns {
		if t.id == fields[0] {
			return t.observe(r, fields)
		}
	}
	return fmt.Errorf("txn-%d at %d has a value that nobody sent: %.40q", r.Partition, r.Offset, r.Value)
}

func (t *transactor) observe(r *kgo.Record, fields []string) error {
	var number, i int
	if _, err := fmt.Sscan(fields[1]+" "+fields[2], &number, &i); err != nil {
		return fmt.Errorf("txn-%d at %d has a value that nobody sent: %.40q", r.Partition, r.Offset, r.Value)
	}
	last, known := t.last[r.Partition]
	if known && (number < last[0] || number == last[0] && i <= last[1]) {
		return fmt.Errorf("twice or out of order: %s has %d/%d after %v in partition %d at %d", t.id, number, i, last,
			r.Partition, r.Offset)
	}
	t.last[r.Partition] = [2]int{number, i}
	t.mu.Lock()
	defer t.mu.Unlock()
	x := t.mu.all[number]
	switch {
	case x == nil:
		return fmt.Errorf("torn: a record of %s %d appears at %d in partition %d, later than the rest", t.id, number,
			r.Offset, r.Partition)
	case x.outcome == aborted:
		return fmt.Errorf("aborted, and read: %s %d/%d in partition %d at %d", t.id, number, i, r.Partition, r.Offset)
	}
	x.seen[i] = true
	return nil
}

// over returns the transactions that have ended by now, by number.
func (t *transactor) over() []int {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []int
	for number, x := range t.mu.all {
		if x != nil && x.outcome != open {
			out = append(out, number)
		}
	}
	return out
}

// check looks at transactions of which all records were read that can be.
func (t *transactor) check(numbers []int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, number := range numbers {
		x := t.mu.all[number]
		switch {
		case x.outcome == committed && len(x.seen) != x.records:
			return fmt.Errorf("torn or lost: %s %d committed %d records, read are %d", t.id, number, x.records, len(x.seen))
		case x.outcome == unknown && len(x.seen) != 0 && len(x.seen) != x.records:
			return fmt.Errorf("torn: of the %d records of %s %d, which ended somehow, %d are read", x.records, t.id, number,
				len(x.seen))
		}
		t.mu.all[number] = nil
	}
	return nil
}
