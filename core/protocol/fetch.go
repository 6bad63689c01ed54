package protocol

import (
	"encoding/binary"
	"fmt"
)

// FetchRequest is a decoded Fetch body, versions 4 to 18. It is meant to be reused: Decode
// overwrites it and keeps its slices. All byte slices alias the frame.
type FetchRequest struct {
	// ReplicaID is the broker that fetches, -1 for a consumer.
	ReplicaID int32
	// MaxWaitMillis bounds the wait for MinBytes.
	MaxWaitMillis int32
	// MinBytes is how much the answer should carry before it is sent.
	MinBytes int32
	// MaxBytes bounds the answer; the first batch is sent even if it is larger.
	MaxBytes int32
	// IsolationLevel is 0 (read uncommitted) or 1 (read committed).
	IsolationLevel int8
	// SessionID and SessionEpoch belong to KIP-227; 0 and -1 when not used.
	SessionID, SessionEpoch int32
	// Topics are in the order of the request.
	Topics []FetchTopic
	// Partitions of all topics, one after the other; a topic holds its range.
	Partitions []FetchPartition
	// Forgotten are the topics of which a session should drop partitions, and
	// ForgottenPartitions the indexes of those, one topic after the other.
	Forgotten           []FetchTopic
	ForgottenPartitions []int32
	// Rack is where the consumer is, "" when it does not say.
	Rack []byte
}

// FetchTopic is one topic of a FetchRequest.
type FetchTopic struct {
	// Name is the topic's name up to version 12, nil from 13 on.
	Name []byte
	// ID is the topic's id from version 13 on.
	ID [16]byte
	// First and End are the topic's range [First, End) in FetchRequest.Partitions, or in
	// FetchRequest.ForgottenPartitions.
	First, End int
}

// FetchPartition is one partition of a FetchRequest.
type FetchPartition struct {
	// Index is the number of the partition in its topic.
	Index int32
	// CurrentLeaderEpoch is what the client takes the epoch to be; -1 is no check (KIP-320).
	CurrentLeaderEpoch int32
	// Offset is the first offset wanted.
	Offset int64
	// LastFetchedEpoch is the epoch of the record before Offset, -1 when unknown (KIP-595).
	LastFetchedEpoch int32
	// LogStartOffset is the follower's first offset, -1 for a consumer.
	LogStartOffset int64
	// MaxBytes bounds what this partition gives.
	MaxBytes int32
}

// fetchTagReplicaState is the tagged field of the request that says which replica fetches.
const fetchTagReplicaState = 1

// Decode reads body as a Fetch request of the given version.
func (f *FetchRequest) Decode(version int16, body []byte) error {
	flexible := version >= 12
	r := Reader{Src: body}
	f.reset()
	if version <= 14 {
		f.ReplicaID = r.Int32()
	}
	f.MaxWaitMillis = r.Int32()
	f.MinBytes = r.Int32()
	f.MaxBytes = r.Int32()
	f.IsolationLevel = r.Int8()
	if version >= 7 {
		f.SessionID = r.Int32()
		f.SessionEpoch = r.Int32()
	}
	for range r.ArrayLen(flexible, fetchTopicMin(version)) {
		f.decodeTopic(&r, version)
		if !r.Ok() {
			break
		}
	}
	if version >= 7 {
		f.decodeForgotten(&r, version)
	}
	if version >= 11 {
		f.Rack = r.String(flexible)
	}
	if flexible {
		f.decodeTags(&r, version)
	}
	if !r.Ok() {
		return fmt.Errorf("decode Fetch v%d: %w", version, ErrMalformed)
	}
	return nil
}

// fetchTopicMin is the smallest size of a topic: name or id, array length, tags when flexible.
func fetchTopicMin(version int16) int {
	switch {
	case version >= 13:
		return 16 + 1 + 1
	case version >= 12:
		return 1 + 1 + 1
	default:
		return 2 + 4
	}
}

