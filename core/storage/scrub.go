package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
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
		if err != nil {
			return err
		}
		if !found {
			break
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

// checkScrubbedAborts holds the index of aborted transactions against the log, as a start does, and
// makes it anew from there if it does not fit.
func (l *Log) checkScrubbedAborts(s *segment) error {
	if s.mu.aborts.count.Load() == 0 {
		return nil
	}
	rewinds, list := l.rewinds.Load(), *l.segments.Load()
	i := slices.Index(list, s)
	if i < 0 {
		return nil // it was compacted or deleted meanwhile
	}
	err := l.checkAbortsOf(list[:i+1], s)
	if !errors.Is(err, errTorn) && !errors.Is(err, io.EOF) {
		return err
	}
	l.owner.counters().Damages.Add(1)
	l.logger.Error("damaged index of aborted transactions, it is made anew from the log",
		"partition", l.tp, "file", s.mu.aborts.name, "error", err)
	entries, err := l.readAborts(list[:i+1], s)
	if err == nil {
		err = l.replaceAborts(s, entries, rewinds)
	}
	if err != nil {
		return fmt.Errorf("make %s anew: %w", s.mu.aborts.name, err)
	}
	return nil
}

// readAborts reads the transactions whose marker is in s, the last one of list, from the log.
func (l *Log) readAborts(list []*segment, s *segment) ([]abortedTxn, error) {
	offsets, err := l.snapshotOffsets()
	if err != nil {
		return nil, err
	}
	table, from := producerTable{}, list[0].base
	for _, at := range slices.Backward(offsets) {
		if at > s.base || at < from {
			continue
		}
		t, err := readSnapshot(l.fsys, l.dir(), at)
		if err == nil {
			table, from = t, at
			break
		}
		if !errors.Is(err, ErrBadFile) && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	state, entries := newProducerState(table), []abortedTxn{}
	for i, o := range list {
		if i+1 < len(list) && list[i+1].base <= from {
			continue
		}
		if !o.acquire() {
			return nil, fmt.Errorf("segment %d went meanwhile: %w", o.base, ErrCleaningVoid)
		}
		err := o.replayFrom(&state, from, math.MaxInt64, l.clock(), func(a abortedTxn) {
			if o == s {
				entries = append(entries, a)
			}
		})
		if o.release(); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// replaceAborts puts entries in the place of what the index of a sealed segment has, unless the log
// was truncated since rewinds.
func (l *Log) replaceAborts(s *segment, entries []abortedTxn, rewinds int64) error {
	defer l.claimSegments()()
	if l.rewinds.Load() != rewinds || !slices.Contains(*l.segments.Load(), s) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.mu.aborts.overwrite(entries); err != nil {
		return l.diskError(err)
	}
	return nil
}
