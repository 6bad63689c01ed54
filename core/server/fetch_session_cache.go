package server

import (
	"math/rand/v2"
	"sync"
	"time"
)

// defaultFetchSessions is Kafka's max.incremental.fetch.session.cache.slots.
const defaultFetchSessions = 1000

// fetchSessionIdle is how long a session must be unused, or old, to give way to a new one.
const fetchSessionIdle = 2 * time.Minute

// fetchSessionMemory bounds what the sessions of all clients hold together, whatever number of
// partitions each names: about 400 000 of them.
const fetchSessionMemory = 128 << 20

// fetchSessionCache has the fetch sessions of all clients (KIP-227). Sessions take slots; when none
// is free, a new one takes the place of one that was not used for two minutes, or of the smallest
// one that is smaller than it and two minutes old. If there is neither, the client gets none,
// which it must be able to live with. There are no privileged sessions: no followers.
type fetchSessionCache struct {
	// slots bounds the sessions, memory the bytes they hold. Both are set once.
	slots  int
	memory int64

	mu struct {
		sync.Mutex
		byID map[int32]*fetchSession
		// oldest and newest are the ends of the list by last use.
		oldest, newest *fetchSession
		// partitions and bytes are the sums over the sessions.
		partitions int
		bytes      int64
		// evicted counts the sessions that gave way.
		evicted int64
	}
}

// newFetchSessionCache makes a cache of so many slots: 0 takes the default, less is none.
func newFetchSessionCache(slots int, memory int64) *fetchSessionCache {
	if slots == 0 {
		slots = defaultFetchSessions
	}
	c := &fetchSessionCache{slots: slots, memory: memory}
	c.mu.byID = make(map[int32]*fetchSession)
	return c
}

// find returns the session with an id, nil if there is none.
func (c *fetchSessionCache) find(id int32) *fetchSession {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.byID[id]
}

// add gives s an id and a slot. It reports false when there is none for it.
func (c *fetchSessionCache) add(s *fetchSession, now time.Time) bool {
	partitions, bytes := s.size()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.slots < 0 || c.mu.bytes+bytes > c.memory {
		return false
	}
	if len(c.mu.byID) >= c.slots {
		victim := c.victimLocked(partitions, now)
		if victim == nil {
			return false
		}
		c.removeLocked(victim)
		c.mu.evicted++
	}
	for s.id == 0 || c.mu.byID[s.id] != nil {
		s.id = rand.Int32N(1<<31-1) + 1
	}
	s.created = now
	s.cached.partitions, s.cached.bytes, s.cached.lastUsed = partitions, bytes, now
	c.mu.byID[s.id] = s
	c.mu.partitions += partitions
	c.mu.bytes += bytes
	c.linkLocked(s)
	return true
}

// victimLocked finds the session that gives way to one of so many partitions, nil if none does. A
// look at each of them is cheaper than to keep them sorted: it happens only when all slots are
// taken by sessions in use.
func (c *fetchSessionCache) victimLocked(partitions int, now time.Time) *fetchSession {
	if s := c.mu.oldest; s != nil && now.Sub(s.cached.lastUsed) > fetchSessionIdle {
		return s
	}
	var smallest *fetchSession
	for s := c.mu.oldest; s != nil; s = s.cached.newer {
		if now.Sub(s.created) > fetchSessionIdle && s.cached.partitions < partitions &&
			(smallest == nil || s.cached.partitions < smallest.cached.partitions) {
			smallest = s
		}
	}
	return smallest
}

// touch records that s was used and how large it is now. It reports false when that is more than
// there is memory for: then s is removed.
func (c *fetchSessionCache) touch(
	s *fetchSession, partitions int, bytes int64, now time.Time,
) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.byID[s.id] != s {
		return true // it gave way meanwhile, which its next request finds out
	}
	c.mu.partitions += partitions - s.cached.partitions
	c.mu.bytes += bytes - s.cached.bytes
	grown := bytes > s.cached.bytes
	s.cached.partitions, s.cached.bytes, s.cached.lastUsed = partitions, bytes, now
	if grown && c.mu.bytes > c.memory {
		c.removeLocked(s)
		return false
	}
	c.unlinkLocked(s)
	c.linkLocked(s)
	return true
}

// remove ends the session with an id, if there is one.
func (c *fetchSessionCache) remove(id int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.mu.byID[id]; s != nil {
		c.removeLocked(s)
	}
}

func (c *fetchSessionCache) removeLocked(s *fetchSession) {
	delete(c.mu.byID, s.id)
	c.mu.partitions -= s.cached.partitions
	c.mu.bytes -= s.cached.bytes
	c.unlinkLocked(s)
}

// linkLocked makes s the newest one.
func (c *fetchSessionCache) linkLocked(s *fetchSession) {
	s.cached.older = c.mu.newest
	if c.mu.newest != nil {
		c.mu.newest.cached.newer = s
	} else {
		c.mu.oldest = s
	}
	c.mu.newest = s
}

// unlinkLocked takes s out of the list.
func (c *fetchSessionCache) unlinkLocked(s *fetchSession) {
	older, newer := s.cached.older, s.cached.newer
	if older != nil {
		older.cached.newer = newer
	} else {
		c.mu.oldest = newer
	}
	if newer != nil {
		newer.cached.older = older
	} else {
		c.mu.newest = older
	}
	s.cached.older, s.cached.newer = nil, nil
}

// sizes returns the number of sessions and of partitions in them, and how many gave way.
func (c *fetchSessionCache) sizes() (sessions, partitions int, evicted int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.mu.byID), c.mu.partitions, c.mu.evicted
}
