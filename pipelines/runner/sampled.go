package runner

import (
	"context"
	"log/slog"
	"time"

	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/task"
)

// Bounds of what is logged about single records: so many lines in that time, and how many were
// left out with the next line.
const (
	sampleLines = 5
	sampleEvery = 10 * time.Second
)

// sampledLog bounds a kind of line that may come with every record. It belongs to one goroutine.
type sampledLog struct {
	now     func() time.Time
	begun   time.Time
	lines   int
	leftOut int64
}

func (s *sampledLog) warn(log *slog.Logger, message string, args ...any) {
	if now := s.now(); now.Sub(s.begun) >= sampleEvery {
		s.begun, s.lines = now, 0
	}
	if s.lines++; s.lines > sampleLines {
		s.leftOut++
		return
	}
	if s.leftOut > 0 {
		args = append(args, "left_out", s.leftOut)
		s.leftOut = 0
	}
	log.Warn(message, args...)
}

// lateEvery is how often late records are reported, all of a step in one line.
const lateEvery = 2 * time.Second

// reportLate logs late records while the worker runs, with the window and the stream time of the
// last one, until ctx ends, and a last time then.
func reportLate(ctx context.Context, worker *task.Worker, log *slog.Logger) {
	tick := time.NewTicker(lateEvery)
	defer tick.Stop()
	seen := map[string]int64{}
	for {
		select {
		case <-tick.C:
			logLate(worker.Status(), seen, log)
		case <-ctx.Done():
			logLate(worker.Status(), seen, log)
			return
		}
	}
}

// logLate logs each step that has more late records than seen says. Those of earlier runs, of which
// there is no report, are not repeated.
func logLate(status task.Status, seen map[string]int64, log *slog.Logger) {
	total, last := map[string]int64{}, map[string]*operator.LateReport{}
	for _, t := range status.Tasks {
		for _, step := range t.Steps {
			total[step.Step] += step.Late.Load()
			if report := step.LastLate(); report != nil {
				last[step.Step] = report
			}
		}
	}
	for step, report := range last {
		if total[step] == seen[step] {
			continue
		}
		seen[step] = total[step]
		log.Warn("records came late", "step", report.Step, "late", total[step],
			"last", report.String(), "topic", report.Topic, "partition", report.Partition,
			"offset", report.Offset)
	}
}
