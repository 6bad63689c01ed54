package gate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/millstream-io/millstream/streams/operator"
)

// ClassThrottled is the class of a record above the rate.
const ClassThrottled = "throttled"

// ErrThrottled reports a record above the rate.
var ErrThrottled = errors.New("above the rate")

// ThrottleOptions describe a throttle.
type ThrottleOptions struct {
	// Count records pass per key and span of stream time.
	Count int64
	Per   time.Duration
	// Key tells what each rate is for; nil is all records of a task.
	Key Key
	// Fail makes a record above the rate an error of class throttled instead of dropping it.
	Fail bool
	// Store names the store; the id of the step if empty.
	Store string
	// OnError overrides the policy of the topology.
	OnError *operator.ErrorPolicy
}

// Validate reports options that make no sense.
func (o *ThrottleOptions) Validate() error {
	if o.Count < 1 || o.Per < time.Millisecond {
		return fmt.Errorf("%w: %d records per %s, need at least 1 per 1ms", ErrInvalid, o.Count,
			o.Per)
	}
	return nil
}

// Stores returns the store a throttle needs.
func (o *ThrottleOptions) Stores() []operator.StoreSpec {
	return []operator.StoreSpec{{Name: o.Store, Kind: operator.Windowed,
		Format: fmt.Sprintf("throttle 1 %d", o.Per.Milliseconds())}}
}

// Throttle lets so many records per span of stream time through, the first ones.
func Throttle(o ThrottleOptions) operator.Factory {
	if o.Key == nil {
		o.Key = func(*operator.Record) ([]byte, error) { return []byte{}, nil }
	}
	return func() operator.Operator {
		return &throttle{o: o, buckets: buckets{width: o.Per.Milliseconds()}}
	}
}

type throttle struct {
	o ThrottleOptions
	buckets
}

// Process implements operator.Operator.
func (t *throttle) Process(ctx *operator.Context, in, out *operator.Batch) error {
	if err := t.open(ctx, t.o.Store); err != nil {
		return err
	}
	for i := range in.Records {
		rec := &in.Records[i]
		key, err := keyOf(ctx, t.o.Key, rec)
		if err != nil {
			return err
		}
		if key == nil {
			continue
		}
		ok, err := t.pass(key, rec.StreamTime)
		switch {
		case err != nil:
			return err
		case ok:
			out.Append(rec)
		case !t.o.Fail:
			ctx.Stats().Dropped.Add(1)
		default:
			err = ctx.Fail(rec, ClassThrottled, fmt.Errorf("%w: %d per %s", ErrThrottled,
				t.o.Count, t.o.Per))
			if err != nil {
				return err
			}
		}
	}
	return t.drop(in.StreamTime, 0)
}

// pass counts a record and reports whether it is within the rate.
func (t *throttle) pass(key []byte, s int64) (bool, error) {
	at := t.start(s)
	n := uint64(0)
	if t.has(at) {
		row, ok, err := t.all.Window(at).Get(key)
		if err != nil {
			return false, fmt.Errorf("get count: %w", err)
		}
		if ok {
			n, _ = binary.Uvarint(row)
		}
	}
	if n >= uint64(t.o.Count) {
		return false, nil
	}
	return true, t.put(at, key, binary.AppendUvarint(nil, n+1))
}
