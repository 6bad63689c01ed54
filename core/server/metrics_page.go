package server

import (
	"maps"
	"slices"

	"github.com/millstream-io/millstream/core/metrics"
	"github.com/millstream-io/millstream/core/protocol"
	"github.com/millstream-io/millstream/core/replica"
)

// The families of this package. Their order is that of the page.
var (
	famRequest = &metrics.Family{Name: "millstream_request_duration_seconds",
		Help: "Time from the last byte of a request to the last byte of its answer.",
		Kind: metrics.Distribution, Labels: []string{"api"},
		Kafka: "kafka.network:RequestMetrics,TotalTimeMs, RequestsPerSec"}
	famLocal = &metrics.Family{Name: "millstream_request_local_seconds",
		Help: "Part of it in which the broker worked on the request.",
		Kind: metrics.Distribution, Labels: []string{"api"},
		Kafka: "kafka.network:RequestMetrics,LocalTimeMs"}
	famQueue = &metrics.Family{Name: "millstream_request_queue_seconds",
		Help: "Part of it in which the request waited for its turn, of those that had to.",
		Kind: metrics.Distribution, Labels: []string{"api"},
		Kafka: "kafka.network:RequestMetrics,RequestQueueTimeMs"}
	famWait = &metrics.Family{Name: "millstream_request_wait_seconds",
		Help: "Part of it in which the request waited for a sync, new records or other members, of " +
			"those that did.",
		Kind: metrics.Distribution, Labels: []string{"api"},
		Kafka: "kafka.network:RequestMetrics,RemoteTimeMs"}
	famResponse = &metrics.Family{Name: "millstream_request_response_seconds",
		Help: "Part of it from when the answer was complete to when it was written.",
		Kind: metrics.Distribution, Labels: []string{"api"},
		Kafka: "kafka.network:RequestMetrics,ResponseQueueTimeMs + ResponseSendTimeMs"}
	famRequestBytes = &metrics.Family{Name: "millstream_request_bytes_total",
		Help: "Bytes of requests.", Kind: metrics.Counter, Labels: []string{"api"},
		Kafka: "kafka.network:RequestMetrics,RequestBytes"}
	famResponseBytes = &metrics.Family{Name: "millstream_response_bytes_total",
		Help: "Bytes of answers.", Kind: metrics.Counter, Labels: []string{"api"}}
	famErrors = &metrics.Family{Name: "millstream_request_errors_total",
		Help: "Error codes in answers; one answer may have several.",
		Kind: metrics.Counter, Labels: []string{"api", "error"},
		Kafka: "kafka.network:RequestMetrics,ErrorsPerSec"}
	famSlow = &metrics.Family{Name: "millstream_slow_requests_total",
		Help: "Requests that took longer than slow.request.log.threshold.ms.", Kind: metrics.Counter}
	famParked = &metrics.Family{Name: "millstream_requests_waiting",
		Help: "Requests that wait for a sync or for new records.",
		Kind: metrics.Gauge, Labels: []string{"api"},
		Kafka: "kafka.server:DelayedOperationPurgatory,PurgatorySize"}
	famPanics = &metrics.Family{Name: "millstream_request_panics_total",
		Help: "Requests whose handler failed in a way that it must not; report these.",
		Kind: metrics.Counter}

	famNetwork = &metrics.Family{Name: "millstream_network_bytes_total",
		Help: "Bytes exchanged with clients.", Kind: metrics.Counter, Labels: []string{"direction"},
		Kafka: "kafka.server:socket-server-metrics,incoming-byte-total, outgoing-byte-total"}
	famConnections = &metrics.Family{Name: "millstream_connections",
		Help: "Open connections; \"in-process\" are those of this process.",
		Kind: metrics.Gauge, Labels: []string{"listener"},
		Kafka: "kafka.server:socket-server-metrics,connection-count"}
	famAccepted = &metrics.Family{Name: "millstream_connections_accepted_total",
		Help: "Connections that were taken.", Kind: metrics.Counter, Labels: []string{"listener"},
		Kafka: "kafka.server:socket-server-metrics,connection-creation-total"}
	famRefused = &metrics.Family{Name: "millstream_connections_refused_total",
		Help: "Connections over a limit.", Kind: metrics.Counter, Labels: []string{"limit"}}
	famBroken = &metrics.Family{Name: "millstream_connections_broken_total",
		Help: "Connections closed for a client's fault.", Kind: metrics.Counter}
	famLogins = &metrics.Family{Name: "millstream_authentications_total",
		Help: "Logins, repeated ones too.", Kind: metrics.Counter, Labels: []string{"result"},
		Kafka: "kafka.server:socket-server-metrics,successful-, failed-authentication-total"}
	famDenied = &metrics.Family{Name: "millstream_denied_accesses_total",
		Help: "Accesses to a resource that no rule allows, or that one denies.", Kind: metrics.Counter}

	famMemory = &metrics.Family{Name: "millstream_request_memory_bytes",
		Help: "Memory that connections hold: read buffers, large requests, large answers.",
		Kind: metrics.Gauge, Labels: []string{"kind"},
		Kafka: "kafka.network:SocketServer,MemoryPoolUsed"}
	famMemoryLimit = &metrics.Family{Name: "millstream_request_memory_limit_bytes",
		Help: "Most that they may hold.", Kind: metrics.Gauge, Labels: []string{"kind"}}
	famMemoryWaits = &metrics.Family{Name: "millstream_request_memory_waits_total",
		Help: "Times that a connection was not read until there was memory.",
		Kind: metrics.Counter, Kafka: "kafka.network:SocketServer,MemoryPoolDepletedTimeTotal"}
	famMemorySlow = &metrics.Family{Name: "millstream_request_memory_slow_closed_total",
		Help: "Connections closed since their request came too slowly while others waited for memory.",
		Kind: metrics.Counter}
	famSessions = &metrics.Family{Name: "millstream_fetch_sessions",
		Help: "Fetch sessions that are kept.", Kind: metrics.Gauge,
		Kafka: "kafka.server:FetchSessionCache,NumIncrementalFetchSessions"}
	famSessionParts = &metrics.Family{Name: "millstream_fetch_session_partitions",
		Help: "Partitions in the fetch sessions that are kept.", Kind: metrics.Gauge,
		Kafka: "kafka.server:FetchSessionCache,NumIncrementalFetchPartitionsCached"}
	famEvicted = &metrics.Family{Name: "millstream_fetch_sessions_evicted_total",
		Help: "Fetch sessions that gave way to others.", Kind: metrics.Counter,
		Kafka: "kafka.server:FetchSessionCache,IncrementalFetchSessionEvictionsPerSec"}
)

