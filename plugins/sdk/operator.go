package sdk

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/millstream-io/millstream/plugins/pluginpb"
)

// operator is one instance of an operator part. process reads all of in and fills out; its error is
// fatal for the stream.
type operator interface {
	process(ctx Ctx, in *pluginpb.Decoder, out *results) error
}

// NewMap makes an operator that changes each record in place. An error fails the record, ErrDrop
// leaves it out.
func NewMap[C any](name string, fn func(Ctx, C, *Record) error) Part {
	return newOperator(name, func(c C) operator {
		return &eachOp{fn: func(ctx Ctx, r *Record, emit Emit) error {
			err := fn(ctx, c, r)
			if err == nil {
				emit(r)
			}
			return err
		}}
	})
}

// NewFilter makes an operator that keeps the records for which fn is true.
func NewFilter[C any](name string, fn func(Ctx, C, *Record) (bool, error)) Part {
	p := newOperator(name, func(c C) operator {
		return &eachOp{fn: func(ctx Ctx, r *Record, emit Emit) error {
			keep, err := fn(ctx, c, r)
			if keep && err == nil {
				emit(r)
			}
			return err
		}}
	})
	p.preservesKey = true
	return p
}

// NewFlatMap makes an operator that emits any number of records for each. When fn fails, what it
// emitted for that record is taken back.
func NewFlatMap[C any](name string, fn func(Ctx, C, *Record, Emit) error) Part {
	return newOperator(name, func(c C) operator {
		return &eachOp{fn: func(ctx Ctx, r *Record, emit Emit) error { return fn(ctx, c, r, emit) }}
	})
}

// NewBatch makes an operator that sees many records at a time, for work that costs less that
// way. An error of fn fails every record of the batch.
func NewBatch[C any](name string, fn func(Ctx, C, *Records) error) Part {
	return newOperator(name, func(c C) operator {
		return &batchOp{fn: func(ctx Ctx, b *Records) error { return fn(ctx, c, b) }}
	})
}

func newOperator[C any](name string, make func(C) operator) Part {
	p := newPart[C](name, pluginpb.Kind_KIND_OPERATOR)
	p.deterministic = true
	s := p.shape
	p.operator = func(config []byte) (operator, []*pluginpb.Diagnostic) {
		c, found := decodeConfig[C](s, config)
		if len(found) > 0 {
			return nil, found
		}
		return make(c), nil
	}
	return p
}

// results collects the outcome of one batch.
type results struct {
	enc    pluginpb.Encoder
	counts []uint32
	simple bool // every input so far produced exactly one
	errs   []*pluginpb.RecordError
}

func (o *results) reset() {
	o.counts, o.errs, o.simple = o.counts[:0], nil, true
}

// end closes the input that began at m with the error of the author's function.
func (o *results) end(m pluginpb.Mark, before int, err error) error {
	if err == nil && o.enc.Len() > pluginpb.MaxFrameBytes {
		o.enc.Rollback(m)
		o.add(o.enc.Count()-before, &pluginpb.RecordError{
			Class: pluginpb.ClassTooLarge, Retryable: before > 0, // it may fit in a frame of its own
			Message: fmt.Sprintf("output does not fit in a frame of %d bytes", pluginpb.MaxFrameBytes),
		})
		return nil
	}
	if err == nil {
		o.add(o.enc.Count()-before, nil)
		return nil
	}
	if o.enc.Count() > before {
		o.enc.Rollback(m)
	}
	kept := o.enc.Count() - before // of timers that fired before the record
	switch {
	case isFatal(err):
		return err
	case errors.Is(err, ErrDrop):
		o.add(kept, nil)
	default:
		o.add(kept, recordError(err))
	}
	return nil
}

func (o *results) add(n int, e *pluginpb.RecordError) {
	if e != nil {
		e.Index = uint32(len(o.counts))
		o.errs = append(o.errs, e)
	}
	o.simple = o.simple && n == 1
	o.counts = append(o.counts, uint32(n))
}

func recordError(err error) *pluginpb.RecordError {
	return &pluginpb.RecordError{
		Class: pluginpb.ClassPlugin, Message: err.Error(), Retryable: isRetryable(err),
	}
}

// eachOp calls fn for each record.
type eachOp struct {
	fn  func(Ctx, *Record, Emit) error
	rec Record
}

