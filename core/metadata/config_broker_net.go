package metadata

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

var replicaConfigs = inert(inertOneNode,
	setting("replica.lag.time.max.ms", Long, "30000", "When a replica is out of sync."),
	setting("replica.fetch.max.bytes", Int, "1048576", "Fetched at once for a partition.").atLeast(0),
	setting("replica.fetch.wait.max.ms", Int, "500", "Longest wait of a replica's fetch."),
	setting("replica.fetch.min.bytes", Int, "1", "Least bytes of a replica's fetch."),
	setting("replica.fetch.response.max.bytes", Int, "10485760", "Most bytes of it.").atLeast(0),
	setting("replica.fetch.backoff.ms", Int, "1000", "Pause after a failed fetch.").atLeast(0),
	setting("replica.socket.timeout.ms", Int, "30000", "Longest wait of a replica's request."),
	setting("replica.socket.receive.buffer.bytes", Int, "65536", "Receive buffer of replicas."),
	setting("replica.selector.class", String, "-", "Who picks the replica a client reads."),
	setting("num.replica.fetchers", Int, "1", "Threads that fetch from other brokers.").dynamic(),
	setting("auto.leader.rebalance.enable", Boolean, "true", "Give preferred leaders back."),
	setting("leader.imbalance.check.interval.seconds", Long, "300",
		"Time between such checks.").atLeast(1),
	setting("controlled.shutdown.enable", Boolean, "true", "Move leaders before stopping."),
	setting("controller.socket.timeout.ms", Int, "30000", "Longest wait of a controller's request."),
	setting("request.timeout.ms", Int, "30000", "Longest wait of this node's own requests."),
)

var networkConfigs = slices.Concat([]*ConfigDef{
	setting("socket.request.max.bytes", Int, "104857600", "Largest request accepted.").atLeast(1),
	setting("connections.max.idle.ms", Long, "600000", "When an idle connection is closed."),
	setting("fetch.max.bytes", Int, "57671680", "Most bytes a fetch answers with.").atLeast(1024),
	setting("max.connections", Int, "2147483647",
		"Most connections; at most 16384 unless it is set.").atLeast(0).dynamic(),
	setting("max.connections.per.ip", Int, "2147483647",
		"Most connections of an address.").atLeast(0).dynamic(),
	perIP(setting("max.connections.per.ip.overrides", String, "",
		"Most connections of single addresses, as address:number,...").dynamic()),
	setting("max.connection.creation.rate", Int, "2147483647",
		"Most new connections in a second; further ones wait.").atLeast(0).dynamic(),
	setting("queued.max.request.bytes", Long, "-1", "Memory of requests: a third each for read "+
		"buffers, large requests, and large answers that are not read; -1 is 805306368, or as "+
		"much less as GOMEMLIMIT asks for."),
	setting("quota.window.num", Int, "11", "Samples of a quota.").atLeast(1),
	setting("quota.window.size.seconds", Int, "1", "Length of a sample.").atLeast(1),
	setting("controller.quota.window.num", Int, "11",
		"Samples of a quota of changes of topics.").atLeast(1),
	setting("controller.quota.window.size.seconds", Int, "1",
		"Length of such a sample.").atLeast(1),
	setting("millstream.quota.clients.max", Int, "16384",
		"Most users and client ids of a kind of quota; further ones share one.").atLeast(1),
	setting("max.incremental.fetch.session.cache.slots", Int, "1000",
		"Fetch sessions kept.").atLeast(0),
}, inert(inertGoroutines,
	setting("num.network.threads", Int, "3", "Kafka's network threads.").atLeast(1).dynamic(),
	setting("num.io.threads", Int, "8", "Kafka's request threads.").atLeast(1).dynamic(),
	setting("queued.max.requests", Int, "500", "Requests waiting for a thread.").atLeast(1),
), inert("the kernel's own sizes grow with the need",
	setting("socket.receive.buffer.bytes", Int, "102400", "SO_RCVBUF of connections."),
	setting("socket.send.buffer.bytes", Int, "102400", "SO_SNDBUF of connections."),
	setting("socket.listen.backlog.size", Int, "50",
		"Connections that wait to be accepted.").atLeast(1),
), inert("a request waits as one object, which goes with it",
	setting("producer.purgatory.purge.interval.requests", Int, "1000", "Purge of waiting produces."),
	setting("fetch.purgatory.purge.interval.requests", Int, "1000", "Purge of waiting fetches."),
	setting("delete.records.purgatory.purge.interval.requests", Int, "1",
		"Purge of waiting DeleteRecords."),
), inert("telemetry of clients is not served",
	setting("telemetry.max.bytes", Int, "1048576", "Largest push of a client's metrics.").atLeast(1),
))

// perIP gives a setting the check of address:number lists.
func perIP(d *ConfigDef) *ConfigDef {
	d.Check = func(value string) string {
		_, err := ParsePerIP(value)
		if err != nil {
			return err.Error()
		}
		return ""
	}
	return d
}

// ParsePerIP reads the value of max.connections.per.ip.overrides: numbers by address.
func ParsePerIP(value string) (map[string]int, error) {
	limits := make(map[string]int)
	for _, element := range splitList(value) {
		at := strings.LastIndexByte(element, ':')
		if at < 1 {
			return nil, fmt.Errorf("%q is not address:number", element)
		}
		n, err := strconv.ParseInt(element[at+1:], 10, 32)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%q is not address:number", element)
		}
		limits[strings.Trim(element[:at], "[]")] = int(n)
	}
	return limits, nil
}
