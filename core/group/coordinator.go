package group

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/millstream-io/millstream/core/coordinator"
	"github.com/millstream-io/millstream/core/group/classic"
	"github.com/millstream-io/millstream/core/record"
)

// TopicName is the topic in which groups and offsets are kept.
const TopicName = "__consumer_offsets"

// Coordinator answers for the groups whose shards this node leads. Its methods wait for their
// answer, for no longer than ctx; a JoinGroup or SyncGroup that is abandoned so still happens.
// Failures are codes in the answers. Make it with New, end it with Close.
type Coordinator struct {
	opts       Options
	runtime    *coordinator.Runtime
	partitions atomic.Int32
	settings   atomic.Pointer[Settings] // the present ones, with defaults
	count      Counters
}

// New makes a coordinator that leads no shard yet.
func New(opts Options) (*Coordinator, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, fmt.Errorf("create group coordinator: %w", err)
	}
	c := &Coordinator{opts: opts}
	c.partitions.Store(opts.Partitions)
	c.settings.Store(&opts.Settings)
	c.runtime = coordinator.New(coordinator.Options{
		Log: opts.Log,
		NewMachine: func(shard int32) coordinator.Machine {
			m := newMachine(&c.opts, c.settings.Load)
			m.count, m.share = &c.count, c.count.groups.Begin(shard)
			return m
		},
		Now:           opts.Now,
		Logger:        opts.Logger,
		AppendTimeout: opts.CommitTimeout,
	})
	return c, nil
}

// Close ends the coordinator; whatever waits is answered with NOT_COORDINATOR.
func (c *Coordinator) Close() { c.runtime.Close() }

// UpdateLeadership says how many partitions TopicName has (0 if it does not exist yet) and which of
// them this node leads, with the leader epoch of each. Shards that are new, or have a new epoch,
// load in the background; those that are missing end. Call it whenever the metadata changes.
func (c *Coordinator) UpdateLeadership(partitions int32, leading map[int32]int32) {
	if partitions > 0 {
		c.partitions.Store(partitions)
	}
	c.runtime.LeadOnly(leading)
}

// PartitionFor is the partition of TopicName, and so the shard, that a group belongs to.
func (c *Coordinator) PartitionFor(groupID string) int32 {
	return coordinator.PartitionFor(groupID, c.partitions.Load())
}

// call sends in to a shard and waits for an answer of type T.
func call[T any](ctx context.Context, c *Coordinator, shard int32, in any) (T, ErrorCode) {
	out, code := c.runtime.Ask(ctx, shard, in)
	if code != coordinator.CodeNone {
		var none T
		return none, code
	}
	return out.(T), code
}

// Join handles JoinGroup; it waits until the rebalance is over. NewID is filled in if it is empty.
func (c *Coordinator) Join(ctx context.Context, req JoinRequest) JoinResponse {
	if req.MemberID == "" && req.NewID == "" {
		req.NewID = c.opts.NewID()
	}
	resp, code := call[JoinResponse](ctx, c, c.PartitionFor(req.GroupID), &req)
	if code != coordinator.CodeNone {
		return JoinResponse{Code: code, Generation: -1, MemberID: req.MemberID}
	}
	return resp
}

// Sync handles SyncGroup; it waits for the leader.
func (c *Coordinator) Sync(ctx context.Context, req SyncRequest) SyncResponse {
	resp, code := call[SyncResponse](ctx, c, c.PartitionFor(req.GroupID), &req)
	if code != coordinator.CodeNone {
		return SyncResponse{Code: code}
	}
	return resp
}

// Heartbeat handles Heartbeat. While the group is being loaded it is accepted blindly, as Kafka
// does: the member's session begins anew when the group is there.
func (c *Coordinator) Heartbeat(ctx context.Context, req HeartbeatRequest) HeartbeatResponse {
	resp, code := call[HeartbeatResponse](ctx, c, c.PartitionFor(req.GroupID), &req)
	switch code {
	case coordinator.CodeNone:
		return resp
	case coordinator.CodeCoordinatorLoadInProgress:
		return HeartbeatResponse{}
	}
	return HeartbeatResponse{Code: code}
}

// Leave handles LeaveGroup.
func (c *Coordinator) Leave(ctx context.Context, req LeaveRequest) LeaveResponse {
	resp, code := call[LeaveResponse](ctx, c, c.PartitionFor(req.GroupID), &req)
	if code != coordinator.CodeNone {
		return LeaveResponse{Code: code}
	}
	return resp
}

// ConsumerHeartbeat handles ConsumerGroupHeartbeat. NewID is filled in if it is empty.
func (c *Coordinator) ConsumerHeartbeat(ctx context.Context, req ConsumerHeartbeatRequest,
) ConsumerHeartbeatResponse {
	if req.MemberID == "" && req.NewID == "" {
		req.NewID = c.opts.NewID()
	}
	shard := c.PartitionFor(req.GroupID)
	resp, code := call[ConsumerHeartbeatResponse](ctx, c, shard, &req)
	if code != coordinator.CodeNone {
		return ConsumerHeartbeatResponse{Code: code}
	}
	return resp
}

