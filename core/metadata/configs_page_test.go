package metadata_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/metadata"
)

var rewrite = flag.Bool("rewrite", false, "write core/CONFIGS.md anew")

const (
	configsPage  = "../CONFIGS.md"
	kafkaConfigs = "testdata/configs_kafka_4.3.1.txt"
)

// TestConfigsPageIsTrue compares core/CONFIGS.md with the definitions, and those with what an
// Apache Kafka 4.3.1 lists. Write the page anew with:
//
// go test ./core/metadata -run ConfigsPage -rewrite
func TestConfigsPageIsTrue(t *testing.T) {
	var page strings.Builder
	fmt.Fprint(&page, "# Configs\n\nMade by a test from the definitions in `metadata/`; do not edit. ",
		"\"Inert\" settings are kept and shown, and change\nnothing, for the reason given. ",
		"Those of topics, groups and metrics subscriptions always take effect at once; those of\n",
		"brokers where they are dynamic, else at the next start.\n")
	writeConfigs(&page, "Topics", metadata.TopicConfigDefs(), true)
	writeConfigs(&page, "Groups", metadata.ResourceConfigDefs(metadata.ResourceGroup), true)
	writeConfigs(&page, "Subscriptions to clients' metrics",
		metadata.ResourceConfigDefs(metadata.ResourceClientMetrics), true)
	writeConfigs(&page, "Brokers", metadata.BrokerConfigDefs(), false)
	writeDifferences(t, &page)
	if *rewrite {
		require.NoError(t, os.WriteFile(configsPage, []byte(page.String()), 0o644))
	}
	got, err := os.ReadFile(configsPage)
	require.NoError(t, err)
	require.Equal(t, page.String(), string(got), "write it anew with -rewrite")
}

var typeNames = map[metadata.ConfigType]string{1: "boolean", 2: "string", 3: "int", 4: "short",
	5: "long", 6: "double", 7: "list", 8: "class", 9: "password"}

func writeConfigs(page *strings.Builder, title string, defs []*metadata.ConfigDef, dynamic bool) {
	fmt.Fprintf(page, "\n## %s\n\n| config | type | default | values | what it is |\n", title)
	fmt.Fprint(page, "|---|---|---|---|---|\n")
	for _, d := range defs {
		if d.Hidden {
			continue
		}
		name := "`" + d.Name + "`"
		if len(d.BrokerSynonyms) > 0 {
			name += " (" + strings.Join(d.BrokerSynonyms, ", ") + ")"
		}
		what := strings.TrimSuffix(d.Doc, " ")
		if !dynamic && !d.ReadOnly {
			what += " Dynamic."
		}
		if d.Inert != "" {
			what += " *Inert: " + d.Inert + ".*"
		}
		fmt.Fprintf(page, "| %s | %s | %s | %s | %s |\n", name, typeNames[d.Type], defaultText(d),
			strings.ReplaceAll(valuesText(d), "|", "\\|"), what)
	}
}

func defaultText(d *metadata.ConfigDef) string {
	switch {
	case d.NoDefault:
		return "none"
	case d.Default == "":
		return "empty"
	}
	return d.Default
}

