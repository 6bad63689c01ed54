package join

import (
	"fmt"
	"slices"

	"github.com/millstream-io/millstream/streams/state"
)

// timers are rows that wait for a stream time, which is the first eight bytes of their keys. They
// lie in a bucket per span of due time, and only the buckets that time has reached are in memory,
// as a heap of row keys: looking whether anything is due costs one comparison. A row that is
// removed leaves its key in the heap.
type timers struct {
	all  state.Windows
	span int64
	// waiting are the starts of buckets that time has not reached, ascending; reached those that
	// it has, which go when time is past them.
	waiting, reached []int64
	heap             []string
}

// open finds the rows of a restored task at stream time s: what was due by then has come out.
func (p *timers) open(s int64) error {
	starts, err := p.all.Starts()
	if err != nil {
		return fmt.Errorf("list buckets: %w", err)
	}
	p.waiting = starts
	return p.reach(s, s)
}

// reach loads the buckets that begin at s or before; rows due by done have come out.
func (p *timers) reach(s, done int64) error {
	for len(p.waiting) > 0 && p.waiting[0] <= s {
		start := p.waiting[0]
		p.waiting = p.waiting[1:]
		p.reached = append(p.reached, start)
		err := p.all.Window(start).Scan(nil, nil, func(key, _ []byte) error {
			if len(key) < 8 {
				return fmt.Errorf("key of %d bytes: %w", len(key), errRow)
			}
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

// add keeps a row at stream time s, which is before it is due.
func (p *timers) add(key, value []byte, s int64) error {
	start := floorTo(timeAt(key), p.span)
	if err := p.all.Window(start).Put(key, value); err != nil {
		return fmt.Errorf("keep what is due later: %w", err)
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
	p.push(string(key))
	return nil
}

// remove takes a row out before it is due.
func (p *timers) remove(key []byte) error {
	if err := p.all.Window(floorTo(timeAt(key), p.span)).Delete(key); err != nil {
		return fmt.Errorf("take out what was due later: %w", err)
	}
	return nil
}

// due calls emit for every row due at s, in the order of keys. The value is valid until the next
// use of the stores.
func (p *timers) due(s int64, emit func(key string, value []byte) error) error {
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
		key := p.pop()
		b := []byte(key)
		value, ok, err := p.all.Window(floorTo(timeAt(b), p.span)).Get(b)
		if err != nil {
			return fmt.Errorf("read what is due: %w", err)
		}
		if !ok {
			continue // removed meanwhile
		}
		if err := emit(key, value); err != nil {
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
func (p *timers) push(key string) {
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
func (p *timers) pop() string {
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
