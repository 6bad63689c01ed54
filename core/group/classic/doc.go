// Package classic is one group of the classic protocol (JoinGroup, SyncGroup, Heartbeat,
// LeaveGroup) as a state machine without clock, disk, socket or random source.
//
// # Path
//
// A request comes in with the time and the ticket of its caller; the group changes its volatile
// state and puts answers and at most one record to write into Effects. A JoinGroup or SyncGroup
// that has to wait keeps its ticket in the member until the phase it waits for is over. What must
// survive (generation, protocol, leader, members, assignments) takes effect through Apply, once the
// record is durable; Undo takes back what was done in expectation of it.
//
//	Empty --join--> PreparingRebalance --all joined, or time over--> CompletingRebalance
//	CompletingRebalance --leader syncs, record durable--> Stable
//	Stable, CompletingRebalance --join, leave, expiry--> PreparingRebalance
//	PreparingRebalance --nobody left--> Empty
//
// # Invariants
//
//	member.join != 0    =>  state = PreparingRebalance
//	member.sync != 0    =>  state = CompletingRebalance
//	state = Empty      <=>  no members, once its record is written
//	votes[p]             =  number of members that list protocol p
//	static[i] = m        => members[m].instance = i
//	a ticket is in one place: one member's join or sync, or answered
//
// The rules are those of KIP-62 (session and rebalance timeouts), KIP-134 (initial delay), KIP-345
// (static members), KIP-389 (maximal size), KIP-394 (member id required), KIP-559 (protocol in
// SyncGroup), KIP-814 (static leader skips the assignment).
package classic
