// Command attack starts a broker and has hostile clients at it, over real sockets, while a producer and a consumer go
// about their work. .ci/faults/hostile runs it.
//
//	attack -binary MILLSTREAM -dir DIR -golden core/server/testdata/golden [-port P] [-for 60s] [-seed N] [-only NAMES]
//
// The broker has 400 MiB (GOMEMLIMIT; requests take a quarter of that in each of their parts), is killed at 700 where
// there are cgroups, and must stay below 600. It takes strangers on one port, who may do everything below the names
// "attack", and users on another.
// Strangers send garbage, recorded requests with some bytes changed, lengths that lie, requests that break off with
// RST or trickle in, bombs of all codecs, fetches whose answers they do not read, wrong passwords; they open
// connections by the thousand, join groups, begin transactions and make topics as fast as they are let, and do the same
// to the HTTP port. The user produces with acks=all and consumes.
//
// It fails if anything that was acknowledged is lost, twice or out of order, if a record takes longer than a bound
// from its producer to its consumer, if the process ends or uses more memory than a bound, if a handler panics, if the
// log is flooded, and if some time after the last attack goroutines or sockets are more than before. In the end the
// broker is stopped in order and doctor looks at its files. Each attack tells how much of it there was.
package main
