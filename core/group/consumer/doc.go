// Package consumer is one group of the new consumer protocol (KIP-848) as a state machine without
// clock, disk, socket or random source. The group assigns partitions itself (core/group/assign),
// and members are led to their assignment one by one, without stopping the others.
//
// # Path
//
// A ConsumerGroupHeartbeat comes in with the time. The group decides what changes, puts the records
// of it into Effects and answers; the change takes effect through Apply, once the records are
// durable. Only deadlines move at once.
//
//	what members say of themselves, topics      -> group epoch           updateEpoch
//	group epoch, subscriptions, last targets    -> target of each member updateTarget
//	target, what the member has, what it reports -> member epoch, state  reconcile
//
// A member goes from its epoch to the epoch of the target in steps:
//
//	Stable ---- has what it should not have ----> UnrevokedPartitions (in its old epoch)
//	UnrevokedPartitions -- it reports that those are gone --> the new epoch:
//	        Stable, or UnreleasedPartitions while others have something of its target
//
// Who does not give back within its rebalance timeout is taken out. Members of the classic protocol
// can be in the group too (classic_member.go): what they are told with each JoinGroup is the same
// step. The first member that comes with the new protocol makes a consumer group of a classic one,
// the last that goes takes it back (convert.go).
//
// # Invariants
//
//	a partition is with one member: owners[p] = m  <=>  p in m.assigned or m.revoking
//	m.epoch <= assignmentEpoch <= epoch, unless m is away (-2)
//	subscribers[x] = number of members whose expression is x
//	static[i] = m  =>  members[m].instance = i
//	m.assigned is part of what some target had for m; each partition has the epoch that said so
//	a refused request has no records
//
// # Files
//
// group.go the tables, replay.go how records change them, heartbeat.go the request, target.go the
// target, reconcile.go a member's way to it, regex.go subscription by expression, leave.go the ways
// out, commit.go who may commit, topics.go the hash of what is subscribed to.
package consumer
