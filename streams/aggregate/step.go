package aggregate

import (
	"github.com/millstream-io/millstream/streams/operator"
)

// step is what the kinds of windows that are kept per key have in common.
type step interface {
	// prepare looks at the stores of a new or restored task.
	prepare(ctx *operator.Context) error
	// add takes one record, at its stream time.
	add(ctx *operator.Context, rec *operator.Record, out *operator.Batch) error
	// advance does what is due up to stream time s.
	advance(ctx *operator.Context, s int64, in, out *operator.Batch) error
}

// stepper drives a step.
type stepper struct {
	step
	ready bool
	s     int64 // stream time up to which everything due was done
}

// Process implements operator.Operator.
func (p *stepper) Process(ctx *operator.Context, in, out *operator.Batch) error {
	if !p.ready {
		p.ready, p.s = true, ctx.StartTime()
		if err := p.prepare(ctx); err != nil {
			return err
		}
	}
	for i := range in.Records {
		rec := &in.Records[i]
		if err := p.moveTo(ctx, rec.StreamTime, in, out); err != nil {
			return err
		}
		if err := p.add(ctx, rec, out); err != nil {
			return err
		}
	}
	return p.moveTo(ctx, in.StreamTime, in, out)
}

func (p *stepper) moveTo(ctx *operator.Context, s int64, in, out *operator.Batch) error {
	if s <= p.s {
		return nil
	}
	if err := p.advance(ctx, s, in, out); err != nil {
		return err
	}
	p.s = s
	return nil
}
