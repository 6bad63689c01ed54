package task

import (
	"time"

	"github.com/millstream-io/millstream/core/record"
)

// processor is what the loop drives: Core, or a small machine in the loop's own tests.
type processor interface {
	Inputs() []Input
	Add(topic string, partition int32, recs []record.Record, next int64) error
	TableReady(topic string, partition int32)
	EndOfInput(topic string, partition int32)
	Run(limit int) (n int, err error)
	Watermarks()
	TakeOutputs(dst []Output) []Output
	Paused(dst []Input) []Input
	Snapshot() []byte
	StreamTime() int64
	Buffered() (records int, bytes int64)
	Done() bool
	Stats() []StepStats
}

// decider is a processor that can go on without idle inputs.
type decider interface {
	Idle(topic string, partition int32)
	Undecided() bool
	Decide() []Decision
}

// waller is a processor whose steps may ask for the machine's clock.
type waller interface {
	WantsWall() bool
	SetWall(ms int64)
}

var _ waller = (*Core)(nil)

// positioner is a processor that tells how far it has come in a partition: nothing of the records
// below is in its queues any more.
type positioner interface {
	Position(topic string, partition int32) int64
	Transient() bool
}

var _ positioner = (*Core)(nil)

// wallTick is how often steps that ask for the clock are called.
const wallTick = 50 * time.Millisecond

var _ decider = (*Core)(nil)

var _ processor = (*Core)(nil)
