package server

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millstream-io/millstream/core/protocol"
)

// latencyBounds are the upper bounds of the request time histogram, in seconds.
var latencyBounds = [...]float64{
	.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10,
}

// apiMetrics counts the requests of one API.
type apiMetrics struct {
	requests atomic.Int64
	// nanos is the total time of answering.
	nanos atomic.Int64
	// buckets count the requests up to each of latencyBounds, not cumulated; the last one counts
	// the slower ones.
	buckets [len(latencyBounds) + 1]atomic.Int64
}

// metrics are the server's counters. They are plain atomics, so that counting costs nothing on
// the hot paths; Collect turns them into Prometheus's form.
type metrics struct {
	s   *Server
	api [maxKey + 1]apiMetrics

	bytesIn, bytesOut      atomic.Int64
	refusedConns, badConns atomic.Int64
	badLogins              atomic.Int64
	panics                 atomic.Int64
	// produced and fetched count the bytes of record batches.
	produced, fetched atomic.Int64

	descs metricDescs
}

type metricDescs struct {
	requests, bytes, conns, refused, bad, badLogins, panics, appended, fetched, sessions,
	sessionParts,
	evicted *prometheus.Desc
}

func newMetrics(s *Server) *metrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("millstream_"+name, help, labels, nil)
	}
	return &metrics{s: s, descs: metricDescs{
		requests:  desc("request_seconds", "Time from reading a request to its answer.", "api"),
		bytes:     desc("network_bytes_total", "Bytes exchanged with clients.", "direction"),
		conns:     desc("connections", "Open client connections."),
		refused:   desc("connections_refused_total", "Connections over the limit."),
		bad:       desc("connections_broken_total", "Connections closed for a client's fault."),
		badLogins: desc("failed_authentications_total", "Logins that were refused."),
		panics:    desc("request_panics_total", "Requests whose handler failed; report these."),
		appended:  desc("appended_bytes_total", "Bytes of record batches appended by clients."),
		fetched:   desc("fetched_bytes_total", "Bytes of record batches sent to clients."),
		sessions:  desc("fetch_sessions", "Fetch sessions that are kept."),
		sessionParts: desc("fetch_session_partitions",
			"Partitions in the fetch sessions that are kept."),
		evicted: desc("fetch_sessions_evicted_total", "Fetch sessions that gave way to others."),
	}}
}

func (m *metrics) received(n int)    { m.bytesIn.Add(int64(n)) }
func (m *metrics) sent(n int)        { m.bytesOut.Add(int64(n)) }
func (m *metrics) request(key int16) { m.api[key].requests.Add(1) }
func (m *metrics) handled(key int16, took time.Duration) {
	a := &m.api[key]
	a.nanos.Add(int64(took))
	seconds := took.Seconds()
	i := 0
	for i < len(latencyBounds) && seconds > latencyBounds[i] {
		i++
	}
	a.buckets[i].Add(1)
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	d := &m.descs
	for _, desc := range []*prometheus.Desc{
		d.requests, d.bytes, d.conns, d.refused, d.bad, d.badLogins, d.panics, d.appended, d.fetched,
		d.sessions, d.sessionParts, d.evicted,
	} {
		ch <- desc
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	d := &m.descs
	counter := func(desc *prometheus.Desc, v int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(v), labels...)
	}
	for i := range m.s.table.rows {
		m.collectAPI(ch, m.s.table.rows[i].key)
	}
	counter(d.bytes, m.bytesIn.Load(), "in")
	counter(d.bytes, m.bytesOut.Load(), "out")
	counter(d.refused, m.refusedConns.Load())
	counter(d.bad, m.badConns.Load())
	counter(d.badLogins, m.badLogins.Load())
	counter(d.panics, m.panics.Load())
	counter(d.appended, m.produced.Load())
	counter(d.fetched, m.fetched.Load())
	sessions, parts, evicted := m.s.sessions.sizes()
	counter(d.evicted, evicted)
	ch <- prometheus.MustNewConstMetric(d.sessions, prometheus.GaugeValue, float64(sessions))
	ch <- prometheus.MustNewConstMetric(d.sessionParts, prometheus.GaugeValue, float64(parts))
	ch <- prometheus.MustNewConstMetric(d.conns, prometheus.GaugeValue, float64(m.s.openConns()))
}

func (m *metrics) collectAPI(ch chan<- prometheus.Metric, key int16) {
	a := &m.api[key]
	buckets := make(map[float64]uint64, len(latencyBounds))
	sum := uint64(0)
	for i, bound := range latencyBounds {
		sum += uint64(a.buckets[i].Load())
		buckets[bound] = sum
	}
	sum += uint64(a.buckets[len(latencyBounds)].Load())
	ch <- prometheus.MustNewConstHistogram(m.descs.requests, sum,
		time.Duration(a.nanos.Load()).Seconds(), buckets, protocol.KeyName(key))
}

// Collector exposes the server's counters to Prometheus.
func (s *Server) Collector() prometheus.Collector { return s.metrics }

func (s *Server) openConns() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.open)
}
