package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What the members of our groups speak. The type is that of consumers, so that tools show the
// members, what they own and their lag.
const (
	groupProtocolType = "consumer"
	groupProtocol     = "millstream"
)

// kafkaMember is a member by the classic group protocol, over a client of its own: a join waits for
// all others and would hold up what else the connection has to do.
type kafkaMember struct {
	opts   GroupOptions
	client *kgo.Client
	// rejoin holds a token when a new generation is asked for.
	rejoin chan struct{}
	beats  sync.WaitGroup

	mu struct {
		sync.Mutex
		id         string
		generation int32
		stop       context.CancelFunc // of the heartbeats of this generation
	}
}

var _ Member = (*kafkaMember)(nil)

// Join implements Cluster.
func (k *Kafka) Join(opts GroupOptions) (Member, error) {
	client, err := kgo.NewClient(k.kgo()...)
	if err != nil {
		return nil, fmt.Errorf("make client of group %s: %w", opts.Group, err)
	}
	return &kafkaMember{opts: opts.withDefaults(), client: client, rejoin: make(chan struct{}, 1)}, nil
}

func (m *kafkaMember) Rejoin() {
	select {
	case m.rejoin <- struct{}{}:
	default:
	}
}

// Next implements Member.
func (m *kafkaMember) Next(ctx context.Context) ([]byte, error) {
	m.mu.Lock()
	member := m.mu.stop != nil
	m.mu.Unlock()
	if member {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-m.rejoin:
		}
	}
	for try := 0; ; try++ {
		assignment, err := m.round(ctx)
		switch {
		case err == nil:
			return assignment, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, kerr.FencedInstanceID):
			return nil, fmt.Errorf("join group %s as instance %s: %w: %w", m.opts.Group,
				m.opts.Instance, ErrLost, err)
		case !again(err):
			return nil, fmt.Errorf("join group %s: %w", m.opts.Group, domain(err))
		}
		pause := time.NewTimer(backoff(min(try, 4)))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return nil, ctx.Err()
		}
	}
}

// again tells that another round may work.
func again(err error) bool {
	for _, known := range []error{kerr.UnknownMemberID, kerr.MemberIDRequired, kerr.IllegalGeneration,
		kerr.RebalanceInProgress} {
		if errors.Is(err, known) {
			return true
		}
	}
	return unavailable(err)
}

// round joins and syncs once.
func (m *kafkaMember) round(ctx context.Context) ([]byte, error) {
	m.halt()
	joined, err := m.join(ctx)
	if err != nil {
		return nil, err
	}
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.Generation, sync.MemberID = m.opts.Group, joined.Generation, joined.MemberID
	sync.InstanceID = m.instance()
	sync.ProtocolType, sync.Protocol = kmsg.StringPtr(groupProtocolType), joined.Protocol
	if joined.LeaderID == joined.MemberID && !joined.SkipAssignment {
		if sync.GroupAssignment, err = m.assign(joined); err != nil {
			return nil, err
		}
	}
	resp, err := sync.RequestWith(ctx, m.client)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return nil, err
	}
	var mine kmsg.ConsumerMemberAssignment
	if len(resp.MemberAssignment) > 0 {
		if err := mine.ReadFrom(resp.MemberAssignment); err != nil {
			return nil, fmt.Errorf("read assignment: %w", err)
		}
	}
	m.mu.Lock()
	m.mu.generation = joined.Generation
	beating, stop := context.WithCancel(context.Background())
	m.mu.stop = stop
	m.mu.Unlock()
	m.beats.Go(func() { m.beat(beating) })
	return mine.UserData, nil
}

func (m *kafkaMember) instance() *string {
	if m.opts.Instance == "" {
		return nil
	}
	return &m.opts.Instance
}

