package operator

import "sync/atomic"

// Stats are the counters of one step of one task since its first record: they are kept in the
// task's commits, so a restart goes on with those of the last commit. Any goroutine may read them.
type Stats struct {
	// In and Out count records entering and leaving; for a step with several outputs Out is
	// their sum. For a sink Out counts records written.
	In, Out atomic.Int64
	// Late counts records with at least one window closed to them.
	Late atomic.Int64
	// Errors counts failed records; DeadLetters and Dropped what became of those that did not
	// stop the task. Late records sent to the dead-letter topic are in DeadLetters, not Errors.
	Errors, DeadLetters, Dropped atomic.Int64
	// Ignored counts records that mean nothing to the step, such as a null value in an aggregate.
	Ignored atomic.Int64
	// Duplicates counts records read twice and recognised by their lane's sequence.
	Duplicates atomic.Int64

	// Busy is the time spent in the step in ns, estimated from samples; it is not kept in commits.
	Busy atomic.Int64

	lastLate atomic.Pointer[LateReport]
}

// LastLate returns the report of the latest late record, nil if there was none.
func (s *Stats) LastLate() *LateReport { return s.lastLate.Load() }

// Counts are Stats at one moment, as a snapshot keeps them.
type Counts struct {
	Step        string `json:"s"`
	In          int64  `json:"i,omitempty"`
	Out         int64  `json:"o,omitempty"`
	Late        int64  `json:"l,omitempty"`
	Errors      int64  `json:"e,omitempty"`
	DeadLetters int64  `json:"d,omitempty"`
	Dropped     int64  `json:"x,omitempty"`
	Ignored     int64  `json:"g,omitempty"`
	Duplicates  int64  `json:"r,omitempty"`
}

// Counts reads all counters.
func (s *Stats) Counts(step string) Counts {
	return Counts{step, s.In.Load(), s.Out.Load(), s.Late.Load(), s.Errors.Load(),
		s.DeadLetters.Load(), s.Dropped.Load(), s.Ignored.Load(), s.Duplicates.Load()}
}

// Restore sets all counters.
func (s *Stats) Restore(c Counts) {
	s.In.Store(c.In)
	s.Out.Store(c.Out)
	s.Late.Store(c.Late)
	s.Errors.Store(c.Errors)
	s.DeadLetters.Store(c.DeadLetters)
	s.Dropped.Store(c.Dropped)
	s.Ignored.Store(c.Ignored)
	s.Duplicates.Store(c.Duplicates)
}
