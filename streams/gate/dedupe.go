package gate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/state"
)

// ErrInvalid reports options that make no sense.
var ErrInvalid = errors.New("invalid gate")

// Key takes from a record what it is known by; null fails the record.
type Key func(rec *operator.Record) ([]byte, error)

// ByKey takes the record's key.
func ByKey(rec *operator.Record) ([]byte, error) { return rec.Key, nil }

// DedupeOptions describe a dedupe.
type DedupeOptions struct {
	// Key tells which records are the same; nil is the record's key.
	Key Key
	// Within is how long a key is remembered, in stream time.
	Within time.Duration
	// Store names the store; the id of the step if empty.
	Store string
	// OnError overrides the policy of the topology.
	OnError *operator.ErrorPolicy
}

// Validate reports options that make no sense.
func (o *DedupeOptions) Validate() error {
	if o.Within < time.Millisecond {
		return fmt.Errorf("%w: within is %s, must be at least 1ms", ErrInvalid, o.Within)
	}
	return nil
}

// Stores returns the store a dedupe needs.
func (o *DedupeOptions) Stores() []operator.StoreSpec {
	return []operator.StoreSpec{{Name: o.Store, Kind: operator.Windowed,
		Format: fmt.Sprintf("dedupe 1 %d", o.Within.Milliseconds())}}
}

// Dedupe lets the first of records that are the same through.
func Dedupe(o DedupeOptions) operator.Factory {
	if o.Key == nil {
		o.Key = ByKey
	}
	return func() operator.Operator {
		return &dedupe{key: o.Key, store: o.Store, buckets: buckets{width: o.Within.Milliseconds()}}
	}
}

type dedupe struct {
	key   Key
	store string
	buckets
}

// Process implements operator.Operator.
func (d *dedupe) Process(ctx *operator.Context, in, out *operator.Batch) error {
	if err := d.open(ctx, d.store); err != nil {
		return err
	}
	for i := range in.Records {
		rec := &in.Records[i]
		key, err := keyOf(ctx, d.key, rec)
		if err != nil {
			return err
		}
		if key == nil {
			continue
		}
		seen, err := d.seen(key, rec.StreamTime)
		switch {
		case err != nil:
			return err
		case seen:
			ctx.Stats().Dropped.Add(1)
		default:
			out.Append(rec)
		}
	}
	return d.drop(in.StreamTime, d.width)
}

// keyOf returns the key of a record, nil when it has none and was reported.
func keyOf(ctx *operator.Context, of Key, rec *operator.Record) ([]byte, error) {
	key, err := of(rec)
	switch {
	case err != nil:
		return nil, ctx.Fail(rec, operator.ClassOperator, err)
	case key == nil:
		return nil, ctx.Fail(rec, operator.ClassNullKey, operator.ErrNullKey)
	case len(key) > state.MaxKey:
		return nil, ctx.Fail(rec, operator.ClassNullKey,
			fmt.Errorf("key of %d bytes: %w", len(key), state.ErrKeyTooLong))
	}
	return key, nil
}

// seen reports whether a key is remembered at stream time s, and remembers it.
func (d *dedupe) seen(key []byte, s int64) (bool, error) {
	at := d.start(s)
	for _, start := range []int64{at, at - d.width} {
		if !d.has(start) {
			continue
		}
		row, ok, err := d.all.Window(start).Get(key)
		if err != nil {
			return false, fmt.Errorf("get key: %w", err)
		}
		if ok && len(row) == 8 && s-int64(binary.BigEndian.Uint64(row)) <= d.width {
			return true, nil
		}
	}
	return false, d.put(at, key, binary.BigEndian.AppendUint64(nil, uint64(s)))
}

// buckets are rows by span of stream time.
type buckets struct {
	width int64 // of a span, ms
	all   state.Windows
	// starts of the spans with rows, ascending.
	starts []int64
}

// open finds the spans of a new or restored task.
func (b *buckets) open(ctx *operator.Context, store string) error {
	if b.all != nil {
		return nil
	}
	b.all = ctx.Windows(store)
	var err error
	if b.starts, err = b.all.Starts(); err != nil {
		return fmt.Errorf("list spans of time: %w", err)
	}
	return nil
}

// start returns the start of the span that holds s.
func (b *buckets) start(s int64) int64 {
	m := s % b.width
	if m < 0 {
		m += b.width
	}
	return s - m
}

func (b *buckets) has(start int64) bool {
	_, ok := slices.BinarySearch(b.starts, start)
	return ok
}

func (b *buckets) put(start int64, key, value []byte) error {
	if i, ok := slices.BinarySearch(b.starts, start); !ok {
		b.starts = slices.Insert(b.starts, i, start)
	}
	if err := b.all.Window(start).Put(key, value); err != nil {
		return fmt.Errorf("put key: %w", err)
	}
	return nil
}

// drop removes the spans that ended more than keep before s.
func (b *buckets) drop(s, keep int64) error {
	n := 0
	for n < len(b.starts) && s-keep > b.starts[n] && s-keep-b.starts[n] >= b.width {
		if err := b.all.Drop(b.starts[n]); err != nil {
			return fmt.Errorf("drop span of time: %w", err)
		}
		n++
	}
	b.starts = slices.Delete(b.starts, 0, n)
	return nil
}
