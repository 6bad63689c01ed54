package server

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/millstream-io/millstream/core/metadata"
)

// ConnectionLimits bound the connections of clients that come over the network; they can change
// while the server runs. The zero value is no limit but Limits.Connections.
type ConnectionLimits struct {
	// Total bounds all connections, Kafka's max.connections. 0: Limits.Connections; negative: none
	// are accepted.
	Total int
	// PerIP bounds those of one address, max.connections.per.ip. 0: no bound; negative: none.
	PerIP int
	// ByIP are other bounds for single addresses, max.connections.per.ip.overrides; 0 is none.
	ByIP map[string]int
	// PerSecond bounds the new ones, max.connection.creation.rate: further ones wait. 0: no bound.
	PerSecond int
}

// SetConnectionLimits changes the limits for connections that are made from now on.
func (s *Server) SetConnectionLimits(l ConnectionLimits) { s.connectionLimits.Store(&l) }

// admitLocked counts a connection in, unless a limit refuses it. The caller holds mu.
func (s *Server) admitLocked(c *conn) (refusedBy string) {
	l, total := ConnectionLimits{}, s.opts.Limits.Connections
	if p := s.connectionLimits.Load(); p != nil {
		l = *p
	}
	if l.Total != 0 {
		total = max(l.Total, 0)
	}
	perIP := l.PerIP
	switch n, own := l.ByIP[c.host]; {
	case own:
		perIP = n
	case perIP == 0 || c.inMemory:
		perIP = math.MaxInt
	}
	switch {
	case s.mu.closed:
		return "closing"
	case len(s.mu.open) >= total:
		return "max.connections"
	case s.mu.byIP[c.host] >= perIP:
		return "max.connections.per.ip"
	case !c.inMemory:
		if c.closeAfter = s.quotas.Connect(c.host); c.closeAfter > 0 {
			return metadata.QuotaConnections
		}
	}
	s.mu.open[c] = struct{}{}
	s.mu.byIP[c.host]++
	s.conns.Add(1)
	return ""
}

// maxRefusedOpen bounds the connections that are refused and kept open for a while.
const maxRefusedOpen = 1000

// refuse closes a connection that a limit kept out: one over the rate of its address only after a
// while, as Kafka does, so that the client does not try again at once (KIP-612).
func (s *Server) refuse(c *conn, limit string) {
	if s.complaints.allow() {
		s.log.Warn("refused a connection: too many are open, or were made of late", "client", c.host,
			"limit", limit)
	}
	if c.closeAfter > 0 && s.refusedOpen.Add(1) <= maxRefusedOpen {
		time.AfterFunc(c.closeAfter, func() {
			c.close(nil)
			s.refusedOpen.Add(-1)
		})
		return
	} else if c.closeAfter > 0 {
		s.refusedOpen.Add(-1)
	}
	c.close(nil)
}

// releaseConn counts a connection out.
func (s *Server) releaseConn(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.open, c)
	s.mu.listenerCounts[c.listenerName()].open--
	if s.mu.byIP[c.host]--; s.mu.byIP[c.host] <= 0 {
		delete(s.mu.byIP, c.host)
	}
}

// pace is the rate of new connections of one listener.
type pace struct {
	mu   sync.Mutex
	next time.Time // when the next connection may be taken
}

// await waits until the next connection may be taken. A second's worth may come at once.
func (p *pace) await(ctx context.Context, perSecond int) bool {
	if perSecond <= 0 {
		return true
	}
	p.mu.Lock()
	now := time.Now()
	if oldest := now.Add(-time.Second); p.next.Before(oldest) {
		p.next = oldest
	}
	p.next = p.next.Add(time.Second / time.Duration(perSecond))
	due := p.next.Sub(now)
	p.mu.Unlock()
	return due <= 0 || wait(ctx, due)
}