// DescribeConsumer handles ConsumerGroupDescribe for one group.
func (c *Coordinator) DescribeConsumer(ctx context.Context, groupID string,
) DescribeConsumerResponse {
	in := describeConsumerInput{groupID}
	resp, code := call[DescribeConsumerResponse](ctx, c, c.PartitionFor(groupID), in)
	if code != coordinator.CodeNone {
		resp = DescribeConsumerResponse{Code: code}
		resp.GroupID = groupID
	}
	return resp
}

// CommitOffsets handles OffsetCommit; whether the topics exist is the caller's to check.
func (c *Coordinator) CommitOffsets(ctx context.Context, req CommitRequest) CommitResponse {
	resp, code := call[CommitResponse](ctx, c, c.PartitionFor(req.GroupID), &req)
	if code != coordinator.CodeNone {
		return commitRefused(&req, code)
	}
	c.count.committed(resp.Codes)
	return resp
}

// CommitTransactionOffsets handles TxnOffsetCommit: the offsets count once the transaction's marker
// says so. Whether the topics exist, and whether the producer has this transaction open, is the
// caller's to check.
func (c *Coordinator) CommitTransactionOffsets(ctx context.Context, req TxnCommitRequest,
) CommitResponse {
	resp, code := call[CommitResponse](ctx, c, c.PartitionFor(req.GroupID), &req)
	if code != coordinator.CodeNone {
		return commitRefused(&CommitRequest{Offsets: req.Offsets}, code)
	}
	c.count.committed(resp.Codes)
	return resp
}

// WriteMarker ends a producer's transaction in a partition of TopicName, and returns when that is
// durable. A marker that was written before is written again, which changes nothing.
func (c *Coordinator) WriteMarker(ctx context.Context, partition int32, m record.ControlOptions,
	transactionVersion int16,
) ErrorCode {
	in := &markerInput{marker: m, transactionVersion: transactionVersion}
	resp, code := call[codeOnly](ctx, c, partition, in)
	if code != coordinator.CodeNone {
		return code
	}
	return resp.code
}

// FetchOffsets handles OffsetFetch for one group.
func (c *Coordinator) FetchOffsets(ctx context.Context, req FetchRequest) FetchResponse {
	resp, code := call[FetchResponse](ctx, c, c.PartitionFor(req.GroupID), &req)
	if code != coordinator.CodeNone {
		return FetchResponse{Code: code}
	}
	return resp
}

// DeleteOffsets handles OffsetDelete.
func (c *Coordinator) DeleteOffsets(ctx context.Context, req DeleteOffsetsRequest,
) DeleteOffsetsResponse {
	shard := c.PartitionFor(req.GroupID)
	resp, code := call[DeleteOffsetsResponse](ctx, c, shard, &req)
	if code != coordinator.CodeNone {
		return DeleteOffsetsResponse{Code: code}
	}
	return resp
}

// Describe handles DescribeGroups for one group.
func (c *Coordinator) Describe(ctx context.Context, groupID string) DescribeResponse {
	in := describeInput{groupID}
	resp, code := call[DescribeResponse](ctx, c, c.PartitionFor(groupID), in)
	if code != coordinator.CodeNone {
		resp = DescribeResponse{Code: code}
		resp.GroupID, resp.State = groupID, classic.Dead
	}
	return resp
}

// Delete handles DeleteGroups for one group.
func (c *Coordinator) Delete(ctx context.Context, groupID string) ErrorCode {
	in := deleteInput{groupID}
	resp, code := call[codeOnly](ctx, c, c.PartitionFor(groupID), in)
	if code != coordinator.CodeNone {
		return code
	}
	return resp.code
}

// List handles ListGroups. A shard that is still loading makes the whole list fail with its code,
// as a list that silently lacks groups would mislead.
func (c *Coordinator) List(ctx context.Context, req ListRequest) ListResponse {
	var all ListResponse
	for shard := range c.runtime.Leading() {
		resp, code := call[ListResponse](ctx, c, shard, listInput{req})
		if code == coordinator.CodeNotCoordinator {
			continue // resigned meanwhile: its groups are listed elsewhere
		}
		if code != coordinator.CodeNone {
			return ListResponse{Code: code}
		}
		all.Groups = append(all.Groups, resp.Groups...)
	}
	sortGroups(all.Groups)
	return all
}

// TopicsDeleted takes away the committed offsets of topics that were deleted, so that topics of the
// same name made later do not inherit them. Call it once for a deletion, with names that are really
// gone: it does not look.
func (c *Coordinator) TopicsDeleted(ctx context.Context, topics []string) ErrorCode {
	worst := coordinator.CodeNone
	for shard := range c.runtime.Leading() {
		in := topicsDeletedInput{topics}
		resp, code := call[codeOnly](ctx, c, shard, in)
		if code == coordinator.CodeNone {
			code = resp.code
		}
		if code != coordinator.CodeNone {
			worst = code
		}
	}
	return worst
}

func commitRefused(req *CommitRequest, code ErrorCode) CommitResponse {
	codes := make([]ErrorCode, len(req.Offsets))
	for i := range codes {
		codes[i] = code
	}
	return CommitResponse{Codes: codes}
}