func (o *eachOp) process(ctx Ctx, in *pluginpb.Decoder, out *results) error {
	emit := func(r *Record) { out.enc.Append(&r.r) }
	for {
		more, err := in.Next(&o.rec.r)
		if err != nil || !more {
			return err
		}
		mark, before := out.enc.Mark(), out.enc.Count()
		if err := out.end(mark, before, o.fn(ctx, &o.rec, emit)); err != nil {
			return err
		}
	}
}

// Records are the records of one batch.
type Records struct {
	recs []Record
	errs []error
}

// Len is the number of records.
func (b *Records) Len() int { return len(b.recs) }

// At returns record i, to be changed in place. It is valid until the function returns.
func (b *Records) At(i int) *Record { return &b.recs[i] }

// Fail gives record i an error: it is not passed on, and the pipeline decides what happens to it.
// A nil err takes the error back.
func (b *Records) Fail(i int, err error) { b.errs[i] = err }

// Drop leaves record i out.
func (b *Records) Drop(i int) { b.errs[i] = ErrDrop }

func readRecords(in *pluginpb.Decoder, b *Records) error {
	n := in.Left()
	if cap(b.recs) < n {
		b.recs, b.errs = make([]Record, n), make([]error, n)
	}
	b.recs, b.errs = b.recs[:n], b.errs[:n]
	clear(b.errs)
	for i := range b.recs {
		if _, err := in.Next(&b.recs[i].r); err != nil {
			return err
		}
	}
	_, err := in.Next(&pluginpb.Record{}) // nothing may follow
	return err
}

// batchOp calls fn for whole batches.
type batchOp struct {
	fn   func(Ctx, *Records) error
	recs Records
}

func (o *batchOp) process(ctx Ctx, in *pluginpb.Decoder, out *results) error {
	if err := readRecords(in, &o.recs); err != nil {
		return err
	}
	whole := o.fn(ctx, &o.recs)
	if whole != nil && isFatal(whole) {
		return whole
	}
	for i := range o.recs.recs {
		mark, before := out.enc.Mark(), out.enc.Count()
		err := o.recs.errs[i]
		if whole != nil {
			err = whole
		}
		if err == nil {
			out.enc.Append(&o.recs.recs[i].r)
		}
		if err := out.end(mark, before, err); err != nil {
			return err
		}
	}
	return nil
}

// runOperator serves one Operate stream.
func runOperator(s *session, part Part) error {
	op, found := part.operator(s.open.Config)
	if len(found) > 0 {
		return s.failConfig(found)
	}
	ctx, cancel := context.WithCancel(s.stream.Context())
	defer cancel()
	if err := s.opened(); err != nil {
		return err
	}
	in := make(chan inbound, pluginpb.DefaultCreditFrames+1)
	var received error // set before in is closed
	go s.receiveBatches(in, &received)
	c := s.ctx(ctx)
	var dec pluginpb.Decoder
	var out results
	for m := range in {
		if m.drain {
			return s.drained()
		}
		out.reset()
		if err := dec.Reset(m.frame); err != nil {
			return status.Error(codes.InvalidArgument, err.Error())
		}
		out.enc.Grow(len(m.frame) + len(m.frame)/4)
		if err := op.process(c, &dec, &out); err != nil {
			if isFatal(err) {
				return s.fail(pluginpb.ClassPlugin, err, m.seq)
			}
			return status.Error(codes.InvalidArgument, err.Error())
		}
		size := len(m.frame)
		pluginpb.PutBuffer(m.frame)
		if err := s.sendResult(m.seq, size, &out); err != nil {
			return err
		}
	}
	return received
}

// sendResult sends the outcome of the batch seq and gives its size back as credit.
func (s *session) sendResult(seq uint64, size int, out *results) error {
	frame := out.enc.Finish()
	if err := s.window.Take(s.stream.Context(), len(frame)); err != nil {
		return err
	}
	return pluginpb.Split(frame, func(piece []byte, more bool) error {
		r := &pluginpb.Result{Seq: seq, Frame: piece, More: more}
		if !more {
			r.Errors = out.errs
			r.Credit = &pluginpb.Credit{Frames: 1, Bytes: uint64(size)}
			if !out.simple {
				r.Counts = append([]uint32(nil), out.counts...)
			}
		}
		return s.send(&pluginpb.FromPlugin{Msg: &pluginpb.FromPlugin_Result{Result: r}})
	})
}
