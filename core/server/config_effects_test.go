package server_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/millstream-io/millstream/core/metadata"
)

// configEffects names, for each setting that is in force, the tests that fail when it has no
// effect, as folder.Test. That settings of topics, and the broker settings that are their defaults,
// reach the log while it is open is what replica.TestTopicConfigsReachTheLogWithoutARestart shows.
var configEffects = map[string]string{
	// Topics.
	"cleanup.policy":                  "storage.TestRetentionLeavesCompactedTopicsAlone",
	"compression.gzip.level":          "storage.TestCompressionLevelsTradeTimeForSpace",
	"compression.lz4.level":           "storage.TestCompressionLevelsTradeTimeForSpace",
	"compression.zstd.level":          "storage.TestCompressionLevelsTradeTimeForSpace",
	"compression.type":                "storage.TestCompressionTypeIsTheCodecOfStoredBatches",
	"file.delete.delay.ms":            "storage.TestDeleteRenamesThenUnlinksAfterTheDelay",
	"flush":                           "storage.TestFlushOSSyncsInTheBackground",
	"flush.messages":                  "storage.TestFlushMessagesSyncsEveryNRecords",
	"flush.ms":                        "storage.TestFlushMSSyncsInTime",
	"index.interval.bytes":            "storage.TestIndexFileBytes",
	"max.message.bytes":               "storage.TestRule7_SizeIsCheckedBeforeAndAfterCompression",
	"message.timestamp.after.max.ms":  "storage.TestRule7_ClientBatchesThatAreRefused",
	"message.timestamp.before.max.ms": "storage.TestRule7_RefusedRecordsAreNamed",
	"message.timestamp.type":          "storage.TestAppendSetsLogAppendTime",
	"min.insync.replicas":             "replica.TestAcksAllNeedsMinInsyncReplicas",
	"preallocate":                     "storage.TestPreallocateReservesTheSegment",
	"retention.bytes":                 "storage.TestRetentionBySizeKeepsAtLeastTheLimit",
	"retention.ms":                    "storage.TestRetentionByTimeUsesRecordTimestamps",
	"segment.bytes":                   "storage.TestLogRollsAtSegmentBytes",
	"internal.segment.bytes":          "server.TestLogLevelsReallyChange",
	"segment.index.bytes":             "storage.TestLogRollsWhenAnIndexIsFull",
	"segment.jitter.ms":               "storage.TestSegmentJitterSpreadsRolls",
	"segment.ms":                      "storage.TestLogRollsAtSegmentMSOfRecordTime",

	// Brokers.
	"broker.id": "server.TestBrokersTellWhereTheyAre", "node.id": "server.TestBrokersTellWhereTheyAre",
	"listeners":                                     "server.TestBrokersTellWhereTheyAre",
	"advertised.listeners":                          "server.TestBrokersTellWhereTheyAre",
	"log.dirs":                                      "server.TestBrokersTellWhereTheyAre",
	"auto.create.topics.enable":                     "server.TestBrokerConfigsOfTopics",
	"broker.rack":                                   "server.TestBrokerConfigsOfTopics",
	"delete.topic.enable":                           "server.TestBrokerConfigsOfTopics",
	"max.request.partition.size.limit":              "server.TestBrokerConfigsOfTopics",
	"slow.request.log.threshold.ms":                 "server.TestSlowRequestsAreLogged",
	"metrics.series.max":                            "..TestMetricsAreBounded",
	"num.partitions":                                "server.TestBrokerConfigsOfTopics",
	"offsets.topic.num.partitions":                  "server.TestBrokerConfigsOfTopics",
	"offsets.topic.segment.bytes":                   "server.TestBrokerConfigsOfTopics",
	"transaction.state.log.num.partitions":          "server.TestBrokerConfigsOfTopics",
	"transaction.state.log.segment.bytes":           "server.TestBrokerConfigsOfTopics",
	"transaction.state.log.min.isr":                 "server.TestBrokerConfigsOfTopics",
	"default.replication.factor":                    "server.TestReplicationFactorsAreTakenAsSet",
	"offsets.topic.replication.factor":              "server.TestReplicationFactorsAreTakenAsSet",
	"transaction.state.log.replication.factor":      "server.TestReplicationFactorsAreTakenAsSet",
	"max.connections":                               "server.TestConnectionLimitsFollowTheConfigs",
	"max.connections.per.ip":                        "server.TestConnectionLimitsFollowTheConfigs",
	"max.connections.per.ip.overrides":              "server.TestConnectionLimitsFollowTheConfigs",
	"max.connection.creation.rate":                  "server.TestConnectionRateIsPaced",
	"connections.max.idle.ms":                       "server.TestSocketConfigsAreReadAtStart",
	"millstream.groups.max":                         "server.TestGroupsAreBounded",
	"millstream.transactional.ids.max":              "server.TestTransactionalIDsAreBounded",
	"millstream.producer.ids.max":                   "server.TestProducerIDsAreBounded",
	"millstream.partition.producer.ids.max":         "server.TestProducerIDsAreBounded",
	"millstream.log.scrub.bytes.per.second":         "storage.TestScrubFindsWhatNobodyReads",
	"millstream.log.scrub.interval.ms":              "storage.TestScrubFindsWhatNobodyReads",
	"millstream.partitions.max":                     "server.TestPartitionsAreBounded",
	"millstream.topic.partitions.max":               "server.TestPartitionsAreBounded",
	"queued.max.request.bytes":                      "server.TestMemoryOfRequestsIsOneConfig",
	"quota.window.num":                              "server.TestQuotaWindowsAreConfigs",
	"quota.window.size.seconds":                     "server.TestQuotaWindowsAreConfigs",
	"controller.quota.window.num":                   "server.TestQuotaWindowsAreConfigs",
	"controller.quota.window.size.seconds":          "server.TestQuotaWindowsAreConfigs",
	"millstream.quota.clients.max":                  "server.TestQuotaWindowsAreConfigs",
	"fetch.max.bytes":                               "server.TestSocketConfigsAreReadAtStart",
	"socket.request.max.bytes":                      "server.TestSocketConfigsAreReadAtStart",
	"max.incremental.fetch.session.cache.slots":     "server.TestFetchSessionSlotsCanBeZero",
	"transaction.partition.verification.enable":     "replica.TestVerificationFollowsItsConfig",
	"log.retention.check.interval.ms":               housekeepingTest,
	"log.flush.offset.checkpoint.interval.ms":       housekeepingTest,
	"log.flush.start.offset.checkpoint.interval.ms": "storage.TestCheckpointsHaveTheirOwnIntervals",
	"replica.high.watermark.checkpoint.interval.ms": "storage.TestCheckpointsHaveTheirOwnIntervals",
	"producer.id.expiration.ms":                     "storage.TestProducersExpireByTheConfigInForce",
	"allow.everyone.if.no.acl.found":                "auth.TestAllowEveryoneIsForWhatNoRuleSpeaksOf",
	"authorizer.class.name":                         "server.TestRulesNeedAnAuthorizer",
	"connection.failed.authentication.delay.ms":     "server.TestFailedLoginIsAnsweredLate",
	"connections.max.reauth.ms":                     "server.TestKIP368_LoginExpires",
	"listener.security.protocol.map":                "..TestEachListenerHasItsProtocol",
	"sasl.enabled.mechanisms":                       "server.TestLoginCodes",
	"sasl.jaas.config":                              "..TestEachListenerHasItsProtocol",
	"sasl.oauthbearer.clock.skew.seconds":           "..TestLoginWithTokens",
	"sasl.oauthbearer.expected.audience":            "..TestLoginWithTokens",
	"sasl.oauthbearer.expected.issuer":              "..TestLoginWithTokens",
	"sasl.oauthbearer.jwks.endpoint.refresh.ms":     "..TestLoginWithTokens",
	"sasl.oauthbearer.jwks.endpoint.url":            "..TestLoginWithTokens",
	"sasl.oauthbearer.sub.claim.name":               "..TestLoginWithTokens",
	"sasl.server.max.receive.size":                  "server.TestRequestsBeforeTheLoginAreSmall",
	"ssl.client.auth":                               "..TestEachListenerHasItsProtocol",
	"ssl.enabled.protocols":                         "..TestKeysMayBeInTheSettings",
	"ssl.keystore.certificate.chain":                "..TestKeysMayBeInTheSettings",
	"ssl.keystore.key":                              "..TestKeysMayBeInTheSettings",
	"ssl.keystore.location":                         "..TestEachListenerHasItsProtocol",
	"ssl.keystore.type":                             "..TestStartRefusesBadListeners",
	"ssl.principal.mapping.rules":                   "..TestEachListenerHasItsProtocol",
	"ssl.truststore.certificates":                   "..TestKeysMayBeInTheSettings",
	"ssl.truststore.location":                       "..TestEachListenerHasItsProtocol",
	"ssl.truststore.type":                           "..TestStartRefusesBadListeners",
	"super.users":                                   "..TestEachListenerHasItsProtocol",
}

