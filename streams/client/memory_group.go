package client

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// memGroup is a group of a Memory. A generation begins when all members have joined again.
type memGroup struct {
	mu         sync.Mutex
	generation int
	members    map[string]*memMember
	// joining: the group waits for its members to join again.
	joining bool
	nextID  int
}

// memMember is a member. Its group's lock guards all but opts.
type memMember struct {
	opts  GroupOptions
	group *memGroup
	id    string
	// joined: it has joined the generation that begins.
	joined bool
	claim  []byte
	given  []byte
	// at is the generation of given; seen the last one Next returned.
	at, seen int
	// asked: it wants a generation after the one that begins, for which it has joined already.
	asked  bool
	wake   chan struct{}
	gone   *time.Timer // runs while the member is not heard of
	closed bool
}

var _ Member = (*memMember)(nil)

// Join implements Cluster.
func (m *Memory) Join(opts GroupOptions) (Member, error) {
	opts = opts.withDefaults()
	m.mu.Lock()
	g := m.mu.members[opts.Group]
	if g == nil {
		g = &memGroup{members: map[string]*memMember{}}
		m.mu.members[opts.Group] = g
	}
	m.mu.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	me := &memMember{opts: opts, group: g, wake: make(chan struct{}, 1)}
	for id, other := range g.members {
		if opts.Instance != "" && other.opts.Instance == opts.Instance {
			if other.gone != nil {
				other.gone.Stop()
			}
			other.closed = true
			token(other.wake)
			me.id, me.given, me.at = id, other.given, other.at
			me.claim = other.claim
			g.members[id] = me
			return me, nil // it is who it was: nothing moves
		}
	}
	g.nextID++
	me.id = fmt.Sprintf("member-%d", g.nextID)
	g.members[me.id] = me
	g.rebalanceLocked()
	return me, nil
}

// token puts a token into a channel that holds one.
func token(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// rebalanceLocked asks all members to join again.
func (g *memGroup) rebalanceLocked() {
	g.joining = true
	for _, m := range g.members {
		m.joined = false
		token(m.wake)
	}
}

// completeLocked begins the generation when everybody has joined.
func (g *memGroup) completeLocked() {
	claims := map[string][]byte{}
	for id, m := range g.members {
		if !m.joined {
			return
		}
		claims[id] = m.claim
	}
	g.joining = false
	g.generation++
	ids := slices.Sorted(maps.Keys(g.members))
	given := g.members[ids[0]].opts.Assign(claims)
	again := false
	for id, m := range g.members {
		m.given, m.at = given[id], g.generation
		token(m.wake)
		again, m.asked = again || m.asked, false
	}
	if again {
		g.rebalanceLocked()
	}
}

func (m *memMember) Rejoin() {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	if !m.group.joining {
		m.group.rebalanceLocked()
	} else {
		m.asked = m.joined
	}
}

// Next implements Member.
func (m *memMember) Next(ctx context.Context) ([]byte, error) {
	g := m.group
	for {
		g.mu.Lock()
		if m.closed {
			g.mu.Unlock()
			return nil, fmt.Errorf("join group %s: %w: instance %s is taken", m.opts.Group, ErrLost,
				m.opts.Instance)
		}
		if g.joining && !m.joined {
			m.joined, m.claim = true, m.opts.Claim()
			g.completeLocked()
		}
		if m.at > m.seen {
			m.seen = m.at
			given := m.given
			g.mu.Unlock()
			return given, nil
		}
		g.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-m.wake:
		}
	}
}

// Close implements Member.
func (m *memMember) Close(ctx context.Context, leave bool) {
	g := m.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if m.closed {
		return
	}
	m.closed = true
	remove := func() {
		if g.members[m.id] != m {
			return
		}
		delete(g.members, m.id)
		if len(g.members) > 0 {
			g.rebalanceLocked()
		}
	}
	if ctx.Err() == nil && (leave || m.opts.Instance == "") {
		remove()
		return
	}
	m.gone = time.AfterFunc(m.opts.Session, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		remove()
	})
}
