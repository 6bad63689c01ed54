// Command killloop starts a broker as a process, loads it, kills it with SIGKILL at random moments, starts it again,
// and checks that nothing that it had acknowledged is lost. .ci/faults/kill runs it.
//
//	killloop -binary MILLSTREAM -cycles N -dir DIR [-port P] [-seed S]
//
// # A cycle
//
//	start -> a sentinel in every partition, all read up to it and compared -> more load -> SIGKILL -> doctor
//
// Of 20 kills 3 come while the broker starts; of 20 cycles one ends with SIGTERM instead, after which doctor must not
// even have a note. Clients live through the kills, as applications do, and go on with what they had in flight.
//
// # Load and what is expected
//
//	kept      idempotent producers, which repeat what was not acknowledged: each number once, in order, no gap.
//	          A producer without retries that lives as long as the broker: what was acknowledged, at its offset.
//	          Small segments and retention: what was read once is the same whenever it is read again.
//	compact   keys with rising numbers and tombstones: rising per key, the last one not older than the last acknowledged.
//	txn       transactions with and without KIP-890: committed ones whole, aborted ones absent, others one of both,
//	          in order, at read_committed.
//	orders    is copied to "copied" with its offsets in one transaction: each once, in order, no gap.
//	groups    classic and KIP-848 on "kept": a committed offset is never below the last acknowledged one nor above what
//	          was sent, no member skips a record.
//
// # Goroutines
//
// One for each client, from run to stop of world; the main goroutine verifies. Ledgers have a mutex each.
package main
