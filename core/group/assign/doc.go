// Package assign spreads the partitions of topics over the members of a consumer group (KIP-848) as
// pure functions: Range and Uniform give what the assignors of the same names in Kafka give.
//
// # Range
//
// Each topic by itself: its partitions in order are cut into as many ranges as it has subscribers,
// the first ranges one larger if it does not come out even. Static members come first, by instance
// id, then the others by member id. Members with equal subscriptions get equal partition numbers of
// topics with equally many partitions. Nothing is sticky.
//
// # Uniform
//
// All topics together: members with the same subscriptions differ by at most one partition, and
// keep what they have as far as that allows. Two algorithms, as in Kafka: uniform.go if all members
// subscribe to the same topics, balance.go if not.
//
// Kafka's results depend on the order of its hash maps; here members and topics are sorted by id.
//
// # Invariants
//
//	each partition of a subscribed topic is in exactly one assignment
//	no member has a partition of a topic that it does not subscribe to
//	the lists of partitions are sorted and not empty
package assign
