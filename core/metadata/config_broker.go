package metadata

import "slices"

// brokerConfigs are the broker settings that users and tests of Kafka rely on. Those that give a
// topic setting its default take their range from it and can be changed while running; the others
// are read at start.
var brokerConfigs = sorted(slices.Concat(topicDefaults(), topicAdmin, logConfigs, groupConfigs,
	transactionConfigs, replicaConfigs, networkConfigs))

// unitSynonyms are broker settings that say a topic setting in another unit: their factor to
// milliseconds.
var unitSynonyms = map[string]int64{
	"log.retention.minutes": 60_000,
	"log.retention.hours":   3_600_000,
	"log.roll.hours":        3_600_000,
	"log.roll.jitter.hours": 3_600_000,
}

// topicDefaults derives the broker settings that are synonyms of topic settings.
func topicDefaults() []*ConfigDef {
	var defs []*ConfigDef
	for _, t := range topicConfigs {
		for i, name := range t.BrokerSynonyms {
			d := *t
			d.Name, d.BrokerSynonyms = name, nil
			d.Doc = "Default of the topic config " + t.Name + ". " + t.Doc
			if i < len(t.BrokerSynonyms)-1 { // the last one carries the default
				d.Default, d.NoDefault = "", true
			}
			if factor := unitSynonyms[name]; factor != 0 {
				d.Type, d.Min, d.Max, d.ReadOnly = Int, -1, topInt, true
				d.Doc = "Default of the topic config " + t.Name + " in another unit."
				if !d.NoDefault {
					d.Default = divide(t.Default, factor)
				}
			}
			defs = append(defs, &d)
		}
	}
	return defs
}

// setting defines a broker setting that is read at start. def "-" means null.
func setting(name string, t ConfigType, def, doc string) *ConfigDef {
	d := &ConfigDef{Name: name, Type: t, Default: def, Doc: doc, ReadOnly: true}
	if def == "-" {
		d.Default, d.NoDefault = "", true
	}
	return d
}

// applied marks settings that this build acts on.
func applied(defs ...*ConfigDef) []*ConfigDef {
	for _, d := range defs {
		d.Applied = true
	}
	return defs
}

// Settings that say who a broker is. Their values in force come from its registration.
const (
	brokerIDConfig = "broker.id"
	nodeIDConfig   = "node.id"
)

var topicAdmin = slices.Concat(applied(
	setting("auto.create.topics.enable", Boolean, "true",
		"Make a topic when a client asks for one that is not there."),
	setting("delete.topic.enable", Boolean, "true", "Allow topics to be deleted."),
	setting("num.partitions", Int, "1", "Partitions of a topic made without a number."),
	setting("default.replication.factor", Int, "-",
		"Replicas of a topic made without a number; unset: one for each broker, up to 3."),
	setting("broker.rack", String, "-", "Where this broker stands."),
), []*ConfigDef{
	setting(brokerIDConfig, Int, "-1", "This broker's id; node.id is its newer name."),
	setting(nodeIDConfig, Int, "-1", "This node's id."),
	setting("listeners", List, "PLAINTEXT://:9092", "Addresses listened on."),
	setting("advertised.listeners", List, "-", "Addresses told to clients."),
	setting("listener.security.protocol.map", List, "PLAINTEXT:PLAINTEXT",
		"Protocol of each listener."),
	setting("super.users", List, "", "Principals that may do everything."),
	setting("authorizer.class.name", Class, "", "Who decides access."),
	setting("allow.everyone.if.no.acl.found", Boolean, "false",
		"Access to what no rule speaks of."),
})

var logConfigs = slices.Concat(applied(
	setting("log.retention.check.interval.ms", Long, "300000", "Time between retention runs."),
	setting("log.flush.offset.checkpoint.interval.ms", Int, "60000",
		"Time between checkpoints of what is on the disk."),
), []*ConfigDef{
	setting("log.dirs", List, "-", "Directories of the data."),
	setting("log.flush.start.offset.checkpoint.interval.ms", Int, "60000",
		"Time between checkpoints of start offsets."),
	setting("num.recovery.threads.per.data.dir", Int, "2", "Logs recovered at once."),
	setting("log.cleaner.enable", Boolean, "true", "Compact topics that ask for it."),
	setting("log.cleaner.threads", Int, "1", "Logs compacted at once."),
	setting("log.cleaner.dedupe.buffer.size", Long, "134217728", "Memory of compaction."),
	setting("log.cleaner.backoff.ms", Long, "15000", "Pause of an idle cleaner."),
})

