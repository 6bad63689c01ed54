package coordinator

import "context"

// Survey is how the shards of a Runtime are.
type Survey struct {
	// Leading are the shards that this node leads, Loading those of them that still load, Silent
	// those that had no answer in time: their disk is slow.
	Leading, Loading, Silent int
}

// AskAll hands an input that only looks to every shard and gives fn the answers, in any order, on
// the caller's goroutine. It ends with ctx: shards that are slow by then are left out.
func (r *Runtime) AskAll(ctx context.Context, in any, fn func(shard int32, out any)) Survey {
	type result struct {
		shard int32
		out   any
		code  ErrorCode
	}
	leading := r.Leading()
	s := Survey{Leading: len(leading)}
	ch := make(chan result, len(leading))
	for n := range leading {
		r.Submit(n, in, func(out any, code ErrorCode) { ch <- result{n, out, code} })
	}
	for got := range len(leading) {
		select {
		case a := <-ch:
			switch a.code {
			case CodeNone:
				fn(a.shard, a.out)
			case CodeCoordinatorLoadInProgress:
				s.Loading++
			}
		case <-ctx.Done():
			s.Silent = len(leading) - got
			return s
		}
	}
	return s
}
