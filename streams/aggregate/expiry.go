package aggregate

import (
	"fmt"
	"slices"

	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/state"
)

// expiry finds the keys that got no record for a time, by the timestamps of their rows: a row is
// expired iff S > its timestamp + ttl. Keys are marked in buckets of ttl, a bucket per span of
// timestamps; a key that was used again has a mark in a later bucket.
type expiry struct {
	ttl   int64
	marks state.Windows
	known bool // starts were read
	// starts of the buckets with marks, ascending.
	starts []int64
}

func newExpiry(ttl int64, marks state.Windows) *expiry { return &expiry{ttl: ttl, marks: marks} }

func (e *expiry) expired(ts, s int64) bool {
	return s != operator.EndOfTime && s != operator.NoTime && s-e.ttl > ts
}

// list reads the buckets of a restored task.
func (e *expiry) list() error {
	if e.known {
		return nil
	}
	e.known = true
	var err error
	if e.starts, err = e.marks.Starts(); err != nil {
		return fmt.Errorf("list expiring keys: %w", err)
	}
	return nil
}

// mark notes that key has a row with a timestamp.
func (e *expiry) mark(key []byte, ts int64) error {
	if err := e.list(); err != nil {
		return err
	}
	start := ts - floorMod(ts, e.ttl)
	bucket := e.marks.Window(start)
	if _, ok, err := bucket.Get(key); ok || err != nil {
		return err
	}
	if i, ok := slices.BinarySearch(e.starts, start); !ok {
		e.starts = slices.Insert(e.starts, i, start)
	}
	return bucket.Put(key, []byte{1})
}

// purge calls fn with the keys of buckets in which everything expired, each in key order.
func (e *expiry) purge(s int64, fn func(key []byte, s int64) error) error {
	if err := e.list(); err != nil {
		return err
	}
	for len(e.starts) > 0 && e.expired(e.starts[0]+e.ttl-1, s) {
		var keys [][]byte
		err := e.marks.Window(e.starts[0]).Scan(nil, nil, func(key, _ []byte) error {
			keys = append(keys, slices.Clone(key))
			return nil
		})
		if err != nil {
			return fmt.Errorf("scan expiring keys: %w", err)
		}
		for _, key := range keys {
			if err := fn(key, s); err != nil {
				return err
			}
		}
		if err := e.marks.Drop(e.starts[0]); err != nil {
			return fmt.Errorf("drop expired keys: %w", err)
		}
		e.starts = e.starts[1:]
	}
	return nil
}

// purge forgets the row of a key if it expired.
func (a *aggregate) purge(key []byte, s int64) error {
	row, ok, err := a.rows.Get(key)
	if err != nil || !ok {
		return err
	}
	ts, err := a.folds.decodeTime(row)
	if err != nil || !a.due.expired(ts, s) {
		return err
	}
	return a.forget(key)
}

// forget removes a key and the values behind its result.
func (a *aggregate) forget(key []byte) error {
	if err := a.rows.Delete(key); err != nil {
		return fmt.Errorf("forget row: %w", err)
	}
	return a.values.forget(key)
}
