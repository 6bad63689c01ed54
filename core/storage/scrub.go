package storage

import (
	"context"
	"errors"
	"time"
)

// scrubStart is how long after its start a process begins to scrub, so that nothing that is needed
// then has to wait for it.
const scrubStart = 5 * time.Minute

// scrubLook is the time between two looks for sealed segments that are due.
const scrubLook = time.Minute

// runScrub reads sealed segments, one after another and slowly, and looks whether they are intact:
// bits rot also where nobody reads. What it finds is not served any more.
func (d *Dir) runScrub(ctx context.Context) {
	timer := time.NewTimer(scrubStart)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		d.scrub(ctx, func(n int64) error { return d.scrubPause(ctx, n) })
		timer.Reset(scrubLook)
	}
}

// Scrub checks all sealed segments that are due now, without a pause.
func (d *Dir) Scrub(ctx context.Context) {
	d.scrub(ctx, func(int64) error { return ctx.Err() })
}

// errScrubOff ends a round when scrubbing was turned off.
var errScrubOff = errors.New("scrubbing was turned off")

// scrubPause waits as long as n bytes take at the rate.
func (d *Dir) scrubPause(ctx context.Context, n int64) error {
	rate := d.settings.Load().ScrubBytesPerSecond
	if rate <= 0 {
		return errScrubOff
	}
	timer := time.NewTimer(time.Duration(float64(n) / float64(rate) * float64(time.Second)))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func (d *Dir) scrub(ctx context.Context, pause func(int64) error) {
	for _, l := range d.Logs() {
		set := d.settings.Load()
		if set.ScrubBytesPerSecond <= 0 || ctx.Err() != nil || d.failure() != nil {
			return
		}
		if l.readable() != nil {
			continue
		}
		list := *l.segments.Load()
		for _, s := range list[:max(len(list)-1, 0)] {
			if d.nowMS()-s.scrubbedMS.Load() < set.ScrubInterval.Milliseconds() || !s.acquire() {
				continue
			}
			err := l.scrubSegment(s, pause)
			s.release()
			if errors.Is(err, errScrubOff) || ctx.Err() != nil {
				return
			}
			if err != nil {
				d.logger.Warn("segment not scrubbed", "partition", l.tp, "base", s.base, "error", err)
			}
			s.scrubbedMS.Store(d.nowMS())
		}
	}
}

// scrubSegment checks a sealed segment, which the caller has acquired.
func (l *Log) scrubSegment(s *segment, pause func(int64) error) error {
	limit, end := l.checkOrder(s), s.state().size
	read := int64(0)
	slowly := func(n int64) error {
		l.owner.counters().ScrubbedBytes.Add(n)
		if read += n; read < recoveryBuffer {
			return nil
		}
		n, read = read, 0
		return pause(n)
	}
	for at := int64(0); at < end; {
		d, found, err := s.firstDamage(byteSpan{at, end}, limit, slowly)
		if err != nil || !found {
			return err
		}
		s.checks.mu.Lock()
		// Readers must look from here on, also where this process has written.
		s.checks.from.Store(max(s.checks.from.Load(), end))
		s.checks.add(byteSpan{at, d.pos})
		l.foundDamageLocked(s, d)
		s.checks.mu.Unlock()
		at = d.end
	}
	return l.checkScrubbedAborts(s)
}

// checkScrubbedAborts holds the index of aborted transactions against the log, as a start does.
func (l *Log) checkScrubbedAborts(s *segment) error {
	if s.mu.aborts.count.Load() == 0 {
		return nil
	}
	list := *l.segments.Load()
	for i := range list {
		if list[i] != s {
			continue
		}
		err := l.checkAbortsOf(list[:i+1], s)
		if errors.Is(err, errTorn) {
			l.owner.counters().Damages.Add(1)
			l.logger.Error("damaged index of aborted transactions, the next start makes it anew",
				"partition", l.tp, "file", s.mu.aborts.name, "error", err)
			return nil
		}
		return err
	}
	return nil // it was compacted or deleted meanwhile
}
