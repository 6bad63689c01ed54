package operator

import "time"

// Punctuate calls fn when stream time passes a multiple of every, aligned to 1970-01-01 UTC.
// Multiples that one move of time passes together count as one, the last of them. The first time
// of all and the end of input pass none. What fn emits comes before the record that moved time;
// records pass on unchanged. Which multiples were passed follows from stream time, so nothing has
// to be kept.
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
		p.ready, p.s = true, ctx.StartTime()
	}
	for i := range in.Records {
		if err := p.advance(ctx, in.Records[i].StreamTime, in, out); err != nil {
			return err
		}
		out.Append(&in.Records[i])
	}
	return p.advance(ctx, in.StreamTime, in, out)
}

func (p *punctuate) advance(ctx *Context, s int64, in, out *Batch) error {
	if s <= p.s {
		return nil
	}
	before := p.s
	p.s = s
	at, ok := LastMultiple(before, s, p.every)
	if !ok {
		return nil
	}
	order := in.OrderAt(at)
	return p.fn(ctx, at, func(r Record) {
		r.Order, r.StreamTime = order, at-1
		out.Records = append(out.Records, r)
	})
}

// LastMultiple returns the last multiple of every that stream time passes between before and s.
func LastMultiple(before, s, every int64) (at int64, ok bool) {
	if before == NoTime || s == EndOfTime {
		return 0, false
	}
	m := s % every
	if m < 0 {
		m += every
	}
	return s - m, s-m > before
}
