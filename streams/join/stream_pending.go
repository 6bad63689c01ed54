package join

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/millstream-io/millstream/streams/state"
)

// unmatched is a kept record that comes out alone when its window closes, unless it is matched.
type unmatched struct {
	entry
	// dueAt is the stream time from which on it is closed.
	dueAt int64
}

// pending is the index of unmatched records by the time they are due. Its rows lie in a bucket per
// span of due time, and only the buckets that time has reached are in memory, as a heap of row
// keys: looking whether anything is due costs one comparison. A matched record only loses its row.
type pending struct {
	all  state.Windows
	span int64
	// waiting are the starts of buckets that time has not reached, ascending; reached those that
	// it has, which go when time is past them.
	waiting, reached []int64
	heap             []string
	key              []byte // scratch
}

// open finds the rows of a restored task at stream time s: what was due by then has come out.
func (p *pending) open(s int64) error {
	starts, err := p.all.Starts()
	if err != nil {
		return fmt.Errorf("list buckets: %w", err)
	}
	p.waiting = starts
	return p.reach(s, s)
}

// reach loads the buckets that begin at s or before; rows due by done have come out.
func (p *pending) reach(s, done int64) error {
	for len(p.waiting) > 0 && p.waiting[0] <= s {
		start := p.waiting[0]
		p.waiting = p.waiting[1:]
		p.reached = append(p.reached, start)
		err := p.all.Window(start).Scan(nil, nil, func(key, _ []byte) error {
			if timeAt(key) > done {
				p.push(string(key))
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("read bucket %d: %w", start, err)
		}
	}
	return nil
}

// rowKey is due time, timestamp, side, key and number: the order in which records come out.
func (p *pending) rowKey(u unmatched) []byte {
	p.key = appendTime(p.key[:0], u.dueAt)
	p.key = appendTime(p.key, u.ts)
	p.key = append(p.key, byte(u.side))
	p.key = appendKey(p.key, u.entry.key)
	p.key = binary.BigEndian.AppendUint32(p.key, u.n)
	return p.key
}

// parse is the inverse of rowKey.
func (p *pending) parse(row string) (u unmatched, err error) {
	const fixed = 17
	if len(row) < fixed {
		return u, fmt.Errorf("read %d bytes: %w", len(row), errRow)
	}
	b := []byte(row)
	u.dueAt, u.ts, u.side = timeAt(b), timeAt(b[8:]), int(b[16])
	key, rest, err := cutKey(nil, b[fixed:])
	if err != nil {
		return u, err
	}
	if len(rest) != 4 || u.side > right {
		return u, fmt.Errorf("read %d bytes: %w", len(row), errRow)
	}
	u.entry.key, u.n = key, binary.BigEndian.Uint32(rest)
	return u, nil
}

// add indexes a record at stream time s.
func (p *pending) add(u unmatched, s int64) error {
	start := floorTo(u.dueAt, p.span)
	if err := p.all.Window(start).Put(p.rowKey(u), nil); err != nil {
		return fmt.Errorf("index unmatched record: %w", err)
	}
	if start > s {
		if i, ok := slices.BinarySearch(p.waiting, start); !ok {
			p.waiting = slices.Insert(p.waiting, i, start)
		}
		return nil
	}
	if i, ok := slices.BinarySearch(p.reached, start); !ok {
		p.reached = slices.Insert(p.reached, i, start)
	}
	p.push(string(p.key))
	return nil
}

// remove takes a record out because it was matched.
func (p *pending) remove(u unmatched) error {
	if err := p.all.Window(floorTo(u.dueAt, p.span)).Delete(p.rowKey(u)); err != nil {
		return fmt.Errorf("take matched record out of the index: %w", err)
	}
	return nil
}

// due calls emit for every record due at s, in order.
func (p *pending) due(s int64, emit func(unmatched) error) error {
	for {
		// The rows of a bucket are due from its start on: load only what can be next.
		for len(p.waiting) > 0 && p.waiting[0] <= s &&
			(len(p.heap) == 0 || p.waiting[0] <= timeAt([]byte(p.heap[0][:8]))) {
			if err := p.reach(p.waiting[0], p.waiting[0]-1); err != nil {
				return err
			}
		}
		if len(p.heap) == 0 || timeAt([]byte(p.heap[0][:8])) > s {
			break
		}
		u, err := p.parse(p.pop())
		if err != nil {
			return err
		}
		_, ok, err := p.all.Window(floorTo(u.dueAt, p.span)).Get(p.rowKey(u))
		if err != nil {
			return fmt.Errorf("read index of unmatched records: %w", err)
		}
		if !ok {
			continue // matched meanwhile
		}
		if err := emit(u); err != nil {
			return err
		}
	}
	n := 0
	for n < len(p.reached) && p.reached[n] <= s-p.span {
		if err := p.all.Drop(p.reached[n]); err != nil {
			return fmt.Errorf("drop bucket %d: %w", p.reached[n], err)
		}
		n++
	}
	p.reached = slices.Delete(p.reached, 0, n)
	return nil
}

// push adds a row key to the heap.
func (p *pending) push(key string) {
	p.heap = append(p.heap, key)
	for i := len(p.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if p.heap[up] <= p.heap[i] {
			return
		}
		p.heap[i], p.heap[up] = p.heap[up], p.heap[i]
		i = up
	}
}

// pop removes the least row key.
func (p *pending) pop() string {
	least := p.heap[0]
	n := len(p.heap) - 1
	p.heap[0], p.heap[n] = p.heap[n], ""
	p.heap = p.heap[:n]
	for i := 0; ; {
		next := i
		for child := 2*i + 1; child <= 2*i+2 && child < n; child++ {
			if p.heap[child] < p.heap[next] {
				next = child
			}
		}
		if next == i {
			return least
		}
		p.heap[i], p.heap[next] = p.heap[next], p.heap[i]
		i = next
	}
}
