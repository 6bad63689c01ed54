package task

import (
	"time"

	"github.com/millstream-io/millstream/streams/operator"
)

// Work is what a step of a task did in this process: unlike the counters in its commits it begins
// at zero, and goes on when the task is opened again. What was done and not committed counts too.
type Work struct {
	operator.Counts
	Busy time.Duration
}

// plus adds what other did.
func (w Work) plus(other Work) Work {
	w.In += other.In
	w.Out += other.Out
	w.Late += other.Late
	w.Errors += other.Errors
	w.DeadLetters += other.DeadLetters
	w.Dropped += other.Dropped
	w.Ignored += other.Ignored
	w.Duplicates += other.Duplicates
	w.Busy += other.Busy
	return w
}

// work is what the step did since it was made.
func (s *StepStats) work() Work {
	now, was := s.Counts(s.Step), s.began
	return Work{Busy: time.Duration(s.Stats.Busy.Load()), Counts: operator.Counts{Step: s.Step,
		In: now.In - was.In, Out: now.Out - was.Out, Late: now.Late - was.Late,
		Errors: now.Errors - was.Errors, DeadLetters: now.DeadLetters - was.DeadLetters,
		Dropped: now.Dropped - was.Dropped, Ignored: now.Ignored - was.Ignored,
		Duplicates: now.Duplicates - was.Duplicates}}
}

// opened takes the counters of a core that begins, and keeps what those of the one before it say.
func (s *taskStatus) opened(stats func() []StepStats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.steps != nil {
		if s.mu.past == nil {
			s.mu.past = map[string]Work{}
		}
		for _, step := range s.mu.steps() {
			s.mu.past[step.Step] = step.work().plus(s.mu.past[step.Step])
		}
	}
	s.mu.steps = stats
}

// stepsOf are the steps with the work of all cores there were. The caller holds mu.
func (s *taskStatus) stepsOf() []StepStats {
	if s.mu.steps == nil {
		return nil
	}
	shared := s.mu.steps()
	steps := make([]StepStats, len(shared))
	for i, step := range shared {
		step.Work = step.work().plus(s.mu.past[step.Step])
		steps[i] = step
	}
	return steps
}
