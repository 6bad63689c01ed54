package txn

import (
	"context"
	"fmt"
)

// producerIDs gives out producer ids from blocks that the controller allocates. A block that
// is not used up is lost with the process: ids are plenty.
type producerIDs struct {
	allocate func(ctx context.Context) (first int64, n int32, err error)
	// turn holds the state; it is a channel because allocating takes a write to the raft log.
	turn chan producerIDBlock
}

// producerIDBlock is the rest [next, end) of a block.
type producerIDBlock struct{ next, end int64 }

func newProducerIDs(
	allocate func(ctx context.Context) (int64, int32, error),
) *producerIDs {
	p := &producerIDs{allocate: allocate, turn: make(chan producerIDBlock, 1)}
	p.turn <- producerIDBlock{}
	return p
}

// next returns an id that no other producer has.
func (p *producerIDs) next(ctx context.Context) (int64, error) {
	var block producerIDBlock
	select {
	case block = <-p.turn:
	case <-ctx.Done():
		return -1, ctx.Err()
	}
	defer func() { p.turn <- block }()
	if block.next == block.end {
		first, n, err := p.allocate(ctx)
		if err != nil {
			return -1, fmt.Errorf("allocate producer ids: %w", err)
		}
		block = producerIDBlock{next: first, end: first + int64(n)}
	}
	block.next++
	return block.next - 1, nil
}
