package operator

import "time"

// Punctuate calls fn when a record of the task moves stream time past a multiple of every, aligned
// to 1970-01-01 UTC. Multiples between two records count as one, the last of them: so watermarks
// alone, of which there may be few or many between the same records, fire nothing. The first time
// of all and the end of input pass none. What fn emits comes before the record that moved time, at
// the same stream time, also when that was filtered out before; records pass on unchanged. Which
// multiples were passed follows from the times of the records, so nothing has to be kept.
func Punctuate(every time.Duration,
	fn func(ctx *Context, at int64, emit func(Record)) error) Factory {
	return func() Operator { return &punctuate{every: max(1, every.Milliseconds()), fn: fn} }
}

type punctuate struct {
	every int64
	fn    func(ctx *Context, at int64, emit func(Record)) error
	ready bool
	s     int64
}

// Process implements Operator.
func (p *punctuate) Process(ctx *Context, in, out *Batch) error {
	if !p.ready {
		p.ready, p.s = true, ctx.StartEventTime()
	}
	steps := in.Steps
	for i := range in.Records {
		for len(steps) > 0 && steps[0].Order < in.Records[i].Order {
			if err := p.advance(ctx, steps[0], out); err != nil {
				return err
			}
			steps = steps[1:]
		}
		out.Append(&in.Records[i])
	}
	for _, step := range steps {
		if err := p.advance(ctx, step, out); err != nil {
			return err
		}
	}
	return nil
}

func (p *punctuate) advance(ctx *Context, step TimeStep, out *Batch) error {
	if !step.Event || step.Time <= p.s {
		return nil
	}
	before := p.s
	p.s = step.Time
	at, ok := lastMultiple(before, step.Time, p.every)
	if !ok {
		return nil
	}
	return p.fn(ctx, at, func(r Record) {
		r.Order, r.StreamTime = step.Order, step.Time
		out.Records = append(out.Records, r)
	})
}

// lastMultiple returns the last multiple of every that stream time passes between before and s.
func lastMultiple(before, s, every int64) (at int64, ok bool) {
	if before == NoTime || s == EndOfTime {
		return 0, false
	}
	m := s % every
	if m < 0 {
		m += every
	}
	return s - m, s-m > before
}