// Families implements metrics.Source.
func (s *Server) Families() []*metrics.Family {
	return []*metrics.Family{
		famRequest, famLocal, famQueue, famWait, famResponse, famRequestBytes, famResponseBytes,
		famErrors, famSlow, famParked, famPanics, famNetwork, famConnections, famAccepted, famRefused,
		famBroken, famLogins, famDenied, famMemory, famMemoryLimit, famMemoryWaits, famMemorySlow,
		famSessions, famSessionParts, famEvicted, famThrottles, famThrottled, famMuted, famQuotaClients,
	}
}

// WriteMetrics implements metrics.Source. APIs that nobody has asked yet are left out.
func (s *Server) WriteMetrics(p *metrics.Page) {
	c := s.count
	s.writeTimes(p, famRequest, func(a *apiCounts) *metrics.Histogram { return &a.total })
	s.writeTimes(p, famLocal, func(a *apiCounts) *metrics.Histogram { return &a.local })
	s.writeTimes(p, famQueue, func(a *apiCounts) *metrics.Histogram { return &a.queue })
	s.writeTimes(p, famWait, func(a *apiCounts) *metrics.Histogram { return &a.wait })
	s.writeTimes(p, famResponse, func(a *apiCounts) *metrics.Histogram { return &a.response })
	p.Begin(famRequestBytes)
	s.eachAPI(func(name string, a *apiCounts) { p.Int(a.bytesIn.Load(), name) })
	p.Begin(famResponseBytes)
	s.eachAPI(func(name string, a *apiCounts) { p.Int(a.bytesOut.Load(), name) })
	p.Begin(famErrors)
	s.eachAPI(func(name string, a *apiCounts) {
		counts := a.errors.Load()
		if counts == nil {
			return
		}
		for i := range counts {
			if n := counts[i].Load(); n > 0 {
				p.Int(n, name, codeName(int16(i-1)))
			}
		}
	})
	p.One(famSlow, c.slow.Load())
	p.Begin(famParked)
	p.Int(c.parkedProduces.Load(), protocol.KeyName(protocol.KeyProduce))
	p.Int(c.parkedFetches.Load(), protocol.KeyName(protocol.KeyFetch))
	p.One(famPanics, c.panics.Load())
	s.writeConnections(p)
	s.writeMemory(p)
	s.writeQuotas(p)
}

