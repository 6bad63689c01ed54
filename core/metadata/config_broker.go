package metadata

import "slices"

// brokerConfigs are the broker settings that users and tests of Kafka rely on. What can be changed
// while the broker runs is what Kafka lets change; the others are read at start.
//
// Settings that this build could not honour without harm, such as those of policies, are
// not here and so refused: nobody shall believe in a protection that is not there.
var brokerConfigs = sorted(slices.Concat(topicDefaults(), nodeConfigs, topicAdmin, logConfigs,
	cleanerConfigs, groupConfigs, transactionConfigs, replicaConfigs, networkConfigs,
	securityConfigs, observeConfigs))

// unitSynonyms are broker settings that say a topic setting in another unit: their factor to
// milliseconds.
var unitSynonyms = map[string]int64{
	"log.retention.minutes": 60_000,
	"log.retention.hours":   3_600_000,
	"log.roll.hours":        3_600_000,
	"log.roll.jitter.hours": 3_600_000,
}

// brokerNull are broker settings without a default of their own, though their topic setting has
// one.
var brokerNull = map[string]bool{"log.flush.interval.ms": true}

// brokerChecks are rules that Kafka has for the broker's form of a setting only.
var brokerChecks = map[string]func(string) string{
	"log.retention.ms":      unlimitedOrPositive,
	"log.retention.minutes": unlimitedOrPositive,
	"log.retention.hours":   unlimitedOrPositive,
}

func unlimitedOrPositive(value string) string {
	if value == "0" {
		return "it must be -1 (no limit) or at least 1"
	}
	return ""
}

// topicDefaults derives the broker settings that are synonyms of topic settings.
func topicDefaults() []*ConfigDef {
	var defs []*ConfigDef
	for _, t := range topicConfigs {
		for i, name := range t.BrokerSynonyms {
			d := *t
			d.Name, d.BrokerSynonyms = name, nil
			if check := brokerChecks[name]; check != nil {
				d.Check = check
			}
			d.Doc = "Default of the topic config " + t.Name + ". " + t.Doc
			if i < len(t.BrokerSynonyms)-1 || brokerNull[name] { // the last one carries the default
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

// atLeast bounds a setting from below.
func (d *ConfigDef) atLeast(least float64) *ConfigDef {
	d.Min, d.Max = least, topLong
	return d
}

// within bounds a setting from both sides.
func (d *ConfigDef) within(least, most float64) *ConfigDef {
	d.Min, d.Max = least, most
	return d
}

// dynamic marks a setting that can be changed while the broker runs.
func (d *ConfigDef) dynamic() *ConfigDef {
	d.ReadOnly = false
	return d
}

// inert marks settings that change nothing, with the reason.
func inert(reason string, defs ...*ConfigDef) []*ConfigDef {
	for _, d := range defs {
		d.Inert = reason
	}
	return defs
}

// Why broker settings change nothing.
const (
	inertGoroutines = "goroutines come and go with the work"
	inertQuorum     = "the quorum is this node"
)

// Settings that say who a broker is. Their values in force come from its registration.
const (
	brokerIDConfig            = "broker.id"
	nodeIDConfig              = "node.id"
	listenersConfig           = "listeners"
	advertisedListenersConfig = "advertised.listeners"
)

var nodeConfigs = slices.Concat([]*ConfigDef{
	setting(brokerIDConfig, Int, "-1", "This broker's id; node.id is its newer name."),
	setting(nodeIDConfig, Int, "-1", "This node's id."),
	setting("broker.rack", String, "-", "Where this broker stands."),
	setting("log.dirs", List, "-", "Directory of the data."),
	setting(listenersConfig, List, "PLAINTEXT://:9092", "Addresses listened on."),
	setting(advertisedListenersConfig, List, "-", "Addresses told to clients."),
}, inert("the daemon's own options say where the data is",
	setting("log.dir", List, "/tmp/kafka-logs", "Directory of the data, for lack of log.dirs."),
), inert("there are no other brokers to connect to",
	setting("inter.broker.listener.name", String, "-", "Listener that brokers use."),
	setting("security.inter.broker.protocol", String, "PLAINTEXT", "Protocol that brokers use."),
), inert("the node is both",
	setting("process.roles", List, "", "Roles of this node."),
), inert(inertQuorum,
	setting("broker.session.timeout.ms", Int, "9000", "When a silent broker is fenced."),
	setting("broker.heartbeat.interval.ms", Int, "2000", "Time between a broker's heartbeats."),
	setting("initial.broker.registration.timeout.ms", Int, "60000",
		"Longest wait of a starting broker for its registration."),
), inert(inertGoroutines,
	setting("background.threads", Int, "10", "Threads of background work.").atLeast(1).dynamic(),
))

var topicAdmin = slices.Concat([]*ConfigDef{
	setting("auto.create.topics.enable", Boolean, "true",
		"Make a topic when a client asks for one that is not there."),
	setting("delete.topic.enable", Boolean, "true", "Allow topics to be deleted."),
	setting("millstream.partitions.max", Int, "100000",
		"Most partitions of all topics but the cluster's own.").atLeast(1),
	setting("millstream.topic.partitions.max", Int, "100000",
		"Most partitions of a topic.").atLeast(1),
	setting("num.partitions", Int, "1", "Partitions of a topic made without a number.").atLeast(1),
	setting("default.replication.factor", Int, "-",
		"Replicas of a topic made without a number; unset: one for each broker, up to 3.").atLeast(1),
	setting("max.request.partition.size.limit", Int, "2000",
		"Most partitions that one DescribeTopicPartitions answers with.").atLeast(1),
})
