package task

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/operator"
)

// Bounds of what a Tap takes from the tasks between two calls of Take: records, and bytes of one
// key or value. What is above them is passed over, and counted.
const (
	tapRecords = 256
	tapBytes   = 16 << 10
)

// Tapped is a copy of a record that passed a step.
type Tapped struct {
	// Task is <sub>.<partition>; Topic, Partition and Offset say where the record was read, and are
	// "", -1 and -1 for a result of an aggregate.
	Task      string
	Topic     string
	Partition int32
	Offset    int64
	Timestamp int64
	Window    operator.Window
	Key       []byte
	Value     []byte
	Headers   []record.Header
	// Cut tells that Key or Value are only the beginning.
	Cut bool
}

// Tap shows records that pass a step of the tasks in this process. Tasks never wait for it: they
// copy a few of the records of a batch, spread over it, as long as there is room.
type Tap struct {
	// seen counts the records that passed.
	seen atomic.Int64
	// room is how many more may be taken until the next Take.
	room atomic.Int64

	mu struct {
		sync.Mutex
		taken []Tapped
	}
}

// Take returns what was taken since the last call, and how many records passed in all.
func (t *Tap) Take() (taken []Tapped, seen int64) {
	t.mu.Lock()
	taken, t.mu.taken = t.mu.taken, nil
	t.mu.Unlock()
	t.room.Store(tapRecords)
	return taken, t.seen.Load()
}

// offer lets the tap look at a batch.
func (t *Tap) offer(task string, records []operator.Record) {
	if len(records) == 0 {
		return
	}
	t.seen.Add(int64(len(records)))
	room := t.room.Load()
	if room <= 0 {
		return
	}
	// A quarter of the room at most, so that several tasks and batches have their share.
	n := min(len(records), max(1, int(room/4)))
	if t.room.Add(int64(-n)) < 0 {
		return
	}
	copies := make([]Tapped, n)
	for i := range copies {
		copies[i] = tapped(task, &records[i*len(records)/n])
	}
	t.mu.Lock()
	t.mu.taken = append(t.mu.taken, copies...)
	t.mu.Unlock()
}

func tapped(task string, r *operator.Record) Tapped {
	key, value := r.Key, r.Value
	if r.Dirty {
		if k, v, err := operator.Encode(r); err == nil { // else it shows what it was read as
			key, value = k, v
		}
	}
	c := Tapped{Task: task, Topic: r.Topic(), Partition: r.Partition(), Offset: r.Offset(),
		Timestamp: r.Timestamp, Window: r.Window,
		Cut: len(key) > tapBytes || len(value) > tapBytes}
	c.Key, c.Value = beginning(key), beginning(value)
	for _, h := range r.Headers {
		c.Headers = append(c.Headers, record.Header{Key: h.Key, Value: beginning(h.Value)})
	}
	return c
}

// beginning copies what is shown of bytes; nil stays nil.
func beginning(b []byte) []byte {
	return slices.Clone(b[:min(len(b), tapBytes)])
}

// TapPoint is where taps can be put: one side of a step, in all its tasks.
type TapPoint struct {
	taps atomic.Pointer[[]*Tap]
}

// offer is called with every batch; without a tap it costs one load.
func (p *TapPoint) offer(task string, records []operator.Record) {
	if taps := p.taps.Load(); taps != nil {
		for _, t := range *taps {
			t.offer(task, records)
		}
	}
}

// tapPoints are those of a worker, by step.
type tapPoints struct {
	mu struct {
		sync.Mutex
		in, out map[string]*TapPoint
	}
}

// of returns the points before and behind a step.
func (p *tapPoints) of(step string) (in, out *TapPoint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.in == nil {
		p.mu.in, p.mu.out = map[string]*TapPoint{}, map[string]*TapPoint{}
	}
	if p.mu.in[step] == nil {
		p.mu.in[step], p.mu.out[step] = &TapPoint{}, &TapPoint{}
	}
	return p.mu.in[step], p.mu.out[step]
}

// Tap puts a tap behind a step, or before it, in all tasks that run here, now and later. A source
// and a sink have one side only.
func (w *Worker) Tap(step string, before bool) (tap *Tap, remove func()) {
	in, out := w.opts.taps.of(step)
	at := out
	if before {
		at = in
	}
	tap = &Tap{}
	tap.room.Store(tapRecords)
	at.change(func(taps []*Tap) []*Tap { return append(taps, tap) })
	return tap, func() {
		at.change(func(taps []*Tap) []*Tap {
			return slices.DeleteFunc(taps, func(t *Tap) bool { return t == tap })
		})
	}
}

// change replaces the taps of a point.
func (p *TapPoint) change(fn func([]*Tap) []*Tap) {
	for {
		old := p.taps.Load()
		var taps []*Tap
		if old != nil {
			taps = slices.Clone(*old)
		}
		next := &taps
		if taps = fn(taps); len(taps) == 0 {
			next = nil
		}
		if p.taps.CompareAndSwap(old, next) {
			return
		}
	}
}