// decodeTopic appends the next topic and its partitions.
func (f *FetchRequest) decodeTopic(r *Reader, version int16) {
	flexible := version >= 12
	t := FetchTopic{First: len(f.Partitions)}
	if version >= 13 {
		t.ID = r.UUID()
	} else {
		t.Name = r.String(flexible)
	}
	for range r.ArrayLen(flexible, 4+8+4) {
		p := FetchPartition{
			Index: r.Int32(), CurrentLeaderEpoch: -1, LastFetchedEpoch: -1, LogStartOffset: -1,
		}
		if version >= 9 {
			p.CurrentLeaderEpoch = r.Int32()
		}
		p.Offset = r.Int64()
		if version >= 12 {
			p.LastFetchedEpoch = r.Int32()
		}
		if version >= 5 {
			p.LogStartOffset = r.Int64()
		}
		p.MaxBytes = r.Int32()
		if flexible {
			r.SkipTags() // directory id and high watermark of a follower
		}
		if !r.Ok() {
			return
		}
		f.Partitions = append(f.Partitions, p)
	}
	if flexible {
		r.SkipTags()
	}
	t.End = len(f.Partitions)
	f.Topics = append(f.Topics, t)
}

// decodeForgotten reads the partitions that a session should drop.
func (f *FetchRequest) decodeForgotten(r *Reader, version int16) {
	flexible := version >= 12
	for range r.ArrayLen(flexible, fetchTopicMin(version)) {
		t := FetchTopic{First: len(f.ForgottenPartitions)}
		if version >= 13 {
			t.ID = r.UUID()
		} else {
			t.Name = r.String(flexible)
		}
		for range r.ArrayLen(flexible, 4) {
			f.ForgottenPartitions = append(f.ForgottenPartitions, r.Int32())
		}
		if flexible {
			r.SkipTags()
		}
		if !r.Ok() {
			return
		}
		t.End = len(f.ForgottenPartitions)
		f.Forgotten = append(f.Forgotten, t)
	}
}

// decodeTags reads the tagged fields at the end: from version 15 on the replica is one of them,
// before that its tag is an unknown one.
func (f *FetchRequest) decodeTags(r *Reader, version int16) {
	for n := r.Uvarint(); n > 0 && r.Ok(); n-- {
		tag := r.Uvarint()
		value := Reader{Src: r.Span(int(r.Uvarint()))}
		if tag == fetchTagReplicaState && version >= 15 {
			if id := value.Int32(); value.Ok() {
				f.ReplicaID = id
			}
		}
	}
}

// reset empties f, keeping its slices unless they have grown beyond what is worth keeping.
func (f *FetchRequest) reset() {
	old := *f
	clear(old.Topics)
	clear(old.Forgotten)
	*f = FetchRequest{ReplicaID: -1, SessionEpoch: -1}
	if cap(old.Topics) <= reusableElements && cap(old.Partitions) <= reusableElements {
		f.Topics, f.Partitions = old.Topics[:0], old.Partitions[:0]
	}
	if cap(old.Forgotten) <= reusableElements && cap(old.ForgottenPartitions) <= reusableElements {
		f.Forgotten, f.ForgottenPartitions = old.Forgotten[:0], old.ForgottenPartitions[:0]
	}
}

// FetchResult is what one partition of a Fetch answer says, without its records.
type FetchResult struct {
	// Index is the number of the partition in its topic.
	Index int32
	// ErrorCode is Kafka's error number, 0 for none.
	ErrorCode int16
	// HighWatermark, LastStableOffset and LogStartOffset are -1 on error.
	HighWatermark, LastStableOffset, LogStartOffset int64
	// HasAborted tells that there is a list of aborted transactions, as read_committed asks for;
	// it is null otherwise.
	HasAborted bool
	// Aborted are the aborted transactions that overlap the records, by first offset.
	Aborted []AbortedTransaction
	// Diverging is set when the client's log differs from this one from its EndOffset on.
	Diverging *EpochEnd
	// Leader is the current leader, when the client asked another one (KIP-951).
	Leader *CurrentLeader
	// RecordBytes is the size of the records that follow.
	RecordBytes int
}

