// Package window says which windows a timestamp falls into and when a window is closed.
//
// # Invariants
//
//   - A window is [Start, End). Starts are offset + k*advance for every integer k, so windows are
//     aligned to 1970-01-01 UTC and timestamps before it are treated like all others.
//   - A window is closed iff S >= End + grace. From then on nothing is added to it.
package window