var groupConfigs = slices.Concat(applied(
	setting("group.initial.rebalance.delay.ms", Int, "3000",
		"How long an empty group waits for more members."),
	setting("group.min.session.timeout.ms", Int, "6000", "Least session timeout of a member."),
	setting("group.max.session.timeout.ms", Int, "1800000", "Largest session timeout of a member."),
	setting("group.max.size", Int, "2147483647", "Most members of a group."),
	setting("offsets.topic.num.partitions", Int, "50", "Partitions of __consumer_offsets."),
	setting("offsets.topic.replication.factor", Short, "-",
		"Replicas of __consumer_offsets; unset: one for each broker, up to 3."),
	setting("offsets.topic.segment.bytes", Int, "104857600", "segment.bytes of __consumer_offsets."),
	setting("offset.metadata.max.bytes", Int, "4096", "Largest text kept with an offset."),
	setting("offsets.retention.minutes", Int, "10080", "How long an empty group keeps offsets."),
	setting("offsets.retention.check.interval.ms", Long, "600000", "Time between expiry runs."),
	setting("offsets.commit.timeout.ms", Int, "5000", "Longest wait of an offset commit."),
), []*ConfigDef{
	setting("group.consumer.session.timeout.ms", Int, "45000", "Session timeout (KIP-848)."),
	setting("group.consumer.min.session.timeout.ms", Int, "45000", "Least one (KIP-848)."),
	setting("group.consumer.max.session.timeout.ms", Int, "60000", "Largest one (KIP-848)."),
	setting("group.consumer.heartbeat.interval.ms", Int, "5000", "Heartbeat (KIP-848)."),
	setting("group.consumer.min.heartbeat.interval.ms", Int, "5000", "Least one (KIP-848)."),
	setting("group.consumer.max.heartbeat.interval.ms", Int, "15000", "Largest one (KIP-848)."),
	setting("group.consumer.assignors", List, "uniform,range", "Assignors (KIP-848)."),
	setting("group.consumer.migration.policy", String, "bidirectional",
		"Moves between group protocols (KIP-848)."),
})

var transactionConfigs = slices.Concat(applied(
	setting("producer.id.expiration.ms", Int, "86400000",
		"How long an idle producer's state is kept."),
), []*ConfigDef{
	setting("transaction.max.timeout.ms", Int, "900000", "Largest transaction timeout."),
	setting("transaction.state.log.num.partitions", Int, "50",
		"Partitions of __transaction_state."),
	setting("transaction.state.log.replication.factor", Short, "3",
		"Replicas of __transaction_state."),
	setting("transaction.state.log.min.isr", Int, "2", "min.insync.replicas of it."),
	setting("transaction.state.log.segment.bytes", Int, "104857600", "segment.bytes of it."),
	setting("transaction.abort.timed.out.transaction.cleanup.interval.ms", Int, "10000",
		"Time between scans for transactions past their timeout."),
	setting("transaction.partition.verification.enable", Boolean, "true",
		"Check that a partition was added to its transaction (KIP-890)."),
	setting("transactional.id.expiration.ms", Int, "604800000",
		"How long an idle transactional id is kept."),
})

var replicaConfigs = []*ConfigDef{
	setting("replica.lag.time.max.ms", Long, "30000", "When a replica is out of sync."),
	setting("replica.fetch.max.bytes", Int, "1048576", "Fetched at once for a partition."),
	setting("replica.fetch.wait.max.ms", Int, "500", "Longest wait of a replica's fetch."),
	setting("replica.fetch.min.bytes", Int, "1", "Least bytes of a replica's fetch."),
	setting("replica.fetch.response.max.bytes", Int, "10485760", "Most bytes of it."),
	setting("replica.high.watermark.checkpoint.interval.ms", Long, "5000",
		"Time between checkpoints of high watermarks."),
	setting("replica.selector.class", Class, "-", "Who picks the replica a client reads."),
	setting("broker.session.timeout.ms", Int, "9000", "When a silent broker is fenced."),
	setting("broker.heartbeat.interval.ms", Int, "2000", "Time between a broker's heartbeats."),
	setting("auto.leader.rebalance.enable", Boolean, "true", "Give preferred leaders back."),
	setting("leader.imbalance.check.interval.seconds", Long, "300", "Time between such checks."),
	setting("controlled.shutdown.enable", Boolean, "true", "Move leaders before stopping."),
}

var networkConfigs = slices.Concat(applied(
	setting("max.incremental.fetch.session.cache.slots", Int, "1000", "Fetch sessions kept."),
), []*ConfigDef{
	setting("socket.request.max.bytes", Int, "104857600", "Largest request accepted."),
	setting("connections.max.idle.ms", Long, "600000", "When an idle connection is closed."),
	setting("fetch.max.bytes", Int, "57671680", "Most bytes a fetch answers with."),
	setting("max.connections", Int, "2147483647", "Most connections."),
	setting("max.connections.per.ip", Int, "2147483647", "Most connections of an address."),
	setting("num.network.threads", Int, "3", "Kafka's network threads; here the runtime's."),
	setting("num.io.threads", Int, "8", "Kafka's request threads; here the runtime's."),
	setting("queued.max.requests", Int, "500", "Requests waiting for a thread."),
	setting("connections.max.reauth.ms", Long, "0", "When a client must log in again."),
	setting("connection.failed.authentication.delay.ms", Int, "100", "Pause after a failed login."),
	setting("sasl.enabled.mechanisms", List, "GSSAPI", "SASL mechanisms."),
	setting("quota.window.num", Int, "11", "Samples of a quota."),
	setting("quota.window.size.seconds", Int, "1", "Length of a sample."),
})