// writeTimes writes one histogram of each API.
func (s *Server) writeTimes(p *metrics.Page, f *metrics.Family,
	of func(*apiCounts) *metrics.Histogram,
) {
	p.Begin(f)
	s.eachAPI(func(name string, a *apiCounts) {
		if h := of(a); h.Count() > 0 {
			p.Histogram(h, name)
		}
	})
}

// eachAPI calls fn for the APIs that were asked.
func (s *Server) eachAPI(fn func(name string, a *apiCounts)) {
	for key, a := range s.count.api {
		if a != nil && a.bytesIn.Load() > 0 {
			fn(protocol.KeyName(int16(key)), a)
		}
	}
}

func (s *Server) writeConnections(p *metrics.Page) {
	c := s.count
	p.Begin(famNetwork)
	p.Int(c.bytesIn.Load(), "in")
	p.Int(c.bytesOut.Load(), "out")
	s.mu.Lock()
	open, refused := make(map[string]listenerCounts), maps.Clone(s.mu.refused)
	for name, counts := range s.mu.listenerCounts {
		open[name] = *counts
	}
	s.mu.Unlock()
	names := slices.Sorted(maps.Keys(open))
	p.Begin(famConnections)
	for _, name := range names {
		p.Int(open[name].open, name)
	}
	p.Begin(famAccepted)
	for _, name := range names {
		p.Int(open[name].accepted, name)
	}
	p.Begin(famRefused)
	for _, limit := range slices.Sorted(maps.Keys(refused)) {
		p.Int(refused[limit], limit)
	}
	p.One(famBroken, c.broken.Load())
	p.Begin(famLogins)
	p.Int(c.logins.Load(), "success")
	p.Int(c.badLogins.Load(), "failure")
	p.One(famDenied, c.denied.Load())
}

func (s *Server) writeMemory(p *metrics.Page) {
	p.Begin(famMemory)
	p.Int(s.readers.used.Load(), "read buffers")
	p.Int(s.memory.used.Load()+s.huge.used.Load(), "large requests")
	p.Int(s.answers.large.Load(), "large answers")
	p.Begin(famMemoryLimit)
	p.Int(s.readers.total, "read buffers")
	p.Int(s.memory.total+s.huge.total, "large requests")
	p.Int(s.answers.limit, "large answers")
	p.One(famMemoryWaits, s.readers.waits.Load()+s.memory.waits.Load()+s.huge.waits.Load())
	p.One(famMemorySlow, s.senders.closed.Load())
	sessions, parts, evicted := s.sessions.sizes()
	p.One(famSessions, int64(sessions))
	p.One(famSessionParts, int64(parts))
	p.One(famEvicted, evicted)
}

// Traffic returns what clients did with all topics, deleted ones too.
func (s *Server) Traffic() *replica.Traffic { return &s.count.traffic }

// listenerCounts are the connections of one listener.
type listenerCounts struct{ open, accepted int64 }

// listenerName is the listener's name, or a word for clients in this process.
func (c *conn) listenerName() string {
	if c.inMemory && c.how.Trusted {
		return "in-process"
	}
	return c.how.Name
}

// countAdmissionLocked counts a connection that was taken, or refused by a limit. The caller holds
// mu.
func (s *Server) countAdmissionLocked(c *conn, refusedBy string) {
	if refusedBy != "" {
		s.mu.refused[refusedBy]++
		return
	}
	counts := s.mu.listenerCounts[c.listenerName()]
	if counts == nil {
		counts = new(listenerCounts)
		s.mu.listenerCounts[c.listenerName()] = counts
	}
	counts.open++
	counts.accepted++
}
