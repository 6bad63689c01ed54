package task

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/millstream-io/millstream/core/record"
	"github.com/millstream-io/millstream/streams/state"
)

// standby keeps a copy of the state of a task that another worker runs: a state file that follows
// the commits in the changelog. The task becomes active here by opening that file.
type standby struct {
	w    *Worker
	seat *seat
	// warm is called once, when the copy is near enough to the end to be taken over.
	warm func()
	// lag is how many changelog records behind it is, -1 before that is known.
	lag atomic.Int64
}

func newStandby(w *Worker, s *seat, warm func()) *standby {
	c := &standby{w: w, seat: s, warm: warm}
	c.lag.Store(-1)
	return c
}

// run follows until ctx ends. Trouble that may pass is waited out; the copy is of use only when it
// is there, so no trouble with it ends the pipeline.
func (c *standby) run(ctx context.Context) error {
	wait := firstReopen
	for {
		err := c.follow(ctx)
		if ctx.Err() != nil {
			return nil
		}
		c.seat.status.trouble(err)
		c.w.opts.Logger.Warn("standby stopped, it is tried again", "task", c.seat.name, "error", err)
		pause := time.NewTimer(wait)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return nil
		}
		wait = min(2*wait, longestReopen)
	}
}

// follow applies the changelog, commit by commit.
func (c *standby) follow(ctx context.Context) (err error) {
	t := newLoop(c.w.opts, c.seat)
	s := c.w.setup.of(t)
	if err := t.openState(ctx, s.changelogID); err != nil {
		return err
	}
	defer func() {
		c.seat.status.reader.Store(nil)
		err = errors.Join(err, t.db.Close())
	}()
	consumer, err := c.w.opts.Cluster.Consumer()
	if err != nil {
		return err
	}
	defer consumer.Close()
	log, err := t.changelogRange(ctx)
	if err != nil {
		return err
	}
	if err := t.fitState(s.changelogID, log); err != nil {
		return err
	}
	from := max(t.db.Meta().Next, log.Start)
	c.seat.status.phase(Standby)
	c.progress(from, log.End)
	consumer.Assign(t.changelog, from)
	for {
		runs, err := consumer.Poll(ctx)
		if err != nil {
			return err
		}
		for _, run := range runs {
			if err := c.apply(t, run.Records); err != nil {
				return fmt.Errorf("standby of task %s: %w", t.name, err)
			}
			c.progress(run.Next, run.End)
		}
	}
}

// apply makes rows committed at each commit record.
func (c *standby) apply(t *loop, records []record.Record) error {
	for i := range records {
		r := &records[i]
		if !state.IsMetaKey(r.Key) {
			if err := t.db.Apply(r.Key, r.Value); err != nil {
				return err
			}
			if t.db.PendingBytes() < restoreChunk {
				continue
			}
			// All of it is committed, and the record that says so follows.
			if err := t.db.Commit(time.Now(), state.Meta{Next: r.Offset + 1}); err != nil {
				return err
			}
			continue
		}
		if err := t.db.Commit(time.Now(), state.Meta{Next: r.Offset + 1, Commit: r.Value}); err != nil {
			return err
		}
	}
	return nil
}

// progress notes how far it is, and tells once that it is near enough.
func (c *standby) progress(at, end int64) {
	was := c.lag.Swap(max(0, end-at))
	c.seat.status.restore(at, end)
	c.seat.status.changelogEnd.Store(end)
	if c.lag.Load() <= warmLag && (was < 0 || was > warmLag) {
		c.warm()
	}
}
