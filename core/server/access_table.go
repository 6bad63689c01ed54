package server

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millstream-io/millstream/core/metadata"
)

// Grants, by resource.
func onTopics(op metadata.ACLOperation) grant     { return grant{metadata.ACLTopic, op} }
func onGroups(op metadata.ACLOperation) grant     { return grant{metadata.ACLGroup, op} }
func onTheCluster(op metadata.ACLOperation) grant { return grant{metadata.ACLCluster, op} }
func onTransactions(op metadata.ACLOperation) grant {
	return grant{metadata.ACLTransactionalID, op}
}

// either needs one of several grants.
func either(code int16, grants ...grant) need { return need{grants, code} }

// all needs every grant, each with the code of its resource.
func all(grants ...grant) []need {
	codes := map[metadata.ACLResourceType]int16{
		metadata.ACLTopic: codeTopic, metadata.ACLGroup: codeGroup, metadata.ACLCluster: codeCluster,
		metadata.ACLTransactionalID: codeTxn,
	}
	var needs []need
	for _, g := range grants {
		needs = append(needs, need{[]grant{g}, codes[g.kind]})
	}
	return needs
}

// unseen leaves out what is not granted.
func unseen(grants ...grant) need { return need{anyOf: grants} }

// Short names of operations, for the table.
const (
	read       = metadata.ACLRead
	write      = metadata.ACLWrite
	create     = metadata.ACLCreate
	remove     = metadata.ACLDelete
	alter      = metadata.ACLAlter
	describe   = metadata.ACLDescribe
	action     = metadata.ACLClusterAction
	getConfigs = metadata.ACLDescribeConfigs
	setConfigs = metadata.ACLAlterConfigs
	idempotent = metadata.ACLIdempotentWrite
)

// accessTable says what each API needs, as in Kafka 4.4. A test asks every API with and without
// each of these, and fails for one that is served and not here.
var accessTable map[int16]accessRow

// init fills the table, which its guards speak of.
func init() {
	accessTable = map[int16]accessRow{
		0:  {all(onTopics(write), onTransactions(write)), nil},
		1:  {all(onTopics(read)), nil},
		2:  {all(onTopics(describe)), guardListOffsets},
		3:  {all(onTopics(describe)), nil},
		8:  {all(onGroups(read), onTopics(read)), guardOffsetCommit},
		9:  {all(onGroups(describe), onTopics(describe)), guardOffsetFetch},
		10: {all(onGroups(describe)), nil},
		11: {all(onGroups(read)), onGroup(read, joinedGroup)},
		12: {all(onGroups(read)), onGroup(read, beatingGroup)},
		13: {all(onGroups(read)), onGroup(read, leftGroup)},
		14: {all(onGroups(read)), onGroup(read, syncedGroup)},
		15: {all(onGroups(describe)), guardDescribeGroups},
		16: {listing(onTheCluster(describe), onGroups(describe)), guardListGroups},
		17: {}, // SaslHandshake
		18: {}, // ApiVersions
		19: {creating, guardCreateTopics},
		20: {deleting, guardDeleteTopics},
		21: {all(onTopics(remove)), guardDeleteRecords},
		22: {all(onTransactions(write)), guardInitProducerID},
		23: {replicating, guardEpochs},
		24: {all(onTheCluster(action)), guardAddPartitions},
		25: {all(onTransactions(write), onGroups(read)), guardAddOffsets},
		26: {all(onTransactions(write)), guardEndTxn},
		27: {marking, guardMarkers},
		28: {all(onTransactions(write), onGroups(read), onTopics(read)), guardTxnCommit},
		29: {all(onTheCluster(describe)), onCluster(describe)},
		30: {all(onTheCluster(alter)), guardCreateACLs},
		31: {all(onTheCluster(alter)), guardDeleteACLs},
		32: {all(onTopics(getConfigs)), guardDescribeConfigs},
		33: {all(onTopics(setConfigs)), guardAlterConfigs},
		34: {all(onTheCluster(alter)), guardLogDirMoves},
		35: {all(onTheCluster(describe)), guardLogDirs},
		36: {}, // SaslAuthenticate
		37: {all(onTopics(alter)), guardCreatePartitions},
		42: {all(onGroups(remove)), guardDeleteGroups},
		43: {all(onTheCluster(alter)), guardElections},
		44: {all(onTopics(setConfigs)), guardIncremental},
		45: {all(onTheCluster(alter)), onCluster(alter)},
		46: {all(onTheCluster(describe)), onCluster(describe)},
		47: {all(onGroups(remove), onTopics(read)), guardOffsetDelete},
		48: {all(onTheCluster(getConfigs)), onCluster(getConfigs)},
		49: {all(onTheCluster(setConfigs)), guardAlterQuotas},
		50: {all(onTheCluster(describe)), onCluster(describe)},
		51: {all(onTheCluster(alter)), guardAlterScram},
		55: {all(onTheCluster(describe)), onCluster(describe)},
		57: {all(onTheCluster(alter)), onCluster(alter)},
		60: {}, // DescribeCluster
		61: {all(onTopics(read)), guardProducers},
		64: {all(onTheCluster(alter)), onCluster(alter)},
		65: {all(onTransactions(describe)), guardDescribeTxns},
		66: {[]need{unseen(onTransactions(describe))}, guardListTxns},
		68: {all(onGroups(read), onTopics(describe)), guardConsumerHeartbeat},
		69: {all(onGroups(describe)), guardConsumerDescribe},
		74: {all(onTheCluster(getConfigs)), onCluster(getConfigs)},
		75: {all(onTopics(describe)), guardTopicPartitions},
	}
}

var (
	// creating needs CREATE on the topic or the cluster; DESCRIBE_CONFIGS for the configs in the
	// answer.
	creating = []need{either(codeTopic, onTopics(create), onTheCluster(create)),
		either(codeTopic, onTopics(getConfigs))}
	// deleting needs DELETE on the topic or the cluster.
	deleting = []need{either(codeTopic, onTopics(remove), onTheCluster(remove))}
	// replicating lets brokers ask about all topics.
	replicating = []need{either(codeTopic, onTopics(describe), onTheCluster(action))}
	// marking is for brokers, and for operators that end a lost transaction.
	marking = []need{either(codeCluster, onTheCluster(action), onTheCluster(alter))}
)

func listing(anyOf ...grant) []need { return []need{unseen(anyOf...)} }

func joinedGroup(m kmsg.Request) string  { return m.(*kmsg.JoinGroupRequest).Group }
func beatingGroup(m kmsg.Request) string { return m.(*kmsg.HeartbeatRequest).Group }
func leftGroup(m kmsg.Request) string    { return m.(*kmsg.LeaveGroupRequest).Group }
func syncedGroup(m kmsg.Request) string  { return m.(*kmsg.SyncGroupRequest).Group }