func valuesText(d *metadata.ConfigDef) string {
	number := func(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
	switch {
	case d.Enum != nil:
		return strings.Join(d.Enum, ", ")
	case d.Min == 0 && d.Max == 0:
		return ""
	case d.Max >= 1<<31-1:
		return "from " + number(d.Min)
	}
	return number(d.Min) + " to " + number(d.Max)
}

// own is said of settings that Kafka has not.
const own = "Millstream's own"

// readAtStart is said of keys and certificates.
const readAtStart = "read at start; files are read again when they change"

// known is why a setting of ours is not as Kafka's.
var known = map[string]string{
	"BROKER default.replication.factor": "none means one for each broker, up to 3",
	"BROKER offsets.topic.replication.factor": "none means one for each broker, up to 3; " +
		"with 3, one node could serve no group",
	"BROKER transaction.state.log.replication.factor": "as for offsets",
	"BROKER listeners":                             "the listener is not opened anew",
	"BROKER listener.security.protocol.map":        "the listener is not opened anew",
	"BROKER sasl.enabled.mechanisms":               "the listener is not opened anew",
	"BROKER sasl.jaas.config":                      "read at start",
	"BROKER ssl.client.auth":                       readAtStart,
	"BROKER ssl.enabled.protocols":                 readAtStart,
	"BROKER ssl.keystore.key":                      readAtStart,
	"BROKER ssl.keystore.certificate.chain":        readAtStart,
	"BROKER ssl.truststore.certificates":           readAtStart,
	"BROKER ssl.keystore.location":                 readAtStart,
	"BROKER ssl.truststore.location":               readAtStart,
	"BROKER ssl.keystore.type":                     "Java's stores are not read",
	"BROKER ssl.truststore.type":                   "Java's stores are not read",
	"BROKER node.id":                               "its value is shown",
	"BROKER process.roles":                         "empty here; Kafka's was set",
	"TOPIC flush":                                  "Millstream's own",
	"BROKER log.flush":                             "Millstream's own",
	"BROKER millstream.quota.clients.max":          own,
	"BROKER millstream.groups.max":                 own,
	"BROKER millstream.transactional.ids.max":      own,
	"BROKER millstream.log.scrub.bytes.per.second": own,
	"BROKER millstream.log.scrub.interval.ms":      own,
	"BROKER millstream.partition.producer.ids.max": own,
	"BROKER millstream.producer.ids.max":           own,
	"BROKER millstream.partitions.max":             own,
	"BROKER millstream.topic.partitions.max":       own,
	"BROKER slow.request.log.threshold.ms":         "Millstream's own",
	"BROKER metrics.series.max":                    "Millstream's own",
	"BROKER super.users":                           "Kafka's authorizer has it, but does not list it",
	"BROKER allow.everyone.if.no.acl.found":        "Kafka's authorizer has it, but does not list it",
}

// absent are Kafka's settings that are refused here, by pattern.
var absent = []struct{ pattern, why string }{
	{`^BROKER (ssl|sasl|security|principal|delegation|early)\b`,
		"Java's classes and stores, Kerberos and delegation tokens are not there"},
	{`^BROKER (replication\.quota|alter\.log\.dirs)`, "nothing is replicated on one node"},
	{`^BROKER client\.quota\.callback`, "it is a Java class"},
	{`^BROKER (create\.topic\.policy|alter\.config\.policy|config\.providers)`,
		"they are Java classes"},
	{`^(BROKER|GROUP_CONFIG) (group\.)?(share|streams)\b`, "share and streams groups are not served"},
	{`^BROKER (remote\.|follower\.fetch\.last\.tiered|log\.remote)`, "tiered storage is not there"},
	{`^BROKER (controller\.|metadata\.|unstable|add\.partitions|server\.max\.startup)`,
		"the metadata log is a Raft log of its own"},
	{`^BROKER (kafka\.metrics|metric|metrics|auto\.include)`, "metrics are served to Prometheus"},
	{`^BROKER socket\.connection\.setup`, "there are no other brokers to connect to"},
}

// writeDifferences writes the table of differences from Kafka. A difference without a reason fails.
func writeDifferences(t *testing.T, page *strings.Builder) {
	kafka, err := os.ReadFile(kafkaConfigs)
	require.NoError(t, err)
	theirs := make(map[string]string)
	for line := range strings.Lines(string(kafka)) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, what, _ := strings.Cut(rest, " ")
		theirs[kind+" "+name] = what
	}
	ours := ourConfigs()
	fmt.Fprint(page, "\n## Differences from Apache Kafka 4.3.1\n\n",
		"Type, default, dynamic, sensitive and synonyms of all others are the same.\n\n",
		"| config | Kafka | here | why |\n|---|---|---|---|\n")
	refused, explained := make([][]string, len(absent)), make(map[string]bool)
	for _, key := range slices.Sorted(maps.Keys(merged(ours, theirs))) {
		here, isOurs := ours[key]
		there, isTheirs := theirs[key]
		if here == there {
			continue
		}
		why, ok := known[key]
		explained[key] = ok
		if !ok && isTheirs && !isOurs {
			for i, a := range absent {
				if regexp.MustCompile(a.pattern).MatchString(key) {
					refused[i], ok = append(refused[i], key), true
					break
				}
			}
			require.True(t, ok, "%s is not here: %s", key, there)
			continue
		}
		require.True(t, ok, "%s: Kafka %q, here %q", key, there, here)
		fmt.Fprintf(page, "| %s | %s | %s | %s |\n", key, orNone(there), orNone(here), why)
	}
	for key := range known {
		require.True(t, explained[key], "%s is no difference", key)
	}
	fmt.Fprint(page, "\nOf Kafka's settings these are refused:\n\n")
	for i, a := range absent {
		fmt.Fprintf(page, "- %s (%d): `%s`\n", a.why, len(refused[i]), a.pattern)
	}
}

func orNone(s string) string {
	if s == "" {
		return "not listed"
	}
	return s
}

func merged(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// ourConfigs writes the definitions as the recorded list does.
func ourConfigs() map[string]string {
	list := make(map[string]string)
	add := func(kind string, defs []*metadata.ConfigDef) {
		for _, d := range defs {
			if d.Hidden {
				continue
			}
			def := fmt.Sprintf("%q", d.Default)
			if d.NoDefault {
				def = "null"
			}
			var synonyms []string
			if n := len(d.BrokerSynonyms); n == 1 && d.BrokerSynonyms[0] != d.Name &&
				d.BrokerSynonyms[0] != "log.flush.interval.ms" { // Kafka lists only what has a value
				synonyms = d.BrokerSynonyms
			}
			list[kind+" "+d.Name] = fmt.Sprintf("type=%d default=%s dynamic=%v sensitive=%v synonyms=%s",
				d.Type, def, !d.ReadOnly, d.Sensitive, strings.Join(synonyms, ","))
		}
	}
	add("TOPIC", metadata.TopicConfigDefs())
	add("BROKER", metadata.BrokerConfigDefs())
	add("GROUP_CONFIG", metadata.ResourceConfigDefs(metadata.ResourceGroup))
	add("CLIENT_METRICS", metadata.ResourceConfigDefs(metadata.ResourceClientMetrics))
	return list
}
