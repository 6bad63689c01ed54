package client

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/millstream-io/millstream/core/record"
)

// TopicPartition names one partition.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String returns topic-partition, as Kafka's folders are called.
func (tp TopicPartition) String() string { return fmt.Sprintf("%s-%d", tp.Topic, tp.Partition) }

// Compare orders by topic, then partition.
func (tp TopicPartition) Compare(o TopicPartition) int {
	return cmp.Or(strings.Compare(tp.Topic, o.Topic), cmp.Compare(tp.Partition, o.Partition))
}

// Fetched is a run of records of one partition.
type Fetched struct {
	TopicPartition
	// Records are in offset order; compaction, control records and aborted ones leave gaps. The
	// receiver owns them.
	Records []record.Record
	// From is the position before the run, Next the one after the run, gaps included.
	From, Next int64
	// End is the end of the log when the run was read.
	End int64
	// Free, unless nil, takes the memory of the records and their bytes back for others to come. Its
	// receiver may call it once, when nobody refers to any of it any more, or never.
	Free func()
}

// Consumer reads what is committed of partitions from positions its user assigns. It is used by one
// goroutine at a time, except that Assign, Unassign, Pause and Resume may be called during a Poll.
type Consumer interface {
	// Assign starts (or moves) reading of tp at offset.
	Assign(tp TopicPartition, offset int64)
	// Unassign ends reading of the partitions; nothing of them is returned any more.
	Unassign(tps ...TopicPartition)
	// Pause keeps partitions assigned but returns nothing of them until Resume.
	Pause(tps ...TopicPartition)
	// Resume undoes Pause.
	Resume(tps ...TopicPartition)
	// Poll returns what there is, waiting for something if there is nothing. A nil result with a
	// nil error does not happen; ctx's end is returned as its error.
	Poll(ctx context.Context) ([]Fetched, error)
	// Close ends reading and lets go of connections.
	Close()
}

// Producer appends records. It is used by one goroutine.
type Producer interface {
	// Send appends records to tp behind all that was sent before. It returns before they are
	// acknowledged and may wait, for buffer space or for the first record of a partition. The
	// slice may be reused when it returns; the bytes in the records must stay unchanged until the
	// next Flush has returned. Offset fields are ignored. It returns how many were sent, which is
	// less than all only with an error: ctx's, after which the rest may be sent again, or that of
	// an earlier record, after which nothing can be sent any more.
	Send(ctx context.Context, tp TopicPartition, records []record.Record) (sent int, err error)
	// Flush waits until all that was sent is acknowledged and returns the first failure, if there
	// was one. ctx ends the wait, not the sending.
	Flush(ctx context.Context) error
	// Acked returns the offset after the last acknowledged record this producer sent to tp, or -1
	// if there is none.
	Acked(tp TopicPartition) int64
	// Close gives up what is not acknowledged: what was not sent yet will never be.
	Close()
}

// Transactor is a producer whose records become readable together, with offsets of a group, or not
// at all. The first Send after a Commit begins a transaction. Every error that has to do with
// transactions is an ErrLost, and nothing can be sent after it: the way on is a new Transactor of
// the same id, which first settles how the last transaction ended. Unlike a Producer's, its Send
// copies: nothing of the records is referred to when it returns.
type Transactor interface {
	Producer
	// Commit waits until everything sent is acknowledged and ends the transaction: the records and
	// the next offsets of the group count from then on. Without a record in it, nothing is done.
	Commit(ctx context.Context, group string, next map[TopicPartition]int64) error
	// Abort ends the transaction without effect, as far as that can be done until ctx ends.
	Abort(ctx context.Context)
	// Readable waits until everything committed can be read: a transaction is decided before its
	// markers are written, and readers also wait for those of others that are open before it. When
	// ctx ends first the error says what it waited for; what was committed stays so.
	Readable(ctx context.Context) error
}

// TopicSpec describes a topic to make.
type TopicSpec struct {
	// Name of the topic.
	Name string
	// Partitions is their number, at least 1.
	Partitions int32
	// Replication is the number of copies; 0 takes the cluster's default.
	Replication int16
	// Configs are topic configs by Kafka name.
	Configs map[string]string
}

