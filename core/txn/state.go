package txn

import (
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
)

// State is where a transactional id is in its life. The numbers are those of the records.
type State int8

// The states. Dead and PrepareEpochFence never reach the log: Kafka has them in memory only, here
// nothing is in them, but they are names that ListTransactions knows.
const (
	Empty             State = 0 // no transaction yet since InitProducerId
	Ongoing           State = 1 // partitions were added
	PrepareCommit     State = 2 // decided: commit; markers are on their way
	PrepareAbort      State = 3 // decided: abort; markers are on their way
	CompleteCommit    State = 4 // committed everywhere
	CompleteAbort     State = 5 // aborted everywhere
	Dead              State = 6
	PrepareEpochFence State = 7
)

var stateNames = [...]string{"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit",
	"CompleteAbort", "Dead", "PrepareEpochFence"}

// String is Kafka's name of the state.
func (s State) String() string {
	if s < 0 || int(s) >= len(stateNames) {
		return "State" + strconv.Itoa(int(s))
	}
	return stateNames[s]
}

// StateByName finds a state by Kafka's name for it.
func StateByName(name string) (State, bool) {
	i := slices.Index(stateNames[:], name)
	return State(i), i >= 0
}

// decided tells that the outcome is fixed and its markers are not all written.
func (s State) decided() bool { return s == PrepareCommit || s == PrepareAbort }

// settled tells that no transaction is open or on its way.
func (s State) settled() bool { return s == Empty || s == CompleteCommit || s == CompleteAbort }

// TopicPartition names a partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// LogValue is Kafka's form, for logs.
func (tp TopicPartition) LogValue() slog.Value {
	return slog.StringValue(tp.Topic + "-" + strconv.Itoa(int(tp.Partition)))
}

func comparePartitions(a, b TopicPartition) int {
	if c := strings.Compare(a.Topic, b.Topic); c != 0 {
		return c
	}
	return int(a.Partition) - int(b.Partition)
}

// NoProducerID and NoProducerEpoch stand for "none".
const (
	NoProducerID    int64 = -1
	NoProducerEpoch int16 = -1
)

// lastEpoch is the largest epoch a client may have. The next one, math.MaxInt16, is kept back so
// that the producer which has the last can still be fenced.
const lastEpoch = math.MaxInt16 - 1

// exhausted tells that a producer id has no further epoch for its client.
func exhausted(epoch int16) bool { return epoch >= lastEpoch }

// versionTwo is the transaction version of KIP-890: the epoch rises with every transaction.
const versionTwo = 2

// Metadata is the durable state of a transactional id: the value of its record.
type Metadata struct {
	ProducerID int64
	// PreviousProducerID is the producer id before the last transition, mostly the same.
	PreviousProducerID int64
	// NextProducerID is the one that takes over when the markers are written, NoProducerID unless
	// the epochs of ProducerID are used up.
	NextProducerID int64
	ProducerEpoch  int16
	// NextProducerEpoch goes with NextProducerID in two-phase commits (KIP-939). Kept, not used.
	NextProducerEpoch int16
	TimeoutMS         int32
	State             State
	// Partitions has those of the open transaction, sorted. Never changed in place.
	Partitions []TopicPartition
	// LastUpdateMS is the time of the last transition, StartMS that of the first partition, -1 none.
	LastUpdateMS, StartMS int64
	// ClientVersion is the transaction version by which the client works; in a decided state it says
	// which rule the markers follow.
	ClientVersion int16
}

// transit is a copy of md that goes to a state.
func (md Metadata) transit(to State, nowMS int64) Metadata {
	md.PreviousProducerID = md.ProducerID
	md.State = to
	md.LastUpdateMS = nowMS
	return md
}

// contains tells whether the transaction has the partition.
func (md *Metadata) contains(p TopicPartition) bool {
	_, ok := slices.BinarySearchFunc(md.Partitions, p, comparePartitions)
	return ok
}

// containsAll tells whether the transaction has all of ps.
func (md *Metadata) containsAll(ps []TopicPartition) bool {
	for _, p := range ps {
		if !md.contains(p) {
			return false
		}
	}
	return true
}

// complete is what follows a decided transaction whose markers are written.
func (md Metadata) complete(nowMS int64) Metadata {
	to := CompleteAbort
	if md.State == PrepareCommit {
		to = CompleteCommit
	}
	next := md.transit(to, nowMS)
	if md.ClientVersion >= versionTwo && md.NextProducerID != NoProducerID {
		next.ProducerID, next.ProducerEpoch = md.NextProducerID, 0
	}
	next.NextProducerID = NoProducerID
	next.Partitions = nil
	return next
}
