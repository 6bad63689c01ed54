// Package quota measures what clients use against their quotas, and says for how long they have to
// wait (KIP-13, 124, 219, 599, 612).
//
// # Path
//
// Manager.SetQuotas takes the quotas of a metadata image. For each request the server calls Record
// with what it used (bytes, or percent of a second), Mutate for changes of topics, Connect for a
// new connection; the answer is the time for which the client is to be left alone.
//
// # Which quota
//
// The first that there is, for each kind by itself; what it bounds is used together by all that
// have the same key:
//
//	users/<user>/clients/<client-id>   user and client id
//	users/<user>/clients/<default>     user and client id
//	users/<user>                       user
//	users/<default>/clients/<id>       user and client id
//	users/<default>/clients/<default>  user and client id
//	users/<default>                    user
//	clients/<client-id>                client id
//	clients/<default>                  client id
//
// A client without a client id has the id "", which the defaults bound too; in Kafka it escapes
// them.
//
// # Arithmetic
//
// A rate is the sum of the samples of the last Samples windows by the time since the oldest began,
// which counts as at least Samples-1 windows. With a rate of R and a quota of Q over W the wait is
// (R-Q)/Q*W. Changes of topics have a bucket of Samples*Window*Q tokens instead, filled with Q a
// second, which may be overdrawn once: the wait is what it takes to fill it to 0.
//
// # Invariants
//
// Without quotas of a kind Record costs one atomic load and keeps nothing. Each kind keeps at most
// MaxClients keys: one that was idle until its samples were over is forgotten, which changes
// nothing; further ones share one key. Time is monotonic: a clock that is set does not matter.
//
// # Goroutines
//
// None. All methods are safe for concurrent use.
//
// # Locks
//
// One for each kind, held for the arithmetic only.
package quota