// configsTold are told to their part, which core.TestBrokerConfigsReachTheirParts shows, and do
// there what the tests of that part's folder are about.
var configsTold = []string{
	"group.consumer.assignment.interval.ms", "group.consumer.assignors",
	"group.consumer.heartbeat.interval.ms", "group.consumer.max.size",
	"group.consumer.migration.policy", "group.consumer.regex.refresh.interval.ms",
	"group.consumer.session.timeout.ms", "group.initial.rebalance.delay.ms",
	"group.max.session.timeout.ms", "group.max.size", "group.min.session.timeout.ms",
	"offset.metadata.max.bytes", "offsets.commit.timeout.ms", "offsets.retention.minutes",
	"offsets.retention.check.interval.ms", "log.cleaner.backoff.ms",
	"log.cleaner.dedupe.buffer.size", "log.cleaner.enable", "log.cleaner.io.buffer.load.factor",
	"log.cleaner.io.buffer.size", "log.cleaner.io.max.bytes.per.second", "log.cleaner.threads",
	"num.recovery.threads.per.data.dir", "transaction.max.timeout.ms",
	"transaction.abort.timed.out.transaction.cleanup.interval.ms",
	"transaction.remove.expired.transaction.cleanup.interval.ms", "transactional.id.expiration.ms",
}

