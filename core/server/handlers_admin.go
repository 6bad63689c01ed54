package server

import "github.com/millstream-io/millstream/core/protocol"

// adminHandlers lists the APIs of administrators that came after those in handlers.
var adminHandlers = []handler{
	{key: 34, min: 1, max: 2, handle: (*Server).alterReplicaLogDirs},
	{key: 43, min: 0, max: 2, handle: (*Server).electLeaders},
	{key: 45, min: 0, max: 1, handle: (*Server).alterPartitionReassignments},
	{key: 46, min: 0, max: 0, handle: (*Server).listPartitionReassignments},
	{key: 55, min: 0, max: 2, handle: (*Server).describeQuorum},
	{key: 57, min: 0, max: 2, handle: (*Server).updateFeatures},
	{key: protocol.KeyDescribeProducers, min: 0, max: 0, handle: (*Server).describeProducers},
	{key: 64, min: 0, max: 0, handle: (*Server).unregisterBroker},
}
