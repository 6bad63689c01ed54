package join

import (
	"fmt"
	"slices"

	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/state"
)

// versions keep the rows of a table as they were over a span of event time. The latest row of each
// key is in one store, those it took the place of in buckets by the time until which they held.
type versions struct {
	latest  state.Store
	all     state.Windows
	history int64 // ms
	span    int64 // ms of one bucket
	buckets []segment
	buf     []byte // scratch
	key     []byte // scratch
}

// rowFirst marks the time before the first row of a key: it held nothing then.
const rowFirst = rowDeleted

// open finds the buckets of a restored task.
func (v *versions) open() error {
	starts, err := v.all.Starts()
	if err != nil {
		return fmt.Errorf("list history: %w", err)
	}
	for _, start := range starts {
		v.buckets = append(v.buckets, segment{start, v.all.Window(start)})
	}
	return nil
}

// bucket returns the bucket of rows that held until a time.
func (v *versions) bucket(until int64) state.Store {
	start := floorTo(until, v.span)
	i, ok := slices.BinarySearchFunc(v.buckets, start, func(s segment, start int64) int {
		return compareTimes(s.start, start)
	})
	if !ok {
		v.buckets = slices.Insert(v.buckets, i, segment{start, v.all.Window(start)})
	}
	return v.buckets[i].rows
}

func compareTimes(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// version is a row and the span of time in which it held. key names it in its bucket.
type version struct {
	from, until int64
	row         []byte // as of appendRow
}

// versionKey is the key of a version in its bucket: of one key the latest comes first.
func (v *versions) versionKey(key []byte, from int64) []byte {
	v.key = appendKey(v.key[:0], key)
	v.key = appendTime(v.key, ^from)
	return v.key
}

// keep puts a version into its bucket, unless nobody can ask for it any more at stream time s.
func (v *versions) keep(key []byte, x version, s int64) error {
	if x.until <= s-v.history {
		return nil
	}
	v.buf = append(appendTime(v.buf[:0], x.until), x.row...)
	if err := v.bucket(x.until).Put(v.versionKey(key, x.from), v.buf); err != nil {
		return fmt.Errorf("keep version: %w", err)
	}
	return nil
}

// at returns the version of a key that held at a time before the latest row.
func (v *versions) at(key []byte, ts int64) (x version, ok bool, err error) {
	for i := range v.buckets {
		if v.buckets[i].start+v.span <= ts {
			continue // held no longer than to a time before ts
		}
		from := slices.Clone(v.versionKey(key, ts))
		to := slices.Clone(appendTime(appendKey(nil, key), ^operator.NoTime))
		err = v.buckets[i].rows.Scan(from, append(to, 0), func(k, b []byte) error {
			if len(b) < 8 || len(k) < 8 {
				return fmt.Errorf("read version of %d bytes: %w", len(b), errRow)
			}
			x = version{from: ^timeAt(k[len(k)-8:]), until: timeAt(b), row: slices.Clone(b[8:])}
			ok = ts < x.until
			return state.ErrStop
		})
		if err != nil || ok {
			return x, ok, err
		}
	}
	return version{}, false, nil
}

// find loads the row that held at a time; ok is false when there was none.
func (v *versions) find(rec *operator.Record, key []byte, ts int64, arena *operator.Arena) (
	ok bool, err error) {
	b, ok, err := v.latest.Get(key)
	if err != nil || !ok {
		return false, err
	}
	bits, from, err := rowTime(b)
	if err != nil {
		return false, err
	}
	if ts < from {
		x, ok, err := v.at(key, ts)
		if err != nil || !ok || x.row[0]&rowDeleted != 0 {
			return false, err
		}
		return true, load(rec, key, x.row, arena)
	}
	if bits&rowDeleted != 0 {
		return false, nil
	}
	return true, load(rec, key, b, arena)
}

// put takes a row as of appendRow, or a deletion (rowDeleted), which is not older than the history
// at stream time s.
func (v *versions) put(key []byte, ts int64, row []byte, s int64) error {
	b, ok, err := v.latest.Get(key)
	if err != nil {
		return fmt.Errorf("read latest row: %w", err)
	}
	if !ok {
		// What is older than the first row held nothing; so every time has a version to cut.
		first := appendRow(nil, rowFirst, &operator.Record{Timestamp: ts}, nil)
		if err := v.keep(key, version{operator.NoTime, ts, first}, s); err != nil {
			return err
		}
		return v.putLatest(key, row)
	}
	_, from, err := rowTime(b)
	switch {
	case err != nil:
		return err
	case ts == from:
		return v.putLatest(key, row)
	case ts > from:
		if err := v.keep(key, version{from, ts, slices.Clone(b)}, s); err != nil {
			return err
		}
		return v.putLatest(key, row)
	}
	x, ok, err := v.at(key, ts)
	if err != nil {
		return err
	}
	if !ok { // it held no longer than until the history begins
		x = version{from: ts, until: from}
	}
	if ok && x.from < ts { // cut it
		if err := v.bucket(x.until).Delete(v.versionKey(key, x.from)); err != nil {
			return fmt.Errorf("cut version: %w", err)
		}
		if err := v.keep(key, version{x.from, ts, x.row}, s); err != nil {
			return err
		}
	}
	return v.keep(key, version{ts, x.until, row}, s)
}

func (v *versions) putLatest(key, row []byte) error {
	if err := v.latest.Put(key, row); err != nil {
		return fmt.Errorf("keep latest row: %w", err)
	}
	return nil
}

// drop removes what nobody can ask for at stream time s: whole buckets, and deletions that are the
// latest of their key and as old.
func (v *versions) drop(s int64) error {
	n := 0
	for n < len(v.buckets) && v.buckets[n].start+v.span <= s-v.history {
		if err := v.forget(v.buckets[n].rows); err != nil {
			return err
		}
		if err := v.all.Drop(v.buckets[n].start); err != nil {
			return fmt.Errorf("drop history %d: %w", v.buckets[n].start, err)
		}
		n++
	}
	v.buckets = slices.Delete(v.buckets, 0, n)
	return nil
}

// forget removes deletions that ended a version of a bucket.
func (v *versions) forget(bucket state.Store) error {
	type ended struct {
		key   []byte
		until int64
	}
	var list []ended
	err := bucket.Scan(nil, nil, func(k, b []byte) error {
		key, _, err := cutKey(k)
		if err != nil || len(b) < 8 {
			return fmt.Errorf("read version of %d bytes: %w", len(b), errRow)
		}
		list = append(list, ended{key, timeAt(b)})
		return nil
	})
	if err != nil {
		return fmt.Errorf("read history: %w", err)
	}
	for _, e := range list {
		b, ok, err := v.latest.Get(e.key)
		if err != nil {
			return fmt.Errorf("read latest row: %w", err)
		}
		if !ok {
			continue
		}
		bits, ts, err := rowTime(b)
		if err != nil {
			return err
		}
		if bits&rowDeleted != 0 && ts == e.until {
			if err := v.latest.Delete(e.key); err != nil {
				return fmt.Errorf("forget deletion: %w", err)
			}
		}
	}
	return nil
}
