package operator

import "sync/atomic"

// Stats are the counters of one step of one task since it started. Any goroutine may read them.
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

	lastLate atomic.Pointer[LateReport]
}

// LastLate returns the report of the latest late record, nil if there was none.
func (s *Stats) LastLate() *LateReport { return s.lastLate.Load() }
