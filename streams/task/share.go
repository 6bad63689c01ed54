package task

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/millstream-io/millstream/streams/client"
)

// Share makes a worker one of several that run the tasks of a topology together. They are members
// of the group Options.Group.
type Share struct {
	// Instance, if set, is who this worker is also after a restart: while it is away for less than
	// Session, its tasks wait for it.
	Instance string
	// Standby is how many workers keep a copy of the state of a task that another one runs.
	Standby int
	// Session is how long a worker that is not heard of keeps its tasks; 0 is 45 s.
	Session time.Duration
	// Address is where others can ask this worker for the rows of its tasks; empty says nothing.
	Address string
	// Alone, if set, runs in one of the workers at a time. The cause of its context's end is ErrMoved
	// when another worker is to run it.
	Alone func(ctx context.Context) error
}

// sharing is the side of a worker that takes part in the group.
type sharing struct {
	w      *Worker
	r      *runs
	member client.Member
	seats  map[string]*seat // by task id

	mu struct {
		sync.Mutex
		generation int
		// held are the tasks that run here, copied the standbys.
		held, copied map[string]*holding
		alone        *holding
	}
}

// holding is something that runs here until it is stopped.
type holding struct {
	stop context.CancelCauseFunc
	done chan struct{}
	copy *standby // of a standby
}

// id names a task in the group.
func (s *seat) id() string { return fmt.Sprintf("%s.%d", s.sub.Name, s.partition) }

