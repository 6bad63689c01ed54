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
//   - Sessions, sliding and count windows are [Start, End], both ends included. A session is closed
//     iff S > End + gap + grace, a sliding window iff S > End + grace.
//   - A timestamp t begins the sliding window [t+1, t+1+span] and ends [t-span, t]; one below span
//     ends [0, span] instead.
package window