func (m *kafkaMember) join(ctx context.Context) (*kmsg.JoinGroupResponse, error) {
	m.mu.Lock()
	id := m.mu.id
	m.mu.Unlock()
	subscription := kmsg.ConsumerMemberMetadata{Topics: m.opts.Topics, UserData: m.opts.Claim()}
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.InstanceID = m.opts.Group, id, m.instance()
	req.SessionTimeoutMillis = int32(m.opts.Session.Milliseconds())
	req.RebalanceTimeoutMillis = int32(m.opts.Rebalance.Milliseconds())
	req.ProtocolType = groupProtocolType
	protocol := kmsg.NewJoinGroupRequestProtocol()
	protocol.Name, protocol.Metadata = groupProtocol, subscription.AppendTo(nil)
	req.Protocols = append(req.Protocols, protocol)
	resp, err := req.RequestWith(ctx, m.client)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case errors.Is(err, kerr.MemberIDRequired), err == nil:
		m.mu.id = resp.MemberID
	case errors.Is(err, kerr.UnknownMemberID):
		m.mu.id = ""
	}
	return resp, err
}

// assign asks the leader's Assign what everybody gets.
func (m *kafkaMember) assign(joined *kmsg.JoinGroupResponse,
) ([]kmsg.SyncGroupRequestGroupAssignment, error) {
	claims := map[string][]byte{}
	for _, member := range joined.Members {
		var said kmsg.ConsumerMemberMetadata
		if err := said.ReadFrom(member.ProtocolMetadata); err != nil {
			return nil, fmt.Errorf("read claim of member %s: %w", member.MemberID, err)
		}
		claims[member.MemberID] = said.UserData
	}
	var all []kmsg.SyncGroupRequestGroupAssignment
	for id, data := range m.opts.Assign(claims) {
		given := kmsg.ConsumerMemberAssignment{UserData: data}
		at := map[string]int{}
		for _, tp := range m.opts.Owned(data) {
			i, ok := at[tp.Topic]
			if !ok {
				i = len(given.Topics)
				at[tp.Topic] = i
				given.Topics = append(given.Topics, kmsg.ConsumerMemberAssignmentTopic{Topic: tp.Topic})
			}
			given.Topics[i].Partitions = append(given.Topics[i].Partitions, tp.Partition)
		}
		one := kmsg.NewSyncGroupRequestGroupAssignment()
		one.MemberID, one.MemberAssignment = id, given.AppendTo(nil)
		all = append(all, one)
	}
	return all, nil
}

// beat tells the group that the member lives, and the member when the group wants it to join again.
func (m *kafkaMember) beat(ctx context.Context) {
	ticker := time.NewTicker(max(m.opts.Session/15, 100*time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		m.mu.Lock()
		req := kmsg.NewPtrHeartbeatRequest()
		req.Group, req.Generation, req.MemberID = m.opts.Group, m.mu.generation, m.mu.id
		req.InstanceID = m.instance()
		m.mu.Unlock()
		resp, err := req.RequestWith(ctx, m.client)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		if err != nil && ctx.Err() == nil && (again(err) || errors.Is(err, kerr.FencedInstanceID)) &&
			!unavailable(err) || errors.Is(err, kerr.RebalanceInProgress) {
			m.Rejoin()
		}
	}
}

// halt ends the heartbeats of the last generation.
func (m *kafkaMember) halt() {
	m.mu.Lock()
	stop := m.mu.stop
	m.mu.Unlock()
	if stop != nil {
		stop()
		m.beats.Wait()
	}
}

// Close implements Member.
func (m *kafkaMember) Close(ctx context.Context, leave bool) {
	m.halt()
	if leave || m.opts.Instance == "" {
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Group = m.opts.Group
		m.mu.Lock()
		req.MemberID = m.mu.id
		one := kmsg.NewLeaveGroupRequestMember()
		one.MemberID, one.InstanceID = m.mu.id, m.instance()
		m.mu.Unlock()
		req.Members = append(req.Members, one)
		_, _ = req.RequestWith(ctx, m.client) // or the session ends by itself
	}
	m.client.Close()
}