// share runs what the group gives this worker until ctx ends or all it was given is done.
func (w *Worker) share(ctx context.Context, r *runs) error {
	s := &sharing{w: w, r: r, seats: map[string]*seat{}}
	s.mu.held, s.mu.copied = map[string]*holding{}, map[string]*holding{}
	var tasks []shared
	for _, seat := range w.seats {
		s.seats[seat.id()] = seat
		tasks = append(tasks, shared{seat.id(), len(seat.sub.Stores) > 0})
	}
	slices.SortStableFunc(tasks, func(x, y shared) int {
		return int(s.seats[x.id].partition - s.seats[y.id].partition)
	})
	opts := client.GroupOptions{Group: w.opts.Group, Instance: w.opts.Share.Instance,
		Session: w.opts.Share.Session, Topics: w.sourceTopics(), Owned: s.owned, Claim: s.claim,
		Assign: func(said map[string][]byte) map[string][]byte {
			return assignBytes(tasks, w.opts.Share.Standby, said)
		}}
	member, err := w.opts.Cluster.Join(opts)
	if err != nil {
		return err
	}
	s.member = member
	finished := false
	defer func() {
		s.endAll()
		w.mu.Lock()
		killed := w.mu.killed
		w.mu.Unlock()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
		defer cancel()
		if killed {
			cancel()
		}
		member.Close(last, finished)
	}()
	for {
		data, err := member.Next(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("pipeline %s: %w", w.opts.Topology.App, err)
		}
		var g given
		if len(data) > 0 {
			if err := json.Unmarshal(data, &g); err != nil {
				return fmt.Errorf("pipeline %s: read assignment: %w", w.opts.Topology.App, err)
			}
		}
		w.places.Store(&g.Places)
		if finished = g.Finished; finished {
			return nil
		}
		if s.adopt(ctx, g) {
			member.Rejoin()
		}
		if err := w.endRepartitions(ctx, s.names(g.Done)); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// sourceTopics are the topics from outside, by name.
func (w *Worker) sourceTopics() []string {
	topics := map[string]bool{}
	for _, sub := range w.opts.Topology.Subs {
		for i := range sub.Sources {
			if !sub.Sources[i].Repartition() {
				topics[sub.Sources[i].Topic] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(topics))
}

// owned are the partitions of an assignment, for tools.
func (s *sharing) owned(data []byte) []client.TopicPartition {
	var g given
	if json.Unmarshal(data, &g) != nil {
		return nil
	}
	seen := map[client.TopicPartition]bool{}
	for _, id := range g.Active {
		seat := s.seats[id]
		if seat == nil {
			continue
		}
		for i := range seat.sub.Sources {
			if src := &seat.sub.Sources[i]; !src.Repartition() {
				seen[client.TopicPartition{Topic: src.Topic, Partition: seat.partition}] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(seen), client.TopicPartition.Compare)
}

// claim says what this worker has.
func (s *sharing) claim() []byte {
	done := s.done()
	s.mu.Lock()
	defer s.mu.Unlock()
	c := claim{Generation: s.mu.generation, Alone: s.mu.alone != nil,
		Files: s.w.opts.StateDir != "", Address: s.w.opts.Share.Address,
		Done: done, Owned: slices.Sorted(maps.Keys(s.mu.held))}
	for id, h := range s.mu.copied {
		if lag := h.copy.lag.Load(); lag >= 0 {
			if c.Warm == nil {
				c.Warm = map[string]int64{}
			}
			c.Warm[id] = lag
		}
	}
	return encodeJSON(c)
}

// adopt makes what runs here what was given. It first ends the rest, which commits, and tells
// whether it gave up something that others wait for.
func (s *sharing) adopt(ctx context.Context, g given) (gave bool) {
	s.mu.Lock()
	s.mu.generation = g.Generation
	var ends []*holding
	take := func(have map[string]*holding, want []string) bool {
		some := false
		for id, h := range have {
			if !slices.Contains(want, id) {
				ends = append(ends, h)
				some = true
			}
		}
		return some
	}
	gave = take(s.mu.held, g.Active)
	take(s.mu.copied, g.Standby)
	lostAlone := s.mu.alone
	if g.Alone {
		lostAlone = nil
	}
	s.mu.Unlock()
	if lostAlone != nil {
		ends = append(ends, lostAlone)
		gave = true
	}
	for _, h := range ends {
		h.stop(ErrMoved)
	}
	for _, h := range ends {
		<-h.done
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := func(_ string, h *holding) bool { return slices.Contains(ends, h) }
	maps.DeleteFunc(s.mu.held, gone)
	maps.DeleteFunc(s.mu.copied, gone)
	if lostAlone != nil {
		s.mu.alone = nil
	}
	for _, id := range g.Active {
		if s.mu.held[id] == nil && s.seats[id] != nil {
			s.mu.held[id] = s.runTask(ctx, s.seats[id])
		}
	}
	for _, id := range g.Standby {
		if s.mu.copied[id] == nil && s.seats[id] != nil && s.mu.held[id] == nil {
			s.mu.copied[id] = s.runCopy(ctx, s.seats[id])
		}
	}
	if g.Alone && s.mu.alone == nil && s.w.opts.Share.Alone != nil {
		s.mu.alone = s.runAlone(ctx)
	}
	return gave
}

// hold runs fn until it is stopped.
func (s *sharing) hold(ctx context.Context, copy *standby, fn func(context.Context) error,
) *holding {
	ctx, stop := context.WithCancelCause(ctx)
	h := &holding{stop: stop, done: make(chan struct{}), copy: copy}
	s.r.tasks.Go(func() {
		defer close(h.done)
		if err := fn(ctx); err != nil {
			s.r.fail(err)
		}
	})
	return h
}

func (s *sharing) runTask(ctx context.Context, seat *seat) *holding {
	return s.hold(ctx, nil, func(ctx context.Context) error {
		err := s.r.tend(ctx, seat)
		if err == nil && ctx.Err() == nil {
			s.member.Rejoin() // to tell that it is done
		}
		return err
	})
}

// names are the names of tasks by their ids.
func (s *sharing) names(ids []string) map[string]bool {
	names := map[string]bool{}
	for _, id := range ids {
		if seat := s.seats[id]; seat != nil {
			names[seat.name] = true
		}
	}
	return names
}

// done are the tasks here that have processed the end of their input.
func (s *sharing) done() (ids []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(s.mu.held)) {
		if s.seats[id].snapshot().Phase == Done {
			ids = append(ids, id)
		}
	}
	return ids
}

func (s *sharing) runCopy(ctx context.Context, seat *seat) *holding {
	c := newStandby(s.w, seat, s.member.Rejoin)
	return s.hold(ctx, c, c.run)
}

func (s *sharing) runAlone(ctx context.Context) *holding {
	return s.hold(ctx, nil, func(ctx context.Context) error {
		err := s.w.opts.Share.Alone(ctx)
		if ctx.Err() != nil {
			return nil
		}
		return err
	})
}

// endAll ends everything, for the end of Run.
func (s *sharing) endAll() {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.mu.held))
	all = slices.AppendSeq(all, maps.Values(s.mu.copied))
	if s.mu.alone != nil {
		all = append(all, s.mu.alone)
	}
	s.mu.Unlock()
	for _, h := range all {
		h.stop(nil)
	}
	for _, h := range all {
		<-h.done
	}
}
