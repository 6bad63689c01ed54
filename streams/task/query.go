package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/millstream-io/millstream/streams/client"
	"github.com/millstream-io/millstream/streams/operator"
	"github.com/millstream-io/millstream/streams/state"
)

// Part is the state of one task as others than the task may look at it.
type Part struct {
	// Name is <app>.<sub>.<partition>; Sub and Partition are its parts.
	Name      string
	Sub       string
	Partition int32
	Phase     Phase
	// Address is what the worker said that runs the task, when that is another one.
	Address string

	w      *Worker
	seat   *seat
	reader *state.Reader // nil when there is no file here
}

// Position says what committed rows are made of, and what they are behind.
type Position struct {
	Changelog string
	// Next is the changelog offset up to which rows are in the state file, End that of the last
	// commit known here. Lag is what is between them.
	Next, End, Lag int64
	// Whole tells that the rows are those of one commit; a restore may stand between two.
	Whole bool
	// Inputs are where reading goes on for these rows.
	Inputs []InputStatus
	// StreamTime of the rows, operator.NoTime before any.
	StreamTime int64
	// LastCommit of the task, zero where it does not run.
	LastCommit time.Time
}

// Parts are the tasks of a sub-topology, those that others run included.
func (w *Worker) Parts(sub string) []*Part {
	var parts []*Part
	places := w.places.Load()
	for _, s := range w.seats {
		if s.sub.Name != sub {
			continue
		}
		p := &Part{Name: s.name, Sub: s.sub.Name, Partition: s.partition, w: w, seat: s,
			Phase: s.snapshot().Phase, reader: s.status.reader.Load()}
		if places != nil && (p.reader == nil || p.Phase == Standby) {
			p.Address = (*places)[s.id()]
		}
		parts = append(parts, p)
	}
	return parts
}

// Here tells whether there is a state file to look at: of the task itself, of a standby, or of a
// task that has ended here.
func (p *Part) Here() bool {
	if p.reader != nil {
		return true
	}
	if !p.ended() {
		return false
	}
	_, err := os.Stat(p.path())
	return err == nil
}

func (p *Part) ended() bool { return p.Phase == Done || p.Phase == Stopped || p.Phase == Failed }

func (p *Part) path() string { return statePath(&p.w.opts, p.Sub, p.Partition) }

// look calls fn with the reader of the state file.
func (p *Part) look(fn func(*state.Reader) error) (err error) {
	if p.reader != nil {
		return fn(p.reader)
	}
	if !p.ended() || p.InMemory() {
		return state.ErrClosed
	}
	r, end, err := state.OpenClosed(p.path())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	return fn(r)
}

// Fresh tells whether the rows are those of the task that runs, and not of a copy or of a restore
// that is under way.
func (p *Part) Fresh() bool { return p.Phase == Running || p.Phase == Done }

// InMemory tells that the worker keeps no state files, so that nothing can be looked at.
func (p *Part) InMemory() bool { return p.w.opts.StateDir == "" }

// Restored is how many changelog records a restore has read, and of how many.
func (p *Part) Restored() (read, of int64) {
	st := p.seat.snapshot()
	return st.Restored, st.ToRestore
}

// View calls fn with the committed rows in the state file and their position. It fails with
// state.ErrClosed when the task has just gone.
func (p *Part) View(fn func(*state.View, Position) error) error {
	return p.look(func(r *state.Reader) error {
		return r.View(func(v *state.View) error {
			at, err := p.position(v)
			if err != nil {
				return err
			}
			return fn(v, at)
		})
	})
}

// Snapshot copies the committed rows, for what takes longer; the caller closes it.
func (p *Part) Snapshot() (*state.Snapshot, Position, error) {
	var s *state.Snapshot
	err := p.look(func(r *state.Reader) (err error) {
		s, err = r.Snapshot()
		return err
	})
	if err != nil {
		return nil, Position{}, fmt.Errorf("task %s: %w", p.Name, err)
	}
	at, err := p.position(s.View)
	if err != nil {
		return nil, Position{}, fmt.Errorf("task %s: %w", p.Name, errors.Join(err, s.Close()))
	}
	return s, at, nil
}

// Flush has the task write what it has committed to its state file, so that a View that follows has
// all that was committed before.
func (p *Part) Flush(ctx context.Context) error {
	p.w.mu.Lock()
	t := p.seat.loop
	p.w.mu.Unlock()
	if t == nil {
		return state.ErrClosed
	}
	done := make(chan error, 1)
	select {
	case t.flushes <- done:
	case <-t.done:
		return state.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-done:
		return err
	case <-t.done:
		return state.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// position works out where the rows of a view stand.
func (p *Part) position(v *state.View) (Position, error) {
	st := p.seat.snapshot()
	at := Position{Changelog: ChangelogTopic(p.w.opts.Topology.App, p.Sub), Next: v.Meta.Next,
		End: max(v.Meta.Next, p.seat.status.changelogEnd.Load()), Whole: v.Meta.Commit != nil,
		StreamTime: operator.NoTime, LastCommit: st.LastCommit}
	at.Lag = at.End - at.Next
	if !at.Whole {
		return at, nil
	}
	c, err := decodeCommit(v.Meta.Commit)
	if err != nil {
		return at, fmt.Errorf("read position of task %s: %w", p.Name, err)
	}
	if len(c.Snapshot) == 0 { // of the first commit, before anything was read
		return at, nil
	}
	var s snapshot
	if err := json.Unmarshal(c.Snapshot, &s); err != nil {
		return at, fmt.Errorf("read position of task %s: %w: %w", p.Name, ErrSnapshot, err)
	}
	at.StreamTime = s.Time
	for _, in := range s.Inputs {
		x := InputStatus{Topic: in.Topic, Partition: in.Partition, Position: in.Offset}
		for _, from := range c.From {
			if from.Topic == in.Topic && from.Partition == in.Partition {
				x.Position = max(x.Position, from.Offset)
			}
		}
		x.End = x.Position
		for _, now := range st.Inputs {
			if now.Topic == in.Topic && now.Partition == in.Partition {
				x.End, x.Table = max(x.Position, now.End), now.Table
			}
		}
		x.Lag = x.End - x.Position
		at.Inputs = append(at.Inputs, x)
	}
	return at, nil
}

// flushQuiet writes what is committed to the state file in time also when no commit follows, and
// returns when to look again, 0 for not before the next one. Rows that cannot be written stay in
// memory, as at a commit.
func (t *loop) flushQuiet() time.Duration {
	next, err := t.db.FlushDue(time.Now())
	t.filed(err)
	t.status.mu.Lock()
	t.status.mu.memory = t.db.Memory()
	t.status.mu.Unlock()
	return next
}

// filed notes what became of a write of the state file, if there was one.
func (t *loop) filed(err error) {
	s := t.status
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil && t.db.DirtyBytes() == 0:
		s.mu.unfiled = client.Trouble{}
	case err != nil:
		t.log.Error("state file cannot be written; rows stay in memory", "error", err,
			"bytes", t.db.DirtyBytes())
		if s.mu.lastError = err.Error(); !s.mu.unfiled.Is() {
			s.mu.unfiled.Since = time.Now()
		}
		s.mu.unfiled.Error = s.mu.lastError
	}
}

// flushAsked writes what is committed to the state file for those who want to look at it.
func (t *loop) flushAsked() {
	for {
		select {
		case done := <-t.flushes:
			done <- t.db.Flush()
		default:
			return
		}
	}
}
