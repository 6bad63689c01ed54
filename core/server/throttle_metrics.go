package server

import (
	"maps"
	"slices"

	"github.com/millstream-io/millstream/core/metrics"
)

var (
	famThrottles = &metrics.Family{Name: "millstream_throttles_total",
		Help: "Times that clients had to wait for their quota, or were refused by it.",
		Kind: metrics.Counter, Labels: []string{"quota"},
		Kafka: "kafka.server:type={Produce,Fetch,Request,ControllerMutation},throttle-time"}
	famThrottled = &metrics.Family{Name: "millstream_throttle_seconds_total",
		Help: "Time that clients were told to wait.", Kind: metrics.Counter,
		Labels: []string{"quota"},
		Kafka:  "kafka.server:type={Produce,Fetch,Request,ControllerMutation},throttle-time"}
	famMuted = &metrics.Family{Name: "millstream_connections_muted",
		Help: "Connections with a request that waits until their quota allows it.",
		Kind: metrics.Gauge, Kafka: "kafka.server:type={Produce,Fetch,Request},queue-size"}
	famQuotaClients = &metrics.Family{Name: "millstream_quota_clients",
		Help: "Users, client ids and addresses whose use is measured.", Kind: metrics.Gauge,
		Labels: []string{"quota"}}
)

// writeQuotas writes what clients had to wait for.
func (s *Server) writeQuotas(p *metrics.Page) {
	stats := s.quotas.Stats()
	names := slices.Sorted(maps.Keys(stats))
	p.Begin(famThrottles)
	for _, name := range names {
		p.Int(stats[name].Throttled, name)
	}
	p.Begin(famThrottled)
	for _, name := range names {
		p.Float(stats[name].Waited.Seconds(), name)
	}
	p.One(famMuted, s.muted.Load())
	p.Begin(famQuotaClients)
	for _, name := range names {
		p.Int(int64(stats[name].Clients), name)
	}
}
