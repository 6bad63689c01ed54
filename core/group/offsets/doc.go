// Package offsets is the record format of the __consumer_offsets topic, byte for byte Kafka's, and
// the table of committed offsets that those records build.
//
// # Files
//
// codec.go has the records, reader.go the bounded reader under it, table.go the table.
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
// Written are OffsetCommitKey v1 with value v4 (v1 if the client asked for its own retention time,
// v3 if the topic's id is not known), and GroupMetadataKey v2 with value v3, as Kafka 4.4 does; all
// of the above is read. Keys of version 3 and higher
// belong to other kinds of groups and are reported as such.
package offsets