// LargeRecords is the max.message.bytes of topics the streams layer and pipelines make: a source
// may have read what Kafka's default of 1 MiB refuses.
const LargeRecords = "67108864"

// TopicInfo describes a topic that exists.
type TopicInfo struct {
	// ID changes when a topic is deleted and made again.
	ID string
	// Partitions is their number.
	Partitions int32
}

// Range is the readable part [Start, End) of a partition.
type Range struct{ Start, End int64 }

// Admin asks and changes what a cluster holds. It may be used by many goroutines.
type Admin interface {
	// Topics returns those of the named topics that exist.
	Topics(ctx context.Context, names ...string) (map[string]TopicInfo, error)
	// AllTopics returns the topics that may be seen.
	AllTopics(ctx context.Context) (map[string]TopicInfo, error)
	// CreateTopics makes topics; one that exists already is left as it is, without an error.
	CreateTopics(ctx context.Context, specs ...TopicSpec) error
	// Ranges returns the readable part of each partition.
	Ranges(ctx context.Context, tps ...TopicPartition) (map[TopicPartition]Range, error)
	// OffsetsAt returns, for each partition, the offset of the first record with a timestamp at or
	// after ms, or the end when there is none.
	OffsetsAt(ctx context.Context, ms int64, tps ...TopicPartition) (map[TopicPartition]int64, error)
	// DeleteRecords moves the start of each partition to the offset, if it is before it.
	DeleteRecords(ctx context.Context, before map[TopicPartition]int64) error
	// CommitOffsets commits the next offsets to read to a group that has no members.
	CommitOffsets(ctx context.Context, group string, next map[TopicPartition]int64) error
	// CommitNoted is CommitOffsets with a text beside each offset, which Notes returns.
	CommitNoted(ctx context.Context, group string, next map[TopicPartition]int64,
		notes map[TopicPartition]string) error
	// Notes returns the texts beside the committed offsets that have one.
	Notes(ctx context.Context, group string) (map[TopicPartition]string, error)
	// CommittedOffsets returns what was committed to the group.
	CommittedOffsets(ctx context.Context, group string) (map[TopicPartition]int64, error)
}

// Cluster makes the ports of one log cluster.
type Cluster interface {
	// Consumer returns a new consumer without partitions.
	Consumer() (Consumer, error)
	// Producer returns a new producer.
	Producer() (Producer, error)
	// Transactor returns the producer of a transactional id. Who had the id before can commit
	// nothing any more, and a transaction of it that was open is ended when this returns.
	Transactor(ctx context.Context, id string) (Transactor, error)
	// Join makes a member of a group; it joins with its first Next.
	Join(opts GroupOptions) (Member, error)
	// Admin returns the shared admin.
	Admin() Admin
	// Trouble tells what has kept the log from answering for a while, to whichever user.
	Trouble() Trouble
	// Close closes the admin. Consumers and producers are closed by their users.
	Close()
}

// ReadRange calls fn with the records of [from, to) of one partition, in order and in runs. It
// returns when the position has reached to, also if the last records before it are gone. c must
// have no other partitions: what comes of them is dropped.
func ReadRange(ctx context.Context, c Consumer, tp TopicPartition, from, to int64,
	fn func(records []record.Record) error,
) error {
	if from >= to {
		return nil
	}
	c.Assign(tp, from)
	defer c.Unassign(tp)
	for next := from; next < to; {
		runs, err := c.Poll(ctx)
		if err != nil {
			return fmt.Errorf("read %s from %d to %d: %w", tp, from, to, err)
		}
		for _, run := range runs {
			if run.TopicPartition != tp {
				continue
			}
			records := run.Records
			for len(records) > 0 && records[len(records)-1].Offset >= to {
				records = records[:len(records)-1]
			}
			if len(records) > 0 {
				if err := fn(records); err != nil {
					return err
				}
			}
			next = run.Next
		}
	}
	return nil
}
