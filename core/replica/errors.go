package replica

import "errors"

// Errors of looking up a partition.
var (
	// ErrUnknownPartition says that the cluster has no such topic or partition.
	ErrUnknownPartition = errors.New("unknown topic or partition")
	// ErrUnknownTopicID says that no topic has that id, for instance since it was deleted.
	ErrUnknownTopicID = errors.New("unknown topic id")
	// ErrOffline says that this node leads the partition, but cannot use its log; it wraps why.
	ErrOffline = errors.New("partition is offline")
	// ErrNotLeader says that another node leads the partition, or none does.
	ErrNotLeader = errors.New("not the leader of the partition")
)

// Errors of a request that names a leader epoch (KIP-320).
var (
	// ErrFencedLeaderEpoch says that the client's epoch is older: its metadata is stale.
	ErrFencedLeaderEpoch = errors.New("fenced leader epoch")
	// ErrUnknownLeaderEpoch says that the client's epoch is newer: this node's metadata is stale.
	ErrUnknownLeaderEpoch = errors.New("unknown leader epoch")
)

// ErrNotEnoughReplicas says that fewer replicas are in sync than acks=all needs. Nothing was
// appended.
var ErrNotEnoughReplicas = errors.New("not enough in-sync replicas")
