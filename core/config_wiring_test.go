package core

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/metadata"
	"github.com/millstream-io/millstream/core/server"
)

// TestBrokerConfigsReachTheirParts: each setting of a coordinator, of compaction or of a socket
// changes what its part is told. What they do there, the tests of those folders show.
func TestBrokerConfigsReachTheirParts(t *testing.T) {
	told := func(config map[string]string) any {
		image := metadata.NewImage(1, config)
		b := &Broker{opts: Options{Config: config}}
		s := settings{image}
		return []any{s.groups(), s.cleaner(), s.transactions(), s.dir(), s.limits(server.Limits{}),
			s.connections(), b.recoveryThreads(),
			s.millis("offsets.retention.check.interval.ms"), s.millis("offsets.commit.timeout.ms")}
	}
	before := told(nil)
	for name, value := range map[string]string{
		"connections.max.idle.ms": "7", "fetch.max.bytes": "2000",
		"group.consumer.assignment.interval.ms": "7", "group.consumer.assignors": "range",
		"group.consumer.heartbeat.interval.ms": "7", "group.consumer.max.size": "7",
		"group.consumer.migration.policy":                             "disabled",
		"group.consumer.regex.refresh.interval.ms":                    "20000",
		"group.consumer.session.timeout.ms":                           "7",
		"group.initial.rebalance.delay.ms":                            "7",
		"group.max.session.timeout.ms":                                "7",
		"group.max.size":                                              "7",
		"group.min.session.timeout.ms":                                "7",
		"log.cleaner.backoff.ms":                                      "7",
		"log.cleaner.dedupe.buffer.size":                              "7",
		"millstream.log.scrub.bytes.per.second":                       "7",
		"millstream.log.scrub.interval.ms":                            "7",
		"log.cleaner.enable":                                          "false",
		"log.cleaner.io.buffer.load.factor":                           "0.7",
		"log.cleaner.io.buffer.size":                                  "7",
		"log.cleaner.io.max.bytes.per.second":                         "7",
		"log.cleaner.threads":                                         "7",
		"max.connection.creation.rate":                                "7",
		"max.connections":                                             "7",
		"max.connections.per.ip":                                      "7",
		"max.connections.per.ip.overrides":                            "h:7",
		"max.incremental.fetch.session.cache.slots":                   "7",
		"num.recovery.threads.per.data.dir":                           "7",
		"offset.metadata.max.bytes":                                   "7",
		"offsets.commit.timeout.ms":                                   "7",
		"offsets.retention.check.interval.ms":                         "7",
		"offsets.retention.minutes":                                   "7",
		"producer.id.expiration.ms":                                   "7",
		"socket.request.max.bytes":                                    "7",
		"transaction.abort.timed.out.transaction.cleanup.interval.ms": "7",
		"transaction.remove.expired.transaction.cleanup.interval.ms":  "7",
		"transaction.max.timeout.ms":                                  "7",
		"transactional.id.expiration.ms":                              "7",
	} {
		require.NoError(t, metadata.ValidateStaticConfigs(map[string]string{name: value}), name)
		require.NotEqual(t, before, told(map[string]string{name: value}), name)
	}
}

// TestGroupConfigsStayWithinTheBrokersBounds: bounds that changed after a group's setting was made
// (KIP-848).
func TestGroupConfigsStayWithinTheBrokersBounds(t *testing.T) {
	for _, name := range []string{"session.timeout.ms", "heartbeat.interval.ms",
		"assignment.interval.ms"} {
		for bound, want := range map[string]int64{"min": 9000, "max": 3000} {
			static := map[string]string{"group.consumer." + bound + "." + name: "9000"}
			if bound == "max" {
				static = map[string]string{"group.consumer.min." + name: "1",
					"group.consumer.max." + name: "3000"}
			}
			d := metadata.NewDelta(metadata.NewImage(1, static))
			value := "6000"
			require.NoError(t, d.Apply(&metadata.ResourceConfigRecord{Kind: metadata.ResourceGroup,
				Name: "g", Key: "consumer." + name, Value: &value}))
			got := settings{d.Peek()}.group("g")
			of := map[string]time.Duration{"session.timeout.ms": got.SessionTimeout,
				"heartbeat.interval.ms": got.HeartbeatInterval, "assignment.interval.ms": got.AssignmentInterval}
			require.Equal(t, want, of[name].Milliseconds(), "%s %s", bound, name)
		}
	}
}
