package operator

import "time"

// PunctuateWall calls fn when the machine's clock passes a multiple of every, aligned to
// 1970-01-01 UTC; multiples that pass together count as one. The step must be declared to ask for
// the clock (ProcessOptions.WallClock). When it is called depends on how fast the input came, so
// what it emits is not the same in every run.
func PunctuateWall(every time.Duration,
	fn func(ctx *Context, at int64, emit func(Record)) error) Factory {
	return func() Operator { return &punctuateWall{every: max(1, every.Milliseconds()), fn: fn} }
}

type punctuateWall struct {
	every int64
	fn    func(ctx *Context, at int64, emit func(Record)) error
	wall  int64 // when it last looked, 0 never
	place Place
}

// Process implements Operator.
func (p *punctuateWall) Process(ctx *Context, in, out *Batch) error {
	out.Records = append(out.Records, in.Records...)
	p.place.Note(in)
	before := p.wall
	if in.Wall <= before {
		return nil
	}
	p.wall = in.Wall
	at, ok := lastMultiple(before, in.Wall, p.every)
	if before == 0 || !ok {
		return nil
	}
	return p.fn(ctx, at, func(r Record) {
		p.place.Stamp(&r)
		out.Records = append(out.Records, r)
	})
}

// Place is where what the machine's clock makes due stands in the output: behind everything that a
// step was given.
type Place struct{ order, time int64 }

// Note takes a batch into account.
func (p *Place) Note(in *Batch) {
	if n := len(in.Records); n > 0 {
		p.order = max(p.order, in.Records[n-1].Order)
	}
	if n := len(in.Steps); n > 0 {
		p.order = max(p.order, in.Steps[n-1].Order)
	}
	p.time = in.StreamTime
}

// Stamp gives a record that place.
func (p *Place) Stamp(r *Record) { r.Order, r.StreamTime = p.order, p.time }
