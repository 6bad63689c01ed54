package server

import (
	"slices"

	"github.com/millstream-io/millstream/core/protocol"
)

// handlers is the table of APIs. The ranges are those of Kafka 4.3: clients guess a broker's age
// from them, so a mix of releases misleads them.
var handlers = []handler{
	// librdkafka before 2.8 turns compression off when Produce starts above 0 (KAFKA-18659).
	{key: 0, min: 0, max: 13, served: 3}, // Produce
	{key: 1, min: 4, max: 18},            // Fetch
	{key: 2, min: 1, max: 11, handle: (*Server).listOffsets},
	{key: 3, min: 0, max: 13, handle: (*Server).metadata},
	{key: 8, min: 2, max: 10, handle: (*Server).offsetCommit},
	{key: 9, min: 1, max: 10, handle: (*Server).offsetFetch},
	{key: 10, min: 0, max: 6, handle: (*Server).findCoordinator},
	// JoinGroup must begin at 0: librdkafka before 2.11 and kafka-go ask for that (KAFKA-19444).
	{key: 11, min: 0, max: 9, waits: true, handle: (*Server).joinGroup},
	{key: 12, min: 0, max: 4, handle: (*Server).heartbeat},
	{key: 13, min: 0, max: 5, handle: (*Server).leaveGroup},
	{key: 14, min: 0, max: 5, waits: true, handle: (*Server).syncGroup},
	{key: 15, min: 0, max: 6, handle: (*Server).describeGroups},
	{key: 16, min: 0, max: 5, handle: (*Server).listGroups},
	{key: 17, min: 0, max: 1}, // SaslHandshake
	{key: 18, min: 0, max: 4, handle: (*Server).apiVersions},
	{key: 19, min: 2, max: 7, handle: (*Server).createTopics},
	{key: 20, min: 1, max: 6, handle: (*Server).deleteTopics},
	{key: 21, min: 0, max: 2, handle: (*Server).deleteRecords},
	{key: 22, min: 0, max: 5, handle: (*Server).initProducerID},
	{key: 23, min: 2, max: 4, handle: (*Server).offsetForLeaderEpoch},
	{key: 24, min: 0, max: 5, handle: (*Server).addPartitionsToTxn},
	{key: 25, min: 0, max: 4, handle: (*Server).addOffsetsToTxn},
	{key: 26, min: 0, max: 5, handle: (*Server).endTxn},
	{key: 27, min: 1, max: 2, handle: (*Server).writeTxnMarkers},
	{key: 28, min: 0, max: 5, handle: (*Server).txnOffsetCommit},
	{key: 29, min: 1, max: 3, handle: (*Server).describeACLs},
	{key: 30, min: 1, max: 3, handle: (*Server).createACLs},
	{key: 31, min: 1, max: 3, handle: (*Server).deleteACLs},
	{key: 32, min: 1, max: 4, handle: (*Server).describeConfigs},
	{key: 33, min: 0, max: 2, handle: (*Server).alterConfigs},
	{key: 34, min: 1, max: 2, handle: (*Server).alterReplicaLogDirs},
	{key: 35, min: 1, max: 5, handle: (*Server).describeLogDirs},
	{key: 36, min: 0, max: 2}, // SaslAuthenticate
	{key: 37, min: 0, max: 3, handle: (*Server).createPartitions},
	{key: 42, min: 0, max: 2, handle: (*Server).deleteGroups},
	{key: 43, min: 0, max: 2, handle: (*Server).electLeaders},
	{key: 44, min: 0, max: 1, handle: (*Server).incrementalAlterConfigs},
	{key: 45, min: 0, max: 1, handle: (*Server).alterPartitionReassignments},
	{key: 46, min: 0, max: 0, handle: (*Server).listPartitionReassignments},
	{key: 47, min: 0, max: 0, handle: (*Server).offsetDelete},
	{key: 48, min: 0, max: 1, handle: (*Server).describeClientQuotas},
	{key: 49, min: 0, max: 1, handle: (*Server).alterClientQuotas},
	{key: 50, min: 0, max: 0, handle: (*Server).describeScram},
	{key: 51, min: 0, max: 0, handle: (*Server).alterScram},
	{key: 55, min: 0, max: 2, handle: (*Server).describeQuorum},
	{key: 57, min: 0, max: 2, handle: (*Server).updateFeatures},
	{key: 60, min: 0, max: 2, handle: (*Server).describeCluster},
	{key: 61, min: 0, max: 0, handle: (*Server).describeProducers},
	{key: 64, min: 0, max: 0, handle: (*Server).unregisterBroker},
	{key: 65, min: 0, max: 0, handle: (*Server).describeTransactions},
	{key: 66, min: 0, max: 2, handle: (*Server).listTransactions},
	{key: 68, min: 0, max: 1, handle: (*Server).consumerGroupHeartbeat},
	{key: 69, min: 0, max: 1, handle: (*Server).consumerGroupDescribe},
	{key: 74, min: 0, max: 1, handle: (*Server).listConfigResources},
	{key: 75, min: 0, max: 0, handle: (*Server).describeTopicPartitions},
}

// handlerTable finds handlers by api key.
type handlerTable struct {
	// rows are sorted by key, as ApiVersions lists them.
	rows []handler
	// byKey holds the index in rows plus one, 0 for none.
	byKey [maxKey + 1]uint8
	// flexibleFrom is the first flexible version of each key, -1 for none.
	flexibleFrom [maxKey + 1]int16
}

// maxKey is the largest api key that a row may have.
const maxKey = 127

// newHandlerTable makes the table of some handlers: all of them, but in tests.
func newHandlerTable(rows []handler) *handlerTable {
	t := &handlerTable{rows: slices.Clone(rows)}
	slices.SortFunc(t.rows, func(a, b handler) int { return int(a.key) - int(b.key) })
	for i := range t.rows {
		row := &t.rows[i]
		row.served = max(row.served, row.min)
		t.byKey[row.key] = uint8(i + 1)
	}
	for key := range t.flexibleFrom {
		t.flexibleFrom[key] = protocol.FlexibleFrom(int16(key))
	}
	return t
}

// find returns the row of key.
func (t *handlerTable) find(key int16) (handler, bool) {
	if key < 0 || key > maxKey || t.byKey[key] == 0 {
		return handler{}, false
	}
	return t.rows[t.byKey[key]-1], true
}

// flexible tells whether (key, version) has tagged fields in its header.
func (s *Server) flexible(key, version int16) bool {
	if key < 0 || key > maxKey {
		return false
	}
	from := s.table.flexibleFrom[key]
	return from >= 0 && version >= from
}
