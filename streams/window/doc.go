// Package window says which windows a timestamp falls into and when a window is closed.
//
// # Invariants
//
//   - A window is [Start, End). Starts are offset + k*advance for every integer k: windows are
//     aligned to 1970-01-01 UTC, also for timestamps before it.
//   - A timestamp is in every window with Start <= ts < End, except that overlapping windows that
//     start before 1970 do not take timestamps after it (as in Kafka Streams, whose windows never
//     start below 0).
//   - A window is closed iff S >= End + grace. From then on nothing is added to it.
package window