// groupConfigBounds bound what groups can be given, which TestConfigValuesAreJudgedAsKafkaDoes and
// core.TestGroupConfigsStayWithinTheBrokersBounds show.
var groupConfigBounds = regexp.MustCompile(`^(group\.)?consumer\.((min|max)\.)?` +
	`(session\.timeout|heartbeat\.interval|assignment\.interval)\.ms$`)

// compactionConfigs are what storage/compact is about; each has its rows in the tests there.
var compactionConfigs = []string{"delete.retention.ms", "max.compaction.lag.ms",
	"min.cleanable.dirty.ratio", "min.compaction.lag.ms"}

const housekeepingTest = "storage.TestRunWritesCheckpointsAndExpiresOnItsOwn"

// TestEveryConfigInForceHasATest: a setting either says why it changes nothing, or a test shows
// what it changes.
func TestEveryConfigInForceHasATest(t *testing.T) {
	tests := make(map[string]bool)
	name := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, folder := range []string{"server", "storage", "storage/compact", "replica", "group", "txn",
		"auth", "metadata", "controller", "."} {
		files, err := filepath.Glob(filepath.Join("..", folder, "*_test.go"))
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, found := range name.FindAllStringSubmatch(string(text), -1) {
				tests[strings.ReplaceAll(folder, "/", ".")+"."+found[1]] = true
			}
		}
	}
	synonyms := make(map[string]bool)
	for _, d := range metadata.TopicConfigDefs() {
		for _, s := range d.BrokerSynonyms {
			synonyms[s] = true
		}
	}
	check := func(defs []*metadata.ConfigDef) {
		for _, d := range defs {
			test, has := configEffects[d.Name]
			switch {
			case synonyms[d.Name], groupConfigBounds.MatchString(d.Name):
			case slices.Contains(configsTold, d.Name), slices.Contains(compactionConfigs, d.Name):
				require.Empty(t, d.Inert, d.Name)
			case d.Inert != "":
				require.False(t, has, "%s is said to change nothing", d.Name)
			default:
				require.True(t, tests[test], "%s: no such test as %q", d.Name, test)
			}
		}
	}
	check(metadata.TopicConfigDefs())
	check(metadata.BrokerConfigDefs())
	check(metadata.ResourceConfigDefs(metadata.ResourceGroup))
}
