// Package offsets is the record format of the __consumer_offsets topic, byte for byte Kafka's, and
// the table of committed offsets that those records build.
//
// # Files
//
// codec.go has the records of offsets and classic groups, consumer.go those of consumer groups,
// reader.go the bounded reader under them, table.go the table, pending.go the offsets of
// transactions that are not decided.
//
// # Format
//
// All integers are big-endian; string is int16 length and bytes, bytes is int32 length and bytes,
// -1 is null. A null value is a tombstone: the offset, or the group, is gone.
//
//	key   OffsetCommitKey v0, v1    version int16, group string, topic string, partition int32
//	value OffsetCommitValue
//	  v0  version int16, offset int64, metadata string, commitTimestamp int64
//	  v1  v0 + expireTimestamp int64
//	  v2  as v0
//	  v3  version int16, offset int64, leaderEpoch int32, metadata string, commitTimestamp int64
//	  v4  v3 with compact strings and tagged fields (tag 0: topic id, 16 bytes)
//	key   GroupMetadataKey v2       version int16, group string
//	value GroupMetadataValue
//	  v0  version int16, protocolType string, generation int32, protocol nullable string,
//	      leader nullable string, members array of {memberID string, clientID string,
//	      clientHost string, sessionTimeout int32, subscription bytes, assignment bytes}
//	  v1  members gain rebalanceTimeout int32 before sessionTimeout
//	  v2  + currentStateTimestamp int64 before members
//	  v3  members gain instanceID nullable string after memberID
//	  v4  v3 with compact strings, bytes and arrays, and tagged fields
//
// The records of consumer groups (KIP-848). Their values are all of version 0 and flexible: cstring
// is uvarint length+1 (0 is null) and bytes, carray uvarint length+1 and elements, tags uvarint
// count and {uvarint tag, uvarint length, value}. Each structure ends with its tags.
//
//	key  3 ConsumerGroupMetadataKey                 version int16, group string
//	value  epoch int32, tag 0: metadataHash int64
//	key  4 ConsumerGroupPartitionMetadataKey        version int16, group string
//	value  (not read; its tombstone goes with the group)
//	key  5 ConsumerGroupMemberMetadataKey           version int16, group string, member string
//	value  instanceID cstring, rackID cstring, clientID cstring, clientHost cstring,
//	       topics carray of cstring, regex cstring, rebalanceTimeout int32, assignor cstring,
//	       tag 0: classic int8 0 (null), or int8 1, sessionTimeout int32, protocols carray of
//	       {name cstring, metadata cbytes}
//	key  6 ConsumerGroupTargetAssignmentMetadataKey version int16, group string
//	value  epoch int32, tag 0: timestamp int64
//	key  7 ConsumerGroupTargetAssignmentMemberKey   version int16, group string, member string
//	value  carray of {topic 16 bytes, partitions carray of int32}
//	key  8 ConsumerGroupCurrentMemberAssignmentKey  version int16, group string, member string
//	value  epoch int32, previousEpoch int32, state int8, assigned carray of {topic 16 bytes,
//	       partitions carray of int32, tag 0: epochs carray of int32}, revoking as assigned
//	key 16 ConsumerGroupRegularExpressionKey        version int16, group string, regex string
//	value  topics carray of cstring, version int64, timestamp int64
//
// Written are OffsetCommitKey v1 with value v4 (v1 if the client asked for its own retention time,
// v3 if the topic's id is not known), GroupMetadataKey v2 with value v3, and those of consumer
// groups, as Kafka 4.4 does; all of the above is read. Keys of other versions belong to other kinds
// of groups and are reported as such.
package offsets
