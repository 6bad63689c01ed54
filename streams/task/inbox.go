package task

import (
	"sync"

	"github.com/millstream-io/millstream/streams/client"
)

// inbox is the queue between the reader of the worker and a task.
type inbox struct {
	limit int64
	// wake tells the task that there is something; it holds at most one token.
	wake chan struct{}
	// drained tells the reader that a full inbox was emptied; it holds at most one token.
	drained chan struct{}

	mu struct {
		sync.Mutex
		runs  []client.Fetched
		spare []client.Fetched
		bytes int64
		// ends are bounds that became known since the last take.
		ends map[client.TopicPartition]int64
		// paused: the reader has paused the task's partitions.
		paused bool
	}
}

func newInbox(limit int64) *inbox {
	return &inbox{
		limit: limit, wake: make(chan struct{}, 1), drained: make(chan struct{}, 1),
	}
}

// token puts a token into a channel that holds one.
func token(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// push adds a run; full tells that the reader should let the task catch up.
func (b *inbox) push(run client.Fetched) (full bool) {
	size := int64(0)
	for i := range run.Records {
		size += int64(len(run.Records[i].Key)+len(run.Records[i].Value)) + 96
	}
	b.mu.Lock()
	b.mu.runs = append(b.mu.runs, run)
	b.mu.bytes += size
	full = b.mu.bytes > b.limit
	b.mu.Unlock()
	token(b.wake)
	return full
}

// end tells the task where an input ends.
func (b *inbox) end(tp client.TopicPartition, offset int64) {
	b.mu.Lock()
	if b.mu.ends == nil {
		b.mu.ends = map[client.TopicPartition]int64{}
	}
	b.mu.ends[tp] = offset
	b.mu.Unlock()
	token(b.wake)
}

// full reports whether the inbox is over its bound, and remembers that the reader pauses it.
func (b *inbox) pauseIfFull() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.bytes <= b.limit || b.mu.paused {
		return false
	}
	b.mu.paused = true
	return true
}

func (b *inbox) isFull() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.bytes > b.limit && !b.mu.paused
}

// take empties the inbox. The runs are valid until the next take; resume tells that the reader had
// paused the task.
func (b *inbox) take() (runs []client.Fetched, ends map[client.TopicPartition]int64, resume bool) {
	b.mu.Lock()
	runs, ends, resume = b.mu.runs, b.mu.ends, b.mu.paused
	clear(b.mu.spare)
	b.mu.runs, b.mu.spare = b.mu.spare[:0], runs
	b.mu.ends, b.mu.bytes, b.mu.paused = nil, 0, false
	b.mu.Unlock()
	token(b.drained)
	return runs, ends, resume
}
