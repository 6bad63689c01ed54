package server

import "github.com/millstream-io/millstream/core/group"

// groupHandlers lists the APIs of groups and their offsets.
var groupHandlers = []handler{
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
	{key: 28, min: 0, max: 5, handle: (*Server).txnOffsetCommit},
	{key: 42, min: 0, max: 2, handle: (*Server).deleteGroups},
	{key: 47, min: 0, max: 0, handle: (*Server).offsetDelete},
	{key: 68, min: 0, max: 1, handle: (*Server).consumerGroupHeartbeat},
	{key: 69, min: 0, max: 1, handle: (*Server).consumerGroupDescribe},
}

// pointer is a pointer to s, for the nullable strings of the protocol.
func pointer(s string) *string { return &s }

// nonNil is b, or an empty slice: where the protocol's bytes are not nullable.
func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// noError is the code of an answer without error.
const noError = group.ErrorCode(0)