// AbortedTransaction is one entry of the list of aborted transactions.
type AbortedTransaction struct {
	ProducerID, FirstOffset int64
}

// EpochEnd is where the records of an epoch end.
type EpochEnd struct {
	// Epoch is the leader epoch.
	Epoch int32
	// EndOffset is the offset after its last record.
	EndOffset int64
}

// AppendFetchStart appends the start of a Fetch answer.
func AppendFetchStart(
	dst []byte, version, errorCode int16, throttleMillis, session int32, topics int,
) []byte {
	dst = appendInt32(dst, throttleMillis)
	if version >= 7 {
		dst = appendInt16(dst, errorCode)
		dst = appendInt32(dst, session)
	}
	return appendArrayLen(dst, topics, version >= 12)
}

// AppendFetchTopic appends the start of one topic of a Fetch answer. name is used up to version
// 12, id from 13 on.
func AppendFetchTopic(
	dst []byte, version int16, name string, id [16]byte, partitions int,
) []byte {
	if version >= 13 {
		dst = append(dst, id[:]...)
	} else {
		dst = appendString(dst, name, version >= 12)
	}
	return appendArrayLen(dst, partitions, version >= 12)
}

// AppendFetchPartition appends one partition up to its records, whose bytes must follow.
func AppendFetchPartition(dst []byte, version int16, p *FetchResult) []byte {
	flexible := version >= 12
	dst = appendInt32(dst, p.Index)
	dst = appendInt16(dst, p.ErrorCode)
	dst = appendInt64(dst, p.HighWatermark)
	dst = appendInt64(dst, p.LastStableOffset)
	if version >= 5 {
		dst = appendInt64(dst, p.LogStartOffset)
	}
	dst = appendAborted(dst, p, flexible)
	if version >= 11 {
		dst = appendInt32(dst, -1) // preferred read replica: this one
	}
	if flexible {
		return binary.AppendUvarint(dst, uint64(p.RecordBytes)+1)
	}
	return appendInt32(dst, int32(p.RecordBytes))
}

// appendAborted appends the list of aborted transactions.
func appendAborted(dst []byte, p *FetchResult, flexible bool) []byte {
	if !p.HasAborted {
		return appendNullArray(dst, flexible)
	}
	dst = appendArrayLen(dst, len(p.Aborted), flexible)
	for i := range p.Aborted {
		dst = appendInt64(dst, p.Aborted[i].ProducerID)
		dst = appendInt64(dst, p.Aborted[i].FirstOffset)
		if flexible {
			dst = append(dst, 0)
		}
	}
	return dst
}

// AppendFetchPartitionEnd appends what follows the records of a partition.
func AppendFetchPartitionEnd(dst []byte, version int16, p *FetchResult) []byte {
	if version < 12 {
		return dst
	}
	tags := byte(0)
	if p.Diverging != nil {
		tags++
	}
	if p.Leader != nil {
		tags++
	}
	dst = append(dst, tags)
	if d := p.Diverging; d != nil {
		dst = append(dst, 0, 4+8+1)
		dst = appendInt32(dst, d.Epoch)
		dst = appendInt64(dst, d.EndOffset)
		dst = append(dst, 0)
	}
	if p.Leader != nil {
		dst = appendLeader(dst, 1, p.Leader)
	}
	return dst
}

// AppendFetchEnd appends the end of a Fetch answer.
func AppendFetchEnd(dst []byte, version int16, nodes []Endpoint) []byte {
	if version < 12 {
		return dst
	}
	if len(nodes) == 0 || version < 16 {
		return append(dst, 0)
	}
	return appendEndpoints(append(dst, 1), nodes)
}
